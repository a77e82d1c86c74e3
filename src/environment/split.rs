//! A process as streams: its stdin to write to, its stdout and stderr to read from, each by a thread
//! of its own.
//!
//! The hazard to know: both outputs share the process's window. One that is neither read nor dropped
//! holds the other up when the window is full, as a pipe does that nobody reads.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use super::flow::{Debt, Pipeline};
use super::process::{Control, Process, ProcessControl, ProcessExit, Received, Stream};
use crate::buffers;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{lock, wait};
use crate::threads;

/// A process that has been taken apart ([`Process::split`]). Its parts may go to different threads.
pub struct SplitProcess {
    /// To write to.
    pub stdin: StdinWriter,
    /// To read from; with a terminal, or where they are merged, all output comes here.
    pub stdout: OutputReader,
    /// To read from, or to drop.
    pub stderr: OutputReader,
    /// To wait for its end with.
    pub end: ProcessEnd,
}

impl Process {
    /// Takes it apart into streams, for whoever speaks a protocol with it: an MCP server, a language
    /// server.
    ///
    /// **stderr must be read, or dropped.** What nobody reads fills the window that both outputs
    /// share, and the process stops then. A reader that has been dropped discards what comes; an MCP
    /// server whose log nobody wants is `drop(split.stderr)`. In the same way all of the output has
    /// to be read or dropped before [`ProcessEnd::wait`] can answer.
    ///
    /// Dropping the parts does not end the process (but most programs end with their stdin); the end
    /// of the environment does, and [`ProcessEnd::control`] can.
    ///
    /// # Errors
    /// There can be no more threads: one is needed to pass its output on.
    pub fn split(mut self) -> Result<SplitProcess> {
        let debt = std::mem::replace(&mut self.debt, Debt::new(None));
        let credit = Credit { control: Arc::clone(&self.control), debt: Mutex::new(debt) };
        let control = self.control();
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: [Condvar::new(), Condvar::new(), Condvar::new()],
            credit,
        });
        let pump = Arc::clone(&shared);
        threads::run(move || pump.run(self))
            .map_err(|error| Error::io(&error, "cannot make a thread for a process"))?;
        let reader = |stream| OutputReader {
            shared: Arc::clone(&shared),
            stream,
            current: Vec::new(),
            at: 0,
        };
        Ok(SplitProcess {
            stdin: StdinWriter {
                control: control.clone(),
                pipeline: Pipeline::default(),
                open: true,
            },
            stdout: reader(Stream::Stdout),
            stderr: reader(Stream::Stderr),
            end: ProcessEnd { shared, control },
        })
    }
}

/// What all parts share.
struct Shared {
    state: Mutex<State>,
    /// For the readers of stdout and stderr, and for whoever waits for the end: each is woken by what
    /// is for him.
    changed: [Condvar; 3],
    credit: Credit,
}

#[derive(Default)]
struct State {
    /// Output that nobody has taken yet, of stdout and of stderr. The window bounds it: it is
    /// acknowledged when it is taken.
    waiting: [VecDeque<Vec<u8>>; 2],
    /// Whose reader has gone.
    discarding: [bool; 2],
    end: Option<Result<ProcessExit>>,
}

/// What acknowledges output.
struct Credit {
    control: Arc<dyn Control>,
    debt: Mutex<Debt>,
}

impl Credit {
    fn taken(&self, bytes: usize) {
        let due = lock(&self.debt).add(bytes);
        if let Some(bytes) = due {
            self.control.acknowledge(bytes);
        }
    }
}

impl Shared {
    /// Passes on what comes, until the process has ended.
    fn run(&self, mut process: Process) {
        let end = loop {
            match process.receive(None) {
                Ok(Some(Received::Output(stream, bytes))) => self.pass_on(stream, bytes),
                Ok(Some(Received::Exit(exit))) => break Ok(exit),
                Ok(None) => {}
                Err(error) => break Err(error),
            }
        };
        lock(&self.state).end = Some(end);
        self.changed.iter().for_each(Condvar::notify_all);
    }

    fn pass_on(&self, stream: Stream, bytes: Vec<u8>) {
        let index = index_of(stream);
        let mut state = lock(&self.state);
        if state.discarding[index] {
            drop(state);
            self.credit.taken(bytes.len());
            return buffers::give(bytes);
        }
        state.waiting[index].push_back(bytes);
        drop(state);
        self.changed[index].notify_all();
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        what: usize,
        deadline: Option<Instant>,
    ) -> MutexGuard<'a, State> {
        let changed = &self.changed[what];
        // The condition variable hands the lock back while it waits.
        wait(changed, state, deadline)
    }
}

fn index_of(stream: Stream) -> usize {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => 1,
    }
}
const END: usize = 2;

/// The stdin of a process. Writes go out one after the other without a round trip in between, at the
/// pace of whoever reads: so an error may be that of an earlier write. Dropping it closes the stdin;
/// [`StdinWriter::finish`] does too, and tells whether all has arrived.
pub struct StdinWriter {
    control: ProcessControl,
    pipeline: Pipeline,
    open: bool,
}

impl StdinWriter {
    /// Closes it after all that was written, and waits until that has happened.
    ///
    /// # Errors
    /// As of a write: `BrokenPipe` where nobody reads any more, `ConnectionAborted` where the way to
    /// the environment has broken. The [`Error`] is inside.
    pub fn finish(mut self) -> io::Result<()> {
        self.open = false;
        let Self { control, pipeline, .. } = &mut self;
        pipeline.finish(|| control.begin_write(&[], true)).map_err(io_error)
    }
}

impl Write for StdinWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Self { control, pipeline, .. } = self;
        let sent = pipeline.send(bytes, |chunk| control.begin_write(chunk, false));
        sent.map(|()| bytes.len()).map_err(io_error)
    }

    /// Nothing is held back here, so this does not wait; it tells an error of an earlier write.
    fn flush(&mut self) -> io::Result<()> {
        self.pipeline.settle().map_err(io_error)
    }
}

impl Drop for StdinWriter {
    fn drop(&mut self) {
        if self.open {
            // Where it cannot be closed, it is.
            let _ = self.control.begin_write(&[], true);
        }
    }
}

/// One output of a process. It ends when the process is over; where that could not be started or the
/// way to the environment has broken, with that error. Dropped, it discards what comes.
pub struct OutputReader {
    shared: Arc<Shared>,
    stream: Stream,
    current: Vec<u8>,
    at: usize,
}

impl OutputReader {
    /// The next bytes, all at once; `None` at the end.
    fn next_bytes(&self) -> Result<Option<Vec<u8>>> {
        let index = index_of(self.stream);
        let mut state = lock(&self.shared.state);
        loop {
            if let Some(bytes) = state.waiting[index].pop_front() {
                return Ok(Some(bytes));
            }
            match &state.end {
                Some(Ok(_)) => return Ok(None),
                Some(Err(error)) => return Err(error.clone()),
                None => state = self.shared.wait(state, index, None),
            }
        }
    }
}

impl Read for OutputReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        if self.at >= self.current.len() {
            buffers::give(std::mem::take(&mut self.current));
            self.at = 0;
            match self.next_bytes().map_err(io_error)? {
                None => return Ok(0),
                Some(bytes) => self.current = bytes,
            }
            self.shared.credit.taken(self.current.len());
        }
        let left = self.current.get(self.at..).unwrap_or_default();
        let count = left.len().min(buffer.len());
        buffer[..count].copy_from_slice(&left[..count]);
        self.at += count;
        Ok(count)
    }
}

impl Drop for OutputReader {
    fn drop(&mut self) {
        let index = index_of(self.stream);
        let mut state = lock(&self.shared.state);
        state.discarding[index] = true;
        let waiting = std::mem::take(&mut state.waiting[index]);
        drop(state);
        self.shared.credit.taken(waiting.iter().map(Vec::len).sum());
    }
}

/// The end of a process. Clones wait for the same.
#[derive(Clone)]
pub struct ProcessEnd {
    shared: Arc<Shared>,
    control: ProcessControl,
}

impl ProcessEnd {
    /// Waits until the process is over and all of its output has come.
    ///
    /// # Errors
    /// Those of [`Process::next`].
    pub fn wait(&self) -> Result<ProcessExit> {
        let mut state = lock(&self.shared.state);
        loop {
            match &state.end {
                Some(end) => return end.clone(),
                None => state = self.shared.wait(state, END, None),
            }
        }
    }

    /// The same, until then; `None` where it still runs.
    ///
    /// # Errors
    /// Those of [`Process::next`].
    pub fn wait_until(&self, deadline: Instant) -> Result<Option<ProcessExit>> {
        let mut state = lock(&self.shared.state);
        loop {
            match &state.end {
                Some(end) => return end.clone().map(Some),
                None if Instant::now() >= deadline => return Ok(None),
                None => state = self.shared.wait(state, END, Some(deadline)),
            }
        }
    }

    /// A handle to signal and abort it with.
    #[must_use]
    pub fn control(&self) -> ProcessControl {
        self.control.clone()
    }
}

/// A failure as those who read and write know it; the [`Error`] is inside.
fn io_error(error: Error) -> io::Error {
    let kind = match error.kind() {
        ErrorKind::Os(errno) => io::Error::from_raw_os_error(*errno).kind(),
        ErrorKind::UnknownProcess => io::ErrorKind::BrokenPipe,
        ErrorKind::ConnectionLost | ErrorKind::StaleEpoch => io::ErrorKind::ConnectionAborted,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}
