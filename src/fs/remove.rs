//! Removing a file, or a directory with all that is in it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, OFlags, fstat, statat, unlinkat};
use rustix::io::Errno;

use super::claim::Claim;
use super::content::goes_on;
use super::descent::Descent;
use super::directory::{entries, open};
use super::place::{kind, pass};
use super::stat::Identity;
use super::{Place, is_marked_directory, refused, refused_as, trimmed};
use crate::error::{Error, ErrorKind, Result};

/// How often a directory that is filled while it is emptied is emptied again.
const ROUNDS: u32 = 8;

/// Removes what stands at a path; never what a symbolic link leads to. An empty directory needs no
/// `recursive`. `cwd`, the directories above it and `/` are refused.
///
/// # Errors
/// `EPERM` for what is refused, `ENOTEMPTY`, and the errno of unlink(2) and rmdir(2). What can be
/// removed of a tree is removed all the same; the error is the first.
pub(crate) fn remove(path: &Path, recursive: bool, force: bool, cwd: &Path) -> Result<()> {
    match remove_one(path, recursive, cwd) {
        Err(error) if force && is_missing(&error, path) => Ok(()),
        outcome => outcome,
    }
}

/// Whether there is nothing to remove. (What is there, and is no directory although a slash says
/// so, is not missing.)
fn is_missing(error: &Error, path: &Path) -> bool {
    let is = |errno: Errno| *error.kind() == ErrorKind::Os(errno.raw_os_error());
    let stands_there = || statat(CWD, trimmed(path), AtFlags::SYMLINK_NOFOLLOW).is_ok();
    is(Errno::NOENT) || (is(Errno::NOTDIR) && !stands_there())
}

fn remove_one(path: &Path, recursive: bool, cwd: &Path) -> Result<()> {
    let fail = |error: io::Error| refused(&error, "remove", path);
    let place = match Place::of(trimmed(path)) {
        Ok(place) => place,
        Err(error) if Errno::from_io_error(&error) == Some(Errno::ISDIR) => {
            return Err(unnamed(path, cwd));
        }
        Err(error) => return Err(fail(error)),
    };
    let _claim = Claim::of_name(&place).map_err(fail)?;
    let stat = place.stat().map_err(fail)?.ok_or_else(|| fail(Errno::NOENT.into()))?;
    if kind(&stat) != FileType::Directory {
        if is_marked_directory(path) {
            return Err(fail(Errno::NOTDIR.into()));
        }
        return unlinkat(&place.directory, &place.name, AtFlags::empty())
            .map_err(|errno| fail(errno.into()));
    }
    let spared = Spared::new(cwd).map_err(fail)?;
    if spared.contains(&Identity::of(&stat)) {
        return Err(protected(path));
    }
    if !recursive {
        return unlinkat(&place.directory, &place.name, AtFlags::REMOVEDIR)
            .map_err(|errno| fail(errno.into()));
    }
    Removal::new(path, place.directory, spared).and_then(|removal| removal.run(&place.name))
}

fn protected(path: &Path) -> Error {
    let why = "the server works there (it is /, the server's cwd, or a directory above it)";
    refused_as(Errno::PERM.raw_os_error(), "remove", path, why)
}

/// `/`, and what ends in `.` or `..`: it has no name that could be removed.
fn unnamed(path: &Path, cwd: &Path) -> Error {
    let directory = match pass(CWD, path).and_then(|directory| Ok(fstat(&directory)?)) {
        Ok(directory) => Identity::of(&directory),
        Err(error) => return refused(&error, "remove", path),
    };
    match Spared::new(cwd) {
        Ok(spared) if spared.contains(&directory) => protected(path),
        _ => {
            let why = "a path that ends in . or .. names no entry of a directory";
            refused_as(Errno::INVAL.raw_os_error(), "remove", path, why)
        }
    }
}

/// What is never removed: the working directory and those above it, under whatever name.
struct Spared(Vec<Identity>);

impl Spared {
    fn new(cwd: &Path) -> io::Result<Self> {
        let mut spared = Vec::new();
        // What cannot be reached any more (removed by somebody else, or closed to this user) is
        // not to be reached by a removal either.
        let mut next = pass(CWD, cwd);
        while let Ok(directory) = next {
            let identity = Identity::of(&fstat(&directory)?);
            if spared.last().is_some_and(|below: &Identity| below.is_same_file(&identity)) {
                break;
            }
            spared.push(identity);
            next = pass(&directory, Path::new(".."));
        }
        spared.push(Identity::of(&fstat(pass(CWD, Path::new("/"))?)?));
        Ok(Self(spared))
    }

    fn contains(&self, identity: &Identity) -> bool {
        self.0.iter().any(|spared| spared.is_same_file(identity))
    }
}

/// A tree that is being removed, without a step that could be led out of it: every name is removed
/// from an open directory, and none that is a symbolic link is opened.
struct Removal<'a> {
    top: &'a Path,
    descent: Descent,
    /// One for each directory below the one that `top` is in.
    tasks: Vec<Task>,
    spared: Spared,
    first_error: Option<Error>,
}

struct Task {
    left: Vec<(Vec<u8>, FileType)>,
    rounds: u32,
    /// Something in it stays.
    failed: bool,
}

impl<'a> Removal<'a> {
    fn new(top: &'a Path, parent: OwnedFd, spared: Spared) -> Result<Self> {
        let descent = Descent::new(parent).map_err(|error| refused(&error, "remove", top))?;
        Ok(Self { top, descent, tasks: Vec::new(), spared, first_error: None })
    }

    fn run(mut self, name: &OsStr) -> Result<()> {
        self.directory(name, 0);
        while let Some(task) = self.tasks.last_mut() {
            if let Err(error) = goes_on() {
                self.fail(&error, self.top);
                break;
            }
            match task.left.pop() {
                Some((name, kind)) => self.entry(OsStr::from_bytes(&name), kind),
                None => {
                    if let Err(error) = self.leave() {
                        self.fail(&error, self.top);
                        break;
                    }
                }
            }
        }
        self.first_error.map_or(Ok(()), Err)
    }

    fn entry(&mut self, name: &OsStr, kind: FileType) {
        if kind == FileType::Directory {
            return self.directory(name, 0);
        }
        match self.unlink(name, AtFlags::empty()) {
            Ok(()) => {}
            // It has become a directory, or its kind was not told.
            Err(Errno::ISDIR) => self.directory(name, 0),
            Err(errno) => self.fail(&errno.into(), &self.path(name)),
        }
    }

    /// Goes down into a directory, or removes it at once where it cannot be read.
    fn directory(&mut self, name: &OsStr, rounds: u32) {
        match self.enter(name, rounds) {
            Ok(()) => {}
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::NOENT) => {}
                // It is no directory any more.
                Some(Errno::NOTDIR | Errno::LOOP) => {
                    if let Err(errno) = self.unlink(name, AtFlags::empty()) {
                        self.fail(&errno.into(), &self.path(name));
                    }
                }
                _ => {
                    if self.unlink(name, AtFlags::REMOVEDIR).is_err() {
                        self.fail(&error, &self.path(name));
                    }
                }
            },
        }
    }

    fn enter(&mut self, name: &OsStr, rounds: u32) -> io::Result<()> {
        let directory = open(self.descent.here()?, name, OFlags::NOFOLLOW)?;
        if self.spared.contains(&Identity::of(&fstat(&directory)?)) {
            return Err(Errno::PERM.into());
        }
        let left = entries(directory.as_fd())?;
        self.descent.enter(directory, name.to_owned())?;
        self.tasks.push(Task { left, rounds, failed: false });
        Ok(())
    }

    /// Goes up from a directory that has been emptied, and removes it.
    fn leave(&mut self) -> io::Result<()> {
        let Some(task) = self.tasks.pop() else { return Ok(()) };
        let name = self.descent.leave()?;
        if task.failed {
            self.fail_here();
            return Ok(());
        }
        match self.unlink(&name, AtFlags::REMOVEDIR) {
            Ok(()) => {}
            Err(Errno::NOTEMPTY | Errno::EXIST) if task.rounds < ROUNDS => {
                self.directory(&name, task.rounds + 1);
            }
            Err(errno) => self.fail(&errno.into(), &self.path(&name)),
        }
        Ok(())
    }

    /// What is gone already is fine.
    fn unlink(&self, name: &OsStr, flags: AtFlags) -> Result<(), Errno> {
        let here = self.descent.here().map_err(|_| Errno::BADF)?;
        match unlinkat(here, name, flags) {
            Err(Errno::NOENT) => Ok(()),
            // How macOS and POSIX say that it is a directory.
            #[cfg(not(target_os = "linux"))]
            Err(Errno::PERM) if flags.is_empty() => Err(Errno::ISDIR),
            outcome => outcome,
        }
    }

    fn path(&self, name: &OsStr) -> PathBuf {
        self.descent.path(self.top, name)
    }

    fn fail(&mut self, error: &io::Error, path: &Path) {
        self.fail_here();
        self.first_error.get_or_insert_with(|| refused(error, "remove", path));
    }

    fn fail_here(&mut self) {
        if let Some(task) = self.tasks.last_mut() {
            task.failed = true;
        }
    }
}
