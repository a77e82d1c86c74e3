//! A process's events on their way to the host.

use std::sync::Arc;

use super::account::{Account, Told};
use super::responder::Responder;
use crate::buffers;
use crate::error::Error;
use crate::process::{Ending, Order, Sink, Stream};
use crate::protocol::chunk::ChunkTemplate;
use crate::protocol::rpc;
use crate::protocol::{ExecResult, ExitEvent, SpawnResult, method};
use crate::registry::Place;
use crate::sys::child::Group;
use crate::sys::poll::Waker;
use crate::transport::{Lane, Outbox, message};

/// What the host waits for.
pub(super) enum Awaited {
    /// The answer to `process/exec`, when it is over.
    Exec(Responder),
    /// The answer to `process/spawn`, when it has started; then the notification of its exit.
    Spawn(Option<Responder>),
}

/// Sends a process's events to its connection.
pub(super) struct HostSink {
    place: Option<Place<Order>>,
    awaited: Option<Awaited>,
    lane: Option<Lane>,
    template: ChunkTemplate,
    account: Account,
}

impl HostSink {
    pub(super) fn new(place: Place<Order>, awaited: Awaited, outbox: &Outbox, told: Told) -> Self {
        Self {
            place: Some(place),
            awaited: Some(awaited),
            lane: Some(outbox.lane()),
            template: ChunkTemplate::of_process(told.id.as_str()),
            account: Account::new(told),
        }
    }
}

impl Sink for HostSink {
    fn started(&mut self, group: &Arc<Group>) {
        let pid = group.id();
        if let Some(place) = &self.place {
            place.started(group);
        }
        if let Some(lane) = &self.lane {
            self.account.started(pid, lane.traffic());
        }
        if let Some(Awaited::Spawn(responder)) = &mut self.awaited
            && let Some(responder) = responder.take()
        {
            responder.send(&Ok(SpawnResult { pid }));
        }
    }

    fn failed(&mut self, error: Error) {
        self.place = None;
        self.account.failed(&error);
        match self.awaited.take() {
            Some(Awaited::Exec(responder) | Awaited::Spawn(Some(responder))) => {
                responder.send::<()>(&Err(error));
            }
            Some(Awaited::Spawn(None)) | None => {}
        }
    }

    fn output(&mut self, stream: Stream, seq: u64, chunk: &[u8]) {
        let Some(lane) = &mut self.lane else { return };
        let name = match stream {
            Stream::Output => method::OUTPUT,
            Stream::Stderr => method::STDERR,
        };
        let mut buffer = message(buffers::for_chunk(chunk.len()));
        self.template.write_output(&mut buffer, name, seq, chunk);
        lane.send(buffer);
    }

    fn ready(&mut self, waker: &Arc<Waker>) -> bool {
        self.lane.as_mut().is_none_or(|lane| lane.ready(waker))
    }

    fn ended(&mut self, ending: &Ending) {
        self.account.ended(ending);
        if let Some(place) = &mut self.place {
            place.release_id();
        }
        let (exit_code, signal) = ending.code_and_signal();
        let Some(mut lane) = self.lane.take() else { return };
        match self.awaited.take() {
            Some(Awaited::Exec(responder)) => {
                let result = ExecResult {
                    exit_code,
                    signal,
                    timed_out: ending.timed_out,
                    killed: ending.killed,
                    output_held: ending.output_held,
                    stdout_bytes: ending.stdout_bytes,
                    stderr_bytes: ending.stderr_bytes,
                    duration_ms: u64::try_from(ending.duration.as_millis()).unwrap_or(u64::MAX),
                };
                responder.send_after_output(&Ok(result), &mut lane);
            }
            Some(Awaited::Spawn(_)) => {
                let event = ExitEvent {
                    process_id: self.account.id().to_owned(),
                    seq: ending.seq,
                    exit_code,
                    signal,
                    output_held: ending.output_held,
                    stdout_bytes: ending.stdout_bytes,
                    stderr_bytes: ending.stderr_bytes,
                };
                let mut buffer = message(Vec::with_capacity(384));
                rpc::write_notification(&mut buffer, method::EXIT, &event);
                lane.send_last(buffer);
            }
            None => {}
        }
        self.lane = Some(lane);
        self.account.log_ended(ending);
    }

    fn gone(&mut self, remaining: Option<Arc<Group>>) {
        if let Some(place) = self.place.take() {
            place.leave(remaining);
        }
    }
}
