//! Places where much is missing: commands run there, their descendants end, files are read and
//! written, and what is done without is said once.

mod empty;
mod refusals;
mod users;

use serde_json::json;

use crate::support::{DEADLINE, Peer, TempDir, Victim, base64, eventually, unbase64};

/// A little of all that a host asks for, where there is a shell.
fn everything_works(peer: &mut Peer, dir: &TempDir) {
    commands_run(peer);
    files_are_kept(peer, dir.path().to_str().unwrap());
    descendants_end(peer);
}

fn commands_run(peer: &mut Peer) {
    let done = peer.exec(json!({"command": "cat; echo err >&2; exit 3", "stdin": base64("in")}));
    assert_eq!((done.code(), done.text().as_str()), (Some(3), "in"));
    assert_eq!(done.errors(), "err\n");
    assert_eq!(peer.sh("kill -TERM $$").signal(), Some("SIGTERM"));
    let timed = peer.start_exec(json!({"command": "sleep 60", "timeoutMs": 100}));
    assert!(peer.finish(&timed).is("timedOut"));
    let terminal = json!({"command": "sh", "args": ["-c", "tty && stty size"],
        "pty": {"cols": 77, "rows": 11}});
    let shown = peer.run(terminal).text();
    assert!(shown.contains("/dev/pts/") && shown.contains("11 77"), "{shown}");
    let missing = json!({"processId": "missing", "command": "/no/such"});
    assert_eq!(peer.error("process/spawn", &missing).data_code(), "ENOENT");
}

/// Writes, reads, replaces, lists, copies, renames and removes below a directory.
fn files_are_kept(peer: &mut Peer, dir: &str) {
    let path = |name: &str| format!("{dir}/tree/{name}");
    peer.ok("fs/mkdir", &json!({"path": path(""), "recursive": true}));
    for content in ["first", "second, which is longer"] {
        let written = json!({"path": path("a"), "dataBase64": base64(content)});
        peer.ok("fs/writeFile", &written);
        let read = peer.ok("fs/readFile", &json!({"path": path("a")}));
        assert_eq!(unbase64(read["dataBase64"].as_str().unwrap()), content.as_bytes());
    }
    let appended = json!({"path": path("a"), "dataBase64": base64("!"), "append": true});
    peer.ok("fs/writeFile", &appended);
    assert_eq!(peer.ok("fs/stat", &json!({"path": path("a")}))["size"], 24);
    peer.ok("fs/copy", &json!({"from": path("a"), "to": path("b")}));
    peer.ok("fs/rename", &json!({"from": path("b"), "to": path("c")}));
    let listed = peer.ok("fs/readdir", &json!({"path": path("")}));
    let names: Vec<_> =
        listed["entries"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert!(names.len() == 2 && names.contains(&&json!("a")) && names.contains(&&json!("c")));
    peer.ok("fs/remove", &json!({"path": path(""), "recursive": true}));
    assert_eq!(peer.error("fs/stat", &json!({"path": path("a")})).data_code(), "ENOENT");
}

/// By a kill, and with the connection: what is in the group and, where it can be found, what has left.
fn descendants_end(peer: &mut Peer) {
    let start = |peer: &mut Peer| {
        let victim = Victim::new();
        let command = "sleep $N & sleep $N & wait";
        let env = json!({"N": victim.argument()});
        let running = peer.start_exec(json!({"command": command, "env": env}));
        victim.await_count(2);
        (running, victim)
    };
    let (running, killed) = start(peer);
    assert!(peer.kill(&running.process));
    assert_eq!(peer.finish(&running).signal(), Some("SIGKILL"));
    killed.await_gone();
    let (_, left) = start(peer);
    peer.hang_up();
    left.await_gone();
}

/// The log says this, and says it once.
#[track_caller]
fn assert_said_once(peer: &Peer, what: &str) {
    eventually(DEADLINE, &format!("the log says {what:?}"), || peer.log.text().contains(what));
    let log = peer.log.text();
    assert_eq!(log.matches(what).count(), 1, "{log}");
}
