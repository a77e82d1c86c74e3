//! The file that keeps the highest epoch across restarts: a decimal number and a line feed.
//!
//! It is replaced by a rename, so its inode changes with every number. The lock that keeps a second
//! server away is on the inode: the new one is locked before it gets the name, and whoever takes a
//! lock looks afterwards whether the name still leads to what it has locked.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{
    Access, AtFlags, FileType, FlockOperation, Mode, OFlags, accessat, flock, fstat, fsync, openat,
    statat,
};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::fs::{Place, Staged, mode_of};
use crate::protocol::MAX_EPOCH;

/// How often it may be replaced while it is being locked.
const MOST_ATTEMPTS: usize = 16;
/// No number in it is longer.
const LONGEST: u64 = 64;
const MODE: u32 = 0o644;

/// The file, locked for as long as this lives.
pub(super) struct EpochFile {
    /// As it was given, for messages.
    path: PathBuf,
    place: Place,
    /// Always there.
    locked: Option<File>,
}

/// Why an attempt to take it fails.
enum Refusal {
    Io(io::Error),
    Because(String),
    /// It was replaced meanwhile.
    Again,
}

impl<E: Into<io::Error>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::Io(error.into())
    }
}

impl EpochFile {
    /// Takes it, and answers the number in it. It is made if it is not there.
    ///
    /// # Errors
    /// It cannot be read, locked or made, or holds no epoch.
    pub(super) fn open(path: &Path) -> Result<(Self, u64)> {
        let what = || format!("cannot use the epoch file {path:?}");
        for _ in 0..MOST_ATTEMPTS {
            match Self::take(path) {
                Ok(taken) => return Ok(taken),
                Err(Refusal::Again) => {}
                Err(Refusal::Io(error)) => {
                    return Err(Error::params(Error::io(&error, what()).message()));
                }
                Err(Refusal::Because(why)) => {
                    return Err(Error::params(format!("{}: {why}", what())));
                }
            }
        }
        Err(Error::params(format!("{}: somebody keeps replacing it", what())))
    }

    /// The number in it, or `None` where it could be made. Nothing is changed; it is locked for a
    /// moment.
    ///
    /// # Errors
    /// As for [`EpochFile::open`].
    pub(super) fn look_at(path: &Path) -> Result<Option<u64>> {
        let place = Place::following(path);
        let is_missing = place.as_ref().is_ok_and(|place| {
            let found = statat(&place.directory, &place.name, AtFlags::empty());
            matches!(found, Err(Errno::NOENT))
        });
        match place {
            Ok(place) if is_missing => {
                let what = || format!("cannot use the epoch file {path:?}");
                let may = accessat(&place.directory, ".", Access::WRITE_OK, AtFlags::empty());
                may.map(|()| None)
                    .map_err(|errno| Error::params(Error::io(&errno.into(), what()).message()))
            }
            // (Where there is no such directory, that tells.)
            _ => Self::open(path).map(|(_, epoch)| Some(epoch)),
        }
    }

    fn take(path: &Path) -> Result<(Self, u64), Refusal> {
        let place = Place::following(path)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match openat(&place.directory, &place.name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => {
                let mut locked = None;
                match put(&place, 0, &mut locked) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        return Err(Refusal::Again);
                    }
                    made => made?,
                }
                return Ok((Self { path: path.to_owned(), place, locked }, 0));
            }
            // A link that came meanwhile.
            Err(Errno::LOOP) => return Err(Refusal::Again),
            Err(errno) => return Err(errno.into()),
        };
        match FileType::from_raw_mode(fstat(&file)?.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Errno::ISDIR.into()),
            _ => return Err(Refusal::Because("it is no regular file".to_owned())),
        }
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(Refusal::Because("another server has it".to_owned()));
            }
            Err(errno) => return Err(errno.into()),
        }
        // The lock may be one on what the other server has just replaced.
        let (own, named) = (fstat(&file)?, statat(&place.directory, &place.name, AtFlags::empty()));
        if !named.is_ok_and(|named| (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino)) {
            return Err(Refusal::Again);
        }
        let epoch = read(&file)?;
        Ok((Self { path: path.to_owned(), place, locked: Some(file) }, epoch))
    }

    /// Puts another number into it; it is on the disk when this returns.
    ///
    /// # Errors
    /// It cannot be written. What it holds then is either number, whole.
    pub(super) fn write(&mut self, epoch: u64) -> Result<()> {
        put(&self.place, epoch, &mut self.locked).map_err(|error| {
            let what = format!("cannot write epoch {epoch} to the epoch file {:?}", self.path);
            Error::io(&error, what)
        })
    }
}

/// Gives a new, locked file with this number the place, and flushes both to the disk. `locked` is
/// what keeps others away: the old one, if there is one, and the new one from the rename on.
fn put(place: &Place, epoch: u64, locked: &mut Option<File>) -> io::Result<()> {
    let mut staged = Staged::new(&place.directory, mode_of(MODE))?;
    writeln!(staged.file(), "{epoch}")?;
    fsync(staged.file())?;
    // While it has no place yet: nothing may fail between its getting one and the lock.
    let file = staged.file().try_clone()?;
    // (It has the lock of any staged file, unless the file system has refused that.)
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    staged.place(&place.name, locked.is_none())?;
    *locked = Some(file);
    sync(&place.directory)
}

fn sync(directory: &OwnedFd) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(directory, ".", flags, Mode::empty()) {
        Ok(readable) => Ok(fsync(readable)?),
        // One that may be written and not read.
        Err(Errno::ACCESS) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

fn read(file: &File) -> Result<u64, Refusal> {
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes)?;
    parse(&bytes).map_err(|why| Refusal::Because(why.to_owned()))
}

/// Anything but a number in range is no epoch, least of all 0.
fn parse(bytes: &[u8]) -> Result<u64, &'static str> {
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if line.is_empty() {
        return Err("it is empty (remove it to begin anew)");
    }
    let digits = line.iter().all(u8::is_ascii_digit).then(|| str::from_utf8(line).ok()).flatten();
    let epoch = digits.and_then(|digits| digits.parse().ok()).filter(|epoch| *epoch <= MAX_EPOCH);
    epoch.ok_or("it holds no epoch, which is a number from 0 to 9007199254740991 on a line")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_number_in_range_is_an_epoch() {
        assert_eq!(parse(b"0\n"), Ok(0));
        assert_eq!(parse(b"17"), Ok(17));
        assert_eq!(parse(b"9007199254740991\n"), Ok(MAX_EPOCH));
        for bad in ["", "\n", "\n\n", "1\n\n", " 1", "+1", "-1", "1.0", "x", "9007199254740992"] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(parse(b"99999999999999999999999999\n").is_err());
        assert!(parse(b"\xff\n").is_err());
    }
}
