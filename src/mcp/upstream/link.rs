//! One server on the environment: what it is asked, and what it asks.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded, select};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::config::Entry;
use super::super::server::{PassingOn, notification};
use super::{Report, lines};
use crate::environment::{ExecEnvironment, OutputReader, ProcessEnd, SplitProcess, StdinWriter};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::rpc::{self, Message};
use crate::protocol::{ProcessId, SpawnParams};
use crate::sync::lock;
use crate::threads;
use crate::tools::Cancel;

/// Messages on their way to a server that does not read; more wait where they come from.
const MOST_WAITING: usize = 16;

/// A server, and the way to it.
pub(in crate::mcp) struct Link {
    name: String,
    to: Sender<Up>,
    end: ProcessEnd,
    next: AtomicU64,
    /// What it was asked and has not answered; `None` when it has ended.
    pending: Mutex<Option<HashMap<u64, Pending>>>,
    tools: Mutex<Vec<Value>>,
}

/// What a server answers.
#[derive(Debug)]
pub(in crate::mcp) enum Reply {
    /// The result, as it is.
    Result(Box<RawValue>),
    /// The error, as it is.
    Error(Box<RawValue>),
    /// Why there is none.
    Lost(String),
}

enum Up {
    Message(Vec<u8>),
    Close,
}

struct Pending {
    answer: Sender<Reply>,
    progress: Option<PassingOn>,
}

/// What becomes of its end.
struct Ending<F: FnOnce()> {
    report: Report,
    on_end: F,
}

impl Link {
    /// Starts it, and asks for its tools.
    ///
    /// # Errors
    /// It cannot be started, ends, or does not answer in time.
    #[expect(clippy::too_many_arguments, reason = "all of it is one server's")]
    pub(super) fn start(
        name: &str,
        entry: Entry,
        environment: &dyn ExecEnvironment,
        root: String,
        report: &Report,
        on_change: Arc<dyn Fn() + Send + Sync>,
        on_end: impl FnOnce() + Send + 'static,
        deadline: Instant,
    ) -> Result<Arc<Self>> {
        let process = environment.spawn(&SpawnParams {
            process_id: ProcessId::unique(),
            args: Some(entry.args),
            env: entry.env,
            cwd: entry.cwd,
            ..SpawnParams::new(entry.command)
        })?;
        let SplitProcess { stdin, stdout, stderr, end } = process.split()?;
        let (to, from) = bounded(MOST_WAITING);
        let link = Arc::new(Self {
            name: name.to_owned(),
            to,
            end,
            next: AtomicU64::new(1),
            pending: Mutex::new(Some(HashMap::new())),
            tools: Mutex::default(),
        });
        let run = |job: Box<dyn FnOnce() + Send>| {
            threads::run(job).map_err(|error| Error::io(&error, "cannot make a thread for it"))
        };
        run(Box::new(move || feed(stdin, &from)))?;
        let (prefix, told) = (name.to_owned(), Arc::clone(report));
        run(Box::new(move || {
            lines::each(stderr, |line| {
                told(&format!("{prefix}: {}", String::from_utf8_lossy(line).trim_end()));
            });
        }))?;
        let ending = Ending { report: Arc::clone(report), on_end };
        let reader = Arc::clone(&link);
        run(Box::new(move || reader.read(stdout, &root, &on_change, ending)))?;
        let greeted = link.greet(deadline);
        if greeted.is_err() {
            link.signal("SIGKILL");
        }
        greeted.map(|()| link)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Its tools, as it describes them.
    pub(super) fn tools(&self) -> Vec<Value> {
        lock(&self.tools).clone()
    }

    pub(super) fn set_tools(&self, tools: Vec<Value>) {
        *lock(&self.tools) = tools;
    }

    /// Sends it something that is not answered.
    pub(super) fn tell(&self, message: Vec<u8>) {
        // Where it has ended, whatever is asked next says so.
        let _ = self.to.send(Up::Message(message));
    }

    /// Calls a tool, and waits until it has answered or the call is cancelled; it is told of that.
    pub(in crate::mcp) fn call(
        &self,
        tool: &str,
        arguments: Option<&RawValue>,
        progress: Option<PassingOn>,
        cancel: &Cancel,
    ) -> Reply {
        let (cancelled, is_cancelled) = bounded(1);
        let _on_cancel = cancel.on_cancel(move || {
            let _ = cancelled.try_send(());
        });
        let wants_progress = progress.is_some();
        let asked = self.ask("tools/call", progress, |id| {
            let mut params = json!({"name": tool});
            if let Some(arguments) = arguments {
                params["arguments"] = serde_json::from_str(arguments.get()).unwrap_or_default();
            }
            if wants_progress {
                params["_meta"] = json!({"progressToken": id});
            }
            params
        });
        let (id, answer) = match asked {
            Ok(asked) => asked,
            Err(error) => return Reply::Lost(error.message().to_owned()),
        };
        select! {
            recv(answer) -> answer => answer.unwrap_or_else(|_| Reply::Lost(self.has_ended())),
            recv(is_cancelled) -> _ => {
                if let Some(pending) = &mut *lock(&self.pending) {
                    pending.remove(&id);
                }
                let params = json!({"requestId": id, "reason": "the agent has cancelled the call"});
                let message = notification("notifications/cancelled", &params);
                // One that does not read will not hear it.
                let _ = self.to.try_send(Up::Message(message));
                Reply::Lost("aborted".to_owned())
            }
        }
    }

    /// Closes its stdin.
    pub(super) fn close(&self) {
        // One that does not read its stdin is ended by a signal.
        let _ = self.to.try_send(Up::Close);
    }

    pub(super) fn signal(&self, signal: &str) {
        // Where the connection has gone it has ended with that.
        let _ = self.end.control().begin_kill(signal, None);
    }

    pub(super) fn has_ended_by(&self, deadline: Instant) -> bool {
        !matches!(self.end.wait_until(deadline), Ok(None))
    }

    fn has_ended(&self) -> String {
        format!("the MCP server {:?} has ended", self.name)
    }

    /// Asks, and waits for the result until then.
    pub(super) fn asked<R: serde::de::DeserializeOwned>(
        &self,
        method: &str,
        params: &Value,
        deadline: Instant,
    ) -> Result<R> {
        let (id, answer) = self.ask(method, None, |_| params.clone())?;
        let failed = |why: String| Error::new(ErrorKind::Internal, why);
        match answer.recv_deadline(deadline) {
            Ok(Reply::Result(result)) => serde_json::from_str(result.get())
                .map_err(|error| failed(format!("its answer to {method} is none: {error}"))),
            Ok(Reply::Error(error)) => {
                Err(failed(format!("it answers to {method}: {:.500}", error.get())))
            }
            Ok(Reply::Lost(why)) => Err(failed(why)),
            Err(_) => {
                if let Some(pending) = &mut *lock(&self.pending) {
                    pending.remove(&id);
                }
                let message = format!("it does not answer to {method}");
                Err(Error::new(ErrorKind::TimedOut, message))
            }
        }
    }

    fn ask(
        &self,
        method: &str,
        progress: Option<PassingOn>,
        params: impl FnOnce(u64) -> Value,
    ) -> Result<(u64, Receiver<Reply>)> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer, awaited) = bounded(1);
        let has_ended = || Error::new(ErrorKind::ConnectionLost, self.has_ended());
        lock(&self.pending)
            .as_mut()
            .ok_or_else(has_ended)?
            .insert(id, Pending { answer, progress });
        let mut message = Vec::new();
        rpc::write_request(&mut message, id, method, &params(id));
        self.to.send(Up::Message(message)).map_err(|_| has_ended())?;
        Ok((id, awaited))
    }

    /// Takes what it says, until it has ended.
    fn read(
        self: Arc<Self>,
        stdout: OutputReader,
        root: &str,
        on_change: &Arc<dyn Fn() + Send + Sync>,
        ending: Ending<impl FnOnce()>,
    ) {
        lines::each(stdout, |line| {
            // (Whatever is no message of the protocol is nobody's.)
            if let Ok(text) = std::str::from_utf8(line)
                && !text.trim().is_empty()
            {
                self.take(text, root, on_change);
            }
        });
        // What was asked is not answered any more: its senders are dropped with it.
        let pending = lock(&self.pending).take();
        drop(pending);
        let how = match self.end.wait() {
            Ok(exit) => match (exit.exit_code, exit.signal) {
                (Some(code), _) => format!("exit code {code}"),
                (None, Some(signal)) => signal,
                (None, None) => "how is not known".to_owned(),
            },
            Err(error) => error.message().to_owned(),
        };
        (ending.report)(&format!("{} ({how})", self.has_ended()));
        (ending.on_end)();
    }

    fn take(self: &Arc<Self>, text: &str, root: &str, on_change: &Arc<dyn Fn() + Send + Sync>) {
        let mut message = Vec::new();
        match rpc::parse(text) {
            Ok(Message::Response { id, .. }) => return self.answered(id, text),
            Ok(Message::Request { id, method, .. }) => match &*method {
                "ping" => rpc::write_result(&mut message, id, &json!({})),
                "roots/list" => {
                    let roots = json!({"roots": [{"uri": root, "name": "environment"}]});
                    rpc::write_result(&mut message, id, &roots);
                }
                other => {
                    let why = format!("ta has no {other:.100?}");
                    let unknown = Error::new(ErrorKind::MethodNotFound, why);
                    rpc::write_error(&mut message, Some(id), &unknown);
                }
            },
            Ok(Message::Notification { method, params }) => {
                match (&*method, params) {
                    ("notifications/progress", Some(params)) => self.progressed(params),
                    ("notifications/tools/list_changed", _) => {
                        self.list_again(Arc::clone(on_change))
                    }
                    _ => {}
                }
                return;
            }
            Err(_) => return,
        }
        // One that asks and does not read gets no answer.
        let _ = self.to.try_send(Up::Message(message));
    }

    fn answered(&self, id: Option<&RawValue>, text: &str) {
        #[derive(Deserialize)]
        struct Answer<'a> {
            #[serde(borrow)]
            result: Option<&'a RawValue>,
            #[serde(borrow)]
            error: Option<&'a RawValue>,
        }
        let Some(id) = id.and_then(|id| id.get().parse().ok()) else { return };
        let pending = lock(&self.pending).as_mut().and_then(|pending| pending.remove(&id));
        let (Some(pending), Ok(answer)) = (pending, serde_json::from_str::<Answer<'_>>(text))
        else {
            return;
        };
        let reply = match (answer.result, answer.error) {
            (_, Some(error)) => Reply::Error(error.to_owned()),
            (Some(result), None) => Reply::Result(result.to_owned()),
            (None, None) => return,
        };
        let _ = pending.answer.send(reply);
    }

    fn progressed(&self, params: &RawValue) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Token {
            progress_token: u64,
        }
        let Ok(Token { progress_token }) = serde_json::from_str(params.get()) else { return };
        // Taken out meanwhile: no lock is held while the agent is told. (One thread does this.)
        let take = |pending: &mut HashMap<u64, Pending>| {
            pending.get_mut(&progress_token).and_then(|pending| pending.progress.take())
        };
        let Some(progress) = lock(&self.pending).as_mut().and_then(take) else { return };
        progress(params);
        if let Some(pending) =
            lock(&self.pending).as_mut().and_then(|all| all.get_mut(&progress_token))
        {
            pending.progress = Some(progress);
        }
    }
}

/// Writes to its stdin, at its pace.
fn feed(mut stdin: StdinWriter, from: &Receiver<Up>) {
    // (A server that has ended is told of by its output.)
    while let Ok(Up::Message(mut message)) = from.recv() {
        message.push(b'\n');
        if stdin.write_all(&message).is_err() {
            break;
        }
    }
    let _ = stdin.finish();
    // Whoever still sends to it is not held up.
    while from.recv().is_ok() {}
}
