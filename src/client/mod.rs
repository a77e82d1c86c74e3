//! The host's side: a connection to an environment, the processes that run there, and the
//! connections that lead on from there.
//!
//! The hazard to know: whoever starts a process must keep taking its events, or the process
//! stops when its window is full. It stops alone: nothing else on the connection waits for it.

mod connect;
mod dispatch;
mod files;
mod flow;
mod net;
mod process;

pub use net::{ConnectionEvent, ConnectionWriter, RemoteConnection};
pub use process::{ProcessControl, ProcessEvent, ProcessExit, RemoteProcess, RemoteStdin, Stream};

use std::marker::PhantomData;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
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

/// A connection to an environment. Clones share it; it is closed when the last one, the last
/// process and the last connection have been dropped, and everything that was started through it ends then.
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
            epoch: None,
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
        let answer = self.begin(method, params)?;
        answer.wait_until(Instant::now() + CALL_TIMEOUT)?.ok_or_else(|| {
            self.inner.dispatch.forget(answer.id);
            let message = format!("{method} was not answered within 60 s");
            Error::new(ErrorKind::TimedOut, message)
        })
    }

    /// Calls a method; the answer can be waited for later, or not at all.
    ///
    /// # Errors
    /// `ConnectionLost`.
    pub fn begin<R: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<Answer<R>> {
        self.begin_with(Vec::with_capacity(256), |buffer, id| {
            rpc::write_request(buffer, id, method, params);
        })
    }

    /// The same for a request that is written in another way.
    fn begin_with<R: DeserializeOwned>(
        &self,
        buffer: Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>, u64),
    ) -> Result<Answer<R>> {
        let (sender, answer) = bounded(1);
        let id = self.request(Pending::Call(sender), buffer, write)?;
        Ok(Answer { id, answer, result: PhantomData })
    }

    /// Sends a request; its answer goes where `pending` says.
    fn request(
        &self,
        pending: Pending,
        buffer: Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>, u64),
    ) -> Result<u64> {
        let id = self.inner.dispatch.expect(pending)?;
        let mut buffer = message(buffer);
        write(&mut buffer, id);
        self.inner.outbox.control(buffer);
        Ok(id)
    }

    fn notify(&self, method: &str, params: &impl Serialize) {
        let mut buffer = message(Vec::with_capacity(128));
        rpc::write_notification(&mut buffer, method, params);
        self.inner.outbox.control(buffer);
    }

    /// Closes the connection, whoever else still shares it. Everything that was started through
    /// it ends now.
    pub fn close(&self) {
        self.inner.close();
    }

    /// Runs a command line in the shell. It runs when this returns, or has failed to start,
    /// which its first event tells.
    ///
    /// # Errors
    /// `ConnectionLost`, `DuplicateId` where a process of this client has that id.
    pub fn exec(&self, params: &ExecParams) -> Result<RemoteProcess> {
        let id = params.process_id.clone();
        let process = RemoteProcess::new(self.clone(), id.clone(), params.window)?;
        self.request(Pending::Exec(id), Vec::with_capacity(256), |buffer, id| {
            rpc::write_request(buffer, id, method::EXEC, params);
        })?;
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

/// The answer to a call that is in flight.
#[must_use = "an answer may be an error"]
pub struct Answer<R> {
    id: u64,
    answer: Receiver<Result<Box<RawValue>>>,
    result: PhantomData<fn() -> R>,
}

impl<R: DeserializeOwned> Answer<R> {
    /// Waits for it, however long that takes. It comes once.
    ///
    /// # Errors
    /// Those of [`ExecClient::call`] but `TimedOut`.
    pub fn wait(&self) -> Result<R> {
        match self.answer.recv() {
            Ok(answer) => rpc::result(&answer?),
            Err(_) => Err(dispatch::lost("the connection has ended")),
        }
    }

    /// Waits for it until then; `None` where it has not come.
    ///
    /// # Errors
    /// Those of [`ExecClient::call`] but `TimedOut`.
    pub fn wait_until(&self, deadline: Instant) -> Result<Option<R>> {
        match self.answer.recv_deadline(deadline) {
            Ok(answer) => rpc::result(&answer?).map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(dispatch::lost("the connection has ended")),
        }
    }
}

impl Inner {
    fn close(&self) {
        self.outbox.last(ws::client_close_frame(1000));
        self.outbox.flush(FAREWELL);
        // Ends the reading thread too.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}
