//! One connection from its first byte to its last.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::Config;
use super::codex::{self, Lingering};
use super::epochs::{Fence, Host, Member};
use super::listener::Opened;
use super::session::{Ended, Session};
use crate::environment::Machine;
use crate::error::{Error, Result, STALE_EPOCH};
use crate::log;
use crate::metrics::{self, Traffic};
use crate::sys;
use crate::sys::poll::{Interest, Waker, wait_for};
use crate::transport::http::{self, Dialect, Route};
use crate::transport::stdio::LineSource;
use crate::transport::ws::WsSource;
use crate::transport::{
    End, FENCED, Framing, Outbox, Patience, SharedSocket, Source, Stream, Target,
};

/// How long the last frame may take to be written.
const FAREWELL: Duration = Duration::from_secs(1);
/// The size of a pipe to the peer.
const PIPE: i32 = 512 * 1024;

/// One accepted connection.
pub(super) struct Connection {
    pub(super) config: Arc<Config>,
    pub(super) environment: Arc<Machine>,
    pub(super) opened: Opened,
    pub(super) peer: SocketAddr,
}

impl Connection {
    /// Serves it from its first byte to its last.
    pub(super) fn serve(self, socket: &Arc<TcpStream>) {
        // Accepted sockets are blocking on Linux and inherit the listener's mode elsewhere.
        let prepared = socket.set_nonblocking(false).and_then(|()| socket.set_nodelay(true));
        let head = prepared.and_then(|()| http::read_head(socket));
        let (route, rest) = match head {
            Ok(Ok(head)) => {
                let peer = self.peer.ip();
                (http::route(&head.bytes, &self.config.access, peer), head.rest)
            }
            Ok(Err(answer)) => (answer, Vec::new()),
            Err(error) => {
                return log::debug("no request", &[("peer", &self.peer), ("why", &error)]);
            }
        };
        let fence = Fence::new(Far(Arc::clone(socket)));
        let admit = |epoch| self.opened.admit(self.most_connections(epoch), &fence);
        let route = match route {
            Route::Upgrade { epoch, .. } if !admit(epoch) => http::too_many_connections(),
            route => route,
        };
        let (route, member) = self.enter(route, &fence);
        match route {
            Route::Answer { response, status, reason } => {
                metrics::refused(reason);
                self.answer(socket, &response, status);
            }
            Route::Metrics => {
                self.answer(socket, &http::metrics_response(&metrics::render()), 200);
            }
            Route::Upgrade { response, dialect, .. } => {
                let talk = (dialect, fence, member);
                match self.converse(socket, &response, rest, talk) {
                    Ok(rest) => self.see_to(rest),
                    Err(error) => {
                        log::info("connection failed", &[("peer", &self.peer), ("why", &error)]);
                    }
                }
            }
        }
    }

    /// Sees to what is left of a connection that is closed.
    fn see_to(self, rest: Rest) {
        match rest {
            Rest::Nothing => {}
            Rest::Session(session) => {
                session.see_to_the_end(&|| self.opened.connections.is_stopping());
            }
            Rest::Lingering(lingering) => {
                // It is no connection any more, and keeps none out.
                drop(self);
                lingering.wait();
            }
        }
    }

    fn answer(&self, mut socket: &TcpStream, response: &str, status: u16) {
        let level = if status == 200 { log::Level::Debug } else { log::Level::Info };
        log::event(level, "answered", &[("peer", &self.peer), ("status", &status)]);
        if socket.write_all(response.as_bytes()).is_ok() {
            linger(socket);
        }
    }

    /// An older host's connections do not keep out the one that is to end them.
    fn most_connections(&self, epoch: Option<u64>) -> usize {
        let takes_over = epoch.is_some_and(|epoch| self.config.epochs.would_raise(epoch));
        if takes_over { usize::MAX } else { self.config.max_connections }
    }

    /// Takes note of the epoch that the URL gives. (A stale host is let in: a program that cannot
    /// read why an upgrade is refused can read a close code.)
    fn enter(&self, route: Route, fence: &Arc<Fence>) -> (Route, Option<Member>) {
        let Route::Upgrade { epoch: Some(epoch), .. } = route else { return (route, None) };
        let hurry = || self.opened.connections.is_stopping();
        match Member::arrive(&self.config.epochs, fence, epoch, &hurry) {
            Ok(member) => (route, member),
            Err(error) => (http::refused_epoch(error.message()), None),
        }
    }

    fn converse(
        &self,
        socket: &Arc<TcpStream>,
        response: &str,
        rest: Vec<u8>,
        (dialect, fence, member): (Dialect, Arc<Fence>, Option<Member>),
    ) -> io::Result<Rest> {
        socket.as_ref().write_all(response.as_bytes())?;
        let waken = Arc::clone(socket);
        let on_failure = move || drop(waken.shutdown(Shutdown::Both));
        let connections = Arc::clone(&self.opened.connections);
        let behind = Arc::clone(&fence);
        let is_ending = move || connections.is_stopping() || behind.is_down();
        let target = Box::new(SharedSocket(Arc::clone(socket)));
        let (outbox, writer) =
            Outbox::start(target, Framing::WebSocketServer, on_failure, is_ending)?;
        let patience = Patience::new(self.config.peer_timeout);
        let traffic = Arc::clone(outbox.traffic());
        traffic.receive(rest.len());
        let counted = metrics::Connection::open(&traffic);
        let stream = Stream::Plain(Arc::clone(socket));
        let most = self.config.max_message_bytes;
        let mut source = WsSource::of_server(stream, rest, outbox.clone(), patience, most)?;
        let number = fence.number();
        log::debug("connected", &[("connection", &number), ("peer", &self.peer)]);
        let life = Life { number, peer: Some(self.peer), start: Instant::now(), traffic };
        let hurry = || self.opened.connections.is_stopping();
        let talk = Talk::new(dialect, &self.config, &self.environment, &outbox, (fence, member));
        let (mut end, rest) = talk.run(&mut source, &hurry);
        if self.opened.connections.is_stopping() {
            end = End::Stopped;
        }
        let close = match &end {
            End::Closed | End::Lost(_) | End::Silent => None,
            End::Offence(code, reason) => Some((*code, *reason)),
            End::Stopped => Some((1001, "the server stops")),
            End::Fenced => Some((FENCED, STALE_EPOCH)),
        };
        match close {
            Some((code, reason)) => outbox.close(code, reason),
            None => outbox.stop(),
        }
        // Whatever still waits to be written after this, the peer does not read.
        if outbox.flush(FAREWELL) && close.is_some() {
            linger(socket);
            if end == End::Fenced {
                linger_behind_the_fence(socket);
            }
        }
        let _ = socket.shutdown(Shutdown::Both);
        let _ = writer.join();
        drop(counted);
        life.log_end(&end);
        Ok(rest)
    }
}

/// What a connection is used for.
enum Talk {
    ExecRpc(Box<Session>),
    Codex(Box<codex::Session>),
}

/// What is left of it once it is closed.
enum Rest {
    Nothing,
    /// Something of it may still have an effect.
    Session(Box<Session>),
    /// Its client may come back.
    Lingering(Lingering),
}

impl Talk {
    /// (Nobody is let in who speaks a dialect that is not spoken here.)
    fn new(
        dialect: Dialect,
        config: &Arc<Config>,
        environment: &Arc<Machine>,
        outbox: &Outbox,
        (fence, member): (Arc<Fence>, Option<Member>),
    ) -> Self {
        if dialect == Dialect::Codex
            && let Some(session) =
                codex::Session::new(config, environment, outbox.clone(), Arc::clone(&fence))
        {
            return Self::Codex(Box::new(session));
        }
        let outbox = outbox.clone();
        Self::ExecRpc(Box::new(Session::new(config, environment, outbox, fence, member)))
    }

    fn run(self, source: &mut dyn Source, hurry: &dyn Fn() -> bool) -> (End, Rest) {
        match self {
            Self::ExecRpc(session) => {
                let Ended { end, lingering } = session.run(source, hurry);
                (end, lingering.map_or(Rest::Nothing, |session| Rest::Session(Box::new(session))))
            }
            Self::Codex(session) => {
                let (end, lingering) = session.run(source, hurry);
                (end, Rest::Lingering(lingering))
            }
        }
    }
}

/// What is told of a connection that has ended.
struct Life {
    number: u64,
    /// `None` over stdio.
    peer: Option<SocketAddr>,
    start: Instant,
    traffic: Arc<Traffic>,
}

impl Life {
    fn log_end(&self, end: &End) {
        if *end == End::Fenced {
            metrics::fenced();
        }
        let why = describe(end);
        let duration = self.start.elapsed().as_millis();
        let (processes, received, sent) =
            (self.traffic.processes(), self.traffic.received(), self.traffic.sent());
        let transport = if self.peer.is_some() { "websocket" } else { "stdio" };
        let mut fields: Vec<log::Field<'_>> =
            vec![("connection", &self.number), ("transport", &transport)];
        if let Some(peer) = &self.peer {
            fields.push(("peer", peer));
        }
        fields.extend::<[log::Field<'_>; 5]>([
            ("durationMs", &duration),
            ("processes", &processes),
            ("receivedBytes", &received),
            ("sentBytes", &sent),
            ("why", &why),
        ]);
        log::info("disconnected", &fields);
    }
}

/// The host at the far end of a socket.
struct Far(Arc<TcpStream>);

impl Host for Far {
    fn wake(&self) {
        let _ = self.0.shutdown(Shutdown::Read);
    }

    fn is_gone(&self) -> bool {
        is_ready(self.0.as_fd(), Interest::PeerGone)
    }
}

/// The host at the far end of stdin: the only one of its server, so that nobody else's epoch wakes
/// it, and it waits for nobody.
struct Only;

impl Host for Only {
    fn wake(&self) {}

    fn is_gone(&self) -> bool {
        false
    }
}

fn describe(end: &End) -> String {
    match end {
        End::Closed => "the peer closed it".to_owned(),
        End::Lost(why) => why.clone(),
        End::Silent => "the peer was silent for too long".to_owned(),
        End::Offence(code, reason) => format!("{reason} ({code})"),
        End::Stopped => "the server stops".to_owned(),
        End::Fenced => "another host with a newer epoch has taken over".to_owned(),
    }
}

/// Answers a connection whose request is not even read, and closes it.
pub(super) fn refuse(socket: &TcpStream, route: &Route) {
    let Route::Answer { response, .. } = route else { return };
    let prepared = socket.set_nonblocking(false);
    let prepared = prepared.and_then(|()| socket.set_write_timeout(Some(FAREWELL)));
    if prepared.and_then(|()| (&*socket).write_all(response.as_bytes())).is_ok() {
        linger(socket);
    }
}

/// Waits a moment for the peer to close, reading and dropping what it still sends: a socket
/// closed with unread bytes is reset, and the peer may lose what it was told last.
///
/// (What has a buffer on the stack is kept out of [`Connection::serve`]: room for it would be taken, page
/// by page, for as long as the connection stands.)
#[inline(never)]
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

/// The same where the receiving side has been shut: what comes is still taken in by the kernel, and
/// a read that finds nothing does not tell whether the peer has closed.
#[inline(never)]
fn linger_behind_the_fence(mut socket: &TcpStream) {
    const GLANCE: Duration = Duration::from_millis(10);
    let deadline = Instant::now() + FAREWELL;
    let mut dropped = [0_u8; 16 * 1024];
    // A socket that both sides have closed has no peer any more.
    while Instant::now() < deadline && socket.peer_addr().is_ok() {
        if !matches!(socket.read(&mut dropped), Ok(1..)) {
            thread::sleep(GLANCE);
        }
    }
}

/// Serves one peer on stdin and stdout until stdin ends or `stop` is woken.
///
/// # Errors
/// A closed stdin or stdout.
pub(crate) fn serve_stdio(config: Config, environment: Machine, stop: &Arc<Waker>) -> Result<()> {
    let what = |name: &'static str| {
        move |error: io::Error| Error::io(&error, format!("cannot speak on {name}"))
    };
    let input = sys::fd::duplicate_standard(0).map_err(what("stdin"))?;
    let output = sys::fd::duplicate_standard(1).map_err(what("stdout"))?;
    // A line may be longer than a pipe usually holds.
    sys::fd::grow_pipe(output.as_fd(), PIPE);
    let target = Box::new(std::fs::File::from(output));
    let ended = serve_lines(&Arc::new(config), &Arc::new(environment), input, target, stop);
    let (end, life) = ended.map_err(what("stdin and stdout"))?;
    // A file system that hangs cannot hold the peer up: a thread that waits in it may keep the
    // process from being gone, and its descriptors with it.
    sys::fd::close_standard_output();
    life.log_end(&end);
    Ok(())
}

/// Serves the peer at the far end of a socket, on a thread of its own, until that closes it.
///
/// # Errors
/// No descriptors or threads are left.
pub(crate) fn serve_in_memory(environment: &Arc<Machine>, socket: UnixStream) -> io::Result<()> {
    let target = Box::new(socket.try_clone()?);
    let stop = Arc::new(Waker::new()?);
    let environment = Arc::clone(environment);
    let serve = move || {
        let config = Arc::new(Config::in_memory());
        let _ = serve_lines(&config, &environment, socket.into(), target, &stop);
    };
    let thread = thread::Builder::new().name("connection".to_owned());
    thread.spawn(serve).map(drop)
}

/// Serves a peer that sends a message a line, until it ends or `stop` is woken.
fn serve_lines(
    config: &Arc<Config>,
    environment: &Arc<Machine>,
    input: OwnedFd,
    target: Box<dyn Target>,
    stop: &Arc<Waker>,
) -> io::Result<(End, Life)> {
    let gone = Arc::clone(stop);
    // Nobody reads what is answered: that is the end, too.
    let hang_up = input.try_clone()?;
    let stopped = Arc::clone(stop);
    let is_ending = move || {
        is_ready(stopped.as_fd(), Interest::Read) || is_ready(hang_up.as_fd(), Interest::HangUp)
    };
    let (outbox, _writer) = Outbox::start(target, Framing::Lines, move || gone.wake(), is_ending)?;
    let patience = Patience::new(config.peer_timeout);
    let traffic = Arc::clone(outbox.traffic());
    let source = LineSource::new(input, Arc::clone(stop), patience, config.max_message_bytes);
    let mut source = source.counting(&traffic);
    let fence = Fence::new(Only);
    let life = Life { number: fence.number(), peer: None, start: Instant::now(), traffic };
    let stopped = Arc::clone(stop);
    // (Over a pipe there is one dialect.)
    let dialect = if config.codex.is_some() { Dialect::Codex } else { Dialect::ExecRpc };
    let talk = Talk::new(dialect, config, environment, &outbox, (fence, None));
    let (end, rest) = talk.run(&mut source, &|| is_ready(stopped.as_fd(), Interest::Read));
    drop(rest);
    outbox.stop();
    // Whoever does not read holds nobody up.
    outbox.flush(FAREWELL);
    Ok((end, life))
}

fn is_ready(fd: BorrowedFd<'_>, interest: Interest) -> bool {
    matches!(wait_for(fd, interest, Some(Duration::ZERO)), Ok(Some(_)))
}
