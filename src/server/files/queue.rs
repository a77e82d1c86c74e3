//! The order of a connection's file requests, and the threads that carry them out.
//!
//! A change waits for all before it; what only looks waits for the changes before it, and looks
//! at the same time as others. A file system that hangs would so stop everything behind it.
//! Therefore what has not come to its end for some time is passed by whatever is on another file
//! system; which one that is, is found out on the thread of the request, since finding out may
//! hang as well. For the same reason there is no fixed number of threads: when all of them wait
//! for something that does not come, others are started.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::fs;
use crate::sync::lock;
use crate::threads;

/// Requests that are carried out at the same time, as long as they come to an end: more would
/// only take turns on the processors.
const RUNNING: usize = 4;
/// The most threads, when those that run wait for a file system.
const MOST_RUNNING: usize = 512;
/// After so long without an end all that run are taken to wait for a file system.
const STALLED: Duration = Duration::from_millis(50);
/// After so long a request may be passed by what is on another file system.
const LATE: Duration = Duration::from_secs(2);
/// Answers that wait for the host to read, from which on no more are made.
const MOST_PARKED: usize = 16;
/// Bytes of content that may wait to be written: as much as one message may hold at most where
/// nothing else is said.
const MOST_HELD: usize = 64 * 1024 * 1024;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It looks, and its answer is short.
    Look,
    /// It looks, and its answer may be long.
    Read,
    /// It changes something.
    Change,
}

/// Is called when the turn has come, or with the reason why it never will.
type Work = Box<dyn FnOnce(Result<&Turn>) + Send>;

/// A request to carry out.
pub(super) struct Job {
    pub(super) kind: Kind,
    /// What it is about.
    pub(super) paths: Vec<PathBuf>,
    /// How much content it carries.
    pub(super) bytes: usize,
    pub(super) run: Work,
}

/// The queue of one connection.
pub(super) struct Queue(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// There is something to do for a thread that watches.
    work: Condvar,
    /// A request has come to its end.
    done: Condvar,
}

struct State {
    /// In the order they came, until they are done.
    entries: VecDeque<Entry>,
    next: u64,
    /// Threads that carry something out, those not counted that are parked.
    running: usize,
    parked: usize,
    /// A thread waits for something to do; there is one while requests wait.
    watched: bool,
    /// When something came to its end last.
    progress: Instant,
    held: usize,
    /// The connection has ended.
    ended: bool,
}

struct Entry {
    number: u64,
    kind: Kind,
    stage: Stage,
    submitted: Instant,
    /// When its stage began.
    entered: Instant,
    /// The file systems it is on, once they are known.
    devices: Option<Vec<u64>>,
    paths: Vec<PathBuf>,
    bytes: usize,
    run: Option<Work>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    /// Its thread finds out where it is.
    Locating,
    Running,
}

/// What there is to do for a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Run(u64),
    Locate(u64),
}

impl Default for State {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            next: 0,
            running: 0,
            parked: 0,
            watched: false,
            progress: Instant::now(),
            held: 0,
            ended: false,
        }
    }
}

fn too_many_hang() -> Error {
    let message = format!("{MOST_RUNNING} file requests of this connection hang already");
    Error::new(ErrorKind::Limit, message)
}

/// A request's hold on its thread.
pub(super) struct Turn(Arc<Shared>);

impl Turn {
    /// Waits for the host: it is not the file system that this thread waits for.
    pub(super) fn park<T>(&self, wait: impl FnOnce() -> T) -> T {
        let mut state = lock(&self.0.state);
        state.running -= 1;
        state.parked += 1;
        self.0.call_for_help(state);
        let waited = wait();
        let mut state = lock(&self.0.state);
        state.parked -= 1;
        state.running += 1;
        state.progress = Instant::now();
        waited
    }
}

impl Queue {
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    /// Whether one more request can be taken that carries so much content. Only the thread that
    /// submits them may ask.
    ///
    /// # Errors
    /// `Limit`.
    pub(super) fn admit(&self, bytes: usize) -> Result<()> {
        let state = lock(&self.0.state);
        if state.held > 0 && state.held + bytes > MOST_HELD {
            let message = format!(
                "{} bytes wait to be written already; with these {bytes} they would be more than \
                 {MOST_HELD}",
                state.held
            );
            return Err(Error::new(ErrorKind::Limit, message));
        }
        if state.is_stuck() { Err(too_many_hang()) } else { Ok(()) }
    }

    /// Takes a request. It is carried out when its turn comes.
    ///
    /// # Errors
    /// There is no thread and none can be made; the request is dropped.
    pub(super) fn submit(&self, job: Job) -> std::io::Result<()> {
        let now = Instant::now();
        let mut state = lock(&self.0.state);
        let number = state.next;
        state.next += 1;
        state.held += job.bytes;
        state.entries.push_back(Entry {
            number,
            kind: job.kind,
            stage: Stage::Waiting,
            submitted: now,
            entered: now,
            devices: None,
            paths: job.paths,
            bytes: job.bytes,
            run: Some(job.run),
        });
        if state.watched {
            if state.running < RUNNING {
                self.0.work.notify_one();
            }
            return Ok(());
        }
        drop(state);
        self.0.start_thread().inspect_err(|_| {
            let job = lock(&self.0.state).take_back(number);
            // What it answers when it is dropped must not find the lock taken.
            drop(job);
        })
    }

    /// Waits until all is done, or nothing has come to its end for `patience`, or `hurry` says so.
    pub(super) fn finish(&self, patience: Duration, hurry: &dyn Fn() -> bool) {
        const GLANCE: Duration = Duration::from_millis(100);
        let mut state = lock(&self.0.state);
        let start = Instant::now();
        while !state.entries.is_empty() {
            if state.progress.max(start).elapsed() >= patience || hurry() {
                return;
            }
            // The condition variable hands the lock back while it waits.
            let waited = self.0.done.wait_timeout(state, GLANCE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Drops what has not begun, and waits for what has: what it is making must not be left
    /// behind by a server that exits. At most `timeout`; what waits for the host is not waited
    /// for.
    pub(super) fn stop(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let mut state = lock(&self.0.state);
        // What finds out where it is will find out that it is not wanted any more.
        let dropped = state.take_waiting();
        state.ended = true;
        drop(state);
        drop(dropped);
        let mut state = lock(&self.0.state);
        while state.running > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            // The condition variable hands the lock back while it waits.
            let waited = self.0.done.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Shared {
    fn start_thread(self: &Arc<Self>) -> std::io::Result<()> {
        let shared = Arc::clone(self);
        threads::run(move || shared.work())
    }

    /// A thread's life: it does what there is to do, and if requests wait and nobody else
    /// watches, it watches.
    fn work(self: &Arc<Self>) {
        let mut state = lock(&self.state);
        loop {
            if let Some(task) = state.task(Instant::now()) {
                state = self.perform(task, state);
            } else if state.watched || !state.is_anything_waiting() {
                return;
            } else if state.is_stuck() {
                let refused = state.take_waiting();
                drop(state);
                refused.into_iter().for_each(|run| run(Err(too_many_hang())));
                state = lock(&self.state);
            } else {
                state.watched = true;
                // The condition variable hands the lock back while it waits.
                let waited = self.work.wait_timeout(state, STALLED);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                state.watched = false;
            }
        }
    }

    fn perform<'a>(
        self: &'a Arc<Self>,
        task: Task,
        mut state: MutexGuard<'a, State>,
    ) -> MutexGuard<'a, State> {
        let (number, stage) = match task {
            Task::Run(number) => (number, Stage::Running),
            Task::Locate(number) => (number, Stage::Locating),
        };
        let Some(entry) = state.enter(number, stage) else { return state };
        let is_change = entry.kind == Kind::Change;
        let paths = std::mem::take(&mut entry.paths);
        let run = if stage == Stage::Running { entry.run.take() } else { None };
        state.running += 1;
        self.call_for_help(state);
        // A change may have to be passed later; where it is must be known by then.
        let devices: Option<Vec<u64>> = (is_change || stage == Stage::Locating)
            .then(|| paths.iter().filter_map(|path| fs::device(path)).collect());
        if let Some(run) = run {
            if let Some(entry) = lock(&self.state).entry(number) {
                entry.devices = devices;
            }
            let _done = Done { shared: self, number };
            run(Ok(&Turn(Arc::clone(self))));
        } else {
            let mut state = lock(&self.state);
            state.running -= 1;
            if let Some(entry) = state.enter(number, Stage::Waiting) {
                (entry.devices, entry.paths) = (devices, paths);
            }
            let unwanted = if state.ended { state.take_waiting() } else { Vec::new() };
            drop(state);
            drop(unwanted);
            self.done.notify_all();
        }
        lock(&self.state)
    }

    /// Sees to it that others look at what waits while this thread is busy.
    fn call_for_help(self: &Arc<Self>, state: MutexGuard<'_, State>) {
        if !state.is_anything_waiting() {
            return;
        }
        let is_work = state.task(Instant::now()).is_some();
        let watched = state.watched;
        drop(state);
        if !watched {
            // If there can be no more threads, the one that is busy looks when it is done.
            let _ = self.start_thread();
        } else if is_work {
            self.work.notify_one();
        }
    }
}

/// Whatever became of a request, also if it has panicked: it is over.
struct Done<'a> {
    shared: &'a Shared,
    number: u64,
}

impl Drop for Done<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.running -= 1;
        state.progress = Instant::now();
        let _over = state.take_back(self.number);
        drop(state);
        self.shared.done.notify_all();
    }
}

impl State {
    fn entry(&mut self, number: u64) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.number == number)
    }

    fn enter(&mut self, number: u64, stage: Stage) -> Option<&mut Entry> {
        let entry = self.entry(number)?;
        entry.stage = stage;
        entry.entered = Instant::now();
        Some(entry)
    }

    /// Takes a request out of the queue.
    fn take_back(&mut self, number: u64) -> Option<Entry> {
        let place = self.entries.iter().position(|entry| entry.number == number)?;
        let entry = self.entries.remove(place)?;
        self.held -= entry.bytes;
        Some(entry)
    }

    /// All threads that there may be wait for a file system, and have for some time.
    fn is_stuck(&self) -> bool {
        self.running >= MOST_RUNNING && self.progress.elapsed() >= LATE
    }

    /// Takes out all that has not begun.
    fn take_waiting(&mut self) -> Vec<Work> {
        let entries = std::mem::take(&mut self.entries);
        let (waiting, begun): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|entry| entry.stage == Stage::Waiting);
        self.entries = begun.into();
        self.held = self.entries.iter().map(|entry| entry.bytes).sum();
        waiting.into_iter().filter_map(|entry| entry.run).collect()
    }

    fn is_anything_waiting(&self) -> bool {
        self.entries.iter().any(|entry| entry.stage == Stage::Waiting)
    }

    /// The first thing that may be done now, if one more thread may do something.
    fn task(&self, now: Instant) -> Option<Task> {
        let stalled = now.saturating_duration_since(self.progress) >= STALLED;
        if self.running >= RUNNING && !(stalled && self.running < MOST_RUNNING) {
            return None;
        }
        // What is late, and may be passed; whether there is a look that is not.
        let (mut changes, mut looks) = (Vec::new(), Vec::new());
        let mut has_fresh_look = false;
        for entry in &self.entries {
            let is_change = entry.kind == Kind::Change;
            let is_held_up = (is_change && has_fresh_look) || (self.is_full() && entry.is_read());
            if entry.stage == Stage::Waiting && !is_held_up {
                let looks = if is_change { looks.as_slice() } else { &[] };
                let mut before = changes.iter().chain(looks).peekable();
                if before.peek().is_some() && entry.devices.is_none() {
                    return Some(Task::Locate(entry.number));
                }
                if before.all(|earlier: &&Entry| earlier.lets_pass(entry, now)) {
                    return Some(Task::Run(entry.number));
                }
            }
            match (is_change, now.saturating_duration_since(entry.submitted) >= LATE) {
                // Nothing behind it may pass.
                (true, false) => return None,
                (true, true) => changes.push(entry),
                (false, false) => has_fresh_look = true,
                (false, true) => looks.push(entry),
            }
        }
        None
    }

    fn is_full(&self) -> bool {
        self.parked >= MOST_PARKED
    }
}

impl Entry {
    fn is_read(&self) -> bool {
        self.kind == Kind::Read
    }

    /// Whether what was sent after this request, which is late, may be done before it. (If this
    /// one has begun and nobody knows yet where it is, finding that out hangs: so it is not where
    /// the other one is, about which that is known.)
    fn lets_pass(&self, other: &Self, now: Instant) -> bool {
        let Some(others) = &other.devices else { return false };
        let hangs = || {
            let time = now.saturating_duration_since(self.entered);
            self.stage != Stage::Waiting && time >= STALLED
        };
        match &self.devices {
            Some(devices) => devices.iter().all(|device| !others.contains(device)),
            None => hangs(),
        }
    }
}
