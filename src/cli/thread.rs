//! The threads of a command.

use std::thread;

use crate::error::{Error, Result};
use crate::sys::signal::Signals;

/// The stack of a thread that moves bytes and builds messages.
const STACK: usize = 256 * 1024;

/// Starts a thread that is waited for by nobody.
///
/// # Errors
/// There may be no more of them.
pub(super) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
    spawn_with(STACK, name, run)
}

/// The same with a stack of this size.
///
/// # Errors
/// There may be no more of them.
pub(super) fn spawn_with(
    stack: usize,
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> Result<()> {
    let thread = thread::Builder::new().name(name.to_owned()).stack_size(stack);
    thread.spawn(run).map(drop).map_err(|error| Error::io(&error, "cannot make a thread"))
}

/// Tells of each signal, from a thread of its own.
///
/// # Errors
/// There may be no more of them.
pub(super) fn watch(signals: Signals, tell: impl Fn(i32) + Send + 'static) -> Result<()> {
    spawn("signals", move || {
        while let Ok(signal) = signals.wait() {
            tell(signal);
        }
    })
}
