//! Codex's exec-server, the real one, and a client with nothing to it that speaks its dialect, with it
//! or with ours.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::net::sockopt::set_tcp_quickack;
use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;
use tungstenite::protocol::WebSocketConfig;
use tungstenite::protocol::frame::Frame;
use tungstenite::protocol::frame::coding::{Data, OpCode};
use tungstenite::{Bytes, Message, Utf8Bytes, WebSocket};

use super::bare::all_came;
use super::{CODEX, CODEX_ACKS, Peer, TA_CODEX, Way};
use crate::Outcome;
use crate::arena::Arena;
use crate::server::{DEADLINE, Process, Server};

/// The longest block that there is.
const BLOCK: u64 = 1024 * 1024;
/// What goes into one write to a program's stdin.
const PART: usize = 64 * 1024;
/// How many requests are on their way at once where none needs the answer of another.
const AHEAD: usize = 8;
/// A frame to the server has 16 MiB at most; a message may have several frames.
const LONGEST_FRAME: usize = 15 << 20;

/// The real server, which ends with the value.
pub(crate) struct Codex {
    process: Process,
    started: Instant,
    url: String,
    acknowledges_at_once: bool,
    _home: Home,
}

struct Home(PathBuf);

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Where the program is, if `make bench-peers` or the tests have installed it.
pub(crate) fn program(arena: &Arena) -> Option<PathBuf> {
    let vendor = arena.directory.parent()?.join("real-codex/node_modules/codex/vendor");
    let found = std::fs::read_dir(vendor).into_iter().flatten().flatten();
    found.map(|entry| entry.path().join("bin/codex")).find(|path| path.exists())
}

impl Codex {
    /// `None` where it is not installed.
    pub(crate) fn start(arena: &Arena, acknowledges_at_once: bool) -> Outcome<Option<Self>> {
        let Some(binary) = program(arena) else { return Ok(None) };
        let name = format!("ta-bench-codex-{}-{acknowledges_at_once}", std::process::id());
        let home = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&home)?;
        let home = Home(home);
        let mut command = Command::new(binary);
        command.args(["exec-server", "--listen", "ws://127.0.0.1:0"]).env("CODEX_HOME", &home.0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let started = Instant::now();
        let mut process = Process(command.spawn()?);
        let mut stdout = BufReader::new(process.0.stdout.take().ok_or("no stdout")?);
        let mut url = String::new();
        stdout.read_line(&mut url)?;
        let url = url.trim().to_owned();
        if !url.starts_with("ws://") {
            return Err(format!("codex exec-server says {url:?} in place of its URL").into());
        }
        Ok(Some(Self { process, started, url, acknowledges_at_once, _home: home }))
    }

    /// Connects, and answers how long that is after its start.
    pub(crate) fn to_accept(&self) -> Outcome<Duration> {
        TcpStream::connect(self.url.trim_start_matches("ws://"))?;
        Ok(self.started.elapsed())
    }
}

impl Peer for Codex {
    fn name(&self) -> &'static str {
        if self.acknowledges_at_once { CODEX_ACKS } else { CODEX }
    }

    fn way(&self) -> Outcome<Box<dyn Way>> {
        Ok(Box::new(Client::connect(&self.url, None, self.acknowledges_at_once)?))
    }

    fn started(&self) -> Option<u32> {
        Some(self.process.0.id())
    }
}

/// Our server, asked in Codex's dialect.
pub(super) struct OurDialect(pub(super) Server);

impl Peer for OurDialect {
    fn name(&self) -> &'static str {
        TA_CODEX
    }

    fn way(&self) -> Outcome<Box<dyn Way>> {
        let url = format!("ws://{}/", self.0.address);
        Ok(Box::new(Client::connect(&url, Some(self.0.token()), false)?))
    }

    fn started(&self) -> Option<u32> {
        Some(self.0.guardian())
    }
}

/// A socket whose kernel may be told to send the ACK of what was read at once.
struct Socket {
    stream: TcpStream,
    acknowledges_at_once: bool,
}

impl Read for Socket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(bytes)?;
        if self.acknowledges_at_once {
            // (It is forgotten again by the kernel.)
            set_tcp_quickack(&self.stream, true)?;
        }
        Ok(count)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Speaks the dialect on one connection.
pub(crate) struct Client {
    socket: WebSocket<Socket>,
    last: u64,
}

/// A message from the server.
enum Incoming {
    /// So many bytes of output.
    Output(u64),
    Other(Value),
}

impl Client {
    fn connect(url: &str, token: Option<&str>, acknowledges_at_once: bool) -> Outcome<Self> {
        let mut request = url.into_client_request()?;
        if let Some(token) = token {
            let token = HeaderValue::from_str(&format!("Bearer {token}"))?;
            request.headers_mut().insert("Authorization", token);
        }
        let address = request.uri().authority().ok_or("no address")?.as_str().to_owned();
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        let stream = Socket { stream, acknowledges_at_once };
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

    /// Asks; answers the request's id.
    fn ask(&mut self, method: &str, params: &Value) -> Outcome<u64> {
        self.ask_text(method, &params.to_string())
    }

    fn ask_text(&mut self, method: &str, params: &str) -> Outcome<u64> {
        self.last += 1;
        let id = self.last;
        let text = format!("{{\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}");
        if text.len() <= LONGEST_FRAME {
            self.socket.send(Message::text(text))?;
            return Ok(id);
        }
        let text = Bytes::from(text);
        let starts = (0..text.len()).step_by(LONGEST_FRAME);
        for start in starts {
            let end = text.len().min(start + LONGEST_FRAME);
            let kind = if start == 0 { Data::Text } else { Data::Continue };
            let part = text.slice(start..end);
            let frame = Frame::message(part, OpCode::Data(kind), end == text.len());
            self.socket.send(Message::Frame(frame))?;
        }
        Ok(id)
    }

    /// Asks with content in base64, which is written by hand.
    fn ask_with(&mut self, method: &str, members: &str, content: &[u8]) -> Outcome<u64> {
        let mut params = String::with_capacity(content.len() / 3 * 4 + members.len() + 16);
        write!(params, "{{{members}:\"")?;
        STANDARD.encode_string(content, &mut params);
        params.push_str("\"}");
        self.ask_text(method, &params)
    }

    /// Asks, and waits for the result.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Outcome<Value> {
        let id = self.ask(method, params)?;
        self.answer(method, id)
    }

    /// Waits for the result of a request; output on the way to it counts for nothing.
    fn answer(&mut self, method: &str, id: u64) -> Outcome<Value> {
        loop {
            let Incoming::Other(mut answer) = self.next()? else { continue };
            if answer["id"] == id {
                if answer["result"].is_null() {
                    return Err(format!("{method} was answered by {answer}").into());
                }
                return Ok(answer["result"].take());
            }
        }
    }

    /// Starts a program under a name of its own, which is answered.
    pub(crate) fn start(&mut self, argv: &[&str], with_stdin: bool) -> Outcome<String> {
        let name = format!("r{}", self.last + 1);
        let params = json!({
            "processId": name, "argv": argv, "cwd": "file:///", "env": {"PATH": "/usr/bin:/bin"},
            "tty": false, "pipeStdin": with_stdin,
        });
        self.ask("process/start", &params)?;
        Ok(name)
    }

    /// Runs a program so often, so many at a time, each to its end, which must be a success. Answers how
    /// long each took to its exit, and how many bytes came from all of them.
    fn run(&mut self, argv: &[&str], in_flight: usize, count: usize) -> Outcome<(Vec<f64>, u64)> {
        let (mut running, mut left) = (BTreeMap::<String, Instant>::new(), count);
        let mut exits = BTreeMap::<String, Duration>::new();
        let (mut times, mut bytes) = (Vec::with_capacity(count), 0);
        while times.len() < count {
            while left > 0 && running.len() < in_flight {
                let start = Instant::now();
                running.insert(self.start(argv, false)?, start);
                left -= 1;
            }
            let message = match self.next()? {
                Incoming::Output(size) => {
                    bytes += size;
                    continue;
                }
                Incoming::Other(message) => message,
            };
            let name = message["params"]["processId"].as_str().unwrap_or_default();
            let start = running.get(name).copied();
            match (message["method"].as_str(), start) {
                (Some("process/exited"), Some(start)) if message["params"]["exitCode"] == 0 => {
                    exits.insert(name.to_owned(), start.elapsed());
                }
                (Some("process/closed"), Some(start)) => {
                    running.remove(name);
                    // (Codex's own server tells of some exits after that, or never.)
                    let time = exits.remove(name).unwrap_or_else(|| start.elapsed());
                    times.push(time.as_secs_f64());
                }
                (Some("process/exited"), None) => {}
                (None, _) if message["result"].is_object() => {}
                _ => return Err(format!("{argv:?} came to {message}").into()),
            }
        }
        Ok((times, bytes))
    }

    fn next_text(&mut self) -> Outcome<Utf8Bytes> {
        loop {
            match self.socket.read()? {
                Message::Text(text) => return Ok(text),
                Message::Close(frame) => return Err(format!("closed: {frame:?}").into()),
                _ => {}
            }
        }
    }

    fn next(&mut self) -> Outcome<Incoming> {
        let text = self.next_text()?;
        Ok(match output_size(&text) {
            Some(size) => Incoming::Output(size),
            None => Incoming::Other(serde_json::from_str(&text)?),
        })
    }

    /// Takes content that was asked for: the request's id, and the bytes.
    fn content(&mut self) -> Outcome<(u64, Vec<u8>)> {
        let text = self.next_text()?;
        let content = member(&text, "dataBase64").or_else(|| member(&text, "chunk"));
        // (The id comes before the content or after it.)
        let ends = [text.get(..text.len().min(400)), text.get(text.len().saturating_sub(100)..)];
        let id = ends.into_iter().flatten().find_map(|end| {
            let (_, id) = end.split_once("\"id\":")?;
            id.split(|one: char| !one.is_ascii_digit()).next()?.parse().ok()
        });
        match (id, content) {
            (Some(id), Some(content)) => Ok((id, STANDARD.decode(content)?)),
            _ => Err(format!("in place of content came {}", ends[0].unwrap_or(&text)).into()),
        }
    }

    /// A file in blocks, several of them on their way at once. (Ours answers them as they are done.)
    fn write_blocks(&mut self, path: &Path, mut from: impl Read, size: u64) -> Outcome<()> {
        let handle = self.open(path, "replace")?;
        let mut asked = BTreeSet::new();
        let mut block = vec![0; usize::try_from(BLOCK)?];
        let mut offset = 0;
        while offset < size || !asked.is_empty() {
            if offset < size && asked.len() < AHEAD {
                let length = usize::try_from(BLOCK.min(size - offset))?;
                from.read_exact(&mut block[..length])?;
                let members = format!("\"handleId\":\"{handle}\",\"offset\":{offset},\"chunk\"");
                asked.insert(self.ask_with("fs/writeBlock", &members, &block[..length])?);
                offset += length as u64;
                continue;
            }
            let Incoming::Other(answer) = self.next()? else { continue };
            let is_known = answer["id"].as_u64().is_some_and(|id| asked.remove(&id));
            if !is_known || !answer["result"].is_object() {
                return Err(format!("fs/writeBlock was answered by {answer}").into());
            }
        }
        self.call("fs/close", &json!({"handleId": handle})).map(drop)
    }

    fn read_blocks(&mut self, path: &Path, to: &File, size: u64) -> Outcome<()> {
        let handle = self.open(path, "read")?;
        let (mut asked, mut next, mut count) = (BTreeMap::new(), 0, 0);
        while count < size {
            while next < size && asked.len() < AHEAD {
                let params = json!({"handleId": handle, "offset": next, "len": BLOCK});
                asked.insert(self.ask("fs/readBlock", &params)?, next);
                next += BLOCK;
            }
            let (id, block) = self.content()?;
            let offset = asked.remove(&id).ok_or("that was not asked for")?;
            to.write_all_at(&block, offset)?;
            count += block.len() as u64;
        }
        self.call("fs/close", &json!({"handleId": handle}))?;
        all_came(count, size)
    }

    fn open(&mut self, path: &Path, mode: &str) -> Outcome<String> {
        let handle = format!("h{}", self.last);
        let params = json!({"handleId": handle, "path": uri(path), "mode": mode});
        self.call("fs/open", &params)?;
        Ok(handle)
    }
}

fn uri(path: &Path) -> String {
    format!("file://{}", path.display())
}

impl Way for Client {
    fn ping(&mut self) -> Outcome<()> {
        self.call("environment/status", &json!({})).map(drop)
    }

    fn stat(&mut self, file: &Path) -> Outcome<()> {
        self.call("fs/getMetadata", &json!({"path": uri(file)})).map(drop)
    }

    fn run_true(&mut self, in_flight: usize, count: usize) -> Outcome<Vec<f64>> {
        Ok(self.run(&["/bin/true"], in_flight, count)?.0)
    }

    fn output(&mut self, processes: usize, each: u64) -> Outcome<()> {
        let argv = ["head", "-c", &each.to_string(), "/dev/zero"];
        let (_, bytes) = self.run(&argv, processes, processes)?;
        all_came(bytes, each * processes as u64)
    }

    fn sleep(&mut self, processes: usize) -> Outcome<()> {
        (0..processes).try_for_each(|_| self.start(&["sleep", "600"], false).map(drop))?;
        // (Requests are carried out one after the other.)
        self.ping()
    }

    fn stall(&mut self) -> Outcome<()> {
        self.start(&["cat", "/dev/zero"], false).map(drop)
    }

    fn under_load(&mut self, streams: usize, count: usize) -> Outcome<(Vec<f64>, Vec<f64>)> {
        let start = |_| self.start(&["cat", "/dev/zero"], false);
        let started = (0..streams).map(start).collect::<Outcome<Vec<String>>>()?;
        let mut flowing = BTreeSet::new();
        while flowing.len() < streams {
            let text = self.next_text()?;
            if let (Some(_), Some(name)) = (output_size(&text), member(&text, "processId")) {
                flowing.insert(name.to_owned());
            }
        }
        let (mut pings, mut ends) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let start = Instant::now();
            self.ping()?;
            pings.push(start.elapsed().as_secs_f64());
            let name = self.start(&["sleep", "600"], false)?;
            self.answer("process/start", self.last)?;
            let start = Instant::now();
            self.ask("process/terminate", &json!({"processId": name}))?;
            loop {
                let Incoming::Other(message) = self.next()? else { continue };
                let is_end =
                    matches!(message["method"].as_str(), Some("process/exited" | "process/closed"));
                if is_end && message["params"]["processId"] == *name {
                    break;
                }
            }
            ends.push(start.elapsed().as_secs_f64());
        }
        // (They would outlive the connection.)
        for name in started {
            self.call("process/terminate", &json!({"processId": name}))?;
        }
        Ok((pings, ends))
    }

    fn input(&mut self, size: u64) -> Outcome<()> {
        // (A stdin cannot be closed here.)
        let name = self.start(&["sh", "-c", &format!("head -c {size} > /dev/null")], true)?;
        let members = format!("\"processId\":\"{name}\",\"writeId\":");
        let part = vec![b'x'; PART];
        let mut asked = VecDeque::new();
        let mut ended = false;
        for number in 0..size / PART as u64 {
            let members = format!("{members}\"w{number}\",\"chunk\"");
            asked.push_back(self.ask_with("process/write", &members, &part)?);
            while asked.len() >= AHEAD {
                self.accepted(&mut asked, &mut ended)?;
            }
        }
        while !asked.is_empty() || !ended {
            self.accepted(&mut asked, &mut ended)?;
        }
        Ok(())
    }

    fn read(&mut self, files: &[PathBuf], size: usize) -> Outcome<()> {
        files.iter().try_for_each(|file| {
            let asked = self.ask("fs/readFile", &json!({"path": uri(file)}))?;
            match self.content()? {
                (id, content) if id == asked => all_came(content.len() as u64, size as u64),
                (id, _) => Err(format!("request {id} was answered in place of {asked}").into()),
            }
        })
    }

    fn write(&mut self, files: &[PathBuf], content: &[u8]) -> Outcome<()> {
        files.iter().try_for_each(|file| {
            let members = format!("\"path\":\"{}\",\"dataBase64\"", uri(file));
            let id = self.ask_with("fs/writeFile", &members, content)?;
            self.answer("fs/writeFile", id).map(drop)
        })
    }

    fn store(&mut self, here: &Path, there: &Path) -> Outcome<()> {
        self.write_blocks(there, File::open(here)?, here.metadata()?.len())
    }

    fn fetch(&mut self, there: &Path, here: &Path) -> Outcome<()> {
        self.read_blocks(there, &File::create_new(here)?, there.metadata()?.len())
    }
}

impl Client {
    /// Takes the next message while writes are under way: the answer to one of them, or the end of the
    /// program, which must be a success.
    fn accepted(&mut self, asked: &mut VecDeque<u64>, ended: &mut bool) -> Outcome<()> {
        let Incoming::Other(message) = self.next()? else { return Ok(()) };
        match (message["id"].as_u64(), message["method"].as_str()) {
            (Some(id), _) if asked.front() == Some(&id) => {
                asked.pop_front();
                let status = &message["result"]["status"];
                let fine = status == "accepted";
                fine.then_some(()).ok_or_else(|| format!("a write came to {message}").into())
            }
            (Some(_), _) if message["result"].is_object() => Ok(()),
            (None, Some("process/exited")) if message["params"]["exitCode"] == 0 => Ok(()),
            (None, Some("process/closed")) => {
                *ended = true;
                Ok(())
            }
            _ => Err(format!("stdin came to {message}").into()),
        }
    }
}

/// The value of a member that has nothing to be escaped.
fn member<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let name = format!("\"{name}\":\"");
    let start = text.get(..400.min(text.len()))?.find(&name)? + name.len();
    let rest = text.get(start..)?;
    rest.get(..rest.find('"')?)
}

/// How many bytes an output notification carries, by the length of its base64.
fn output_size(text: &str) -> Option<u64> {
    let head = text.get(..text.len().min(400)).unwrap_or(text);
    if !head.contains("\"process/output\"") {
        return None;
    }
    let chunk = member(text, "chunk")?;
    let padding = chunk.len() - chunk.trim_end_matches('=').len();
    Some((chunk.len() / 4 * 3 - padding) as u64)
}
