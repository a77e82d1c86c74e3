//! One process in an environment, seen from the host.

use std::num::NonZeroU64;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::flow::{Debt, Pipeline};
use super::inbox::{Inbox, Missed, Reader, Sender};
use crate::buffers;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::{Empty, ExecResult, ExitEvent, KillResult, PtySize};

/// The answer to something that is under way.
#[must_use = "an answer may be an error"]
pub struct Answer<R>(Inbox<Result<R>>);

/// Gives an answer. Dropped without it, it tells that the answer was lost.
pub(crate) struct Answering<R>(Sender<Result<R>>);

impl<R> Answer<R> {
    pub(crate) fn awaited() -> (Answering<R>, Self) {
        let (sender, inbox) = Inbox::new(None);
        (Answering(sender), Self(inbox))
    }

    /// The same where somebody has to read it.
    pub(crate) fn read_by(reader: Weak<dyn Reader>) -> (Answering<R>, Self) {
        let (sender, inbox) = Inbox::new(Some(reader));
        (Answering(sender), Self(inbox))
    }

    /// One that is there already.
    pub(crate) fn given(answer: Result<R>) -> Self {
        let (answering, awaited) = Self::awaited();
        answering.give(answer);
        awaited
    }

    /// Waits for it, however long that takes. It comes once.
    ///
    /// # Errors
    /// What is answered; `ConnectionLost` where it cannot come any more (what was asked for may have
    /// had its effect).
    pub fn wait(&self) -> Result<R> {
        self.0.receive(None).unwrap_or_else(|_| Err(lost()))
    }

    /// Waits for it until then; `None` where it has not come.
    ///
    /// # Errors
    /// Those of [`Answer::wait`].
    pub fn wait_until(&self, deadline: Instant) -> Result<Option<R>> {
        match self.0.receive(Some(deadline)) {
            Ok(answer) => answer.map(Some),
            Err(Missed::Deadline) => Ok(None),
            Err(Missed::Gone) => Err(lost()),
        }
    }
}

impl<R> Answering<R> {
    pub(crate) fn give(self, answer: Result<R>) {
        // Whoever has stopped waiting wants none.
        self.0.send(answer);
    }
}

fn lost() -> Error {
    Error::new(ErrorKind::ConnectionLost, "the connection was lost: it has ended")
}

/// The error of whoever uses an environment that has been closed, or something of it.
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::ConnectionLost, "the environment was closed from this side")
}

/// What can be done with a process, wherever it runs.
pub(crate) trait Control: Send + Sync {
    /// So many bytes of output have been taken.
    fn acknowledge(&self, bytes: u64);

    /// Writes to its stdin, and closes it after that if `eof`.
    fn write(&self, bytes: &[u8], eof: bool) -> Result<Answer<Empty>>;

    /// Signals its group; with a grace, SIGKILL follows.
    fn kill(&self, signal: &str, grace: Option<Duration>) -> Result<Answer<KillResult>>;

    /// Gives its terminal another size.
    fn resize(&self, size: PtySize) -> Result<Answer<Empty>>;

    /// Nobody takes its events any more.
    fn leave(&self) {}
}

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

/// An event on its way to whoever holds the process.
#[derive(Debug)]
pub(crate) enum Incoming {
    Output(Stream, Vec<u8>),
    Exit(ProcessExit),
    Failed(Error),
}

/// An event that has come.
pub(super) enum Received {
    Output(Stream, Vec<u8>),
    Exit(ProcessExit),
}

/// Where events go.
pub(crate) type Events = Sender<Incoming>;

/// A process in an environment. Its events must be taken ([`Process::next`]), or it stops when its
/// window is full; it alone, nothing else waits for it. Dropping it does not end it; the end of the
/// environment does. Whoever wants streams rather than events takes it apart ([`Process::split`]).
pub struct Process {
    pub(super) control: Arc<dyn Control>,
    pid: Option<i32>,
    events: Inbox<Incoming>,
    pub(super) debt: Debt,
    /// Bytes that have come, of stdout and of stderr.
    came: (u64, u64),
    current: Vec<u8>,
}

impl Process {
    pub(crate) fn new(
        control: Arc<dyn Control>,
        events: Inbox<Incoming>,
        window: Option<NonZeroU64>,
    ) -> Self {
        let (debt, current) = (Debt::new(window), Vec::new());
        Self { control, pid: None, events, debt, came: (0, 0), current }
    }

    pub(crate) fn set_pid(&mut self, pid: i32) {
        self.pid = Some(pid);
    }

    /// Its process id on its machine, for a spawned program.
    #[must_use]
    pub fn pid(&self) -> Option<i32> {
        self.pid
    }

    /// A handle to signal, abort and feed it with, for another thread.
    #[must_use]
    pub fn control(&self) -> ProcessControl {
        ProcessControl { control: Arc::clone(&self.control) }
    }

    /// Waits for the next event, until the deadline if there is one; `None` is the deadline.
    ///
    /// # Errors
    /// What the server answered to a command line that it could not start; `ConnectionLost`. It
    /// is the last event.
    pub fn next(&mut self, deadline: Option<Instant>) -> Result<Option<ProcessEvent<'_>>> {
        buffers::give(std::mem::take(&mut self.current));
        match self.receive(deadline)? {
            None => Ok(None),
            Some(Received::Output(stream, bytes)) => {
                if let Some(bytes) = self.debt.add(bytes.len()) {
                    self.control.acknowledge(bytes);
                }
                self.current = bytes;
                Ok(Some(ProcessEvent::Output(stream, &self.current)))
            }
            Some(Received::Exit(exit)) => Ok(Some(ProcessEvent::Exit(exit))),
        }
    }

    /// The same; what has come is not acknowledged.
    pub(super) fn receive(&mut self, deadline: Option<Instant>) -> Result<Option<Received>> {
        match self.events.receive(deadline) {
            Ok(Incoming::Output(stream, bytes)) => {
                let count = bytes.len() as u64;
                match stream {
                    Stream::Stdout => self.came.0 += count,
                    Stream::Stderr => self.came.1 += count,
                }
                Ok(Some(Received::Output(stream, bytes)))
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
            Ok(Incoming::Exit(exit)) => Ok(Some(Received::Exit(exit))),
            Ok(Incoming::Failed(error)) => Err(error),
            Err(Missed::Deadline) => Ok(None),
            Err(Missed::Gone) => {
                let message = "the process is over, and has told so";
                Err(Error::new(ErrorKind::UnknownProcess, message))
            }
        }
    }

    /// Waits until it is over, handing its output to `on_output`.
    ///
    /// # Errors
    /// Those of [`Process::next`].
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

impl Drop for Process {
    fn drop(&mut self) {
        self.control.leave();
    }
}

/// Signals and feeds a process.
#[derive(Clone)]
pub struct ProcessControl {
    control: Arc<dyn Control>,
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
        self.control.write(bytes, eof)
    }

    /// Its stdin, to write more to than fits into one call.
    #[must_use]
    pub fn stdin(&self) -> ProcessStdin {
        ProcessStdin { control: self.clone(), pipeline: Pipeline::default() }
    }

    /// Ends it at once, with all that has come of it. It is still to tell its end.
    pub fn abort(&self) {
        // Where the connection has gone it has ended with that.
        let _ = self.begin_kill("SIGKILL", None);
    }

    /// Signals its process group; with a grace, SIGKILL follows. `false` if it is over.
    ///
    /// # Errors
    /// `InvalidParams` for a signal that there is not, `ConnectionLost`.
    pub fn kill(&self, signal: &str, grace: Option<Duration>) -> Result<bool> {
        self.begin_kill(signal, grace)?.wait().map(|KillResult { running }| running)
    }

    /// The same without waiting: for whoever must not be held up by a connection that is.
    ///
    /// # Errors
    /// `ConnectionLost`.
    pub fn begin_kill(&self, signal: &str, grace: Option<Duration>) -> Result<Answer<KillResult>> {
        self.control.kill(signal, grace)
    }

    /// Gives its terminal another size.
    ///
    /// # Errors
    /// `Os(ENOTTY)` where it has none, `UnknownProcess` where it is over.
    pub fn resize(&self, size: PtySize) -> Result<()> {
        self.control.resize(size)?.wait().map(|Empty {}| ())
    }
}

/// A process's stdin. Writes go out one after the other without a round trip in between.
pub struct ProcessStdin {
    control: ProcessControl,
    pipeline: Pipeline,
}

impl ProcessStdin {
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
    /// Those of [`ProcessStdin::write`].
    pub fn close(mut self) -> Result<()> {
        let Self { control, pipeline } = &mut self;
        pipeline.finish(|| control.begin_write(&[], true))
    }
}
