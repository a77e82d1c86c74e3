//! Writing into what stands there: where a rename would lose something, and where there is no
//! content to replace. A reader may see it half written, and the answer says so (`atomic: false`).

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::fs::{FileType, OFlags, fstat, fsync, ftruncate};
use rustix::io::Errno;

use super::Place;
use super::claim::Claim;
use super::content::Content;
use super::place::kind;
use super::replace::{set_mode, touch};
use super::stat::mode;
use super::write::{Refusal, Terms, Written, check_version, written};
use crate::sys::poll::{Interest, wait_for};

/// How long a FIFO or a terminal may take nothing before it is given up.
const PATIENCE: Duration = Duration::from_millis(200);

/// Gives a regular file this content. The space is set aside first, so that a full disk is found
/// out while the old content is whole.
pub(super) fn overwrite(
    place: &Place,
    content: Content<'_>,
    terms: &Terms,
    _name: &Claim,
) -> Result<Written, Refusal> {
    let file = File::from(place.open(OFlags::WRONLY)?);
    let _content = Claim::of_content(&fstat(&file)?);
    let old = fstat(&file)?;
    if kind(&old) != FileType::RegularFile {
        return Err(Refusal::Again);
    }
    check_version(Some(&old), terms)?;
    let old_size = u64::try_from(old.st_size).unwrap_or(0);
    if let Err(error) = set_aside(&file, content.size()) {
        // What it has set aside beyond the end is given back.
        let _ = ftruncate(&file, old_size);
        return Err(error.into());
    }
    let size = content.write_to(&file).map_err(|error| partly(&file, error))?;
    if old_size > size {
        ftruncate(&file, size)?;
    }
    if mode(&fstat(&file)?) != mode(&old) {
        // Writing drops setuid unless root writes. Whoever does not own it cannot help that.
        let _ = set_mode(&file, Some(mode(&old)));
    }
    finish(&file, size, terms)
}

/// Appends to a regular file that is open for that; its content is claimed.
pub(super) fn extend(
    file: &File,
    bytes: &[u8],
    terms: &Terms,
    _content: &Claim,
) -> Result<Written, Refusal> {
    let old_size = u64::try_from(fstat(file)?.st_size).unwrap_or(0);
    let mut target = file;
    let end = old_size + bytes.len() as u64;
    if let Err(error) = target.write_all(bytes) {
        // Unless somebody else has appended meanwhile.
        if fstat(file).is_ok_and(|now| u64::try_from(now.st_size).is_ok_and(|size| size < end)) {
            ftruncate(file, old_size)?;
        }
        return Err(error.into());
    }
    finish(file, end, terms)
}

fn finish(file: &File, size: u64, terms: &Terms) -> Result<Written, Refusal> {
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

/// Hands bytes to a FIFO or a device, waiting only while it takes some.
pub(super) fn feed(place: &Place, bytes: &[u8], terms: &Terms) -> Result<Written, Refusal> {
    // Without a reader a FIFO answers ENXIO.
    let mut file = File::from(place.open(OFlags::WRONLY)?);
    let stat = fstat(&file)?;
    if kind(&stat) == FileType::RegularFile {
        return Err(Refusal::Again);
    }
    check_version(Some(&stat), terms)?;
    let _content = Claim::of_content(&stat);
    let mut left = bytes;
    while !left.is_empty() {
        let taken = (bytes.len() - left.len()) as u64;
        match file.write(left) {
            Ok(0) => return Err(Refusal::Partly(io::ErrorKind::WriteZero.into(), taken)),
            Ok(count) => left = left.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if wait_for(file.as_fd(), Interest::Write, Some(PATIENCE))?.is_none() {
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
