//! What is written: bytes, or what another file holds.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::gate;

/// How much is written before it is told that something goes on.
const PIECE: u64 = 16 * 1024 * 1024;

/// Changes while anything of this program's goes on with a file, however long that takes.
static PROGRESS: AtomicU64 = AtomicU64::new(0);

/// Tells that something goes on, and asks whether it may.
///
/// # Errors
/// `ECANCELED` where a newer host has taken over.
pub(super) fn goes_on() -> io::Result<()> {
    PROGRESS.fetch_add(1, Ordering::Relaxed);
    gate::is_open()
}

/// A number that changes while something goes on.
pub(crate) fn progress() -> u64 {
    PROGRESS.load(Ordering::Relaxed)
}

/// The content of a file to be.
#[derive(Clone, Copy)]
pub(super) enum Content<'a> {
    Bytes(&'a [u8]),
    /// From its beginning.
    Of(&'a File),
}

impl Content<'_> {
    /// How much there is, as far as that is known.
    pub(super) fn size(self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Of(file) => file.metadata().map_or(0, |metadata| metadata.len()),
        }
    }

    /// Writes all of it to an empty file, in which holes may stay holes. Answers how much it was.
    pub(super) fn fill(self, target: &File) -> io::Result<u64> {
        match self {
            Self::Of(file) if has_holes(file)? => copy_around_holes(file, target),
            content => content.write_to(target),
        }
    }

    /// Writes all of it; answers how much that was.
    pub(super) fn write_to(self, mut target: &File) -> io::Result<u64> {
        match self {
            Self::Bytes(bytes) => {
                for piece in bytes.chunks(usize::try_from(PIECE).unwrap_or(usize::MAX)) {
                    target.write_all(piece)?;
                    goes_on()?;
                }
                Ok(bytes.len() as u64)
            }
            Self::Of(mut file) => {
                file.rewind()?;
                copy(file, target, u64::MAX)
            }
        }
    }
}

/// Copies at most so much from where both are; answers how much there was.
fn copy(from: &File, mut to: &File, most: u64) -> io::Result<u64> {
    let mut copied = 0;
    loop {
        let piece = PIECE.min(most - copied);
        // (The kernel copies by itself where it can.)
        let count = io::copy(&mut from.take(piece), &mut to)?;
        copied += count;
        goes_on()?;
        if count < piece || copied == most {
            return Ok(copied);
        }
    }
}

fn has_holes(file: &File) -> io::Result<bool> {
    let metadata = file.metadata()?;
    Ok(metadata.blocks().saturating_mul(512) < metadata.len() && metadata.len() > 4096)
}

#[cfg(target_os = "linux")]
fn copy_around_holes(mut file: &File, mut target: &File) -> io::Result<u64> {
    use rustix::fs::{SeekFrom as Seeking, seek};
    use rustix::io::Errno;
    let size = file.metadata()?.len();
    let mut at = 0;
    while at < size {
        let start = match seek(file, Seeking::Data(at)) {
            Ok(start) => start,
            // Nothing but a hole is left.
            Err(Errno::NXIO) => break,
            // A file system that does not know of holes.
            Err(_) if at == 0 => return Content::Of(file).write_to(target),
            Err(errno) => return Err(errno.into()),
        };
        let end = match seek(file, Seeking::Hole(start)) {
            Ok(end) => end,
            // It has been cut meanwhile.
            Err(Errno::NXIO) => break,
            Err(errno) => return Err(errno.into()),
        };
        file.seek(io::SeekFrom::Start(start))?;
        target.seek(io::SeekFrom::Start(start))?;
        copy(file, target, end - start)?;
        at = end;
    }
    let size = file.metadata()?.len();
    target.set_len(size)?;
    Ok(size)
}

#[cfg(not(target_os = "linux"))]
fn copy_around_holes(file: &File, target: &File) -> io::Result<u64> {
    Content::Of(file).write_to(target)
}
