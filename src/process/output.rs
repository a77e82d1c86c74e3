//! The reading side of a child's output, and the window it is sent through.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::Stream;
use crate::protocol::MAX_CHUNK;
use crate::sys;
use crate::sys::poll::{Interest, Ready};

/// A pipe of this size takes a third of the turns that the default of 64 KiB takes between a
/// child that writes without pause and the thread that reads from it.
const PIPE_SIZE: i32 = 256 * 1024;

/// One of a child's outputs.
pub(super) struct Output {
    stream: Stream,
    /// `None` once the end has been seen.
    from: Option<OwnedFd>,
    /// Nobody writes to it any more: what is in it is all that will come. It is not waited for
    /// any more, because a hang-up is told again and again.
    hung_up: bool,
    grown: bool,
}

impl Output {
    pub(super) fn new(stream: Stream, from: OwnedFd) -> Self {
        Self { stream, from: Some(from), hung_up: false, grown: false }
    }

    pub(super) fn stream(&self) -> Stream {
        self.stream
    }

    /// Whether all has been read.
    pub(super) fn ended(&self) -> bool {
        self.from.is_none()
    }

    /// What to wait for: data where `reads`, else only the end.
    pub(super) fn interest(&self, reads: bool) -> Option<(BorrowedFd<'_>, Interest)> {
        let from = self.from.as_ref()?;
        match (reads, self.hung_up) {
            (true, _) => Some((from.as_fd(), Interest::Read)),
            (false, true) => None,
            (false, false) => Some((from.as_fd(), Interest::HangUp)),
        }
    }

    /// Takes note of what a wait told. The end is seen although nothing may be read at the
    /// moment; data that is still there then waits for its turn.
    pub(super) fn note(&mut self, ready: Ready) {
        if ready.hung_up {
            self.hung_up = true;
            if self.from.as_ref().is_some_and(|from| sys::fd::readable_bytes(from.as_fd()) == 0) {
                self.from = None;
            }
        }
    }

    /// Reads one chunk of at most `limit` bytes into `buffer`. Nothing read and not ended means
    /// that there is nothing at the moment.
    pub(super) fn read(&mut self, buffer: &mut Vec<u8>, limit: usize) {
        buffer.clear();
        let Some(from) = &self.from else { return };
        match sys::fd::read_into(from.as_fd(), buffer, limit.min(MAX_CHUNK)) {
            Ok(0) => self.from = None,
            Ok(count) => {
                // A child with this much to say will have more.
                if count >= MAX_CHUNK / 2 && !self.grown {
                    self.grown = true;
                    sys::fd::grow_pipe(from.as_fd(), PIPE_SIZE);
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            // EIO is how a terminal tells that its last user has gone.
            Err(_) => self.from = None,
        }
    }
}

/// Bytes that may be sent before the host acknowledges some.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    limit: Option<u64>,
    owed: u64,
}

impl Window {
    pub(super) fn new(limit: Option<u64>) -> Self {
        Self { limit, owed: 0 }
    }

    /// How many bytes it lets through now.
    pub(super) fn room(&self) -> usize {
        let room = self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.owed));
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    pub(super) fn sent(&mut self, bytes: usize) {
        if self.limit.is_some() {
            self.owed = self.owed.saturating_add(bytes as u64);
        }
    }

    /// More than is owed is ignored.
    pub(super) fn acknowledge(&mut self, bytes: u64) {
        self.owed = self.owed.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_lets_through_what_is_not_owed_and_ignores_too_many_acknowledgements() {
        let mut window = Window::new(Some(10));
        window.sent(7);
        assert_eq!(window.room(), 3);
        window.sent(3);
        assert_eq!(window.room(), 0);
        window.acknowledge(4);
        assert_eq!(window.room(), 4);
        window.acknowledge(u64::MAX);
        assert_eq!(window.room(), 10);
        assert_eq!(Window::new(None).room(), usize::MAX);
    }
}
