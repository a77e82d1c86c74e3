//! Agents that come by HTTP: the Streamable HTTP transport, at `/mcp`.
//!
//! Each request has a connection of its own, which is closed after the answer. A call that wants to
//! hear of its progress is answered by a stream of events, all else by JSON. The server says nothing
//! that was not asked for, so there is no stream to listen to (GET is 405).

mod reply;
mod request;

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::message::is_spoken;
use super::server::{Peer, Server, Session};
use super::sessions::Sessions;
use crate::error::{Error, Result};
use crate::protocol::rpc::{self, Message};
use crate::threads;
use crate::transport::http::{Route, Token, is_bearer, read_head};
use reply::Reply;
use request::Request;

/// How long a body may take, and how long an agent may read nothing.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most connections at a time: each call has one.
const MOST_CONNECTIONS: usize = 128;
/// How often a stream that has nothing to say says so, for what stands in between.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Messages of one call that wait to be written.
const WAITING: usize = 16;
/// A pause when there are no descriptors left.
const RETRY: Duration = Duration::from_millis(250);

/// A server that listens.
pub(crate) struct Http {
    listener: TcpListener,
    server: Arc<Server>,
    token: Option<Token>,
    sessions: Sessions,
    connections: AtomicUsize,
}

impl Http {
    /// Listens.
    ///
    /// # Errors
    /// The address cannot be had.
    pub(crate) fn bind(
        address: SocketAddr,
        server: &Arc<Server>,
        token: Option<Token>,
    ) -> Result<Arc<Self>> {
        let listener = TcpListener::bind(address)
            .map_err(|error| Error::io(&error, format!("cannot listen on {address}")))?;
        let (sessions, connections) = (Sessions::default(), AtomicUsize::new(0));
        let server = Arc::clone(server);
        Ok(Arc::new(Self { listener, server, token, sessions, connections }))
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The socket has none.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves whoever comes, for as long as the program runs.
    pub(crate) fn run(self: &Arc<Self>) {
        loop {
            match self.listener.accept() {
                Ok((socket, _)) => self.accept(socket),
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                // Nothing tells when descriptors are given back.
                Err(_) => std::thread::sleep(RETRY),
            }
        }
    }

    /// Ends all that is under way.
    pub(crate) fn end(&self) {
        self.sessions.end();
    }

    fn accept(self: &Arc<Self>, socket: TcpStream) {
        let open = Open::new(self);
        if self.connections.load(Ordering::Relaxed) > MOST_CONNECTIONS {
            let _ = Reply::text(503, "too many connections at a time").write(&socket);
            return;
        }
        // Without a thread it is closed, which says enough.
        let _ = threads::run(move || {
            // (An agent that has left hears no more.)
            let _ = open.http.serve(&socket);
        });
    }

    fn serve(&self, socket: &TcpStream) -> io::Result<()> {
        socket.set_write_timeout(Some(PATIENCE))?;
        let _ = socket.set_nodelay(true);
        let head = match read_head(socket)? {
            Ok(head) => head,
            Err(Route::Answer { response, .. }) => {
                let mut socket = socket;
                return socket.write_all(response.as_bytes());
            }
            Err(Route::Upgrade { .. } | Route::Metrics) => return Ok(()),
        };
        match Request::parse(head) {
            Ok(request) => self.answer(socket, &request),
            Err(reply) => reply.write(socket),
        }
    }

    fn answer(&self, socket: &TcpStream, request: &Request) -> io::Result<()> {
        if let Err(reply) = self.admit(request) {
            return reply.write(socket);
        }
        match request.method.as_str() {
            "POST" => match request.body(socket)? {
                Ok(body) => self.post(socket, request, &body),
                Err(reply) => reply.write(socket),
            },
            "DELETE" => self.delete(request).write(socket),
            _ => {
                let text = "POST a message, or DELETE a session";
                Reply::text(405, text).with("Allow", "POST, DELETE").write(socket)
            }
        }
    }

    /// Whether a request is one for us, from somebody who may ask.
    fn admit(&self, request: &Request) -> Result<(), Reply> {
        if request.path != "/mcp" {
            return Err(Reply::text(404, "MCP is spoken at /mcp"));
        }
        if request.all("Origin").next().is_some() {
            return Err(Reply::text(403, "no web page may connect"));
        }
        if let Some(token) = &self.token
            && !is_bearer(token, request.all("Authorization"))
        {
            let reply = Reply::text(401, "a token is needed: Authorization: Bearer TOKEN");
            return Err(reply.with("WWW-Authenticate", "Bearer"));
        }
        if let Some(version) = request.one("MCP-Protocol-Version")
            && !is_spoken(version)
        {
            return Err(Reply::text(400, "this MCP-Protocol-Version is not spoken here"));
        }
        Ok(())
    }

    fn delete(&self, request: &Request) -> Reply {
        match request.one(SESSION) {
            None => Reply::text(400, "which session? (Mcp-Session-Id)"),
            Some(id) if self.sessions.remove(id) => Reply::empty(204),
            Some(_) => Reply::text(404, "there is no such session"),
        }
    }

    fn post(&self, socket: &TcpStream, request: &Request, body: &str) -> io::Result<()> {
        let wants_stream = match rpc::parse(body) {
            Ok(Message::Request { method, .. }) if method == "initialize" => {
                let Some((id, session)) = self.sessions.begin(&self.server) else {
                    return Reply::text(503, "too many sessions at a time").write(socket);
                };
                let answer = ask(&session, body, false);
                return respond(socket, &answer, Some(&id));
            }
            Ok(Message::Request { method, .. }) => {
                method == "tools/call" && body.contains("progressToken") && request.accepts_events()
            }
            Ok(_) => false,
            Err(invalid) => {
                let mut message = Vec::new();
                rpc::write_error(&mut message, invalid.id, &invalid.error);
                return Reply::json(400, message).write(socket);
            }
        };
        let Some(id) = request.one(SESSION) else {
            return Reply::text(400, "the Mcp-Session-Id of initialize is missing").write(socket);
        };
        let Some(session) = self.sessions.find(id) else {
            return Reply::text(404, "there is no such session: initialize a new one")
                .write(socket);
        };
        if !matches!(rpc::parse(body), Ok(Message::Request { .. })) {
            drop(ask(&session, body, false));
            return Reply::empty(202).write(socket);
        }
        let messages = ask(&session, body, wants_stream);
        if wants_stream { stream(socket, &messages) } else { respond(socket, &messages, None) }
    }
}

/// A connection among the open ones.
struct Open {
    http: Arc<Http>,
}

impl Open {
    fn new(http: &Arc<Http>) -> Self {
        http.connections.fetch_add(1, Ordering::Relaxed);
        Self { http: Arc::clone(http) }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.http.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

const SESSION: &str = "Mcp-Session-Id";

/// What comes of a request.
enum Said {
    Answer(Vec<u8>),
    Meanwhile(Vec<u8>),
}

/// Hands a message to the session. What it says comes through the channel, which ends with it.
fn ask(session: &Arc<Session>, body: &str, with_progress: bool) -> Receiver<Said> {
    let (sender, messages) = bounded(WAITING);
    let peer: Arc<dyn Peer> = Arc::new(Caller { sender, with_progress });
    session.take(body, &peer);
    messages
}

/// Who waits for the answer to one request.
struct Caller {
    sender: Sender<Said>,
    with_progress: bool,
}

impl Peer for Caller {
    fn answer(&self, message: Vec<u8>) {
        // (Who has left wants none.)
        let _ = self.sender.send(Said::Answer(message));
    }

    fn tell(&self, message: Vec<u8>) {
        if self.with_progress {
            let _ = self.sender.try_send(Said::Meanwhile(message));
        }
    }

    fn awaits_cancelled(&self) -> bool {
        true
    }
}

/// Answers by JSON.
fn respond(socket: &TcpStream, messages: &Receiver<Said>, session: Option<&str>) -> io::Result<()> {
    loop {
        match messages.recv() {
            Ok(Said::Answer(message)) => {
                let reply = Reply::json(200, message);
                return match session {
                    Some(id) => reply.with(SESSION, id).write(socket),
                    None => reply.write(socket),
                };
            }
            Ok(Said::Meanwhile(_)) => {}
            Err(_) => return Reply::text(500, "there is no answer").write(socket),
        }
    }
}

/// Answers by events, as they come.
fn stream(mut socket: &TcpStream, messages: &Receiver<Said>) -> io::Result<()> {
    socket.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n\
          Connection: close\r\n\r\n",
    )?;
    loop {
        let (message, is_last) = match messages.recv_timeout(KEEP_ALIVE) {
            Ok(Said::Meanwhile(message)) => (message, false),
            Ok(Said::Answer(message)) => (message, true),
            Err(RecvTimeoutError::Timeout) => {
                socket.write_all(b":\n\n")?;
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        socket.write_all(&[b"event: message\ndata: ", &message[..], b"\n\n"].concat())?;
        if is_last {
            return Ok(());
        }
    }
}
