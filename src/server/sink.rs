//! A process's events on their way to the host.

use std::sync::Arc;
use std::time::Instant;

use super::responder::Responder;
use crate::buffers;
use crate::error::Error;
use crate::log;
use crate::metrics::{self, How, Kind};
use crate::process::{Ending, Order, Sink, Stream};
use crate::protocol::chunk::ChunkTemplate;
use crate::protocol::rpc;
use crate::protocol::{ExecResult, ExitEvent, ProcessId, SpawnResult, method};
use crate::registry::Place;
use crate::sys::child::{Group, Status};
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
    told: Told,
    started: Option<Started>,
}

/// What the log tells of a process, whatever becomes of it.
pub(super) struct Told {
    pub(super) connection: u64,
    pub(super) id: ProcessId,
    pub(super) kind: Kind,
    /// Its command, where the log is to have it.
    pub(super) line: Option<String>,
}

/// A process that runs.
struct Started {
    pid: i32,
    at: Instant,
    counted: metrics::Process,
}

impl HostSink {
    pub(super) fn new(place: Place<Order>, awaited: Awaited, outbox: &Outbox, told: Told) -> Self {
        Self {
            place: Some(place),
            awaited: Some(awaited),
            lane: Some(outbox.lane()),
            template: ChunkTemplate::of_process(told.id.as_str()),
            told,
            started: None,
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
            let counted = metrics::Process::start(self.told.kind, lane.traffic());
            self.started = Some(Started { pid, at: Instant::now(), counted });
        }
        self.told.log(log::Level::Debug, "process started", &[("pid", &pid)]);
        if let Some(Awaited::Spawn(responder)) = &mut self.awaited
            && let Some(responder) = responder.take()
        {
            responder.send(&Ok(SpawnResult { pid }));
        }
    }

    fn failed(&mut self, error: Error) {
        self.place = None;
        if self.started.is_some() {
            self.log_end(None);
        } else {
            metrics::not_started(self.told.kind);
            // (The message names the command.)
            let (number, code) = error.kind().wire();
            let why = code.map_or_else(|| number.to_string(), str::to_owned);
            self.told.log(log::Level::Info, "process not started", &[("why", &why)]);
        }
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

    fn has_room(&self) -> bool {
        self.lane.as_ref().is_none_or(Lane::has_room)
    }

    fn ended(&mut self, ending: &Ending) {
        self.log_end(Some(ending));
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
                    process_id: self.told.id.as_str().to_owned(),
                    seq: ending.seq,
                    exit_code,
                    signal,
                    output_held: ending.output_held,
                    stdout_bytes: ending.stdout_bytes,
                    stderr_bytes: ending.stderr_bytes,
                };
                let mut buffer = message(Vec::with_capacity(384));
                rpc::write_notification(&mut buffer, method::EXIT, &event);
                lane.send(buffer);
            }
            None => {}
        }
        self.lane = Some(lane);
    }

    fn gone(&mut self, remaining: Option<Arc<Group>>) {
        if let Some(place) = self.place.take() {
            place.leave(remaining);
        }
    }
}

impl HostSink {
    /// Once: the process has ended so, or with its connection.
    fn log_end(&mut self, ending: Option<&Ending>) {
        let Some(Started { pid, at, counted }) = self.started.take() else { return };
        let duration = at.elapsed().as_millis();
        let how = ending.map_or(How::Disconnected, how);
        let exit = match ending.map(Ending::code_and_signal) {
            Some((Some(code), _)) => code.to_string(),
            Some((None, Some(signal))) => signal,
            Some((None, None)) => "unknown".to_owned(),
            None => "disconnected".to_owned(),
        };
        counted.end(how);
        let (stdout, stderr) =
            ending.map_or((0, 0), |ending| (ending.stdout_bytes, ending.stderr_bytes));
        let mut fields: Vec<log::Field<'_>> =
            vec![("pid", &pid), ("exit", &exit), ("durationMs", &duration)];
        if ending.is_some() {
            fields.extend::<[log::Field<'_>; 2]>([
                ("stdoutBytes", &stdout),
                ("stderrBytes", &stderr),
            ]);
        }
        if how == How::TimedOut {
            fields.push(("timedOut", &true));
        }
        self.told.log(log::Level::Info, "process ended", &fields);
    }
}

fn how(ending: &Ending) -> How {
    match ending.status {
        _ if ending.timed_out => How::TimedOut,
        Some(Status::Exited(_)) => How::Exited,
        _ if ending.killed => How::Killed,
        _ => How::Signalled,
    }
}

impl Told {
    fn log(&self, level: log::Level, event: &str, more: &[log::Field<'_>]) {
        let (id, kind) = (self.id.as_str(), self.kind.name());
        let mut fields: Vec<log::Field<'_>> =
            vec![("connection", &self.connection), ("process", &id), ("kind", &kind)];
        fields.extend_from_slice(more);
        if let Some(line) = &self.line {
            fields.push(("command", line));
        }
        log::event(level, event, &fields);
    }
}
