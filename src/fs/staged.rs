//! A new file beside the one that it will replace.
//!
//! Its name is one of `.ta-tmp-0`, `.ta-tmp-1`, …: the first that is free. Its writer holds a lock
//! (flock) on it for as long as it has that name, so one that can be locked was left by a server
//! that was killed. Whoever writes into the directory next looks at the first few names, and
//! where one of them was left, at all of the directory. A server that exits removes what its
//! threads have not come to the end of.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::bounded;
use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, openat, renameat, statat,
    unlinkat,
};
use rustix::io::Errno;

use super::place::kind;
use super::stat::Identity;
use crate::sync::lock;
use crate::threads;

const PREFIX: &str = ".ta-tmp-";
/// Writers at one time in one directory. (A user who may write there too may take these names.)
const MOST: usize = 4096;
/// How many names are looked at, used or not: so many writers of one directory can be killed in
/// the middle and what they left is found, whichever of them had finished before. It costs half a
/// microsecond each.
const LOOKED_AT: usize = 16;

/// What has no place at the moment; `None` once the program ends.
static UNPLACED: Mutex<Option<Vec<Unplaced>>> = Mutex::new(Some(Vec::new()));
static NEXT: AtomicU64 = AtomicU64::new(0);

struct Unplaced {
    number: u64,
    directory: OwnedFd,
    name: String,
}

/// The program ends: what has no place now is removed, and nothing new is begun. A file system
/// that hangs is not waited for.
pub(crate) fn abandon_staged(timeout: Duration) {
    let unplaced = lock(&UNPLACED).take().unwrap_or_default();
    let (sender, removed) = bounded(1);
    let remove = move || {
        for Unplaced { directory, name, .. } in unplaced {
            let _ = unlinkat(directory, name, AtFlags::empty());
        }
        let _ = sender.send(());
    };
    if threads::run(remove).is_ok() {
        let _ = removed.recv_timeout(timeout);
    }
}

fn name(number: usize) -> String {
    format!("{PREFIX}{number}")
}

/// A file that has no place yet; removed unless it gets one.
pub(crate) struct Staged<'a> {
    directory: &'a OwnedFd,
    name: String,
    pub(super) file: File,
    /// In [`UNPLACED`].
    number: u64,
    placed: bool,
}

impl<'a> Staged<'a> {
    /// Makes one in a directory.
    ///
    /// # Errors
    /// Those of open(2).
    pub(crate) fn new(directory: &'a OwnedFd, mode: Mode) -> io::Result<Self> {
        let was_left = |number| was_left(directory, OsStr::new(&name(number)));
        if (0..LOOKED_AT).any(was_left) {
            sweep(directory);
        }
        for number in 0..MOST {
            let name = name(number);
            match Self::create(directory, &name, mode) {
                Ok(Some(file)) => return Self::enlisted(directory, name, file),
                Ok(None) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(Errno::EXIST.into())
    }

    fn enlisted(directory: &'a OwnedFd, name: String, file: File) -> io::Result<Self> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let staged = Self { directory, name: name.clone(), file, number, placed: false };
        let directory = directory.try_clone()?;
        match lock(&UNPLACED).as_mut() {
            Some(unplaced) => unplaced.push(Unplaced { number, directory, name }),
            None => return Err(Errno::CANCELED.into()),
        }
        Ok(staged)
    }

    /// `None` if somebody has removed it before it was locked.
    fn create(directory: &OwnedFd, name: &str, mode: Mode) -> Result<Option<File>, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = File::from(openat(directory, name, flags, mode)?);
        // On a file system without locks what is left stays, as nobody can tell.
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Ok(None);
        }
        let is_there = fstat(&file).is_ok_and(|stat| stat.st_nlink > 0);
        Ok(is_there.then_some(file))
    }

    /// What is written into it.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Gives it its place. What stood there is gone, unless `only_new`.
    ///
    /// # Errors
    /// `EEXIST`, and those of rename(2).
    pub(crate) fn place(&mut self, name: &OsStr, only_new: bool) -> Result<(), Errno> {
        if only_new {
            rename_new(self.directory, &self.name, name)?;
        } else {
            renameat(self.directory, &self.name, self.directory, name)?;
        }
        self.placed = true;
        self.strike();
        Ok(())
    }

    /// Takes it out of [`UNPLACED`].
    fn strike(&self) {
        if let Some(unplaced) = lock(&UNPLACED).as_mut() {
            unplaced.retain(|unplaced| unplaced.number != self.number);
        }
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if !self.placed {
            let _ = unlinkat(self.directory, &self.name, AtFlags::empty());
        }
        self.strike();
    }
}

/// Renames unless something has the new name.
fn rename_new(directory: &OwnedFd, from: &str, to: &OsStr) -> Result<(), Errno> {
    use rustix::fs::{RenameFlags, renameat_with};
    match renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
        // A file system, a kernel or a sandbox that cannot: of this server's writers only one is here.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP | Errno::PERM) => {
            match statat(directory, to, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => Err(Errno::EXIST),
                Err(Errno::NOENT) => renameat(directory, from, directory, to),
                Err(errno) => Err(errno),
            }
        }
        outcome => outcome,
    }
}

/// Whether a server that was killed has left this; then it is removed.
fn was_left(directory: &OwnedFd, name: &OsStr) -> bool {
    // Only a file is one of ours; to open a FIFO would do something to it.
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if kind(&stat) == FileType::RegularFile => {}
        _ => return false,
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = openat(directory, name, flags, Mode::empty()) else { return false };
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return false;
    }
    // The lock was free because its owner has died, or because it has just been given its place:
    // only in the first case this is still its name, and then it stays so, since whoever would
    // remove it needs the lock.
    let is_same = |stat| fstat(&file).is_ok_and(|own| Identity::of(&own).is_same_file(&stat));
    let named = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| Identity::of(&stat));
    named.is_ok_and(is_same) && unlinkat(directory, name, AtFlags::empty()).is_ok()
}

/// Whether a name is exactly one that is given here.
pub(super) fn is_ours(bytes: &[u8]) -> bool {
    let number = bytes.strip_prefix(PREFIX.as_bytes()).and_then(|rest| str::from_utf8(rest).ok());
    let number: Option<usize> = number.and_then(|number| number.parse().ok());
    number.is_some_and(|number| name(number).as_bytes() == bytes)
}

/// Removes all that was left in a directory.
fn sweep(directory: &OwnedFd) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(readable) = openat(directory, ".", flags, Mode::empty()) else { return };
    let Ok(entries) = Dir::read_from(readable.as_fd()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_bytes();
        if is_ours(name) {
            was_left(directory, OsStr::from_bytes(name));
        }
    }
}
