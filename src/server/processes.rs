//! `process/*`: the processes of one connection, and the end of all that comes of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::registry::{Kind, Registry};
use super::responder::Responder;
use super::session::{bytes_and_eof, reply_with};
use super::sink::{Awaited, HostSink};
use crate::descendants::Scope;
use crate::environment::LocalExecEnvironment;
use crate::error::{Error, ErrorKind, Result};
use crate::log;
use crate::process::{self, Command, Order, Terms};
use crate::protocol::{
    AckParams, Empty, ExecParams, KillParams, KillResult, ProcessId, ResizeParams, SignalName,
    SpawnParams, WriteParams,
};
use crate::sys::pty::Size;
use crate::sys::signal;
use crate::transport::Outbox;

/// The processes of one connection.
pub(super) struct Processes {
    /// The connection's, for the log.
    number: u64,
    environment: Arc<LocalExecEnvironment>,
    outbox: Outbox,
    registry: Arc<Registry<Order>>,
    /// All that has come of them.
    scope: Arc<Scope>,
}

impl Processes {
    /// At most so many at a time.
    pub(super) fn new(
        number: u64,
        environment: &Arc<LocalExecEnvironment>,
        outbox: Outbox,
        most: usize,
    ) -> Self {
        let kind = Kind { most, one: "process", many: "processes", option: " (--max-processes)" };
        Self {
            number,
            environment: Arc::clone(environment),
            outbox,
            registry: Registry::new(kind),
            scope: Scope::new(),
        }
    }

    /// `process/exec`
    pub(super) fn exec(&self, params: ExecParams, responder: Responder) {
        let id = params.process_id.clone();
        self.start(id, self.environment.command_line(params), responder, Awaited::Exec);
    }

    /// `process/spawn`
    pub(super) fn spawn(&self, params: SpawnParams, responder: Responder) {
        let id = params.process_id.clone();
        let awaited = |responder| Awaited::Spawn(Some(responder));
        self.start(id, self.environment.program(params), responder, awaited);
    }

    fn start(
        &self,
        id: ProcessId,
        resolved: Result<(Command, Terms)>,
        responder: Responder,
        awaited: impl FnOnce(Responder) -> Awaited,
    ) {
        let ready = resolved.and_then(|resolved| Ok((resolved, self.registry.reserve(&id)?)));
        let ((command, terms), place) = match ready {
            Ok(ready) => ready,
            Err(error) => return responder.send::<()>(&Err(error)),
        };
        let number = place.number();
        let name = id.as_str().to_owned();
        let sink = HostSink::new(place, awaited(responder), &self.outbox, id, self.number);
        if let Some(mailbox) = process::start(&name, command, terms, self.scope.branch(), sink) {
            self.registry.enter(number, &mailbox);
        }
    }

    /// `process/write`
    pub(super) fn write(&self, params: WriteParams, responder: Responder) {
        let (bytes, eof) = match bytes_and_eof(params.chunk, params.eof) {
            Ok(write) => write,
            Err(error) => return responder.send::<()>(&Err(error)),
        };
        let id = &params.process_id;
        let reply = reply_with(responder, |()| Empty {});
        match self.registry.find(id) {
            Some(mailbox) => mailbox.give_write(bytes, eof, reply),
            None => reply(Err(unknown_process(id))),
        }
    }

    /// `process/kill`
    pub(super) fn kill(&self, params: &KillParams, responder: Responder) {
        let signal = match params.signal.as_ref().map_or(Ok(signal::KILL), number_of) {
            Ok(signal) => signal,
            Err(error) => return responder.send::<()>(&Err(error)),
        };
        let grace = params.grace_ms.map(Duration::from_millis);
        let reply = reply_with(responder, |running| KillResult { running });
        match self.registry.find(&params.process_id) {
            Some(mailbox) => mailbox.give(Order::Kill { signal, grace, reply }),
            None => reply(Ok(false)),
        }
    }

    /// `process/resize`
    pub(super) fn resize(&self, params: &ResizeParams, responder: Responder) {
        let size = Size { cols: params.cols.into(), rows: params.rows.into() };
        let reply = reply_with(responder, |()| Empty {});
        match self.registry.find(&params.process_id) {
            Some(mailbox) => mailbox.give(Order::Resize { size, reply }),
            None => reply(Err(unknown_process(&params.process_id))),
        }
    }

    /// `process/ack`
    pub(super) fn acknowledge(&self, params: &AckParams) {
        if let Some(mailbox) = self.registry.find(&params.process_id) {
            mailbox.acknowledge(params.bytes);
        }
    }

    /// Ends all that has come of them and waits until it is gone, or `deadline` has come. Answers
    /// how many were not gone by then.
    pub(super) fn end(&self, deadline: Instant) -> usize {
        let left = || deadline.saturating_duration_since(Instant::now());
        let groups = self.registry.begin_end();
        self.scope.end(&groups, left());
        let mut stuck = self.registry.wait_gone(left());
        // Once more: something may have been about to be started, and have got a child of its own
        // out of its group before it was killed. Nothing is being started any more.
        stuck += self.scope.end(&[], left());
        if stuck > 0 {
            log::warn("processes not gone", &[("connection", &self.number), ("count", &stuck)]);
        }
        stuck
    }
}

fn number_of(signal: &SignalName) -> Result<i32> {
    let (number, shown) = match signal {
        SignalName::Name(name) => (signal::by_name(name), format!("{name:?}")),
        SignalName::Number(number) => (signal::by_number(*number), number.to_string()),
    };
    number.ok_or_else(|| Error::params(format!("signal: there is no signal {shown}")))
}

fn unknown_process(id: &impl AsRef<str>) -> Error {
    let message = format!("no process with the id {:?} is running", id.as_ref());
    Error::new(ErrorKind::UnknownProcess, message)
}
