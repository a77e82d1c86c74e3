//! Connections from their first byte to their last.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tungstenite::protocol::Role;

use super::Config;
use super::session::Session;
use crate::environment::LocalExecEnvironment;
use crate::error::{Error, ErrorKind, Result};
use crate::log;
use crate::sync::lock;
use crate::sys;
use crate::sys::poll::{Interest, Waker, wait_for};
use crate::transport::http::{self, Route};
use crate::transport::stdio::LineSource;
use crate::transport::{End, Framing, Outbox, Patience, SharedSocket, ws};

/// A connection's stack. A thread that waits has touched two or three pages of it.
const STACK: usize = 256 * 1024;
/// How long the last frame may take to be written.
const FAREWELL: Duration = Duration::from_secs(1);
/// How long a stopping server waits for its connections.
const STOPPING: Duration = Duration::from_secs(4);
/// Connections that have not been admitted yet, on top of the limit: probes must get through.
const UNADMITTED: usize = 64;

/// A listening server.
pub(crate) struct Server {
    listener: TcpListener,
    config: Arc<Config>,
    environment: Arc<LocalExecEnvironment>,
    connections: Arc<Connections>,
}

/// Ends a server from another thread.
#[derive(Clone)]
pub(crate) struct Stopper {
    connections: Arc<Connections>,
    waker: Arc<Waker>,
}

impl Stopper {
    /// Ends it: nothing more is accepted, every connection is ended.
    pub(crate) fn stop(&self) {
        self.connections.stop();
        self.waker.wake();
    }
}

/// The open connections.
#[derive(Default)]
struct Connections {
    stopping: AtomicBool,
    sockets: Mutex<Sockets>,
    changed: Condvar,
}

#[derive(Default)]
struct Sockets {
    next: u64,
    open: HashMap<u64, Arc<TcpStream>>,
    admitted: usize,
}

impl Connections {
    fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        for socket in lock(&self.sockets).open.values() {
            // Wakes the connection's thread out of its read.
            let _ = socket.shutdown(Shutdown::Read);
        }
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Waits until all are closed, or `timeout` has passed.
    fn wait_closed(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let mut sockets = lock(&self.sockets);
        while !sockets.open.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            // The condition variable hands the lock back while it waits.
            let waited = self.changed.wait_timeout(sockets, left);
            sockets = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// One connection's entry among the open ones.
struct Opened {
    connections: Arc<Connections>,
    number: u64,
    admitted: bool,
}

impl Opened {
    fn new(
        connections: &Arc<Connections>,
        socket: &Arc<TcpStream>,
        most: usize,
    ) -> io::Result<Self> {
        let mut sockets = lock(&connections.sockets);
        // Under the lock that `stop` takes after it has set this: a connection is either refused
        // here or found there.
        if connections.is_stopping() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        if sockets.open.len() >= most.saturating_add(UNADMITTED) {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let number = sockets.next;
        sockets.next += 1;
        sockets.open.insert(number, Arc::clone(socket));
        Ok(Self { connections: Arc::clone(connections), number, admitted: false })
    }

    /// Whether it may go on, being one of at most `most`.
    fn admit(&mut self, most: usize) -> bool {
        let mut sockets = lock(&self.connections.sockets);
        if sockets.admitted >= most {
            return false;
        }
        sockets.admitted += 1;
        self.admitted = true;
        true
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let mut sockets = lock(&self.connections.sockets);
        sockets.open.remove(&self.number);
        sockets.admitted -= usize::from(self.admitted);
        drop(sockets);
        self.connections.changed.notify_all();
    }
}

impl Server {
    /// Binds to one address.
    ///
    /// # Errors
    /// The name has no address, or the address cannot be had.
    pub(crate) fn bind(
        host: &str,
        port: u16,
        config: Config,
        environment: LocalExecEnvironment,
    ) -> Result<Self> {
        let what = || format!("cannot listen on {host}, port {port}");
        let address = resolve(host, port)?;
        let listener = TcpListener::bind(address).map_err(|error| Error::io(&error, what()))?;
        sys::fd::set_nonblocking(listener.as_fd()).map_err(|error| Error::io(&error, what()))?;
        Ok(Self {
            listener,
            config: Arc::new(config),
            environment: Arc::new(environment),
            connections: Arc::default(),
        })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// What ends it.
    pub(crate) fn stopper(&self, waker: &Arc<Waker>) -> Stopper {
        Stopper { connections: Arc::clone(&self.connections), waker: Arc::clone(waker) }
    }

    /// Accepts connections until it is stopped, and then until they are closed. `stop` is what
    /// the stopper wakes.
    pub(crate) fn run(self, stop: &Waker) {
        while !self.connections.is_stopping() {
            match self.listener.accept() {
                Ok((socket, peer)) => self.accept(socket, peer),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(stop),
                // ECONNABORTED and the like: that connection has gone, the next may be waiting.
                Err(error) => {
                    log::warn("cannot accept", &[("why", &error)]);
                    // Out of descriptors or memory: wait for some to be given back.
                    let _ = wait_for(stop.as_fd(), Interest::Read, Some(Duration::from_millis(50)));
                }
            }
        }
        drop(self.listener);
        self.connections.wait_closed(STOPPING);
    }

    fn wait(&self, stop: &Waker) {
        let mut poll = sys::poll::Poll::default();
        poll.add(self.listener.as_fd(), Interest::Read);
        poll.add(stop.as_fd(), Interest::Read);
        if poll.wait(None).is_err() {
            thread::yield_now();
        }
    }

    fn accept(&self, socket: TcpStream, peer: SocketAddr) {
        let socket = Arc::new(socket);
        let opened = match Opened::new(&self.connections, &socket, self.config.max_connections) {
            Ok(opened) => opened,
            Err(error) => return log::warn("refused", &[("peer", &peer), ("why", &error)]),
        };
        let config = Arc::clone(&self.config);
        let environment = Arc::clone(&self.environment);
        let serve = move || Connection { config, environment, opened, peer }.serve(&socket);
        let thread = thread::Builder::new().name("connection".to_owned()).stack_size(STACK);
        if let Err(error) = thread.spawn(serve) {
            log::warn("refused", &[("peer", &peer), ("why", &error)]);
        }
    }
}

fn resolve(host: &str, port: u16) -> Result<SocketAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    // Without /etc/hosts the resolver takes 5 s to fail at this.
    if bare == "localhost" {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    let what = || format!("cannot listen on {host:?}");
    let mut addresses =
        (bare, port).to_socket_addrs().map_err(|error| Error::io(&error, what()))?;
    addresses.next().ok_or_else(|| {
        Error::new(ErrorKind::Internal, format!("{}: the name has no address", what()))
    })
}

/// One accepted connection.
struct Connection {
    config: Arc<Config>,
    environment: Arc<LocalExecEnvironment>,
    opened: Opened,
    peer: SocketAddr,
}

impl Connection {
    fn serve(mut self, socket: &Arc<TcpStream>) {
        // Accepted sockets are blocking on Linux and inherit the listener's mode elsewhere.
        let prepared = socket.set_nonblocking(false).and_then(|()| socket.set_nodelay(true));
        let head = prepared.and_then(|()| http::read_head(socket));
        let (route, rest) = match head {
            Ok(Ok(head)) => (http::route(&head.bytes, &self.config.access), head.rest),
            Ok(Err(answer)) => (answer, Vec::new()),
            Err(error) => {
                return log::debug("no request", &[("peer", &self.peer), ("why", &error)]);
            }
        };
        let route = match route {
            Route::Upgrade { .. } if !self.opened.admit(self.config.max_connections) => {
                http::too_many_connections()
            }
            route => route,
        };
        match route {
            Route::Answer { response, status } => {
                let level = if status == 200 { log::Level::Debug } else { log::Level::Info };
                log::event(level, "answered", &[("peer", &self.peer), ("status", &status)]);
                let mut stream = socket.as_ref();
                if stream.write_all(response.as_bytes()).is_ok() {
                    linger(socket);
                }
            }
            Route::Upgrade { response } => {
                if let Err(error) = self.converse(socket, &response, rest) {
                    log::info("connection failed", &[("peer", &self.peer), ("why", &error)]);
                }
            }
        }
    }

    fn converse(&self, socket: &Arc<TcpStream>, response: &str, rest: Vec<u8>) -> io::Result<()> {
        socket.as_ref().write_all(response.as_bytes())?;
        let waken = Arc::clone(socket);
        let on_failure = move || drop(waken.shutdown(Shutdown::Both));
        let target = Box::new(SharedSocket(Arc::clone(socket)));
        let (outbox, writer) = Outbox::start(target, Framing::WebSocketServer, on_failure)?;
        let patience = Patience::new(self.config.peer_timeout);
        let halves = ws::Halves::new(Arc::clone(socket), outbox.clone(), patience)?;
        let config = ws::config(ws::SERVER_READ_BUFFER, self.config.max_message_bytes);
        let mut source = ws::WsSource::new(halves, rest, Role::Server, config);
        let session = Session::new(&self.config, &self.environment, outbox.clone());
        let number = session.number();
        log::info("connected", &[("connection", &number), ("peer", &self.peer)]);
        let start = Instant::now();
        let mut end = session.run(&mut source);
        if self.opened.connections.is_stopping() {
            end = End::Stopped;
        }
        let close = match &end {
            End::Closed | End::Lost(_) | End::Silent => None,
            End::Offence(code, reason) => Some(ws::close_frame(*code, reason)),
            End::Stopped => Some(ws::close_frame(1001, "the server stops")),
        };
        let says_goodbye = close.is_some();
        match close {
            Some(close) => outbox.last(close),
            None => outbox.stop(),
        }
        // Whatever still waits to be written after this, the peer does not read.
        if outbox.flush(FAREWELL) && says_goodbye {
            linger(socket);
        }
        let _ = socket.shutdown(Shutdown::Both);
        let _ = writer.join();
        let why = describe(&end);
        let duration = start.elapsed().as_millis();
        let fields: &[log::Field<'_>] =
            &[("connection", &number), ("why", &why), ("durationMs", &duration)];
        log::info("disconnected", fields);
        Ok(())
    }
}

fn describe(end: &End) -> String {
    match end {
        End::Closed => "the peer closed it".to_owned(),
        End::Lost(why) => why.clone(),
        End::Silent => "the peer was silent for too long".to_owned(),
        End::Offence(code, reason) => format!("{reason} ({code})"),
        End::Stopped => "the server stops".to_owned(),
    }
}

/// Waits a moment for the peer to close, reading and dropping what it still sends: a socket
/// closed with unread bytes is reset, and the peer may lose what it was told last.
fn linger(socket: &TcpStream) {
    let deadline = Instant::now() + FAREWELL;
    let _ = socket.shutdown(Shutdown::Write);
    let mut dropped = [0_u8; 4096];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || socket.set_read_timeout(Some(left)).is_err() {
            return;
        }
        match (&*socket).read(&mut dropped) {
            Ok(0) => return,
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return,
            _ => {}
        }
    }
}

/// Serves one peer on stdin and stdout until stdin ends or `stop` is woken.
///
/// # Errors
/// A closed stdin or stdout.
pub(crate) fn serve_stdio(
    config: Config,
    environment: LocalExecEnvironment,
    stop: &Arc<Waker>,
) -> Result<()> {
    let what = |name: &'static str| {
        move |error: io::Error| Error::io(&error, format!("cannot speak on {name}"))
    };
    let input = sys::fd::duplicate_standard(0).map_err(what("stdin"))?;
    let output = sys::fd::duplicate_standard(1).map_err(what("stdout"))?;
    let target = Box::new(std::fs::File::from(output));
    let gone = Arc::clone(stop);
    // Nobody reads what is answered: that is the end, too.
    let (outbox, _writer) =
        Outbox::start(target, Framing::Lines, move || gone.wake()).map_err(what("stdout"))?;
    let patience = Patience::new(config.peer_timeout);
    let mut source = LineSource::new(input, Arc::clone(stop), patience, config.max_message_bytes);
    let session = Session::new(&Arc::new(config), &Arc::new(environment), outbox.clone());
    let end = session.run(&mut source);
    outbox.stop();
    // The process is about to exit; a peer that does not read cannot hold it up.
    outbox.flush(FAREWELL);
    log::info("disconnected", &[("why", &describe(&end))]);
    Ok(())
}
