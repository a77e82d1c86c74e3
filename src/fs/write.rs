//! Writing a file, whole or at its end.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    Access, AtFlags, FileType, Mode, OFlags, Stat, accessat, fstat, fsync, openat, unlinkat,
};
use rustix::io::Errno;

use super::claim::Claim;
use super::content::Content;
use super::place::kind;
use super::replace::{self, NewFile};
use super::stat::Identity;
use super::{Place, directory, in_place, staged};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::{self, ANY_VERSION, WriteFileParams, WriteFileResult};

/// How often it is begun again because the file has come or gone meanwhile.
pub(super) const MOST_ATTEMPTS: usize = 16;

const MISSING: &str = "it does not exist";

/// What else is asked of a write.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terms {
    /// The content comes after what is there.
    pub(crate) append: bool,
    /// The mode of a file that is not there yet; 0666 less the umask without it.
    pub(crate) mode: Option<u32>,
    /// Missing directories above it are made.
    pub(crate) create_parents: bool,
    /// The version that it must have; an empty one: it must not exist; [`ANY_VERSION`]: it must.
    pub(crate) if_version: Option<String>,
    /// File and directory are flushed to disk.
    pub(crate) sync: bool,
}

impl Terms {
    /// What a request asks for.
    pub(crate) fn of(params: &WriteFileParams) -> Self {
        Self {
            append: params.append.unwrap_or(false),
            mode: params.mode.map(protocol::Mode::bits),
            create_parents: params.create_parents.unwrap_or(false),
            if_version: params.if_version.clone(),
            sync: params.sync.unwrap_or(false),
        }
    }
}

/// Why a file is not written.
pub(super) enum Refusal {
    Io(io::Error),
    /// It cannot be written like a file.
    NotAFile(&'static str),
    /// It has another version.
    Conflict(&'static str),
    /// A directory stands there.
    Directory,
    /// It may not be asked for.
    Invalid(&'static str),
    /// It came or went meanwhile: from the beginning.
    Again,
    /// Some of it has been written.
    Partly(io::Error, u64),
}

impl<E: Into<io::Error>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::Io(error.into())
    }
}

/// A file that was written.
pub(super) struct Written {
    pub(super) size: u64,
    pub(super) identity: Identity,
    pub(super) atomic: bool,
}

/// Gives a file this content, whole or not at all where that is possible; or appends it, and where
/// that fails the file has its old length. Symbolic links are followed, and a file that is not there
/// is made.
///
/// # Errors
/// `Conflict`, `NotAFile`, and the errno of whatever failed.
pub(crate) fn write(path: &Path, content: &[u8], terms: &Terms) -> Result<WriteFileResult> {
    if terms.append {
        return attempt(path, terms, "append to", |place| append_at(place, content, terms));
    }
    attempt(path, terms, "write", |place| write_at(place, Content::Bytes(content), terms))
}

fn attempt(
    path: &Path,
    terms: &Terms,
    verb: &str,
    mut write: impl FnMut(&Place) -> Result<Written, Refusal>,
) -> Result<WriteFileResult> {
    for _ in 0..MOST_ATTEMPTS {
        match find(path, terms).and_then(|place| write(&place)) {
            Ok(Written { size, identity, atomic }) => {
                return Ok(WriteFileResult { size, version: identity.version(), atomic });
            }
            Err(Refusal::Again) => {}
            Err(refusal) => return Err(refusal.about(verb, path)),
        }
    }
    Err(super::refused_as(Errno::AGAIN.raw_os_error(), verb, path, "it comes and goes"))
}

impl Refusal {
    pub(super) fn about(self, verb: &str, path: &Path) -> Error {
        let of_kind = |kind, why: &str| Error::new(kind, format!("cannot {verb} {path:?}: {why}"));
        match self {
            Self::Io(error) => super::refused(&error, verb, path),
            Self::NotAFile(what) => of_kind(ErrorKind::NotAFile, what),
            Self::Directory => {
                of_kind(ErrorKind::Os(Errno::ISDIR.raw_os_error()), "a directory stands there")
            }
            Self::Invalid(why) => of_kind(ErrorKind::Os(Errno::INVAL.raw_os_error()), why),
            Self::Conflict(why) => of_kind(ErrorKind::Conflict, why),
            Self::Again => of_kind(ErrorKind::Os(Errno::AGAIN.raw_os_error()), "it has changed"),
            Self::Partly(error, taken) => {
                let what = format!("cannot {verb} {path:?}, of which {taken} bytes are written");
                Error::io(&error, what)
            }
        }
    }
}

/// Where the path leads, the directories above it made if that is asked for.
fn find(path: &Path, terms: &Terms) -> Result<Place, Refusal> {
    match Place::following(path) {
        Err(error) if terms.create_parents && error.kind() == io::ErrorKind::NotFound => {
            if terms.if_version.as_ref().is_some_and(|version| !version.is_empty()) {
                return Err(Refusal::Conflict(MISSING));
            }
            if let Some(parent) = path.parent() {
                directory::make_all(parent, 0o777, terms.sync)?;
            }
            Ok(Place::following(path)?)
        }
        place => Ok(place?),
    }
}

fn write_at(place: &Place, content: Content<'_>, terms: &Terms) -> Result<Written, Refusal> {
    reserved(place)?;
    let Some(stat) = place.stat()? else {
        return replace::replace(place, content, NewFile::Made, terms);
    };
    match kind(&stat) {
        FileType::RegularFile => {
            may_be_written(place)?;
            if stat.st_nlink > 1 {
                // A rename would leave the old content under the other names.
                return in_place::overwrite(place, content, terms, &Claim::of_name(place)?);
            }
            replace::replace(place, content, NewFile::LikeOld, terms)
        }
        FileType::Symlink => Err(Refusal::Again),
        other => special(place, other, content, terms),
    }
}

/// A rename would not ask the file itself.
pub(super) fn may_be_written(place: &Place) -> Result<(), Refusal> {
    match accessat(&place.directory, &place.name, Access::WRITE_OK, AtFlags::EACCESS) {
        // It is immutable, or a sandbox refuses the question; opening it tells.
        Err(Errno::PERM) => match place.open(OFlags::WRONLY | OFlags::NONBLOCK) {
            Ok(_) => Ok(()),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::TXTBSY) => Ok(()),
            Err(error) => Err(error.into()),
        },
        answer => Ok(answer?),
    }
}

/// What is no regular file takes bytes or does not, but has no content to be replaced.
fn special(
    place: &Place,
    kind: FileType,
    content: Content<'_>,
    terms: &Terms,
) -> Result<Written, Refusal> {
    match (kind, content) {
        (FileType::Directory, _) => Err(Errno::ISDIR.into()),
        (FileType::Socket, _) => Err(Refusal::NotAFile("it is a socket")),
        (_, Content::Bytes(bytes)) => in_place::feed(place, bytes, terms),
        (_, Content::Of(_)) => Err(Refusal::NotAFile("it is no regular file")),
    }
}

fn append_at(place: &Place, bytes: &[u8], terms: &Terms) -> Result<Written, Refusal> {
    reserved(place)?;
    match place.stat()?.as_ref().map(kind) {
        None | Some(FileType::RegularFile) => {}
        Some(FileType::Symlink) => return Err(Refusal::Again),
        Some(other) => return special(place, other, Content::Bytes(bytes), terms),
    }
    let name = Claim::of_name(place)?;
    if place.stat()?.is_some() {
        return in_place::append(place, bytes, terms, &name);
    }
    check_version(None, terms)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    // The mode that it is to have comes last: writing would take setuid from it.
    let mode = Mode::from_raw_mode(if terms.mode.is_some() { 0o600 } else { 0o666 });
    let file = match openat(&place.directory, &place.name, flags, mode) {
        Ok(file) => File::from(file),
        Err(Errno::EXIST) => return Err(Refusal::Again),
        Err(errno) => return Err(errno.into()),
    };
    let appended = in_place::extend(&file, bytes).and_then(|size| {
        replace::set_mode(&file, terms.mode)?;
        replace::touch(&file);
        if terms.sync {
            fsync(&file)?;
            replace::sync_directory(place, &file)?;
        }
        written(&file, size, false)
    });
    if appended.is_err() {
        let _ = unlinkat(&place.directory, &place.name, AtFlags::empty());
    }
    Ok(appended?)
}

/// The names of files that have no place yet are nobody else's.
pub(super) fn reserved(place: &Place) -> Result<(), Refusal> {
    if staged::is_ours(place.name.as_bytes()) {
        return Err(Refusal::Invalid("names like .ta-tmp-0 are the server's own"));
    }
    Ok(())
}

/// Whether what stands there is what the caller has seen.
pub(super) fn check_version(stat: Option<&Stat>, terms: &Terms) -> Result<(), Refusal> {
    let Some(wanted) = terms.if_version.as_deref() else { return Ok(()) };
    match stat {
        None if wanted.is_empty() => Ok(()),
        None => Err(Refusal::Conflict(MISSING)),
        Some(_) if wanted.is_empty() => Err(Refusal::Conflict("it exists")),
        Some(_) if wanted == ANY_VERSION => Ok(()),
        Some(stat) if Identity::of(stat).version() == wanted => Ok(()),
        Some(_) => Err(Refusal::Conflict("it has changed since that version")),
    }
}

/// What an open file is by now.
pub(super) fn written(file: &File, size: u64, atomic: bool) -> io::Result<Written> {
    Ok(Written { size, identity: Identity::of(&fstat(file)?), atomic })
}
