//! The orders that a process has been given and not yet looked at.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::protocol::MAX_STDIN_WAITING;
use crate::sync::lock;
use crate::sys;
use crate::sys::poll::Waker;
use crate::sys::pty::Size;

/// What becomes of an order. Dropped uncalled, it tells whoever waits that it was lost.
pub(crate) type Reply<T> = Box<dyn FnOnce(Result<T>) + Send>;

/// Something to do with a process, carried out in the order given.
pub(crate) enum Order {
    /// Bytes for its stdin, closed after them if `eof`.
    Write { bytes: Vec<u8>, eof: bool, reply: Reply<()> },
    /// A signal for its group, and SIGKILL that much later.
    Kill { signal: i32, grace: Option<Duration>, reply: Reply<bool> },
    /// Another size for its terminal.
    Resize { size: Size, reply: Reply<()> },
}

impl Order {
    /// Answers an order that came when the process was over.
    fn too_late(self, id: &str) {
        match self {
            Self::Write { reply, .. } => reply(Err(closed_stdin(id))),
            Self::Kill { reply, .. } => reply(Ok(false)),
            Self::Resize { reply, .. } => reply(Err(has_ended(id))),
        }
    }
}

/// The answer to a write that nothing can read any more.
pub(super) fn closed_stdin(id: &str) -> Error {
    Error::os(sys::errno::EPIPE, cannot_write(id))
}

/// The start of a message about a write that failed.
pub(super) fn cannot_write(id: &str) -> String {
    format!("cannot write to the stdin of process {id:?}")
}

/// The answer to an order for a process that is over.
pub(super) fn has_ended(id: &str) -> Error {
    Error::new(ErrorKind::UnknownProcess, format!("process {id:?} has just ended"))
}

/// The queue itself. It is bounded by the connection's limit on requests in flight; the bytes in
/// it by [`MAX_STDIN_WAITING`].
pub(crate) struct Mailbox {
    /// The process's id, for messages.
    id: Box<str>,
    /// `None` once the process is over.
    orders: Mutex<Option<VecDeque<Order>>>,
    waker: Arc<Waker>,
    acknowledged: AtomicU64,
    /// Bytes and writes that wait for the child to read.
    stdin_waiting: AtomicUsize,
    writes_waiting: AtomicUsize,
    ended: AtomicBool,
}

/// The most writes that may wait for one process, however small: a child that does not read must
/// not use up what its connection may have in flight.
const MOST_WRITES_WAITING: usize = 1024;

impl Mailbox {
    pub(super) fn new(id: &str) -> io::Result<Self> {
        Ok(Self {
            id: id.into(),
            orders: Mutex::new(Some(VecDeque::new())),
            waker: Arc::new(Waker::new()?),
            acknowledged: AtomicU64::new(0),
            stdin_waiting: AtomicUsize::new(0),
            writes_waiting: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
        })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Gives an order; one that comes when the process is over is answered at once.
    pub(crate) fn give(&self, order: Order) {
        let late = match lock(&self.orders).as_mut() {
            Some(orders) => {
                orders.push_back(order);
                None
            }
            None => Some(order),
        };
        match late {
            None => self.waker.wake(),
            Some(order) => order.too_late(&self.id),
        }
    }

    /// Gives a write, unless too much waits already; then none of it is taken.
    pub(crate) fn give_write(&self, bytes: Vec<u8>, eof: bool, reply: Reply<()>) {
        let size = bytes.len();
        // Only the connection's own thread adds to either count.
        if self.writes_waiting.load(Ordering::Relaxed) >= MOST_WRITES_WAITING {
            let message = format!(
                "cannot take a write for the stdin of process {:?}: {MOST_WRITES_WAITING} wait",
                self.id
            );
            return reply(Err(Error::new(ErrorKind::StdinFull, message)));
        }
        let claimed =
            self.stdin_waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| {
                waiting.checked_add(size).filter(|sum| *sum <= MAX_STDIN_WAITING)
            });
        match claimed {
            Ok(_) => {
                self.writes_waiting.fetch_add(1, Ordering::Relaxed);
                self.give(Order::Write { bytes, eof, reply });
            }
            Err(waiting) => reply(Err(Error::new(
                ErrorKind::StdinFull,
                format!(
                    "cannot take {size} bytes for the stdin of process {:?}: {waiting} wait \
                     already, of at most {MAX_STDIN_WAITING}",
                    self.id
                ),
            ))),
        }
    }

    /// Gives bytes back to the window.
    pub(crate) fn acknowledge(&self, bytes: u64) {
        // Saturates: a host may claim any number.
        let add = |sum: u64| Some(sum.saturating_add(bytes));
        let _ = self.acknowledged.fetch_update(Ordering::AcqRel, Ordering::Relaxed, add);
        self.waker.wake();
    }

    /// The connection has ended: the process, or what it has left, is ended, and nobody is told.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.waker.wake();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(super) fn waker(&self) -> &Arc<Waker> {
        &self.waker
    }

    pub(super) fn take_orders(&self) -> VecDeque<Order> {
        lock(&self.orders).as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(super) fn take_acknowledged(&self) -> u64 {
        self.acknowledged.swap(0, Ordering::AcqRel)
    }

    /// A write that is over, whatever became of it.
    pub(super) fn release_write(&self, bytes: usize) {
        self.stdin_waiting.fetch_sub(bytes, Ordering::Relaxed);
        self.writes_waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// The process takes no more orders; those not yet looked at are answered.
    pub(super) fn close(&self) {
        let late = lock(&self.orders).take();
        late.into_iter().flatten().for_each(|order| order.too_late(&self.id));
    }
}
