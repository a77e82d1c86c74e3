//! This machine, in this program.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::inbox::Inbox;
use super::process::{Answering, Control, Events, Incoming, closed};
use super::{Answer, ExecEnvironment, Machine, MachineOptions, Process, ProcessExit, Stream};
use crate::buffers;
use crate::error::{Error, Result};
use crate::fs::{self, Part};
use crate::mailbox::Reply;
use crate::process::{self, Command, Ending, Family, Order, Sink, Terms};
use crate::protocol::{
    Base64, CopyParams, Empty, ExecParams, FindParams, FindResult, GrepParams, GrepResult,
    InitializeResult, KillResult, MkdirParams, Mode, PathParams, ProcessId, PtySize,
    ReadFileParams, ReadFileResult, ReaddirResult, RealpathResult, RemoveParams, RenameParams,
    SignalName, SpawnParams, StatParams, StatResult, WirePath, WriteFileParams, WriteFileResult,
};
use crate::registry::Place;
use crate::search::{self, Running, Searches};
use crate::sys::child::Group;
use crate::sys::poll::Waker;
use crate::sys::pty::Size;

/// The most processes at a time, as an exec-server has it by default.
const MOST: usize = 1024;
/// How long the end of an environment waits for its processes to be gone.
const ENDING: Duration = Duration::from_secs(3);
/// The most bytes of one file that are read at once: as much as a message of an exec-server holds by
/// default, with what stands around it.
const LONGEST_READ: u64 = 48 * 1024 * 1024 - 4096;

/// The most bytes of what a search finds, as JSON: what an exec-server answers at most.
const LONGEST_FOUND: usize = 64 * 1024 * 1024;

/// This machine as an environment, served by this program itself. Clones share it; what has been
/// started ends when the last one is dropped. (Not when this program is killed: only an exec-server
/// has a guardian.)
#[derive(Clone)]
pub struct LocalExecEnvironment {
    machine: Arc<Machine>,
    started: Arc<Started>,
}

impl LocalExecEnvironment {
    /// This machine, with relative paths relative to `cwd`, or to this program's own directory.
    ///
    /// # Errors
    /// `Os(ENOENT)`, `Os(ENOTDIR)` for a cwd that is none.
    pub fn new(cwd: Option<PathBuf>) -> Result<Self> {
        let machine = Machine::new(MachineOptions { cwd, ..MachineOptions::default() })?;
        let started = Started { family: Family::new(MOST), searches: Searches::default() };
        let started = Arc::new(started);
        Ok(Self { machine: Arc::new(machine), started })
    }

    pub(crate) fn machine(&self) -> Arc<Machine> {
        Arc::clone(&self.machine)
    }

    /// Takes in a search, and its id among those of the processes.
    fn begin_search(&self, id: Option<&ProcessId>) -> Result<(Running, Option<Place<Order>>)> {
        let place = id.map(|id| self.started.family.reserve(id)).transpose()?;
        Ok((self.started.searches.begin(id.cloned()), place))
    }

    fn path(&self, path: &WirePath) -> Result<PathBuf> {
        self.machine.resolve_path(path.as_path())
    }

    fn start(
        &self,
        id: &ProcessId,
        resolve: impl FnOnce() -> Result<(Command, Terms)>,
        starting: Option<Answering<i32>>,
    ) -> Result<Process> {
        let (sender, events) = Inbox::new(None);
        let family = &self.started.family;
        let place = family.reserve(id)?;
        let number = place.number();
        let started = Arc::downgrade(&self.started);
        let place = Some(place);
        let is_line = starting.is_none();
        let of = started.clone();
        let mut sink = EventSink { place, events: sender, starting, is_line, started: of };
        let mut window = None;
        match resolve() {
            // As it is told of an environment that is elsewhere.
            Err(error) => sink.failed(error),
            Ok((command, terms)) => {
                window = terms.window.and_then(NonZeroU64::new);
                family.start(number, id, command, terms, sink);
            }
        }
        let control = LocalControl { started, id: id.clone() };
        Ok(Process::new(Arc::new(control), events, window))
    }
}

impl ExecEnvironment for LocalExecEnvironment {
    fn cwd(&self) -> &Path {
        self.machine.cwd()
    }

    fn local(&self) -> bool {
        true
    }

    fn about(&self) -> Result<InitializeResult> {
        Ok(self.machine.describe(usize::MAX, None))
    }

    fn exec(&self, params: &ExecParams) -> Result<Process> {
        self.start(&params.process_id, || self.machine.command_line(params.clone()), None)
    }

    fn spawn(&self, params: &SpawnParams) -> Result<Process> {
        let (starting, pid) = Answer::awaited();
        let program = || self.machine.program(params.clone());
        let mut process = self.start(&params.process_id, program, Some(starting))?;
        process.set_pid(pid.wait()?);
        Ok(process)
    }

    fn read_file(&self, params: &ReadFileParams) -> Result<ReadFileResult> {
        let path = self.path(&params.path)?;
        let part = Part { offset: params.offset.unwrap_or(0), length: params.length };
        let reading = fs::open(&path)?;
        // As large as the message about them would be: buffers of one size go round.
        let expected = usize::try_from(reading.expected(part).min(LONGEST_READ)).unwrap_or(0);
        let mut bytes = buffers::take_for(expected / 3 * 4 + 1024);
        let end = reading.read(part, LONGEST_READ, |piece| bytes.extend_from_slice(piece))?;
        let version = reading.version().to_owned();
        Ok(ReadFileResult { data_base64: Base64(bytes), size: end.size, eof: end.eof, version })
    }

    fn write_file(&self, params: &WriteFileParams) -> Result<WriteFileResult> {
        let path = self.path(&params.path)?;
        fs::write(&path, &params.data_base64.0, &fs::Terms::of(params))
    }

    fn stat(&self, params: &StatParams) -> Result<StatResult> {
        fs::stat(&self.path(&params.path)?, params.follow_symlinks.unwrap_or(true))
    }

    fn readdir(&self, params: &PathParams) -> Result<ReaddirResult> {
        fs::list(&self.path(&params.path)?, &mut || true).map(|entries| ReaddirResult { entries })
    }

    fn mkdir(&self, params: &MkdirParams) -> Result<()> {
        let recursive = params.recursive.unwrap_or(true);
        fs::make(&self.path(&params.path)?, recursive, params.mode.map(Mode::bits))
    }

    fn remove(&self, params: &RemoveParams) -> Result<()> {
        let (recursive, force) = (params.recursive.unwrap_or(false), params.force.unwrap_or(false));
        fs::remove(&self.path(&params.path)?, recursive, force, self.machine.cwd())
    }

    fn rename(&self, params: &RenameParams) -> Result<()> {
        fs::rename(&self.path(&params.from)?, &self.path(&params.to)?)
    }

    fn copy(&self, params: &CopyParams) -> Result<()> {
        let recursive = params.recursive.unwrap_or(false);
        fs::copy(&self.path(&params.from)?, &self.path(&params.to)?, recursive)
    }

    fn realpath(&self, params: &PathParams) -> Result<RealpathResult> {
        let path = fs::realpath(&self.path(&params.path)?)?;
        let path = WirePath::try_from(path).map_err(Error::params)?;
        Ok(RealpathResult { path })
    }

    fn find(&self, params: &FindParams) -> Result<FindResult> {
        let path = self.path(&params.path)?;
        let (running, _place) = self.begin_search(params.process_id.as_ref())?;
        search::find(&path, params, LONGEST_FOUND, running.leave())
    }

    fn grep(&self, params: &GrepParams) -> Result<GrepResult> {
        let path = self.path(&params.path)?;
        let (running, _place) = self.begin_search(params.process_id.as_ref())?;
        search::grep(&path, params, LONGEST_FOUND, running.leave())
    }

    fn end_search(&self, id: &ProcessId) -> Result<bool> {
        Ok(self.started.searches.end(id))
    }
}

/// All that one environment has started; it ends when the last one who could start something has
/// gone.
struct Started {
    family: Family,
    searches: Searches,
}

impl Drop for Started {
    fn drop(&mut self) {
        self.family.end(Instant::now() + ENDING);
    }
}

/// What can be done with a process here. (It does not keep the environment: what is held of a process
/// does not let it live on.)
struct LocalControl {
    started: Weak<Started>,
    id: ProcessId,
}

impl LocalControl {
    fn with<R, T: 'static>(
        &self,
        of: impl FnOnce(T) -> R + Send + 'static,
        order: impl FnOnce(&Family, Reply<T>),
    ) -> Result<Answer<R>>
    where
        R: Send + 'static,
    {
        let (answering, answer) = Answer::awaited();
        let started = self.started.upgrade().ok_or_else(closed)?;
        order(&started.family, Box::new(move |outcome| answering.give(outcome.map(of))));
        Ok(answer)
    }
}

impl Control for LocalControl {
    fn acknowledge(&self, bytes: u64) {
        if let Some(started) = self.started.upgrade() {
            started.family.acknowledge(&self.id, bytes);
        }
    }

    fn write(&self, bytes: &[u8], eof: bool) -> Result<Answer<Empty>> {
        let bytes = bytes.to_vec();
        self.with(|()| Empty {}, |family, reply| family.write(&self.id, bytes, eof, reply))
    }

    fn kill(&self, signal: &str, grace: Option<Duration>) -> Result<Answer<KillResult>> {
        let signal = process::number_of(&SignalName::Name(signal.to_owned()))?;
        self.with(
            |running| KillResult { running },
            |family, reply| family.kill(&self.id, signal, grace, reply),
        )
    }

    fn resize(&self, size: PtySize) -> Result<Answer<Empty>> {
        let size = Size { cols: size.cols.into(), rows: size.rows.into() };
        self.with(|()| Empty {}, |family, reply| family.resize(&self.id, size, reply))
    }
}

/// Hands a process's events to whoever holds it.
struct EventSink {
    place: Option<Place<Order>>,
    events: Events,
    /// Who waits for the start of a program.
    starting: Option<Answering<i32>>,
    /// Whether it is a command line, of whose end more is told.
    is_line: bool,
    /// The environment, which may have come to its end.
    started: Weak<Started>,
}

impl Sink for EventSink {
    fn started(&mut self, group: &Arc<Group>) {
        if let Some(place) = &self.place {
            place.started(group);
        }
        if let Some(starting) = self.starting.take() {
            starting.give(Ok(group.id()));
        }
    }

    fn failed(&mut self, error: Error) {
        self.place = None;
        let error = if self.started.strong_count() == 0 { closed() } else { error };
        match self.starting.take() {
            Some(starting) => starting.give(Err(error)),
            None => self.events.send(Incoming::Failed(error)),
        }
    }

    fn output(&mut self, stream: process::Stream, _seq: u64, chunk: &[u8]) {
        let stream = match stream {
            process::Stream::Output => Stream::Stdout,
            process::Stream::Stderr => Stream::Stderr,
        };
        let mut bytes = buffers::take_for(chunk.len());
        bytes.extend_from_slice(chunk);
        self.events.send(Incoming::Output(stream, bytes));
    }

    /// The window is what bounds it.
    fn ready(&mut self, _waker: &Arc<Waker>) -> bool {
        true
    }

    fn ended(&mut self, ending: &Ending) {
        if let Some(place) = &mut self.place {
            place.release_id();
        }
        if self.started.strong_count() == 0 {
            self.events.send(Incoming::Failed(closed()));
            return;
        }
        let (exit_code, signal) = ending.code_and_signal();
        self.events.send(Incoming::Exit(ProcessExit {
            exit_code,
            signal,
            timed_out: self.is_line && ending.timed_out,
            killed: self.is_line && ending.killed,
            output_held: ending.output_held,
            stdout_bytes: ending.stdout_bytes,
            stderr_bytes: ending.stderr_bytes,
        }));
    }

    fn gone(&mut self, remaining: Option<Arc<Group>>) {
        if let Some(place) = self.place.take() {
            place.leave(remaining);
        }
    }
}
