//! The server: which connection. It listens, gives each connection a thread of its own, and ends
//! them all when it is told to.

mod account;
mod codex;
mod connection;
mod epochs;
mod files;
mod listener;
mod live;
mod net;
mod processes;
mod responder;
mod session;
mod sink;

pub(crate) use codex::Sessions;
pub(crate) use connection::{serve_in_memory, serve_stdio};
pub(crate) use epochs::Epochs;
#[cfg(fuzzing)]
pub(crate) use epochs::{Fence, Host};
#[cfg(test)]
pub(crate) use listener::Stopper;
pub(crate) use listener::{Server, listen};
pub(crate) use live::wait_for_none;
#[cfg(fuzzing)]
pub(crate) use session::Session;

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::transport::http::Access;

/// How the server is set up.
#[derive(Debug)]
pub(crate) struct Config {
    /// Who may connect.
    pub(crate) access: Access,
    /// A peer that sends not a byte for so long is given up.
    pub(crate) peer_timeout: Duration,
    /// The longest message it takes.
    pub(crate) max_message_bytes: usize,
    /// The most processes of one connection.
    pub(crate) max_processes: usize,
    /// The most connections.
    pub(crate) max_connections: usize,
    /// Who has taken over.
    pub(crate) epochs: Arc<Epochs>,
    /// The sessions of the Codex dialect, where it is spoken.
    pub(crate) codex: Option<Arc<Sessions>>,
}

impl Config {
    /// What is said of a message that is too long.
    fn too_long(&self) -> Error {
        let most = self.max_message_bytes;
        let message = format!("the message is longer than {most} bytes (--max-message-bytes)");
        Error::new(ErrorKind::InvalidRequest, message)
    }

    /// For a peer in the same program, which can neither be a stranger nor be silent.
    fn in_memory() -> Self {
        Self {
            access: Access::default(),
            peer_timeout: Duration::MAX,
            max_message_bytes: 64 << 20,
            max_processes: 1024,
            max_connections: 1,
            epochs: Arc::default(),
            codex: None,
        }
    }
}
