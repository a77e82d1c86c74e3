//! The processes of one owner (a connection, an environment), by id, and the end of all that comes
//! of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Command, Mailbox, Order, Sink, Terms};
use crate::descendants::{Branch, Scope};
use crate::error::{Error, ErrorKind, Result};
use crate::mailbox::Reply;
use crate::protocol::ProcessId;
use crate::registry::{Kind, Place, Registry};
use crate::sys::pty::Size;

/// The processes of one owner.
pub(crate) struct Family {
    registry: Arc<Registry<Order>>,
    /// All that has come of them.
    scope: Arc<Scope>,
}

impl Family {
    /// At most so many at a time.
    pub(crate) fn new(most: usize) -> Self {
        let kind = Kind { most, one: "process", many: "processes", option: " (--max-processes)" };
        Self { registry: Registry::new(kind), scope: Scope::new() }
    }

    /// Takes a place for a process that is about to be started.
    ///
    /// # Errors
    /// The id is in use, or there is no room.
    pub(crate) fn reserve(&self, id: &ProcessId) -> Result<Place<Order>> {
        self.registry.reserve(id)
    }

    /// Starts a process; the sink holds its place, which has this number. Answers what ends it, with
    /// all that comes of it, also when it is over itself.
    pub(crate) fn start<S: Sink>(
        &self,
        number: u64,
        id: &ProcessId,
        command: Command,
        terms: Terms,
        sink: S,
    ) -> Branch {
        let branch = self.scope.branch();
        if let Some(mailbox) = super::start(id.as_str(), command, terms, branch.clone(), sink) {
            self.registry.enter(number, &mailbox);
        }
        branch
    }

    /// Writes to the stdin of a process.
    pub(crate) fn write(&self, id: &ProcessId, bytes: Vec<u8>, eof: bool, reply: Reply<()>) {
        match self.find(id) {
            Some(mailbox) => mailbox.give_write(bytes, eof, reply),
            None => reply(Err(unknown(id))),
        }
    }

    /// Signals the group of a process; with a grace, SIGKILL follows.
    pub(crate) fn kill(
        &self,
        id: &ProcessId,
        signal: i32,
        grace: Option<Duration>,
        reply: Reply<bool>,
    ) {
        match self.find(id) {
            Some(mailbox) => mailbox.give(Order::Kill { signal, grace, reply }),
            None => reply(Ok(false)),
        }
    }

    /// Gives the terminal of a process another size.
    pub(crate) fn resize(&self, id: &ProcessId, size: Size, reply: Reply<()>) {
        match self.find(id) {
            Some(mailbox) => mailbox.give(Order::Resize { size, reply }),
            None => reply(Err(unknown(id))),
        }
    }

    /// So many bytes of a process's output have been taken.
    pub(crate) fn acknowledge(&self, id: &ProcessId, bytes: u64) {
        if let Some(mailbox) = self.find(id) {
            mailbox.acknowledge(bytes);
        }
    }

    fn find(&self, id: &ProcessId) -> Option<Arc<Mailbox>> {
        self.registry.find(id)
    }

    /// Ends all that has come of them and waits until it is gone, or `deadline` has come. Answers
    /// how many were not gone by then.
    pub(crate) fn end(&self, deadline: Instant) -> usize {
        let left = || deadline.saturating_duration_since(Instant::now());
        let groups = self.registry.begin_end();
        self.scope.end(&groups, left());
        let stuck = self.registry.wait_gone(left());
        // Once more: something may have been about to be started, and have got a child of its own
        // out of its group before it was killed. Nothing is being started any more.
        stuck + self.scope.end(&[], left())
    }
}

fn unknown(id: &ProcessId) -> Error {
    let message = format!("no process with the id {:?} is running", id.as_str());
    Error::new(ErrorKind::UnknownProcess, message)
}
