//! The server: which connection. It listens, gives each connection a thread of its own, and ends
//! them all when it is told to.

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

pub(crate) use connection::{serve_in_memory, serve_stdio};
pub(crate) use epochs::Epochs;
#[cfg(fuzzing)]
pub(crate) use epochs::{Fence, Host};
pub(crate) use listener::Server;
#[cfg(test)]
pub(crate) use listener::Stopper;
pub(crate) use live::wait_for_none;
#[cfg(fuzzing)]
pub(crate) use session::Session;

use std::sync::Arc;
use std::time::Duration;

use crate::environment::Machine;
use crate::protocol::{InitializeResult, PROTOCOL_VERSION};
use crate::sys;
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
}

impl Config {
    /// For a peer in the same program, which can neither be a stranger nor be silent.
    fn in_memory() -> Self {
        Self {
            access: Access::default(),
            peer_timeout: Duration::MAX,
            max_message_bytes: 64 << 20,
            max_processes: 1024,
            max_connections: 1,
            epochs: Arc::default(),
        }
    }
}

/// What the environment is, for `initialize`.
fn describe(config: &Config, environment: &Machine, epoch: Option<u64>) -> InitializeResult {
    let text = |path: std::ffi::OsString| path.to_string_lossy().into_owned();
    InitializeResult {
        protocol_version: PROTOCOL_VERSION,
        server_name: "ta".to_owned(),
        server_version: env!("CARGO_PKG_VERSION").to_owned(),
        cwd: text(environment.cwd().into()),
        home: environment.home().map(|home| text(home.to_owned())),
        tmpdir: text(std::env::temp_dir().into()),
        shell: environment.shell().map(|shell| text(shell.into())),
        os: std::env::consts::OS.to_owned(),
        arch: std::env::consts::ARCH.to_owned(),
        hostname: sys::host::hostname(),
        pid: std::process::id(),
        epoch,
        max_message_bytes: config.max_message_bytes,
        features: ["process", "pty", "fs", "net", "epoch"].map(str::to_owned).to_vec(),
    }
}
