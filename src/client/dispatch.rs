//! What comes from the server, to whoever waits for it.

use std::collections::HashMap;
use std::sync::Mutex;

use crossbeam_channel::Sender;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::process::{Incoming, Stream};
use crate::buffers;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::chunk;
use crate::protocol::decode_onto;
use crate::protocol::rpc::{self, Message, Outcome};
use crate::protocol::{ExecResult, ExitEvent, OutputEvent, ProcessId, method};
use crate::sync::lock;
use crate::transport::{End, Event, Source};

/// A chunk below this gets a buffer of its own size.
const SMALL: usize = 4096;

/// Which process a notification is about.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfProcess {
    process_id: String,
}

/// Where an answer goes.
pub(super) enum Pending {
    /// To a call that waits.
    Call(Sender<Result<Box<RawValue>>>),
    /// To the events of this process: it is the last one.
    Exec(ProcessId),
}

/// The calls and processes of one connection.
#[derive(Default)]
pub(super) struct Dispatch {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    pending: HashMap<u64, Pending>,
    processes: HashMap<String, Sender<Incoming>>,
    /// Why the connection has ended.
    ended: Option<Error>,
}

/// The error of whatever was in flight when the connection ended.
pub(super) fn lost(why: &str) -> Error {
    Error::new(ErrorKind::ConnectionLost, format!("the connection was lost: {why}"))
}

impl Dispatch {
    /// Takes note of a request; answers its id.
    pub(super) fn expect(&self, pending: Pending) -> Result<u64> {
        let mut state = lock(&self.state);
        if let Some(error) = &state.ended {
            return Err(error.clone());
        }
        state.next += 1;
        let id = state.next;
        state.pending.insert(id, pending);
        Ok(id)
    }

    /// Nobody waits for this answer any more.
    pub(super) fn forget(&self, id: u64) {
        lock(&self.state).pending.remove(&id);
    }

    /// Takes note of a process.
    pub(super) fn subscribe(&self, id: &ProcessId, events: Sender<Incoming>) -> Result<()> {
        let mut state = lock(&self.state);
        if let Some(error) = &state.ended {
            return Err(error.clone());
        }
        if state.processes.contains_key(id.as_str()) {
            let message = format!("this client has a process with the id {:?}", id.as_str());
            return Err(Error::new(ErrorKind::DuplicateId, message));
        }
        state.processes.insert(id.as_str().to_owned(), events);
        Ok(())
    }

    /// Nobody takes this process's events any more.
    pub(super) fn unsubscribe(&self, id: &ProcessId) {
        lock(&self.state).processes.remove(id.as_str());
    }

    /// Takes in what comes until the connection ends.
    pub(super) fn run(&self, source: &mut dyn Source) {
        let end = loop {
            match source.next() {
                Event::Message(text) => self.receive(text),
                Event::TooLong | Event::NotText(_) => {}
                Event::End(end) => break end,
            }
        };
        let error = lost(match &end {
            End::Closed | End::Stopped => "the server closed it",
            End::Lost(why) => why,
            End::Silent => "the server was silent for too long",
            End::Offence(_, why) => why,
        });
        let mut state = lock(&self.state);
        state.ended = Some(error.clone());
        let pending = std::mem::take(&mut state.pending);
        let processes = std::mem::take(&mut state.processes);
        drop(state);
        for pending in pending.into_values() {
            if let Pending::Call(sender) = pending {
                let _ = sender.send(Err(error.clone()));
            }
        }
        for events in processes.into_values() {
            let _ = events.send(Incoming::Failed(error.clone()));
        }
    }

    fn receive(&self, text: &str) {
        if let Some(output) = chunk::parse_output(text) {
            // Many small chunks may wait for a slow reader: each in as much memory as it needs.
            let mut bytes = match output.chunk.len() {
                0..SMALL => Vec::new(),
                _ => buffers::take(),
            };
            if decode_onto(output.chunk, &mut bytes) {
                let stream = stream_of(output.method);
                return self.event(output.process_id, Incoming::Output(stream, bytes));
            }
        }
        match rpc::parse(text) {
            Ok(Message::Response { id: Some(id), outcome }) => self.answer(id, outcome),
            Ok(Message::Notification { method, params }) => self.notification(&method, params),
            _ => {}
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
            Some(Pending::Call(sender)) => {
                let _ = sender.send(outcome.map(ToOwned::to_owned));
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
            None => {}
        }
    }

    fn notification(&self, name: &str, params: Option<&RawValue>) {
        let taken = match name {
            method::OUTPUT | method::STDERR => rpc::params::<OutputEvent>(params).map(|event| {
                let bytes = Incoming::Output(stream_of(name), event.chunk.0);
                self.event(&event.process_id, bytes);
            }),
            method::EXIT => rpc::params::<ExitEvent>(params).map(|event| {
                let id = event.process_id.clone();
                self.last_event(&id, Incoming::Exit(event.into()));
            }),
            _ => Ok(()),
        };
        // A process of which something cannot be understood has no end that can be relied on.
        if let (Err(error), Ok(of)) = (taken, rpc::params::<OfProcess>(params)) {
            let message = format!("cannot read what the server says of a process: {error}");
            let error = Error::new(ErrorKind::Internal, message);
            self.last_event(&of.process_id, Incoming::Failed(error));
        }
    }

    fn event(&self, process: &str, event: Incoming) {
        let state = lock(&self.state);
        // The channel has no bound of its own, so this does not wait.
        if let Some(events) = state.processes.get(process) {
            let _ = events.send(event);
        }
    }

    fn last_event(&self, process: &str, event: Incoming) {
        let events = lock(&self.state).processes.remove(process);
        if let Some(events) = events {
            let _ = events.send(event);
        }
    }
}

fn stream_of(name: &str) -> Stream {
    if name == method::STDERR { Stream::Stderr } else { Stream::Stdout }
}
