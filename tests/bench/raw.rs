//! A client with nothing to it but a WebSocket: what is between it and the library's client is
//! what that costs.

use std::net::TcpStream;

use serde_json::Value;
use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Message, WebSocket};

use crate::Outcome;
use crate::server::{DEADLINE, Server};

/// A connection on which one thread asks and waits.
pub(crate) struct Raw {
    socket: WebSocket<TcpStream>,
    last: u64,
}

impl Raw {
    pub(crate) fn connect(server: &Server) -> Outcome<Self> {
        let stream = TcpStream::connect(server.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        let mut request = server.url().into_client_request()?;
        let token = HeaderValue::from_str(&format!("Bearer {}", server.token()))?;
        request.headers_mut().insert("Authorization", token);
        let config = WebSocketConfig::default().read_buffer_size(256 * 1024).write_buffer_size(0);
        let (socket, _) = tungstenite::client::client_with_config(request, stream, Some(config))
            .map_err(|error| format!("no WebSocket: {error}"))?;
        Ok(Self { socket, last: 0 })
    }

    /// A round trip.
    pub(crate) fn ping(&mut self) -> Outcome<()> {
        let id = self.ask("ping", "{}")?;
        let answer = self.next_value()?;
        let fine = answer["id"] == id && answer["result"].is_object();
        fine.then_some(()).ok_or_else(|| format!("ping was answered by {answer}").into())
    }

    /// Spawns /bin/true and waits for its exit.
    pub(crate) fn spawn_true(&mut self) -> Outcome<()> {
        let id = self.ask_to_spawn("/bin/true", &[])?;
        self.await_started(&[id])?;
        self.await_exits(1).map(drop)
    }

    /// Runs `true` in the shell.
    pub(crate) fn exec_true(&mut self) -> Outcome<()> {
        let params = format!("{{\"processId\":\"r{}\",\"command\":\"true\"}}", self.last + 1);
        let id = self.ask("process/exec", &params)?;
        let answer = self.next_value()?;
        let fine = answer["id"] == id && answer["result"]["exitCode"] == 0;
        fine.then_some(()).ok_or_else(|| format!("true was answered by {answer}").into())
    }

    /// Asks for a program and answers the request's id.
    pub(crate) fn ask_to_spawn(&mut self, command: &str, arguments: &[&str]) -> Outcome<u64> {
        let id = self.last + 1;
        let arguments = serde_json::to_string(arguments)?;
        let params =
            format!("{{\"processId\":\"r{id}\",\"command\":\"{command}\",\"args\":{arguments}}}");
        self.ask("process/spawn", &params)
    }

    /// Waits until all of these requests have been answered by a pid.
    pub(crate) fn await_started(&mut self, ids: &[u64]) -> Outcome<()> {
        for _ in ids {
            let answer = self.next_value()?;
            let known = answer["id"].as_u64().is_some_and(|id| ids.contains(&id));
            if !known || !answer["result"]["pid"].is_u64() {
                return Err(format!("a spawn was answered by {answer}").into());
            }
        }
        Ok(())
    }

    /// Waits until so many processes have exited, each with success and all its output, and
    /// answers how many bytes came.
    pub(crate) fn await_exits(&mut self, count: usize) -> Outcome<u64> {
        let mut bytes = 0;
        let mut sent = 0;
        for _ in 0..count {
            let exit = loop {
                let text = self.next_text()?;
                match output_size(&text) {
                    Some(size) => bytes += size,
                    None => break serde_json::from_str::<Value>(&text)?,
                }
            };
            let params = &exit["params"];
            if exit["method"] != "process/exit" || params["exitCode"] != 0 {
                return Err(format!("in place of an exit with 0 came {exit}").into());
            }
            sent += params["stdoutBytes"].as_u64().unwrap_or(0);
            sent += params["stderrBytes"].as_u64().unwrap_or(0);
        }
        let wrong = || format!("{bytes} bytes came and {sent} were sent").into();
        (bytes == sent).then_some(bytes).ok_or_else(wrong)
    }

    fn ask(&mut self, method: &str, params: &str) -> Outcome<u64> {
        self.last += 1;
        let id = self.last;
        let text = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}"
        );
        self.socket.send(Message::text(text))?;
        Ok(id)
    }

    fn next_value(&mut self) -> Outcome<Value> {
        Ok(serde_json::from_str(&self.next_text()?)?)
    }

    fn next_text(&mut self) -> Outcome<tungstenite::Utf8Bytes> {
        loop {
            match self.socket.read()? {
                Message::Text(text) => return Ok(text),
                Message::Close(frame) => return Err(format!("closed: {frame:?}").into()),
                _ => {}
            }
        }
    }
}

/// How many bytes an output notification carries, by the length of its base64; `None` for any
/// other message.
fn output_size(text: &str) -> Option<u64> {
    let is_output = text.starts_with("{\"jsonrpc\":\"2.0\",\"method\":\"process/output\"");
    let is_stderr = text.starts_with("{\"jsonrpc\":\"2.0\",\"method\":\"process/stderr\"");
    if !is_output && !is_stderr {
        return None;
    }
    let head = text.get(..400.min(text.len()))?;
    let start = head.find("\"chunk\":\"")? + "\"chunk\":\"".len();
    let chunk = text.get(start..)?.strip_suffix("\"}}")?;
    let padding = chunk.len() - chunk.trim_end_matches('=').len();
    Some((chunk.len() / 4 * 3 - padding) as u64)
}
