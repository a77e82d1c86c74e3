//! The server: what an agent may ask, and the calls that are under way.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::message::{
    CallParams, CancelledParams, InitializeParams, ProgressParams, ToolResult, revision,
};
use super::upstream::{Reply, Upstreams};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::rpc::{self, Message};
use crate::sync::lock;
use crate::threads;
use crate::tools::{Call, Cancel, OnProgress, Tool, Tools};

/// The most calls at a time, each of which has a thread: more than any agent makes at once.
const MOST_CALLS: usize = 64;

/// Who is answered. A message is one JSON object without a line feed.
pub(crate) trait Peer: Send + Sync {
    /// An answer. It may wait until the peer takes it.
    fn answer(&self, message: Vec<u8>);

    /// Something the peer can do without: it is left out where the peer does not keep up.
    fn tell(&self, message: Vec<u8>);

    /// Whether a call that was cancelled is answered all the same, because its answer ends what the
    /// peer reads.
    fn awaits_cancelled(&self) -> bool {
        false
    }
}

/// What is offered, to whoever connects.
pub(crate) struct Server {
    tools: Tools,
    built_in: Vec<Tool>,
    upstreams: Upstreams,
    running: AtomicUsize,
}

impl Server {
    /// These tools, and those of the servers on the environment.
    pub(crate) fn new(tools: Tools, built_in: Vec<Tool>, upstreams: Upstreams) -> Self {
        Self { tools, built_in, upstreams, running: AtomicUsize::new(0) }
    }

    /// The servers on the environment.
    pub(crate) fn upstreams(&self) -> &Upstreams {
        &self.upstreams
    }

    fn describe(&self, wanted: Option<&str>) -> Result<Value> {
        let about = self.tools.environment().about()?;
        let instructions = format!(
            "The tools of this server work on an execution environment ({} on {}, host {}), which may \
             be another machine than yours. Its directory is {}; relative paths begin there, and all \
             paths and commands are its own.",
            about.os, about.arch, about.hostname, about.cwd
        );
        Ok(json!({
            "protocolVersion": revision(wanted),
            "capabilities": {"tools": {"listChanged": !self.upstreams.is_empty()}},
            "serverInfo": {
                "name": "ta", "title": "ta: an execution environment",
                "version": env!("CARGO_PKG_VERSION"),
            },
            "instructions": instructions,
        }))
    }

    /// All tools, as `tools/list` has them.
    fn list(&self) -> Value {
        let built_in = self.built_in.iter();
        let built_in = built_in.filter_map(|tool| serde_json::to_value(tool.definition()).ok());
        let tools: Vec<Value> = built_in.chain(self.upstreams.tools()).collect();
        json!({"tools": tools})
    }
}

/// One agent, from its first message to its last.
pub(crate) struct Session {
    server: Arc<Server>,
    /// What is under way, by its id as it is written.
    calls: Mutex<HashMap<String, Cancel>>,
}

impl Session {
    /// A session that has just begun.
    pub(crate) fn new(server: &Arc<Server>) -> Arc<Self> {
        Arc::new(Self { server: Arc::clone(server), calls: Mutex::default() })
    }

    /// Takes a message. What it asks for is answered through `peer`, now or later.
    pub(crate) fn take(self: &Arc<Self>, text: &str, peer: &Arc<dyn Peer>) {
        match rpc::parse(text) {
            Ok(Message::Request { id, method, params }) => self.request(id, &method, params, peer),
            Ok(Message::Notification { method, params }) => self.notified(&method, params),
            // Nothing is asked of an agent.
            Ok(Message::Response { .. }) => {}
            Err(invalid) => peer.answer(error(invalid.id, &invalid.error)),
        }
    }

    /// Ends all that is under way.
    pub(crate) fn end(&self) {
        let calls: Vec<_> = lock(&self.calls).values().cloned().collect();
        calls.iter().for_each(Cancel::cancel);
    }

    /// Whether something is.
    pub(crate) fn is_busy(&self) -> bool {
        !lock(&self.calls).is_empty()
    }

    fn request(
        self: &Arc<Self>,
        id: &RawValue,
        method: &str,
        params: Option<&RawValue>,
        peer: &Arc<dyn Peer>,
    ) {
        match method {
            "ping" => peer.answer(result(id, &json!({}))),
            "initialize" => {
                let wanted = rpc::params::<InitializeParams<'_>>(params);
                let described =
                    wanted.and_then(|it| self.server.describe(it.protocol_version.as_deref()));
                peer.answer(match described {
                    Ok(described) => result(id, &described),
                    Err(failure) => error(Some(id), &failure),
                });
            }
            // Servers that are being started are waited for.
            "tools/list" => self.begin(id, peer, |session, due| {
                let list = session.server.list();
                due.give(|id| result(id, &list));
            }),
            "tools/call" => match rpc::params::<CallParams<'_>>(params) {
                Ok(params) => {
                    let wanted = Wanted::of(&params);
                    self.begin(id, peer, move |session, due| session.call(&wanted, due));
                }
                Err(failure) => peer.answer(error(Some(id), &failure)),
            },
            other => {
                let message = format!("there is no method {other:.100?} here");
                let unknown = Error::new(ErrorKind::MethodNotFound, message);
                peer.answer(error(Some(id), &unknown));
            }
        }
    }

    fn notified(&self, method: &str, params: Option<&RawValue>) {
        if method != "notifications/cancelled" {
            return;
        }
        let Ok(params) = rpc::params::<CancelledParams<'_>>(params) else { return };
        // (It may have been answered by now.)
        let cancel = lock(&self.calls).get(params.request_id.get()).cloned();
        if let Some(cancel) = cancel {
            cancel.cancel();
        }
    }

    /// Does something on a thread of its own.
    fn begin(
        self: &Arc<Self>,
        id: &RawValue,
        peer: &Arc<dyn Peer>,
        act: impl FnOnce(&Self, Due) + Send + 'static,
    ) {
        let due = match Due::new(self, id, peer) {
            Ok(due) => due,
            Err(failure) => return peer.answer(error(Some(id), &failure)),
        };
        let session = Arc::clone(self);
        // Without a thread it is dropped, and so answered.
        let _ = threads::run(move || act(&session, due));
    }

    fn call(&self, wanted: &Wanted, due: Due) {
        match Tool::by_name(&wanted.name).filter(|tool| self.server.built_in.contains(tool)) {
            Some(tool) => {
                let call =
                    Call { cancel: due.cancel.clone(), progress: wanted.progress(&due.peer) };
                let outcome = self.server.tools.call(tool, wanted.arguments.as_deref(), &call);
                let answer = ToolResult::from(outcome);
                due.give(|id| result(id, &answer));
            }
            None => self.call_upstream(wanted, due),
        }
    }

    fn call_upstream(&self, wanted: &Wanted, due: Due) {
        let Some((upstream, name)) = self.server.upstreams.find(&wanted.name) else {
            let message = format!("there is no tool {:.100?} here", wanted.name);
            return due.give(|id| error(Some(id), &Error::params(message)));
        };
        let progress = wanted.passing_on(&due.peer);
        match upstream.call(&name, wanted.arguments.as_deref(), progress, &due.cancel) {
            Reply::Result(answer) => due.give(|id| result(id, &answer)),
            Reply::Error(answer) => due.give(|id| raw_error(id, &answer)),
            Reply::Lost(why) => due.give(|id| result(id, &ToolResult::failure(why))),
        }
    }
}

/// A call of a tool, for its thread.
struct Wanted {
    name: String,
    arguments: Option<Box<RawValue>>,
    progress_token: Option<Box<RawValue>>,
}

/// Takes what a server tells of its progress.
pub(super) type PassingOn = Box<dyn Fn(&RawValue) + Send + Sync>;

impl Wanted {
    fn of(params: &CallParams<'_>) -> Self {
        Self {
            name: params.name.clone().into_owned(),
            arguments: params.arguments.map(ToOwned::to_owned),
            progress_token: params.progress_token().map(ToOwned::to_owned),
        }
    }

    fn progress(&self, peer: &Arc<dyn Peer>) -> Option<OnProgress> {
        let (token, peer) = (self.progress_token.clone()?, Arc::clone(peer));
        Some(Box::new(move |progress| {
            let params = ProgressParams {
                progress_token: &token,
                progress: progress.bytes,
                message: progress.text,
            };
            peer.tell(notification("notifications/progress", &params));
        }))
    }

    fn passing_on(&self, peer: &Arc<dyn Peer>) -> Option<PassingOn> {
        let (token, peer) = (self.progress_token.clone()?, Arc::clone(peer));
        Some(Box::new(move |params| {
            let Ok(mut params) = serde_json::from_str::<HashMap<&str, &RawValue>>(params.get())
            else {
                return;
            };
            params.insert("progressToken", &token);
            peer.tell(notification("notifications/progress", &params));
        }))
    }
}

/// An answer that is due. Dropped without one, it answers that it has failed.
struct Due {
    session: Arc<Session>,
    id: Box<RawValue>,
    peer: Arc<dyn Peer>,
    cancel: Cancel,
    is_given: bool,
}

impl Due {
    /// # Errors
    /// The id is that of a call that is under way; there are too many of them.
    fn new(session: &Arc<Session>, id: &RawValue, peer: &Arc<dyn Peer>) -> Result<Self> {
        let server = &session.server;
        if server.running.fetch_add(1, Ordering::Relaxed) >= MOST_CALLS {
            server.running.fetch_sub(1, Ordering::Relaxed);
            let message = format!("{MOST_CALLS} calls are under way: wait for one of them");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let cancel = Cancel::new();
        let mut calls = lock(&session.calls);
        if calls.contains_key(id.get()) {
            server.running.fetch_sub(1, Ordering::Relaxed);
            let message = "a call with this id is under way";
            return Err(Error::new(ErrorKind::InvalidRequest, message));
        }
        calls.insert(id.get().to_owned(), cancel.clone());
        drop(calls);
        let (session, peer) = (Arc::clone(session), Arc::clone(peer));
        Ok(Self { session, id: id.to_owned(), peer, cancel, is_given: false })
    }

    fn give(mut self, write: impl FnOnce(&RawValue) -> Vec<u8>) {
        self.finish(write);
    }

    fn finish(&mut self, write: impl FnOnce(&RawValue) -> Vec<u8>) {
        self.is_given = true;
        // The id is free before the answer: whoever reads that may use it again.
        lock(&self.session.calls).remove(self.id.get());
        self.session.server.running.fetch_sub(1, Ordering::Relaxed);
        // Whoever has cancelled wants no answer.
        if !self.cancel.is_cancelled() || self.peer.awaits_cancelled() {
            self.peer.answer(write(&self.id));
        }
    }
}

impl Drop for Due {
    fn drop(&mut self) {
        if !self.is_given {
            let failure = Error::new(ErrorKind::Internal, "ta could not make this call");
            self.finish(|id| error(Some(id), &failure));
        }
    }
}

fn result(id: &RawValue, result: &impl Serialize) -> Vec<u8> {
    let mut message = Vec::new();
    rpc::write_result(&mut message, id, result);
    message
}

fn error(id: Option<&RawValue>, error: &Error) -> Vec<u8> {
    let mut message = Vec::new();
    rpc::write_error(&mut message, id, error);
    message
}

/// An error as somebody else has said it.
fn raw_error(id: &RawValue, error: &RawValue) -> Vec<u8> {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{}}}", id.get(), error.get()).into_bytes()
}

/// A notification.
pub(super) fn notification(method: &str, params: &impl Serialize) -> Vec<u8> {
    let mut message = Vec::new();
    rpc::write_notification(&mut message, method, params);
    message
}
