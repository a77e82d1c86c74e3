//! Codex's exec-server beside us: the real one, and a client with nothing to it that speaks its dialect
//! with either.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Message, WebSocket};

use crate::Outcome;
use crate::server::{DEADLINE, Process, Server};

/// The real server, which ends with the value.
pub(crate) struct Codex {
    process: Process,
    url: String,
    _home: Home,
}

struct Home(PathBuf);

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Codex {
    /// `None` where it is not installed (tests/real.sh does that).
    pub(crate) fn start(target: &Path) -> Outcome<Option<Self>> {
        let vendor = target.join("real-codex/node_modules/codex/vendor");
        let found = std::fs::read_dir(vendor).into_iter().flatten().flatten();
        let binary = found.map(|entry| entry.path().join("bin/codex")).find(|path| path.exists());
        let Some(binary) = binary else { return Ok(None) };
        let home = std::env::temp_dir().join(format!("ta-bench-codex-{}", std::process::id()));
        std::fs::create_dir_all(&home)?;
        let home = Home(home);
        let mut command = Command::new(binary);
        command.args(["exec-server", "--listen", "ws://127.0.0.1:0"]).env("CODEX_HOME", &home.0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = Process(command.spawn()?);
        let mut stdout = BufReader::new(process.0.stdout.take().ok_or("no stdout")?);
        let mut url = String::new();
        stdout.read_line(&mut url)?;
        let url = url.trim().to_owned();
        if !url.starts_with("ws://") {
            return Err(format!("codex exec-server says {url:?} in place of its URL").into());
        }
        Ok(Some(Self { process, url, _home: home }))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.0.id()
    }

    pub(crate) fn client(&self) -> Outcome<Client> {
        Client::connect(&self.url, None)
    }
}

/// Speaks the dialect on one connection.
pub(crate) struct Client {
    socket: WebSocket<TcpStream>,
    last: u64,
}

impl Client {
    /// To our own.
    pub(crate) fn of(server: &Server) -> Outcome<Self> {
        Self::connect(&format!("ws://{}/", server.address), Some(server.token()))
    }

    fn connect(url: &str, token: Option<&str>) -> Outcome<Self> {
        let mut request = url.into_client_request()?;
        if let Some(token) = token {
            let token = HeaderValue::from_str(&format!("Bearer {token}"))?;
            request.headers_mut().insert("Authorization", token);
        }
        let address = request.uri().authority().ok_or("no address")?.as_str().to_owned();
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        let longest = Some(256 << 20);
        let config = WebSocketConfig::default().read_buffer_size(256 * 1024).write_buffer_size(0);
        let config = config.max_message_size(longest).max_frame_size(longest);
        let (socket, _) = tungstenite::client::client_with_config(request, stream, Some(config))
            .map_err(|error| format!("no WebSocket: {error}"))?;
        let mut client = Self { socket, last: 0 };
        client.call("initialize", &json!({"clientName": "bench"}))?;
        client.socket.send(Message::text("{\"method\":\"initialized\",\"params\":{}}"))?;
        Ok(client)
    }

    /// Asks, and waits for the result.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Outcome<Value> {
        self.last += 1;
        let id = self.last;
        let message = json!({"id": id, "method": method, "params": params});
        self.socket.send(Message::text(message.to_string()))?;
        loop {
            let mut answer = self.next()?;
            if answer["id"] == id {
                if answer["result"].is_null() {
                    return Err(format!("{method} was answered by {answer}").into());
                }
                return Ok(answer["result"].take());
            }
        }
    }

    /// Starts a program and waits until it has exited with 0 and is closed. Answers how long the exit
    /// took, and how many bytes came.
    pub(crate) fn run(&mut self, argv: &[&str]) -> Outcome<(Duration, u64)> {
        self.last += 1;
        let name = format!("r{}", self.last);
        let params = json!({
            "processId": name, "argv": argv, "cwd": "file:///", "env": {"PATH": "/usr/bin:/bin"},
            "tty": false,
        });
        let message = json!({"id": self.last, "method": "process/start", "params": params});
        let start = Instant::now();
        self.socket.send(Message::text(message.to_string()))?;
        let (mut bytes, mut exited) = (0, None);
        loop {
            let text = loop {
                match self.socket.read()? {
                    Message::Text(text) => break text,
                    Message::Close(frame) => return Err(format!("closed: {frame:?}").into()),
                    _ => {}
                }
            };
            if let Some(size) = output_size(&text) {
                bytes += size;
                continue;
            }
            let message: Value = serde_json::from_str(&text)?;
            // (Codex's own server tells of some exits late, or never.)
            let is_another = message["params"]["processId"].as_str().is_some_and(|it| it != name);
            match message["method"].as_str() {
                _ if is_another => {}
                Some("process/exited") if message["params"]["exitCode"] == 0 => {
                    exited = Some(start.elapsed());
                }
                Some("process/closed") => {
                    return Ok((exited.unwrap_or_else(|| start.elapsed()), bytes));
                }
                None if message["result"].is_object() => {}
                _ => return Err(format!("{argv:?} came to {message}").into()),
            }
        }
    }

    fn next(&mut self) -> Outcome<Value> {
        loop {
            match self.socket.read()? {
                Message::Text(text) => return Ok(serde_json::from_str(&text)?),
                Message::Close(frame) => return Err(format!("closed: {frame:?}").into()),
                _ => {}
            }
        }
    }
}

/// How many bytes an output notification carries, by the length of its base64.
fn output_size(text: &str) -> Option<u64> {
    let head = text.get(..text.len().min(400)).unwrap_or(text);
    if !head.contains("\"process/output\"") {
        return None;
    }
    let start = head.find("\"chunk\":\"")? + "\"chunk\":\"".len();
    let rest = text.get(start..)?;
    let chunk = rest.get(..rest.find('"')?)?;
    let padding = chunk.len() - chunk.trim_end_matches('=').len();
    Some((chunk.len() / 4 * 3 - padding) as u64)
}
