//! The processes of one connection.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::process::Mailbox;
use crate::protocol::ProcessId;
use crate::sync::lock;
use crate::sys::child::Group;
use crate::sys::signal;

/// All that a connection has started and that is not gone.
pub(super) struct Registry {
    most: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    entries: HashMap<u64, Entry>,
    /// Live processes by the host's name for them.
    live: HashMap<Box<str>, u64>,
    next: u64,
    /// Groups whose leader has gone and whose members hold no output.
    remaining: Vec<Group>,
    ended: bool,
}

/// `None` between the reservation and the start.
struct Entry(Option<Arc<Mailbox>>);

/// A place in the registry. It is given up in two steps: the id when the process is over, the
/// rest when nothing of it holds its output any more. Dropped, it gives up both.
pub(super) struct Place {
    registry: Arc<Registry>,
    number: u64,
    id: Option<Box<str>>,
}

impl Registry {
    /// For at most that many processes.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, state: Mutex::default(), changed: Condvar::new() })
    }

    /// Takes a place for a process that is about to be started.
    ///
    /// # Errors
    /// The id is in use, or the limit is reached.
    pub(super) fn reserve(self: &Arc<Self>, id: &ProcessId) -> Result<Place> {
        let mut state = lock(&self.state);
        if state.live.contains_key(id.as_str()) {
            return Err(Error::new(
                ErrorKind::DuplicateId,
                format!("a process with the id {:?} is running", id.as_str()),
            ));
        }
        if state.entries.len() >= self.most {
            let message = format!(
                "this connection has {} processes, which is the limit (--max-processes)",
                self.most
            );
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let number = state.next;
        state.next += 1;
        state.entries.insert(number, Entry(None));
        state.live.insert(id.as_str().into(), number);
        Ok(Place { registry: Arc::clone(self), number, id: Some(id.as_str().into()) })
    }

    /// Enters a started process at its place. (It may be gone already.)
    pub(super) fn enter(&self, number: u64, mailbox: &Arc<Mailbox>) {
        if let Some(entry) = lock(&self.state).entries.get_mut(&number) {
            entry.0 = Some(Arc::clone(mailbox));
        }
    }

    /// The live process of that id.
    pub(super) fn find(&self, id: &ProcessId) -> Option<Arc<Mailbox>> {
        let state = lock(&self.state);
        let number = state.live.get(id.as_str())?;
        state.entries.get(number)?.0.clone()
    }

    /// Ends everything and waits until it is gone, or `timeout` has passed. Answers how many
    /// were not gone by then (which nothing but a process stuck in the kernel can cause).
    pub(super) fn end_all(&self, timeout: Duration) -> usize {
        let deadline = Instant::now() + timeout;
        let mut state = lock(&self.state);
        state.ended = true;
        let mailboxes: Vec<_> =
            state.entries.values().filter_map(|entry| entry.0.clone()).collect();
        let remaining = std::mem::take(&mut state.remaining);
        drop(state);
        mailboxes.iter().for_each(|mailbox| mailbox.end());
        kill(&remaining);
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

fn kill(groups: &[Group]) {
    for group in groups {
        group.signal(signal::KILL);
    }
}

impl Place {
    /// Its number in the registry.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The process is over: its id is free.
    pub(super) fn release_id(&mut self) {
        if let Some(id) = self.id.take() {
            lock(&self.registry.state).live.remove(&id);
        }
    }

    /// Nothing holds its output any more. What remains of its group is kept to be ended with the
    /// connection.
    pub(super) fn leave(self, remaining: Option<Group>) {
        let Some(group) = remaining else { return };
        let mut state = lock(&self.registry.state);
        if state.ended {
            drop(state);
            kill(&[group]);
            return;
        }
        // Those that have ended meanwhile make room, so that the list stays as long as what it
        // stands for.
        state.remaining.retain(Group::is_alive);
        state.remaining.push(group);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.release_id();
        lock(&self.registry.state).entries.remove(&self.number);
        self.registry.changed.notify_all();
    }
}
