//! What stands at a path, and what tells one content from another.

use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, FileType as Kind, Stat, accessat, statat};

use super::refused;
use crate::error::Result;
use crate::protocol::{FileType, StatResult};

/// Tells about a path.
///
/// # Errors
/// The errno of stat(2).
pub(crate) fn stat(path: &Path, follow: bool) -> Result<StatResult> {
    let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    let stat = statat(CWD, path, flags).map_err(|errno| refused(errno, "stat", path))?;
    let may = |access| accessat(CWD, path, access, flags | AtFlags::EACCESS).is_ok();
    let identity = Identity::of(&stat);
    Ok(StatResult {
        file_type: file_type(Kind::from_raw_mode(stat.st_mode)),
        size: identity.size,
        mode: stat.st_mode & 0o7777,
        mtime_ms: identity
            .mtime
            .0
            .saturating_mul(1000)
            .saturating_add(identity.mtime.1 / 1_000_000),
        uid: stat.st_uid,
        gid: stat.st_gid,
        readable: may(Access::READ_OK),
        writable: may(Access::WRITE_OK),
        executable: may(Access::EXEC_OK),
        version: identity.version(),
    })
}

/// The kind of a file, in the protocol's words.
pub(crate) fn file_type(kind: Kind) -> FileType {
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

/// What changes when the content does: which file it is, its size and its times. The time of the
/// last status change is one of them, since a program can set the other one back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) size: u64,
    mtime: (i64, i64),
    ctime: (i64, i64),
}

impl Identity {
    #[allow(
        clippy::unnecessary_cast,
        clippy::useless_conversion,
        reason = "the types of these members differ from system to system"
    )]
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mtime: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            ctime: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }

    /// It as the protocol's opaque `version`.
    pub(crate) fn version(&self) -> String {
        let Self { device, inode, size, mtime, ctime } = self;
        format!(
            "{device:x}.{inode:x}.{size:x}.{:x}.{:x}.{:x}.{:x}",
            mtime.0, mtime.1, ctime.0, ctime.1
        )
    }
}
