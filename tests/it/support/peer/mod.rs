//! A host as the protocol page describes it, and a suspicious one: every message is checked.

mod connections;
mod message;
mod processes;

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::DEADLINE;
use super::capture::{Capture, Output, Stream};
use super::link::Link;
use super::log::Log;
use super::wire::{Closing, Event, Pipes, Wire};
use message::{Envelope, parse, rpc_error};
pub(crate) use message::{Reply, RpcError};
pub(crate) use processes::{Done, Running};

pub(crate) struct Peer {
    wire: Wire,
    pub(crate) log: Log,
    next_id: u64,
    /// Requests of this peer's own numbering which have no answer yet.
    asked: HashSet<String>,
    replies: VecDeque<Reply>,
    execs: HashMap<String, String>,
    spawns: HashMap<String, String>,
    captures: HashMap<String, Capture>,
    connects: HashMap<String, String>,
    links: HashMap<String, Link>,
    closing: Option<Closing>,
    recent: VecDeque<String>,
}

impl Peer {
    pub(crate) fn new(wire: Wire, log: Log) -> Self {
        Self {
            wire,
            log,
            next_id: 1000,
            asked: HashSet::new(),
            replies: VecDeque::new(),
            execs: HashMap::new(),
            spawns: HashMap::new(),
            captures: HashMap::new(),
            connects: HashMap::new(),
            links: HashMap::new(),
            closing: None,
            recent: VecDeque::new(),
        }
    }

    pub(crate) fn is_stdio(&self) -> bool {
        matches!(self.wire, Wire::Stdio(_))
    }

    // ---- sending

    #[track_caller]
    pub(crate) fn send(&mut self, text: &str) {
        if let Err(error) = self.try_send(text) {
            panic!("cannot send {text:.200}: {error}");
        }
    }

    pub(crate) fn try_send(&mut self, text: &str) -> io::Result<()> {
        self.wire.send(text)
    }

    #[track_caller]
    pub(crate) fn notify(&mut self, method: &str, params: &Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.send(&message.to_string());
    }

    /// Sends a request with the next id of this peer's numbering, and returns that id.
    #[track_caller]
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> String {
        let (id, message) = self.number(method, params);
        self.send(&message);
        id
    }

    /// The same, without a look at what has come.
    #[track_caller]
    pub(crate) fn request_unread(&mut self, method: &str, params: &Value) -> String {
        let (id, message) = self.number(method, params);
        assert!(self.wire.try_send_unread(&message, DEADLINE), "{method} was not taken");
        id
    }

    fn number(&mut self, method: &str, params: &Value) -> (String, String) {
        let id = self.next_id;
        self.next_id += 1;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let id = id.to_string();
        self.asked.insert(id.clone());
        self.expect_process(&id, method, params);
        self.expect_connection(&id, method, params);
        (id, message.to_string())
    }

    fn expect_process(&mut self, id: &str, method: &str, params: &Value) {
        let Some(process) = params["processId"].as_str() else { return };
        if self.captures.get(process).is_some_and(|capture| !capture.is_over()) {
            return;
        }
        let (capture, waiting) = match method {
            "process/exec" => (Capture::default(), &mut self.execs),
            "process/spawn" => (Capture::of_spawn(), &mut self.spawns),
            _ => return,
        };
        waiting.insert(id.to_owned(), process.to_owned());
        self.captures.insert(process.to_owned(), capture);
    }

    // ---- answers

    #[track_caller]
    pub(crate) fn answer(&mut self, id: &str) -> Result<Value, RpcError> {
        self.answer_within(id, DEADLINE)
    }

    #[track_caller]
    pub(crate) fn answer_within(&mut self, id: &str, limit: Duration) -> Result<Value, RpcError> {
        let arrived = |peer: &Self| peer.replies.iter().position(|reply| reply.id == id);
        self.wait_until(limit, &format!("an answer to id {id}"), |peer| arrived(peer).is_some());
        let index = arrived(self).unwrap();
        self.replies.remove(index).unwrap().outcome
    }

    /// The next answer, whatever its id.
    #[track_caller]
    pub(crate) fn reply(&mut self) -> Reply {
        self.wait_until(DEADLINE, "an answer", |peer| !peer.replies.is_empty());
        self.replies.pop_front().unwrap()
    }

    /// Whether this request has been answered by what was received so far.
    pub(crate) fn has_answer(&self, id: &str) -> bool {
        self.replies.iter().any(|reply| reply.id == id)
    }

    #[track_caller]
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Result<Value, RpcError> {
        let id = self.request(method, params);
        self.answer(&id)
    }

    #[track_caller]
    pub(crate) fn ok(&mut self, method: &str, params: &Value) -> Value {
        match self.call(method, params) {
            Ok(result) => result,
            Err(error) => panic!("{method} {params:.300} failed: {error:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn error(&mut self, method: &str, params: &Value) -> RpcError {
        match self.call(method, params) {
            Ok(result) => panic!("{method} {params:.300} succeeded: {result}"),
            Err(error) => error,
        }
    }

    #[track_caller]
    pub(crate) fn ping(&mut self) {
        assert_eq!(self.ok("ping", &json!({})), json!({}));
    }

    /// Shows that nothing was answered but what this test has asked for.
    #[track_caller]
    pub(crate) fn assert_quiet(&mut self) {
        self.ping();
        assert!(self.replies.is_empty(), "answers nobody asked for: {:?}", self.replies);
    }

    /// The pid of the process that serves.
    #[track_caller]
    pub(crate) fn server_pid(&mut self) -> u32 {
        let pid = self.ok("initialize", &json!({}))["pid"].as_u64().expect("initialize.pid");
        u32::try_from(pid).unwrap()
    }

    // ---- receiving

    #[track_caller]
    pub(crate) fn wait_until(&mut self, limit: Duration, what: &str, done: impl Fn(&Self) -> bool) {
        let end = Instant::now() + limit;
        while !done(self) {
            match self.step(end) {
                Step::Received => (),
                Step::Silence => panic!("no {what} within {limit:?}"),
                Step::Closed => {
                    panic!("no {what}: the connection ended: {:?}", self.closing)
                }
            }
        }
    }

    /// Receives whatever arrives within this time.
    pub(crate) fn pump(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while matches!(self.step(end), Step::Received) {}
    }

    /// Receives until a process has written more than so many bytes, or is over.
    #[track_caller]
    pub(crate) fn pump_until_more(&mut self, process: &str, than: usize) {
        self.wait_until(DEADLINE, &format!("more output of {process}"), |peer| {
            peer.received(process) > than || peer.is_over(process)
        });
    }

    /// Receives for some time without looking into the messages, for a test that has sent nonsense;
    /// returns their text.
    pub(crate) fn skim(&mut self, time: Duration) -> String {
        let end = Instant::now() + time;
        let mut all = String::new();
        while let Event::Text(text) = self.wire.receive(end) {
            self.remember(&text);
            all.push_str(&text);
        }
        all
    }

    /// Waits for the end of the connection, whatever arrives before it.
    #[track_caller]
    pub(crate) fn closed(&mut self, limit: Duration) -> Closing {
        let end = Instant::now() + limit;
        loop {
            match self.step(end) {
                Step::Received => (),
                Step::Silence => panic!("the connection is still open after {limit:?}"),
                Step::Closed => return self.closing.clone().unwrap(),
            }
        }
    }

    fn step(&mut self, until: Instant) -> Step {
        if self.closing.is_some() {
            return Step::Closed;
        }
        match self.wire.receive(until) {
            Event::Silence => return Step::Silence,
            Event::Closed(closing) => {
                self.closing = Some(closing);
                return Step::Closed;
            }
            Event::Text(text) => {
                self.remember(&text);
                if let Err(fault) = self.take(&text) {
                    panic!("{fault}\nin the message {text:.400}");
                }
            }
        }
        Step::Received
    }

    fn remember(&mut self, text: &str) {
        if self.recent.len() == 30 {
            self.recent.pop_front();
        }
        self.recent.push_back(format!("{text:.300}"));
    }

    fn take(&mut self, text: &str) -> Result<(), String> {
        let message: Envelope<'_> =
            serde_json::from_str(text).map_err(|error| format!("not a message: {error}"))?;
        if message.jsonrpc != "2.0" {
            return Err(format!("jsonrpc is {}", message.jsonrpc));
        }
        match (&message.method, message.id) {
            (Some(method), None) => self.take_notification(method, message.params),
            (None, Some(id)) => self.take_answer(id.get(), &message),
            _ => Err("neither an answer nor a notification".into()),
        }
    }

    fn take_answer(&mut self, id: &str, message: &Envelope<'_>) -> Result<(), String> {
        let own = id.parse().is_ok_and(|id: u64| (1000..self.next_id).contains(&id));
        if own && !self.asked.remove(id) {
            return Err(format!("id {id} is answered twice"));
        }
        let outcome = match (message.result, message.error) {
            (Some(result), None) => Ok(parse(result)?),
            (None, Some(error)) => Err(rpc_error(&parse(error)?)?),
            _ => return Err("an answer has either a result or an error".into()),
        };
        self.note_start_or_end(id, &outcome)?;
        self.note_connected(id, &outcome);
        self.replies.push_back(Reply { id: id.to_owned(), outcome });
        Ok(())
    }

    fn note_start_or_end(
        &mut self,
        id: &str,
        outcome: &Result<Value, RpcError>,
    ) -> Result<(), String> {
        if let Some(process) = self.execs.remove(id) {
            match outcome {
                Ok(result) => self.capture(&process).ended(result)?,
                Err(_) => drop(self.captures.remove(&process)),
            }
        }
        if let Some(process) = self.spawns.remove(id) {
            match outcome {
                Ok(_) => self.capture(&process).started(),
                Err(_) => drop(self.captures.remove(&process)),
            }
        }
        Ok(())
    }

    fn take_notification(&mut self, method: &str, params: Option<&RawValue>) -> Result<(), String> {
        let params = params.ok_or("a notification without params")?;
        match method {
            "process/output" => self.take_output(params, Stream::Stdout),
            "process/stderr" => self.take_output(params, Stream::Stderr),
            "process/exit" => {
                let params = parse(params)?;
                let process = params["processId"].as_str().ok_or("no processId")?.to_owned();
                self.captures.entry(process).or_default().exited(params)
            }
            "net/data" => self.take_data(params),
            "net/closed" => self.take_closed(params),
            _ => Err("an unknown notification".into()),
        }
    }

    fn take_output(&mut self, params: &RawValue, stream: Stream) -> Result<(), String> {
        let output: Output<'_> =
            serde_json::from_str(params.get()).map_err(|error| error.to_string())?;
        if !self.captures.contains_key(&*output.process_id) {
            self.captures.insert(output.process_id.to_string(), Capture::default());
        }
        let capture = self.capture(&output.process_id);
        let bytes = capture.output(&output, stream)?;
        if capture.acknowledge {
            let ack = json!({"processId": output.process_id, "bytes": bytes});
            self.notify("process/ack", &ack);
        }
        Ok(())
    }

    // ---- the connection

    pub(crate) fn wire(&mut self) -> &mut Wire {
        &mut self.wire
    }

    pub(crate) fn pipes(&mut self) -> &mut Pipes {
        self.wire.pipes()
    }

    /// Ends the connection without a word: FIN, or the end of stdin.
    pub(crate) fn hang_up(&mut self) {
        self.wire.hang_up();
    }
}

enum Step {
    Received,
    Silence,
    Closed,
}

impl Drop for Peer {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        eprintln!("--- {} peer: the last messages received", self.wire.name());
        for text in &self.recent {
            eprintln!("{text}");
        }
        eprintln!("--- the server's stderr\n{}", self.log.text());
    }
}
