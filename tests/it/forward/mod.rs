//! `ta forward`, the real program against a real server.

mod connections;
mod git;
mod listening;
mod stdio;

use std::io::{Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use crate::run::Running;
use crate::support::{DEADLINE, Server, ta_to};

/// A forward under way, and where it listens.
struct Forward {
    running: Running,
    at: Vec<String>,
}

impl Forward {
    /// Starts it and waits until it has told of all the places.
    #[track_caller]
    fn start(server: &Server, specs: &[&str]) -> Self {
        let words = [&["forward"], specs].concat();
        let running = Running::start(ta_to(server, &words));
        running.stderr.wait_for(&format!("to {}\n", target_of(specs[specs.len() - 1])));
        let text = running.stderr.text();
        let lines = text.lines().filter_map(|line| line.strip_prefix("ta: forwarding "));
        let at = lines.map(|line| line.split(" to ").next().unwrap().to_owned()).collect();
        Self { running, at }
    }

    fn connect(&self) -> TcpStream {
        connect(&self.at[0])
    }
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.set_write_timeout(Some(DEADLINE)).unwrap();
    stream
}

/// What stands behind the near end, in the forms that are used here.
fn target_of(spec: &str) -> &str {
    match spec.rfind(":/") {
        Some(colon) => &spec[colon + 1..],
        None if spec.ends_with(']') => spec,
        None => {
            let port = spec.rfind(':').unwrap();
            let before = &spec[..port];
            let host = if before.ends_with(']') { before.rfind('[') } else { None };
            &spec[host.unwrap_or_else(|| before.rfind(':').unwrap() + 1)..]
        }
    }
}

/// Sends back what it gets, connection by connection, each to its end; answers its port.
fn echo(host: &str) -> u16 {
    let listener = TcpListener::bind((host, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            spawn(move || {
                let mut from = stream.try_clone().unwrap();
                let _ = std::io::copy(&mut from, &mut stream);
            });
        }
    });
    port
}

fn spawn(run: impl FnOnce() + Send + 'static) {
    thread::Builder::new().name("far".into()).spawn(run).unwrap();
}

/// Sends it, ends sending, and reads to the end.
#[track_caller]
fn round_trip(mut stream: TcpStream, bytes: &[u8]) {
    let mut to = stream.try_clone().unwrap();
    let sent = bytes.to_vec();
    spawn(move || {
        to.write_all(&sent).unwrap();
        to.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert!(all == bytes, "{} bytes came back of {}", all.len(), bytes.len());
}
