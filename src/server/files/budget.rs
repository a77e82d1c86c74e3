//! How much memory the answers of a connection may take that are being made or written.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::sync::lock;

/// Bytes. Enough to keep a connection busy whose host asks ahead; a longer answer is made alone.
pub(super) const MOST: usize = 16 * 1024 * 1024;

/// The budget of one connection. Whoever waits for a share gets it in the order they came, so that
/// a large one is not passed for ever by small ones.
#[derive(Default)]
pub(super) struct Budget {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    taken: usize,
    /// Who waits, by number; bounded by the threads that there may be.
    waiting: VecDeque<u64>,
    next: u64,
    ended: bool,
}

/// A share of the budget; given back when it is dropped.
pub(super) struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    /// Takes a share if there is room for it and nobody waits.
    pub(super) fn try_take(self: &Arc<Self>, bytes: usize) -> Option<Share> {
        let mut state = lock(&self.state);
        let free = state.waiting.is_empty() && state.has_room(bytes);
        free.then(|| self.give(&mut state, bytes))
    }

    /// Waits for a share. `None` when the connection has ended.
    pub(super) fn take(self: &Arc<Self>, bytes: usize) -> Option<Share> {
        let mut state = lock(&self.state);
        let number = state.next;
        state.next += 1;
        state.waiting.push_back(number);
        while !(state.waiting.front() == Some(&number) && state.has_room(bytes)) {
            if state.ended {
                return None;
            }
            // The condition variable hands the lock back while it waits.
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting.pop_front();
        let share = self.give(&mut state, bytes);
        drop(state);
        self.changed.notify_all();
        Some(share)
    }

    /// Whether nothing of it is taken.
    pub(super) fn is_whole(&self) -> bool {
        lock(&self.state).taken == 0
    }

    fn give(self: &Arc<Self>, state: &mut State, bytes: usize) -> Share {
        state.taken += bytes;
        Share { budget: Arc::clone(self), bytes }
    }

    /// Nobody waits any more.
    pub(super) fn end(&self) {
        lock(&self.state).ended = true;
        self.changed.notify_all();
    }
}

impl State {
    fn has_room(&self, bytes: usize) -> bool {
        self.taken == 0 || self.taken.saturating_add(bytes) <= MOST
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        lock(&self.budget.state).taken -= self.bytes;
        self.budget.changed.notify_all();
    }
}
