//! Copying a file, or a directory with all that is in it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, chmodat, fchmod, fstat, mkdirat, readlinkat, symlinkat,
    unlinkat,
};
use rustix::io::Errno;

use super::content::Content;
use super::descent::Descent;
use super::directory::{entries, mode_of, open};
use super::place::{kind, pass};
use super::replace::{NewFile, replace};
use super::stat::{Identity, mode};
use super::write::{Refusal, Terms};
use super::{Place, trimmed};
use crate::error::{Error, ErrorKind, Result};

/// Copies what stands at a path; a symbolic link as one. Modes are kept. A file takes the place of
/// what has that name, a directory is filled up.
///
/// # Errors
/// `EISDIR` for a directory without `recursive`, `EINVAL` for a copy into or onto itself, and the
/// errno of whatever failed. The copy of a tree ends there; what has been copied stays.
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
    mode: u32,
}

/// The way down into both trees.
struct Trees {
    from: Descent,
    to: Descent,
    tasks: Vec<Task>,
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
        let is_same = |other: &Stat| Identity::of(other).is_same_file(&Identity::of(&stat));
        if target.stat().map_err(|error| self.refused(&error))?.as_ref().is_some_and(is_same) {
            return Err(self.because(Errno::INVAL, "they are the same file"));
        }
        copy_one(&source, &target, &stat).map_err(|refusal| refusal.about("copy", self.from))
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
            };
            trees.enter(&source.name, target.name)?;
            Ok(Some(trees))
        };
        let inside = "the copy would be within what is copied";
        let trees = begin().map_err(|error| self.refused(&error))?;
        let mut trees = trees.ok_or_else(|| self.because(Errno::INVAL, inside))?;
        while let Some(task) = trees.tasks.last_mut() {
            match task.left.pop() {
                Some((name, _)) => {
                    let name = OsString::from_vec(name);
                    let path = trees.from.path(self.from, &name);
                    trees.entry(name).map_err(|refusal| refusal.about("copy", &path))?;
                }
                None => trees.leave().map_err(|error| self.refused(&error))?,
            }
        }
        Ok(())
    }

    fn refused(&self, error: &io::Error) -> Error {
        Error::io(error, format_args!("cannot copy {:?} to {:?}", self.from, self.to))
    }

    fn because(&self, errno: Errno, why: &str) -> Error {
        let Self { from, to, .. } = self;
        let kind = ErrorKind::Os(errno.raw_os_error());
        Error::new(kind, format!("cannot copy {from:?} to {to:?}: {why}"))
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
    fn entry(&mut self, name: OsString) -> Result<(), Refusal> {
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
        // Its own mode may forbid to fill it, so it gets that when it is left.
        match mkdirat(self.to.here()?, &new_name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let to = open(self.to.here()?, &new_name, OFlags::NOFOLLOW)?;
        let left = entries(from.as_fd())?;
        self.from.enter(from, name.to_owned())?;
        self.to.enter(to, new_name)?;
        self.tasks.push(Task { left, mode: mode(&stat) });
        Ok(())
    }

    fn leave(&mut self) -> io::Result<()> {
        if let Some(task) = self.tasks.pop() {
            fchmod(self.to.here()?, mode_of(task.mode))?;
        }
        self.from.leave()?;
        self.to.leave()?;
        Ok(())
    }
}

/// Copies what is no directory.
fn copy_one(source: &Place, target: &Place, stat: &Stat) -> Result<(), Refusal> {
    match kind(stat) {
        FileType::RegularFile => copy_file(source, target),
        FileType::Symlink => {
            let link = readlinkat(&source.directory, &source.name, Vec::new())?;
            anew(target, || symlinkat(link.as_c_str(), &target.directory, &target.name))
        }
        _ => anew(target, || make_special(target, stat)),
    }
}

/// Makes something that cannot be renamed into its place, in place of what has that name.
fn anew(target: &Place, make: impl Fn() -> Result<(), Errno>) -> Result<(), Refusal> {
    match make() {
        Err(Errno::EXIST) => {
            unlinkat(&target.directory, &target.name, AtFlags::empty())?;
            Ok(make()?)
        }
        outcome => Ok(outcome?),
    }
}

#[cfg(target_os = "linux")]
fn make_special(target: &Place, stat: &Stat) -> Result<(), Errno> {
    use rustix::fs::mknodat;
    let Place { directory, name } = target;
    mknodat(directory, name, kind(stat), mode_of(mode(stat)), stat.st_rdev)?;
    chmodat(directory, name, mode_of(mode(stat)), AtFlags::empty())
}

#[cfg(not(target_os = "linux"))]
fn make_special(_target: &Place, _stat: &Stat) -> Result<(), Errno> {
    Err(Errno::NOTSUP)
}

fn copy_file(source: &Place, target: &Place) -> Result<(), Refusal> {
    let file = File::from(source.open(OFlags::RDONLY)?);
    let stat = fstat(&file)?;
    if kind(&stat) != FileType::RegularFile {
        return Err(Refusal::NotAFile("it is no regular file any more"));
    }
    let terms = Terms::default();
    let copied = replace(target, Content::Of(&file), NewFile::CopyOf(&stat), &terms)?;
    if !copied.atomic {
        let mode = mode_of(mode(&stat) & 0o777);
        chmodat(&target.directory, &target.name, mode, AtFlags::empty())?;
    }
    Ok(())
}
