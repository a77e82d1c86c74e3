//! The processes, or the TCP connections, of one owner: a connection, an environment.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::mailbox::{Mailbox, Order};
use crate::process;
use crate::sync::lock;
use crate::sys;
use crate::sys::child::Group;
use crate::sys::fd::Supply;
use crate::sys::signal;

/// What is registered, and how many of it there may be.
pub(crate) struct Kind {
    pub(crate) most: usize,
    /// For messages: `process`.
    pub(crate) one: &'static str,
    /// `processes`
    pub(crate) many: &'static str,
    /// Where the limit comes from, if it can be set.
    pub(crate) option: &'static str,
}

/// All that a connection has started and that is not gone.
pub(crate) struct Registry<O> {
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
    remaining: Vec<Arc<Group>>,
    ended: bool,
}

struct Entry<O> {
    /// `None` between the reservation and the start.
    mailbox: Option<Arc<Mailbox<O>>>,
    /// Of a process that runs.
    group: Option<Arc<Group>>,
}

/// A place in the registry. It is given up in two steps: the id when what has it is over, the
/// rest when nothing of it is left (of a process: nothing holds its output any more). Dropped, it
/// gives up both.
pub(crate) struct Place<O> {
    registry: Arc<Registry<O>>,
    number: u64,
    id: Option<Box<str>>,
}

impl<O: Order> Registry<O> {
    pub(crate) fn new(kind: Kind) -> Arc<Self> {
        let state = State {
            entries: HashMap::new(),
            live: HashMap::new(),
            next: 0,
            remaining: Vec::new(),
            ended: false,
        };
        Arc::new(Self { kind, state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Takes a place for something that is about to be started.
    ///
    /// # Errors
    /// The id is in use, the limit is reached, or descriptors have nearly run out.
    pub(crate) fn reserve(self: &Arc<Self>, id: &impl AsRef<str>) -> Result<Place<O>> {
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
        if sys::fd::supply_now() > Supply::Enough {
            let limit = sys::host::descriptor_limit();
            let what = format!("no room for a {one}, nearly all of {limit} descriptors are in use");
            return Err(Error::os(sys::errno::EMFILE, what));
        }
        let number = state.next;
        state.next += 1;
        state.entries.insert(number, Entry { mailbox: None, group: None });
        state.live.insert(id.into(), number);
        Ok(Place { registry: Arc::clone(self), number, id: Some(id.into()) })
    }

    /// Enters what was started at its place. (It may be gone already.)
    pub(crate) fn enter(&self, number: u64, mailbox: &Arc<Mailbox<O>>) {
        if let Some(entry) = lock(&self.state).entries.get_mut(&number) {
            entry.mailbox = Some(Arc::clone(mailbox));
        }
    }

    /// The live one of that id.
    pub(crate) fn find(&self, id: &impl AsRef<str>) -> Option<Arc<Mailbox<O>>> {
        let state = lock(&self.state);
        let number = state.live.get(id.as_ref())?;
        state.entries.get(number)?.mailbox.clone()
    }

    /// Tells everything that it has ended. Answers the groups that are to be killed: those of the
    /// processes that run, and what others have left. (What is being started at this moment kills
    /// itself; see [`Place::started`].)
    pub(crate) fn begin_end(&self) -> Vec<Arc<Group>> {
        let mut state = lock(&self.state);
        state.ended = true;
        let mailboxes: Vec<_> =
            state.entries.values().filter_map(|entry| entry.mailbox.clone()).collect();
        let mut groups = std::mem::take(&mut state.remaining);
        groups.extend(state.entries.values().filter_map(|entry| entry.group.clone()));
        drop(state);
        mailboxes.iter().for_each(|mailbox| mailbox.end());
        groups
    }

    /// Waits until everything is gone, or `timeout` has passed. Answers how many were not gone by
    /// then (which nothing but a thread stuck in the kernel can cause).
    pub(crate) fn wait_gone(&self, timeout: Duration) -> usize {
        let deadline = Instant::now() + timeout;
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
        state.entries.len()
    }
}

impl<O> Place<O> {
    /// Its number in the registry.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Gives it up, id and all, at the very moment when `told` answers true: whoever looks for the
    /// id finds it before that and not after, and whoever hears of the end can use it again. `told`
    /// must not wait.
    pub(crate) fn give_up_when(mut self, told: impl FnOnce() -> bool) -> Result<(), Self> {
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
    pub(crate) fn release_id(&mut self) {
        if let Some(id) = self.id.take() {
            lock(&self.registry.state).live.remove(&id);
        }
    }
}

impl Place<process::Order> {
    /// The process runs. If the connection has ended meanwhile, whoever ends it did not know the
    /// group yet: it is killed here.
    pub(crate) fn started(&self, group: &Arc<Group>) {
        let mut state = lock(&self.registry.state);
        if let Some(entry) = state.entries.get_mut(&self.number) {
            entry.group = Some(Arc::clone(group));
        }
        let is_late = state.ended;
        drop(state);
        if is_late {
            group.signal(signal::KILL);
        }
    }

    /// Nothing holds the process's output any more. What remains of its group is kept to be ended
    /// with the connection.
    pub(crate) fn leave(self, remaining: Option<Arc<Group>>) {
        let Some(group) = remaining else { return };
        let mut state = lock(&self.registry.state);
        if state.ended {
            drop(state);
            group.signal(signal::KILL);
            return;
        }
        // Those that have ended meanwhile make room, so that the list stays as long as what it
        // stands for.
        state.remaining.retain(|group| group.is_alive());
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
