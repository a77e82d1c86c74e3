//! One process, for as long as its name is remembered: what has come of it, who waits to hear, and its
//! events on their way.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::kept::{Kept, Told, Total};
use super::wire;
use crate::buffers;
use crate::descendants::Branch;
use crate::error::Error;
use crate::process::{Ending, Order, Sink, Stream};
use crate::protocol::ProcessId;
use crate::registry::Place;
use crate::server::account::{self, Account};
use crate::server::responder::Responder;
use crate::sync::lock;
use crate::sys::child::{Group, Status};
use crate::sys::poll::Waker;
use crate::transport::{Lane, Outbox, message};

/// How many writes are known again.
const WRITES: usize = 4096;

/// A process's name, and how it is written.
#[derive(Debug)]
pub(super) struct Name {
    pub(super) plain: String,
    pub(super) quoted: String,
}

impl Name {
    pub(super) fn new(plain: String) -> Self {
        let quoted = serde_json::Value::from(plain.as_str()).to_string();
        Self { plain, quoted }
    }
}

/// What is known of a process.
pub(super) struct Record {
    pub(super) name: Name,
    /// What it is called here: a client's names may be any.
    pub(super) id: ProcessId,
    is_terminal: bool,
    pub(super) takes_input: bool,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// To the client, while one is attached.
    lane: Option<Lane>,
    kept: Kept,
    /// The number of the next event.
    next: u64,
    stage: Stage,
    /// Its group, and what ends all that comes of it.
    group: Option<Arc<Group>>,
    branch: Option<Branch>,
    /// How often it was to be ended after it was over.
    goodbyes: u32,
    writes: Writes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    Starting,
    Running,
    Over { code: i32, since: Instant },
}

/// What `process/read` answers.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReadResult {
    chunks: Vec<Told>,
    next_seq: u64,
    exited: bool,
    exit_code: Option<i32>,
    closed: bool,
    failure: Option<String>,
    sandbox_denied: bool,
}

/// Names of writes that have been taken, the newest.
#[derive(Debug, Default)]
struct Writes {
    known: HashSet<Box<str>>,
    order: VecDeque<Box<str>>,
}

impl Writes {
    /// Whether it is a new one.
    fn is_new(&mut self, id: &str) -> bool {
        if !self.known.insert(id.into()) {
            return false;
        }
        self.order.push_back(id.into());
        if self.order.len() > WRITES
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

impl Record {
    pub(super) fn new(
        name: Name,
        is_terminal: bool,
        takes_input: bool,
        total: &Total,
        outbox: &Outbox,
    ) -> Arc<Self> {
        let state = State {
            lane: Some(outbox.lane()),
            kept: Kept::new(total),
            next: 1,
            stage: Stage::Starting,
            group: None,
            branch: None,
            goodbyes: 0,
            writes: Writes::default(),
        };
        Arc::new(Self {
            name,
            id: ProcessId::unique(),
            is_terminal,
            takes_input,
            state: Mutex::new(state),
            changed: Condvar::new(),
        })
    }

    /// Its events go there from here on, or nowhere.
    pub(super) fn attach(&self, outbox: Option<&Outbox>) {
        lock(&self.state).lane = outbox.map(Outbox::lane);
        self.changed.notify_all();
    }

    /// Whoever waits looks again.
    pub(super) fn nudge(&self) {
        self.changed.notify_all();
    }

    /// What ends it is known.
    pub(super) fn of_branch(&self, branch: Branch) {
        lock(&self.state).branch = Some(branch);
    }

    /// Since when it is over.
    pub(super) fn over_since(&self) -> Option<Instant> {
        match lock(&self.state).stage {
            Stage::Over { since, .. } => Some(since),
            Stage::Starting | Stage::Running => None,
        }
    }

    /// Gives up what is kept of its output.
    pub(super) fn give_up_output(&self) {
        lock(&self.state).kept.clear();
    }

    /// Whether a write has not been taken before.
    pub(super) fn is_new_write(&self, id: &str) -> bool {
        lock(&self.state).writes.is_new(id)
    }

    /// What has come after that number, at once.
    pub(super) fn read(&self, after: u64, most: Option<usize>) -> ReadResult {
        lock(&self.state).read(after, most)
    }

    /// The same, once there is something, it is over, `timeout` has passed, or `is_wanted` says that
    /// nobody waits any more (asked whenever somebody comes or goes).
    pub(super) fn await_news(
        &self,
        after: u64,
        most: Option<usize>,
        timeout: Duration,
        is_wanted: impl Fn() -> bool,
    ) -> ReadResult {
        let deadline = Instant::now() + timeout;
        let mut state = lock(&self.state);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let is_over = matches!(state.stage, Stage::Over { .. });
            if is_over || state.kept.last() > after || left.is_zero() || !is_wanted() {
                return state.read(after, most);
            }
            // The condition variable hands the lock back while it waits.
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// It is to be ended although it is over. The first time that is what a client says of each that
    /// is over, and what goes on in the background goes on. Whoever says it again means that.
    pub(super) fn say_goodbye(&self) -> Option<(Branch, Arc<Group>)> {
        let mut state = lock(&self.state);
        state.goodbyes += 1;
        if state.goodbyes == 1 {
            return None;
        }
        Some((state.branch.clone()?, state.group.clone()?))
    }

    fn stream(&self, stream: Stream) -> &'static str {
        match stream {
            Stream::Output if self.is_terminal => "pty",
            Stream::Output => "stdout",
            Stream::Stderr => "stderr",
        }
    }
}

impl State {
    fn read(&self, after: u64, most: Option<usize>) -> ReadResult {
        let exit_code = match self.stage {
            Stage::Over { code, .. } => Some(code),
            Stage::Starting | Stage::Running => None,
        };
        let chunks = self.kept.after(after, most.unwrap_or(usize::MAX));
        // Where there may be more, it is to be asked for from there on.
        let last = chunks.last().filter(|_| most.is_some());
        ReadResult {
            next_seq: last.map_or(self.next, |last| last.seq() + 1),
            chunks,
            exited: exit_code.is_some(),
            exit_code,
            closed: exit_code.is_some(),
            failure: None,
            sandbox_denied: false,
        }
    }

    fn number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StartResult<'a> {
    process_id: &'a str,
    sandbox_type: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Exited<'a> {
    process_id: &'a str,
    seq: u64,
    exit_code: i32,
    sandbox_denied: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Closed<'a> {
    process_id: &'a str,
    seq: u64,
}

/// Takes a process's events to its record, and to whoever is attached.
pub(super) struct Events {
    record: Arc<Record>,
    place: Option<Place<Order>>,
    /// Until it has started.
    responder: Option<Responder>,
    account: Account,
    /// Told when it could not be started: its name is free again.
    forget: Option<Box<dyn FnOnce() + Send>>,
}

impl Events {
    pub(super) fn new(
        record: &Arc<Record>,
        place: Place<Order>,
        responder: Responder,
        told: account::Told,
        forget: impl FnOnce() + Send + 'static,
    ) -> Self {
        Self {
            record: Arc::clone(record),
            place: Some(place),
            responder: Some(responder),
            account: Account::new(told),
            forget: Some(Box::new(forget)),
        }
    }
}

impl Sink for Events {
    fn started(&mut self, group: &Arc<Group>) {
        if let Some(place) = &self.place {
            place.started(group);
        }
        let mut state = lock(&self.record.state);
        state.stage = Stage::Running;
        state.group = Some(Arc::clone(group));
        if let Some(lane) = &state.lane {
            self.account.started(group.id(), lane.traffic());
        }
        drop(state);
        if let Some(responder) = self.responder.take() {
            let process_id = &self.record.name.plain;
            responder.send(&Ok(StartResult { process_id, sandbox_type: "none" }));
        }
    }

    fn failed(&mut self, error: Error) {
        self.place = None;
        self.account.failed(&error);
        if let Some(forget) = self.forget.take() {
            forget();
        }
        if let Some(responder) = self.responder.take() {
            responder.send::<()>(&Err(error));
        }
    }

    fn output(&mut self, stream: Stream, _: u64, chunk: &[u8]) {
        let name = self.record.stream(stream);
        let mut state = lock(&self.record.state);
        let seq = state.number();
        state.kept.add(seq, name, chunk);
        if let Some(lane) = &mut state.lane {
            let mut buffer = message(buffers::for_chunk(chunk.len()));
            wire::write_output(&mut buffer, &self.record.name, name, seq, chunk);
            lane.send(buffer);
        }
        drop(state);
        self.record.changed.notify_all();
    }

    fn ready(&mut self, waker: &Arc<Waker>) -> bool {
        lock(&self.record.state).lane.as_mut().is_none_or(|lane| lane.ready(waker))
    }

    fn ended(&mut self, ending: &Ending) {
        self.account.ended(ending);
        // From here on it is over, and not only could not be started.
        self.forget = None;
        if let Some(place) = &mut self.place {
            place.release_id();
        }
        let code = match ending.status {
            Some(Status::Exited(code)) => code,
            Some(Status::Signaled(signal)) => 128 + signal,
            None => -1,
        };
        let process_id = &self.record.name.plain;
        let mut state = lock(&self.record.state);
        let exited =
            Exited { process_id, seq: state.number(), exit_code: code, sandbox_denied: false };
        let closed = Closed { process_id, seq: state.number() };
        state.stage = Stage::Over { code, since: Instant::now() };
        if let Some(lane) = &mut state.lane {
            for (method, params) in [
                ("process/exited", serde_json::to_value(exited)),
                ("process/closed", serde_json::to_value(closed)),
            ] {
                let mut buffer = message(Vec::with_capacity(256));
                wire::write_notification(&mut buffer, method, &params.unwrap_or_default());
                lane.send_last(buffer);
            }
        }
        drop(state);
        self.record.changed.notify_all();
        self.account.log_ended(ending);
    }

    fn gone(&mut self, remaining: Option<Arc<Group>>) {
        if remaining.is_none()
            && let Some(group) = &mut lock(&self.record.state).group
        {
            // Nobody is in it: while the process is known its descriptor need not be held.
            let number = Group::new(group.id(), None);
            number.retire_number();
            *group = Arc::new(number);
        }
        if let Some(place) = self.place.take() {
            place.leave(remaining);
        }
    }
}
