//! `net/*`: the TCP and Unix connections of one connection, and their events on their way to the
//! host.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use super::responder::Responder;
use super::session::{bytes_and_eof, reply_with};
use crate::buffers;
use crate::error::{Error, ErrorKind};
use crate::log;
use crate::net::{self, Closer, Counts, Endpoint, Remains, Sink, Terms};
use crate::protocol::chunk::ChunkTemplate;
use crate::protocol::rpc;
use crate::protocol::{
    Base64, CloseParams, CloseResult, ClosedEvent, ConnectParams, ConnectResult, ConnectionId,
    DataEvent, Empty, NetAckParams, NetWriteParams, Target, WirePath, method,
};
use crate::registry::{Kind, Place, Registry};
use crate::sys::poll::Waker;
use crate::transport::{Lane, Outbox, message};

/// The most connections of one host: each has a thread and two descriptors. A browser behind a
/// forwarded port opens some dozens.
const MOST: usize = 1024;
/// How long a connection may take to be made where nothing else is said.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The connections of one host.
pub(super) struct Connections {
    /// The host's own, for the log.
    number: u64,
    outbox: Outbox,
    registry: Arc<Registry<Order>>,
    counts: Arc<Counts>,
}

type Order = net::Order<Responder>;

impl Connections {
    pub(super) fn new(number: u64, outbox: Outbox) -> Self {
        let kind = Kind { most: MOST, one: "connection", many: "connections", option: "" };
        Self { number, outbox, registry: Registry::new(kind), counts: Arc::default() }
    }

    /// `net/connect`; a relative path is relative to `cwd`.
    pub(super) fn connect(&self, params: ConnectParams, cwd: &Path, responder: Responder) {
        let id = params.connection_id;
        let endpoint = match params.target {
            Target::Tcp { host, port } => Endpoint::Tcp { host, port: port.into() },
            Target::Unix(path) => Endpoint::Unix(cwd.join(path.as_path())),
        };
        let terms = Terms {
            timeout: params.timeout_ms.map_or(TIMEOUT, |ms| Duration::from_millis(ms.into())),
            window: params.window.map(Into::into),
            counts: Arc::clone(&self.counts),
        };
        let place = match self.registry.reserve(&id) {
            Ok(place) => place,
            Err(error) => return responder.send::<()>(&Err(error)),
        };
        let number = place.number();
        let name = id.as_str().to_owned();
        let sink = HostSink {
            place: Some(place),
            responder: Some(responder),
            lane: self.outbox.lane(),
            template: ChunkTemplate::of_connection(id.as_str()),
            id,
            connection: self.number,
            received: 0,
            last_word: None,
        };
        if let Some(mailbox) = net::start(&name, endpoint, terms, sink) {
            self.registry.enter(number, &mailbox);
        }
    }

    /// `net/write`
    pub(super) fn write(&self, params: NetWriteParams, responder: Responder) {
        let (bytes, eof) = match bytes_and_eof(params.chunk, params.eof) {
            Ok(write) => write,
            Err(error) => return responder.send::<()>(&Err(error)),
        };
        let id = &params.connection_id;
        let reply = reply_with(responder, |()| Empty {});
        match self.registry.find(id) {
            Some(mailbox) => mailbox.give_write(bytes, eof, reply),
            None => reply(Err(unknown(id))),
        }
    }

    /// `net/close`
    pub(super) fn close(&self, params: &CloseParams, responder: Responder) {
        match self.registry.find(&params.connection_id) {
            Some(mailbox) => mailbox.give(Order::Close(responder)),
            None => responder.too_late(),
        }
    }

    /// `net/ack`
    pub(super) fn acknowledge(&self, params: &NetAckParams) {
        if let Some(mailbox) = self.registry.find(&params.connection_id) {
            mailbox.acknowledge(params.bytes);
        }
    }

    /// Closes them all, without waiting for that. Where a newer host waits for it, they are reset.
    pub(super) fn begin_end(&self, is_fenced: bool) {
        if is_fenced {
            self.counts.fence();
        }
        self.registry.begin_end();
    }

    /// Waits until they are gone, or `timeout` has passed. Answers how many were not gone by then.
    pub(super) fn wait_gone(&self, timeout: Duration) -> usize {
        let stuck = self.registry.wait_gone(timeout);
        if stuck > 0 {
            let fields: &[log::Field<'_>] = &[("connection", &self.number), ("count", &stuck)];
            log::warn("connections not gone", fields);
        }
        stuck
    }
}

fn unknown(id: &impl AsRef<str>) -> Error {
    let message = format!("no connection with the id {:?} is open", id.as_ref());
    Error::new(ErrorKind::UnknownConnection, message)
}

impl Closer for Responder {
    /// After the last word about a connection of that name, which may be on its way.
    fn too_late(self) {
        self.send_last(&Ok(CloseResult { closed: false }));
    }
}

/// Sends a connection's events to the host.
struct HostSink {
    place: Option<Place<Order>>,
    /// Of `net/connect`, until it is answered.
    responder: Option<Responder>,
    lane: Lane,
    template: ChunkTemplate,
    id: ConnectionId,
    connection: u64,
    received: u64,
    /// `net/closed`, until it is on its way.
    last_word: Option<Vec<u8>>,
}

impl HostSink {
    fn log(&self, event: &str, (name, value): log::Field<'_>) {
        let id = self.id.as_str();
        let fields: &[log::Field<'_>] = &[
            ("connection", &self.connection),
            ("id", &id),
            (name, value),
            ("bytesReceived", &self.received),
        ];
        log::debug(event, fields);
    }

    fn notify(&mut self, method: &str, params: &impl serde::Serialize) {
        let mut buffer = message(Vec::with_capacity(256));
        rpc::write_notification(&mut buffer, method, params);
        self.lane.send(buffer);
    }
}

impl Sink for HostSink {
    type Closer = Responder;

    fn connected(&mut self, remote: WirePath) {
        self.log("connection made", ("remote", &remote.as_path().display()));
        if let Some(responder) = self.responder.take() {
            responder.send(&Ok(ConnectResult { remote_address: remote }));
        }
    }

    fn failed(&mut self, error: Error, closers: Vec<Responder>, remains: Remains) {
        self.log("connection not made", ("why", &error));
        if let Some(place) = &mut self.place {
            place.release_id();
        }
        if remains == Remains::Nothing {
            self.place = None;
        }
        if let Some(responder) = self.responder.take() {
            responder.send::<()>(&Err(error));
        }
        for closer in closers {
            closer.send(&Ok(CloseResult { closed: true }));
        }
    }

    fn data(&mut self, chunk: &[u8]) {
        self.received += chunk.len() as u64;
        let mut buffer = message(buffers::for_chunk(chunk.len()));
        self.template.write_data(&mut buffer, chunk);
        self.lane.send(buffer);
    }

    fn end_of_data(&mut self) {
        let connection_id = self.id.as_str().to_owned();
        let chunk = Base64::default();
        self.notify(method::DATA, &DataEvent { connection_id, chunk, eof: Some(true) });
    }

    fn ready(&mut self, waker: &Arc<Waker>) -> bool {
        self.lane.ready(waker)
    }

    fn closed(&mut self, failure: Option<Error>) {
        match &failure {
            Some(error) => self.log("connection closed", ("why", error)),
            None => self.log("connection closed", ("why", &"both are done, or the host is")),
        }
        let connection_id = self.id.as_str().to_owned();
        let error = failure.as_ref().and_then(error_object);
        let mut buffer = message(Vec::with_capacity(256));
        rpc::write_notification(&mut buffer, method::CLOSED, &ClosedEvent { connection_id, error });
        self.last_word = Some(buffer);
    }

    fn tell_closed(&mut self, waker: &Arc<Waker>) -> bool {
        let (Some(place), Some(last_word)) = (self.place.take(), self.last_word.take()) else {
            return true;
        };
        let mut refused = None;
        let given_up = place.give_up_when(|| {
            refused = self.lane.offer(last_word, waker).err();
            refused.is_none()
        });
        // Who connects and connects and does not read comes to the limit.
        self.place = given_up.err();
        self.last_word = refused;
        self.last_word.is_none()
    }

    fn forgotten(&mut self, closers: Vec<Responder>) {
        for closer in closers {
            closer.send_after_output(&Ok(CloseResult { closed: true }), &mut self.lane);
        }
    }
}

fn error_object(error: &Error) -> Option<Box<RawValue>> {
    let mut buffer = Vec::new();
    rpc::write_error_object(&mut buffer, error);
    RawValue::from_string(String::from_utf8(buffer).ok()?).ok()
}
