//! The poison policy, stated once.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes the lock, also after a thread has panicked with it. Every value behind a lock here is
/// whole between two statements, and one connection's fault must not stop the others.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
