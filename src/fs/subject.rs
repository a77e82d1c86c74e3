//! What a search begins at, and the files it reads.

use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::fs::{CWD, FileType as Kind, Mode, OFlags, fstat, openat};

use super::place::kind;
use super::{directory, read, refused};
use crate::error::{ErrorKind, Result};
use crate::protocol::FileType;
use crate::sys::errno::{EISDIR, ENOENT};

/// What a search begins at.
pub(crate) enum Subject {
    File(File),
    Directory,
}

/// Looks at what a search begins at; symbolic links are followed.
///
/// # Errors
/// `NotAFile`, and the errno of open(2).
pub(crate) fn subject(path: &Path, verb: &str) -> Result<Subject> {
    match read::open(path) {
        Ok(reading) => Ok(Subject::File(reading.into_file())),
        Err(error) if *error.kind() == ErrorKind::Os(EISDIR) => {
            check_directory(path, verb).map(|()| Subject::Directory)
        }
        Err(error) => Err(error),
    }
}

/// Whether a path is a directory that can be read.
///
/// # Errors
/// `ENOTDIR`, and the errno of open(2).
pub(crate) fn check_directory(path: &Path, verb: &str) -> Result<()> {
    let opened = directory::open(CWD, path.as_os_str(), OFlags::empty());
    opened.map(drop).map_err(|error| refused(&error, verb, path))
}

/// Opens what was seen in a directory to be read; `None` where it is no regular file by now.
///
/// # Errors
/// The errno of open(2).
pub(crate) fn open_entry(path: &Path) -> Result<Option<File>> {
    // Whatever it has become, nobody is waited for.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = openat(CWD, path, flags | OFlags::CLOEXEC, Mode::empty());
    let file = match opened {
        Ok(file) => file,
        Err(errno) if errno.raw_os_error() == ENOENT => return Ok(None),
        Err(errno) => return Err(refused(&errno.into(), "read", path)),
    };
    let stat = fstat(&file).map_err(|errno| refused(&errno.into(), "read", path))?;
    Ok((kind(&stat) == Kind::RegularFile).then(|| file.into()))
}

/// The kind of a file, in the protocol's words.
pub(crate) fn file_type_of(kind: std::fs::FileType) -> FileType {
    match kind {
        kind if kind.is_dir() => FileType::Directory,
        kind if kind.is_symlink() => FileType::Symlink,
        kind if kind.is_fifo() => FileType::Fifo,
        kind if kind.is_socket() => FileType::Socket,
        kind if kind.is_char_device() => FileType::CharDevice,
        kind if kind.is_block_device() => FileType::BlockDevice,
        _ => FileType::File,
    }
}
