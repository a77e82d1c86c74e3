//! Files: what `fs/*` does, on paths that are already absolute. Everything here may block for as
//! long as a file system likes, so none of it runs on a connection's own thread.

mod stat;

pub(crate) use stat::{Identity, file_type};

use std::fmt;
use std::path::Path;

use crate::error::Error;

/// The start of a message: `cannot VERB "PATH"`.
pub(crate) fn cannot(verb: &str, path: &Path) -> impl fmt::Display {
    format!("cannot {verb} {path:?}")
}

/// What the system refused to do to a path.
pub(crate) fn refused(errno: rustix::io::Errno, verb: &str, path: &Path) -> Error {
    Error::os(errno.raw_os_error(), cannot(verb, path))
}
