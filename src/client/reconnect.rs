//! One connection at a time, and a new one when it has been lost.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::closed_here;
use super::link::Link;
use super::way::Way;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::lock;

/// How long after the first attempt that has failed the next may come; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A way, and the connection that has been made on it.
pub(super) struct Reconnecting {
    way: Way,
    epoch: Option<u64>,
    /// How long a call tries to make a new one.
    patience: Duration,
    state: Mutex<State>,
    /// An attempt has come to its end.
    changed: Condvar,
}

struct State {
    link: Option<Arc<Link>>,
    /// Somebody makes a new one.
    connecting: bool,
    /// Attempts in a row that have failed, and when the next may come.
    failures: u32,
    not_before: Instant,
    /// Why there will be none any more.
    over: Option<Error>,
}

impl Reconnecting {
    /// Makes the first one.
    pub(super) fn connect(way: Way, epoch: Option<u64>, patience: Duration) -> Result<Self> {
        let link = way.connect(epoch)?;
        let state = State {
            link: Some(Arc::new(link)),
            connecting: false,
            failures: 0,
            not_before: Instant::now(),
            over: None,
        };
        Ok(Self { way, epoch, patience, state: Mutex::new(state), changed: Condvar::new() })
    }

    /// The connection. If it has been lost, a new one; one attempt is made at a time, whoever else
    /// calls meanwhile waits for it.
    pub(super) fn link(&self) -> Result<Arc<Link>> {
        let mut state = lock(&self.state);
        if let Some(link) = state.usable()? {
            return Ok(link);
        }
        let deadline = Instant::now() + self.patience;
        loop {
            if let Some(link) = state.usable()? {
                return Ok(link);
            }
            let now = Instant::now();
            state = if state.connecting {
                if now >= deadline {
                    let why = "a new connection is still being made";
                    return Err(super::way::unreachable(&self.way, &why));
                }
                self.wait(state, deadline)
            } else if now < state.not_before {
                let until = state.not_before;
                self.wait(state, until)
            } else {
                self.attempt(state, deadline)?
            };
        }
    }

    fn wait<'a>(&'a self, state: MutexGuard<'a, State>, until: Instant) -> MutexGuard<'a, State> {
        let left = until.saturating_duration_since(Instant::now());
        // The condition variable hands the lock back while it waits.
        self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
    }

    fn attempt<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        deadline: Instant,
    ) -> Result<MutexGuard<'a, State>> {
        state.connecting = true;
        drop(state);
        let made = self.way.connect(self.epoch);
        let mut state = lock(&self.state);
        state.connecting = false;
        self.changed.notify_all();
        match made {
            Ok(link) => {
                state.failures = 0;
                state.link = Some(Arc::new(link));
            }
            Err(error) => {
                let pause = FIRST_PAUSE.saturating_mul(1 << state.failures.min(10));
                state.failures += 1;
                state.not_before = Instant::now() + pause.min(LONGEST_PAUSE);
                if !may_pass(&error) || state.not_before >= deadline {
                    return Err(error);
                }
            }
        }
        Ok(state)
    }

    /// Closes it for good.
    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.over.get_or_insert_with(closed_here);
        let link = state.link.take();
        drop(state);
        self.changed.notify_all();
        if let Some(link) = link {
            link.close();
        }
    }
}

impl State {
    /// The connection, if it is alive.
    fn usable(&mut self) -> Result<Option<Arc<Link>>> {
        if let Some(error) = &self.over {
            // One that was made while that happened is closed by being dropped.
            self.link = None;
            return Err(error.clone());
        }
        let Some(link) = &self.link else { return Ok(None) };
        match link.ended() {
            None => return Ok(Some(Arc::clone(link))),
            Some(error) if *error.kind() == ErrorKind::StaleEpoch => {
                self.over = Some(error.clone());
                return Err(error);
            }
            Some(_) => self.link = None,
        }
        Ok(None)
    }
}

/// Whether another attempt may succeed: a server that is being started again, a network that is
/// down. Who is refused is refused.
fn may_pass(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::ConnectionLost | ErrorKind::TimedOut)
}
