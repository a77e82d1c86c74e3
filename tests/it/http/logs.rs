//! What the log says, and what it must never say.

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{DEADLINE, Server, Setup, TOKEN, binary, eventually, http, sys};

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

/// The objects of a log in JSON that are of this event.
fn events(log: &str, event: &str) -> Vec<Value> {
    let values = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    values.filter(|value| value["event"] == event).collect()
}

fn number(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn there_is_one_line_for_each_connection_at_its_end() {
    let server = Setup::new().args(["--log-format", "json"]).listen();
    let mut peer = server.connect();
    peer.sh("echo hi");
    peer.sh("true");
    peer.hang_up();
    let log = server.log.clone();
    eventually(DEADLINE, "its end is told", || log.text().contains("disconnected"));
    let mut idle = server.connect();
    idle.ping();
    let log = ended(server);
    let lines = events(&log, "disconnected");
    assert_eq!(lines.len(), 2, "{log}");
    assert!(events(&log, "connected").is_empty(), "{log}");
    assert_ne!(lines[0]["connection"], lines[1]["connection"]);
    assert_eq!(lines[0]["transport"], "websocket");
    assert!(lines[0]["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{log}");
    assert_eq!(number(&lines[0]["processes"]), 2);
    assert!(number(&lines[0]["receivedBytes"]) > 100 && number(&lines[0]["sentBytes"]) > 100);
    assert!(number(&lines[0]["durationMs"]) < 60_000);
    assert_eq!(
        (number(&lines[1]["processes"]), lines[1]["why"].as_str()),
        (0, Some("the server stops"))
    );
}

#[test]
fn over_stdio_there_is_one_too_where_it_is_asked_for() {
    let options = ["--log-format", "json", "--log-level", "info"];
    let mut peer = Setup::new().args(options).stdio();
    peer.sh("echo hi");
    peer.hang_up();
    let log = peer.log.to_end(DEADLINE);
    let lines = events(&log, "disconnected");
    assert_eq!(lines.len(), 1, "{log}");
    assert_eq!((&lines[0]["transport"], number(&lines[0]["processes"])), (&json!("stdio"), 1));
    assert!(number(&lines[0]["receivedBytes"]) > 50 && number(&lines[0]["sentBytes"]) > 50);
    assert_eq!(lines[0].get("peer"), None);
}

#[test]
fn there_is_one_line_for_each_process_without_its_command_unless_that_is_asked_for() {
    for shown in [false, true] {
        let mut options = vec!["--log-format", "json"];
        options.extend(shown.then_some("--log-commands"));
        let server = Setup::new().args(options).listen();
        let mut peer = server.connect();
        let line = format!("echo s3cret; exit 3 # {}", "x".repeat(1000));
        let ran = json!({"processId": "ran", "command": line});
        peer.ok("process/exec", &ran);
        let spawn = json!({"processId": "cat", "command": "cat", "args": ["-", "s3cret"]});
        peer.ok("process/spawn", &spawn);
        assert!(peer.kill("cat"));
        assert_eq!(peer.exit("cat").signal(), Some("SIGKILL"));
        let held = json!({"processId": "held", "command": "sleep", "args": ["321"]});
        peer.ok("process/spawn", &held);
        let missing = json!({"processId": "missing", "command": "/no/s3cret"});
        assert!(peer.call("process/spawn", &missing).is_err());
        peer.hang_up();
        let log = ended(server);
        assert_eq!(log.contains("s3cret"), shown, "{log}");
        let lines = events(&log, "process ended");
        assert_eq!(lines.len(), 3, "{log}");
        let of = |id: &str| lines.iter().find(|line| line["process"] == id).unwrap();
        let (ran, cat, held) = (of("ran"), of("cat"), of("held"));
        assert_eq!((&ran["kind"], &ran["exit"]), (&json!("exec"), &json!("3")));
        assert_eq!(number(&ran["stdoutBytes"]), 7);
        assert_eq!((&cat["kind"], &cat["exit"]), (&json!("spawn"), &json!("SIGKILL")));
        assert_eq!(held["exit"], "disconnected");
        assert!(number(&held["durationMs"]) < 60_000 && ran["connection"] == held["connection"]);
        let failed = events(&log, "process not started");
        assert_eq!((failed.len(), &failed[0]["why"]), (1, &json!("ENOENT")), "{log}");
        if shown {
            assert_eq!(cat["command"], "cat - s3cret");
            let line = ran["command"].as_str().unwrap();
            assert!(
                line.starts_with("echo s3cret; exit 3 # xxx") && line.ends_with("x…"),
                "{line}"
            );
            assert!(line.chars().count() <= 301, "{line}");
        } else {
            assert!(lines.iter().all(|line| line.get("command").is_none()), "{log}");
        }
    }
}
