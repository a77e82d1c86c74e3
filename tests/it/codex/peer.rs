//! A client of Codex's exec-server, and a suspicious one: that the numbers of a process's notifications
//! have no gap, which the real client relies on, is checked with every message.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::log::Log;
use crate::support::wire::{Closing, Event, Wire};
use crate::support::{DEADLINE, Server, Setup, base64, http, unbase64};

pub(super) struct Peer {
    wire: Wire,
    log: Option<Log>,
    next_id: i64,
    answers: VecDeque<Value>,
    seen: HashMap<String, Seen>,
    /// The first number of each process must be 1.
    from_the_start: bool,
    /// Numbers may be left out: Codex's own server sometimes does not tell of the exit, and what comes with
    /// it.
    gaps: bool,
    /// What `initialize` has answered.
    pub(super) initialized: Value,
    pub(super) closing: Option<Closing>,
}

/// What has been told about a process.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    chunks: Vec<(String, Vec<u8>)>,
    pub(super) last: Option<u64>,
    pub(super) exited: Option<Value>,
    pub(super) closed: bool,
    /// How much had come when the exit was told.
    pub(super) before_exit: usize,
}

impl Seen {
    /// What has come of a stream: stdout, stderr or pty.
    pub(super) fn bytes(&self, stream: &str) -> Vec<u8> {
        let chunks = self.chunks.iter().filter(|(of, _)| of == stream);
        chunks.flat_map(|(_, bytes)| bytes.iter().copied()).collect()
    }

    pub(super) fn text(&self, stream: &str) -> String {
        String::from_utf8_lossy(&self.bytes(stream)).into_owned()
    }

    pub(super) fn out(&self) -> String {
        self.text("stdout")
    }

    pub(super) fn code(&self) -> i64 {
        let code = self.exited.as_ref().and_then(|exited| exited["exitCode"].as_i64());
        code.expect("it has exited, with a code")
    }

    pub(super) fn longest_chunk(&self) -> usize {
        self.chunks.iter().map(|(_, bytes)| bytes.len()).max().unwrap_or(0)
    }
}

impl Peer {
    fn over(wire: Wire, log: Option<Log>) -> Self {
        Self {
            wire,
            log,
            next_id: 1,
            answers: VecDeque::new(),
            seen: HashMap::new(),
            from_the_start: true,
            gaps: false,
            initialized: Value::Null,
            closing: None,
        }
    }

    /// A connection that has said nothing yet.
    pub(super) fn silent(server: &Server) -> Self {
        let (stream, rest) = server.upgrade_at("/");
        Self::over(Wire::websocket(stream, rest), Some(server.log.clone()))
    }

    /// The same to whoever listens there, be it Codex's own.
    pub(super) fn silent_at(address: SocketAddr, headers: &[String]) -> Self {
        let upgraded = http::upgrade(address, "/", headers);
        let (stream, rest) = upgraded.unwrap_or_else(|answer| panic!("{answer:?}"));
        let mut peer = Self::over(Wire::websocket(stream, rest), None);
        peer.gaps = true;
        peer
    }

    pub(super) fn connect(server: &Server) -> Self {
        let mut peer = Self::silent(server);
        peer.begin();
        peer
    }

    /// A child that speaks the dialect over its pipes.
    pub(super) fn stdio(setup: Setup) -> Self {
        let (wire, log) = setup.args(["--dialect", "codex"]).stdio_wire();
        let mut peer = Self::over(wire, Some(log));
        peer.begin();
        peer
    }

    pub(super) fn begin(&mut self) {
        let result = self.ok("initialize", &json!({"clientName": "it"}));
        self.initialized = result;
        self.notify("initialized", &json!({}));
    }

    /// A new connection that takes up the session of an earlier one.
    pub(super) fn resume(server: &Server, session: &str) -> Result<Self, Value> {
        let mut peer = Self::silent(server);
        peer.from_the_start = false;
        let params = json!({"clientName": "it", "resumeSessionId": session});
        peer.initialized = peer.ask("initialize", &params)?;
        peer.notify("initialized", &json!({}));
        Ok(peer)
    }

    pub(super) fn session(&self) -> String {
        self.initialized["sessionId"].as_str().expect("a session").to_owned()
    }

    pub(super) fn wire(&mut self) -> &mut Wire {
        &mut self.wire
    }

    // ---- messages

    #[track_caller]
    pub(super) fn send(&mut self, text: &str) {
        self.wire.send(text).unwrap_or_else(|error| panic!("cannot send {text:.200}: {error}"));
    }

    #[track_caller]
    pub(super) fn notify(&mut self, method: &str, params: &Value) {
        self.send(&json!({"method": method, "params": params}).to_string());
    }

    /// Sends a request; its id.
    #[track_caller]
    pub(super) fn request(&mut self, method: &str, params: &Value) -> i64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({"id": id, "method": method, "params": params}).to_string());
        id
    }

    /// The answer to a request.
    #[track_caller]
    pub(super) fn answer(&mut self, id: i64) -> Result<Value, Value> {
        let arrived = |peer: &Self| peer.answers.iter().position(|answer| answer["id"] == id);
        self.wait(&format!("an answer to {id}"), |peer| arrived(peer).is_some());
        let mut answer = self.answers.remove(arrived(self).unwrap()).unwrap();
        match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer["result"].take()),
        }
    }

    #[track_caller]
    pub(super) fn ask(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        let id = self.request(method, params);
        self.answer(id)
    }

    #[track_caller]
    pub(super) fn ok(&mut self, method: &str, params: &Value) -> Value {
        self.ask(method, params).unwrap_or_else(|error| panic!("{method} {params:.300}: {error}"))
    }

    #[track_caller]
    pub(super) fn error(&mut self, method: &str, params: &Value) -> (i64, String) {
        let answer = self.ask(method, params);
        let error = answer.expect_err(&format!("{method} {params:.300}"));
        (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
    }

    /// The same where nothing may come; then, too, it is `None`.
    pub(super) fn next_answer_within(&mut self, limit: Duration) -> Option<Value> {
        let end = Instant::now() + limit;
        while self.answers.is_empty() && self.closing.is_none() && self.receive(end) {}
        self.answers.pop_front()
    }

    /// The next answer, whatever its id; `None` once the connection has ended.
    #[track_caller]
    pub(super) fn next_answer(&mut self) -> Option<Value> {
        self.wait_or_end("an answer or the end", |peer| !peer.answers.is_empty());
        self.answers.pop_front()
    }

    /// Waits until the server has ended the connection.
    #[track_caller]
    pub(super) fn await_end(&mut self) -> Closing {
        self.wait_or_end("the end of the connection", |peer| peer.closing.is_some());
        self.closing.clone().expect("the connection has ended")
    }

    // ---- processes

    /// What a process is started with: its cwd is /, and of variables it has PATH alone.
    pub(super) fn params(process: &str, argv: &[&str]) -> Value {
        json!({
            "processId": process, "argv": argv, "cwd": "file:///",
            "env": {"PATH": "/usr/local/bin:/usr/bin:/bin"}, "tty": false,
        })
    }

    #[track_caller]
    pub(super) fn start(&mut self, process: &str, argv: &[&str]) {
        self.start_with(&Self::params(process, argv));
    }

    #[track_caller]
    pub(super) fn start_with(&mut self, params: &Value) {
        let result = self.ok("process/start", params);
        assert_eq!(result["processId"], params["processId"], "{result}");
    }

    #[track_caller]
    pub(super) fn sh(&mut self, process: &str, line: &str) -> Seen {
        self.start(process, &["/bin/sh", "-c", line]);
        self.closed(process)
    }

    #[track_caller]
    pub(super) fn write(&mut self, process: &str, text: &str, id: &str) -> Value {
        let params = json!({"processId": process, "chunk": base64(text), "writeId": id});
        self.ok("process/write", &params)["status"].clone()
    }

    #[track_caller]
    pub(super) fn terminate(&mut self, process: &str) -> bool {
        let result = self.ok("process/terminate", &json!({"processId": process}));
        result["running"].as_bool().expect("running")
    }

    /// What has been told about a process so far.
    pub(super) fn seen(&self, process: &str) -> Seen {
        self.seen.get(process).cloned().unwrap_or_default()
    }

    /// Waits until a process is closed; all that was told about it.
    #[track_caller]
    pub(super) fn closed(&mut self, process: &str) -> Seen {
        self.wait(&format!("{process} is closed"), |peer| {
            peer.seen.get(process).is_some_and(|seen| seen.closed)
        });
        self.seen(process)
    }

    /// Waits until a process's output, of whatever stream, has this in it.
    #[track_caller]
    pub(super) fn until(&mut self, process: &str, text: &str) {
        let has = |peer: &Self| {
            let seen = peer.seen(process);
            ["stdout", "stderr", "pty"].iter().any(|stream| seen.text(stream).contains(text))
        };
        self.wait(&format!("{process} says {text:?}"), has);
    }

    // ---- waiting

    #[track_caller]
    pub(super) fn wait(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        self.wait_or_end(what, &done);
        assert!(done(self), "not before the connection ended: {what} ({:?})", self.closing);
    }

    #[track_caller]
    fn wait_or_end(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        let end = Instant::now() + DEADLINE;
        while !done(self) && self.closing.is_none() {
            let came = self.receive(end);
            assert!(came, "not within {DEADLINE:?}: {what}");
        }
    }

    /// That for so long nothing comes.
    #[track_caller]
    pub(super) fn assert_quiet_for(&mut self, time: Duration) {
        assert!(!self.receive(Instant::now() + time), "something came");
    }

    /// Takes one message or the end; false where nothing has come in time.
    #[track_caller]
    fn receive(&mut self, until: Instant) -> bool {
        match self.wire.receive(until) {
            Event::Silence => return false,
            Event::Closed(closing) => self.closing = Some(closing),
            Event::Text(text) => {
                let mut message: Value = serde_json::from_str(&text).expect("JSON");
                // (Codex passes over it.)
                message.as_object_mut().expect("an object").remove("jsonrpc");
                match message.get("id") {
                    Some(_) => self.answers.push_back(message),
                    None => self.note(&message),
                }
            }
        }
        true
    }

    fn note(&mut self, message: &Value) {
        let params = &message["params"];
        let process = params["processId"].as_str().expect("a notification is about a process");
        let seen = self.seen.entry(process.to_owned()).or_default();
        let seq = params["seq"].as_u64().expect("seq");
        let expected = match seen.last {
            Some(last) => last + 1,
            None if self.from_the_start => 1,
            None => seq,
        };
        assert!(seq == expected || (self.gaps && seq > expected), "not {expected}: {message}");
        assert!(!seen.closed, "after process/closed: {message}");
        seen.last = Some(seq);
        match message["method"].as_str().expect("a method") {
            "process/output" => {
                let bytes = unbase64(params["chunk"].as_str().unwrap());
                assert!(!bytes.is_empty(), "an empty chunk");
                seen.chunks.push((params["stream"].as_str().unwrap().to_owned(), bytes));
            }
            "process/exited" => {
                assert!(seen.exited.is_none(), "exited twice: {message}");
                assert!(params["sandboxDenied"].is_boolean(), "{message}");
                seen.exited = Some(params.clone());
                seen.before_exit = seen.chunks.len();
            }
            "process/closed" => {
                let has_exited = seen.exited.is_some() || self.gaps;
                assert!(has_exited, "closed and not exited: {message}");
                seen.closed = true;
            }
            other => panic!("{other} is no notification of the dialect: {message}"),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(log) = self.log.as_ref().filter(|_| std::thread::panicking()) {
            eprintln!("--- the server's stderr\n{}", log.text());
        }
    }
}
