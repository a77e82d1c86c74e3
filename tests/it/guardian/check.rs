//! `ta exec-server --check`: what it tells, and that nothing is left of it.

use std::net::TcpListener;
use std::process::Output;

use serde_json::{Value, json};

use crate::support::{Server, TempDir, procfs, ta};

fn check(args: &[&str], token: Option<&str>) -> Output {
    let mut command = ta(&[&["exec-server", "--check"], args].concat());
    if let Some(token) = token {
        command.env("TA_EXEC_TOKEN", token);
    }
    command.output().unwrap()
}

#[track_caller]
fn told(args: &[&str], token: Option<&str>) -> Value {
    let done = check(&[args, &["--json"]].concat(), token);
    assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
    assert!(!String::from_utf8_lossy(&done.stdout).contains("s3cret"), "{done:?}");
    serde_json::from_slice(&done.stdout).unwrap()
}

#[test]
fn it_tells_what_a_server_then_uses() {
    let dir = TempDir::new();
    let epochs = dir.join("epochs");
    let (cwd, file) = (dir.path().to_str().unwrap(), epochs.to_str().unwrap());
    let options = ["--port", "0", "--cwd", cwd, "--epoch-file", file, "--max-processes", "7"];
    let value = told(&options, Some("s3cret"));
    assert_eq!(value["listens"], json!(["ws://127.0.0.1:0/exec"]));
    assert_eq!((&value["token"], &value["cwd"]), (&json!("variable"), &json!(cwd)));
    assert_eq!((&value["epochFile"], &value["epoch"]), (&json!(file), &Value::Null));
    assert_eq!((&value["maxProcesses"], &value["stdio"]), (&json!(7), &json!(false)));
    assert!(!epochs.exists(), "it has made the epoch file");
    let mut peer = crate::support::Setup::new().stdio();
    let server = peer.ok("initialize", &json!({}));
    let value = told(&["--stdio"], None);
    assert_eq!(value["listens"], json!([]));
    for member in ["shell", "home", "cwd"] {
        assert_eq!(value[member], server[member], "{member}");
    }
    // What the tests of descendants rely on is here.
    for member in ["pidfd", "proc", "marks", "guardian", "subreaper"] {
        assert_eq!(value[member], true, "{member}");
    }
    assert!(value["cgroup"].is_null() != value["noCgroupBecause"].is_null(), "{value}");
    assert!(value["descriptors"].as_u64() >= value["descriptorsOfCommands"].as_u64());
    std::fs::write(&epochs, "17\n").unwrap();
    assert_eq!(told(&["--port", "0", "--epoch-file", file], None)["epoch"], 17);
}

#[test]
fn a_person_reads_it_line_by_line() {
    let done = check(&["--port", "0"], Some("s3cret"));
    assert!(done.status.success(), "{done:?}");
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(!text.contains("s3cret"), "{text}");
    for line in ["listens on:   ws://127.0.0.1:0/exec", "token:        from TA_EXEC_TOKEN"] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    let column = |line: &str| line.find(": ").is_some_and(|at| at < 13) && &line[13..14] == " ";
    assert!(text.lines().all(column) && text.lines().count() > 15, "{text}");
}

/// Whatever keeps a server from starting, in the same words and with the same exit code.
#[test]
fn it_refuses_what_a_server_refuses() {
    let dir = TempDir::new();
    let (bad, missing) = (dir.write("bad", "x\n"), dir.join("no/such"));
    let (bad, missing) = (bad.to_str().unwrap(), missing.to_str().unwrap());
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = busy.local_addr().unwrap().port().to_string();
    let running = dir.join("running");
    let running = running.to_str().unwrap();
    let _server = crate::support::Setup::new().args(["--epoch-file", running]).listen();
    for (args, code) in [
        (&["--port", "0", "--cwd", "/no/such"][..], 2),
        (&["--port", "0", "--token-file", missing], 2),
        (&["--port", "0", "--epoch-file", bad], 2),
        (&["--port", "0", "--epoch-file", missing], 2),
        (&["--port", "0", "--epoch-file", running], 2),
        (&["--port", "0", "--max-processes", "0"], 2),
        (&["--host", "0.0.0.0", "--port", "0"], 2),
        (&["--port", &port], 1),
        (&["--host", "192.0.2.1", "--port", "0", "--token-file", bad], 1),
    ] {
        let checked = check(args, None);
        let real = ta(&[&["exec-server"], args].concat()).output().unwrap();
        assert_eq!(checked.status.code(), Some(code), "{args:?}: {checked:?}");
        assert_eq!(checked.status.code(), real.status.code(), "{args:?}: {real:?}");
        assert_eq!(checked.stderr, real.stderr, "{args:?}");
        assert!(checked.stdout.is_empty(), "{args:?}");
    }
    let done = ta(&["exec-server", "--json"]).output().unwrap();
    assert_eq!(done.status.code(), Some(2), "{done:?}");
}

/// It makes no second process: whoever waits for it waits for all of it.
#[test]
fn nothing_is_left_of_it() {
    let server = Server::start();
    let mut peer = server.connect();
    let before = procfs::children(server.pid());
    let dir = TempDir::new();
    let trace = dir.join("trace");
    if crate::support::lacks("nothing_is_left_of_it", "strace") {
        return;
    }
    let line = format!(
        "strace -f -o {} -e trace=process {} exec-server --check --port 0 --cwd {}",
        trace.display(),
        crate::support::binary().display(),
        dir.path().display()
    );
    let done = peer.run(json!({"command": "sh", "args": ["-c", line]}));
    assert!(done.text().contains("listens on"), "{}", done.text());
    let trace = std::fs::read_to_string(trace).unwrap();
    let makes = |line: &&str| line.contains("fork(") || line.contains("clone(");
    assert_eq!(trace.lines().filter(makes).count(), 0, "{trace}");
    assert_eq!(procfs::children(server.pid()), before);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "the trace alone");
}
