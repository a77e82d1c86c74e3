//! What waits to be written to a child's stdin.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::mailbox::{Mailbox, Reply, cannot_write, closed_stdin};
use crate::error::{Error, Result};
use crate::sys;

/// The writing side of a child's stdin: a pipe, or a terminal's master.
pub(super) struct Stdin {
    /// `None` once it is closed, or where there never was one to write to.
    to: Option<OwnedFd>,
    is_terminal: bool,
    queue: VecDeque<Write>,
    mailbox: Arc<Mailbox>,
}

struct Write {
    bytes: Vec<u8>,
    written: usize,
    eof: bool,
    /// What the mailbox has counted for it.
    charged: usize,
    reply: Option<Reply<()>>,
}

impl Stdin {
    pub(super) fn new(to: Option<OwnedFd>, is_terminal: bool, mailbox: Arc<Mailbox>) -> Self {
        Self { to, is_terminal, queue: VecDeque::new(), mailbox }
    }

    /// Queues what `process/exec` carries, closed after it.
    pub(super) fn feed(&mut self, bytes: Vec<u8>) {
        self.queue.push_back(Write { bytes, written: 0, eof: true, charged: 0, reply: None });
    }

    /// Queues a write, or refuses it where stdin is closed.
    pub(super) fn push(&mut self, bytes: Vec<u8>, eof: bool, reply: Reply<()>) {
        let ended = self.queue.back().is_some_and(|last| last.eof) && !self.is_terminal;
        if self.to.is_none() || ended {
            self.mailbox.release_write(bytes.len());
            return reply(Err(closed_stdin(self.mailbox.id())));
        }
        let charged = bytes.len();
        self.queue.push_back(Write { bytes, written: 0, eof, charged, reply: Some(reply) });
    }

    /// The descriptor to wait on for room, if something waits to be written.
    pub(super) fn wants_room(&self) -> Option<BorrowedFd<'_>> {
        self.to.as_ref().filter(|_| !self.queue.is_empty()).map(AsFd::as_fd)
    }

    /// The terminal, if stdin is one.
    pub(super) fn terminal(&self) -> Option<BorrowedFd<'_>> {
        self.to.as_ref().filter(|_| self.is_terminal).map(AsFd::as_fd)
    }

    /// Writes what fits, and answers the writes that are whole.
    pub(super) fn advance(&mut self) {
        while let (Some(to), Some(write)) = (&self.to, self.queue.front_mut()) {
            match write.advance(to.as_fd(), self.is_terminal) {
                Ok(false) => return,
                Ok(true) => {}
                Err(error) => {
                    let error = Error::io(&error, cannot_write(self.mailbox.id()));
                    return self.close_with(&error);
                }
            }
            let Some(write) = self.queue.pop_front() else { return };
            let closes = write.eof && !self.is_terminal;
            self.finish(write, Ok(()));
            if closes {
                return self.close();
            }
        }
    }

    /// Closes it; what still waits is refused.
    pub(super) fn close(&mut self) {
        self.close_with(&closed_stdin(self.mailbox.id()));
    }

    fn close_with(&mut self, error: &Error) {
        self.to = None;
        while let Some(write) = self.queue.pop_front() {
            self.finish(write, Err(error.clone()));
        }
    }

    fn finish(&self, write: Write, result: Result<()>) {
        if let Some(reply) = write.reply {
            self.mailbox.release_write(write.charged);
            reply(result);
        }
    }
}

impl Drop for Stdin {
    fn drop(&mut self) {
        self.close();
    }
}

impl Write {
    /// Whether all of it has been written.
    fn advance(&mut self, to: BorrowedFd<'_>, is_terminal: bool) -> io::Result<bool> {
        while self.written < self.bytes.len() {
            match sys::fd::write(to, &self.bytes[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        if self.eof && is_terminal {
            // Becomes one more byte of this write, so that a full terminal is waited for.
            self.eof = false;
            if let Some(character) = sys::pty::end_of_file(to)? {
                self.bytes = vec![character];
                self.written = 0;
                return self.advance(to, false);
            }
        }
        Ok(true)
    }
}
