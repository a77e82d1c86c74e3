//! What one connection can ask for: each message is read into a type here and handed on. The
//! thread that runs this never waits for a child, a disk or a name server.

mod ask;
mod epoch;
#[cfg(test)]
mod fault;

pub(super) use ask::{Ask, bytes_and_eof, reply_with, with, with_content};

use std::cell::{Cell, OnceCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;

use super::Config;
use super::epochs::{Fence, Member};
use super::files::Files;
use super::live::Live;
use super::net::Connections;
use super::processes::Processes;
use super::responder::{InFlight, Responder, Waits};
use crate::environment::Machine;
use crate::error::{Error, ErrorKind};
use crate::process::Order;
use crate::protocol::lifted;
use crate::protocol::rpc::{self, Message};
use crate::protocol::{Empty, FindParams, GrepParams, KillParams, KillResult, ProcessId, method};
use crate::registry::Place;
use crate::transport::{End, Event, Outbox, Source, message};

/// How long a peer that has said its last word may take nothing of what it is answered.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the end of a connection waits for its processes to be gone.
const ENDING: Duration = Duration::from_secs(3);

/// What a host is told that something older keeps from being answered (1013: try again later).
const UNSETTLED: End = End::Offence(1013, "something of an older host cannot be ended");

/// One connection's requests.
pub(crate) struct Session {
    number: u64,
    fence: Arc<Fence>,
    /// Once it has an epoch, until nothing of it has an effect any more.
    member: OnceCell<Member>,
    /// Something of an older host is stuck: this one is never answered.
    unsettled: Cell<bool>,
    /// All has been done for its end that can be done at once.
    stopped: Cell<bool>,
    config: Arc<Config>,
    environment: Arc<Machine>,
    outbox: Outbox,
    in_flight: InFlight,
    processes: Processes,
    connections: Connections,
    files: Files,
    _live: Live,
}

impl Session {
    /// Of a connection that is behind `fence`, and has its epoch already if it is a `member`.
    pub(crate) fn new(
        config: &Arc<Config>,
        environment: &Arc<Machine>,
        outbox: Outbox,
        fence: Arc<Fence>,
        member: Option<Member>,
    ) -> Self {
        let number = fence.number();
        let most = config.max_processes;
        Self {
            number,
            processes: Processes::new(number, environment, outbox.clone(), most),
            connections: Connections::new(number, outbox.clone()),
            config: Arc::clone(config),
            environment: Arc::clone(environment),
            files: Files::new(environment, config.max_message_bytes, &fence),
            outbox,
            in_flight: InFlight::new(&fence, rpc::write_error),
            _live: Live::new(),
            member: member.map_or_else(OnceCell::new, OnceCell::from),
            unsettled: Cell::new(false),
            stopped: Cell::new(false),
            fence,
        }
    }

    /// Serves until the connection ends, and ends all that it has started. What a peer has asked
    /// of files before it closed the connection is done, unless `hurry` says that there is no time.
    /// Where a newer host waits for that end, it is seen to the last of it here.
    pub(crate) fn run(self, source: &mut dyn Source, hurry: &dyn Fn() -> bool) -> Ended {
        let mut end = self.serve(source, hurry);
        let hurried = || hurry() || self.fence.is_down();
        let awaits_answers = self.outbox.has_answers() || !self.files.are_idle();
        if self.is_dismissed() {
            end = End::Fenced;
            self.answer_as_fenced();
        }
        let processes_are_gone = self.end_all();
        // (What processes have written is nobody's concern any more.)
        if end == End::Closed && awaits_answers {
            self.files.finish(&self.outbox, &hurried);
            self.outbox.drain(PATIENCE, &hurried);
        }
        self.files.stop();
        self.answer_as_fenced();
        self.stopped.set(true);
        if let Some(member) = self.member.get() {
            // Until the opposite is shown.
            member.stay();
            if processes_are_gone && self.fence.gate().finish(Duration::ZERO) {
                member.may_leave();
            } else if self.fence.is_down() {
                self.see_to_the_end(hurry);
            } else {
                // (Nobody waits for that yet.)
                return Ended { end, lingering: Some(self) };
            }
        }
        Ended { end, lingering: None }
    }

    fn serve(&self, source: &mut dyn Source, hurry: &dyn Fn() -> bool) -> End {
        if let Some(member) = self.member.get()
            && let Err(end) = self.settle(member, hurry)
        {
            return end;
        }
        loop {
            if self.is_dismissed() {
                return End::Fenced;
            }
            let event = source.next();
            // The fence may have come down meanwhile, and the socket still gives out what had come.
            if self.is_dismissed() {
                return End::Fenced;
            }
            match event {
                Event::Message(text) => self.receive(text, hurry),
                Event::TooLong => self.refuse(&self.config.too_long()),
                Event::NotText(why) => {
                    self.refuse(&Error::new(ErrorKind::Parse, format!("not UTF-8: {why}")));
                }
                Event::End(end) => return end,
            }
            if self.unsettled.get() {
                return UNSETTLED;
            }
            // A peer that sends and does not read is heard again when it has read.
            if !self.outbox.throttle(self.config.peer_timeout) {
                return End::does_not_read();
            }
        }
    }

    /// Answers a message that has no id of its own.
    fn refuse(&self, error: &Error) {
        self.reject(None, error);
    }

    fn reject(&self, id: Option<&RawValue>, error: &Error) {
        let mut buffer = message(Vec::with_capacity(256));
        rpc::write_error(&mut buffer, id, error);
        self.outbox.control(buffer);
    }

    fn receive(&self, text: &str, hurry: &dyn Fn() -> bool) {
        match lifted::lift_request(text, lifted::member_of) {
            Some((rest, bytes)) => self.take(&rest, Some(bytes), hurry),
            None => self.take(text, None, hurry),
        }
    }

    /// Takes a message, and what was lifted out of it.
    fn take(&self, text: &str, lifted: Option<Vec<u8>>, hurry: &dyn Fn() -> bool) {
        match rpc::parse(text) {
            Ok(Message::Request { id, method, params }) => {
                if let Some(error) = self.refusal(&method) {
                    return self.reject(Some(id), &error);
                }
                match self.in_flight.begin(id, waits(&method), &self.outbox) {
                    Ok(responder) if method == method::INITIALIZE => {
                        let ask = Ask { params, lifted, responder };
                        with(ask, |params, responder| self.initialize(params, responder, hurry));
                    }
                    Ok(responder) => self.request(&method, Ask { params, lifted, responder }),
                    Err(error) => self.reject(Some(id), &error),
                }
            }
            Ok(Message::Notification { method, params }) => self.notification(&method, params),
            Ok(Message::Response { .. }) => {}
            Err(invalid) => self.reject(invalid.id, &invalid.error),
        }
    }

    /// All that there is to ask for.
    fn request(&self, method: &str, ask: Ask<'_>) {
        let Self { processes, connections: net, files, .. } = self;
        match method {
            method::PING => with(ask, |Empty {}, r| r.send(&Ok(Empty {}))),
            method::EXEC => with(ask, |p, r| processes.exec(p, r)),
            method::SPAWN => with(ask, |p, r| processes.spawn(p, r)),
            method::WRITE => with_content(ask, |p, r| processes.write(p, r)),
            method::KILL => with(ask, |p, r| self.kill(&p, r)),
            method::RESIZE => with(ask, |p, r| processes.resize(&p, r)),
            method::ACK => with(ask, |p, r| {
                processes.acknowledge(&p);
                r.send(&Ok(Empty {}));
            }),
            method::CONNECT => with(ask, |p, r| net.connect(p, self.environment.cwd(), r)),
            method::NET_WRITE => with_content(ask, |p, r| net.write(p, r)),
            method::CLOSE => with(ask, |p, r| net.close(&p, r)),
            method::NET_ACK => with(ask, |p, r| {
                net.acknowledge(&p);
                r.send(&Ok(Empty {}));
            }),
            method::READ_FILE => with(ask, |p, r| files.read_file(&p, r)),
            method::WRITE_FILE => with_content(ask, |p, r| files.write_file(p, r)),
            method::STAT => with(ask, |p, r| files.stat(&p, r)),
            method::READDIR => with(ask, |p, r| files.readdir(&p, r)),
            method::MKDIR => with(ask, |p, r| files.mkdir(&p, r)),
            method::REMOVE => with(ask, |p, r| files.remove(&p, r)),
            method::RENAME => with(ask, |p, r| files.rename(&p, r)),
            method::COPY => with(ask, |p, r| files.copy(&p, r)),
            method::REALPATH => with(ask, |p, r| files.realpath(&p, r)),
            method::FIND => with(ask, |p: FindParams, r| {
                self.search(p.process_id.clone(), r, |r, place| files.find(p, r, place));
            }),
            method::GREP => with(ask, |p: GrepParams, r| {
                self.search(p.process_id.clone(), r, |r, place| files.grep(p, r, place));
            }),
            _ => ask.responder.send::<()>(&Err(Error::new(
                ErrorKind::MethodNotFound,
                format!("there is no method {method:?}"),
            ))),
        }
    }

    /// A search has its id among the processes, if it has one.
    fn search(
        &self,
        id: Option<ProcessId>,
        responder: Responder,
        begin: impl FnOnce(Responder, Option<Place<Order>>),
    ) {
        match id.map(|id| self.processes.reserve(&id)).transpose() {
            Ok(place) => begin(responder, place),
            Err(error) => responder.send::<()>(&Err(error)),
        }
    }

    fn kill(&self, params: &KillParams, responder: Responder) {
        if self.files.end_search(&params.process_id) {
            return responder.send(&Ok(KillResult { running: true }));
        }
        self.processes.kill(params, responder);
    }

    /// A request without an id runs nothing; an unknown notification is ignored.
    fn notification(&self, method: &str, params: Option<&RawValue>) {
        match method {
            method::ACK => {
                let _ = rpc::params(params).map(|params| self.processes.acknowledge(&params));
            }
            method::NET_ACK => {
                let _ = rpc::params(params).map(|params| self.connections.acknowledge(&params));
            }
            _ => {}
        }
    }

    /// Ends its processes and connections. `false` where some are not gone.
    fn end_all(&self) -> bool {
        let deadline = Instant::now() + ENDING;
        self.connections.begin_end(self.fence.is_down());
        let stuck = self.processes.end(deadline);
        let left = deadline.saturating_duration_since(Instant::now());
        self.connections.wait_gone(left) == 0 && stuck == 0
    }
}

/// What a request may have to wait for.
fn waits(method: &str) -> Waits {
    match method {
        method::EXEC | method::SPAWN | method::WRITE => Waits::ForAnything,
        method::CONNECT | method::NET_WRITE => Waits::ForAnything,
        method::KILL | method::RESIZE | method::CLOSE => Waits::ForItsTarget,
        _ if method.starts_with(method::FILES) => Waits::ForAnything,
        _ => Waits::Never,
    }
}

/// Whatever it has started ends with it, also when a fault has ended the thread.
impl Drop for Session {
    fn drop(&mut self) {
        if self.stopped.get() {
            return;
        }
        let are_gone = self.end_all();
        self.files.stop();
        if !are_gone || !self.fence.gate().finish(Duration::ZERO) {
            self.member.get().into_iter().for_each(Member::stay);
            // A newer host would wait for it in vain for ever. (Over stdio there is none, and the
            // program is to exit.)
            self.see_to_the_end(&|| self.outbox.is_stdio());
        }
    }
}

/// How a session has ended.
pub(crate) struct Ended {
    pub(crate) end: End,
    /// Where something of it may still have an effect, and a newer host would have to wait for
    /// that.
    pub(crate) lingering: Option<Session>,
}
