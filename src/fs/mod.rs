//! Files: what `fs/*` does, on paths that are already absolute. Everything here may block for as
//! long as a file system likes, so none of it runs on a connection's own thread.
//!
//! The thing to know: a path may mean something else a moment later. So whatever takes more than
//! one step opens the directory first and works on names in it ([`Place`]).

mod claim;
mod content;
mod copy;
mod descent;
mod directory;
mod in_place;
mod place;
mod read;
mod remove;
mod rename;
mod replace;
mod staged;
mod stat;
mod subject;
mod write;

pub(crate) use content::progress;
pub(crate) use copy::copy;
pub(crate) use directory::{list, make, mode_of, realpath};
pub(crate) use place::Place;
pub(crate) use read::{Part, open};
pub(crate) use remove::remove;
pub(crate) use rename::rename;
pub(crate) use staged::{Staged, abandon_staged};
pub(crate) use stat::{devices, stat};
pub(crate) use subject::{Subject, check_directory, file_type_of, open_entry, subject};
pub(crate) use write::{Terms, write};

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::Error;

/// A path without slashes at its end, so that its last component stands for itself also if it is
/// a symbolic link.
fn trimmed(path: &Path) -> &Path {
    let mut bytes = path.as_os_str().as_bytes();
    while let [rest @ .., b'/'] = bytes
        && !rest.is_empty()
    {
        bytes = rest;
    }
    Path::new(OsStr::from_bytes(bytes))
}

/// Whether a slash at its end says that a path means a directory.
fn is_marked_directory(path: &Path) -> bool {
    // (As paths they would be equal.)
    trimmed(path).as_os_str() != path.as_os_str()
}

/// What the system refused to do to a path: `cannot VERB "PATH": REASON`.
fn refused(error: &io::Error, verb: &str, path: &Path) -> Error {
    Error::io(error, format_args!("cannot {verb} {path:?}"))
}

/// The same with a reason of our own.
fn refused_as(errno: i32, verb: &str, path: &Path, why: &str) -> Error {
    Error::new(crate::error::ErrorKind::Os(errno), format!("cannot {verb} {path:?}: {why}"))
}
