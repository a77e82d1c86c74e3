//! A place where programs run: this machine, or another one.
//!
//! The hazard to know: whoever holds a process takes its output, or lets go of it. A process whose
//! output nobody takes stops when its window (1 MiB if nothing else is said) is full.
//!
//! A command line, with its output as it comes, a limit, and a handle to abort it with:
//!
//! ```
//! use std::num::NonZeroU64;
//! use ta_exec::environment::{ExecEnvironment, LocalExecEnvironment, Stream};
//! use ta_exec::protocol::ExecParams;
//!
//! # fn main() -> ta_exec::Result<()> {
//! let environment = LocalExecEnvironment::new(Some("/".into()))?;
//! let mut params = ExecParams::new("echo here: $PWD; sleep 600");
//! params.timeout_ms = NonZeroU64::new(60_000);
//! let process = environment.exec(&params)?;
//! let abort = process.control(); // for any thread
//! let exit = process.wait(|stream, bytes| {
//!     assert_eq!((stream, bytes), (Stream::Stdout, &b"here: /\n"[..]));
//!     abort.abort(); // ends it with all that has come of it
//! })?;
//! assert!(exit.killed && !exit.timed_out);
//! assert_eq!(exit.signal.as_deref(), Some("SIGKILL"));
//! # Ok(())
//! # }
//! ```
//!
//! A program that is spoken with, such as an MCP server, as streams:
//!
//! ```
//! use std::io::{BufRead, BufReader, Write};
//! use ta_exec::environment::{ExecEnvironment, LocalExecEnvironment, SplitProcess};
//! use ta_exec::protocol::SpawnParams;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let environment = LocalExecEnvironment::new(None)?;
//! let process = environment.spawn(&SpawnParams::new("cat"))?;
//! let SplitProcess { mut stdin, stdout, stderr, end } = process.split()?;
//! drop(stderr); // whoever does not read it drops it: what nobody reads holds the process up
//! let mut answers = BufReader::new(stdout).lines();
//! writeln!(stdin, "a request")?;
//! assert_eq!(answers.next().transpose()?.as_deref(), Some("a request"));
//! stdin.finish()?; // closes it; dropping it does, too
//! assert_eq!(end.wait()?.exit_code, Some(0));
//! # Ok(())
//! # }
//! ```
//!
//! Files. What somebody else has changed meanwhile is not overwritten:
//!
//! ```
//! use ta_exec::ErrorKind;
//! use ta_exec::environment::{ExecEnvironment, LocalExecEnvironment};
//! use ta_exec::protocol::{ReadFileParams, RemoveParams, WirePath, WriteFileParams};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let environment = LocalExecEnvironment::new(Some(std::env::temp_dir()))?;
//! let path = WirePath::try_from(format!("notes-{}", std::process::id()).as_str())?;
//! environment.write_file(&WriteFileParams::new(path.clone(), b"one".to_vec()))?;
//! let read = environment.read_file(&ReadFileParams::whole(path.clone()))?;
//! assert_eq!(read.data_base64.0, b"one");
//! // Somebody else …
//! environment.write_file(&WriteFileParams::new(path.clone(), b"two!".to_vec()))?;
//! // … so that this is refused.
//! let mut edit = WriteFileParams::new(path.clone(), b"one more".to_vec());
//! edit.if_version = Some(read.version);
//! let refused = environment.write_file(&edit).unwrap_err();
//! assert_eq!(*refused.kind(), ErrorKind::Conflict);
//! environment.remove(&RemoveParams { path, recursive: None, force: None })?;
//! # Ok(())
//! # }
//! ```

mod flow;
mod inbox;
mod local;
mod machine;
mod process;
mod remote;
mod split;

pub(crate) use flow::{Allowance, Debt, Pipeline, part};
pub(crate) use inbox::{Inbox, Missed, Reader, Sender};
pub use local::LocalExecEnvironment;
pub(crate) use machine::{Exact, Machine, MachineOptions};
pub use process::{
    Answer, Process, ProcessControl, ProcessEvent, ProcessExit, ProcessStdin, Stream,
};
pub(crate) use process::{Control, Events, Incoming, closed};
pub use remote::RemoteExecEnvironment;
pub use split::{OutputReader, ProcessEnd, SplitProcess, StdinWriter};

use std::path::Path;

use crate::client::RemoteConnection;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::{
    ConnectParams, CopyParams, ExecParams, FindParams, FindResult, GrepParams, GrepResult,
    InitializeResult, MkdirParams, PathParams, ProcessId, ReadFileParams, ReadFileResult,
    ReaddirResult, RealpathResult, RemoveParams, RenameParams, SpawnParams, StatParams, StatResult,
    WriteFileParams, WriteFileResult,
};

/// A place where programs run and files are. Whoever writes an agent holds one of these and need
/// not know where it is. All paths are paths there; relative ones are relative to
/// [`ExecEnvironment::cwd`].
///
/// What is started belongs to the environment value: it ends when the last of its clones has been
/// dropped, or its connection is lost.
pub trait ExecEnvironment: Send + Sync {
    /// The directory that relative paths are relative to; absolute.
    fn cwd(&self) -> &Path;

    /// Whether it is the machine that this program runs on.
    fn local(&self) -> bool;

    /// What it says of itself.
    ///
    /// # Errors
    /// `ConnectionLost`.
    fn about(&self) -> Result<InitializeResult>;

    /// Runs a command line in the shell. It runs when this returns, or has failed to start, which
    /// its first event tells. [`Process::control`] is the handle to abort it.
    ///
    /// # Errors
    /// `DuplicateId`, `ConnectionLost`. (What is wrong with the params is told by its first event,
    /// too.)
    fn exec(&self, params: &ExecParams) -> Result<Process>;

    /// Starts a program that lives on: an MCP or language server, a shell. It runs when this
    /// returns.
    ///
    /// # Errors
    /// `Os(ENOENT)` and the like, with the step at which it failed; `DuplicateId`, `Limit`,
    /// `ConnectionLost`.
    fn spawn(&self, params: &SpawnParams) -> Result<Process>;

    /// Reads a file, or a part of it.
    ///
    /// # Errors
    /// `TooLarge` where the answer would be longer than a message may be: read it in parts.
    /// `NotAFile`, `Os(ENOENT)` and the like; `ConnectionLost`.
    fn read_file(&self, params: &ReadFileParams) -> Result<ReadFileResult>;

    /// Writes a file, whole or not at all where that is possible, or appends to it.
    ///
    /// # Errors
    /// `Conflict` where the file has another version than `if_version`, `Os(ENOSPC)` and the like;
    /// `ConnectionLost`: it may have been written, or not.
    fn write_file(&self, params: &WriteFileParams) -> Result<WriteFileResult>;

    /// Begins to read; the answer can be waited for later, so that several parts of a file are on
    /// their way at once. Where it is local it has been read when this returns.
    ///
    /// # Errors
    /// `ConnectionLost`; the answer's are those of [`ExecEnvironment::read_file`].
    fn begin_read_file(&self, params: &ReadFileParams) -> Result<Answer<ReadFileResult>> {
        Ok(Answer::given(self.read_file(params)))
    }

    /// Begins to write; the answer can be waited for later. Writes are made in the order in which
    /// they are begun. Where it is local it has been written when this returns.
    ///
    /// # Errors
    /// `ConnectionLost`; the answer's are those of [`ExecEnvironment::write_file`].
    fn begin_write_file(&self, params: &WriteFileParams) -> Result<Answer<WriteFileResult>> {
        Ok(Answer::given(self.write_file(params)))
    }

    /// Tells what stands at a path.
    ///
    /// # Errors
    /// `Os(ENOENT)` and the like; `ConnectionLost`.
    fn stat(&self, params: &StatParams) -> Result<StatResult>;

    /// Lists a directory, by name.
    ///
    /// # Errors
    /// `Os(ENOTDIR)` and the like; `ConnectionLost`.
    fn readdir(&self, params: &PathParams) -> Result<ReaddirResult>;

    /// Makes a directory, with those above it unless that is not wanted.
    ///
    /// # Errors
    /// `Os(EEXIST)` and the like; `ConnectionLost`.
    fn mkdir(&self, params: &MkdirParams) -> Result<()>;

    /// Removes a file or a directory. Never follows a symbolic link.
    ///
    /// # Errors
    /// `Os(ENOTEMPTY)` and the like; `ConnectionLost`.
    fn remove(&self, params: &RemoveParams) -> Result<()>;

    /// Renames.
    ///
    /// # Errors
    /// `Os(EXDEV)` and the like; `ConnectionLost`.
    fn rename(&self, params: &RenameParams) -> Result<()>;

    /// Copies a file or a directory within the environment.
    ///
    /// # Errors
    /// `Os(EISDIR)` and the like; `ConnectionLost`.
    fn copy(&self, params: &CopyParams) -> Result<()>;

    /// Resolves a path to one without links, `.` and `..`.
    ///
    /// # Errors
    /// `Os(ENOENT)` and the like; `ConnectionLost`.
    fn realpath(&self, params: &PathParams) -> Result<RealpathResult>;

    /// Finds what has a name below a directory; the first ones in order.
    ///
    /// # Errors
    /// `InvalidParams` where a glob is none, `Os(ENOTDIR)` and the like; `Os(ECANCELED)` where the
    /// search was ended; `DuplicateId`; `ConnectionLost`.
    fn find(&self, params: &FindParams) -> Result<FindResult>;

    /// Finds the lines that match in the files below a directory; the first ones in order.
    ///
    /// # Errors
    /// `InvalidParams` where the pattern or a glob is none, `Os(ENOENT)` and the like;
    /// `Os(ECANCELED)` where the search was ended; `DuplicateId`; `ConnectionLost`.
    fn grep(&self, params: &GrepParams) -> Result<GrepResult>;

    /// Ends a search by its `process_id`: whoever waits for it hears `Os(ECANCELED)`. `false` where
    /// there is none.
    ///
    /// # Errors
    /// `ConnectionLost`.
    fn end_search(&self, id: &ProcessId) -> Result<bool>;

    /// Connects, from where the environment is, to a TCP port or a Unix socket.
    ///
    /// # Errors
    /// `Os(ECONNREFUSED)`, `Os(ETIMEDOUT)` and the like; `ConnectionLost`. A local environment has
    /// no other way than the program's own: `Unsupported`.
    fn connect(&self, _params: &ConnectParams) -> Result<RemoteConnection> {
        let message = "this machine is the environment: connect to it directly";
        Err(Error::new(ErrorKind::Unsupported, message))
    }
}
