//! ExecRpc, the wire protocol, as types. Nothing here does I/O.
//!
//! `docs/protocol.md` is the prose. The params and results are also what the library's callers
//! hold in their hands: there is one set of types.

mod bytes;
pub(crate) mod chunk;
mod env;
pub(crate) mod file_content;
mod fs;
pub(crate) mod lifted;
mod net;
mod path;
mod process;
pub(crate) mod rpc;
mod search;
mod session;
mod whereabouts;

pub use bytes::Base64;
pub(crate) use bytes::{decode_onto, encode_onto};
pub use env::EnvDelta;
pub use fs::{
    ANY_VERSION, CopyParams, DirEntry, FileType, MkdirParams, Mode, PathParams, ReadFileParams,
    ReadFileResult, ReaddirResult, RealpathResult, RemoveParams, RenameParams, StatParams,
    StatResult, WriteFileParams, WriteFileResult,
};
pub use net::{
    CloseParams, CloseResult, ClosedEvent, ConnectParams, ConnectResult, ConnectionId, DataEvent,
    NetAckParams, NetWriteParams, Target,
};
pub use path::WirePath;
pub use process::{
    AckParams, DEFAULT_WINDOW, ExecParams, ExecResult, ExitEvent, KillParams, KillResult,
    OutputEvent, ProcessId, PtySize, ResizeParams, SignalName, SpawnParams, SpawnResult,
    WriteParams,
};
pub use search::{FindParams, FindResult, FoundEntry, GrepMatch, GrepParams, GrepResult};
pub use session::{Empty, InitializeParams, InitializeResult};

/// The version that `initialize` answers.
pub const PROTOCOL_VERSION: u32 = 1;
/// The largest epoch: the largest integer that every JSON reader keeps whole (2^53 - 1).
pub const MAX_EPOCH: u64 = (1 << 53) - 1;
/// Output of a process and data of a connection come in chunks of at most this many bytes.
pub const MAX_CHUNK: usize = 64 * 1024;
/// The most bytes of `process/write` that may wait for one process, and of `net/write` for one
/// connection.
pub const MAX_STDIN_WAITING: usize = 16 * 1024 * 1024;

/// The methods and notifications by name.
pub mod method {
    /// `initialize`
    pub const INITIALIZE: &str = "initialize";
    /// `ping`
    pub const PING: &str = "ping";
    /// `process/exec`
    pub const EXEC: &str = "process/exec";
    /// `process/spawn`
    pub const SPAWN: &str = "process/spawn";
    /// `process/write`
    pub const WRITE: &str = "process/write";
    /// `process/kill`
    pub const KILL: &str = "process/kill";
    /// `process/resize`
    pub const RESIZE: &str = "process/resize";
    /// `process/ack`, a notification to the server
    pub const ACK: &str = "process/ack";
    /// `process/output`, a notification to the host
    pub const OUTPUT: &str = "process/output";
    /// `process/stderr`, a notification to the host
    pub const STDERR: &str = "process/stderr";
    /// `process/exit`, a notification to the host
    pub const EXIT: &str = "process/exit";
    /// What the names of the methods about files begin with.
    pub const FILES: &str = "fs/";
    /// `fs/readFile`
    pub const READ_FILE: &str = "fs/readFile";
    /// `fs/writeFile`
    pub const WRITE_FILE: &str = "fs/writeFile";
    /// `fs/stat`
    pub const STAT: &str = "fs/stat";
    /// `fs/readdir`
    pub const READDIR: &str = "fs/readdir";
    /// `fs/mkdir`
    pub const MKDIR: &str = "fs/mkdir";
    /// `fs/remove`
    pub const REMOVE: &str = "fs/remove";
    /// `fs/rename`
    pub const RENAME: &str = "fs/rename";
    /// `fs/copy`
    pub const COPY: &str = "fs/copy";
    /// `fs/realpath`
    pub const REALPATH: &str = "fs/realpath";
    /// `fs/find`
    pub const FIND: &str = "fs/find";
    /// `fs/grep`
    pub const GREP: &str = "fs/grep";
    /// `net/connect`
    pub const CONNECT: &str = "net/connect";
    /// `net/write`
    pub const NET_WRITE: &str = "net/write";
    /// `net/close`
    pub const CLOSE: &str = "net/close";
    /// `net/ack`, a notification to the server
    pub const NET_ACK: &str = "net/ack";
    /// `net/data`, a notification to the host
    pub const DATA: &str = "net/data";
    /// `net/closed`, a notification to the host
    pub const CLOSED: &str = "net/closed";
}
