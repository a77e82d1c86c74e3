//! Accepting connections, and ending them all.

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::Config;
use super::codex::Sessions;
use super::connection::{Connection, refuse};
use super::epochs::Fence;
use crate::environment::Machine;
use crate::error::{Error, ErrorKind, Result};
use crate::log;
use crate::metrics;
use crate::sync::lock;
use crate::sys;
use crate::sys::fd::Supply;
use crate::sys::poll::{Interest, Waker, wait_for};
use crate::transport::http;

/// A connection's stack. A thread that waits has touched two or three pages of it.
const STACK: usize = 256 * 1024;
/// How long a stopping server waits for its connections: what they wait for their processes, and a
/// moment for the last word.
const STOPPING: Duration = Duration::from_millis(3500);
/// The most connections that have not shown yet what they are. They are not part of the limit on
/// connections, and when there are more, the oldest goes: strangers that connect and say nothing
/// keep out neither a host nor a probe.
const UNADMITTED: usize = 256;

/// How often it is tried again to accept, when there are no descriptors or no memory left.
const RETRY: Duration = Duration::from_millis(250);

/// A listening server.
pub(crate) struct Server {
    listeners: Vec<TcpListener>,
    config: Arc<Config>,
    environment: Arc<Machine>,
    connections: Arc<Connections>,
}

/// Ends a server from another thread.
#[derive(Clone)]
pub(crate) struct Stopper {
    connections: Arc<Connections>,
    codex: Option<Arc<Sessions>>,
    waker: Arc<Waker>,
}

impl Stopper {
    /// Ends it: nothing more is accepted, every connection is ended.
    pub(crate) fn stop(&self) {
        self.connections.stop();
        if let Some(sessions) = &self.codex {
            sessions.stop();
        }
        self.waker.wake();
    }
}

/// The open connections.
#[derive(Default)]
pub(super) struct Connections {
    stopping: AtomicBool,
    sockets: Mutex<Sockets>,
    changed: Condvar,
}

#[derive(Default)]
struct Sockets {
    next: u64,
    /// By number, which is by age.
    unadmitted: BTreeMap<u64, Arc<TcpStream>>,
    admitted: BTreeMap<u64, (Arc<TcpStream>, Arc<Fence>)>,
}

impl Sockets {
    fn all(&self) -> impl Iterator<Item = &Arc<TcpStream>> {
        self.unadmitted.values().chain(self.admitted.values().map(|(socket, _)| socket))
    }
}

impl Connections {
    fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        for socket in lock(&self.sockets).all() {
            // Wakes the connection's thread out of its read.
            let _ = socket.shutdown(Shutdown::Read);
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Waits until all are closed, or `timeout` has passed.
    fn wait_closed(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let mut sockets = lock(&self.sockets);
        while sockets.all().next().is_some() {
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
pub(super) struct Opened {
    pub(super) connections: Arc<Connections>,
    number: u64,
}

impl Opened {
    fn new(connections: &Arc<Connections>, socket: &Arc<TcpStream>) -> io::Result<Self> {
        let mut sockets = lock(&connections.sockets);
        // Under the lock that `stop` takes after it has set this: a connection is either refused
        // here or found there.
        if connections.is_stopping() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        if sockets.unadmitted.len() >= UNADMITTED
            && let Some((_, oldest)) = sockets.unadmitted.pop_first()
        {
            let _ = oldest.shutdown(Shutdown::Both);
        }
        let number = sockets.next;
        sockets.next += 1;
        sockets.unadmitted.insert(number, Arc::clone(socket));
        Ok(Self { connections: Arc::clone(connections), number })
    }

    /// Whether it may go on, being one of at most `most`. Those behind a fence are about to go, and
    /// do not keep out whoever comes with the host that has taken over.
    pub(super) fn admit(&self, most: usize, fence: &Arc<Fence>) -> bool {
        let mut sockets = lock(&self.connections.sockets);
        if sockets.admitted.values().filter(|(_, fence)| !fence.is_down()).count() >= most {
            return false;
        }
        // One that is not there any more had to make room for another; its socket is closed.
        let Some(socket) = sockets.unadmitted.remove(&self.number) else { return false };
        sockets.admitted.insert(self.number, (socket, Arc::clone(fence)));
        true
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let mut sockets = lock(&self.connections.sockets);
        sockets.unadmitted.remove(&self.number);
        sockets.admitted.remove(&self.number);
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
        environment: Machine,
    ) -> Result<Self> {
        let what = || format!("cannot listen on {host}, port {port}");
        let listener = listen(host, port)?;
        Self::new(vec![listener], config, environment).map_err(|error| Error::io(&error, what()))
    }

    /// Serves sockets that listen already.
    pub(crate) fn new(
        listeners: Vec<TcpListener>,
        config: Config,
        environment: Machine,
    ) -> io::Result<Self> {
        for listener in &listeners {
            sys::fd::set_nonblocking(listener.as_fd())?;
        }
        Ok(Self {
            listeners,
            config: Arc::new(config),
            environment: Arc::new(environment),
            connections: Arc::default(),
        })
    }

    /// Where it listens.
    pub(crate) fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.listeners.iter().map(TcpListener::local_addr).collect()
    }

    /// What ends it.
    pub(crate) fn stopper(&self, waker: &Arc<Waker>) -> Stopper {
        let (connections, codex) = (Arc::clone(&self.connections), self.config.codex.clone());
        Stopper { connections, codex, waker: Arc::clone(waker) }
    }

    /// Accepts connections until it is stopped, and then until they are closed. `stop` is what
    /// the stopper wakes.
    pub(crate) fn run(self, stop: &Waker) {
        let mut short_of = false;
        while !self.connections.is_stopping() {
            let accepted = self.accept_some();
            if let Err(error) = accepted {
                // Once, and not again until it has worked again.
                if !short_of {
                    log::warn("cannot accept", &[("why", &error)]);
                }
                short_of = true;
                // Nothing tells when descriptors or memory are given back.
                let _ = wait_for(stop.as_fd(), Interest::Read, Some(RETRY));
                continue;
            }
            short_of = false;
            self.wait(stop);
        }
        drop(self.listeners);
        self.connections.wait_closed(STOPPING);
    }

    /// Accepts one connection from each socket that has one.
    fn accept_some(&self) -> io::Result<()> {
        let mut all = Ok(());
        for listener in &self.listeners {
            match listener.accept() {
                Ok((socket, peer)) => self.accept(socket, peer),
                Err(error) if is_about_one(&error) => {}
                Err(error) => all = Err(error),
            }
        }
        all
    }

    fn wait(&self, stop: &Waker) {
        let mut poll = sys::poll::Poll::default();
        for listener in &self.listeners {
            poll.add(listener.as_fd(), Interest::Read);
        }
        poll.add(stop.as_fd(), Interest::Read);
        if poll.wait(None).is_err() {
            thread::yield_now();
        }
    }

    fn accept(&self, socket: TcpStream, peer: SocketAddr) {
        let supply = sys::fd::supply_at(socket.as_fd());
        if supply > Supply::Enough {
            return turn_away(socket, peer, supply);
        }
        let socket = Arc::new(socket);
        let opened = match Opened::new(&self.connections, &socket) {
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

/// Whether nothing is wrong but that there is no connection, or that it has failed meanwhile: the
/// next may be waiting.
fn is_about_one(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    let kind = error.kind();
    matches!(kind, Kind::WouldBlock | Kind::Interrupted | Kind::ConnectionAborted)
        || matches!(kind, Kind::NetworkDown | Kind::NetworkUnreachable | Kind::HostUnreachable)
}

/// Nearly all descriptors are in use, and the rest is for those who are connected.
fn turn_away(socket: TcpStream, peer: SocketAddr, supply: Supply) {
    log::warn("refused", &[("peer", &peer), ("why", &"nearly out of descriptors")]);
    metrics::refused("descriptors");
    if supply == Supply::Out {
        return;
    }
    let thread = thread::Builder::new().name("refusal".to_owned()).stack_size(STACK);
    // Without a thread it is closed, which says enough.
    let _ = thread.spawn(move || refuse(&socket, &http::out_of_descriptors()));
}

/// Binds to one address.
///
/// # Errors
/// The name has no address, or the address cannot be had.
pub(crate) fn listen(host: &str, port: u16) -> Result<TcpListener> {
    let address = resolve(host, port)?;
    let what = || format!("cannot listen on {host}, port {port}");
    TcpListener::bind(address).map_err(|error| Error::io(&error, what()))
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
