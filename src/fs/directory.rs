//! Directories: what they hold, and making them.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType as Kind, Mode, OFlags, chmodat, mkdirat, openat, statat,
};
use rustix::io::Errno;

use super::place::kind;
use super::stat::file_type;
use super::{refused, refused_as};
use crate::error::Result;
use crate::protocol::{Base64, DirEntry, FileType};

/// How often making directories is begun again because one of them has gone meanwhile.
const MOST_ATTEMPTS: u32 = 16;

/// A list from which so many bytes are held is a long one.
const LONG: usize = 64 * 1024;

/// What a directory holds, sorted by name. `goes_on` is asked once whether a list that is getting
/// long is wanted.
///
/// # Errors
/// `ENOTDIR`, and the errno of open(2) and of reading it.
pub(crate) fn list(path: &Path, goes_on: &mut dyn FnMut() -> bool) -> Result<Vec<DirEntry>> {
    let listed = open(CWD, path.as_os_str(), OFlags::empty()).and_then(|directory| {
        let (mut held, mut asked) = (0, false);
        let mut entries = entries_while(directory.as_fd(), |name| {
            held += name.len() + size_of::<DirEntry>();
            if held >= LONG && !asked {
                asked = true;
                return goes_on();
            }
            true
        })?;
        entries.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Ok(entries.into_iter().map(|(name, kind)| described(&directory, name, kind)).collect())
    });
    listed.map_err(|error| refused(&error, "list", path))
}

fn described(directory: &OwnedFd, name: Vec<u8>, kind: Kind) -> DirEntry {
    let target_type = (kind == Kind::Symlink).then(|| target_type(directory, &name));
    let file_type = file_type(kind);
    match String::from_utf8(name) {
        Ok(name) => DirEntry { name, file_type, target_type, name_base64: None },
        Err(error) => {
            let name = String::from_utf8_lossy(error.as_bytes()).into_owned();
            let name_base64 = Some(Base64(error.into_bytes()));
            DirEntry { name, file_type, target_type, name_base64 }
        }
    }
}

fn target_type(directory: &OwnedFd, name: &[u8]) -> Option<FileType> {
    let target = statat(directory, OsStr::from_bytes(name), AtFlags::empty()).ok()?;
    Some(file_type(kind(&target)))
}

/// Opens a directory to be read.
pub(super) fn open(base: impl AsFd, name: &OsStr, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(openat(base, name, flags, Mode::empty())?)
}

/// Name and kind of all that is in an open directory, in no order.
pub(super) fn entries(directory: BorrowedFd<'_>) -> io::Result<Vec<(Vec<u8>, Kind)>> {
    entries_while(directory, |_| true)
}

/// The same, as long as each name is wanted.
fn entries_while(
    directory: BorrowedFd<'_>,
    mut wanted: impl FnMut(&[u8]) -> bool,
) -> io::Result<Vec<(Vec<u8>, Kind)>> {
    let mut found = Vec::new();
    // (`Dir::read_from` would open it again, which takes the right to enter it.)
    for entry in Dir::new(directory.try_clone_to_owned()?)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            // Not every file system tells with the name.
            Kind::Unknown => match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => kind(&stat),
                Err(Errno::NOENT) => continue,
                Err(_) => Kind::Unknown,
            },
            kind => kind,
        };
        if !wanted(name.to_bytes()) {
            return Err(Errno::CANCELED.into());
        }
        found.push((name.to_bytes().to_vec(), kind));
    }
    Ok(found)
}

/// Makes a directory. If `recursive`, those above it are made too, and one that is there is fine.
///
/// # Errors
/// `EEXIST`, and the errno of mkdir(2).
pub(crate) fn make(path: &Path, recursive: bool, mode: Option<u32>) -> Result<()> {
    // A dot at its end means the same directory.
    let path: &Path = &path.components().collect::<PathBuf>();
    // Never more than is asked for, and never for a moment.
    let first = mode.map_or(0o777, |mode| mode & 0o777);
    let made = match recursive {
        true => make_all(path, first, false),
        false => make_one(path, first).map(|()| true),
    };
    let is_new = made.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists if recursive => refused_as(
            Errno::EXIST.raw_os_error(),
            "make the directory",
            path,
            "something that is no directory is there",
        ),
        _ => refused(&error, "make the directory", path),
    })?;
    match mode {
        Some(mode) if is_new => chmodat(CWD, path, mode_of(mode), AtFlags::empty())
            .map_err(|errno| refused(&errno.into(), "set the mode of", path)),
        _ => Ok(()),
    }
}

#[allow(
    clippy::useless_conversion,
    clippy::unnecessary_fallible_conversions,
    reason = "narrower than this on some systems"
)]
pub(crate) fn mode_of(bits: u32) -> Mode {
    Mode::from_raw_mode(bits.try_into().unwrap_or_default())
}

fn make_one(path: &Path, mode: u32) -> io::Result<()> {
    Ok(mkdirat(CWD, path, mode_of(mode))?)
}

/// Makes a directory of that mode, and those above it. Answers whether it is new.
pub(super) fn make_all(path: &Path, mode: u32, sync: bool) -> io::Result<bool> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        match make_missing(path, mode, sync) {
            // Somebody may be removing what was there a moment ago.
            Err(error) if may_pass(&error) && attempts < MOST_ATTEMPTS => {}
            outcome => return outcome,
        }
    }
}

fn may_pass(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists)
}

fn make_missing(path: &Path, mode: u32, sync: bool) -> io::Result<bool> {
    // From the last one up to one that is there or can be made, and down again.
    let mut missing: Vec<&Path> = Vec::new();
    let mut next = path;
    let mode = |next: &Path| if next == path { mode } else { 0o777 };
    while let Err(error) = make_one(next, mode(next)) {
        match next.parent() {
            Some(parent) if error.kind() == io::ErrorKind::NotFound => {
                missing.push(next);
                next = parent;
            }
            // A directory above which nobody may make one has to be there already.
            _ if !is_directory(next) => return Err(error),
            _ if missing.is_empty() => return Ok(false),
            _ => break,
        }
    }
    for path in missing.iter().rev() {
        match make_one(path, mode(path)) {
            Err(error) if !is_directory(path) => return Err(error),
            _ => {}
        }
    }
    if sync {
        std::iter::once(next).chain(missing).for_each(sync_entry);
    }
    Ok(true)
}

/// Flushes the entry of a directory; where the one above it cannot be opened, all there is.
fn sync_entry(path: &Path) {
    let parent = path.parent().unwrap_or(path);
    let opened = open(CWD, parent.as_os_str(), OFlags::empty());
    if !opened.is_ok_and(|parent| rustix::fs::fsync(parent).is_ok()) {
        rustix::fs::sync();
    }
}

fn is_directory(path: &Path) -> bool {
    statat(CWD, path, AtFlags::empty()).is_ok_and(|stat| kind(&stat) == Kind::Directory)
}

/// The path without symbolic links, `.` and `..`.
///
/// # Errors
/// The errno of looking it up.
pub(crate) fn realpath(path: &Path) -> Result<PathBuf> {
    std::fs::canonicalize(path).map_err(|error| refused(&error, "resolve", path))
}
