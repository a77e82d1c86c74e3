//! The end of a connection: what is told to whom, and in which order.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::order::{Order, closed_by_host};
use super::worker::Worker;
use super::{Closer, Sink, socket};
use crate::buffers;
use crate::mailbox::Order as _;
use crate::protocol::MAX_CHUNK;
use crate::sys;
use crate::sys::poll::Interest;

/// How long what was written last may take to be taken after the host has closed a connection.
const LAST_SENT: Duration = Duration::from_secs(1);
/// How many connections of one host that is waited for at a time.
const MOST_DRAINING: usize = 64;

impl<C: Closer> Worker<'_, C> {
    /// It is over. The order matters: what the far end is to see first, then the writes, then the
    /// host, by one step that also frees the id (`Sink::tell_closed`), and whoever has asked for it.
    pub(super) fn finish<S: Sink<Closer = C>>(mut self, sink: &mut S) {
        self.stop_sending(&closed_by_host(self.mailbox.id()));
        if self.abandoned {
            self.reset_if_fenced();
            self.mailbox.close();
            return;
        }
        match &self.socket {
            // The far end hears it at once, and all that has been written before.
            Some(socket) if self.is_closed() => drop(socket::end_sending(socket.0.as_fd())),
            _ => self.socket = None,
        }
        sink.closed(self.failure.take());
        while !self.mailbox.has_ended() && !sink.tell_closed(self.mailbox.waker()) {
            self.wait_for_wake();
            self.refuse(self.mailbox.take_orders());
        }
        self.refuse(self.mailbox.close_and_take());
        sink.forgotten(std::mem::take(&mut self.closers));
        while !self.mailbox.has_ended() && !sink.ready(self.mailbox.waker()) {
            self.wait_for_wake();
        }
        // A few at a time: each has a thread and a descriptor beyond the limit on connections.
        if self.socket.is_some() {
            let draining = self.counts.draining.fetch_add(1, Ordering::Relaxed);
            if draining < MOST_DRAINING {
                self.drain(Instant::now() + LAST_SENT);
            }
            self.counts.draining.fetch_sub(1, Ordering::Relaxed);
        }
        self.reset_if_fenced();
    }

    /// Behind the fence the socket is closed with what the far end has not been sent yet, which
    /// the kernel would go on with for as long as that takes.
    fn reset_if_fenced(&self) {
        if let Some(socket) = &self.socket
            && self.counts.fenced.load(Ordering::Acquire)
        {
            socket::drop_unsent(socket.0.as_fd());
        }
    }

    /// Refuses what came when it was over.
    pub(super) fn refuse(&mut self, orders: VecDeque<Order<C>>) {
        for order in orders {
            match order {
                Order::Close(closer) => self.closers.push(closer),
                write @ Order::Write { .. } => write.too_late(self.mailbox.id()),
            }
        }
    }

    /// Reads and drops what the far end still sends, for a moment: a socket that is closed with
    /// something unread is reset, and what was written to it last may be lost.
    fn drain(&mut self, end: Instant) {
        let mut buffer = buffers::take();
        while let Some(socket) = &self.socket
            && Instant::now() < end
            && !self.mailbox.has_ended()
        {
            buffer.clear();
            match sys::fd::read_into(socket.0.as_fd(), &mut buffer, MAX_CHUNK) {
                Ok(0) => break,
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => break,
                Ok(_) => continue,
                Err(_) => {}
            }
            self.poll.clear();
            let woken = self.poll.add(self.mailbox.waker().as_fd(), Interest::Read);
            self.poll.add(socket.0.as_fd(), Interest::Read);
            self.pause(woken, Some(end));
        }
        buffers::give(buffer);
    }
}
