//! The end of a search that nobody wants any more, and what does not wait for one.

use serde_json::{Value, json};

use super::{below, files};
use crate::support::{DEADLINE, Peer, Setup, TempDir, eventually, over_both, procfs};

/// A tree that takes minutes to search: one file of many names.
fn long() -> TempDir {
    let dir = TempDir::new();
    let file = dir.write("0", "nothing of interest in this line\n".repeat(4_000_000));
    for number in 1..3000 {
        std::fs::hard_link(&file, dir.join(&number.to_string())).unwrap();
    }
    dir
}

fn params(dir: &TempDir, id: &str) -> Value {
    below(dir.path(), &json!({"pattern": "needle", "processId": id}))
}

/// How many threads of a server search.
fn searching(server: u32) -> usize {
    procfs::thread_names(server).iter().filter(|name| *name == "search").count()
}

/// Begins a search, and waits until it reads.
#[track_caller]
fn begin(peer: &mut Peer, server: u32, dir: &TempDir, id: &str) -> String {
    let request = peer.request("fs/grep", &params(dir, id));
    eventually(DEADLINE, "it searches", || searching(server) > 1);
    request
}

fn pid(peer: &mut Peer) -> u32 {
    let about = peer.ok("initialize", &json!({}));
    about["pid"].as_u64().and_then(|pid| pid.try_into().ok()).expect("a pid")
}

#[test]
fn a_search_that_is_killed_is_answered_and_ends() {
    over_both(|peer| {
        let (server, dir) = (pid(peer), long());
        let request = begin(peer, server, &dir, "s");
        assert!(!peer.has_answer(&request));
        let killed = peer.ok("process/kill", &json!({"processId": "s"}));
        assert_eq!(killed, json!({"running": true}));
        let error = peer.answer(&request).expect_err("it was ended");
        assert_eq!(error.data_code(), "ECANCELED", "{error:?}");
        eventually(DEADLINE, "no thread searches", || searching(server) == 0);
        // The id is free.
        let killed = peer.ok("process/kill", &json!({"processId": "s"}));
        assert_eq!(killed, json!({"running": false}));
        let again = peer.exec(json!({"processId": "s", "command": "echo hi"}));
        assert_eq!(again.stdout, b"hi\n");
    });
}

#[test]
fn a_search_ends_with_its_connection() {
    let server = Setup::new().listen();
    let dir = long();
    let mut peer = server.connect();
    let number = pid(&mut peer);
    begin(&mut peer, number, &dir, "s");
    drop(peer);
    eventually(DEADLINE, "no thread searches", || searching(number) == 0);
    server.connect().ok("ping", &json!({}));
}

#[test]
fn an_id_is_that_of_a_process_or_of_a_search() {
    over_both(|peer| {
        let (server, dir) = (pid(peer), long());
        let request = begin(peer, server, &dir, "one");
        for (method, params) in [
            ("process/spawn", json!({"processId": "one", "command": "true"})),
            ("fs/find", below(dir.path(), &json!({"processId": "one"}))),
        ] {
            let error = peer.error(method, &params);
            assert_eq!(error.data_code(), "CELL_TA_EXEC_DUPLICATE_ID", "{error:?}");
        }
        peer.ok("process/spawn", &json!({"processId": "two", "command": "cat"}));
        let error = peer.error("fs/grep", &params(&dir, "two"));
        assert_eq!(error.data_code(), "CELL_TA_EXEC_DUPLICATE_ID", "{error:?}");
        assert!(!peer.has_answer(&request), "the first one goes on");
        peer.ok("process/kill", &json!({"processId": "one"}));
        peer.answer(&request).expect_err("it was ended");
    });
}

/// Four searches that take minutes are as many as run.
#[test]
fn nothing_waits_for_a_search() {
    over_both(|peer| {
        let (server, dir) = (pid(peer), long());
        let request = begin(peer, server, &dir, "0");
        for number in 1..6 {
            peer.request("fs/grep", &params(&dir, &number.to_string()));
        }
        let other = TempDir::new();
        files(&other, &[("f", "old\n")]);
        let path = other.join("f");
        let path = path.to_str().unwrap();
        let new = crate::support::base64("new\n");
        peer.ok("fs/writeFile", &json!({"path": path, "dataBase64": new}));
        assert_eq!(std::fs::read(path).unwrap(), b"new\n");
        peer.ok("fs/stat", &json!({"path": path}));
        peer.ok("fs/readdir", &json!({"path": other.path().to_str().unwrap()}));
        assert!(!peer.has_answer(&request));
        // Those that wait for their turn are ended as well.
        for number in 0..6 {
            peer.ok("process/kill", &json!({"processId": number.to_string()}));
        }
        eventually(DEADLINE, "no thread searches", || searching(server) == 0);
    });
}

#[test]
fn a_search_sees_what_was_written_before_it() {
    over_both(|peer| {
        let dir = TempDir::new();
        let mut asked = Vec::new();
        for number in 0..20 {
            let path = dir.join(&format!("f{number:02}"));
            let content = crate::support::base64("needle\n");
            let write = json!({"path": path.to_str().unwrap(), "dataBase64": content});
            peer.request("fs/writeFile", &write);
            let params = below(dir.path(), &json!({"pattern": "needle"}));
            asked.push((number + 1, peer.request("fs/grep", &params)));
        }
        for (least, request) in asked {
            let found = peer.answer(&request).unwrap()["matches"].as_array().unwrap().len();
            assert!(found >= least, "{found} of {least}");
        }
    });
}
