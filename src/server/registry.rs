//! The processes, or the TCP connections, of one connection.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::mailbox::{Mailbox, Order};
use crate::process;
use crate::sync::lock;
use crate::sys::child::Group;
use crate::sys::signal;

/// What is registered, and how many of it there may be.
pub(super) struct Kind {
    pub(super) most: usize,
    /// For messages: `process`.
    pub(super) one: &'static str,
    /// `processes`
    pub(super) many: &'static str,
    /// Where the limit comes from, if it can be set.
    pub(super) option: &'static str,
}

/// All that a connection has started and that is not gone.
pub(super) struct Registry<O> {
    kind: Kind,
    state: Mutex<State<O>>,
    changed: Condvar,
}

struct State<O> {
    entries: HashMap<u64, Entry<O>>,
    /// What is live, by the host's name for it.
    live: HashMap<Box<str>, u64>,
    next: u64,
    /// Groups whose leader has gone and whose members hold no output.
    remaining: Vec<Group>,
    /// Groups that have been killed at the end, and may not be dead yet.
    killed: Vec<Group>,
    ended: bool,
}

/// How long a group that has been killed may take to be dead. (Where nobody reaps what is orphaned,
/// it never looks dead.)
const DYING: Duration = Duration::from_millis(300);

/// `None` between the reservation and the start.
struct Entry<O>(Option<Arc<Mailbox<O>>>);

/// A place in the registry. It is given up in two steps: the id when what has it is over, the
/// rest when nothing of it is left (of a process: nothing holds its output any more). Dropped, it
/// gives up both.
pub(super) struct Place<O> {
    registry: Arc<Registry<O>>,
    number: u64,
    id: Option<Box<str>>,
}

impl<O: Order> Registry<O> {
    pub(super) fn new(kind: Kind) -> Arc<Self> {
        let state = State {
            entries: HashMap::new(),
            live: HashMap::new(),
            next: 0,
            remaining: Vec::new(),
            killed: Vec::new(),
            ended: false,
        };
        Arc::new(Self { kind, state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Takes a place for something that is about to be started.
    ///
    /// # Errors
    /// The id is in use, or the limit is reached.
    pub(super) fn reserve(self: &Arc<Self>, id: &impl AsRef<str>) -> Result<Place<O>> {
        let id = id.as_ref();
        let Kind { most, one, many, option } = self.kind;
        let mut state = lock(&self.state);
        if state.live.contains_key(id) {
            let message = format!("the id {id:?} is that of a live {one}");
            return Err(Error::new(ErrorKind::DuplicateId, message));
        }
        if state.entries.len() >= most {
            let message = format!("this connection has {most} {many}, which is the limit{option}");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let number = state.next;
        state.next += 1;
        state.entries.insert(number, Entry(None));
        state.live.insert(id.into(), number);
        Ok(Place { registry: Arc::clone(self), number, id: Some(id.into()) })
    }

    /// Enters what was started at its place. (It may be gone already.)
    pub(super) fn enter(&self, number: u64, mailbox: &Arc<Mailbox<O>>) {
        if let Some(entry) = lock(&self.state).entries.get_mut(&number) {
            entry.0 = Some(Arc::clone(mailbox));
        }
    }

    /// The live one of that id.
    pub(super) fn find(&self, id: &impl AsRef<str>) -> Option<Arc<Mailbox<O>>> {
        let state = lock(&self.state);
        let number = state.live.get(id.as_ref())?;
        state.entries.get(number)?.0.clone()
    }

    /// Ends everything, without waiting for that.
    pub(super) fn begin_end(&self) {
        let mut state = lock(&self.state);
        state.ended = true;
        let mailboxes: Vec<_> =
            state.entries.values().filter_map(|entry| entry.0.clone()).collect();
        let remaining = std::mem::take(&mut state.remaining);
        drop(state);
        mailboxes.iter().for_each(|mailbox| mailbox.end());
        kill(&remaining);
        lock(&self.state).killed.extend(remaining);
    }

    /// Waits until those that have been killed are dead, or `timeout` has passed.
    fn see_them_die(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let mut killed = std::mem::take(&mut lock(&self.state).killed);
        loop {
            killed.retain(Group::is_alive);
            if killed.is_empty() || Instant::now() >= deadline {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends everything and waits until it is gone, or `timeout` has passed. Answers how many
    /// were not gone by then (which nothing but a thread stuck in the kernel can cause).
    pub(super) fn end_all(&self, timeout: Duration) -> usize {
        let deadline = Instant::now() + timeout;
        self.begin_end();
        let mut state = lock(&self.state);
        while !state.entries.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            // The condition variable hands the lock back while it waits.
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let stuck = state.entries.len();
        drop(state);
        self.see_them_die(DYING.min(timeout));
        stuck
    }
}

fn kill(groups: &[Group]) {
    for group in groups {
        group.signal(signal::KILL);
    }
}

impl<O> Place<O> {
    /// Its number in the registry.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Gives it up, id and all, at the very moment when `told` answers true: whoever looks for the
    /// id finds it before that and not after, and whoever hears of the end can use it again. `told`
    /// must not wait.
    pub(super) fn give_up_when(mut self, told: impl FnOnce() -> bool) -> Result<(), Self> {
        let registry = Arc::clone(&self.registry);
        let mut state = lock(&registry.state);
        if !told() {
            drop(state);
            return Err(self);
        }
        if let Some(id) = self.id.take() {
            state.live.remove(&id);
        }
        state.entries.remove(&self.number);
        // (Dropping it now does the last of this once more, to no effect.)
        drop(state);
        Ok(())
    }

    /// What has it is over: its id is free.
    pub(super) fn release_id(&mut self) {
        if let Some(id) = self.id.take() {
            lock(&self.registry.state).live.remove(&id);
        }
    }
}

impl Place<process::Order> {
    /// Nothing holds the process's output any more. What remains of its group is kept to be ended
    /// with the connection.
    pub(super) fn leave(self, remaining: Option<Group>) {
        let Some(group) = remaining else { return };
        let mut state = lock(&self.registry.state);
        if state.ended {
            drop(state);
            kill(std::slice::from_ref(&group));
            lock(&self.registry.state).killed.push(group);
            return;
        }
        // Those that have ended meanwhile make room, so that the list stays as long as what it
        // stands for.
        state.remaining.retain(Group::is_alive);
        state.remaining.push(group);
    }
}

impl<O> Drop for Place<O> {
    fn drop(&mut self) {
        self.release_id();
        lock(&self.registry.state).entries.remove(&self.number);
        self.registry.changed.notify_all();
    }
}
