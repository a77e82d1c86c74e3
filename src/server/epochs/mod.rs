//! Epochs: a newer host takes the server over, and is not answered before nothing of an older one
//! can have an effect any more.
//!
//! `order` has the rules; here they are put behind a lock. Each connection has a [`Fence`], which
//! whoever takes over lowers in front of it, and with an epoch it is a [`Member`] until its own
//! thread has seen that all its effects are over.

mod file;
mod order;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::gate::Gate;
use crate::log;
use crate::sync::lock;
use file::EpochFile;
use order::{Arrival, Order};

/// How long a new host waits for an old one's effects to be over. Only what hangs in the kernel
/// takes longer.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked whether there is still somebody to wait for it.
const GLANCE: Duration = Duration::from_millis(100);

/// The epochs of one server.
#[derive(Default)]
pub(crate) struct Epochs {
    state: Mutex<State>,
    changed: Condvar,
    required: bool,
}

#[derive(Default)]
struct State {
    order: Order,
    fences: HashMap<u64, Arc<Fence>>,
    /// Whoever raises the epoch takes it out, so that no lock is held while it is written.
    file: Option<EpochFile>,
}

impl State {
    /// Under the lock that whoever takes over needs: from here on it finds the fence.
    fn enter(&mut self, fence: &Arc<Fence>, epoch: u64) {
        let _ = fence.epoch.set(epoch);
        self.fences.insert(fence.number, Arc::clone(fence));
    }
}

impl fmt::Debug for Epochs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epochs").field("required", &self.required).finish_non_exhaustive()
    }
}

/// Who is at the far end of a connection.
pub(crate) trait Host: Send + Sync {
    /// Wakes the connection's thread out of its wait for a message.
    fn wake(&self);

    /// Whether nobody is there any more.
    fn is_gone(&self) -> bool;
}

/// What stands between a connection and its effects.
pub(crate) struct Fence {
    /// The connection.
    number: u64,
    epoch: OnceLock<u64>,
    /// The epoch that has taken over; 0 as long as none has.
    current: AtomicU64,
    gate: Arc<Gate>,
    host: Box<dyn Host>,
}

/// How a connection has come through the wait for older ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Nothing of an older epoch is left.
    Yes,
    /// A newer one has taken over meanwhile.
    Fenced,
    /// It has gone, or the server stops.
    Gone,
    /// Something of an older one is stuck.
    Never,
}

impl Epochs {
    /// # Errors
    /// The file cannot be used.
    pub(crate) fn new(file: Option<&Path>, required: bool) -> Result<Self> {
        let (file, highest) = match file.map(EpochFile::open).transpose()? {
            Some((file, highest)) => (Some(file), highest),
            None => (None, 0),
        };
        let state = State { order: Order::new(highest), fences: HashMap::new(), file };
        Ok(Self { state: Mutex::new(state), changed: Condvar::new(), required })
    }

    /// The number in a file that could be used, or `None` where it is still to be made. Nothing is
    /// changed.
    ///
    /// # Errors
    /// The file cannot be used.
    pub(crate) fn look_at(file: &Path) -> Result<Option<u64>> {
        EpochFile::look_at(file)
    }

    /// Whether every connection needs one.
    pub(crate) fn are_required(&self) -> bool {
        self.required
    }

    /// Whether it would take over.
    pub(crate) fn would_raise(&self, epoch: u64) -> bool {
        epoch > lock(&self.state).order.highest()
    }

    fn wait<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        // The condition variable hands the lock back while it waits.
        let waited = self.changed.wait_timeout(state, GLANCE);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Fence {
    /// Of a connection to that host.
    pub(crate) fn new(host: impl Host + 'static) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Arc::new(Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            epoch: OnceLock::new(),
            current: AtomicU64::new(0),
            gate: Arc::default(),
            host: Box::new(host),
        })
    }

    /// The connection's number.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The connection's epoch.
    pub(crate) fn epoch(&self) -> Option<u64> {
        self.epoch.get().copied()
    }

    /// Where its changes of files pass.
    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// Whether a newer host has taken over.
    pub(crate) fn is_down(&self) -> bool {
        self.current.load(Ordering::Acquire) > 0
    }

    /// What a fenced connection is answered.
    pub(crate) fn error(&self) -> Option<Error> {
        let current = self.current.load(Ordering::Acquire);
        (current > 0).then(|| Error::stale(self.epoch().unwrap_or_default(), current))
    }

    /// Wakes the connection: it is to end.
    pub(crate) fn wake_host(&self) {
        self.host.wake();
    }

    fn lower(&self, current: u64) {
        // In this order: what fails because the gate is closed is answered as fenced.
        self.current.fetch_max(current, Ordering::AcqRel);
        self.gate.close();
        self.host.wake();
    }
}

/// A connection that has an epoch, until nothing of it has an effect any more: dropped, it has left.
#[must_use]
pub(crate) struct Member {
    epochs: Arc<Epochs>,
    fence: Arc<Fence>,
    epoch: u64,
    stays: AtomicBool,
}

impl Member {
    /// A connection says its epoch, which it does once. `None` where a newer one is there: the
    /// fence is down then. `hurry` says that there is no time to wait for another one's raise.
    ///
    /// # Errors
    /// The epoch cannot be written to the file: nobody is fenced then.
    pub(crate) fn arrive(
        epochs: &Arc<Epochs>,
        fence: &Arc<Fence>,
        epoch: u64,
        hurry: &dyn Fn() -> bool,
    ) -> Result<Option<Self>> {
        let since = Instant::now();
        let number = fence.number;
        let mut state = lock(&epochs.state);
        loop {
            match state.order.arrive(number, epoch) {
                Arrival::Joined => {
                    state.enter(fence, epoch);
                    break;
                }
                Arrival::Raises => {
                    epochs.raise(state, fence, epoch)?;
                    break;
                }
                Arrival::Stale(current) => {
                    drop(state);
                    let _ = fence.epoch.set(epoch);
                    let fields: &[log::Field<'_>] =
                        &[("connection", &number), ("epoch", &epoch), ("current", &current)];
                    log::info("epoch is stale", fields);
                    fence.lower(current);
                    return Ok(None);
                }
                Arrival::Waits
                    if hurry() || fence.host.is_gone() || since.elapsed() >= PATIENCE =>
                {
                    let message = "another host's epoch is still being written to the epoch file";
                    return Err(Error::new(ErrorKind::Internal, message));
                }
                Arrival::Waits => state = epochs.wait(state),
            }
        }
        Ok(Some(Self {
            epochs: Arc::clone(epochs),
            fence: Arc::clone(fence),
            epoch,
            stays: AtomicBool::new(false),
        }))
    }

    /// Something of it may still have an effect: even when this is dropped, it has not left.
    pub(crate) fn stay(&self) {
        self.stays.store(true, Ordering::Relaxed);
    }

    /// Nothing of it has an effect any more.
    pub(crate) fn may_leave(&self) {
        self.stays.store(false, Ordering::Relaxed);
    }

    /// Waits until nothing of an older epoch has an effect any more.
    pub(crate) fn settle(&self, hurry: &dyn Fn() -> bool) -> Settled {
        let since = Instant::now();
        let mut state = lock(&self.epochs.state);
        loop {
            // The fence first: of two that come one after the other, the older is not answered.
            if self.fence.is_down() {
                return Settled::Fenced;
            }
            if state.order.is_settled(self.epoch) {
                return Settled::Yes;
            }
            if since.elapsed() >= PATIENCE {
                let fields: &[log::Field<'_>] =
                    &[("connection", &self.fence.number), ("epoch", &self.epoch)];
                log::warn("an older host's effects do not end", fields);
                return Settled::Never;
            }
            state = self.epochs.wait(state);
            drop(state);
            if hurry() || self.fence.host.is_gone() {
                return Settled::Gone;
            }
            state = lock(&self.epochs.state);
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if *self.stays.get_mut() {
            return;
        }
        let mut state = lock(&self.epochs.state);
        state.order.left(self.fence.number);
        let fence = state.fences.remove(&self.fence.number);
        drop(state);
        drop(fence);
        self.epochs.changed.notify_all();
    }
}

impl Epochs {
    /// Makes it the highest one, in the file first, and fences all below.
    fn raise(
        &self,
        mut state: MutexGuard<'_, State>,
        fence: &Arc<Fence>,
        epoch: u64,
    ) -> Result<()> {
        let before = state.order.highest();
        // Nobody else raises meanwhile, and nobody else touches the file.
        let mut file = state.file.take();
        drop(state);
        let written = file.as_mut().map_or(Ok(()), |file| file.write(epoch));
        let mut state = lock(&self.state);
        state.file = file;
        let mut fenced = Vec::new();
        match &written {
            Ok(()) => {
                state.enter(fence, epoch);
                let numbers = state.order.raised(fence.number, epoch);
                fenced
                    .extend(numbers.iter().filter_map(|number| state.fences.get(number).cloned()));
            }
            Err(_) => state.order.not_raised(),
        }
        drop(state);
        fenced.iter().for_each(|fence| fence.lower(epoch));
        self.changed.notify_all();
        let (connection, count) = (&fence.number, fenced.len());
        match &written {
            Ok(()) => {
                let fields: &[log::Field<'_>] = &[
                    ("connection", connection),
                    ("epoch", &epoch),
                    ("before", &before),
                    ("fenced", &count),
                ];
                log::info("epoch raised", fields);
            }
            Err(error) => {
                log::warn("epoch refused", &[("connection", connection), ("why", error)]);
            }
        }
        written
    }
}
