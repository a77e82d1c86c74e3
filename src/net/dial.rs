//! Making a connection: a look-up, and a race of attempts (RFC 8305).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::lookup::{self, Lookup};
use super::socket::{self, Address, Begun};
use super::{Endpoint, Terms};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::WirePath;
use crate::sys;
use crate::sys::poll::{Interest, Poll, Waker};

/// How long an attempt runs alone before the next is made beside it (RFC 8305, section 8).
const HEAD_START: Duration = Duration::from_millis(250);
/// How long until a Unix socket whose queue was full is tried again. Nothing can be waited for: a
/// connect that does not block is not queued.
const FULL_QUEUE: Duration = Duration::from_millis(10);

/// A connection on its way.
pub(super) struct Dial {
    endpoint: Endpoint,
    timeout: Duration,
    deadline: Instant,
    lookup: Option<Lookup>,
    /// Addresses not tried yet.
    left: VecDeque<Address>,
    racing: Vec<Attempt>,
    /// When the next attempt is made although others are running.
    next: Instant,
    head_start: Duration,
    failure: Option<(Address, Errno)>,
}

struct Attempt {
    address: Address,
    socket: OwnedFd,
    place: usize,
}

/// A connection that is made: the socket, and where it leads.
pub(super) type Made = (OwnedFd, WirePath);

impl Dial {
    /// Begins. `waker` is woken when there is something to go on with.
    ///
    /// # Errors
    /// A look-up that cannot be begun.
    pub(super) fn new(endpoint: Endpoint, terms: &Terms, waker: &Arc<Waker>) -> Result<Self> {
        let now = Instant::now();
        let far = now + Duration::from_secs(365 * 24 * 3600);
        let mut dial = Self {
            timeout: terms.timeout,
            deadline: now.checked_add(terms.timeout).unwrap_or(far),
            lookup: None,
            left: VecDeque::new(),
            racing: Vec::new(),
            next: now,
            head_start: HEAD_START,
            failure: None,
            endpoint,
        };
        match &dial.endpoint {
            Endpoint::Unix(path) => dial.left.push_back(Address::Unix(path.clone())),
            Endpoint::Tcp { host, port } => match lookup::known(host, *port) {
                Some(addresses) => dial.enlist(addresses),
                None => dial.lookup = Some(Lookup::start(host, *port, &terms.counts, waker)?),
            },
        }
        Ok(dial)
    }

    /// Whether a look-up is still running.
    pub(super) fn is_looking_up(&mut self) -> bool {
        if self.lookup.as_ref().is_some_and(|lookup| lookup.take().is_some()) {
            self.lookup = None;
        }
        self.lookup.is_some()
    }

    fn enlist(&mut self, addresses: Vec<SocketAddr>) {
        self.left = lookup::interleaved(addresses).into_iter().map(Address::Ip).collect();
        let count = u32::try_from(self.left.len().max(1)).unwrap_or(u32::MAX);
        // Each gets its share of the time that is left.
        let left = self.deadline.saturating_duration_since(Instant::now());
        self.head_start = HEAD_START.min(left / count);
    }

    /// Goes on with whatever can be gone on with. `None` means that it has to be waited.
    pub(super) fn advance(&mut self) -> Option<Result<Made>> {
        if let Some(answer) = self.lookup.as_ref().and_then(Lookup::take) {
            self.lookup = None;
            match answer {
                Ok(addresses) if !addresses.is_empty() => self.enlist(addresses),
                answer => return Some(Err(self.unknown(answer.err()))),
            }
        }
        loop {
            let now = Instant::now();
            if now >= self.deadline {
                return Some(Err(self.too_late()));
            }
            let waits = !self.racing.is_empty() || self.lookup.is_some();
            if self.left.is_empty() {
                return if waits { None } else { Some(Err(self.all_failed())) };
            }
            if now < self.next {
                return None;
            }
            if let Some(socket) = self.try_next(now) {
                return Some(Ok(socket));
            }
        }
    }

    fn try_next(&mut self, now: Instant) -> Option<Made> {
        let address = self.left.pop_front()?;
        self.next = now + self.head_start;
        match socket::begin(&address) {
            Ok(Begun::Connected(socket)) => return Some(self.won(&address, socket)),
            Ok(Begun::Connecting(socket)) => {
                self.racing.push(Attempt { address, socket, place: usize::MAX });
            }
            Err(Errno::AGAIN) if matches!(address, Address::Unix(_)) => {
                self.left.push_back(address);
                self.next = now + FULL_QUEUE;
            }
            Err(error) => self.lost(address, error, now),
        }
        None
    }

    /// Adds what there is to wait for.
    pub(super) fn add_to(&mut self, poll: &mut Poll) {
        for attempt in &mut self.racing {
            attempt.place = poll.add(attempt.socket.as_fd(), Interest::Write);
        }
    }

    /// Until when there is nothing to do if nothing happens.
    pub(super) fn wake_up(&self) -> Instant {
        if self.left.is_empty() { self.deadline } else { self.deadline.min(self.next) }
    }

    /// Takes note of what a wait told.
    pub(super) fn note(&mut self, poll: &Poll) -> Option<Made> {
        let now = Instant::now();
        for attempt in std::mem::take(&mut self.racing) {
            if !poll.ready(attempt.place).any() {
                self.racing.push(attempt);
                continue;
            }
            match socket::decided(&attempt.socket) {
                Ok(()) => return Some(self.won(&attempt.address, attempt.socket)),
                Err(error) => self.lost(attempt.address, error, now),
            }
        }
        None
    }

    /// The others have lost: their sockets are closed.
    fn won(&mut self, address: &Address, socket: OwnedFd) -> Made {
        self.racing.clear();
        let shown = match address {
            Address::Ip(address) => PathBuf::from(address.to_string()),
            Address::Unix(path) => path.clone(),
        };
        (socket, WirePath::known(shown))
    }

    fn lost(&mut self, address: Address, error: Errno, now: Instant) {
        // Nobody has to wait for what has failed already.
        self.next = now;
        // That a family has no way out says less than what an address has answered.
        let says_little = |error: Errno| {
            matches!(
                error,
                Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT
            )
        };
        let better = self.failure.as_ref().is_none_or(|(_, old)| says_little(*old));
        if better || !says_little(error) {
            self.failure = Some((address, error));
        }
    }

    fn what(&self) -> String {
        format!("cannot connect to {}", self.endpoint)
    }

    fn too_late(&self) -> Error {
        let stage = match (&self.lookup, &self.endpoint) {
            (Some(_), _) => "its name has not been resolved",
            (None, Endpoint::Tcp { .. }) => "no address has answered",
            (None, Endpoint::Unix(_)) => "its queue is full",
        };
        let message = format!("{}: {stage} within {:?}", self.what(), self.timeout);
        Error::new(ErrorKind::Os(sys::errno::ETIMEDOUT), message)
    }

    /// A resolver has sentences and no errno: no such name is `ENOENT`, as for a file.
    fn unknown(&self, error: Option<std::io::Error>) -> Error {
        match error {
            Some(error) if error.raw_os_error().is_some() => Error::io(&error, self.what()),
            Some(error) => {
                let message = format!("{}: {error}", self.what());
                Error::new(ErrorKind::Os(sys::errno::ENOENT), message)
            }
            None => {
                let message = format!("{}: the name has no address", self.what());
                Error::new(ErrorKind::Os(sys::errno::ENOENT), message)
            }
        }
    }

    fn all_failed(&self) -> Error {
        match &self.failure {
            Some((Address::Ip(address), error)) => {
                let named = matches!(&self.endpoint, Endpoint::Tcp { host, .. }
                    if !host.contains(&address.ip().to_string()));
                let at = if named { format!(" at {}", address.ip()) } else { String::new() };
                Error::os(error.raw_os_error(), format!("{}{at}", self.what()))
            }
            Some((Address::Unix(path), Errno::NAMETOOLONG)) => self.too_long(path),
            Some((Address::Unix(_), error)) => Error::os(error.raw_os_error(), self.what()),
            None => self.unknown(None),
        }
    }

    fn too_long(&self, path: &Path) -> Error {
        let most = if cfg!(target_os = "linux") { 107 } else { 103 };
        let message = format!(
            "{}: the path has {} bytes, and that of a socket at most {most} here",
            self.what(),
            path.as_os_str().len()
        );
        Error::new(ErrorKind::Os(Errno::NAMETOOLONG.raw_os_error()), message)
    }
}
