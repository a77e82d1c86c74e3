//! What a process can be ordered to do.

use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::mailbox::{self, Reply};
use crate::protocol::SignalName;
use crate::sys;
use crate::sys::pty::Size;

/// The orders for one process.
pub(crate) type Mailbox = mailbox::Mailbox<Order>;

/// Something to do with a process, carried out in the order given.
pub(crate) enum Order {
    /// Bytes for its stdin, closed after them if `eof`.
    Write { bytes: Vec<u8>, eof: bool, reply: Reply<()> },
    /// A signal for its group, and SIGKILL that much later.
    Kill { signal: i32, grace: Option<Duration>, reply: Reply<bool> },
    /// Another size for its terminal.
    Resize { size: Size, reply: Reply<()> },
}

impl mailbox::Order for Order {
    fn write(bytes: Vec<u8>, eof: bool, reply: Reply<()>) -> Self {
        Self::Write { bytes, eof, reply }
    }

    fn too_late(self, id: &str) {
        match self {
            Self::Write { reply, .. } => reply(Err(closed_stdin(id))),
            Self::Kill { reply, .. } => reply(Ok(false)),
            Self::Resize { reply, .. } => reply(Err(has_ended(id))),
        }
    }

    fn destination(id: &str) -> String {
        format!("the stdin of process {id:?}")
    }
}

/// The number of a signal.
///
/// # Errors
/// There is none of that name or number.
pub(crate) fn number_of(signal: &SignalName) -> Result<i32> {
    let (number, shown) = match signal {
        SignalName::Name(name) => (sys::signal::by_name(name), format!("{name:?}")),
        SignalName::Number(number) => (sys::signal::by_number(*number), number.to_string()),
    };
    number.ok_or_else(|| Error::params(format!("signal: there is no signal {shown}")))
}

/// The answer to a write that nothing can read any more.
pub(super) fn closed_stdin(id: &str) -> Error {
    Error::os(sys::errno::EPIPE, cannot_write(id))
}

/// The start of a message about a write that failed.
pub(super) fn cannot_write(id: &str) -> String {
    format!("cannot write to the stdin of process {id:?}")
}

/// The answer to an order for a process that is over.
pub(super) fn has_ended(id: &str) -> Error {
    Error::new(ErrorKind::UnknownProcess, format!("process {id:?} has just ended"))
}
