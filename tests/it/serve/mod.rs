//! `ta serve`: what an agent meets that starts it, or comes by HTTP.

mod calls;
mod ends;
mod http;
mod protocol;
pub(crate) mod real;
mod upstreams;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::log::Log;
use crate::support::server::wait;
use crate::support::{DEADLINE, Server, Setup, TempDir, binary, side_by_side, stop, ta, ta_to};

/// An agent that has started a command, and speaks MCP with it.
pub(crate) struct Agent {
    pub(crate) child: Child,
    stdin: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
    pub(crate) stderr: Log,
    next: u64,
    /// What has come that was not asked for.
    pub(crate) told: Vec<Value>,
}

impl Agent {
    pub(crate) fn start(mut command: std::process::Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let stderr = Log::follow(child.stderr.take().unwrap());
        let stdin = child.stdin.take();
        Self { child, stdin, lines, stderr, next: 1, told: Vec::new() }
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub(crate) fn line(&mut self, line: &str) {
        self.bytes(format!("{line}\n").as_bytes());
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.line(&message.to_string());
    }

    pub(crate) fn notify(&mut self, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Asks; the id of the answer.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> u64 {
        let id = self.next;
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    #[track_caller]
    pub(crate) fn message(&mut self) -> Value {
        let line = self.lines.recv_timeout(DEADLINE);
        let line =
            line.unwrap_or_else(|error| panic!("no message: {error}; {}", self.stderr.text()));
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("stdout is the protocol's: {line}"))
    }

    /// The answer with this id; what else comes is kept.
    #[track_caller]
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.message();
            if message["id"] == json!(id) && message.get("method").is_none() {
                return message;
            }
            self.told.push(message);
        }
    }

    /// Asks, and waits for the result.
    #[track_caller]
    pub(crate) fn result(&mut self, method: &str, params: &Value) -> Value {
        let id = self.ask(method, params);
        let answer = self.answer(id);
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    #[track_caller]
    pub(crate) fn hello(&mut self) -> Value {
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {"roots": {}},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let result = self.result("initialize", &hello);
        self.notify("notifications/initialized", &json!({}));
        result
    }

    /// Calls a tool; its text, as an error if it says that it has failed.
    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Result<String, String> {
        text_of(&self.result("tools/call", &json!({"name": tool, "arguments": arguments})))
    }

    /// The names of the tools.
    #[track_caller]
    pub(crate) fn tools(&mut self) -> Vec<String> {
        let list = self.result("tools/list", &json!({}));
        let tools = list["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    #[track_caller]
    pub(crate) fn exit(&mut self, limit: Duration) -> ExitStatus {
        let status = wait(&mut self.child, limit);
        status.unwrap_or_else(|| panic!("it still runs after {limit:?}: {}", self.stderr.text()))
    }

    /// Closes stdin and waits for a clean end.
    #[track_caller]
    pub(crate) fn close(mut self) {
        self.close_stdin();
        let status = self.exit(DEADLINE);
        assert!(status.success(), "{status}: {}", self.stderr.text());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stdin = None;
        stop(&mut self.child);
    }
}

pub(crate) fn text_of(result: &Value) -> Result<String, String> {
    let pieces = result["content"].as_array().unwrap_or_else(|| panic!("no content: {result}"));
    let text: String = pieces.iter().filter_map(|piece| piece["text"].as_str()).collect();
    if result["isError"] == json!(true) { Err(text) } else { Ok(text) }
}

/// An environment of a test's own: where it is, and the command that reaches it.
pub(crate) struct Place {
    server: Option<Server>,
    pub(crate) dir: TempDir,
}

impl Place {
    /// A server over WebSocket.
    pub(crate) fn websocket() -> Self {
        let dir = TempDir::new();
        let server = Setup::new().args(["--cwd", dir.path().to_str().unwrap()]).listen();
        Self { server: Some(server), dir }
    }

    /// A server on a pipe.
    pub(crate) fn via() -> Self {
        Self { server: None, dir: TempDir::new() }
    }

    /// `ta COMMAND` that reaches it, with these arguments.
    pub(crate) fn ta(&self, command: &str, args: &[&str]) -> std::process::Command {
        match &self.server {
            Some(server) => ta_to(server, &[&[command], args].concat()),
            None => {
                let (program, dir) = (binary(), self.dir.path());
                let via = format!(
                    "'{}' exec-server --stdio --cwd '{}'",
                    program.display(),
                    dir.display()
                );
                ta(&[&[command, "--via", &via], args].concat())
            }
        }
    }

    pub(crate) fn serve(&self, args: &[&str]) -> Agent {
        Agent::start(self.ta("serve", args))
    }

    pub(crate) fn is_via(&self) -> bool {
        self.server.is_none()
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Runs one body over both, side by side.
pub(crate) fn over_both(body: impl Fn(&Place) + Sync) {
    let (websocket, via) = (|| body(&Place::websocket()), || body(&Place::via()));
    side_by_side("websocket", &websocket, "via", &via);
}

/// A script beside the tests.
pub(crate) fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/serve").join(name)
}
