//! A new file in the place of an old one, in one step, with all that the old one was besides its
//! content.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::buffer::spare_capacity;
use rustix::fs::{
    FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags, fchmod,
    fchown, fgetxattr, flistxattr, fremovexattr, fsetxattr, fstat, fsync, futimens, openat,
};
use rustix::io::Errno;

use super::claim::Claim;
use super::content::Content;
use super::directory::mode_of;
use super::place::kind;
use super::staged::Staged;
use super::stat::{Identity, mode};
use super::write::{Refusal, Terms, Written, check_version, written};
use super::{Place, in_place};
use crate::gate;

/// What the new file is like.
#[derive(Clone, Copy)]
pub(super) enum NewFile<'a> {
    /// There is none yet: it is made as any new file is.
    Made,
    /// Like the one that it replaces.
    LikeOld,
    /// Of the mode that this one has, whatever it replaces.
    CopyOf(&'a Stat),
}

/// Writes a new file and gives it the place. Where a rename would lose something of the old file,
/// or may not be made, the old one is written in place.
pub(super) fn replace(
    place: &Place,
    content: Content<'_>,
    new: NewFile<'_>,
    terms: &Terms,
) -> Result<Written, Refusal> {
    // What was nobody else's to read must not be that for a moment either.
    let first_mode = match (new, terms.mode) {
        (NewFile::Made, None) => 0o666,
        _ => 0o600,
    };
    let mut staged = match Staged::new(&place.directory, Mode::from_raw_mode(first_mode)) {
        Ok(staged) => staged,
        Err(error) if is_refusal(&error) && place.stat()?.is_some() => {
            // The directory cannot be written, but the file itself perhaps can.
            return in_place::overwrite(place, content, terms, &Claim::of_name(place)?);
        }
        Err(error) => return Err(error.into()),
    };
    // The long part of it, before anybody is kept out, and while nobody sees any of it.
    let size = gate::outside(|| {
        let size = content.fill(&staged.file)?;
        if terms.sync {
            fsync(&staged.file)?;
        }
        Ok(size)
    })?;
    let claim = Claim::of_name(place)?;
    if !prepare(place, new, terms, &staged.file)? {
        drop(staged);
        return in_place::overwrite(place, content, terms, &claim);
    }
    let only_new = terms.if_version.as_deref() == Some("");
    match staged.place(&place.name, only_new) {
        Ok(()) => {}
        Err(Errno::EXIST) if only_new => return Err(Refusal::Conflict("it exists")),
        // EBUSY: it is mounted on its own, as a container's /etc/hosts is, and a rename cannot
        // reach what is under the mount. EPERM, EACCES: somebody else's in a sticky directory.
        Err(Errno::BUSY | Errno::PERM | Errno::ACCESS | Errno::XDEV)
            if place.stat()?.is_some_and(|stat| kind(&stat) == FileType::RegularFile) =>
        {
            drop(staged);
            return in_place::overwrite(place, content, terms, &claim);
        }
        Err(errno) => return Err(errno.into()),
    }
    if terms.sync {
        sync_directory(place, &staged.file)?;
    }
    // After the rename: it is one of the changes of status that a version tells.
    Ok(written(&staged.file, size, true)?)
}

/// Not allowed here, whoever asks: the directory is another's, or the file system is read-only, or
/// one that holds no files but its own, as /proc.
fn is_refusal(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::ACCESS
                | Errno::PERM
                | Errno::ROFS
                | Errno::NOENT
                | Errno::INVAL
                | Errno::NOSYS
                | Errno::NOTSUP
        )
    )
}

/// How often a new file is made what the old one is by now.
const MOST_LOOKS: u32 = 16;

/// Makes the new file what it is to be besides its content. `false` where it cannot be. When this
/// has come to its end, what stands at the place is what it looked at, and of the right version: so
/// nothing that happened while this took its time is lost. (A file that never stands still is
/// replaced all the same, unless a version was asked for.)
fn prepare(place: &Place, new: NewFile<'_>, terms: &Terms, file: &File) -> Result<bool, Refusal> {
    let mut looks = 0;
    loop {
        looks += 1;
        let old = place.stat()?;
        match (&old, new) {
            (Some(old), _) if kind(old) == FileType::RegularFile => {
                if old.st_nlink > 1 || !keep(&open_old(place)?, new, file)? {
                    return Ok(false);
                }
            }
            // A copy replaces a link by itself.
            (None, NewFile::CopyOf(source)) => give_copied_mode(source, file)?,
            (Some(old), NewFile::CopyOf(source)) if kind(old) == FileType::Symlink => {
                give_copied_mode(source, file)?;
            }
            (None, NewFile::Made) => set_mode(file, terms.mode)?,
            // It has come or gone, and the new file was made for the other case.
            _ => return Err(Refusal::Again),
        }
        touch(file);
        if terms.sync {
            fsync(file)?;
        }
        let now = place.stat()?;
        let stands_still = now.as_ref().map(look) == old.as_ref().map(look);
        if stands_still || looks == MOST_LOOKS {
            check_version(now.as_ref(), terms)?;
            return Ok(true);
        }
    }
}

/// All that is kept of a file, and what tells its content. (Where the clock is coarse, two changes
/// may have one time.)
fn look(stat: &Stat) -> (Identity, u32, u32, u32, u64) {
    #[allow(clippy::useless_conversion, reason = "narrower than this on some systems")]
    let links = u64::from(stat.st_nlink);
    (Identity::of(stat), mode(stat), stat.st_uid, stat.st_gid, links)
}

/// What is to be replaced, opened in whichever way is allowed.
fn open_old(place: &Place) -> Result<File, Refusal> {
    let opened = place.open(OFlags::RDONLY).or_else(|_| place.open(OFlags::WRONLY));
    let old = match opened {
        Ok(old) => File::from(old),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Refusal::Again),
        Err(error) => return Err(error.into()),
    };
    if kind(&fstat(&old)?) == FileType::RegularFile { Ok(old) } else { Err(Refusal::Again) }
}

fn give_copied_mode(source: &Stat, file: &File) -> io::Result<()> {
    // A file system that knows no modes copies all the same.
    give_mode(file, copied_mode(source, &fstat(file)?)).map(drop)
}

/// The mode of a copy. Setuid and setgid would lend the rights of somebody else where the copy has
/// another owner.
pub(super) fn copied_mode(source: &Stat, copy: &Stat) -> u32 {
    let same_owner = (source.st_uid, source.st_gid) == (copy.st_uid, copy.st_gid);
    if same_owner { mode(source) } else { mode(source) & 0o1777 }
}

/// Gives the new file owner, extended attributes (access lists are among them) and mode of the
/// old one. `false` where it may not be given one of them.
fn keep(old: &File, new: NewFile<'_>, file: &File) -> io::Result<bool> {
    let (stat, own) = (fstat(old)?, fstat(file)?);
    if (own.st_uid, own.st_gid) != (stat.st_uid, stat.st_gid) {
        let owner = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
        if fchown(file, Some(owner.0), Some(owner.1)).is_err() {
            return Ok(false);
        }
    }
    // After the owner, a change of which drops capabilities and setuid.
    if !keep_attributes(old, file)? {
        return Ok(false);
    }
    match new {
        NewFile::CopyOf(source) => give_copied_mode(source, file).map(|()| true),
        NewFile::Made | NewFile::LikeOld => give_mode(file, mode(&stat)),
    }
}

/// Whether the file has this mode now. (The kernel drops setgid for a group that is not ours, and
/// says nothing; some file systems know no modes.)
pub(super) fn give_mode(file: &File, wanted: u32) -> io::Result<bool> {
    if mode(&fstat(file)?) == wanted {
        return Ok(true);
    }
    Ok(fchmod(file, mode_of(wanted)).is_ok() && mode(&fstat(file)?) == wanted)
}

fn keep_attributes(old: &File, new: &File) -> io::Result<bool> {
    let names = match sized(|buffer| flistxattr(old, spare_capacity(buffer))) {
        Ok(names) => names,
        Err(Errno::NOTSUP) => return Ok(true),
        // More than can be listed.
        Err(_) => return Ok(false),
    };
    // A directory's default access list gives new files one that the old one has not.
    let own = sized(|buffer| flistxattr(new, spare_capacity(buffer)))?;
    for name in each(&own).filter(|own| each(&names).all(|name| name != *own)) {
        if fremovexattr(new, name).is_err() {
            return Ok(false);
        }
    }
    for name in each(&names) {
        let value = |file: &File| sized(|buffer| fgetxattr(file, name, spare_capacity(buffer)));
        let wanted = match value(old) {
            Ok(value) => value,
            // Gone meanwhile, or listed for whoever may read it.
            Err(Errno::NODATA) => continue,
            Err(_) => return Ok(false),
        };
        // A security label is often the same already, and may not be set.
        let is_set = value(new).is_ok_and(|value| value == wanted);
        if !is_set && fsetxattr(new, name, &wanted, XattrFlags::empty()).is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The names in a list of extended attributes.
fn each(names: &[u8]) -> impl Iterator<Item = &CStr> {
    let names = names.split_inclusive(|byte| *byte == 0);
    names.filter_map(|name| CStr::from_bytes_with_nul(name).ok())
}

/// Calls with a buffer that grows until it is large enough.
fn sized(mut call: impl FnMut(&mut Vec<u8>) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut buffer = Vec::with_capacity(256);
    loop {
        buffer.clear();
        match call(&mut buffer) {
            Err(Errno::RANGE) if buffer.capacity() < (1 << 20) => {
                buffer.reserve(buffer.capacity() * 4);
            }
            Err(errno) => return Err(errno),
            Ok(_) => return Ok(buffer),
        }
    }
}

/// Gives a file exactly this mode, if there is one to give.
pub(super) fn set_mode(file: &File, mode: Option<u32>) -> io::Result<()> {
    let Some(mode) = mode else { return Ok(()) };
    Ok(fchmod(file, mode_of(mode))?)
}

/// Sets the time of the last change to now, to the nanosecond. The kernel's own clock for files
/// stands still for some milliseconds at a time on many systems, so two contents of one size could
/// have one version: an inode number is used again as soon as it is free.
pub(super) fn touch(file: &File) {
    let Ok(now) = SystemTime::now().duration_since(UNIX_EPOCH) else { return };
    let last_modification = Timespec {
        tv_sec: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(now.subsec_nanos()),
    };
    let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    // Whoever may write a file but does not own it cannot; the kernel has set a time then.
    let _ = futimens(file, &Timestamps { last_access, last_modification });
}

/// Flushes the directory that a file has just got its name in.
pub(super) fn sync_directory(place: &Place, file: &File) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let flushed = openat(&place.directory, ".", flags, Mode::empty()).and_then(fsync);
    match flushed {
        Ok(()) => Ok(()),
        // A directory that may not be read, or a file system that flushes none: all of it, then.
        Err(_) => sync_file_system(file),
    }
}

#[cfg(target_os = "linux")]
fn sync_file_system(file: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(file)?)
}

#[cfg(not(target_os = "linux"))]
fn sync_file_system(_file: &File) -> io::Result<()> {
    rustix::fs::sync();
    Ok(())
}
