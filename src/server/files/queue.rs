//! The threads that carry out a connection's file requests, in the order that the schedule says.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::schedule::{Begun, Kind, MOST_RUNNING, RUNNING, STALLED, Schedule, Task};
use crate::error::{Error, ErrorKind, Result};
use crate::fs;
use crate::sync::lock;
use crate::threads;

/// Bytes of content that may wait to be written: as much as one message may hold at most where
/// nothing else is said.
const MOST_HELD: usize = 64 * 1024 * 1024;

/// Is called when the turn has come, or with the reason why it never will.
pub(super) type Work = Box<dyn FnOnce(Result<&Turn>) + Send>;

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

struct Shared {
    state: Mutex<State>,
    /// There is something to do for a thread that watches.
    work: Condvar,
    /// A request has come to its end.
    done: Condvar,
}

struct State {
    schedule: Schedule,
    /// A thread waits for something to do; there is one while requests wait.
    watched: bool,
    /// The connection has ended.
    ended: bool,
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
        state.schedule.park();
        self.0.call_for_help(state);
        let waited = wait();
        lock(&self.0.state).schedule.unpark(Instant::now());
        waited
    }
}

impl Queue {
    pub(super) fn new() -> Self {
        let schedule = Schedule::new(Instant::now());
        let state = Mutex::new(State { schedule, watched: false, ended: false });
        Self(Arc::new(Shared { state, work: Condvar::new(), done: Condvar::new() }))
    }

    /// Whether all has been done.
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.0.state).schedule.is_empty()
    }

    /// Whether one more request can be taken that carries so much content. Only the thread that
    /// submits them may ask.
    ///
    /// # Errors
    /// `Limit`.
    pub(super) fn admit(&self, bytes: usize) -> Result<()> {
        let state = lock(&self.0.state);
        let held = state.schedule.held();
        if held > 0 && held.saturating_add(bytes) > MOST_HELD {
            let message = format!(
                "{held} bytes wait to be written already; with these {bytes} they would be more \
                 than {MOST_HELD}"
            );
            return Err(Error::new(ErrorKind::Limit, message));
        }
        if state.schedule.is_stuck(Instant::now()) { Err(too_many_hang()) } else { Ok(()) }
    }

    /// Takes a request. It is carried out when its turn comes.
    pub(super) fn submit(&self, job: Job) {
        let Job { kind, paths, bytes, run } = job;
        let mut state = lock(&self.0.state);
        let number = state.schedule.add(kind, paths, bytes, run, Instant::now());
        if state.watched {
            if state.schedule.running() < RUNNING {
                self.0.work.notify_one();
            }
            return;
        }
        drop(state);
        if let Err(error) = self.0.start_thread() {
            let run = lock(&self.0.state).schedule.take_back(number);
            if let Some(run) = run {
                run(Err(Error::io(&error, "cannot make a thread for the request")));
            }
        }
    }

    /// Waits until all is done, or nothing has come to its end for `patience` and what `moved`
    /// answers has not changed, or `hurry` says so.
    pub(super) fn finish<T: PartialEq>(
        &self,
        patience: Duration,
        moved: &dyn Fn() -> T,
        hurry: &dyn Fn() -> bool,
    ) {
        const GLANCE: Duration = Duration::from_millis(100);
        let (mut seen, mut since) = (moved(), Instant::now());
        let mut state = lock(&self.0.state);
        while !state.schedule.is_empty() {
            let now = moved();
            if now != seen {
                (seen, since) = (now, Instant::now());
            }
            if state.schedule.progress().max(since).elapsed() >= patience || hurry() {
                return;
            }
            // The condition variable hands the lock back while it waits.
            let waited = self.0.done.wait_timeout(state, GLANCE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Drops what has not begun, and waits for what has: what it is making must not be left
    /// behind by a server that exits. At most `timeout`, and not where `hurry` says so; what waits
    /// for the host is not waited for.
    pub(super) fn stop(&self, timeout: Duration, hurry: &dyn Fn() -> bool) {
        const GLANCE: Duration = Duration::from_millis(100);
        let deadline = Instant::now() + timeout;
        let mut state = lock(&self.0.state);
        state.ended = true;
        let dropped = state.schedule.take_waiting();
        drop(state);
        drop(dropped);
        let mut state = lock(&self.0.state);
        while state.schedule.running() > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || hurry() {
                return;
            }
            // The condition variable hands the lock back while it waits.
            let waited = self.0.done.wait_timeout(state, left.min(GLANCE));
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
            let now = Instant::now();
            if let Some(task) = state.schedule.task(now) {
                state = self.perform(task, state);
            } else if state.watched || !state.schedule.is_anything_waiting() {
                return;
            } else if state.schedule.is_stuck(now) {
                let refused = state.schedule.take_waiting();
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
        let Some(Begun { number, paths, run }) = state.schedule.begin(task, Instant::now()) else {
            return state;
        };
        self.call_for_help(state);
        let devices = || paths.iter().flat_map(|path| fs::devices(path)).collect();
        match run {
            Some(run) => {
                let _done = Done { shared: self, number };
                if !paths.is_empty() {
                    let devices = devices();
                    lock(&self.state).schedule.note_devices(number, devices);
                }
                run(Ok(&Turn(Arc::clone(self))));
            }
            None => {
                let devices = devices();
                let mut state = lock(&self.state);
                state.schedule.located(number, devices, Instant::now());
                let unwanted = if state.ended { state.schedule.take_waiting() } else { Vec::new() };
                drop(state);
                drop(unwanted);
                self.done.notify_all();
            }
        }
        lock(&self.state)
    }

    /// Sees to it that others look at what waits while this thread is busy.
    fn call_for_help(self: &Arc<Self>, state: MutexGuard<'_, State>) {
        if !state.schedule.is_anything_waiting() {
            return;
        }
        let is_work = state.schedule.task(Instant::now()).is_some();
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
        lock(&self.shared.state).schedule.done(self.number, Instant::now());
        self.shared.done.notify_all();
    }
}
