//! What the log says, and what it must never say.

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{DEADLINE, Server, Setup, TOKEN, binary, http, sys};

#[test]
fn no_token_is_in_the_log() {
    for level in ["warn", "info", "debug"] {
        let server = Setup::new().args(["--log-level", level]).listen();
        let right = format!("/exec?token={TOKEN}&x=1");
        assert_eq!(http::upgrade_status(server.address, &right, &[]), 101);
        for target in ["/exec?token=wrong-s3cret", "/exec?token=wrong-s3cret&token=more"] {
            assert_eq!(http::upgrade_status(server.address, target, &[]), 401);
        }
        let header = "Authorization: Bearer wrong-s3cret";
        assert_eq!(http::upgrade_status(server.address, "/exec", &[header]), 401);
        http::get(server.address, &format!("/nope?token={TOKEN}"));
        http::talk(server.address, format!("BREW /exec?token={TOKEN} HTTP/1.1\r\n\r\n"));
        http::talk(server.address, format!("GET /exec?token={TOKEN} NOPE/1.1\r\n\r\n"));
        server.connect().sh("echo hi");
        let log = ended(server);
        assert!(!log.contains(TOKEN), "{log}");
        assert!(!log.contains("s3cret"), "{log}");
    }
}

/// The whole log of a server that has been stopped.
fn ended(mut server: Server) -> String {
    server.signal(libc::SIGTERM);
    assert!(server.wait(DEADLINE).success());
    server.log.to_end(DEADLINE)
}

#[test]
fn the_first_line_says_where_the_server_listens() {
    let server = Server::start();
    let line = server.log.first_line(DEADLINE).unwrap();
    assert!(line.contains(&format!("ws://{}/exec", server.address)), "{line}");
    assert!(!line.contains('?'), "{line}");
}

#[test]
fn with_log_format_json_every_line_is_an_object() {
    let server = Setup::new().args(["--log-format", "json", "--log-level", "debug"]).listen();
    server.connect().sh("echo hi");
    let log = ended(server);
    for line in log.lines() {
        let value: Value = serde_json::from_str(line).unwrap_or(json!(null));
        assert!(value.is_object(), "{line}");
    }
}

#[test]
fn a_refused_upgrade_is_in_the_log() {
    let server = Server::start();
    assert_eq!(http::upgrade_status(server.address, "/exec", &[]), 401);
    let log = ended(server);
    assert!(log.contains("401"), "{log}");
}

/// A host that starts a stdio server and never reads its stderr: the pipe is full after 64 KiB.
#[test]
fn a_log_that_nobody_reads_stops_nothing() {
    let mut server = Unread::start(&["--log-level", "debug"]);
    // The log names the process, its start and its end.
    let process = "p".repeat(120);
    for n in 0..400 {
        let params = json!({"processId": process, "command": ":"});
        assert!(server.answers("process/exec", &params), "stuck at command {n}");
    }
}

/// A supervisor that has gone: writing to the log fails from then on.
#[test]
fn a_log_whose_reader_has_gone_ends_nothing() {
    let mut server = Unread::start(&["--log-level", "debug"]);
    drop(server.child.stderr.take());
    for _ in 0..20 {
        assert!(server.answers("process/exec", &json!({"processId": "p", "command": ":"})));
    }
}

/// A stdio server whose stderr is a pipe that is not read.
struct Unread {
    child: Child,
    next_id: u64,
}

impl Unread {
    fn start(args: &[&str]) -> Self {
        let mut command = Command::new(binary());
        command.args(["exec-server", "--stdio"]).args(args).env_remove("TA_EXEC_TOKEN");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { child: command.spawn().unwrap(), next_id: 1 }
    }

    /// Whether this request is answered in time.
    fn answers(&mut self, method: &str, params: &Value) -> bool {
        let id = self.next_id;
        self.next_id += 1;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(self.child.stdin.as_mut().unwrap(), "{request}").unwrap();
        let stdout = self.child.stdout.as_mut().unwrap();
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            let mut byte = [0];
            if !sys::readable(stdout.as_fd(), DEADLINE) || stdout.read_exact(&mut byte).is_err() {
                return false;
            }
            line.push(byte[0]);
        }
        serde_json::from_slice::<Value>(&line).unwrap()["id"] == id
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
