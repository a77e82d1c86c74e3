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
use super::connection::Connection;
use crate::environment::LocalExecEnvironment;
use crate::error::{Error, ErrorKind, Result};
use crate::log;
use crate::sync::lock;
use crate::sys;
use crate::sys::poll::{Interest, Waker, wait_for};

/// A connection's stack. A thread that waits has touched two or three pages of it.
const STACK: usize = 256 * 1024;
/// How long a stopping server waits for its connections.
const STOPPING: Duration = Duration::from_secs(4);
/// The most connections that have not shown yet what they are. They are not part of the limit on
/// connections, and when there are more, the oldest goes: strangers that connect and say nothing
/// keep out neither a host nor a probe.
const UNADMITTED: usize = 256;

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
    admitted: BTreeMap<u64, Arc<TcpStream>>,
}

impl Sockets {
    fn all(&self) -> impl Iterator<Item = &Arc<TcpStream>> {
        self.unadmitted.values().chain(self.admitted.values())
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

    /// Whether it may go on, being one of at most `most`.
    pub(super) fn admit(&self, most: usize) -> bool {
        let mut sockets = lock(&self.connections.sockets);
        if sockets.admitted.len() >= most {
            return false;
        }
        // One that is not there any more had to make room for another; its socket is closed.
        let Some(socket) = sockets.unadmitted.remove(&self.number) else { return false };
        sockets.admitted.insert(self.number, socket);
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
