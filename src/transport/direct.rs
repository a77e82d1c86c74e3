//! Writing past the writer thread: where nothing else waits to be written, whoever has a message
//! gives it to the socket at once, as far as that takes it without waiting. To wake a thread for
//! it takes longer than all else that happens to a short answer.
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
    /// Items that are queued or being written. One that ends the stream stays counted.
    queued: AtomicUsize,
    /// Somebody writes.
    baton: AtomicBool,
    rest: Mutex<Option<Rest>>,
}

impl Direct {
    pub(super) fn new(socket: Option<Arc<TcpStream>>, framing: Framing) -> Self {
        Self {
            socket,
            framing,
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
