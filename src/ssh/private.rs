//! The directory of this user alone where logins are shared.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::sys;

/// The longest path of a socket. 108 bytes is what there is, and ssh makes it under a name that is 17
/// longer first.
const LONGEST: usize = 90;
/// The longest name of a socket in the directory.
const NAME: usize = 21;

/// A directory that only this user can look into.
#[derive(Clone, Debug)]
pub(super) struct Private(PathBuf);

impl Private {
    /// Makes it, or takes the one that is there.
    pub(super) fn open() -> Result<Self> {
        let own = format!("ta-{}", sys::host::user_id());
        let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let places = [
            of("XDG_RUNTIME_DIR").map(|directory| Path::new(&directory).join("ta")),
            of("TMPDIR").map(|directory| Path::new(&directory).join(&own)),
            Some(Path::new("/tmp").join(&own)),
        ];
        let mut why = String::new();
        for place in places.into_iter().flatten() {
            match usable(&place) {
                Ok(()) => return Ok(Self(place)),
                Err(reason) => why = format!("{}: {reason}", place.display()),
            }
        }
        let message = format!("there is no directory for a login that is shared: {why}");
        Err(Error::new(ErrorKind::Unreachable, message))
    }

    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

fn usable(place: &Path) -> Result<(), String> {
    if !place.is_absolute() {
        return Err("it is not absolute".to_owned());
    }
    if place.as_os_str().len() + 1 + NAME > LONGEST {
        return Err("it is too long for a socket's path".to_owned());
    }
    // (One that is there is looked at, whoever has made it.)
    let made = DirBuilder::new().mode(0o700).create(place);
    let found = fs::symlink_metadata(place).map_err(|error| {
        let errno = sys::errno::of(made.as_ref().err().unwrap_or(&error));
        sys::errno::message(errno)
    })?;
    if !found.is_dir() {
        return Err("it is no directory".to_owned());
    }
    if found.uid() != sys::host::user_id() || found.mode() & 0o077 != 0 {
        return Err("it is not this user's alone".to_owned());
    }
    Ok(())
}
