//! One TCP or Unix connection: a thread of its own that waits in one place for everything that
//! can happen to it, and a mailbox through which the host gives it orders.
//!
//! The thing to know: the two halves end separately. After the far end has finished sending the
//! host may go on writing, and the other way round; and a socket tells a failure once, to whichever
//! call comes first, so whoever hears of it must keep it.

mod dial;
mod ending;
mod lookup;
mod order;
mod socket;
mod worker;

pub(crate) use order::{Closer, Mailbox, Order};

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::error::Error;
use crate::protocol::WirePath;
use crate::sys::poll::Waker;

/// Where a connection leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Tcp {
        host: String,
        port: u16,
    },
    /// An absolute path.
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') && !host.starts_with('[') => {
                write!(f, "[{}]:{port}", host.escape_debug())
            }
            Self::Tcp { host, port } => write!(f, "{}:{port}", host.escape_debug()),
            Self::Unix(path) => write!(f, "{path:?}"),
        }
    }
}

/// How much of what outlasts a connection one host has running.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    lookups: AtomicUsize,
    /// Closed connections whose last bytes are on their way.
    draining: AtomicUsize,
    /// A newer host has taken over.
    fenced: AtomicBool,
}

impl Counts {
    /// From here on what is abandoned is reset: of what it has written, the kernel sends no more.
    pub(crate) fn fence(&self) {
        self.fenced.store(true, Ordering::Release);
    }
}

/// The rules that a connection is made under.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// How long it may take to be made, the look-up of its name included.
    pub(crate) timeout: Duration,
    /// How many bytes of data may be unacknowledged; no limit without it.
    pub(crate) window: Option<u64>,
    /// What its host has running.
    pub(crate) counts: Arc<Counts>,
}

/// What a connection that could not be made has left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remains {
    Nothing,
    /// A look-up that cannot be stopped; the sink is kept for as long as it runs.
    Lookup,
}

/// Where a connection's events go. They come from the connection's own thread, in order.
pub(crate) trait Sink: Send + 'static {
    /// Whoever asked for it to be closed, and waits to be told that it is.
    type Closer: Closer;

    /// It is made.
    fn connected(&mut self, remote: WirePath);

    /// It could not be made, or was closed before it was; the last event.
    fn failed(&mut self, error: Error, closers: Vec<Self::Closer>, remains: Remains);

    /// Data from the far end, taken in whole.
    fn data(&mut self, chunk: &[u8]);

    /// The far end has finished sending.
    fn end_of_data(&mut self);

    /// Whether the sink would take another chunk. A sink that would not wakes the waker when that
    /// changes; until then the socket is not read from.
    fn ready(&mut self, waker: &Arc<Waker>) -> bool;

    /// It is over, with what it failed of.
    fn closed(&mut self, failure: Option<Error>);

    /// Tells that it is over, if that can be told now; if not, the waker is woken when it may be.
    /// Until it has been told, its id is in use.
    fn tell_closed(&mut self, waker: &Arc<Waker>) -> bool;

    /// It is over and that has been told; the last event.
    fn forgotten(&mut self, closers: Vec<Self::Closer>);
}

/// Makes a connection on a thread of its own; the id is for messages. All else, a failure too, is
/// told to the sink.
pub(crate) fn start<S: Sink>(
    id: &str,
    endpoint: Endpoint,
    terms: Terms,
    mut sink: S,
) -> Option<Arc<Mailbox<S::Closer>>> {
    match Mailbox::new(id) {
        Ok(mailbox) => {
            let mailbox = Arc::new(mailbox);
            worker::start(endpoint, terms, Arc::clone(&mailbox), sink);
            Some(mailbox)
        }
        Err(error) => {
            let error = Error::io(&error, format!("cannot connect to {endpoint}"));
            sink.failed(error, Vec::new(), Remains::Nothing);
            None
        }
    }
}
