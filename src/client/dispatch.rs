//! What comes from the server, to whoever waits for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::net;
use crate::buffers;
use crate::environment::{Allowance, Incoming, Sender, Stream};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::chunk;
use crate::protocol::decode_onto;
use crate::protocol::lifted::{self, Lifted};
use crate::protocol::rpc::{self, Message, Outcome};
use crate::protocol::{
    ClosedEvent, ConnectionId, DataEvent, ExecResult, ExitEvent, OutputEvent, ProcessId, method,
};
use crate::sync::lock;
use crate::transport::End;

/// Which process or connection a notification is about.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct About {
    process_id: Option<String>,
    connection_id: Option<String>,
}

/// Where an answer goes.
pub(super) enum Pending {
    /// To a call.
    Call(Taker),
    /// Nowhere.
    Nobody,
    /// To a call that wants a file's content.
    Content(ContentTaker),
    /// To the events of this process: it is the last one.
    Exec(ProcessId),
}

/// What takes an answer in.
pub(super) type Taker = Box<dyn FnOnce(Result<&RawValue>) + Send>;

/// The same for an answer with content.
pub(super) type ContentTaker = Box<dyn FnOnce(Result<Content>) + Send>;

/// An answer, and what was lifted out of it.
pub(super) struct Content {
    pub(super) rest: Box<RawValue>,
    pub(super) lifted: Option<Vec<u8>>,
}

/// The calls, processes and connections of one client.
#[derive(Default)]
pub(super) struct Dispatch {
    /// The host's.
    epoch: Option<u64>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    pending: HashMap<u64, Pending>,
    processes: HashMap<String, Subscriber<Incoming>>,
    connections: HashMap<String, Subscriber<net::Incoming>>,
    /// Why the connection has ended.
    ended: Option<Error>,
}

/// Who takes the events of an id. The id is free again with the last of them, though that may not have
/// been taken yet; so who leaves says which of its subscribers he is.
struct Subscriber<E> {
    ticket: Ticket,
    events: Sender<E>,
    allowance: Arc<Allowance>,
    /// The end of its data has been told, which is told once.
    has_ended: bool,
}

impl<E> Subscriber<E> {
    fn new(ticket: Ticket, events: Sender<E>, allowance: &Arc<Allowance>) -> Self {
        Self { ticket, events, allowance: Arc::clone(allowance), has_ended: false }
    }
}

/// One subscriber.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket(u64);

/// The error of whatever was in flight when the connection ended.
pub(super) fn lost(why: &str) -> Error {
    Error::new(ErrorKind::ConnectionLost, format!("the connection was lost: {why}"))
}

impl State {
    /// One that nobody else has, unless the connection has ended.
    fn number(&mut self) -> Result<u64> {
        if let Some(error) = &self.ended {
            return Err(error.clone());
        }
        self.next += 1;
        Ok(self.next)
    }
}

fn enter<E>(
    all: &mut HashMap<String, Subscriber<E>>,
    id: &str,
    what: &str,
    subscriber: Subscriber<E>,
) -> Result<()> {
    if all.contains_key(id) {
        let message = format!("the id {id:?} is that of a live {what}");
        return Err(Error::new(ErrorKind::DuplicateId, message));
    }
    all.insert(id.to_owned(), subscriber);
    Ok(())
}

fn remove<E>(all: &mut HashMap<String, Subscriber<E>>, id: &str, ticket: Ticket) -> bool {
    let is_it = all.get(id).is_some_and(|subscriber| subscriber.ticket == ticket);
    is_it && all.remove(id).is_some()
}

/// What is known of a connection besides its end.
pub(crate) struct Known {
    /// What its carrier tells of the end.
    pub(crate) why: Option<String>,
    /// The host's epoch.
    pub(crate) epoch: Option<u64>,
    /// Whether anything of the protocol has come from there.
    pub(crate) has_spoken: bool,
}

/// What an end means.
pub(crate) fn loss(end: &End, known: Known) -> Error {
    let Known { why, epoch, has_spoken } = known;
    // (One that was there and has gone may have written down why.)
    let lost_with_log = |why: &str| lost(&format!("{why} (the server's log may tell why)"));
    match (end, why) {
        (End::Fenced, _) => {
            // (As the server says it, which tells its own epoch to calls alone.)
            let newer =
                epoch.map_or_else(String::new, |own| format!(": its epoch is newer than {own}"));
            let message = format!("another host has taken over this environment{newer}");
            Error::new(ErrorKind::StaleEpoch, message)
        }
        // The call may have had its effect all the same.
        (_, Some(why)) if !has_spoken => {
            Error::new(ErrorKind::ConnectionLost, format!("{why} before it spoke the protocol"))
        }
        (_, Some(why)) => lost(&why),
        (End::Closed | End::Stopped, None) => lost_with_log("the server closed it"),
        (End::Lost(why), None) => lost_with_log(why),
        (End::Silent, None) => lost("the server was silent for too long"),
        (End::Offence(_, why), None) => lost(why),
    }
}

impl Dispatch {
    pub(super) fn of_epoch(epoch: Option<u64>) -> Self {
        Self { epoch, ..Self::default() }
    }

    /// Takes note of a request; answers its id.
    pub(super) fn expect(&self, pending: Pending) -> Result<u64> {
        let mut state = lock(&self.state);
        let id = state.number()?;
        state.pending.insert(id, pending);
        Ok(id)
    }

    /// Nobody waits for this answer any more.
    pub(super) fn forget(&self, id: u64) {
        lock(&self.state).pending.remove(&id);
    }

    /// Takes note of a process.
    pub(super) fn subscribe(
        &self,
        id: &ProcessId,
        events: Sender<Incoming>,
        allowance: &Arc<Allowance>,
    ) -> Result<Ticket> {
        let mut state = lock(&self.state);
        let ticket = Ticket(state.number()?);
        let subscriber = Subscriber::new(ticket, events, allowance);
        enter(&mut state.processes, id.as_str(), "process", subscriber)?;
        Ok(ticket)
    }

    /// Nobody takes this process's events any more.
    pub(super) fn unsubscribe(&self, id: &ProcessId, ticket: Ticket) {
        remove(&mut lock(&self.state).processes, id.as_str(), ticket);
    }

    /// Takes note of a connection.
    pub(super) fn subscribe_to_connection(
        &self,
        id: &ConnectionId,
        events: Sender<net::Incoming>,
        allowance: &Arc<Allowance>,
    ) -> Result<Ticket> {
        let mut state = lock(&self.state);
        let ticket = Ticket(state.number()?);
        let subscriber = Subscriber::new(ticket, events, allowance);
        enter(&mut state.connections, id.as_str(), "connection", subscriber)?;
        Ok(ticket)
    }

    /// Nobody takes this connection's events any more. Whether there might have been any.
    pub(super) fn unsubscribe_from_connection(&self, id: &ConnectionId, ticket: Ticket) -> bool {
        remove(&mut lock(&self.state).connections, id.as_str(), ticket)
    }

    /// Why the connection has ended, if it has.
    pub(super) fn ended(&self) -> Option<Error> {
        lock(&self.state).ended.clone()
    }

    /// Nothing more will come. `why` is what else is known of the end.
    pub(super) fn lose(&self, end: &End, why: Option<String>, has_spoken: bool) {
        self.end(&loss(end, Known { why, epoch: self.epoch, has_spoken }));
    }

    /// The connection has ended: whoever waits is told, once.
    pub(super) fn end(&self, error: &Error) {
        let mut state = lock(&self.state);
        if state.ended.is_some() {
            return;
        }
        state.ended = Some(error.clone());
        let pending = std::mem::take(&mut state.pending);
        let processes = std::mem::take(&mut state.processes);
        let connections = std::mem::take(&mut state.connections);
        drop(state);
        for pending in pending.into_values() {
            match pending {
                Pending::Call(give) => give(Err(error.clone())),
                Pending::Content(give) => give(Err(error.clone())),
                // Its process is told.
                Pending::Exec(_) | Pending::Nobody => {}
            }
        }
        for Subscriber { events, .. } in processes.into_values() {
            events.send(Incoming::Failed(error.clone()));
        }
        for Subscriber { events, .. } in connections.into_values() {
            events.send(net::Incoming::Failed(error.clone()));
        }
    }

    /// Takes in one message.
    pub(super) fn receive(&self, text: &str) {
        if let Some(chunk) = chunk::parse_chunk(text) {
            let mut bytes = buffers::take_for(chunk.chunk.len());
            if decode_onto(chunk.chunk, &mut bytes) {
                return match chunk.method {
                    method::DATA => self.data(chunk.id, bytes),
                    name => self.output(chunk.id, stream_of(name), bytes),
                };
            }
        }
        if lifted::is_worth(text)
            && self.expects_content()
            && let Some(Lifted { rest, bytes, .. }) = lifted::lift_result(text)
            && let Ok(Message::Response { id: Some(id), outcome: Outcome::Result(rest) }) =
                rpc::parse(&rest)
            && let Some(give) = self.wants_content(id)
        {
            return give(Ok(Content { rest: rest.to_owned(), lifted: Some(bytes) }));
        }
        match rpc::parse(text) {
            Ok(Message::Response { id: Some(id), outcome }) => self.answer(id, outcome),
            Ok(Message::Notification { method, params }) => self.notification(&method, params),
            // No server does: it gives back what it is sent, as cat(1) would.
            Ok(Message::Request { .. }) => self.end(&Error::new(
                ErrorKind::Unreachable,
                "what is at the other end asks where it should answer: it is no environment",
            )),
            _ => {}
        }
    }

    /// Whether any call does: what others wait for is read as JSON.
    fn expects_content(&self) -> bool {
        let state = lock(&self.state);
        state.pending.values().any(|pending| matches!(pending, Pending::Content(_)))
    }

    /// Whoever wants the content in the answer of this id.
    fn wants_content(&self, id: &RawValue) -> Option<ContentTaker> {
        let id = id.get().parse().ok()?;
        let mut state = lock(&self.state);
        if !matches!(state.pending.get(&id), Some(Pending::Content(_))) {
            return None;
        }
        match state.pending.remove(&id) {
            Some(Pending::Content(give)) => Some(give),
            _ => None,
        }
    }

    fn answer(&self, id: &RawValue, outcome: Outcome<'_>) {
        let Ok(id) = id.get().parse::<u64>() else { return };
        let pending = lock(&self.state).pending.remove(&id);
        let outcome = match outcome {
            Outcome::Result(result) => Ok(result),
            Outcome::Error(error) => Err(error),
        };
        match pending {
            Some(Pending::Call(give)) => give(outcome),
            Some(Pending::Content(give)) => {
                let whole = |rest: &RawValue| Content { rest: rest.to_owned(), lifted: None };
                give(outcome.map(whole));
            }
            Some(Pending::Exec(process)) => {
                let result = outcome.and_then(rpc::result::<ExecResult>);
                self.last_event(
                    process.as_str(),
                    match result {
                        Ok(result) => Incoming::Exit(result.into()),
                        Err(error) => Incoming::Failed(error),
                    },
                );
            }
            Some(Pending::Nobody) | None => {}
        }
    }

    fn notification(&self, name: &str, params: Option<&RawValue>) {
        let taken = match name {
            method::OUTPUT | method::STDERR => rpc::params::<OutputEvent>(params).map(|event| {
                self.output(&event.process_id, stream_of(name), event.chunk.0);
            }),
            method::EXIT => rpc::params::<ExitEvent>(params).map(|event| {
                let id = event.process_id.clone();
                self.last_event(&id, Incoming::Exit(event.into()));
            }),
            method::DATA => rpc::params::<DataEvent>(params).map(|event| {
                self.data(&event.connection_id, event.chunk.0);
                if event.eof == Some(true) {
                    self.end_of_data(&event.connection_id);
                }
            }),
            method::CLOSED => rpc::params::<ClosedEvent>(params).map(|event| {
                let error = event.error.map(|error| rpc::error_of(&error));
                self.last_net_event(&event.connection_id, net::Incoming::Closed(error));
            }),
            _ => Ok(()),
        };
        // What cannot be understood in part has no end that can be relied on.
        if let (Err(error), Ok(about)) = (taken, rpc::params::<About>(params)) {
            let message = format!("cannot read what the server says: {error}");
            let error = Error::new(ErrorKind::Internal, message);
            if let Some(process) = about.process_id {
                self.last_event(&process, Incoming::Failed(error));
            } else if let Some(connection) = about.connection_id {
                self.last_net_event(&connection, net::Incoming::Failed(error));
            }
        }
    }

    fn data(&self, connection: &str, bytes: Vec<u8>) {
        let taken = pass_on(&lock(&self.state).connections, connection, bytes, net::Incoming::Data);
        if let Err(error) = taken {
            self.last_net_event(connection, net::Incoming::Failed(error));
        }
    }

    fn end_of_data(&self, connection: &str) {
        if let Some(subscriber) = lock(&self.state).connections.get_mut(connection)
            && !std::mem::replace(&mut subscriber.has_ended, true)
        {
            subscriber.events.send(net::Incoming::Eof);
        }
    }

    fn last_net_event(&self, connection: &str, event: net::Incoming) {
        let subscriber = lock(&self.state).connections.remove(connection);
        if let Some(subscriber) = subscriber {
            subscriber.events.send(event);
        }
    }

    fn output(&self, process: &str, stream: Stream, bytes: Vec<u8>) {
        let event = |bytes| Incoming::Output(stream, bytes);
        let taken = pass_on(&lock(&self.state).processes, process, bytes, event);
        if let Err(error) = taken {
            self.last_event(process, Incoming::Failed(error));
        }
    }

    fn last_event(&self, process: &str, event: Incoming) {
        let subscriber = lock(&self.state).processes.remove(process);
        if let Some(subscriber) = subscriber {
            subscriber.events.send(event);
        }
    }
}

/// Hands bytes to whoever takes the events of an id, as an event.
///
/// # Errors
/// The far end sends more than it may.
fn pass_on<E>(
    all: &HashMap<String, Subscriber<E>>,
    id: &str,
    bytes: Vec<u8>,
    event: impl FnOnce(Vec<u8>) -> E,
) -> Result<()> {
    match all.get(id) {
        // (Nothing of nothing: it would not count.)
        Some(subscriber) if !bytes.is_empty() => {
            if !subscriber.allowance.take(bytes.len()) {
                let message = format!("the server sends more for {id:?} than its window lets it");
                return Err(Error::new(ErrorKind::Internal, message));
            }
            subscriber.events.send(event(bytes));
        }
        _ => buffers::give(bytes),
    }
    Ok(())
}

/// Whether it is of the protocol: a program that leads nowhere may say something else.
pub(crate) fn speaks(text: &str) -> bool {
    rpc::parse(text).is_ok()
}

fn stream_of(name: &str) -> Stream {
    if name == method::STDERR { Stream::Stderr } else { Stream::Stdout }
}
