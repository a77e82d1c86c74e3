//! Renaming.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, renameat};
use rustix::io::Errno;

use super::claim::Claim;
use super::staged::is_ours;
use super::{Place, trimmed};
use crate::error::{Error, Result};

/// Renames; what had the new name before is gone, as rename(2) has it.
///
/// # Errors
/// The errno of rename(2): `EXDEV` between file systems, `ENOTEMPTY`, `EISDIR`, `ENOTDIR`.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<()> {
    let what = || format!("cannot rename {from:?} to {to:?}");
    let renamed = || -> io::Result<()> {
        // What cannot be claimed cannot be renamed either, and the kernel knows best why.
        let places = (Place::of(trimmed(from)), Place::of(trimmed(to)));
        for place in [&places.0, &places.1].into_iter().flatten() {
            if is_ours(place.name.as_bytes()) {
                return Err(Errno::INVAL.into());
            }
        }
        let _claims = match &places {
            (Ok(from), Ok(to)) => Some(Claim::of_names(from, to)?),
            _ => None,
        };
        Ok(renameat(CWD, from, CWD, to)?)
    };
    renamed().map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::XDEV) => {
            let why = "they are on two file systems or mounts; copy it and remove the old one";
            let kind = crate::error::ErrorKind::Os(Errno::XDEV.raw_os_error());
            Error::new(kind, format!("{}: {why}", what()))
        }
        _ => Error::io(&error, what()),
    })
}
