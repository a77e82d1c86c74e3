//! What fails, and what is done many times, leaves nothing behind in the server.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::{content, fails, from_to, merged, mkdir, mkfifo, names, path, read, symlink, write};
use crate::support::{DEADLINE, Server, TempDir, eventually, over_both, procfs};

/// One request of every kind that fails half way.
fn failing(dir: &TempDir) -> Vec<(&'static str, Value)> {
    let recursive = json!({"recursive": true});
    let file = dir.join("f");
    let conflict = merged(content(&file, "x"), &json!({"ifVersion": "other"}));
    vec![
        ("fs/readFile", path(dir.path())),
        ("fs/readFile", path(dir.join("fifo"))),
        ("fs/readFile", path(dir.join("nope"))),
        ("fs/readFile", path("/dev/zero")),
        ("fs/writeFile", conflict),
        ("fs/writeFile", content(dir.path(), "x")),
        ("fs/writeFile", content(dir.join("fifo"), "x")),
        ("fs/writeFile", content(dir.join("loop"), "x")),
        ("fs/writeFile", content(dir.join("no/such"), "x")),
        ("fs/stat", path(dir.join("loop"))),
        ("fs/readdir", path(&file)),
        ("fs/mkdir", path(&file)),
        ("fs/remove", path(dir.join("d"))),
        ("fs/remove", merged(path("/"), &json!({}))),
        ("fs/rename", from_to(&file, dir.join("d"))),
        ("fs/copy", from_to(&file, dir.join("no/such"))),
        ("fs/copy", merged(from_to(dir.join("d"), dir.join("d/below")), &recursive)),
        ("fs/realpath", path(dir.join("nope"))),
    ]
}

#[test]
fn requests_that_fail_leave_neither_threads_nor_descriptors() {
    over_both(|peer| {
        let dir = TempDir::new();
        dir.write("f", "kept");
        mkdir(dir.join("d/sub"));
        mkfifo(dir.join("fifo"));
        symlink("loop", dir.join("loop"));
        let before_names = names(dir.path());
        let pid = peer.server_pid();
        read(peer, dir.join("f"));
        let before = procfs::settled(pid);
        for _ in 0..50 {
            for (method, params) in failing(&dir) {
                let error = peer.error(method, &params);
                assert_eq!(error.code, -32000, "{method} {params}: {error:?}");
            }
        }
        read(peer, dir.join("f"));
        let now = || (procfs::threads(pid), procfs::descriptors(pid));
        eventually(DEADLINE, &format!("{before:?} threads and descriptors"), || now() == before);
        assert_eq!(names(dir.path()), before_names);
    });
}

#[test]
fn connections_that_come_and_go_leave_neither_threads_nor_descriptors() {
    let server = Server::start();
    let dir = TempDir::new();
    let mut watcher = server.connect();
    let pid = watcher.server_pid();
    write(&mut watcher, dir.join("w"), "x");
    let before = procfs::settled(pid);
    for n in 0..30 {
        let mut peer = server.connect();
        for part in 0..5 {
            peer.request("fs/writeFile", &content(dir.join(&format!("{n}-{part}")), "x"));
            peer.request("fs/readFile", &path(dir.join("w")));
        }
        peer.ping();
    }
    let now = || (procfs::threads(pid), procfs::descriptors(pid));
    let what = format!("{before:?} threads and descriptors");
    eventually(Duration::from_secs(15), &what, || now() == before);
}

/// A thousand requests at once are no thousand threads.
#[test]
fn a_thousand_requests_at_once_are_answered_by_few_threads() {
    over_both(|peer| {
        let dir = TempDir::new();
        let pid = peer.server_pid();
        let file = dir.write("f", "content");
        let mut most = 0;
        let ids: Vec<_> = (0..1000)
            .map(|n| {
                if n % 100 == 0 {
                    most = most.max(procfs::threads(pid));
                }
                let name = dir.join(&format!("{}", n % 10));
                match n % 2 {
                    0 => peer.request("fs/readFile", &path(&file)),
                    _ => peer.request("fs/writeFile", &content(name, "x")),
                }
            })
            .collect();
        most = most.max(procfs::threads(pid));
        for id in ids {
            peer.answer(&id).unwrap();
        }
        assert!(most < 200, "{most} threads");
        assert_eq!(names(dir.path()).len(), 6);
    });
}

/// Others may work in the same tree: what fails then is typed, and what is done is whole.
#[test]
fn writes_into_a_tree_that_is_being_removed_succeed_or_are_typed() {
    let server = Server::start();
    let dir = TempDir::new();
    let tree = dir.join("tree");
    let recursive = json!({"recursive": true, "force": true});
    let parents = json!({"createParents": true});
    let write_or_fail = |file: &Path, peer: &mut crate::support::Peer| {
        let params = merged(content(file, vec![b'x'; 10_000]), &parents);
        if let Err(error) = peer.call("fs/writeFile", &params) {
            assert!(["ENOENT"].contains(&error.data_code()), "{error:?}");
        }
    };
    std::thread::scope(|scope| {
        for n in 0..2 {
            let (server, tree, write_or_fail) = (&server, &tree, &write_or_fail);
            let write = move || {
                let mut peer = server.connect();
                for round in 0..150 {
                    write_or_fail(&tree.join(format!("a/b{}/f{n}", round % 3)), &mut peer);
                }
            };
            std::thread::Builder::new().spawn_scoped(scope, write).unwrap();
        }
        let mut peer = server.connect();
        for _ in 0..100 {
            if let Err(error) = peer.call("fs/remove", &merged(path(&tree), &recursive)) {
                assert_eq!(error.data_code(), "ENOTEMPTY", "{error:?}");
            }
        }
    });
    let mut peer = server.connect();
    peer.ok("fs/remove", &merged(path(&tree), &recursive));
    assert_eq!(names(dir.path()), [""; 0]);
    fails(&mut peer, "fs/stat", &path(&tree), "ENOENT");
}
