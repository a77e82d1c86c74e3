//! One process in the environment, seen from the host.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::flow::{Debt, Pipeline};
use super::{Answer, ExecClient, dispatch};
use crate::buffers;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::{
    AckParams, Empty, ExecResult, ExitEvent, KillParams, KillResult, ProcessId, PtySize,
    ResizeParams, SignalName, chunk, method,
};

/// Which output a chunk comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output; the terminal; both, where they are merged.
    Stdout,
    /// Standard error.
    Stderr,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessExit {
    /// Its exit code; `None` where a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it, by name.
    pub signal: Option<String>,
    /// Whether the server ended it because its time was up.
    pub timed_out: bool,
    /// Whether it was signalled through the protocol (command lines only).
    pub killed: bool,
    /// Whether a descendant still holds its output open.
    pub output_held: bool,
    /// Bytes of stdout that the server sent.
    pub stdout_bytes: u64,
    /// Bytes of stderr that the server sent.
    pub stderr_bytes: u64,
}

impl From<ExecResult> for ProcessExit {
    fn from(result: ExecResult) -> Self {
        Self {
            exit_code: result.exit_code,
            signal: result.signal,
            timed_out: result.timed_out,
            killed: result.killed,
            output_held: result.output_held,
            stdout_bytes: result.stdout_bytes,
            stderr_bytes: result.stderr_bytes,
        }
    }
}

impl From<ExitEvent> for ProcessExit {
    fn from(event: ExitEvent) -> Self {
        Self {
            exit_code: event.exit_code,
            signal: event.signal,
            timed_out: false,
            killed: false,
            output_held: event.output_held,
            stdout_bytes: event.stdout_bytes,
            stderr_bytes: event.stderr_bytes,
        }
    }
}

/// What happens to a process.
#[derive(Debug)]
pub enum ProcessEvent<'a> {
    /// It wrote these bytes.
    Output(Stream, &'a [u8]),
    /// It is over; there are no more events.
    Exit(ProcessExit),
}

/// An event on its way from the reading thread.
#[derive(Debug)]
pub(super) enum Incoming {
    Output(Stream, Vec<u8>),
    Exit(ProcessExit),
    Failed(Error),
}

/// A process in the environment. Its events must be taken ([`RemoteProcess::next`]), or it stops
/// when its window is full. Dropping it does not end it; the end of the connection does.
pub struct RemoteProcess {
    client: ExecClient,
    id: ProcessId,
    pid: Option<i32>,
    events: Receiver<Incoming>,
    debt: Debt,
    /// Bytes that have come, of stdout and of stderr.
    came: (u64, u64),
    current: Vec<u8>,
}

impl RemoteProcess {
    pub(super) fn new(
        client: ExecClient,
        id: ProcessId,
        window: Option<NonZeroU64>,
    ) -> Result<Self> {
        #[expect(
            clippy::disallowed_methods,
            reason = "bounded by the process's window; without \
            one the caller has asked for no bound"
        )]
        let (sender, events) = crossbeam_channel::unbounded();
        client.inner.dispatch.subscribe(&id, sender)?;
        Ok(Self {
            client,
            id,
            pid: None,
            events,
            debt: Debt::new(window),
            came: (0, 0),
            current: Vec::new(),
        })
    }

    pub(super) fn set_pid(&mut self, pid: i32) {
        self.pid = Some(pid);
    }

    /// Its process id on the machine, for a spawned program.
    #[must_use]
    pub fn pid(&self) -> Option<i32> {
        self.pid
    }

    /// A handle to signal and feed it with, for another thread.
    #[must_use]
    pub fn control(&self) -> ProcessControl {
        ProcessControl { client: self.client.clone(), id: self.id.clone() }
    }

    /// Waits for the next event, until the deadline if there is one; `None` is the deadline.
    ///
    /// # Errors
    /// What the server answered to a command line that it could not start; `ConnectionLost`. It
    /// is the last event.
    pub fn next(&mut self, deadline: Option<Instant>) -> Result<Option<ProcessEvent<'_>>> {
        buffers::give(std::mem::take(&mut self.current));
        let event = match deadline {
            None => self.events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(deadline) => self.events.recv_deadline(deadline),
        };
        match event {
            Ok(Incoming::Output(stream, bytes)) => {
                let count = bytes.len() as u64;
                if let Some(bytes) = self.debt.add(bytes.len()) {
                    let params = AckParams { process_id: self.id.clone(), bytes };
                    self.client.notify(method::ACK, &params);
                }
                match stream {
                    Stream::Stdout => self.came.0 += count,
                    Stream::Stderr => self.came.1 += count,
                }
                self.current = bytes;
                Ok(Some(ProcessEvent::Output(stream, &self.current)))
            }
            // The server counts what it sends, so that nothing can be lost unseen.
            Ok(Incoming::Exit(exit)) if (exit.stdout_bytes, exit.stderr_bytes) != self.came => {
                let (stdout, stderr) = self.came;
                let message = format!(
                    "output was lost on the way: {stdout} of {} bytes of stdout came, and {stderr} \
                     of {} of stderr",
                    exit.stdout_bytes, exit.stderr_bytes
                );
                Err(Error::new(ErrorKind::Internal, message))
            }
            Ok(Incoming::Exit(exit)) => Ok(Some(ProcessEvent::Exit(exit))),
            Ok(Incoming::Failed(error)) => Err(error),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(dispatch::lost("the process is over")),
        }
    }

    /// Waits until it is over, handing its output to `on_output`.
    ///
    /// # Errors
    /// Those of [`RemoteProcess::next`].
    pub fn wait(mut self, mut on_output: impl FnMut(Stream, &[u8])) -> Result<ProcessExit> {
        loop {
            match self.next(None)? {
                Some(ProcessEvent::Output(stream, bytes)) => on_output(stream, bytes),
                Some(ProcessEvent::Exit(exit)) => return Ok(exit),
                None => {}
            }
        }
    }
}

impl Drop for RemoteProcess {
    fn drop(&mut self) {
        self.client.inner.dispatch.unsubscribe(&self.id);
    }
}

/// Signals and feeds a process.
#[derive(Clone)]
pub struct ProcessControl {
    client: ExecClient,
    id: ProcessId,
}

impl ProcessControl {
    /// Writes to its stdin, and closes that after it if `eof`. Answers when the bytes are in the
    /// pipe, however long that takes.
    ///
    /// # Errors
    /// `Os(EPIPE)` where nobody reads, `StdinFull`, `UnknownProcess` where it is over.
    pub fn write(&self, bytes: &[u8], eof: bool) -> Result<()> {
        self.begin_write(bytes, eof)?.wait().map(|Empty {}| ())
    }

    /// The same without waiting. ([`ProcessControl::stdin`] keeps the number of such calls in
    /// bounds.)
    ///
    /// # Errors
    /// `ConnectionLost`.
    pub fn begin_write(&self, bytes: &[u8], eof: bool) -> Result<Answer<Empty>> {
        let buffer = buffers::for_chunk(bytes.len());
        self.client.begin_with(buffer, |buffer, id| {
            chunk::write_stdin(buffer, id, &self.id, bytes, eof);
        })
    }

    /// Its stdin, to write more to than fits into one call.
    #[must_use]
    pub fn stdin(&self) -> RemoteStdin {
        RemoteStdin { control: self.clone(), pipeline: Pipeline::default() }
    }

    /// Signals its process group; with a grace, SIGKILL follows. `false` if it is over.
    ///
    /// # Errors
    /// Those of [`ExecClient::call`].
    pub fn kill(&self, signal: &str, grace: Option<Duration>) -> Result<bool> {
        let params = self.kill_params(signal, grace);
        self.client.call(method::KILL, &params).map(|KillResult { running }| running)
    }

    /// The same without waiting: for whoever must not be held up by a connection that is.
    ///
    /// # Errors
    /// `ConnectionLost`.
    pub fn begin_kill(&self, signal: &str, grace: Option<Duration>) -> Result<Answer<KillResult>> {
        self.client.begin(method::KILL, &self.kill_params(signal, grace))
    }

    fn kill_params(&self, signal: &str, grace: Option<Duration>) -> KillParams {
        KillParams {
            process_id: self.id.clone(),
            signal: Some(SignalName::Name(signal.to_owned())),
            grace_ms: grace.map(|grace| u64::try_from(grace.as_millis()).unwrap_or(u64::MAX)),
        }
    }

    /// Gives its terminal another size.
    ///
    /// # Errors
    /// `Os(ENOTTY)` where it has none, `UnknownProcess` where it is over.
    pub fn resize(&self, size: PtySize) -> Result<()> {
        let params = ResizeParams { process_id: self.id.clone(), cols: size.cols, rows: size.rows };
        self.client.call(method::RESIZE, &params).map(|Empty {}| ())
    }
}

/// A process's stdin. Writes go out one after the other without a round trip in between.
pub struct RemoteStdin {
    control: ProcessControl,
    pipeline: Pipeline,
}

impl RemoteStdin {
    /// Sends the bytes on their way, one call a chunk. Waits while too many before them are not
    /// in the pipe yet, so it goes at the pace of whoever reads.
    ///
    /// # Errors
    /// Those of [`ProcessControl::write`], of an earlier write perhaps. Nothing is read from
    /// then on.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let Self { control, pipeline } = self;
        pipeline.send(bytes, |chunk| control.begin_write(chunk, false))
    }

    /// Closes it after all that was written, and waits until that has happened.
    ///
    /// # Errors
    /// Those of [`RemoteStdin::write`].
    pub fn close(mut self) -> Result<()> {
        let Self { control, pipeline } = &mut self;
        pipeline.finish(|| control.begin_write(&[], true))
    }
}
