//! `initialize` and `ping`.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::MAX_EPOCH;

/// A params or result object with nothing in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}

/// What the host says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    /// The client program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_name: Option<String>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_version: Option<String>,
    /// Its epoch, at most [`MAX_EPOCH`](super::MAX_EPOCH).
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "epoch")]
    pub epoch: Option<u64>,
}

fn epoch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let epoch = Option::<u64>::deserialize(deserializer)?;
    match epoch {
        Some(epoch) if epoch > MAX_EPOCH => {
            let wanted = format!("integer `{epoch}` is larger than {MAX_EPOCH}");
            Err(D::Error::custom(wanted))
        }
        epoch => Ok(epoch),
    }
}

/// What the environment says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResult {
    /// [`PROTOCOL_VERSION`](super::PROTOCOL_VERSION).
    pub protocol_version: u32,
    /// `"ta"`.
    pub server_name: String,
    /// The version of the server program.
    pub server_version: String,
    /// The directory that relative paths are relative to; absolute.
    pub cwd: String,
    /// The user's home directory.
    pub home: Option<String>,
    /// The directory for temporary files.
    pub tmpdir: String,
    /// The shell that runs command lines; `None` where the machine has none.
    pub shell: Option<String>,
    /// `"linux"`, `"macos"`.
    pub os: String,
    /// `"x86_64"`, `"aarch64"`.
    pub arch: String,
    /// The machine's name.
    pub hostname: String,
    /// The serving process.
    pub pid: u32,
    /// The connection's epoch, if it has one.
    pub epoch: Option<u64>,
    /// The longest message that the server takes, in bytes.
    pub max_message_bytes: usize,
    /// What this server can do.
    pub features: Vec<String>,
}
