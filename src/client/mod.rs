//! The host's side: a connection to an environment, the processes that run there, and the
//! connections that lead on from there.
//!
//! The hazard to know: whoever starts a process must keep taking its events, or the process
//! stops when its window is full. It stops alone: nothing else on the connection waits for it.
//!
//! An agent need not know whether its environment is elsewhere; it holds an
//! [`ExecEnvironment`](crate::environment::ExecEnvironment), which may be a client:
//!
//! ```
//! use ta_exec::client::ClientOptions;
//! use ta_exec::environment::{ExecEnvironment, LocalExecEnvironment, RemoteExecEnvironment};
//! use ta_exec::protocol::ExecParams;
//!
//! # fn main() -> ta_exec::Result<()> {
//! // Over the protocol, within this program; elsewhere it is `websocket` or `stdio`:
//! // ExecClient::stdio(&["docker", "exec", "-i", "box", "/ta", "exec-server", "--stdio"])
//! let client = ClientOptions::new().in_memory(&LocalExecEnvironment::new(None)?)?;
//! let environment: Box<dyn ExecEnvironment> = Box::new(RemoteExecEnvironment::new(client)?);
//! let mut output = Vec::new();
//! let process = environment.exec(&ExecParams::new("echo hello; exit 3"))?;
//! let exit = process.wait(|_stream, bytes| output.extend_from_slice(bytes))?;
//! assert_eq!((output.as_slice(), exit.exit_code), (&b"hello\n"[..], Some(3)));
//! # Ok(())
//! # }
//! ```

mod command;
mod dispatch;
mod exposure;
mod files;
mod link;
mod memory;
mod net;
mod process;
mod reach;
mod reconnect;
#[cfg(feature = "host")]
mod ssh;
#[cfg(feature = "tls")]
mod trust;
mod turns;
mod way;
mod websocket;

pub use crate::environment::{
    Answer, Process, ProcessControl, ProcessEvent, ProcessExit, ProcessStdin, Stream,
};
pub(crate) use dispatch::{Known, loss, speaks};
pub(crate) use link::{Carrier, Opened};
pub use net::{ConnectionEvent, ConnectionWriter, RemoteConnection};

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::environment::LocalExecEnvironment;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::{Empty, ExecParams, InitializeParams, InitializeResult, SpawnParams, method};
#[cfg(feature = "host")]
use crate::ssh::SshHost;
use crate::sys;
use crate::transport::Patience;
use exposure::Exposure;
use link::Link;
use reconnect::Reconnecting;
use way::{Terms, Way};
use websocket::Server;

/// How long it may take to open a way.
const OPENING: Duration = Duration::from_secs(60);
/// How long saying goodbye may take.
const FAREWELL: Duration = Duration::from_millis(500);
/// A server that sends not a byte for so long, although it is pinged, has gone.
const PEER: Duration = Duration::from_secs(60);
/// Nobody is given up sooner.
const SHORTEST_SILENCE: Duration = Duration::from_millis(100);
/// For whoever says forever; an instant that far off can still be told.
const LONGEST_PATIENCE: Duration = Duration::from_secs(365 * 24 * 3600);
/// The longest message that is taken from a server.
const MAX_MESSAGE: usize = 256 * 1024 * 1024;

/// A way to an environment. Clones share it; it is closed when the last one has been dropped, and
/// everything that was started through it ends then: whoever still holds a process or a connection
/// of it is told so (`ConnectionLost`).
///
/// When its connection is lost, what was in flight fails (`ConnectionLost`; it is never sent again),
/// the processes and connections of it have ended, and the next call makes a new one. Where a newer
/// host has taken over (`StaleEpoch`) that is final.
#[derive(Clone)]
pub struct ExecClient {
    inner: Arc<Reconnecting>,
}

/// How a client is to be, beyond what is usual.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    epoch: Option<u64>,
    patience: Duration,
    peer: Patience,
    ca_file: Option<PathBuf>,
    exposure: Exposure,
}

impl Default for ClientOptions {
    fn default() -> Self {
        let (patience, peer) = (Duration::from_secs(10), Patience::new(PEER));
        let exposure = Exposure::told_to_nobody();
        Self { epoch: Some(host_epoch()), patience, peer, ca_file: None, exposure }
    }
}

/// The epoch of this program as a host: when it started, in milliseconds since 1970.
#[must_use]
pub fn host_epoch() -> u64 {
    sys::host::start_time_ms()
}

impl ClientOptions {
    /// A client that is a host of this program's epoch, and waits up to 10 s for a lost connection
    /// to come back.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Its epoch; `None` is for a person's one-off commands: it fences nobody, and is not fenced.
    #[must_use]
    pub fn epoch(self, epoch: Option<u64>) -> Self {
        Self { epoch, ..self }
    }

    /// How long a call tries to make a new connection when the old one has been lost.
    #[must_use]
    pub fn reconnect_within(self, patience: Duration) -> Self {
        Self { patience: patience.min(LONGEST_PATIENCE), ..self }
    }

    /// How long a server may send not a byte, although it is pinged, before it is given up: 60 s if
    /// nothing else is said, 100 ms at least. It is pinged every 15 s, more often where this is short
    /// (a quarter of it).
    #[must_use]
    pub fn peer_timeout(self, timeout: Duration) -> Self {
        Self { peer: Patience::new(timeout.max(SHORTEST_SILENCE)), ..self }
    }

    /// The authorities whose certificates are trusted for `wss://`, a file in PEM, in place of those
    /// of this machine (which are OpenSSL's: SSL_CERT_FILE and SSL_CERT_DIR count). It is read
    /// whenever a connection is made.
    #[must_use]
    pub fn ca_file(self, file: impl Into<PathBuf>) -> Self {
        Self { ca_file: Some(file.into()), ..self }
    }

    /// Calls this, once, with a sentence for a person when a token goes over `ws://` to another
    /// machine: whoever is on the way can read it.
    #[must_use]
    pub fn on_warning(self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { exposure: Exposure::told_to(tell), ..self }
    }

    /// Connects to `ws://HOST:PORT/exec` or `wss://HOST/exec` with a token (the URL may carry one as
    /// `?token=` instead).
    ///
    /// # Errors
    /// `Unreachable` where nobody answers, `Refused` where the server does not let us in, or its
    /// certificate is not trusted, `InvalidParams` for a URL that is none, and with a CA file that is
    /// none or goes with no `wss://`; `Os` where that cannot be read.
    pub fn websocket(self, url: &str, token: Option<&str>) -> Result<ExecClient> {
        let way = Way::WebSocket(self.server(url, token));
        self.connect(way)
    }

    /// Starts a program whose stdin and stdout speak the protocol; its stderr is this program's. It
    /// ends with the client: its stdin is closed, and where it does not heed that within 3 s (for so
    /// long dropping the client waits) SIGTERM follows, and SIGKILL a second later.
    ///
    /// # Errors
    /// `Unreachable` where it cannot be started; `ConnectionLost` where it ends before it has
    /// answered, with its exit status in the message; `TimedOut` where it does not answer within
    /// 60 s; `InvalidParams` without a word.
    pub fn stdio(self, command: &[impl AsRef<OsStr>]) -> Result<ExecClient> {
        let words = command.iter().map(|word| word.as_ref().to_owned()).collect();
        self.connect(Way::Command(words))
    }

    /// Reaches a host by ssh. The server is placed there first where it is not there yet, which may
    /// take as long as an upload does; a person may be asked ([`SshHost::asking`]), who has all the
    /// time that the host gives.
    ///
    /// # Errors
    /// `Unreachable` where ssh does not get there, `Refused` where it is not let in, a question has no
    /// answer, or nothing can be run there; `Unsupported` where there is no server for that kind of
    /// machine.
    #[cfg(feature = "host")]
    pub fn ssh(self, host: SshHost) -> Result<ExecClient> {
        self.connect(Way::Ssh(host))
    }

    /// Serves a local environment within this program, over the protocol.
    ///
    /// # Errors
    /// No descriptors or threads are left.
    pub fn in_memory(self, environment: &LocalExecEnvironment) -> Result<ExecClient> {
        self.connect(Way::Memory(environment.machine()))
    }

    /// Opens the way to a server for somebody who speaks the protocol themselves.
    pub(crate) fn open_websocket(self, url: &str, token: Option<&str>) -> Result<Opened> {
        let way = Way::WebSocket(self.server(url, token));
        way.open(self.terms(Instant::now() + OPENING))
    }

    /// The same to a program whose stdin and stdout speak it.
    pub(crate) fn open_stdio(self, command: &[impl AsRef<OsStr>]) -> Result<Opened> {
        let words = command.iter().map(|word| word.as_ref().to_owned()).collect();
        Way::Command(words).open(self.terms(Instant::now() + OPENING))
    }

    /// The same to a host that is reached by ssh.
    #[cfg(feature = "host")]
    pub(crate) fn open_ssh(self, host: SshHost) -> Result<Opened> {
        Way::Ssh(host).open(self.terms(Instant::now() + OPENING))
    }

    fn connect(self, way: Way) -> Result<ExecClient> {
        let inner = Reconnecting::connect(way, self)?;
        Ok(ExecClient { inner: Arc::new(inner) })
    }

    fn server(&self, url: &str, token: Option<&str>) -> Server {
        Server {
            url: url.to_owned(),
            token: token.map(str::to_owned),
            ca_file: self.ca_file.clone(),
            exposure: self.exposure.clone(),
        }
    }

    fn terms(&self, deadline: Instant) -> Terms {
        Terms { epoch: self.epoch, deadline, peer: self.peer }
    }
}

impl ExecClient {
    /// Connects to `ws://HOST:PORT/exec`, with the usual [`ClientOptions`].
    ///
    /// # Errors
    /// Those of [`ClientOptions::websocket`].
    pub fn websocket(url: &str, token: Option<&str>) -> Result<Self> {
        ClientOptions::new().websocket(url, token)
    }

    /// Starts a program whose stdin and stdout speak the protocol, with the usual
    /// [`ClientOptions`].
    ///
    /// # Errors
    /// Those of [`ClientOptions::stdio`].
    pub fn stdio(command: &[impl AsRef<OsStr>]) -> Result<Self> {
        ClientOptions::new().stdio(command)
    }

    /// Reaches a host by ssh, with the usual [`ClientOptions`].
    ///
    /// # Errors
    /// Those of [`ClientOptions::ssh`].
    #[cfg(feature = "host")]
    pub fn ssh(host: SshHost) -> Result<Self> {
        ClientOptions::new().ssh(host)
    }

    /// What the environment is.
    ///
    /// # Errors
    /// Those of [`ExecClient::call`].
    pub fn initialize(&self) -> Result<InitializeResult> {
        // What is no ExecRpc may answer too.
        self.call(method::INITIALIZE, &introduction()).map_err(|error| match error.kind() {
            ErrorKind::Internal => {
                let message = format!("{} (of a URL, the path is usually /exec)", error.message());
                Error::new(ErrorKind::Internal, message)
            }
            _ => error,
        })
    }

    /// A round trip.
    ///
    /// # Errors
    /// Those of [`ExecClient::call`].
    pub fn ping(&self) -> Result<()> {
        self.call(method::PING, &Empty {}).map(|Empty {}| ())
    }

    /// Calls a method and waits for its answer.
    ///
    /// # Errors
    /// What the server answers; `ConnectionLost` where the answer cannot come any more (the call
    /// may have had its effect), `TimedOut` where it does not come within 60 s. Where the connection
    /// was lost before the call, those of [`ClientOptions::websocket`]: the call was not made.
    pub fn call<R: DeserializeOwned + Send + 'static>(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<R> {
        self.link()?.call(method, params)
    }

    /// Calls a method; the answer can be waited for later, or not at all.
    ///
    /// # Errors
    /// Those of [`ExecClient::call`] but `TimedOut`.
    pub fn begin<R: DeserializeOwned + Send + 'static>(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<Answer<R>> {
        self.link()?.begin(method, params)
    }

    /// Calls this when the connection that stands now ends, with the reason. Where none stands,
    /// nothing is called.
    ///
    /// # Errors
    /// The last one has ended for good.
    pub(crate) fn when_lost(&self, tell: impl FnOnce(Error) + Send + 'static) -> Result<()> {
        self.inner.standing()?.map_or(Ok(()), |link| link.when_ended(tell))
    }

    /// The connection, a new one if the last has been lost.
    fn link(&self) -> Result<Arc<Link>> {
        self.inner.link()
    }

    /// Closes the connection for good, whoever else still shares it. Everything that was started
    /// through it ends now.
    pub fn close(&self) {
        self.inner.close();
    }

    /// Runs a command line in the shell. It runs when this returns, or has failed to start,
    /// which its first event tells.
    ///
    /// # Errors
    /// `ConnectionLost`, `DuplicateId` where a process of this client has that id.
    pub fn exec(&self, params: &ExecParams) -> Result<Process> {
        process::exec(&self.link()?, params)
    }

    /// Starts a program. It runs when this returns.
    ///
    /// # Errors
    /// What the server answers, for instance `Os(ENOENT)`; `ConnectionLost`, `DuplicateId`.
    pub fn spawn(&self, params: &SpawnParams) -> Result<Process> {
        process::spawn(&self.link()?, params)
    }
}

/// What this library says of itself.
fn introduction() -> InitializeParams {
    InitializeParams {
        client_name: Some(env!("CARGO_PKG_NAME").to_owned()),
        client_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        epoch: None,
    }
}
