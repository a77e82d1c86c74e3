//! Reading a file, or a part of it.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;

use super::place::kind;
use super::refused;
use super::stat::Identity;
use crate::buffers;
use crate::error::{Error, ErrorKind, Result};
use crate::sys;

/// What is handed over at a time: a multiple of 3, so that the pieces of its base64 can be put
/// behind one another, and no more than a pooled buffer holds.
const PIECE: usize = 84 * 1024;

/// Which part of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) offset: u64,
    /// To the end without it.
    pub(crate) length: Option<u64>,
}

/// A file that is open to be read.
pub(crate) struct Reading<'a> {
    path: &'a Path,
    file: File,
    size: u64,
    version: String,
}

/// What there is to say of a part that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// The size of the whole file.
    pub(crate) size: u64,
    /// Whether the end of it was reached.
    pub(crate) eof: bool,
}

/// How far a part has been read.
struct Read {
    count: u64,
    saw_end: bool,
}

/// Opens a regular file; symbolic links are followed.
///
/// # Errors
/// `NotAFile`, `EISDIR`, and the errno of open(2).
pub(crate) fn open(path: &Path) -> Result<Reading<'_>> {
    let fail = |errno: Errno| refused(&errno.into(), "read", path);
    // Looked at first: to open a FIFO or a device does something to it.
    check(kind(&statat(CWD, path, AtFlags::empty()).map_err(fail)?), path)?;
    // Some files of /proc would wait for news.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(CWD, path, flags, Mode::empty()).map_err(fail)?;
    let stat = fstat(&file).map_err(fail)?;
    check(kind(&stat), path)?;
    let identity = Identity::of(&stat);
    Ok(Reading { path, file: file.into(), size: identity.size, version: identity.version() })
}

fn check(kind: FileType, path: &Path) -> Result<()> {
    let what = match kind {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => return Err(refused(&Errno::ISDIR.into(), "read", path)),
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Symlink | FileType::Unknown => "of an unknown kind",
    };
    let message = format!("cannot read {path:?}: it is {what}, and no regular file");
    Err(Error::new(ErrorKind::NotAFile, message))
}

impl Reading<'_> {
    /// The file itself.
    pub(crate) fn into_file(self) -> File {
        self.file
    }

    /// Stands for the content as it was when it was opened.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// How many bytes a part will have, as far as the file system tells: in /proc all files are
    /// empty until they are read.
    pub(crate) fn expected(&self, part: Part) -> u64 {
        self.size.saturating_sub(part.offset).min(part.length.unwrap_or(u64::MAX))
    }

    /// Reads a part and hands it over in pieces of which all but the last have a multiple of 3
    /// bytes.
    ///
    /// # Errors
    /// `TooLarge` where it has more than `most` bytes, and the errno of read(2).
    pub(crate) fn read(&self, part: Part, most: u64, mut take: impl FnMut(&[u8])) -> Result<End> {
        let expected = self.expected(part);
        if expected > most {
            return Err(self.too_large(self.size, most));
        }
        let wanted = part.length.unwrap_or(u64::MAX);
        let mut buffer = buffers::take();
        let read = self.read_pieces(part.offset, wanted, most, &mut buffer, &mut take);
        let saw_end = read.as_ref().is_ok_and(|read| read.saw_end);
        let count = read.as_ref().map_or(0, |read| read.count);
        let end = part.offset.saturating_add(count);
        buffer.clear();
        let eof = read.and_then(|_| Ok(saw_end || self.fill(&mut buffer, 1, end)? == 0));
        buffers::give(buffer);
        let eof = eof?;
        // What was seen is newer than what was told when it was opened.
        let seen = if count > 0 { end } else { 0 };
        let size = if eof && count > 0 { seen } else { self.size.max(seen) };
        Ok(End { size, eof })
    }

    fn read_pieces(
        &self,
        offset: u64,
        wanted: u64,
        most: u64,
        buffer: &mut Vec<u8>,
        take: &mut impl FnMut(&[u8]),
    ) -> Result<Read> {
        let mut count = 0_u64;
        loop {
            let room = usize::try_from(wanted - count).unwrap_or(PIECE).min(PIECE);
            buffer.clear();
            let read = self.fill(buffer, room, offset.saturating_add(count))?;
            count += read as u64;
            if count > most {
                return Err(self.too_large(self.size.max(offset.saturating_add(count)), most));
            }
            take(buffer);
            if read < room || count == wanted {
                return Ok(Read { count, saw_end: read < room });
            }
        }
    }

    /// Appends so much from there, or up to the end of the file; answers how much there was.
    fn fill(&self, buffer: &mut Vec<u8>, room: usize, mut at: u64) -> Result<usize> {
        let start = buffer.len();
        while buffer.len() - start < room {
            let left = room - (buffer.len() - start);
            // Positions are signed in the kernel, the last one of a read too.
            let last = at.saturating_add(left as u64);
            let (Ok(position), Ok(_)) = (i64::try_from(at), i64::try_from(last)) else { break };
            match sys::fd::read_at_into(self.file.as_fd(), buffer, left, position) {
                Ok(0) => break,
                Ok(read) => at += read as u64,
                Err(error) => return Err(refused(&error, "read", self.path)),
            }
        }
        Ok(buffer.len() - start)
    }

    fn too_large(&self, size: u64, most: u64) -> Error {
        let message = format!(
            "cannot read {:?} in one answer: it has {size} bytes, and a message has room for \
             {most} (--max-message-bytes); read it in parts, by offset and length",
            self.path
        );
        Error::new(ErrorKind::TooLarge, message).of_size(Some(size))
    }
}
