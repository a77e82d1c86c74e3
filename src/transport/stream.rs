//! What a WebSocket goes over: a TCP socket, or TLS over one.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use super::Target;
#[cfg(feature = "tls")]
use super::tls;
use super::writer::SharedSocket;

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

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.as_ref().read(buffer),
            #[cfg(feature = "tls")]
            Self::Tls(receiver) => receiver.read(buffer),
        }
    }
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
