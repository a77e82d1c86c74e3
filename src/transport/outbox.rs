//! The sending side of a connection: two lanes into one writer thread.
//!
//! Control (answers, pings) goes first, output after. Between the two, order holds where the
//! protocol promises it: whatever was in the control lane when an output item was put into its
//! lane is written before that item, because the writer empties the control lane after it has
//! taken an output item and before it writes that. So a spawn's answer comes before its first
//! output. What must come after output (an exec's answer, an exit) goes through the output lane.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, SendTimeoutError, Sender, TrySendError, bounded};

use super::direct::{Direct, Outcome, Share};
use super::writer::{Framing, Shared, Target, Writer};
use super::ws::Control;
use crate::metrics::Traffic;
use crate::sync::lock;
use crate::sys::poll::Waker;

/// Items in the output lane: 16 chunks of 64 KiB are enough to keep the writer busy while a
/// producer is woken, and bound what a host that does not read costs.
pub(super) const OUTPUT_LANE: usize = 16;
/// Items in the control lane from which on the connection's own thread waits for the writer
/// before it takes the next message. Answers to requests in flight come on top; those are
/// bounded by the limit on requests in flight.
const CONTROL_HIGH_WATER: usize = 256;
/// Room before each message for the longest WebSocket header: 10 bytes, and 4 of mask.
pub(super) const HEADROOM: usize = 14;

/// Starts a message: a buffer that already has room for the frame's header. Whoever builds the
/// message appends its text.
pub(crate) fn message(mut buffer: Vec<u8>) -> Vec<u8> {
    buffer.clear();
    buffer.extend_from_slice(&[0; HEADROOM]);
    buffer
}

pub(super) enum Item {
    /// From [`message`], and what is dropped when it has been written.
    Message(Vec<u8>, Share),
    /// Bytes of the transport's own: a pong, a ping.
    Raw(Vec<u8>),
    /// The last bytes of all.
    Last(Vec<u8>),
    /// From [`message`], to be written after all that is in the output lane now.
    After(Vec<u8>),
    /// Something was left by whoever wrote past the thread.
    Rest,
    /// Is told when all before it has been written.
    Barrier(Sender<()>),
    /// Nothing is written any more.
    Stop,
}

/// Who waits for room in the output lane, in order.
#[derive(Default)]
pub(super) struct Waiters {
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

    pub(super) fn wake(&self, most: usize) {
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
    direct: Arc<Direct>,
    /// How many answers wait for output.
    late: Arc<AtomicUsize>,
    traffic: Arc<Traffic>,
    framing: Framing,
    is_ending: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Outbox {
    /// Starts the writer thread of a stream. `on_failure` is called once if a write fails, to
    /// wake the connection's own thread; `is_ending` tells that thread, while it waits for the
    /// peer to read, that it need not.
    pub(crate) fn start(
        target: Box<dyn Target>,
        framing: Framing,
        on_failure: impl FnOnce() + Send + 'static,
        is_ending: impl Fn() -> bool + Send + Sync + 'static,
    ) -> io::Result<(Self, JoinHandle<()>)> {
        #[expect(
            clippy::disallowed_methods,
            reason = "bounded by CONTROL_HIGH_WATER and the limit \
            on requests in flight; a bounded channel would set its whole memory aside at once"
        )]
        let (control, control_items) = crossbeam_channel::unbounded();
        let (output, output_items) = bounded(OUTPUT_LANE);
        let waiters = Arc::new(Waiters::default());
        let traffic = Arc::new(Traffic::default());
        let direct = Arc::new(Direct::new(target.shared(), framing, Arc::clone(&traffic)));
        let late = Arc::new(AtomicUsize::new(0));
        let mut writer = Writer::new(
            target,
            framing,
            control_items,
            output_items,
            Shared {
                waiters: Arc::clone(&waiters),
                traffic: Arc::clone(&traffic),
                direct: Arc::clone(&direct),
                late: Arc::clone(&late),
            },
        );
        let write = move || {
            if writer.run().is_err() {
                on_failure();
            }
            let waiters = writer.waiters();
            drop(writer);
            // With the receivers gone every lane takes everything.
            waiters.wake(usize::MAX);
        };
        let thread = thread::Builder::new().name("writer".to_owned()).stack_size(256 * 1024);
        let thread = thread.spawn(write)?;
        let is_ending = Arc::new(is_ending);
        Ok((Self { control, output, waiters, direct, late, traffic, framing, is_ending }, thread))
    }

    /// Sends an answer, before any output that is not yet on its way.
    pub(crate) fn control(&self, message: Vec<u8>) {
        if let Err((message, share)) = self.write_now(message, None) {
            self.queue(Item::Message(message, share));
        }
    }

    /// Sends an answer after all output that is on its way now, whoever's that is.
    pub(crate) fn after_output(&self, message: Vec<u8>) {
        if let Err((message, _)) = self.write_now(message, None) {
            self.late.fetch_add(1, Ordering::Relaxed);
            self.queue(Item::After(message));
        }
    }

    /// Writes a message past the thread, which sees to what the socket does not take. The message
    /// comes back if it is not its turn.
    fn write_now(&self, message: Vec<u8>, share: Share) -> Result<(), (Vec<u8>, Share)> {
        match self.direct.write(message, share) {
            Outcome::Written => {}
            Outcome::Left => self.queue(Item::Rest),
            Outcome::Refused(message, share) => return Err((message, share)),
        }
        Ok(())
    }

    /// Puts an item into the control lane.
    fn queue(&self, item: Item) {
        self.direct.announce();
        let _ = self.control.send(item);
    }

    /// Sends an answer that may be long, among the output, and waits for room there. `share` is
    /// dropped when it has been written, or never will be.
    pub(crate) fn bulk(&self, message: Vec<u8>, share: Box<dyn Send>) {
        if let Err((message, share)) = self.write_now(message, Some(share)) {
            self.direct.announce();
            let _ = self.output.send(Item::Message(message, share));
        }
    }

    /// Puts an item into the output lane, if there is room. Once nobody writes any more it takes all.
    fn try_output(&self, item: Item) -> Result<(), Item> {
        self.direct.announce();
        match self.output.try_send(item) {
            Err(TrySendError::Full(item)) => {
                self.direct.done(1);
                Err(item)
            }
            Ok(()) | Err(TrySendError::Disconnected(_)) => Ok(()),
        }
    }

    /// Sends bytes of the transport's own.
    pub(crate) fn raw(&self, bytes: Vec<u8>) {
        self.queue(Item::Raw(bytes));
    }

    /// Sends a frame of the transport's own, where that has such a thing.
    fn frame(&self, what: Control, payload: &[u8], item: impl FnOnce(Vec<u8>) -> Item) {
        if let Some(frame) = self.framing.control(what, payload) {
            self.queue(item(frame));
        }
    }

    /// Sends a ping.
    pub(crate) fn ping(&self) {
        self.frame(Control::Ping, &[], Item::Raw);
    }

    /// Answers a ping.
    pub(super) fn pong(&self, payload: &[u8]) {
        self.frame(Control::Pong, payload, Item::Raw);
    }

    /// Answers the peer's close frame.
    pub(super) fn answer_close(&self, payload: &[u8]) {
        self.frame(Control::Close, payload, Item::Raw);
    }

    /// Says that this is the end, and why; what is sent after it is dropped.
    pub(crate) fn close(&self, code: u16, reason: &str) {
        let payload = [&code.to_be_bytes(), reason.as_bytes()].concat();
        self.frame(Control::Close, &payload, Item::Last);
    }

    /// Ends the writer thread once it has written what it is writing.
    pub(crate) fn stop(&self) {
        self.queue(Item::Stop);
    }

    /// Waits until what is in the control lane has been written. `false` if that took longer.
    pub(crate) fn flush(&self, timeout: Duration) -> bool {
        self.await_written(timeout) != Err(RecvTimeoutError::Timeout)
    }

    /// The same. It is `Disconnected` where nothing is written any more.
    fn await_written(&self, timeout: Duration) -> Result<(), RecvTimeoutError> {
        let (sender, written) = bounded(1);
        self.queue(Item::Barrier(sender));
        written.recv_timeout(timeout)
    }

    /// Whether the stream is a pipe to the only peer.
    pub(crate) fn is_stdio(&self) -> bool {
        self.framing == Framing::Lines
    }

    /// What the connection has carried.
    pub(crate) fn traffic(&self) -> &Arc<Traffic> {
        &self.traffic
    }

    /// A number that changes while the peer takes something.
    pub(crate) fn progress(&self) -> u64 {
        self.traffic.sent()
    }

    /// Whether answers wait to be written, long ones not counted.
    pub(crate) fn has_answers(&self) -> bool {
        !self.control.is_empty()
    }

    /// Waits until all that has been sent through either lane has been written, the peer has taken
    /// nothing for `patience`, or `hurry` says that there is no time.
    pub(crate) fn drain(&self, patience: Duration, hurry: &dyn Fn() -> bool) {
        const GLANCE: Duration = Duration::from_millis(100);
        let (sender, written) = bounded(1);
        // Whatever is in the control lane is written before an item of the output lane.
        let mut barrier = Some(Item::Barrier(sender));
        self.direct.announce();
        let (mut seen, mut since) = (self.progress(), Instant::now());
        while since.elapsed() < patience && !hurry() {
            if let Some(item) = barrier.take() {
                match self.output.send_timeout(item, GLANCE) {
                    Ok(()) => {}
                    Err(SendTimeoutError::Timeout(item)) => barrier = Some(item),
                    Err(SendTimeoutError::Disconnected(_)) => return,
                }
            } else if written.recv_timeout(GLANCE) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let now = self.progress();
            if now != seen {
                (seen, since) = (now, Instant::now());
            }
        }
    }

    /// For the connection's own thread, after each message: waits while too many answers wait to
    /// be written. `false` if the peer took none of them for so long, or the connection is to end.
    pub(crate) fn throttle(&self, timeout: Duration) -> bool {
        const GLANCE: Duration = Duration::from_millis(100);
        // Without one where the peer cannot be cut off from this one.
        let deadline = Instant::now().checked_add(timeout);
        let is_late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        while self.is_crowded() {
            if (self.is_ending)() || is_late() {
                return false;
            }
            let start = Instant::now();
            // (How it has ended the source tells.)
            if self.await_written(GLANCE) == Err(RecvTimeoutError::Disconnected) {
                return true;
            }
            // What waits for output is not written by that.
            if self.is_crowded() {
                thread::sleep((start + GLANCE / 10).saturating_duration_since(Instant::now()));
            }
        }
        true
    }

    /// Whether so many answers wait to be written that no more are to be caused.
    pub(super) fn is_crowded(&self) -> bool {
        self.control.len() + self.late.load(Ordering::Relaxed) >= CONTROL_HIGH_WATER
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
    /// Few: a chunk, the last word about the process or the connection, and the answers to those
    /// who asked for its end.
    held: VecDeque<Item>,
}

impl Lane {
    /// Sends a message now or as soon as there is room.
    pub(crate) fn send(&mut self, message: Vec<u8>) {
        let message = if self.held.is_empty() {
            match self.outbox.write_now(message, None) {
                Ok(()) => return,
                Err((message, _)) => message,
            }
        } else {
            message
        };
        self.hold(message);
        self.push();
    }

    fn hold(&mut self, message: Vec<u8>) {
        self.held.push_back(Item::Message(message, None));
    }

    /// Sends the last word, after all that was sent through this lane. What is in the way of others is
    /// not waited for: one more chunk of each of a hundred streams takes longer than an end may.
    pub(crate) fn send_last(&mut self, message: Vec<u8>) {
        if self.push() {
            self.outbox.after_output(message);
        } else {
            self.hold(message);
        }
    }

    /// Puts a message into the lane if there is room at this moment. If not, it comes back, and
    /// `waker` is woken when there may be room.
    pub(crate) fn offer(&mut self, message: Vec<u8>, waker: &Arc<Waker>) -> Result<(), Vec<u8>> {
        self.try_put(message).or_else(|message| {
            self.await_room(waker);
            // The writer may have made room, and found nobody waiting, just before.
            self.try_put(message)
        })
    }

    fn try_put(&mut self, message: Vec<u8>) -> Result<(), Vec<u8>> {
        if !self.push() {
            return Err(message);
        }
        match self.outbox.try_output(Item::Message(message, None)) {
            Err(Item::Message(message, _)) => Err(message),
            _ => Ok(()),
        }
    }

    fn await_room(&mut self, waker: &Arc<Waker>) {
        let new = || Waiter { queued: AtomicBool::new(false), waker: Arc::clone(waker) };
        let waiter = self.waiter.get_or_insert_with(|| Arc::new(new()));
        self.outbox.waiters.push(waiter);
    }

    /// Whether all that was sent is in the lane. If not, `waker` is woken when there may be
    /// room.
    pub(crate) fn ready(&mut self, waker: &Arc<Waker>) -> bool {
        if self.push() {
            return true;
        }
        self.await_room(waker);
        // The writer may have made room, and found nobody waiting, just before.
        self.push()
    }

    /// What the connection has carried.
    pub(crate) fn traffic(&self) -> &Traffic {
        &self.outbox.traffic
    }

    fn push(&mut self) -> bool {
        while let Some(item) = self.held.pop_front() {
            if let Err(item) = self.outbox.try_output(item) {
                self.held.push_front(item);
                return false;
            }
        }
        true
    }
}
