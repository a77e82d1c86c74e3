//! Who may still change something. Whoever changes a file goes through its connection's gate and
//! stays inside until that is done; once the gate is closed nobody enters, and when nobody is inside
//! any more, nothing of that connection lands.
//!
//! The pass is carried by the thread, so that what is done inside can ask whether to go on, and can
//! step outside while it does what nobody sees.

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::sync::lock;

/// How many are inside, and whether more may come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Entrance {
    inside: usize,
    closed: bool,
}

impl Entrance {
    /// Lets one in, unless it is closed.
    pub(crate) fn enter(&mut self) -> bool {
        if !self.closed {
            self.inside += 1;
        }
        !self.closed
    }

    /// One has gone out.
    pub(crate) fn leave(&mut self) {
        self.inside = self.inside.saturating_sub(1);
    }

    /// Nobody enters any more.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.inside == 0
    }
}

/// The gate of one connection.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    entrance: Mutex<Entrance>,
    left: Condvar,
    closed: AtomicBool,
}

impl Gate {
    /// Lets one in, unless it is closed.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Pass> {
        lock(&self.entrance).enter().then(|| Pass { gate: Arc::clone(self), inside: true })
    }

    /// Nobody enters any more, and who is inside is told when it asks.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        lock(&self.entrance).close();
    }

    /// Waits until nobody is inside; `false` if that took longer.
    pub(crate) fn wait_empty(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut entrance = lock(&self.entrance);
        while !entrance.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            // The condition variable hands the lock back while it waits.
            let waited = self.left.wait_timeout(entrance, left);
            entrance = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn leave(&self) {
        lock(&self.entrance).leave();
        self.left.notify_all();
    }
}

thread_local! {
    static CARRIED: RefCell<Option<Pass>> = const { RefCell::new(None) };
}

/// The right to change something. Dropped, its holder has gone out.
#[must_use]
pub(crate) struct Pass {
    gate: Arc<Gate>,
    inside: bool,
}

impl Pass {
    /// Does something inside.
    pub(crate) fn carry<T>(self, work: impl FnOnce() -> T) -> T {
        CARRIED.set(Some(self));
        let _put_down = PutDown;
        work()
    }

    fn step_out(&mut self) {
        if std::mem::take(&mut self.inside) {
            self.gate.leave();
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.step_out();
    }
}

/// Also when the work has panicked.
struct PutDown;

impl Drop for PutDown {
    fn drop(&mut self) {
        drop(CARRIED.take());
    }
}

fn canceled() -> io::Error {
    Errno::CANCELED.into()
}

/// Whether the work of this thread may go on.
///
/// # Errors
/// `ECANCELED` once the gate that it has come through is closed.
pub(crate) fn is_open() -> io::Result<()> {
    CARRIED.with_borrow(|pass| match pass {
        Some(pass) if pass.gate.closed.load(Ordering::Acquire) => Err(canceled()),
        _ => Ok(()),
    })
}

/// Does something outside that nobody sees, however long it takes, and comes in again.
///
/// # Errors
/// Those of the work, and `ECANCELED` if the gate has been closed meanwhile.
pub(crate) fn outside<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    CARRIED.with_borrow_mut(|pass| pass.as_mut().map(Pass::step_out));
    let done = work();
    CARRIED.with_borrow_mut(|pass| {
        let Some(pass) = pass else { return Ok(()) };
        pass.inside = lock(&pass.gate.entrance).enter();
        if pass.inside { Ok(()) } else { Err(canceled()) }
    })?;
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    #[test]
    fn a_closed_gate_lets_nobody_in_and_is_empty_when_all_have_left() {
        let gate = Arc::new(Gate::default());
        let pass = gate.enter().unwrap();
        gate.close();
        assert!(gate.enter().is_none());
        assert!(!gate.wait_empty(NOW));
        pass.carry(|| assert!(is_open().is_err()));
        assert!(gate.wait_empty(NOW));
    }

    #[test]
    fn who_is_outside_is_not_waited_for_and_does_not_come_in_again() {
        let gate = Arc::new(Gate::default());
        gate.enter().unwrap().carry(|| {
            assert_eq!(outside(|| Ok(gate.wait_empty(NOW))).ok(), Some(true));
            assert!(!gate.wait_empty(NOW));
            let returned = outside(|| {
                gate.close();
                Ok(())
            });
            assert_eq!(Errno::from_io_error(&returned.unwrap_err()), Some(Errno::CANCELED));
            assert!(gate.wait_empty(NOW));
        });
        assert!(gate.wait_empty(NOW));
    }

    #[test]
    fn a_fault_inside_leaves_the_gate_empty() {
        let gate = Arc::new(Gate::default());
        let pass = gate.enter().unwrap();
        let fault = std::panic::AssertUnwindSafe(|| pass.carry(|| panic!("a fault")));
        assert!(std::panic::catch_unwind(fault).is_err());
        assert!(gate.wait_empty(NOW));
        assert!(is_open().is_ok(), "the thread carries no pass any more");
    }
}
