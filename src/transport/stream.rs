//! What a WebSocket goes over: a TCP socket, or TLS over one.

use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

#[cfg(feature = "tls")]
use super::tls;
use super::writer::SharedSocket;
use super::{Target, Wait};
use crate::sys::fd::receive_into;
use crate::sys::poll::{Interest, wait_for};

/// The receiving side of a stream.
pub(crate) enum Stream {
    Plain(Arc<TcpStream>),
    #[cfg(feature = "tls")]
    Tls(tls::Receiver),
}

impl Stream {
    /// The socket underneath.
    pub(crate) fn socket(&self) -> &Arc<TcpStream> {
        match self {
            Self::Plain(socket) => socket,
            #[cfg(feature = "tls")]
            Self::Tls(receiver) => receiver.socket(),
        }
    }

    /// The sending side.
    pub(crate) fn target(&self) -> Box<dyn Target> {
        match self {
            Self::Plain(socket) => Box::new(SharedSocket(Arc::clone(socket))),
            #[cfg(feature = "tls")]
            Self::Tls(receiver) => Box::new(receiver.sender()),
        }
    }

    /// Reads so many bytes at most into what the buffer has room for, behind what it holds, and waits for
    /// so long; `WouldBlock` where nothing has come by then.
    pub(super) fn read(
        &mut self,
        buffer: &mut Vec<u8>,
        most: usize,
        wait: Wait,
    ) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => read_within(socket, buffer, most, wait),
            #[cfg(feature = "tls")]
            Self::Tls(receiver) => receiver.read(buffer, most, wait),
        }
    }

    /// Whether something has been read from the socket that has not been given yet.
    pub(super) fn holds_more(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            #[cfg(feature = "tls")]
            Self::Tls(receiver) => receiver.holds_more(),
        }
    }

    /// Whether what has been read is to be answered by a write, if only of nothing: TLS has messages
    /// of its own. It is so once.
    pub(super) fn owes_a_write(&mut self) -> bool {
        match self {
            Self::Plain(_) => false,
            #[cfg(feature = "tls")]
            Self::Tls(receiver) => receiver.owes_a_write(),
        }
    }
}

/// Reads so many bytes at most from a socket into what the buffer has room for, and waits for so long.
pub(super) fn read_within(
    socket: &TcpStream,
    buffer: &mut Vec<u8>,
    most: usize,
    wait: Wait,
) -> io::Result<usize> {
    let mut is_now = false;
    match wait {
        Wait::Forever => {}
        Wait::Not => return Err(io::ErrorKind::WouldBlock.into()),
        Wait::Until(deadline) => {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                is_now = true;
            } else if wait_for(socket.as_fd(), Interest::Read, Some(left))?.is_none() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
    }
    receive_into(socket.as_fd(), buffer, most, is_now)
}

/// For as long as there is no other who writes.
impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.as_ref().write(bytes),
            #[cfg(feature = "tls")]
            Self::Tls(receiver) => receiver.sender().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            #[cfg(feature = "tls")]
            Self::Tls(receiver) => receiver.sender().flush(),
        }
    }
}
