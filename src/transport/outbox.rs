//! The sending side of a connection: two lanes into one writer thread.
//!
//! Control (answers, pings) goes first, output after. Between the two, order holds where the
//! protocol promises it: whatever was in the control lane when an output item was put into its
//! lane is written before that item, because the writer empties the control lane after it has
//! taken an output item and before it writes that. So a spawn's answer comes before its first
//! output. What must come after output (an exec's answer, an exit) goes through the output lane.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded, select};

use super::ws;
use crate::buffers;
use crate::sync::lock;
use crate::sys::poll::{Interest, Waker, wait_for};

/// Items in the output lane: 16 chunks of 64 KiB are enough to keep the writer busy while a
/// producer is woken, and bound what a host that does not read costs.
const OUTPUT_LANE: usize = 16;
/// Items in the control lane from which on the connection's own thread waits for the writer
/// before it takes the next message. Answers to requests in flight come on top; those are
/// bounded by the limit on requests in flight.
const CONTROL_HIGH_WATER: usize = 256;
/// At most this much is given to one write.
const BATCH_BYTES: usize = 512 * 1024;
const BATCH_ITEMS: usize = 64;
/// Room before each message for the longest WebSocket header: 10 bytes, and 4 of mask.
pub(super) const HEADROOM: usize = 14;

/// A stream's sending side.
pub(crate) trait Target: Write + AsFd + Send {}
impl Target for SharedSocket {}
impl Target for std::os::unix::net::UnixStream {}
impl Target for std::fs::File {}

/// The sending side of a socket of which others hold the receiving side, or a hand on the brake:
/// one descriptor for all of them.
pub(crate) struct SharedSocket(pub(crate) Arc<TcpStream>);

impl Write for SharedSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.as_ref().write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.as_ref().write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for SharedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// How messages are told apart on the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// WebSocket text frames, as a server sends them.
    WebSocketServer,
    /// The same as a client sends them: masked.
    WebSocketClient,
    /// A line each.
    Lines,
}

/// Starts a message: a buffer that already has room for the frame's header. Whoever builds the
/// message appends its text.
pub(crate) fn message(mut buffer: Vec<u8>) -> Vec<u8> {
    buffer.clear();
    buffer.extend_from_slice(&[0; HEADROOM]);
    buffer
}

enum Item {
    /// From [`message`].
    Message(Vec<u8>),
    /// Bytes of the transport's own: a pong, a ping.
    Raw(Vec<u8>),
    /// The last bytes of all.
    Last(Vec<u8>),
    /// Is told when all before it has been written.
    Barrier(Sender<()>),
    /// Nothing is written any more.
    Stop,
}

/// Who waits for room in the output lane, in order.
#[derive(Default)]
struct Waiters {
    count: AtomicUsize,
    queue: Mutex<VecDeque<Arc<Waiter>>>,
}

struct Waiter {
    queued: AtomicBool,
    waker: Arc<Waker>,
}

impl Waiters {
    fn push(&self, waiter: &Arc<Waiter>) {
        if !waiter.queued.swap(true, Ordering::AcqRel) {
            lock(&self.queue).push_back(Arc::clone(waiter));
            self.count.fetch_add(1, Ordering::Release);
        }
    }

    fn wake(&self, most: usize) {
        for _ in 0..most.min(self.count.load(Ordering::Acquire)) {
            let Some(waiter) = lock(&self.queue).pop_front() else { return };
            self.count.fetch_sub(1, Ordering::Release);
            waiter.queued.store(false, Ordering::Release);
            waiter.waker.wake();
        }
    }
}

/// Sends to one connection. Once the connection has ended, what is sent is dropped: whoever
/// sends learns of the end from the session, not from here.
#[derive(Clone)]
pub(crate) struct Outbox {
    control: Sender<Item>,
    output: Sender<Item>,
    waiters: Arc<Waiters>,
    framing: Framing,
}

impl Outbox {
    /// Starts the writer thread of a stream. `on_failure` is called once if a write fails, to
    /// wake the connection's own thread.
    pub(crate) fn start(
        target: Box<dyn Target>,
        framing: Framing,
        on_failure: impl FnOnce() + Send + 'static,
    ) -> io::Result<(Self, JoinHandle<()>)> {
        #[expect(
            clippy::disallowed_methods,
            reason = "bounded by CONTROL_HIGH_WATER and the limit \
            on requests in flight; a bounded channel would set its whole memory aside at once"
        )]
        let (control, control_items) = crossbeam_channel::unbounded();
        let (output, output_items) = bounded(OUTPUT_LANE);
        let waiters = Arc::new(Waiters::default());
        let mut writer = Writer {
            target,
            framing,
            control: control_items,
            output: output_items,
            waiters: Arc::clone(&waiters),
            batch: Vec::new(),
            barriers: Vec::new(),
            last: false,
        };
        let write = move || {
            if writer.run().is_err() {
                on_failure();
            }
            let waiters = Arc::clone(&writer.waiters);
            drop(writer);
            // With the receivers gone every lane takes everything.
            waiters.wake(usize::MAX);
        };
        let thread = thread::Builder::new().name("writer".to_owned()).stack_size(256 * 1024);
        let thread = thread.spawn(write)?;
        Ok((Self { control, output, waiters, framing }, thread))
    }

    /// Sends an answer, before any output that is not yet on its way.
    pub(crate) fn control(&self, message: Vec<u8>) {
        let _ = self.control.send(Item::Message(message));
    }

    /// Sends bytes of the transport's own.
    pub(crate) fn raw(&self, bytes: Vec<u8>) {
        let _ = self.control.send(Item::Raw(bytes));
    }

    /// Sends a ping, where the transport has such a thing.
    pub(crate) fn ping(&self) {
        match self.framing {
            Framing::WebSocketServer => self.raw(vec![0x89, 0]),
            Framing::WebSocketClient => {
                let [a, b, c, d] = ws::new_mask();
                self.raw(vec![0x89, 0x80, a, b, c, d]);
            }
            Framing::Lines => {}
        }
    }

    /// Sends the last bytes of all; what is sent after them is dropped.
    pub(crate) fn last(&self, bytes: Vec<u8>) {
        let _ = self.control.send(Item::Last(bytes));
    }

    /// Ends the writer thread once it has written what it is writing.
    pub(crate) fn stop(&self) {
        let _ = self.control.send(Item::Stop);
    }

    /// Waits until what is in the control lane has been written. `false` if that took longer.
    pub(crate) fn flush(&self, timeout: Duration) -> bool {
        let (sender, written) = bounded(1);
        let _ = self.control.send(Item::Barrier(sender));
        !matches!(written.recv_timeout(timeout), Err(crossbeam_channel::RecvTimeoutError::Timeout))
    }

    /// For the connection's own thread, after each message: waits while too many answers wait to
    /// be written. `false` if the peer took none of them for so long.
    pub(crate) fn throttle(&self, timeout: Duration) -> bool {
        self.control.len() < CONTROL_HIGH_WATER || self.flush(timeout)
    }

    /// A place in the output lane for one producer.
    pub(crate) fn lane(&self) -> Lane {
        Lane { outbox: self.clone(), waiter: None, held: VecDeque::new() }
    }
}

/// A producer's access to the output lane. It holds what the lane has no room for.
pub(crate) struct Lane {
    outbox: Outbox,
    waiter: Option<Arc<Waiter>>,
    /// At most two: a chunk, and the last word about the process.
    held: VecDeque<Item>,
}

impl Lane {
    /// Sends a message now or as soon as there is room.
    pub(crate) fn send(&mut self, message: Vec<u8>) {
        self.held.push_back(Item::Message(message));
        self.push();
    }

    /// Whether all that was sent is in the lane. If not, `waker` is woken when there may be
    /// room.
    pub(crate) fn ready(&mut self, waker: &Arc<Waker>) -> bool {
        if self.push() {
            return true;
        }
        let new = || Waiter { queued: AtomicBool::new(false), waker: Arc::clone(waker) };
        let waiter = self.waiter.get_or_insert_with(|| Arc::new(new()));
        self.outbox.waiters.push(waiter);
        // The writer may have made room, and found nobody waiting, just before.
        self.push()
    }

    fn push(&mut self) -> bool {
        while let Some(item) = self.held.pop_front() {
            match self.outbox.output.try_send(item) {
                Ok(()) | Err(TrySendError::Disconnected(_)) => {}
                Err(TrySendError::Full(item)) => {
                    self.held.push_front(item);
                    return false;
                }
            }
        }
        true
    }
}

struct Writer {
    target: Box<dyn Target>,
    framing: Framing,
    control: Receiver<Item>,
    output: Receiver<Item>,
    waiters: Arc<Waiters>,
    /// Frames to write, and where each starts in its buffer.
    batch: Vec<(Vec<u8>, usize)>,
    barriers: Vec<Sender<()>>,
    last: bool,
}

impl Writer {
    fn run(&mut self) -> io::Result<()> {
        while self.collect() {
            write_all(self.target.as_mut(), &self.batch)?;
            for (buffer, _) in self.batch.drain(..) {
                buffers::give(buffer);
            }
            for barrier in self.barriers.drain(..) {
                let _ = barrier.send(());
            }
            if self.last {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Waits for something to write and takes what is there. `false` when nothing will come.
    fn collect(&mut self) -> bool {
        if self.output.is_empty() {
            // Whoever was woken for room and did not use it must not leave the others waiting.
            self.waiters.wake(usize::MAX);
        }
        let mut taken = 0;
        let first = select! {
            recv(self.control) -> item => item.map(|item| (item, false)),
            recv(self.output) -> item => item.map(|item| (item, true)),
        };
        let Ok((item, is_output)) = first else { return false };
        let mut bytes = 0;
        let mut next = Some((item, is_output));
        while let Some((item, is_output)) = next {
            if is_output {
                taken += 1;
                while let Ok(item) = self.control.try_recv() {
                    bytes += self.add(item);
                }
            }
            bytes += self.add(item);
            let full = self.last || bytes >= BATCH_BYTES || self.batch.len() >= BATCH_ITEMS;
            next = if full { None } else { self.try_next() };
        }
        self.waiters.wake(taken);
        true
    }

    fn try_next(&self) -> Option<(Item, bool)> {
        let control = self.control.try_recv().map(|item| (item, false));
        control.or_else(|_| self.output.try_recv().map(|item| (item, true))).ok()
    }

    fn add(&mut self, item: Item) -> usize {
        if self.last {
            return 0;
        }
        let (buffer, start) = match item {
            Item::Message(buffer) => self.framing.seal(buffer),
            Item::Raw(bytes) => (bytes, 0),
            Item::Last(bytes) => {
                self.last = true;
                (bytes, 0)
            }
            Item::Barrier(sender) => {
                self.barriers.push(sender);
                return 0;
            }
            Item::Stop => {
                self.last = true;
                return 0;
            }
        };
        let size = buffer.len() - start;
        self.batch.push((buffer, start));
        size
    }
}

impl Framing {
    /// Completes a message's frame; answers where it starts.
    fn seal(self, mut buffer: Vec<u8>) -> (Vec<u8>, usize) {
        let start = match self {
            Self::WebSocketServer => ws::write_header(&mut buffer, None),
            Self::WebSocketClient => ws::write_header(&mut buffer, Some(ws::new_mask())),
            Self::Lines => {
                buffer.push(b'\n');
                HEADROOM
            }
        };
        (buffer, start)
    }
}

/// Writes all frames with as few calls as it takes, and waits where the stream, which may have
/// been made non-blocking by whoever shares it, has no room.
fn write_all(target: &mut dyn Target, batch: &[(Vec<u8>, usize)]) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> =
        batch.iter().map(|(buffer, start)| IoSlice::new(&buffer[*start..])).collect();
    let mut slices = slices.as_mut_slice();
    // Empty frames would make a write of nothing look like a closed stream.
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match target.write_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => IoSlice::advance_slices(&mut slices, count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait_for(target.as_fd(), Interest::Write, None)?;
            }
            Err(error) => return Err(error),
        }
    }
    target.flush()
}
