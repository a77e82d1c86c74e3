//! The way down into a tree: the directories from its top to where one is. However deep that is,
//! only the lowest few are kept open; the others are found again from below, by `..`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::fstat;
use rustix::io::Errno;

use super::place::pass;
use super::stat::Identity;

/// How many are kept open.
const OPEN: usize = 16;

struct Level {
    name: OsString,
    identity: Identity,
    /// `None` where it has been closed for those below it.
    directory: Option<OwnedFd>,
}

/// A stack of open directories. There is always one.
pub(super) struct Descent {
    levels: Vec<Level>,
}

impl Descent {
    /// Starts in a directory.
    pub(super) fn new(directory: OwnedFd) -> io::Result<Self> {
        let mut descent = Self { levels: Vec::new() };
        descent.enter(directory, OsString::new())?;
        Ok(descent)
    }

    /// Goes down into a directory of that name.
    pub(super) fn enter(&mut self, directory: OwnedFd, name: OsString) -> io::Result<()> {
        let identity = Identity::of(&fstat(&directory)?);
        self.levels.push(Level { name, identity, directory: Some(directory) });
        if let Some(high) = self.levels.len().checked_sub(OPEN + 1) {
            self.levels[high].directory = None;
        }
        Ok(())
    }

    /// Where one is.
    ///
    /// # Errors
    /// None in practice: the lowest one is always open.
    pub(super) fn here(&self) -> io::Result<BorrowedFd<'_>> {
        let directory = self.levels.last().and_then(|level| level.directory.as_ref());
        directory.map(AsFd::as_fd).ok_or_else(|| Errno::BADF.into())
    }

    /// Goes up again, and answers the name of what was left.
    ///
    /// # Errors
    /// `ESTALE` where the directory has been moved elsewhere meanwhile.
    pub(super) fn leave(&mut self) -> io::Result<OsString> {
        let Some(left) = self.levels.pop() else { return Err(Errno::BADF.into()) };
        let Some(level) = self.levels.last_mut() else { return Err(Errno::BADF.into()) };
        if level.directory.is_none() {
            let below = left.directory.ok_or(Errno::BADF)?;
            let directory = pass(&below, Path::new(".."))?;
            if !Identity::of(&fstat(&directory)?).is_same_file(&level.identity) {
                return Err(Errno::STALE.into());
            }
            level.directory = Some(directory);
        }
        Ok(left.name)
    }

    /// The path of what has that name here, below `top`.
    pub(super) fn path(&self, top: &Path, name: &OsStr) -> PathBuf {
        let mut path = top.to_path_buf();
        path.extend(self.levels.iter().skip(2).map(|level| &level.name));
        if self.levels.len() > 1 {
            path.push(name);
        }
        path
    }
}
