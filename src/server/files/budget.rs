//! How much memory the answers of a connection may take that are being made or written.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::sync::lock;

/// Bytes. Enough to keep a connection busy whose host asks ahead; a longer answer is made alone.
const MOST: usize = 16 * 1024 * 1024;

/// The budget of one connection.
#[derive(Default)]
pub(super) struct Budget {
    state: Mutex<State>,
    given_back: Condvar,
}

#[derive(Default)]
struct State {
    taken: usize,
    ended: bool,
}

/// A share of the budget; given back when it is dropped.
pub(super) struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    /// Takes a share if there is room for it.
    pub(super) fn try_take(self: &Arc<Self>, bytes: usize) -> Option<Share> {
        let mut state = lock(&self.state);
        state.has_room(bytes).then(|| self.give(&mut state, bytes))
    }

    /// Waits for a share. `None` when the connection has ended.
    pub(super) fn take(self: &Arc<Self>, bytes: usize) -> Option<Share> {
        let mut state = lock(&self.state);
        while !state.has_room(bytes) {
            if state.ended {
                return None;
            }
            // The condition variable hands the lock back while it waits.
            state = self.given_back.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Some(self.give(&mut state, bytes))
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
        self.given_back.notify_all();
    }
}

impl State {
    fn has_room(&self, bytes: usize) -> bool {
        self.taken == 0 || self.taken + bytes <= MOST
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        lock(&self.budget.state).taken -= self.bytes;
        self.budget.given_back.notify_all();
    }
}
