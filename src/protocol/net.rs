//! `net/*`: params, results and notifications.

use std::num::{NonZeroU16, NonZeroU64};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::bytes::{Base64, without_nul};
use super::path::WirePath;
use super::process::{DEFAULT_WINDOW, check_id};

/// A connection's name on the host's own connection: 1 to 128 characters, chosen by the host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct ConnectionId(String);

impl ConnectionId {
    /// An id that this program has not used yet.
    #[must_use]
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(format!("c{}", NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// The id itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for ConnectionId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ConnectionId {
    type Error = String;

    fn try_from(id: String) -> Result<Self, String> {
        check_id(id).map(Self)
    }
}

/// Where a connection leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A TCP port of a host: a name or an address, as the server's machine knows it.
    Tcp {
        /// The name or address.
        host: String,
        /// The port.
        port: NonZeroU16,
    },
    /// A Unix socket.
    Unix(WirePath),
}

/// A connection to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ConnectForm", into = "ConnectForm")]
pub struct ConnectParams {
    /// Its id while it lasts.
    pub connection_id: ConnectionId,
    /// Where it leads.
    pub target: Target,
    /// Milliseconds until the attempt is given up; 10,000 if it is absent.
    pub timeout_ms: Option<NonZeroU64>,
    /// Bytes of data that may be on their way unacknowledged.
    pub window: Option<NonZeroU64>,
}

/// The same as it travels.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConnectForm {
    connection_id: ConnectionId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<Host>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    port: Option<NonZeroU16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<WirePath>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<NonZeroU64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    window: Option<NonZeroU64>,
}

#[derive(Serialize, Deserialize)]
struct Host(#[serde(deserialize_with = "without_nul")] String);

impl ConnectParams {
    /// A TCP port, with the usual window, under an id that no other connection of this program
    /// has.
    #[must_use]
    pub fn tcp(host: impl Into<String>, port: NonZeroU16) -> Self {
        Self::new(Target::Tcp { host: host.into(), port })
    }

    /// A Unix socket; a relative path is relative to the server's directory.
    #[must_use]
    pub fn unix(path: WirePath) -> Self {
        Self::new(Target::Unix(path))
    }

    fn new(target: Target) -> Self {
        let connection_id = ConnectionId::unique();
        Self { connection_id, target, timeout_ms: None, window: Some(DEFAULT_WINDOW) }
    }
}

impl TryFrom<ConnectForm> for ConnectParams {
    type Error = &'static str;

    fn try_from(form: ConnectForm) -> Result<Self, Self::Error> {
        let target = match (form.host, form.port, form.path) {
            (Some(Host(host)), ..) if host.is_empty() => return Err("host: a host needs a name"),
            (Some(Host(host)), Some(port), None) => Target::Tcp { host, port },
            (None, None, Some(path)) => Target::Unix(path),
            (Some(_), None, None) => return Err("port: missing"),
            (None, Some(_), None) => return Err("host: missing"),
            (None, None, None) => return Err("host: missing (or path, for a Unix socket)"),
            (_, _, Some(_)) => return Err("path: stands alone, without host and port"),
        };
        let ConnectForm { connection_id, timeout_ms, window, .. } = form;
        Ok(Self { connection_id, target, timeout_ms, window })
    }
}

impl From<ConnectParams> for ConnectForm {
    fn from(params: ConnectParams) -> Self {
        let (host, port, path) = match params.target {
            Target::Tcp { host, port } => (Some(Host(host)), Some(port), None),
            Target::Unix(path) => (None, None, Some(path)),
        };
        let ConnectParams { connection_id, timeout_ms, window, .. } = params;
        Self { connection_id, host, port, path, timeout_ms, window }
    }
}

/// A connection that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectResult {
    /// `IP:PORT`, `[IP6]:PORT`, or the path of the Unix socket.
    pub remote_address: WirePath,
}

/// Bytes for the far end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetWriteParams {
    /// Which connection.
    pub connection_id: ConnectionId,
    /// The bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Base64>,
    /// Whether the sending half is closed after them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eof: Option<bool>,
}

/// A connection to close.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CloseParams {
    /// Which one.
    pub connection_id: ConnectionId,
}

/// Whether there was something to close.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloseResult {
    /// `false` where the connection is over or unknown: nothing has happened.
    pub closed: bool,
}

/// Data that the host has taken in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetAckParams {
    /// Of which connection.
    pub connection_id: ConnectionId,
    /// How many bytes.
    pub bytes: u64,
}

/// Data from the far end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DataEvent {
    /// Of which connection.
    pub connection_id: String,
    /// At most [`MAX_CHUNK`](super::MAX_CHUNK) bytes.
    pub chunk: Base64,
    /// Whether the far end has finished sending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eof: Option<bool>,
}

/// The last word about a connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClosedEvent {
    /// Which one.
    pub connection_id: String,
    /// What it failed of, if it did: an error object as answers have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<RawValue>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_port_of_a_host_or_a_path() {
        let read = |rest: &str| {
            let json = format!("{{\"connectionId\":\"c\",{rest}}}");
            serde_json::from_str::<ConnectParams>(&json).map_err(|error| error.to_string())
        };
        let tcp = read("\"host\":\"::1\",\"port\":80").unwrap();
        let json = serde_json::to_string(&tcp).unwrap();
        assert_eq!(json, "{\"connectionId\":\"c\",\"host\":\"::1\",\"port\":80}");
        let unix = read("\"path\":\"/run/x\"").unwrap();
        let json = serde_json::to_string(&unix).unwrap();
        assert_eq!(serde_json::from_str::<ConnectParams>(&json).unwrap(), unix);
        for (wrong, member) in [
            ("\"host\":\"x\"", "port"),
            ("\"port\":1", "host"),
            ("\"host\":\"x\",\"port\":1,\"path\":\"/x\"", "path"),
            ("\"host\":\"x\",\"port\":0", "expected a nonzero u16"),
            ("\"window\":1", "host"),
            ("\"host\":\"\",\"port\":1", "host"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(member), "{wrong}: {error}");
        }
    }
}
