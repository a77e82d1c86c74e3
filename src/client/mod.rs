//! The host's side: a connection to an environment, and the processes that run there.
//!
//! The hazard to know: whoever starts a process must keep taking its events, or the process
//! stops when its window is full. It stops alone: nothing else on the connection waits for it.

mod connect;
mod dispatch;
mod process;

pub use process::{ProcessControl, ProcessEvent, ProcessExit, RemoteProcess, Stream};

use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, bounded};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind, Result};
use crate::protocol::{
    Empty, ExecParams, InitializeParams, InitializeResult, SpawnParams, SpawnResult, method, rpc,
};
use crate::transport::{Outbox, message, ws};
use dispatch::{Dispatch, Pending};

/// How long an answer that waits for nothing may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// How long saying goodbye may take.
const FAREWELL: Duration = Duration::from_millis(500);

/// A connection to an environment. Clones share it; it is closed when the last one and the last
/// process have been dropped, and everything that was started through it ends then.
#[derive(Clone)]
pub struct ExecClient {
    inner: Arc<Inner>,
}

struct Inner {
    outbox: Outbox,
    dispatch: Arc<Dispatch>,
    socket: Arc<TcpStream>,
}

impl ExecClient {
    /// Connects to `ws://HOST:PORT/exec` with a token (the URL may carry one as `?token=`
    /// instead).
    ///
    /// # Errors
    /// `Unreachable` where nobody answers, `Refused` where the server does not let us in,
    /// `InvalidParams` for a URL that is none.
    pub fn websocket(url: &str, token: Option<&str>) -> Result<Self> {
        let (mut source, outbox, socket) = connect::websocket(url, token)?;
        let dispatch = Arc::new(Dispatch::default());
        let dispatched = Arc::clone(&dispatch);
        let read = move || dispatched.run(&mut source);
        let thread = thread::Builder::new().name("client".to_owned());
        let started = thread.spawn(read).map(drop);
        started.map_err(|error| Error::io(&error, "cannot make a thread for the connection"))?;
        Ok(Self { inner: Arc::new(Inner { outbox, dispatch, socket }) })
    }

    /// What the environment is.
    ///
    /// # Errors
    /// Those of [`ExecClient::call`].
    pub fn initialize(&self) -> Result<InitializeResult> {
        let params = InitializeParams {
            client_name: Some(env!("CARGO_PKG_NAME").to_owned()),
            client_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        };
        self.call(method::INITIALIZE, &params)
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
    /// may have had its effect), `TimedOut` where it does not come within 60 s.
    pub fn call<R: DeserializeOwned>(&self, method: &str, params: &impl Serialize) -> Result<R> {
        let answer = self.call_raw(method, params)?;
        rpc::result(&answer)
    }

    /// The same for a call that may take as long as it takes.
    fn call_unbounded(&self, method: &str, params: &impl Serialize) -> Result<Box<RawValue>> {
        let (sender, answer) = bounded(1);
        self.request(method, params, Pending::Call(sender))?;
        answer.recv().unwrap_or_else(|_| Err(dispatch::lost("the connection has ended")))
    }

    fn call_raw(&self, method: &str, params: &impl Serialize) -> Result<Box<RawValue>> {
        let (sender, answer) = bounded(1);
        let id = self.request(method, params, Pending::Call(sender))?;
        match answer.recv_timeout(CALL_TIMEOUT) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => {
                self.inner.dispatch.forget(id);
                let message = format!("{method} was not answered within 60 s");
                Err(Error::new(ErrorKind::TimedOut, message))
            }
            Err(RecvTimeoutError::Disconnected) => Err(dispatch::lost("the connection has ended")),
        }
    }

    /// Sends a request; its answer goes where `pending` says.
    fn request(&self, method: &str, params: &impl Serialize, pending: Pending) -> Result<u64> {
        let id = self.inner.dispatch.expect(pending)?;
        let mut buffer = message(Vec::with_capacity(256));
        rpc::write_request(&mut buffer, id, method, params);
        self.inner.outbox.control(buffer);
        Ok(id)
    }

    fn notify(&self, method: &str, params: &impl Serialize) {
        let mut buffer = message(Vec::with_capacity(128));
        rpc::write_notification(&mut buffer, method, params);
        self.inner.outbox.control(buffer);
    }

    /// Runs a command line in the shell. It runs when this returns, or has failed to start,
    /// which its first event tells.
    ///
    /// # Errors
    /// `ConnectionLost`, `DuplicateId` where a process of this client has that id.
    pub fn exec(&self, params: &ExecParams) -> Result<RemoteProcess> {
        let id = params.process_id.clone();
        let process = RemoteProcess::new(self.clone(), id.clone(), params.window)?;
        self.request(method::EXEC, params, Pending::Exec(id))?;
        Ok(process)
    }

    /// Starts a program. It runs when this returns.
    ///
    /// # Errors
    /// What the server answers, for instance `Os(ENOENT)`; `ConnectionLost`, `DuplicateId`.
    pub fn spawn(&self, params: &SpawnParams) -> Result<RemoteProcess> {
        let id = params.process_id.clone();
        let mut process = RemoteProcess::new(self.clone(), id, params.window)?;
        let SpawnResult { pid } = self.call(method::SPAWN, params)?;
        process.set_pid(pid);
        Ok(process)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.outbox.last(ws::client_close_frame(1000));
        self.outbox.flush(FAREWELL);
        // Ends the reading thread too.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}
