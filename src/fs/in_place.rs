//! Writing into what stands there: where a rename would lose something, and where there is no
//! content to replace. A reader may see it half written, and the answer says so (`atomic: false`).

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::fs::{FileType, OFlags, Stat, fstat, fsync, ftruncate};
use rustix::io::Errno;

use super::Place;
use super::claim::Claim;
use super::content::{Content, goes_on};
use super::place::kind;
use super::replace::{give_mode, touch};
use super::stat::mode;
use super::write::{Refusal, Terms, Written, check_version, written};
use crate::sys::poll::{Interest, wait_for};

/// How long a FIFO or a terminal may take nothing before it is given up.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long it may take all in all: what was sent after it waits.
const LONGEST: Duration = Duration::from_secs(5);

/// Gives a regular file this content. The space is set aside first, so that a full disk is found
/// out while the old content is whole.
pub(super) fn overwrite(
    place: &Place,
    content: Content<'_>,
    terms: &Terms,
    _name: &Claim,
) -> Result<Written, Refusal> {
    let (old, _content) = claimed(place, terms)?;
    let file = File::from(place.open(OFlags::WRONLY)?);
    if let Err(error) = set_aside(&file, content.size()) {
        // What it has set aside beyond the end is given back; the file may be longer by now.
        let now = fstat(&file)?;
        let _ = ftruncate(&file, u64::try_from(now.st_size).unwrap_or(0));
        return Err(error.into());
    }
    let size = content.write_to(&file).map_err(|error| partly(&file, error))?;
    if u64::try_from(fstat(&file)?.st_size).is_ok_and(|length| length > size) {
        ftruncate(&file, size)?;
    }
    finish(&file, size, &old, terms)
}

/// What stands there, claimed and of the right version. It is looked at before it is opened: on an
/// overlay, opening it to write makes another file of it.
fn claimed(place: &Place, terms: &Terms) -> Result<(Stat, Claim), Refusal> {
    let stat = place.stat()?.ok_or(Refusal::Again)?;
    let claim = Claim::of_content(&stat)?;
    let stat = place.stat()?.ok_or(Refusal::Again)?;
    if kind(&stat) != FileType::RegularFile {
        return Err(Refusal::Again);
    }
    check_version(Some(&stat), terms)?;
    Ok((stat, claim))
}

/// Appends to a regular file.
pub(super) fn append(
    place: &Place,
    bytes: &[u8],
    terms: &Terms,
    _name: &Claim,
) -> Result<Written, Refusal> {
    let (old, _content) = claimed(place, terms)?;
    let file = File::from(place.open(OFlags::WRONLY | OFlags::APPEND)?);
    let size = extend(&file, bytes)?;
    finish(&file, size, &old, terms)
}

/// Appends to a file that is open for that; answers its length. When that fails the file has its
/// old length.
pub(super) fn extend(mut file: &File, bytes: &[u8]) -> io::Result<u64> {
    let old_size = u64::try_from(fstat(file)?.st_size).unwrap_or(0);
    let mut left = bytes;
    while !left.is_empty() {
        let error = match file.write(left) {
            Ok(0) => io::ErrorKind::WriteZero.into(),
            Ok(count) => {
                left = left.get(count..).unwrap_or_default();
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => error,
        };
        let taken = (bytes.len() - left.len()) as u64;
        // Unless somebody else has appended meanwhile.
        if u64::try_from(fstat(file)?.st_size) == Ok(old_size + taken) {
            ftruncate(file, old_size)?;
        }
        return Err(error);
    }
    Ok(old_size + bytes.len() as u64)
}

fn finish(file: &File, size: u64, old: &Stat, terms: &Terms) -> Result<Written, Refusal> {
    // Writing drops setuid unless root writes. Whoever does not own it cannot help that.
    let _ = give_mode(file, mode(old));
    touch(file);
    if terms.sync {
        fsync(file)?;
    }
    Ok(written(file, size, false)?)
}

/// What was written when it failed. Nothing is often all there is to say: files of /proc and /sys
/// refuse a value whole.
fn partly(mut file: &File, error: io::Error) -> Refusal {
    match file.stream_position() {
        Ok(0) | Err(_) => error.into(),
        Ok(taken) => Refusal::Partly(error, taken),
    }
}

/// Sets aside what the content will need. A file system that cannot do that is asked nothing.
#[cfg(target_os = "linux")]
fn set_aside(file: &File, size: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    if size == 0 {
        return Ok(());
    }
    match fallocate(file, FallocateFlags::KEEP_SIZE, 0, size) {
        Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Err(errno.into()),
        _ => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn set_aside(_file: &File, _size: u64) -> io::Result<()> {
    Ok(())
}

/// Hands bytes to a FIFO or a device, waiting only while it takes some. Nobody is kept from it
/// meanwhile: what is taken in turns there is its reader's business.
pub(super) fn feed(place: &Place, bytes: &[u8], terms: &Terms) -> Result<Written, Refusal> {
    check_version(place.stat()?.as_ref(), terms)?;
    // Without a reader a FIFO answers ENXIO.
    let mut file = File::from(place.open(OFlags::WRONLY)?);
    if kind(&fstat(&file)?) == FileType::RegularFile {
        return Err(Refusal::Again);
    }
    let end = Instant::now() + LONGEST;
    let mut left = bytes;
    while !left.is_empty() {
        let taken = (bytes.len() - left.len()) as u64;
        goes_on().map_err(|error| Refusal::Partly(error, taken))?;
        match file.write(left) {
            Ok(0) => return Err(Refusal::Partly(io::ErrorKind::WriteZero.into(), taken)),
            Ok(count) => left = left.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let patience = PATIENCE.min(end.saturating_duration_since(Instant::now()));
                if wait_for(file.as_fd(), Interest::Write, Some(patience))?.is_none() {
                    return Err(Refusal::Partly(error, taken));
                }
            }
            Err(error) if taken > 0 => return Err(Refusal::Partly(error, taken)),
            Err(error) => return Err(error.into()),
        }
    }
    if terms.sync {
        match fsync(&file) {
            // What is no storage has nothing to flush.
            Ok(()) | Err(Errno::INVAL | Errno::ROFS | Errno::NOTSUP) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(written(&file, bytes.len() as u64, false)?)
}
