//! `process/*`: the processes of one connection, and the end of all that comes of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::account::Told;
use super::responder::Responder;
use super::session::{bytes_and_eof, reply_with};
use super::sink::{Awaited, HostSink};
use crate::environment::Machine;
use crate::error::Result;
use crate::log;
use crate::metrics::{self, Kind};
use crate::process::{Command, Family, Order, Terms, number_of};
use crate::protocol::{
    AckParams, Empty, ExecParams, KillParams, KillResult, ProcessId, ResizeParams, SpawnParams,
    WriteParams,
};
use crate::registry::Place;
use crate::sys::pty::Size;
use crate::sys::signal;
use crate::transport::Outbox;

/// The processes of one connection.
pub(super) struct Processes {
    /// The connection's, for the log.
    number: u64,
    environment: Arc<Machine>,
    outbox: Outbox,
    family: Family,
}

impl Processes {
    /// At most so many at a time.
    pub(super) fn new(
        number: u64,
        environment: &Arc<Machine>,
        outbox: Outbox,
        most: usize,
    ) -> Self {
        let environment = Arc::clone(environment);
        Self { number, environment, outbox, family: Family::new(most) }
    }

    /// `process/exec`
    pub(super) fn exec(&self, params: ExecParams, responder: Responder) {
        let id = params.process_id.clone();
        let resolved = self.environment.command_line(params);
        self.start(Kind::Exec, &id, resolved, responder, Awaited::Exec);
    }

    /// `process/spawn`
    pub(super) fn spawn(&self, params: SpawnParams, responder: Responder) {
        let id = params.process_id.clone();
        let awaited = |responder| Awaited::Spawn(Some(responder));
        let resolved = self.environment.program(params);
        self.start(Kind::Spawn, &id, resolved, responder, awaited);
    }

    fn start(
        &self,
        kind: Kind,
        id: &ProcessId,
        resolved: Result<(Command, Terms)>,
        responder: Responder,
        awaited: impl FnOnce(Responder) -> Awaited,
    ) {
        let ready = resolved.and_then(|resolved| Ok((resolved, self.family.reserve(id)?)));
        let ((command, terms), place) = match ready {
            Ok(ready) => ready,
            Err(error) => {
                metrics::not_started(kind);
                return responder.send::<()>(&Err(error));
            }
        };
        let line = log::shows_commands().then(|| command.line());
        let number = place.number();
        let told = Told { connection: self.number, id: id.clone(), kind, line };
        let sink = HostSink::new(place, awaited(responder), &self.outbox, told);
        self.family.start(number, id, command, terms, sink);
    }

    /// Takes an id for something that is no process.
    ///
    /// # Errors
    /// It is in use, or there is no room.
    pub(super) fn reserve(&self, id: &ProcessId) -> Result<Place<Order>> {
        self.family.reserve(id)
    }

    /// `process/write`
    pub(super) fn write(&self, params: WriteParams, responder: Responder) {
        let (bytes, eof) = match bytes_and_eof(params.chunk, params.eof) {
            Ok(write) => write,
            Err(error) => return responder.send::<()>(&Err(error)),
        };
        let reply = reply_with(responder, |()| Empty {});
        self.family.write(&params.process_id, bytes, eof, reply);
    }

    /// `process/kill`
    pub(super) fn kill(&self, params: &KillParams, responder: Responder) {
        let signal = match params.signal.as_ref().map_or(Ok(signal::KILL), number_of) {
            Ok(signal) => signal,
            Err(error) => return responder.send::<()>(&Err(error)),
        };
        let grace = params.grace_ms.map(Duration::from_millis);
        let reply = reply_with(responder, |running| KillResult { running });
        self.family.kill(&params.process_id, signal, grace, reply);
    }

    /// `process/resize`
    pub(super) fn resize(&self, params: &ResizeParams, responder: Responder) {
        let size = Size { cols: params.cols.into(), rows: params.rows.into() };
        let reply = reply_with(responder, |()| Empty {});
        self.family.resize(&params.process_id, size, reply);
    }

    /// `process/ack`
    pub(super) fn acknowledge(&self, params: &AckParams) {
        self.family.acknowledge(&params.process_id, params.bytes);
    }

    /// Ends all that has come of them and waits until it is gone, or `deadline` has come. Answers
    /// how many were not gone by then.
    pub(super) fn end(&self, deadline: Instant) -> usize {
        let stuck = self.family.end(deadline);
        if stuck > 0 {
            log::warn("processes not gone", &[("connection", &self.number), ("count", &stuck)]);
        }
        stuck
    }
}
