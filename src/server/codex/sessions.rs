//! Sessions: what has been started in one outlives its connection for a while, so that a client whose
//! socket was cut finds it again.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::kept::Total;
use super::process::Record;
use crate::error::{Error, ErrorKind, Result};
use crate::log;
use crate::process::Family;
use crate::server::epochs::Fence;
use crate::sync::lock;
use crate::sys::host::random_number;
use crate::transport::Outbox;

/// How long a process that is over is remembered; its name is in use for so long.
const REMEMBERED: Duration = Duration::from_secs(80);
/// The most that are remembered, and how many of them with their output.
const MOST_OVER: usize = 4096;
const MOST_OUTPUTS: usize = 64;
/// How long the end of a session waits for its processes to be gone.
const ENDING: Duration = Duration::from_secs(3);

/// The sessions of a server.
#[derive(Debug)]
pub(crate) struct Sessions {
    all: Mutex<All>,
    /// How long one waits for its client to come back.
    patience: Duration,
    /// The most that wait.
    most_waiting: usize,
}

#[derive(Debug, Default)]
struct All {
    by_id: HashMap<String, Arc<Session>>,
    stopping: bool,
}

/// What one client has started.
pub(super) struct Session {
    pub(super) id: String,
    pub(super) family: Family,
    pub(super) total: Total,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    records: HashMap<String, Arc<Record>>,
    /// The connection that has it now.
    holder: Option<Arc<Fence>>,
    /// Rises whenever another connection takes it.
    turn: u64,
    detached: Option<Instant>,
    hurried: bool,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Sessions {
    /// Of which so many may wait for a client at a time, for so long each.
    pub(crate) fn new(patience: Duration, most_waiting: usize) -> Arc<Self> {
        Arc::new(Self { all: Mutex::default(), patience, most_waiting })
    }

    /// A new one, whose client is at that connection.
    pub(super) fn begin(self: &Arc<Self>, most_processes: usize, fence: &Arc<Fence>) -> Attachment {
        let session = Arc::new(Session::new(most_processes));
        lock(&self.all).by_id.insert(session.id.clone(), Arc::clone(&session));
        Attachment::new(self, session, fence, None)
    }

    /// One that is there, for a client that has come back. Whoever has it still is sent away: that
    /// is how a socket looks that was cut and does not know it.
    ///
    /// # Errors
    /// There is none of that id.
    pub(super) fn resume(
        self: &Arc<Self>,
        id: &str,
        fence: &Arc<Fence>,
        outbox: &Outbox,
    ) -> Result<Attachment> {
        // (The lock is held until it is taken: it must not end in between.)
        let all = lock(&self.all);
        let session = all.by_id.get(id).cloned().ok_or_else(|| {
            Error::new(ErrorKind::InvalidRequest, format!("unknown session id {id}"))
        })?;
        Ok(Attachment::new(self, session, fence, Some(outbox)))
    }

    /// The server stops: no session waits any more.
    pub(crate) fn stop(&self) {
        let mut all = lock(&self.all);
        all.stopping = true;
        for session in all.by_id.values() {
            session.hurry();
        }
    }

    /// Where too many wait, the one that has waited longest goes.
    fn make_room(&self) {
        let all = lock(&self.all);
        let waiting = || {
            let since = |session: &Arc<Session>| lock(&session.state).detached;
            all.by_id.values().filter_map(move |session| Some((since(session)?, session)))
        };
        if waiting().count() > self.most_waiting
            && let Some((_, session)) = waiting().min_by_key(|(since, _)| *since)
        {
            session.hurry();
        }
    }
}

impl Session {
    fn new(most_processes: usize) -> Self {
        let [a, b] = [random_number(), random_number()];
        let digits = format!("{a:016x}{b:016x}");
        let mut id = String::with_capacity(36);
        for (place, digit) in digits.chars().enumerate() {
            if matches!(place, 8 | 12 | 16 | 20) {
                id.push('-');
            }
            // The form of a random UUID.
            id.push(match place {
                12 => '4',
                16 => char::from(b"89ab"[usize::try_from(b >> 62).unwrap_or(0)]),
                _ => digit,
            });
        }
        let state = State {
            records: HashMap::new(),
            holder: None,
            turn: 0,
            detached: None,
            hurried: false,
        };
        Self {
            id,
            family: Family::new(most_processes),
            total: Total::default(),
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    fn hurry(&self) {
        lock(&self.state).hurried = true;
        self.changed.notify_all();
    }

    /// The process of that name.
    pub(super) fn find(&self, name: &str) -> Option<Arc<Record>> {
        lock(&self.state).records.get(name).cloned()
    }

    /// Takes a name for a process.
    ///
    /// # Errors
    /// It is in use, or was until a moment ago.
    pub(super) fn enter(&self, record: &Arc<Record>) -> Result<()> {
        let mut state = lock(&self.state);
        forget_old(&mut state.records);
        let name = &record.name.plain;
        if state.records.contains_key(name) {
            let message = format!("process {name} already exists");
            return Err(Error::new(ErrorKind::DuplicateId, message));
        }
        state.records.insert(name.clone(), Arc::clone(record));
        Ok(())
    }

    /// It could not be started: its name is free.
    pub(super) fn forget(&self, name: &str) {
        lock(&self.state).records.remove(name);
    }

    /// Ends all that has come of it, and waits until that is gone.
    fn end(&self) {
        let stuck = self.family.end(Instant::now() + ENDING);
        if stuck > 0 {
            log::warn("processes not gone", &[("session", &self.id), ("count", &stuck)]);
        }
    }
}

/// Those that have been over for long are forgotten; of the others the older ones have no output any
/// more.
fn forget_old(records: &mut HashMap<String, Arc<Record>>) {
    let now = Instant::now();
    let over = records.iter().filter_map(|(name, record)| Some((record.over_since()?, name)));
    let mut over: Vec<_> = over.map(|(since, name)| (since, name.clone())).collect();
    if over.len() <= MOST_OUTPUTS
        && over.iter().all(|(since, _)| now.saturating_duration_since(*since) < REMEMBERED)
    {
        return;
    }
    over.sort_unstable();
    let count = over.len();
    for (place, (since, name)) in over.into_iter().enumerate() {
        let is_old = now.saturating_duration_since(since) >= REMEMBERED;
        if is_old || count - place > MOST_OVER {
            records.remove(&name);
        } else if count - place > MOST_OUTPUTS
            && let Some(record) = records.get(&name)
        {
            record.give_up_output();
        }
    }
}

/// A connection's hold on its session. Dropped, it lets go: the session ends, unless another
/// connection has it.
pub(super) struct Attachment {
    sessions: Arc<Sessions>,
    pub(super) session: Arc<Session>,
    turn: u64,
}

impl Attachment {
    fn new(
        sessions: &Arc<Sessions>,
        session: Arc<Session>,
        fence: &Arc<Fence>,
        outbox: Option<&Outbox>,
    ) -> Self {
        let mut state = lock(&session.state);
        state.turn += 1;
        let turn = state.turn;
        let before = state.holder.replace(Arc::clone(fence));
        state.detached = None;
        for record in state.records.values() {
            record.attach(outbox);
        }
        drop(state);
        if let Some(before) = before {
            before.wake_host();
        }
        session.changed.notify_all();
        Self { sessions: Arc::clone(sessions), session, turn }
    }

    /// Whether this is still the connection that has it.
    pub(super) fn is_current(&self) -> bool {
        lock(&self.session.state).turn == self.turn
    }

    /// The connection has ended: its client may come back for a while. Then the session ends.
    pub(super) fn linger(&self) {
        let deadline = Instant::now() + self.sessions.patience;
        let mut state = lock(&self.session.state);
        if state.turn != self.turn {
            // (Reads of this connection may still wait.)
            state.records.values().for_each(|record| record.nudge());
            return;
        }
        state.holder = None;
        state.detached = Some(Instant::now());
        for record in state.records.values() {
            record.attach(None);
        }
        drop(state);
        self.sessions.make_room();
        if lock(&self.sessions.all).stopping {
            return;
        }
        let mut state = lock(&self.session.state);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if state.turn != self.turn || state.hurried || left.is_zero() {
                return;
            }
            // The condition variable hands the lock back while it waits.
            let waited = self.session.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // Under the lock that somebody who comes back has to take: it is either taken over or gone.
        let mut all = lock(&self.sessions.all);
        if !self.is_current() {
            return;
        }
        all.by_id.remove(&self.session.id);
        drop(all);
        self.session.end();
    }
}
