//! One child process: a thread of its own that waits in one place for everything that can
//! happen to it, and a mailbox through which the connection gives it orders.
//!
//! The thing to know: exit, end of output, and "held" are three facts. A grandchild keeps the
//! pipe open after the child has exited, and dies of SIGPIPE if the reading end is closed.

mod command;
mod deadlines;
mod family;
mod order;
mod output;
mod stdin;
mod worker;

pub(crate) use command::{Command, Input};
pub(crate) use family::Family;
pub(crate) use order::{Mailbox, Order, number_of};

use std::sync::Arc;
use std::time::Duration;

use crate::descendants::Branch;
use crate::error::Error;
use crate::sys;
use crate::sys::child::{Group, Status};
use crate::sys::poll::Waker;

/// Which of its two outputs a chunk comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Standard output, or the terminal, or both outputs merged.
    Output,
    /// Standard error.
    Stderr,
}

/// The rules that a process runs under.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Terms {
    /// How many bytes of output may be unacknowledged; no limit without it.
    pub(crate) window: Option<u64>,
    /// How long it may run.
    pub(crate) timeout: Option<Duration>,
    /// How long it has from SIGTERM to SIGKILL when its time is up.
    pub(crate) grace: Option<Duration>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    /// What wait(2) said; `None` if it could not be reaped in time.
    pub(crate) status: Option<Status>,
    pub(crate) timed_out: bool,
    pub(crate) killed: bool,
    /// A descendant still holds the output open.
    pub(crate) output_held: bool,
    /// Bytes handed to the sink.
    pub(crate) stdout_bytes: u64,
    pub(crate) stderr_bytes: u64,
    /// The number after that of the last chunk.
    pub(crate) seq: u64,
    pub(crate) duration: Duration,
}

impl Ending {
    /// Exit code and signal name, as the protocol has them.
    pub(crate) fn code_and_signal(&self) -> (Option<i32>, Option<String>) {
        match self.status {
            Some(Status::Exited(code)) => (Some(code), None),
            Some(Status::Signaled(signal)) => (None, Some(sys::signal::name(signal))),
            None => (None, None),
        }
    }
}

/// Where a process's events go. They come from the process's own thread, in order.
pub(crate) trait Sink: Send + 'static {
    /// The program runs, as the leader of this group.
    fn started(&mut self, group: &Arc<Group>);

    /// It could not be started, or has been ended with its connection; the last event.
    fn failed(&mut self, error: Error);

    /// A chunk of output, taken in whole.
    fn output(&mut self, stream: Stream, seq: u64, chunk: &[u8]);

    /// Whether the sink would take another chunk. A sink that would not wakes the process's
    /// waker when that changes; until then the child is not read from.
    fn ready(&mut self, waker: &Arc<Waker>) -> bool;

    /// The process is over: nothing of it comes after this. Called when the sink is ready, so all that
    /// was sent before is on its way.
    fn ended(&mut self, ending: &Ending);

    /// Nothing that holds the process's output is left, or the connection has ended. What
    /// remains of its group, if anything does, is handed over. It comes just before the end is told,
    /// or at any time after that.
    fn gone(&mut self, remaining: Option<Arc<Group>>);
}

/// Starts a process on a thread of its own; the id is for messages. All else, a failure to start
/// too, is told to the sink. It ends when its mailbox tells it to, but whoever tells it ends what
/// runs.
fn start<S: Sink>(
    id: &str,
    command: Command,
    terms: Terms,
    branch: Branch,
    mut sink: S,
) -> Option<Arc<Mailbox>> {
    match Mailbox::new(id) {
        Ok(mailbox) => {
            let mailbox = Arc::new(mailbox);
            worker::start(command, terms, branch, Arc::clone(&mailbox), sink);
            Some(mailbox)
        }
        Err(error) => {
            sink.failed(Error::io(&error, format!("cannot start {:?}", command.name)));
            None
        }
    }
}
