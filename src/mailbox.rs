//! The orders that the thread of a process or of a connection has been given and not yet looked
//! at.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::error::{Error, ErrorKind, Result};
use crate::protocol::MAX_STDIN_WAITING;
use crate::sync::lock;
use crate::sys::poll::Waker;

/// What becomes of an order. Dropped uncalled, it tells whoever waits that it was lost.
pub(crate) type Reply<T> = Box<dyn FnOnce(Result<T>) + Send>;

/// Something to do, carried out in the order given.
pub(crate) trait Order: Sized {
    /// Bytes for the far end, which is closed after them if `eof`.
    fn write(bytes: Vec<u8>, eof: bool, reply: Reply<()>) -> Self;

    /// Answers an order that came when all was over.
    fn too_late(self, id: &str);

    /// Where the bytes of a write go, for messages.
    fn destination(id: &str) -> String;
}

/// The queue itself. It is bounded by the connection's limit on requests in flight; the bytes in
/// it by [`MAX_STDIN_WAITING`].
pub(crate) struct Mailbox<O> {
    /// The id of what it belongs to, for messages.
    id: Box<str>,
    /// `None` once all is over.
    orders: Mutex<Option<VecDeque<O>>>,
    waker: Arc<Waker>,
    acknowledged: AtomicU64,
    /// Bytes and writes that wait for the far end to read.
    bytes_waiting: AtomicUsize,
    writes_waiting: AtomicUsize,
    ended: AtomicBool,
}

/// The most writes that may wait for one far end, however small: one that does not read must not
/// use up what its connection may have in flight.
const MOST_WRITES_WAITING: usize = 1024;

impl<O: Order> Mailbox<O> {
    pub(crate) fn new(id: &str) -> io::Result<Self> {
        Ok(Self {
            id: id.into(),
            orders: Mutex::new(Some(VecDeque::new())),
            waker: Arc::new(Waker::new()?),
            acknowledged: AtomicU64::new(0),
            bytes_waiting: AtomicUsize::new(0),
            writes_waiting: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
        })
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Gives an order; one that comes when all is over is answered at once.
    pub(crate) fn give(&self, order: O) {
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
                "cannot take a write for {}: {MOST_WRITES_WAITING} wait",
                O::destination(&self.id)
            );
            return reply(Err(Error::new(ErrorKind::StdinFull, message)));
        }
        let claimed =
            self.bytes_waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| {
                waiting.checked_add(size).filter(|sum| *sum <= MAX_STDIN_WAITING)
            });
        match claimed {
            Ok(_) => {
                self.writes_waiting.fetch_add(1, Ordering::Relaxed);
                self.give(O::write(bytes, eof, reply));
            }
            Err(waiting) => reply(Err(Error::new(
                ErrorKind::StdinFull,
                format!(
                    "cannot take {size} bytes for {}: {waiting} wait already, of at most \
                     {MAX_STDIN_WAITING}",
                    O::destination(&self.id)
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

    /// The connection has ended: what this belongs to is ended, and nobody is told.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.waker.wake();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(crate) fn waker(&self) -> &Arc<Waker> {
        &self.waker
    }

    pub(crate) fn take_orders(&self) -> VecDeque<O> {
        lock(&self.orders).as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(crate) fn take_acknowledged(&self) -> u64 {
        self.acknowledged.swap(0, Ordering::AcqRel)
    }

    /// A write that is over, whatever became of it.
    pub(crate) fn release_write(&self, bytes: usize) {
        self.bytes_waiting.fetch_sub(bytes, Ordering::Relaxed);
        self.writes_waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// No more orders are taken; those not yet looked at are answered.
    pub(crate) fn close(&self) {
        self.close_and_take().into_iter().for_each(|order| order.too_late(&self.id));
    }

    /// No more orders are taken. Returns those not yet looked at.
    pub(crate) fn close_and_take(&self) -> VecDeque<O> {
        lock(&self.orders).take().unwrap_or_default()
    }
}
