//! How many connections have not yet ended all that they have started. It is the program's, and
//! not a server's: what matters is that the program does not exit before.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::sync::lock;

static COUNT: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

/// Counts while it lives.
pub(super) struct Live(());

impl Live {
    pub(super) fn new() -> Self {
        *lock(&COUNT) += 1;
        Self(())
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        *lock(&COUNT) -= 1;
        ENDED.notify_all();
    }
}

/// Waits until nothing that any connection has started is left, or `timeout` has passed.
pub(crate) fn wait_for_none(timeout: Duration) {
    let deadline = Instant::now() + timeout;
    let mut count = lock(&COUNT);
    while *count > 0 {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        // The condition variable hands the lock back while it waits.
        count = ENDED.wait_timeout(count, left).unwrap_or_else(PoisonError::into_inner).0;
    }
}
