//! Writing past the writer thread: where nothing else waits to be written, whoever has a message
//! gives it to the socket at once, as far as that takes it without waiting. To wake a thread for
//! it takes longer than all else that happens to a short answer; and a chunk of output that has just
//! been made lies in the cache of the processor that made it.
//!
//! Order and frames stay whole by two things. A message goes past the thread only if everything
//! that was sent before it has been written: what is queued is counted before it is queued, and
//! taken off the count when it has been written. And one alone holds the baton, without which
//! nobody writes. What a socket does not take at once is left to the thread, baton and all.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::net::{SendFlags, send};

use super::writer::Framing;
use crate::buffers;
use crate::metrics::Traffic;
use crate::sync::lock;

/// What does not fit is not waited for, and a peer that has gone is an error. (Elsewhere than on
/// Linux that is left to the program, which ignores SIGPIPE as all of Rust's do.)
#[cfg(target_os = "linux")]
const AT_ONCE: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);
#[cfg(not(target_os = "linux"))]
const AT_ONCE: SendFlags = SendFlags::DONTWAIT;

/// Something that is dropped when a message has been written, or never will be.
pub(crate) type Share = Option<Box<dyn Send>>;

/// What a socket has not taken at once.
pub(super) struct Rest {
    pub(super) buffer: Vec<u8>,
    /// Where it begins.
    pub(super) start: usize,
    _share: Share,
}

/// What became of a message.
pub(super) enum Outcome {
    Written,
    /// Some of it is left to the writer thread, which has to be woken.
    Left,
    /// It has to be queued.
    Refused(Vec<u8>, Share),
}

/// The way past one writer thread.
pub(super) struct Direct {
    /// `None` for a stream that can only be written by waiting for it.
    socket: Option<Arc<TcpStream>>,
    framing: Framing,
    traffic: Arc<Traffic>,
    /// Items that are queued or being written. One that ends the stream stays counted.
    queued: AtomicUsize,
    /// Somebody writes.
    baton: AtomicBool,
    rest: Mutex<Option<Rest>>,
}

impl Direct {
    pub(super) fn new(
        socket: Option<Arc<TcpStream>>,
        framing: Framing,
        traffic: Arc<Traffic>,
    ) -> Self {
        Self {
            socket,
            framing,
            traffic,
            queued: AtomicUsize::new(0),
            baton: AtomicBool::new(false),
            rest: Mutex::new(None),
        }
    }

    /// An item is about to be queued.
    pub(super) fn announce(&self) {
        self.queued.fetch_add(1, Ordering::SeqCst);
    }

    /// So many items have been written, or will not be queued after all.
    pub(super) fn done(&self, items: usize) {
        self.queued.fetch_sub(items, Ordering::SeqCst);
    }

    /// Writes a message, if it is its turn.
    pub(super) fn write(&self, message: Vec<u8>, share: Share) -> Outcome {
        let Some(socket) = self.socket.as_ref().filter(|_| self.is_idle()) else {
            return Outcome::Refused(message, share);
        };
        if !self.try_take() {
            return Outcome::Refused(message, share);
        }
        // Something may have been queued, and even taken by the thread, before that.
        if !self.is_idle() {
            self.give_back();
            return Outcome::Refused(message, share);
        }
        let (buffer, start) = self.framing.seal(message);
        let bytes = buffer.get(start..).unwrap_or_default();
        // An error is told to whoever writes the rest.
        let taken = send(socket, bytes, AT_ONCE).unwrap_or(0);
        self.traffic.send(taken);
        if taken == bytes.len() {
            self.give_back();
            buffers::give(buffer);
            return Outcome::Written;
        }
        *lock(&self.rest) = Some(Rest { buffer, start: start + taken, _share: share });
        Outcome::Left
    }

    fn is_idle(&self) -> bool {
        self.queued.load(Ordering::SeqCst) == 0
    }

    fn try_take(&self) -> bool {
        self.baton.compare_exchange(false, true, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// For the writer thread: takes the baton, and what may have been left with it. Whoever else
    /// has it waits for nothing.
    pub(super) fn take(&self) -> Option<Rest> {
        while !self.try_take() {
            let rest = lock(&self.rest).take();
            if rest.is_some() {
                return rest;
            }
            thread::yield_now();
        }
        None
    }

    /// Gives the baton back.
    pub(super) fn give_back(&self) {
        self.baton.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::net::TcpListener;

    use tungstenite::WebSocket;
    use tungstenite::protocol::Role;

    use super::super::{Framing, Outbox, SharedSocket, message};
    use super::*;
    use crate::sys::poll::{Interest, Poll, Waker};

    /// Several senders, each in its own way, to a peer that takes its time.
    #[test]
    fn frames_are_whole_and_each_senders_are_in_order() {
        const EACH: usize = 1500;
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let target = Box::new(SharedSocket(Arc::new(near)));
        let (outbox, writer) =
            Outbox::start(target, Framing::WebSocketServer, || {}, || false).unwrap();
        let text = |sender: usize, number: usize| {
            // Now and then more than a socket takes at once.
            let size = if number % 100 == 7 { 3_000_000 } else { number % 9 * 700 };
            let mut buffer = message(Vec::new());
            buffer.extend_from_slice(format!("{sender} {number} {}", "x".repeat(size)).as_bytes());
            buffer
        };
        thread::scope(|scope| {
            let start = |run: Box<dyn FnOnce() + Send>| {
                thread::Builder::new().spawn_scoped(scope, run).unwrap();
            };
            for sender in 0..2 {
                let outbox = outbox.clone();
                start(Box::new(move || (0..EACH).for_each(|n| outbox.control(text(sender, n)))));
            }
            let bulk = outbox.clone();
            start(Box::new(move || (0..EACH).for_each(|n| bulk.bulk(text(2, n), Box::new(())))));
            let mut lane = outbox.lane();
            start(Box::new(move || {
                let waker = Arc::new(Waker::new().unwrap());
                for number in 0..EACH {
                    lane.send(text(3, number));
                    while !lane.ready(&waker) {
                        let mut poll = Poll::default();
                        poll.add(std::os::fd::AsFd::as_fd(&*waker), Interest::Read);
                        poll.wait(None).unwrap();
                        waker.reset();
                    }
                }
            }));
            let mut peer = WebSocket::from_raw_socket(far, Role::Client, None);
            let mut next = HashMap::new();
            for _ in 0..4 * EACH {
                let text = peer.read().unwrap().into_text().unwrap();
                let (sender, rest) = text.split_once(' ').unwrap();
                let (number, padding) = rest.split_once(' ').unwrap();
                assert!(padding.bytes().all(|byte| byte == b'x'));
                let next: &mut usize = next.entry(sender.to_owned()).or_default();
                assert_eq!(number.parse(), Ok(*next), "of sender {sender}");
                *next += 1;
            }
        });
        outbox.stop();
        writer.join().unwrap();
    }

    /// What is said last is written before whoever waits for that shuts the socket.
    #[test]
    fn the_last_bytes_are_written_when_the_wait_for_them_ends() {
        use std::io::Read;
        use std::net::Shutdown;
        use std::time::Duration;
        for _ in 0..200 {
            let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
            let near = Arc::new(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
            let (mut far, _) = listener.accept().unwrap();
            let target = Box::new(SharedSocket(Arc::clone(&near)));
            let (outbox, writer) =
                Outbox::start(target, Framing::WebSocketServer, || {}, || false).unwrap();
            let mut lane = outbox.lane();
            for _ in 0..8 {
                let mut long = message(Vec::new());
                long.resize(long.len() + 5000, b'x');
                lane.send(long);
            }
            outbox.close(1000, "the last");
            assert!(outbox.flush(Duration::from_secs(10)));
            near.shutdown(Shutdown::Write).unwrap();
            let mut all = Vec::new();
            far.read_to_end(&mut all).unwrap();
            assert!(all.ends_with(b"the last"));
            writer.join().unwrap();
        }
    }
}
