//! A child's stdin.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::order::{Mailbox, Order, cannot_write, closed_stdin};
use crate::error::Error;
use crate::mailbox::Reply;
use crate::sys;
use crate::writes::{Destination, End, Progress, Writes};

/// The writing side of a child's stdin: a pipe, or a terminal's master.
pub(super) struct Stdin {
    /// `None` once it is closed, or where there never was one to write to.
    to: Option<Pipe>,
    writes: Writes<Order>,
    mailbox: Arc<Mailbox>,
}

struct Pipe {
    fd: OwnedFd,
    is_terminal: bool,
}

impl Stdin {
    pub(super) fn new(to: Option<OwnedFd>, is_terminal: bool, mailbox: Arc<Mailbox>) -> Self {
        let to = to.map(|fd| Pipe { fd, is_terminal });
        Self { to, writes: Writes::new(Arc::clone(&mailbox)), mailbox }
    }

    /// Queues what `process/exec` carries, closed after it.
    pub(super) fn feed(&mut self, bytes: Vec<u8>) {
        self.writes.feed(bytes);
    }

    /// Queues a write, or refuses it where stdin is closed.
    pub(super) fn push(&mut self, bytes: Vec<u8>, eof: bool, reply: Reply<()>) {
        // After the end of a terminal's input more can follow.
        let takes = |to: &Pipe| to.is_terminal || !self.writes.will_end();
        if self.to.as_ref().is_some_and(takes) {
            self.writes.push(bytes, eof, reply);
        } else {
            self.writes.refuse(bytes, reply, closed_stdin(self.mailbox.id()));
        }
    }

    /// The descriptor to wait on for room, if something waits to be written.
    pub(super) fn wants_room(&self) -> Option<BorrowedFd<'_>> {
        self.to.as_ref().filter(|_| !self.writes.is_empty()).map(|to| to.fd.as_fd())
    }

    /// The terminal, if stdin is one.
    pub(super) fn terminal(&self) -> Option<BorrowedFd<'_>> {
        self.to.as_ref().filter(|to| to.is_terminal).map(|to| to.fd.as_fd())
    }

    /// Writes what fits, and answers the writes that are whole.
    pub(super) fn advance(&mut self) {
        let Some(to) = &mut self.to else { return };
        match self.writes.advance(to) {
            Ok(Progress::Open) => {}
            Ok(Progress::Ended) => self.close(),
            Err(error) => {
                self.close_with(&Error::io(&error, cannot_write(self.mailbox.id())));
            }
        }
    }

    /// Closes it; what still waits is refused.
    pub(super) fn close(&mut self) {
        self.close_with(&closed_stdin(self.mailbox.id()));
    }

    fn close_with(&mut self, error: &Error) {
        self.to = None;
        self.writes.refuse_all(error);
    }
}

impl Drop for Stdin {
    fn drop(&mut self) {
        self.close();
    }
}

impl Destination for Pipe {
    fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        sys::fd::write_slices(self.fd.as_fd(), slices)
    }

    fn end(&mut self) -> io::Result<End> {
        if !self.is_terminal {
            return Ok(End::Ended);
        }
        let character = sys::pty::end_of_file(self.fd.as_fd())?;
        Ok(End::By(character.into_iter().collect()))
    }
}
