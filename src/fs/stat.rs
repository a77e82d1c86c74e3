//! What stands at a path, and what tells one content from another.

use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, FileType as Kind, Stat, accessat, statat};

use super::place::kind;
use super::refused;
use crate::error::Result;
use crate::protocol::{FileType, StatResult};

/// Tells about a path.
///
/// # Errors
/// The errno of stat(2).
pub(crate) fn stat(path: &Path, follow: bool) -> Result<StatResult> {
    let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    let stat = statat(CWD, path, flags).map_err(|errno| refused(&errno.into(), "stat", path))?;
    let may = |access| accessat(CWD, path, access, flags | AtFlags::EACCESS).is_ok();
    let identity = Identity::of(&stat);
    let (seconds, nanoseconds) = identity.modified;
    Ok(StatResult {
        file_type: file_type(kind(&stat)),
        size: identity.size,
        mode: mode(&stat),
        mtime_ms: seconds.saturating_mul(1000).saturating_add(nanoseconds / 1_000_000),
        uid: stat.st_uid,
        gid: stat.st_gid,
        readable: may(Access::READ_OK),
        writable: may(Access::WRITE_OK),
        executable: may(Access::EXEC_OK),
        version: identity.version(),
    })
}

/// The kind of a file, in the protocol's words.
pub(super) fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::Fifo,
        Kind::Socket => FileType::Socket,
        Kind::CharacterDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
        Kind::RegularFile | Kind::Unknown => FileType::File,
    }
}

/// Permission bits, with setuid, setgid and sticky.
#[allow(clippy::useless_conversion, reason = "narrower than this on some systems")]
pub(super) fn mode(stat: &Stat) -> u32 {
    u32::from(stat.st_mode) & 0o7777
}

/// The file systems that a path is on: where its name is, and where what it leads to is. Of what is
/// not there yet, that of the nearest directory above it. (The files of an overlay may say that they
/// are on that of their layer; its directories say what it is.)
pub(crate) fn devices(path: &Path) -> Vec<u64> {
    let stat = |path, flags| statat(CWD, path, flags);
    let nearest = |flags| path.ancestors().find_map(|path| stat(path, flags).ok());
    let named = nearest(AtFlags::SYMLINK_NOFOLLOW);
    let directory = match &named {
        Some(named) if kind(named) != Kind::Directory => {
            path.parent().and_then(|parent| stat(parent, AtFlags::empty()).ok())
        }
        _ => None,
    };
    let all = [named, directory, nearest(AtFlags::empty())];
    all.iter().flatten().map(|stat| Identity::of(stat).device).collect()
}

/// What changes when the content does: which file it is, its size and its times. The time of the
/// last status change is one of them, since a program can set the other one back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) size: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    status_changed: (i64, i64),
}

impl Identity {
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_sign_loss,
        clippy::cast_possible_wrap,
        reason = "the types of these members differ from system to system"
    )]
    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            status_changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }

    /// Whether both are the same file, whatever its content is by now.
    pub(super) fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// It as the protocol's opaque `version`.
    pub(super) fn version(&self) -> String {
        let Self { device, inode, size, modified, status_changed } = self;
        format!(
            "{device:x}.{inode:x}.{size:x}.{:x}.{:x}.{:x}.{:x}",
            modified.0, modified.1, status_changed.0, status_changed.1
        )
    }
}
