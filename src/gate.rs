//! Who may still change something. Whoever changes a file goes through its connection's gate and
//! stays inside until that is done; once the gate is closed nobody enters, and when nobody is inside
//! any more, nothing of that connection lands.
//!
//! The pass is carried by the thread, so that what is done inside can ask whether to go on, and can
//! step outside while it does what nobody sees. Who is outside wants to come in again: as long as
//! the gate is open it has to be waited for, and behind a closed one it changes nothing any more.

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
    /// They mean to come in again.
    outside: usize,
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

    /// One goes out for a while.
    pub(crate) fn step_out(&mut self) {
        self.inside -= 1;
        self.outside += 1;
    }

    /// It comes in again, unless it is closed; then it has left.
    pub(crate) fn come_in(&mut self) -> bool {
        self.outside -= 1;
        self.enter()
    }

    /// One has left from inside.
    pub(crate) fn leave(&mut self) {
        self.inside -= 1;
    }

    /// Nobody enters any more.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Closes it if nothing is on its way; `false` where something is.
    pub(crate) fn finish(&mut self) -> bool {
        self.closed = self.closed || (self.inside == 0 && self.outside == 0);
        self.closed && self.inside == 0
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
        self.change(Entrance::enter).then(|| Pass { gate: Arc::clone(self), at: At::Inside })
    }

    /// Nobody enters any more, and who is inside is told when it asks.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.change(Entrance::close);
    }

    /// Closes it when all that has begun has come to its end, or only waits for that where it is
    /// closed already; `false` if that takes longer, and then it is as it was.
    pub(crate) fn finish(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut entrance = lock(&self.entrance);
        while !entrance.finish() {
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

    fn change<T>(&self, change: impl FnOnce(&mut Entrance) -> T) -> T {
        let changed = change(&mut lock(&self.entrance));
        self.left.notify_all();
        changed
    }
}

thread_local! {
    static CARRIED: RefCell<Option<Pass>> = const { RefCell::new(None) };
}

/// The right to change something. Dropped, its holder has gone out.
#[must_use]
pub(crate) struct Pass {
    gate: Arc<Gate>,
    at: At,
}

enum At {
    Inside,
    Outside,
    /// It was not let in again.
    Away,
}

impl Pass {
    /// Does something inside.
    pub(crate) fn carry<T>(self, work: impl FnOnce() -> T) -> T {
        CARRIED.set(Some(self));
        let _put_down = PutDown;
        work()
    }

    fn step_out(&mut self) {
        if matches!(self.at, At::Inside) {
            self.gate.change(Entrance::step_out);
            self.at = At::Outside;
        }
    }

    fn come_in(&mut self) -> io::Result<()> {
        if matches!(self.at, At::Outside) {
            self.at = if self.gate.change(Entrance::come_in) { At::Inside } else { At::Away };
        }
        if matches!(self.at, At::Inside) { Ok(()) } else { Err(canceled()) }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        // (A fault may have ended it outside.)
        if matches!(self.at, At::Outside) {
            let _ = self.come_in();
        }
        if matches!(self.at, At::Inside) {
            self.gate.change(Entrance::leave);
        }
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

/// Whether this thread may still change something. One that was not let in again is waited for by
/// nobody, and whatever it had in mind for its end stays undone.
pub(crate) fn is_inside() -> bool {
    CARRIED.with_borrow(|pass| pass.as_ref().is_none_or(|pass| matches!(pass.at, At::Inside)))
}

/// Does something outside that nobody sees, however long it takes, and comes in again.
///
/// # Errors
/// Those of the work, and `ECANCELED` if the gate has been closed meanwhile.
pub(crate) fn outside<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    CARRIED.with_borrow_mut(|pass| pass.as_mut().map(Pass::step_out));
    let done = work();
    CARRIED.with_borrow_mut(|pass| pass.as_mut().map_or(Ok(()), Pass::come_in))?;
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
        assert!(!gate.finish(NOW));
        pass.carry(|| assert!(is_open().is_err()));
        assert!(gate.finish(NOW));
    }

    #[test]
    fn who_is_outside_is_waited_for_while_it_can_come_in_again() {
        let gate = Arc::new(Gate::default());
        gate.enter().unwrap().carry(|| {
            assert_eq!(outside(|| Ok(gate.finish(NOW))).ok(), Some(false));
            assert!(is_inside());
            let returned = outside(|| {
                assert!(!is_inside());
                gate.close();
                assert!(gate.finish(NOW));
                Ok(())
            });
            assert!(!is_inside());
            assert_eq!(Errno::from_io_error(&returned.unwrap_err()), Some(Errno::CANCELED));
            assert!(outside(|| Ok(())).is_err());
        });
        assert!(gate.finish(NOW));
    }

    #[test]
    fn what_is_finished_is_closed() {
        let gate = Arc::new(Gate::default());
        assert!(gate.finish(NOW));
        assert!(gate.enter().is_none());
    }

    #[test]
    fn a_fault_inside_leaves_the_gate_empty() {
        let gate = Arc::new(Gate::default());
        let pass = gate.enter().unwrap();
        let fault = std::panic::AssertUnwindSafe(|| pass.carry(|| panic!("a fault")));
        assert!(std::panic::catch_unwind(fault).is_err());
        assert!(gate.finish(NOW));
        assert!(is_open().is_ok(), "the thread carries no pass any more");
    }
}
