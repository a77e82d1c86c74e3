//! A server that says what a test has it say.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};
use tungstenite::Message;

use super::DEADLINE;

/// It serves one client.
pub(crate) struct Fake {
    pub(crate) url: String,
    /// All that it had to say has arrived.
    arrived: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Fake {
    /// `says` gets a request, and answers with the messages that are sent then.
    pub(crate) fn start(says: impl Fn(&Value) -> Vec<String> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("ws://{}/exec", listener.local_addr().unwrap());
        let all_arrived = Arc::new(AtomicBool::new(false));
        let arrived = Arc::clone(&all_arrived);
        let serve = move || {
            let (stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            let mut socket = tungstenite::accept(stream).unwrap();
            while let Ok(message) = socket.read() {
                if message.is_pong() {
                    arrived.store(true, Ordering::Relaxed);
                }
                let Message::Text(text) = message else { continue };
                for message in says(&serde_json::from_str(&text).unwrap()) {
                    if socket.write(Message::text(message)).is_err() {
                        return;
                    }
                }
                // Its pong shows that all of it has arrived.
                let _ = socket.send(Message::Ping("all".into()));
            }
        };
        let thread = thread::Builder::new().name("fake server".into()).spawn(serve).unwrap();
        Self { url, arrived: all_arrived, thread }
    }

    pub(crate) fn has_arrived(&self) -> bool {
        self.arrived.load(Ordering::Relaxed)
    }

    /// Waits until its client has gone.
    pub(crate) fn join(self) {
        self.thread.join().unwrap();
    }
}

pub(crate) fn method(request: &Value) -> &str {
    request["method"].as_str().unwrap()
}

pub(crate) fn answer(request: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string()
}

/// The answer to `initialize`.
pub(crate) fn introduction() -> Value {
    json!({
        "protocolVersion": 1, "serverName": "fake", "serverVersion": "0", "cwd": "/", "home": null,
        "tmpdir": "/tmp", "shell": null, "os": "linux", "arch": "x86_64", "hostname": "fake",
        "pid": 1, "epoch": null, "maxMessageBytes": 1 << 26, "features": ["fs"]
    })
}
