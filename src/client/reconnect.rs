//! One connection at a time, and a new one when it has been lost.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::ClientOptions;
use super::link::Link;
use super::way::{Way, unreachable};
use crate::environment::closed;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{lock, wait};
use crate::threads;

/// How long after the first attempt that has failed the next may come; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How long the first one may take: the program that leads there may have to ask for a password.
const FIRST: Duration = Duration::from_secs(60);

/// A way, and the connection that has been made on it.
pub(super) struct Reconnecting {
    way: Way,
    options: ClientOptions,
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
    /// Attempts that have been made, and what the last has failed of.
    attempts: u64,
    failed: Option<Error>,
    /// Why there will be none any more.
    over: Option<Error>,
}

impl Reconnecting {
    /// Makes the first one.
    pub(super) fn connect(way: Way, options: ClientOptions) -> Result<Self> {
        let link = way.connect(options.terms(Instant::now() + FIRST))?;
        let state = State {
            link: Some(Arc::new(link)),
            connecting: false,
            failures: 0,
            not_before: Instant::now(),
            attempts: 1,
            failed: None,
            over: None,
        };
        Ok(Self { way, options, state: Mutex::new(state), changed: Condvar::new() })
    }

    /// The connection. If it has been lost, a new one; one attempt is made at a time, whoever else
    /// calls meanwhile waits for it.
    pub(super) fn link(&self) -> Result<Arc<Link>> {
        self.catch_up();
        let mut state = lock(&self.state);
        if let Some(link) = state.usable()? {
            return Ok(link);
        }
        let deadline = Instant::now() + self.options.patience;
        loop {
            if let Some(link) = state.usable()? {
                return Ok(link);
            }
            let now = Instant::now();
            if state.connecting {
                if now >= deadline {
                    return Err(self.too_late(&state));
                }
                let attempt = state.attempts;
                state = wait(&self.changed, state, Some(deadline));
                // Who is refused is refused with all who have waited for that.
                if state.attempts != attempt
                    && let Some(error) = state.failed.as_ref().filter(|error| !may_pass(error))
                {
                    return Err(error.clone());
                }
            } else if now < state.not_before {
                if state.not_before >= deadline {
                    return Err(self.too_late(&state));
                }
                let until = state.not_before;
                state = wait(&self.changed, state, Some(until));
            } else {
                state = self.attempt(state, deadline)?;
            }
        }
    }

    /// There is none yet, and the next attempt would come too late.
    fn too_late(&self, state: &State) -> Error {
        let why = &"a new connection is still being made";
        state.failed.clone().unwrap_or_else(|| unreachable(&self.way, why))
    }

    fn attempt<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        deadline: Instant,
    ) -> Result<MutexGuard<'a, State>> {
        state.connecting = true;
        drop(state);
        let made = self.way.connect(self.options.terms(deadline));
        let mut state = lock(&self.state);
        state.connecting = false;
        state.attempts += 1;
        self.changed.notify_all();
        match made {
            Ok(link) => {
                state.failures = 0;
                state.failed = None;
                state.link = Some(Arc::new(link));
            }
            Err(error) => {
                let pause = FIRST_PAUSE.saturating_mul(1 << state.failures.min(10));
                state.failures += 1;
                state.not_before = Instant::now() + pause.min(LONGEST_PAUSE);
                state.failed = Some(error.clone());
                if *error.kind() == ErrorKind::StaleEpoch {
                    state.over.get_or_insert_with(|| error.clone());
                }
                if !may_pass(&error) || state.not_before >= deadline {
                    return Err(error);
                }
            }
        }
        Ok(state)
    }

    /// The connection, if there is one now.
    pub(super) fn standing(&self) -> Result<Option<Arc<Link>>> {
        self.catch_up();
        lock(&self.state).usable()
    }

    /// Without the lock: to find out why a connection has ended takes a moment.
    fn catch_up(&self) {
        let link = lock(&self.state).link.clone();
        if let Some(link) = link {
            link.catch_up();
        }
    }

    /// Closes it for good.
    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.over.get_or_insert_with(closed);
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
            let error = error.clone();
            // One that was made while that happened.
            self.retire();
            return Err(error);
        }
        let Some(link) = &self.link else { return Ok(None) };
        match link.ended() {
            None => return Ok(Some(Arc::clone(link))),
            Some(error) if *error.kind() == ErrorKind::StaleEpoch => {
                self.over = Some(error.clone());
                return Err(error);
            }
            Some(_) => self.retire(),
        }
        Ok(None)
    }

    /// Lets go of a connection. That closes it, which takes a moment where a program carries it that
    /// does not end: nobody waits for that.
    fn retire(&mut self) {
        if let Some(link) = self.link.take() {
            // Without a thread it is closed here.
            let _ = threads::run(move || drop(link));
        }
    }
}

/// Whether another attempt may succeed: a server that is being started again, a network that is
/// down. Who is refused is refused.
fn may_pass(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::ConnectionLost | ErrorKind::TimedOut)
}
