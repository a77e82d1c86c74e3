//! How much may be on its way through: what one side has sent and the other has not taken.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::sync::lock;

/// Bytes. Enough to keep a fast connection busy; a longer message passes alone.
const MOST: usize = 4 * 1024 * 1024;

/// The room of one direction.
#[derive(Default)]
pub(super) struct Room {
    taken: Mutex<usize>,
    freed: Condvar,
}

/// A part of it, given back when it is dropped.
pub(super) struct Share {
    room: Arc<Room>,
    bytes: usize,
}

impl Room {
    /// Waits for so much. One thread takes; any may give back.
    pub(super) fn take(self: &Arc<Self>, bytes: usize) -> Share {
        let mut taken = lock(&self.taken);
        while *taken > 0 && *taken + bytes > MOST {
            // The condition variable hands the lock back while it waits.
            taken = self.freed.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
        *taken += bytes;
        Share { room: Arc::clone(self), bytes }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        *lock(&self.room.taken) -= self.bytes;
        self.room.freed.notify_all();
    }
}
