//! A model that does what it was told beforehand, by the API that Codex speaks (Responses, as a stream).

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::support::DEADLINE;

/// What the model says when it has called all.
pub(super) const SAID: &str = "all is done";
/// In arguments: the number of the session that an answer has named last.
pub(super) const SESSION: &str = "$SESSION";

/// One call of a tool.
#[derive(Clone)]
pub(super) enum Step {
    Call(&'static str, Value),
    Patch(String),
}

/// A command with the default of all else.
pub(super) fn exec(command: &str) -> Step {
    Step::Call("exec_command", json!({"cmd": command}))
}

pub(super) struct Model {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    steps: Vec<Step>,
    /// The bodies of the requests, from first to last.
    asked: Mutex<Vec<Value>>,
    over: AtomicBool,
}

impl Model {
    /// One that does these steps one after the other.
    pub(super) fn that(steps: &[Step]) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, over) = (Mutex::default(), AtomicBool::new(false));
        let shared = Arc::new(Shared { steps: steps.to_vec(), asked, over });
        let serving = Arc::clone(&shared);
        let serve = move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if serving.over.load(Ordering::SeqCst) {
                    return;
                }
                let serving = Arc::clone(&serving);
                let serve = move || serving.serve(&stream);
                thread::Builder::new().name("model".into()).spawn(serve).unwrap();
            }
        };
        thread::Builder::new().name("models".into()).spawn(serve).unwrap();
        Self { address, shared }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// What the tools have answered, in the order of the calls.
    pub(super) fn answers(&self) -> Vec<String> {
        let asked = self.shared.asked.lock().unwrap();
        outputs(asked.last().expect("the model was asked"))
    }

    /// All of the first request: what the model was told before it did anything.
    pub(super) fn prompt(&self) -> String {
        self.shared.asked.lock().unwrap()[0].to_string()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn serve(&self, stream: &TcpStream) {
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        let Some((first, body)) = read(stream) else { return };
        let (kind, body) = if first.starts_with("POST ") {
            let Ok(asked) = serde_json::from_slice::<Value>(&body) else { return };
            let events = self.play(&asked);
            self.asked.lock().unwrap().push(asked);
            ("text/event-stream", events)
        } else {
            ("application/json", json!({"object": "list", "data": [], "models": []}).to_string())
        };
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        );
        let mut stream = stream;
        let _ = stream.write_all(answer.as_bytes());
    }

    fn play(&self, asked: &Value) -> String {
        let answers = outputs(asked);
        let item = self
            .steps
            .get(answers.len())
            .map_or_else(said, |step| call(step, &format!("call-{}", answers.len() + 1), &answers));
        let usage = json!({
            "input_tokens": 1, "input_tokens_details": null, "output_tokens": 1,
            "output_tokens_details": null, "total_tokens": 2,
        });
        let events = [
            json!({"type": "response.created", "response": {"id": "r"}}),
            json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
            json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
            json!({"type": "response.completed", "response": {"id": "r", "usage": usage}}),
        ];
        let event = |event: &Value| {
            format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())
        };
        events.iter().map(event).collect()
    }
}

fn said() -> Value {
    json!({
        "type": "message", "id": "said", "role": "assistant",
        "content": [{"type": "output_text", "text": SAID}],
    })
}

fn call(step: &Step, id: &str, answers: &[String]) -> Value {
    match step {
        Step::Patch(patch) => json!({
            "type": "custom_tool_call", "id": id, "call_id": id, "name": "apply_patch",
            "input": patch,
        }),
        Step::Call(name, arguments) => {
            let mut arguments = arguments.clone();
            for value in arguments.as_object_mut().unwrap().values_mut() {
                if value == SESSION {
                    *value = json!(session(answers));
                }
            }
            json!({
                "type": "function_call", "id": id, "call_id": id, "name": name,
                "arguments": arguments.to_string(),
            })
        }
    }
}

/// The session that was named last.
fn session(answers: &[String]) -> u64 {
    let named = answers.iter().rev().find_map(|answer| {
        let digits = answer.split_once("session ID ")?.1;
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        digits[..end].parse().ok()
    });
    named.unwrap_or(0)
}

/// The answers of the tools in a request. (What is not text is JSON.)
fn outputs(asked: &Value) -> Vec<String> {
    let items = asked["input"].as_array().into_iter().flatten();
    let is_output =
        |item: &&Value| item["type"].as_str().is_some_and(|kind| kind.ends_with("_output"));
    let text = |item: &Value| match &item["output"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    items.filter(is_output).map(text).collect()
}

/// The first line of a request, and its body.
fn read(stream: &TcpStream) -> Option<(String, Vec<u8>)> {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).ok()?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((first, body))
}
