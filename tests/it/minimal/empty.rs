//! A root with nothing in it but the program: no /etc, no /proc, no /dev, no /tmp, no shell.

use serde_json::{Value, json};

use super::{assert_said_once, files_are_kept};
use crate::support::rootfs::Root;
use crate::support::{DEADLINE, Peer, base64, eventually, procfs};

/// Programs are all that can be started, and `/ta` is the only one.
fn programs_run(peer: &mut Peer) {
    let version = peer.run(json!({"command": "/ta", "args": ["--version"]}));
    assert!(version.text().starts_with("ta ") && version.code() == Some(0), "{}", version.text());
    let missing = peer.run(json!({"command": "/ta", "args": ["run", "--", "/no/such"]}));
    assert_eq!(missing.code(), Some(127), "{}", missing.errors());
    let wrong = peer.run(json!({"command": "/ta", "args": ["no-such-command"]}));
    assert_eq!(wrong.code(), Some(2), "{}", wrong.errors());
    let found = peer.run(json!({"command": "ta", "args": ["--version"], "env": {"PATH": "/"}}));
    assert_eq!(found.code(), Some(0), "{}", found.errors());
    let shell = peer.error("process/exec", &json!({"processId": "sh", "command": "true"}));
    assert_eq!(shell.data_code(), "CELL_TA_EXEC_NO_SHELL");
    // It reads stdin, and starts another that answers.
    let inner = peer.spawn(json!({"command": "/ta", "args": ["connect"]}));
    let ping = base64("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n");
    peer.ok("process/write", &json!({"processId": inner, "chunk": ping, "eof": true}));
    let done = peer.exit(&inner);
    assert!(done.code() == Some(0) && done.text().contains("\"id\":1"), "{}", done.errors());
}

/// A tree: a server within, whose guardian is killed, and whose server is not its child any more.
fn trees_end(peer: &mut Peer) {
    let words = json!({"command": "/ta", "args": ["exec-server", "--port", "0"]});
    let serving = peer.pipes().guardian();
    let all = |of: u32| -> usize {
        let mut left = vec![of];
        let mut count = 0;
        while let Some(pid) = left.pop() {
            let children = procfs::children(pid);
            count += children.len();
            left.extend(children);
        }
        count
    };
    let before = all(serving);
    let inner = peer.spawn(words);
    eventually(DEADLINE, "a guardian and its server run", || all(serving) == before + 2);
    assert!(peer.kill(&inner));
    assert_eq!(peer.exit(&inner).signal(), Some("SIGKILL"));
    eventually(DEADLINE, "neither is left", || all(serving) == before);
}

#[test]
fn in_an_empty_root_programs_run_files_are_kept_and_trees_end() {
    const NAME: &str = "in_an_empty_root_programs_run_files_are_kept_and_trees_end";
    let Some(root) = Root::new(NAME) else { return };
    let mut peer = root.stdio();
    let about = peer.ok("initialize", &json!({}));
    assert_eq!((&about["pid"], &about["cwd"]), (&json!(2), &json!("/")));
    assert_eq!(about.get("shell").unwrap_or(&Value::Null), &Value::Null);
    programs_run(&mut peer);
    files_are_kept(&mut peer, "/data");
    assert!(root.path("data").is_dir());
    trees_end(&mut peer);
    assert_said_once(&peer, "/proc is not there");
}

#[test]
fn in_a_root_that_is_read_only_programs_run_and_nothing_is_written() {
    const NAME: &str = "in_a_root_that_is_read_only_programs_run_and_nothing_is_written";
    let Some(root) = Root::new(NAME) else { return };
    std::fs::write(root.path("file"), "content").unwrap();
    let mut peer = root.read_only().stdio();
    programs_run(&mut peer);
    let read = peer.ok("fs/readFile", &json!({"path": "/file"}));
    assert_eq!(read["dataBase64"], base64("content"));
    for (method, params) in [
        ("fs/writeFile", json!({"path": "/file", "dataBase64": base64("other")})),
        ("fs/writeFile", json!({"path": "/new", "dataBase64": base64("other")})),
        ("fs/mkdir", json!({"path": "/dir"})),
        ("fs/remove", json!({"path": "/file"})),
        ("fs/rename", json!({"from": "/file", "to": "/moved"})),
        ("fs/copy", json!({"from": "/file", "to": "/copied"})),
    ] {
        assert_eq!(peer.error(method, &params).data_code(), "EROFS", "{method}");
    }
    trees_end(&mut peer);
    assert_eq!(std::fs::read_to_string(root.path("file")).unwrap(), "content");
}

#[test]
fn in_an_empty_root_its_health_can_be_asked_for_and_what_it_has_is_told() {
    const NAME: &str = "in_an_empty_root_its_health_can_be_asked_for_and_what_it_has_is_told";
    let Some(root) = Root::new(NAME) else { return };
    let server = root.setup().listen();
    let port = server.address.port();
    let mut peer = server.connect();
    // (There is no /etc/hosts.)
    for host in ["127.0.0.1", "localhost"] {
        let url = format!("ws://{host}:{port}/exec");
        let done = peer.run(json!({"command": "/ta", "args": ["healthcheck", url]}));
        assert_eq!((done.code(), done.errors().as_str()), (Some(0), ""));
    }
    let unhealthy = json!({"command": "/ta", "args": ["healthcheck", "http://127.0.0.1:1"]});
    assert_eq!(peer.run(unhealthy).code(), Some(1));
    let check = ["exec-server", "--check", "--json", "--port", "0"];
    let done = peer.run(json!({"command": "/ta", "args": check}));
    let value: Value = serde_json::from_str(&done.text()).unwrap();
    for (member, expected) in [
        ("shell", Value::Null),
        ("cgroup", Value::Null),
        ("proc", json!(false)),
        ("hosts", json!(false)),
        ("resolver", json!(false)),
        ("marks", json!(true)),
        ("cwd", json!("/")),
    ] {
        assert_eq!(value.get(member), Some(&expected), "{member}: {value}");
    }
}
