//! What one connection can ask for: each message is read into a type here and handed on. The
//! thread that runs this never waits for a child, a disk or a name server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::live::Live;
use super::net::Connections;
use super::registry::{Kind, Registry};
use super::responder::{InFlight, Responder};
use super::sink::{Awaited, HostSink};
use super::{Config, describe};
use crate::buffers;
use crate::environment::LocalExecEnvironment;
use crate::error::{Error, ErrorKind, Result};
use crate::log;
use crate::mailbox::Reply;
use crate::process::{self, Command, Order, Terms};
use crate::protocol::chunk;
use crate::protocol::decode_onto;
use crate::protocol::rpc::{self, Message};
use crate::protocol::{
    AckParams, Base64, Empty, ExecParams, InitializeParams, InitializeResult, KillParams,
    KillResult, ProcessId, ResizeParams, SignalName, SpawnParams, WriteParams, method,
};
use crate::sys::pty::Size;
use crate::sys::signal;
use crate::transport::{End, Event, Outbox, Source, message};

/// How long the end of a connection waits for its processes to be gone.
const ENDING: Duration = Duration::from_secs(3);

/// One connection's requests.
pub(crate) struct Session {
    number: u64,
    config: Arc<Config>,
    environment: Arc<LocalExecEnvironment>,
    outbox: Outbox,
    in_flight: InFlight,
    registry: Arc<Registry<Order>>,
    connections: Connections,
    _live: Live,
}

impl Session {
    pub(crate) fn new(
        config: &Arc<Config>,
        environment: &Arc<LocalExecEnvironment>,
        outbox: Outbox,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let processes = Kind {
            most: config.max_processes,
            one: "process",
            many: "processes",
            option: " (--max-processes)",
        };
        Self {
            number,
            connections: Connections::new(number, outbox.clone()),
            config: Arc::clone(config),
            environment: Arc::clone(environment),
            outbox,
            in_flight: InFlight::default(),
            registry: Registry::new(processes),
            _live: Live::new(),
        }
    }

    /// Its number, for the log.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Serves until the connection ends, and ends all that it has started.
    pub(crate) fn run(self, source: &mut dyn Source) -> End {
        loop {
            match source.next() {
                Event::Message(text) => self.receive(text),
                Event::TooLong => self.refuse(&Error::new(
                    ErrorKind::InvalidRequest,
                    format!(
                        "the message is longer than {} bytes (--max-message-bytes)",
                        self.config.max_message_bytes
                    ),
                )),
                Event::NotText(why) => {
                    self.refuse(&Error::new(ErrorKind::Parse, format!("not UTF-8: {why}")));
                }
                Event::End(end) => return end,
            }
            // A peer that sends and does not read is heard again when it has read.
            if !self.outbox.throttle(self.config.peer_timeout) {
                return End::Lost("the peer does not read".to_owned());
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

    fn receive(&self, text: &str) {
        if let Some(write) = chunk::parse_write(text) {
            let mut bytes = buffers::of(write.chunk.len());
            if decode_onto(write.chunk, &mut bytes) {
                return self.receive_write(&write, bytes);
            }
        }
        match rpc::parse(text) {
            Ok(Message::Request { id, method, params }) => {
                let may_wait = matches!(
                    &*method,
                    method::EXEC
                        | method::SPAWN
                        | method::WRITE
                        | method::CONNECT
                        | method::NET_WRITE
                );
                match self.in_flight.begin(id, may_wait, &self.outbox) {
                    Ok(responder) => self.request(&method, params, responder),
                    Err(error) => self.reject(Some(id), &error),
                }
            }
            Ok(Message::Notification { method, params }) => self.notification(&method, params),
            Ok(Message::Response { .. }) => {}
            Err(invalid) => self.reject(invalid.id, &invalid.error),
        }
    }

    /// The hot path of what a host sends.
    fn receive_write(&self, write: &chunk::Write<'_>, bytes: Vec<u8>) {
        match self.in_flight.begin(write.id, true, &self.outbox) {
            Err(error) => self.reject(Some(write.id), &error),
            Ok(responder) if write.method == method::NET_WRITE => {
                self.connections.give_write(&write.target, bytes, write.eof, responder);
            }
            Ok(responder) => self.give_write(&write.target, bytes, write.eof, responder),
        }
    }

    /// All that there is to ask for.
    fn request(&self, method: &str, params: Option<&RawValue>, responder: Responder) {
        match method {
            method::INITIALIZE => with(params, responder, |p, r| r.send(&Ok(self.initialize(p)))),
            method::PING => with(params, responder, |Empty {}, r| r.send(&Ok(Empty {}))),
            method::EXEC => with(params, responder, |p, r| self.exec(p, r)),
            method::SPAWN => with(params, responder, |p, r| self.spawn(p, r)),
            method::WRITE => with(params, responder, |p, r| self.write(p, r)),
            method::KILL => with(params, responder, |p, r| self.kill(&p, r)),
            method::RESIZE => with(params, responder, |p, r| self.resize(&p, r)),
            method::ACK => with(params, responder, |p, r| {
                self.acknowledge(&p);
                r.send(&Ok(Empty {}));
            }),
            method::CONNECT => with(params, responder, |p, r| {
                self.connections.connect(p, self.environment.cwd(), r);
            }),
            method::NET_WRITE => with(params, responder, |p, r| self.connections.write(p, r)),
            method::CLOSE => with(params, responder, |p, r| self.connections.close(&p, r)),
            method::NET_ACK => with(params, responder, |p, r| {
                self.connections.acknowledge(&p);
                r.send(&Ok(Empty {}));
            }),
            _ => responder.send::<()>(&Err(Error::new(
                ErrorKind::MethodNotFound,
                format!("there is no method {method:?}"),
            ))),
        }
    }

    /// A request without an id runs nothing; an unknown notification is ignored.
    fn notification(&self, method: &str, params: Option<&RawValue>) {
        match method {
            method::ACK => {
                let _ = rpc::params(params).map(|params| self.acknowledge(&params));
            }
            method::NET_ACK => {
                let _ = rpc::params(params).map(|params| self.connections.acknowledge(&params));
            }
            _ => {}
        }
    }

    fn initialize(&self, params: InitializeParams) -> InitializeResult {
        let name = params.client_name.unwrap_or_default();
        let version = params.client_version.unwrap_or_default();
        let fields: &[log::Field<'_>] =
            &[("connection", &self.number), ("client", &name), ("version", &version)];
        log::info("initialized", fields);
        describe(&self.config, &self.environment)
    }

    fn exec(&self, params: ExecParams, responder: Responder) {
        let id = params.process_id.clone();
        self.start(id, self.environment.command_line(params), responder, Awaited::Exec);
    }

    fn spawn(&self, params: SpawnParams, responder: Responder) {
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
        if let Some(mailbox) = process::start(&name, command, terms, sink) {
            self.registry.enter(number, &mailbox);
        }
    }

    fn write(&self, params: WriteParams, responder: Responder) {
        let (bytes, eof) = match bytes_and_eof(params.chunk, params.eof) {
            Ok(write) => write,
            Err(error) => return responder.send::<()>(&Err(error)),
        };
        self.give_write(&params.process_id, bytes, eof, responder);
    }

    fn give_write(&self, id: &impl AsRef<str>, bytes: Vec<u8>, eof: bool, responder: Responder) {
        let reply = reply_with(responder, |()| Empty {});
        match self.registry.find(id) {
            Some(mailbox) => mailbox.give_write(bytes, eof, reply),
            None => reply(Err(unknown_process(id))),
        }
    }

    fn kill(&self, params: &KillParams, responder: Responder) {
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

    fn resize(&self, params: &ResizeParams, responder: Responder) {
        let size = Size { cols: params.cols.into(), rows: params.rows.into() };
        let reply = reply_with(responder, |()| Empty {});
        match self.registry.find(&params.process_id) {
            Some(mailbox) => mailbox.give(Order::Resize { size, reply }),
            None => reply(Err(unknown_process(&params.process_id))),
        }
    }

    fn acknowledge(&self, params: &AckParams) {
        if let Some(mailbox) = self.registry.find(&params.process_id) {
            mailbox.acknowledge(params.bytes);
        }
    }
}

/// Whatever it has started ends with it, also when a fault has ended the thread.
impl Drop for Session {
    fn drop(&mut self) {
        let deadline = Instant::now() + ENDING;
        self.connections.begin_end();
        let stuck = self.registry.end_all(ENDING);
        if stuck > 0 {
            log::warn("processes not gone", &[("connection", &self.number), ("count", &stuck)]);
        }
        self.connections.end_all(deadline.saturating_duration_since(Instant::now()));
    }
}

/// Reads the params and goes on, or answers what is wrong with them.
fn with<'a, P: Deserialize<'a>>(
    params: Option<&'a RawValue>,
    responder: Responder,
    go_on: impl FnOnce(P, Responder),
) {
    match rpc::params(params) {
        Ok(params) => go_on(params, responder),
        Err(error) => responder.send::<()>(&Err(error)),
    }
}

/// What a write carries.
pub(super) fn bytes_and_eof(chunk: Option<Base64>, eof: Option<bool>) -> Result<(Vec<u8>, bool)> {
    let eof = eof.unwrap_or(false);
    match chunk {
        Some(chunk) => Ok((chunk.0, eof)),
        None if eof => Ok((Vec::new(), eof)),
        None => Err(Error::params("chunk: missing, and eof is not true")),
    }
}

pub(super) fn reply_with<T, R: Serialize>(
    responder: Responder,
    result: impl FnOnce(T) -> R + Send + 'static,
) -> Reply<T> {
    Box::new(move |outcome| responder.send(&outcome.map(result)))
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
