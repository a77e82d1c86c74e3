//! `fs/*`: params and results.

use serde::{Deserialize, Serialize};

use super::bytes::Base64;
use super::path::WirePath;

/// Permission bits, with setuid, setgid and sticky: 0 to 07777.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32")]
pub struct Mode(u32);

impl Mode {
    /// The bits.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0
    }
}

impl TryFrom<u32> for Mode {
    type Error = String;

    fn try_from(bits: u32) -> Result<Self, String> {
        if bits <= 0o7777 {
            Ok(Self(bits))
        } else {
            Err(format!("a mode is 0 to 4095 (octal 7777), this one is {bits}"))
        }
    }
}

/// What stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum FileType {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A Unix socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

/// A file to read, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadFileParams {
    /// Which file; symbolic links are followed.
    pub path: WirePath,
    /// The first byte; 0 if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// How many bytes at most; to the end if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
}

impl ReadFileParams {
    /// A whole file.
    #[must_use]
    pub fn whole(path: WirePath) -> Self {
        Self { path, offset: None, length: None }
    }
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadFileResult {
    /// The bytes.
    pub data_base64: Base64,
    /// The size of the whole file in bytes.
    pub size: u64,
    /// Whether the end of the file was reached.
    pub eof: bool,
    /// Stands for the content as it was when it began to be read.
    pub version: String,
}

/// In place of a version: the file must exist, whatever it holds.
pub const ANY_VERSION: &str = "*";

/// A file to write, whole, or bytes to append to one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteFileParams {
    /// Which file; symbolic links are followed.
    pub path: WirePath,
    /// Whether the bytes are appended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub append: Option<bool>,
    /// The mode of a file that does not exist yet; 0666 less the umask if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Whether missing directories above it are made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_parents: Option<bool>,
    /// The version that the file must still have; `""`: it must not exist; [`ANY_VERSION`]: it must.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_version: Option<String>,
    /// Whether file and directory are flushed to disk before the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync: Option<bool>,
    /// All of its content, or what is appended. (It is the last member: see `file_content`.)
    pub data_base64: Base64,
}

impl WriteFileParams {
    /// A whole file with nothing else said.
    #[must_use]
    pub fn new(path: WirePath, content: Vec<u8>) -> Self {
        Self {
            path,
            data_base64: Base64(content),
            append: None,
            mode: None,
            create_parents: None,
            if_version: None,
            sync: None,
        }
    }
}

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteFileResult {
    /// Its size in bytes now.
    pub size: u64,
    /// Stands for the content that was written.
    pub version: String,
    /// Whether it was replaced in one step, so that no reader sees it half written.
    pub atomic: bool,
}

/// What to tell about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatParams {
    /// Which path.
    pub path: WirePath,
    /// Whether a symbolic link stands for what it leads to; true if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follow_symlinks: Option<bool>,
}

/// What stands at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatResult {
    /// What it is.
    #[serde(rename = "type")]
    pub file_type: FileType,
    /// Bytes, as the file system reports them.
    pub size: u64,
    /// Permission bits, with setuid, setgid and sticky.
    pub mode: u32,
    /// When the content last changed, in milliseconds since 1970.
    pub mtime_ms: i64,
    /// The owner.
    pub uid: u32,
    /// The owning group.
    pub gid: u32,
    /// Whether the server may read it.
    pub readable: bool,
    /// Whether the server may write it.
    pub writable: bool,
    /// Whether the server may execute it, or enter it.
    pub executable: bool,
    /// Stands for the content.
    pub version: String,
}

/// A path, for the methods that need nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathParams {
    /// Which path.
    pub path: WirePath,
}

/// What a directory holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReaddirResult {
    /// Sorted by name, byte by byte.
    pub entries: Vec<DirEntry>,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DirEntry {
    /// Its name; lossy where `name_base64` is there.
    #[serde(deserialize_with = "one_name")]
    pub name: String,
    /// What it is.
    #[serde(rename = "type")]
    pub file_type: FileType,
    /// Of a symbolic link, what it leads to; `Some(None)` where that is nothing.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "null_is_a_value"
    )]
    pub target_type: Option<Option<FileType>>,
    /// Its name where that is not UTF-8.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "one_name_in_base64"
    )]
    pub name_base64: Option<Base64>,
}

/// Whoever copies a directory makes paths of these names: one that leads elsewhere (`..`, a slash) is no
/// name, whoever says so.
fn is_one_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(|byte| matches!(byte, b'/' | 0))
}

fn one_name<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    if is_one_name(name.as_bytes()) { Ok(name) } else { Err(no_name(&name)) }
}

fn one_name_in_base64<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Base64>, D::Error> {
    let name = Option::<Base64>::deserialize(deserializer)?;
    match &name {
        Some(Base64(bytes)) if !is_one_name(bytes) => Err(no_name(&String::from_utf8_lossy(bytes))),
        _ => Ok(name),
    }
}

fn no_name<E: serde::de::Error>(name: &str) -> E {
    E::custom(format_args!("{name:?} cannot be the name of an entry of a directory"))
}

#[expect(clippy::option_option, reason = "absent, null and a type are three things on the wire")]
fn null_is_a_value<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<FileType>>, D::Error> {
    Option::<FileType>::deserialize(deserializer).map(Some)
}

/// A directory to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MkdirParams {
    /// Which one.
    pub path: WirePath,
    /// Whether missing directories above it are made too, and an existing one is fine; true if
    /// it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recursive: Option<bool>,
    /// Its mode if it is new; 0777 less the umask if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
}

/// What to remove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveParams {
    /// Which path; a symbolic link stands for itself.
    pub path: WirePath,
    /// Whether a directory is removed with all that is in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recursive: Option<bool>,
    /// Whether a path that does not exist is fine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
}

/// What to rename.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenameParams {
    /// What it is called.
    pub from: WirePath,
    /// What it is called afterwards.
    pub to: WirePath,
}

/// What to copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyParams {
    /// What is copied; a symbolic link stands for itself.
    pub from: WirePath,
    /// What the copy is called.
    pub to: WirePath,
    /// Whether a directory is copied with all that is in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recursive: Option<bool>,
}

/// A path without symbolic links, `.` and `..`; absolute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RealpathResult {
    /// The path.
    pub path: WirePath,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dangling_link_and_what_is_no_link_are_told_apart() {
        let entry = |target_type| DirEntry {
            name: "x".to_owned(),
            file_type: FileType::Symlink,
            target_type,
            name_base64: None,
        };
        for target_type in [None, Some(None), Some(Some(FileType::CharDevice))] {
            let json = serde_json::to_string(&entry(target_type)).unwrap();
            assert_eq!(serde_json::from_str::<DirEntry>(&json).unwrap(), entry(target_type));
        }
        let json = serde_json::to_string(&entry(Some(None))).unwrap();
        assert_eq!(json, "{\"name\":\"x\",\"type\":\"symlink\",\"targetType\":null}");
    }

    #[test]
    fn a_mode_has_twelve_bits() {
        assert_eq!(serde_json::from_str::<Mode>("4095").unwrap().bits(), 0o7777);
        assert!(serde_json::from_str::<Mode>("4096").is_err());
        assert!(serde_json::from_str::<Mode>("-1").is_err());
    }
}
