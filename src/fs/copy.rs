//! Copying a file, or a directory with all that is in it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, fchmod, fstat, mkdirat, readlinkat, renameat, symlinkat,
    unlinkat,
};
use rustix::io::Errno;

use super::claim::Claim;
use super::content::{Content, goes_on};
use super::descent::Descent;
use super::directory::{entries, mode_of, open};
use super::place::{kind, pass};
use super::replace::{NewFile, copied_mode, give_mode, replace};
use super::staged::is_ours;
use super::stat::{Identity, mode};
use super::write::{MOST_ATTEMPTS, Refusal, Terms, may_be_written, reserved};
use super::{Place, is_marked_directory, trimmed};
use crate::error::{Error, ErrorKind, Result};
use crate::gate;

/// Copies what stands at a path; a symbolic link as one. Modes are kept. A file gets the content and
/// the mode, and keeps what else it is; a directory is filled up; a link is replaced.
///
/// # Errors
/// `EISDIR` for a directory without `recursive`, `EINVAL` for a copy into or onto itself, `NotAFile`
/// for one onto a FIFO, a socket or a device, and the errno of whatever failed. The copy of a tree
/// ends there; what has been copied stays.
pub(crate) fn copy(from: &Path, to: &Path, recursive: bool) -> Result<()> {
    Copy { from, to, recursive }.run()
}

struct Copy<'a> {
    from: &'a Path,
    to: &'a Path,
    recursive: bool,
}

/// A directory that is being copied.
struct Task {
    left: Vec<(Vec<u8>, FileType)>,
    /// What its copy has to get, if that is new.
    source: Option<Stat>,
}

/// The way down into both trees.
struct Trees {
    from: Descent,
    to: Descent,
    tasks: Vec<Task>,
    /// The top of the copy, which must not be copied itself: it may be seen through a mount.
    top: Option<Identity>,
}

impl Copy<'_> {
    fn run(&self) -> Result<()> {
        let (source, target) = self.places().map_err(|error| self.refused(&error))?;
        let stat = source.stat().and_then(|stat| stat.ok_or_else(|| Errno::NOENT.into()));
        let stat = stat.map_err(|error| self.refused(&error))?;
        if kind(&stat) == FileType::Directory {
            if !self.recursive {
                return Err(self.because(Errno::ISDIR, "it is a directory (recursive copies it)"));
            }
            return self.tree(source, target, &stat);
        }
        if [self.from, self.to].iter().any(|path| is_marked_directory(path)) {
            return Err(self.because(Errno::NOTDIR, "a slash at the end means a directory"));
        }
        let onto = target.stat().ok().flatten();
        if onto.is_some_and(|onto| Identity::of(&onto).is_same_file(&Identity::of(&stat))) {
            return Err(self.because(Errno::INVAL, "they are the same file"));
        }
        copy_one(&source, &target, &stat).map_err(|refusal| self.failed(refusal))
    }

    /// Where both stand. (`.` and the like have a real name to be copied under.)
    fn places(&self) -> io::Result<(Place, Place)> {
        let place = |path: &Path| match Place::of(trimmed(path)) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::ISDIR) => {
                Place::of(&std::fs::canonicalize(path)?)
            }
            place => place,
        };
        Ok((place(self.from)?, place(self.to)?))
    }

    fn tree(&self, source: Place, target: Place, stat: &Stat) -> Result<()> {
        let begin = || -> io::Result<Option<Trees>> {
            if is_within(&target, stat)? {
                return Ok(None);
            }
            let mut trees = Trees {
                from: Descent::new(source.directory)?,
                to: Descent::new(target.directory)?,
                tasks: Vec::new(),
                top: None,
            };
            trees.enter(&source.name, target.name)?;
            Ok(Some(trees))
        };
        let inside = "the copy would be within what is copied";
        let trees = begin().map_err(|error| self.refused(&error))?;
        let mut trees = trees.ok_or_else(|| self.because(Errno::INVAL, inside))?;
        let copied = trees.copy().map_err(|(refusal, name)| match name {
            Some(path) => refusal.about("copy", &self.from.join(path)),
            None => self.failed(refusal),
        });
        // Also after a failure: what was made to be filled gets the mode that it is to have.
        while !trees.tasks.is_empty() {
            trees.leave().map_err(|error| self.refused(&error))?;
        }
        copied
    }

    fn refused(&self, error: &io::Error) -> Error {
        Error::io(error, format_args!("cannot copy {:?} to {:?}", self.from, self.to))
    }

    fn because(&self, errno: Errno, why: &str) -> Error {
        let Self { from, to, .. } = self;
        let kind = ErrorKind::Os(errno.raw_os_error());
        Error::new(kind, format!("cannot copy {from:?} to {to:?}: {why}"))
    }

    fn failed(&self, refusal: Refusal) -> Error {
        match refusal {
            Refusal::Io(error) => self.refused(&error),
            refusal => refusal.about("copy to", self.to),
        }
    }
}

/// Whether a place is in a directory, however deep, or is it.
fn is_within(place: &Place, directory: &Stat) -> io::Result<bool> {
    let sought = Identity::of(directory);
    if place.stat()?.is_some_and(|stat| Identity::of(&stat).is_same_file(&sought)) {
        return Ok(true);
    }
    let mut above = place.directory.try_clone()?;
    loop {
        let here = Identity::of(&fstat(&above)?);
        if here.is_same_file(&sought) {
            return Ok(true);
        }
        above = pass(&above, Path::new(".."))?;
        if Identity::of(&fstat(&above)?).is_same_file(&here) {
            return Ok(false);
        }
    }
}

impl Trees {
    /// Copies all that is left. What failed is told by its path in the tree.
    fn copy(&mut self) -> Result<(), (Refusal, Option<PathBuf>)> {
        while let Some(task) = self.tasks.last_mut() {
            match task.left.pop() {
                // Somebody's on the way to another place.
                Some((name, FileType::RegularFile)) if is_ours(&name) => {}
                Some((name, _)) => {
                    let name = OsString::from_vec(name);
                    let path = self.from.path(Path::new(""), &name);
                    self.entry(name).map_err(|refusal| (refusal, Some(path)))?;
                }
                None => self.leave().map_err(|error| (error.into(), None))?,
            }
        }
        Ok(())
    }

    fn entry(&mut self, name: OsString) -> Result<(), Refusal> {
        goes_on()?;
        let place = |directory: BorrowedFd<'_>| -> io::Result<Place> {
            Ok(Place { directory: directory.try_clone_to_owned()?, name: name.clone() })
        };
        let source = place(self.from.here()?)?;
        // Gone since the directory was read.
        let Some(stat) = source.stat()? else { return Ok(()) };
        if kind(&stat) == FileType::Directory {
            return Ok(self.enter(&name.clone(), name)?);
        }
        copy_one(&source, &place(self.to.here()?)?, &stat)
    }

    fn enter(&mut self, name: &OsStr, new_name: OsString) -> io::Result<()> {
        let from = open(self.from.here()?, name, OFlags::NOFOLLOW)?;
        let stat = fstat(&from)?;
        if self.top.is_some_and(|top| top.is_same_file(&Identity::of(&stat))) {
            return Err(Errno::INVAL.into());
        }
        // Its own mode may forbid to fill it, so it gets that when it is left.
        let is_new = match mkdirat(self.to.here()?, &new_name, Mode::RWXU) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(errno.into()),
        };
        let to = open(self.to.here()?, &new_name, OFlags::NOFOLLOW)?;
        self.top.get_or_insert(Identity::of(&fstat(&to)?));
        let left = entries(from.as_fd())?;
        self.from.enter(from, name.to_owned())?;
        self.to.enter(to, new_name)?;
        self.tasks.push(Task { left, source: is_new.then_some(stat) });
        Ok(())
    }

    fn leave(&mut self) -> io::Result<()> {
        let source = self.tasks.pop().and_then(|task| task.source);
        // (Who was kept outside, where a file's content is written, changes no directory either.)
        if let Some(source) = source.filter(|_| gate::is_inside()) {
            let here = self.to.here()?;
            let own = fstat(here)?;
            // What a directory passes on to those in it (setgid), they keep.
            let passed_on = mode(&own) & 0o2000;
            let wanted = copied_mode(&source, &own) | passed_on;
            if wanted != mode(&own) {
                // A file system that knows no modes copies all the same.
                let _ = fchmod(here, mode_of(wanted));
            }
        }
        self.from.leave()?;
        self.to.leave()?;
        Ok(())
    }
}

/// Copies what is no directory.
fn copy_one(source: &Place, target: &Place, stat: &Stat) -> Result<(), Refusal> {
    reserved(target)?;
    let old = target.stat()?;
    match old.as_ref().map(kind) {
        None | Some(FileType::RegularFile | FileType::Symlink) => {}
        Some(FileType::Directory) => return Err(Refusal::Directory),
        Some(_) => return Err(Refusal::NotAFile("something stands there that is no file")),
    }
    match kind(stat) {
        FileType::RegularFile => copy_file(source, target, old.as_ref()),
        FileType::Symlink => {
            let link = readlinkat(&source.directory, &source.name, Vec::new())?;
            if old.is_some_and(|old| source.leads_through(&old)) {
                return Err(Refusal::Invalid("the link leads to what it would replace"));
            }
            anew(target, |name| symlinkat(link.as_c_str(), &target.directory, name))
        }
        _ => anew(target, |name| make_special(target, name, stat)),
    }
}

/// Makes something under a name of its own, and gives it its place in one step.
fn anew(target: &Place, make: impl Fn(&OsStr) -> Result<(), Errno>) -> Result<(), Refusal> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = OsString::from(format!(".ta-tmp-{}-{number}", std::process::id()));
    let _claim = Claim::of_name(target)?;
    let placed = make(&name)
        .and_then(|()| renameat(&target.directory, &name, &target.directory, &target.name));
    // (If there is something of that name already it is not of this making.)
    if placed.is_err() && placed != Err(Errno::EXIST) {
        let _ = unlinkat(&target.directory, &name, AtFlags::empty());
    }
    Ok(placed?)
}

#[cfg(target_os = "linux")]
fn make_special(target: &Place, name: &OsStr, stat: &Stat) -> Result<(), Errno> {
    use rustix::fs::{chmodat, mknodat};
    mknodat(&target.directory, name, kind(stat), mode_of(mode(stat)), stat.st_rdev)?;
    // (Less the umask so far. It is nobody's yet, and no link.)
    chmodat(&target.directory, name, mode_of(mode(stat) & 0o1777), AtFlags::empty())
}

#[cfg(not(target_os = "linux"))]
fn make_special(_target: &Place, _name: &OsStr, _stat: &Stat) -> Result<(), Errno> {
    Err(Errno::NOTSUP)
}

fn copy_file(source: &Place, target: &Place, old: Option<&Stat>) -> Result<(), Refusal> {
    let file = File::from(source.open(OFlags::RDONLY)?);
    let stat = fstat(&file)?;
    if kind(&stat) != FileType::RegularFile {
        return Err(Refusal::NotAFile("it is no regular file any more"));
    }
    if old.is_some_and(|old| kind(old) == FileType::RegularFile) {
        may_be_written(target)?;
    }
    let terms = Terms::default();
    let mut attempts = 0;
    let copied = loop {
        attempts += 1;
        match replace(target, Content::Of(&file), NewFile::CopyOf(&stat), &terms) {
            Err(Refusal::Again) if attempts < MOST_ATTEMPTS => {}
            outcome => break outcome?,
        }
    };
    if !copied.atomic
        && let Ok(written) = target.open(OFlags::WRONLY)
    {
        // Whoever does not own it cannot change its mode.
        let _ = give_mode(&File::from(written), mode(&stat) & 0o777);
    }
    Ok(())
}
