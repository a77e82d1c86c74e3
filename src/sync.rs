//! The poison policy, stated once.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Takes the lock, also after a thread has panicked with it. Every value behind a lock here is
/// whole between two statements, and one connection's fault must not stop the others.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until something has changed, or until the deadline if there is one. The lock is handed back
/// meanwhile. It may end without either.
pub(crate) fn wait<'a, T>(
    changed: &Condvar,
    guard: MutexGuard<'a, T>,
    deadline: Option<Instant>,
) -> MutexGuard<'a, T> {
    match deadline {
        None => changed.wait(guard).unwrap_or_else(PoisonError::into_inner),
        Some(deadline) => {
            let left = deadline.saturating_duration_since(Instant::now());
            changed.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0
        }
    }
}
