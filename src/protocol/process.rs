//! `process/*`: params, results and notifications.

use std::num::{NonZeroU16, NonZeroU64};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::bytes::{Base64, without_nul};
use super::env::EnvDelta;

/// A process's name on its connection: 1 to 128 characters, chosen by the host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct ProcessId(String);

/// How many bytes of output a process may be ahead of its host where nothing else is said.
pub const DEFAULT_WINDOW: NonZeroU64 = NonZeroU64::new(1024 * 1024).unwrap();

impl ProcessId {
    /// An id that this program has not used yet.
    #[must_use]
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(format!("p{}", NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// The id itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for ProcessId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ProcessId {
    type Error = String;

    fn try_from(id: String) -> Result<Self, String> {
        check_id(id).map(Self)
    }
}

/// Answers the id if it may be one.
pub(super) fn check_id(id: String) -> Result<String, String> {
    match id.chars().count() {
        1..=128 => Ok(id),
        count => Err(format!("an id has 1 to 128 characters, this one {count}")),
    }
}

/// A command line for the shell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecParams {
    /// Its id while it runs.
    pub process_id: ProcessId,
    /// The command line.
    #[serde(deserialize_with = "without_nul")]
    pub command: String,
    /// The shell, in place of the server's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// Where it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Changes to the environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<EnvDelta>,
    /// Milliseconds until it is ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<NonZeroU64>,
    /// Milliseconds from SIGTERM to SIGKILL; without it SIGKILL comes at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// What it reads from stdin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<Base64>,
    /// Whether stderr goes into the same pipe as stdout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merge_stderr: Option<bool>,
    /// Bytes of output that may be on their way unacknowledged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<NonZeroU64>,
}

impl ExecParams {
    /// A command line with nothing else said, under an id that no other process of this program
    /// has.
    #[must_use]
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            process_id: ProcessId::unique(),
            command: command.into(),
            shell: None,
            cwd: None,
            env: None,
            timeout_ms: None,
            grace_ms: None,
            stdin: None,
            merge_stderr: None,
            window: Some(DEFAULT_WINDOW),
        }
    }
}

/// How a command line ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecResult {
    /// Its exit code; `None` where a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it, by name.
    pub signal: Option<String>,
    /// Whether its time was up.
    pub timed_out: bool,
    /// Whether `process/kill` signalled it.
    pub killed: bool,
    /// Whether a descendant still holds its output open.
    pub output_held: bool,
    /// Bytes of stdout that were sent.
    pub stdout_bytes: u64,
    /// Bytes of stderr that were sent.
    pub stderr_bytes: u64,
    /// Milliseconds from its start to this answer.
    pub duration_ms: u64,
}

/// A program with arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpawnParams {
    /// Its id while it runs.
    pub process_id: ProcessId,
    /// A path, or a name looked up in the child's own PATH.
    #[serde(deserialize_with = "without_nul")]
    pub command: String,
    /// Its arguments, without its own name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Where it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Changes to the environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<EnvDelta>,
    /// A terminal of this size in place of pipes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pty: Option<PtySize>,
    /// Whether stderr goes into the same pipe as stdout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merge_stderr: Option<bool>,
    /// Bytes of output that may be on their way unacknowledged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<NonZeroU64>,
}

impl SpawnParams {
    /// A program with nothing else said, under an id that no other process of this program has.
    #[must_use]
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            process_id: ProcessId::unique(),
            command: command.into(),
            args: None,
            cwd: None,
            env: None,
            pty: None,
            merge_stderr: None,
            window: Some(DEFAULT_WINDOW),
        }
    }

    /// With one more argument.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.args.get_or_insert_default().push(argument.into());
        self
    }
}

/// A terminal's size in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "an object with cols and rows")]
pub struct PtySize {
    /// Characters in a line.
    pub cols: NonZeroU16,
    /// Lines.
    pub rows: NonZeroU16,
}

/// A program that has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnResult {
    /// Its process id on the machine.
    pub pid: i32,
}

/// Bytes for a process's stdin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteParams {
    /// Which process.
    pub process_id: ProcessId,
    /// The bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Base64>,
    /// Whether stdin is closed after them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eof: Option<bool>,
}

/// A signal by name (with or without `SIG`) or number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a signal's name or number")]
pub enum SignalName {
    /// `"SIGTERM"`, `"TERM"`.
    Name(String),
    /// `15`.
    Number(i64),
}

/// A signal for a process's group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KillParams {
    /// Which process.
    pub process_id: ProcessId,
    /// The signal; SIGKILL if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<SignalName>,
    /// Milliseconds until SIGKILL follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
}

/// Whether there was something to signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KillResult {
    /// `false` where the process is over or unknown: nothing has happened.
    pub running: bool,
}

/// Another size for a process's terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResizeParams {
    /// Which process.
    pub process_id: ProcessId,
    /// Characters in a line.
    pub cols: NonZeroU16,
    /// Lines.
    pub rows: NonZeroU16,
}

/// Output that the host has taken in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AckParams {
    /// Which process.
    pub process_id: ProcessId,
    /// How many bytes.
    pub bytes: u64,
}

/// A chunk of output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputEvent {
    /// Which process.
    pub process_id: String,
    /// 1, 2, 3 … over all notifications of the process.
    pub seq: u64,
    /// At most [`MAX_CHUNK`](super::MAX_CHUNK) bytes.
    pub chunk: Base64,
}

/// How a spawned program ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExitEvent {
    /// Which process.
    pub process_id: String,
    /// One more than that of its last chunk.
    pub seq: u64,
    /// Its exit code; `None` where a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it, by name.
    pub signal: Option<String>,
    /// Whether a descendant still holds its output open.
    pub output_held: bool,
    /// Bytes of stdout that were sent.
    pub stdout_bytes: u64,
    /// Bytes of stderr that were sent.
    pub stderr_bytes: u64,
}
