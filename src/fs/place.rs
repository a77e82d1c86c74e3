//! A name in an open directory.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, OFlags, Stat, openat, readlinkat, statat};
use rustix::io::Errno;

use super::stat::Identity;

/// Symbolic links that are followed before it must be a loop, as Linux has it.
const MOST_LINKS: usize = 40;

/// How a directory is opened to work on names in it: that takes the right to pass through it,
/// and none to read it.
#[cfg(target_os = "linux")]
const PASS: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const PASS: OFlags = OFlags::RDONLY;

/// Where something stands, or will stand. The directory stays the same one whatever becomes of
/// its path meanwhile.
pub(crate) struct Place {
    pub(crate) directory: OwnedFd,
    pub(crate) name: OsString,
}

impl Place {
    /// Of a path whose last component stands for itself, also if it is a symbolic link.
    ///
    /// # Errors
    /// `EISDIR` where the last component cannot be but a directory (`/`, `.`, `..`, `a/`).
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        Self::at(CWD, path)
    }

    fn at(base: impl std::os::fd::AsFd, path: &Path) -> io::Result<Self> {
        if path.as_os_str().is_empty() {
            return Err(Errno::NOENT.into());
        }
        let (parent, name) = split(path).ok_or(Errno::ISDIR)?;
        let directory = pass(base, parent)?;
        Ok(Self { directory, name: name.to_owned() })
    }

    /// Of what a path leads to: symbolic links are followed, also one that dangles.
    ///
    /// # Errors
    /// `ELOOP`, and those of [`Place::of`].
    pub(crate) fn following(path: &Path) -> io::Result<Self> {
        let mut place = Self::of(path)?;
        let mut meant = None;
        for _ in 0..MOST_LINKS {
            let Some(next) = place.next()? else {
                return place.confirmed(meant.as_ref());
            };
            // Whether a link may be followed that somebody else has planted in a directory of
            // everybody's, only the kernel knows (fs.protected_symlinks).
            match statat(&place.directory, &place.name, AtFlags::empty()) {
                Err(Errno::ACCESS) => return Err(Errno::ACCESS.into()),
                stat => meant = meant.or(stat.ok()),
            }
            place = next;
        }
        Err(Errno::LOOP.into())
    }

    /// This, if it is what the kernel has found: a link of /proc may lead to what has no name.
    fn confirmed(self, meant: Option<&Stat>) -> io::Result<Self> {
        let Some(meant) = meant else { return Ok(self) };
        let found = self.stat()?.as_ref().map(Identity::of);
        if found.is_some_and(|found| found.is_same_file(&Identity::of(meant))) {
            return Ok(self);
        }
        Err(Errno::STALE.into())
    }

    /// Whether this, which is a symbolic link, leads to something, or by way of it.
    pub(super) fn leads_through(&self, something: &Stat) -> bool {
        let sought = Identity::of(something);
        let mut next = self.next();
        for _ in 0..MOST_LINKS {
            let Ok(Some(place)) = next else { return false };
            let stat = place.stat().ok().flatten();
            if stat.is_some_and(|stat| Identity::of(&stat).is_same_file(&sought)) {
                return true;
            }
            next = place.next();
        }
        false
    }

    /// Where a symbolic link leads, one step on; `None` for what is none.
    fn next(&self) -> io::Result<Option<Self>> {
        match readlinkat(&self.directory, &self.name, Vec::new()) {
            Ok(target) => {
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                Self::at(&self.directory, &target).map(Some)
            }
            // What is no link, or is not there.
            Err(Errno::INVAL | Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// What stands there; a symbolic link for itself.
    pub(super) fn stat(&self) -> io::Result<Option<Stat>> {
        match statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Opens what stands there; never a symbolic link, and without waiting for anybody.
    pub(super) fn open(&self, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        Ok(openat(&self.directory, &self.name, flags, rustix::fs::Mode::empty())?)
    }
}

/// Opens a directory to work on names in it.
pub(super) fn pass(base: impl std::os::fd::AsFd, path: &Path) -> io::Result<OwnedFd> {
    let flags = PASS | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(base, path, flags, rustix::fs::Mode::empty())?)
}

/// What a file is.
pub(super) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// The directory part and the name; `None` where what is named can only be a directory.
fn split(path: &Path) -> Option<(&Path, &OsStr)> {
    let bytes = path.as_os_str().as_bytes();
    let (parent, name) = match bytes.iter().rposition(|byte| *byte == b'/') {
        Some(0) => (&b"/"[..], &bytes[1..]),
        Some(slash) => (&bytes[..slash], &bytes[slash + 1..]),
        None => (&b"."[..], bytes),
    };
    let is_name = !matches!(name, b"" | b"." | b"..");
    is_name.then(|| (Path::new(OsStr::from_bytes(parent)), OsStr::from_bytes(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_split_as_the_kernel_would() {
        let parts = |path: &str| {
            let (parent, name) = split(Path::new(path))?;
            Some((parent.to_str().unwrap().to_owned(), name.to_str().unwrap().to_owned()))
        };
        let expected = |parent: &str, name: &str| Some((parent.to_owned(), name.to_owned()));
        assert_eq!(parts("/a"), expected("/", "a"));
        assert_eq!(parts("/a/b"), expected("/a", "b"));
        assert_eq!(parts("a"), expected(".", "a"));
        assert_eq!(parts("../a//b"), expected("../a/", "b"));
        for directory in ["/", "", ".", "a/.", "a/..", "a/", "/a//"] {
            assert_eq!(parts(directory), None, "{directory:?}");
        }
    }
}
