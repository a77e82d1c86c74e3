//! What a connection can be ordered to do.

use crate::error::{Error, ErrorKind};
use crate::mailbox::{self, Reply};
use crate::sys;

/// The orders for one connection.
pub(crate) type Mailbox<C> = mailbox::Mailbox<Order<C>>;

/// Whoever has asked for a connection to be closed. It is told by the sink, after the last word
/// about the connection.
pub(crate) trait Closer: Send + 'static {
    /// The connection was over already.
    fn too_late(self);
}

/// Something to do with a connection, carried out in the order given.
pub(crate) enum Order<C> {
    /// Bytes for the far end, the sending half closed after them if `eof`.
    Write { bytes: Vec<u8>, eof: bool, reply: Reply<()> },
    /// The end of it.
    Close(C),
}

impl<C: Closer> mailbox::Order for Order<C> {
    fn write(bytes: Vec<u8>, eof: bool, reply: Reply<()>) -> Self {
        Self::Write { bytes, eof, reply }
    }

    fn too_late(self, id: &str) {
        match self {
            Self::Write { reply, .. } => reply(Err(has_closed(id))),
            Self::Close(closer) => closer.too_late(),
        }
    }

    fn destination(id: &str) -> String {
        format!("connection {id:?}")
    }
}

/// The answer to an order for a connection that is over.
fn has_closed(id: &str) -> Error {
    Error::new(ErrorKind::UnknownConnection, format!("connection {id:?} has just been closed"))
}

/// The answer to what the host itself has cut short.
pub(super) fn closed_by_host(id: &str) -> Error {
    let what = format!("connection {id:?} was closed by net/close");
    Error::new(ErrorKind::Os(sys::errno::ECONNABORTED), what)
}

/// The answer to a write behind the end of what the host sends.
pub(super) fn already_ended(id: &str) -> Error {
    Error::os(sys::errno::EPIPE, cannot_write(id))
}

/// The start of a message about a write that failed.
pub(super) fn cannot_write(id: &str) -> String {
    format!("cannot write to connection {id:?}")
}
