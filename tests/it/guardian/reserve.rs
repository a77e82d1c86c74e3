//! Running out of descriptors: an error that says so, and everything that is there goes on.

use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::support::{
    DEADLINE, Peer, RpcError, Server, Setup, Victim, eventually, http, lacks, over_both_with,
    procfs,
};

fn limited(limit: u32) -> Setup {
    Setup::new().under(&["prlimit", &format!("--nofile={limit}:{limit}"), "--"])
}

/// Starts processes until there is no room for another; answers their ids, and the error.
fn fill(peer: &mut Peer, victim: &Victim) -> (Vec<String>, RpcError) {
    let mut started = Vec::new();
    loop {
        let id = format!("fill{}", started.len());
        let params = json!({"processId": id, "command": "sleep", "args": [victim.argument()]});
        match peer.call("process/spawn", &params) {
            Ok(_) => started.push(id),
            Err(error) => return (started, error),
        }
        assert!(started.len() < 1000, "the limit on descriptors is not there");
    }
}

fn assert_is_about_descriptors(error: &RpcError, limit: u32) {
    assert_eq!((error.code, error.data_code()), (-32000, "EMFILE"), "{error:?}");
    error.assert_names("descriptors");
    error.assert_names(&limit.to_string());
}

#[test]
fn out_of_descriptors_a_start_is_a_typed_error_and_the_rest_goes_on() {
    if lacks("out_of_descriptors_a_start_is_a_typed_error_and_the_rest_goes_on", "prlimit") {
        return;
    }
    for limit in [64, 1100] {
        over_both_with(
            || limited(limit),
            |peer| {
                let victim = Victim::new();
                let (started, error) = fill(peer, &victim);
                assert!(started.len() >= 5, "{} processes only", started.len());
                assert_is_about_descriptors(&error, limit);
                let exec = json!({"processId": "x", "command": "true"});
                assert_is_about_descriptors(&peer.error("process/exec", &exec), limit);
                let connect = json!({"connectionId": "x", "host": "127.0.0.1", "port": 9});
                assert_is_about_descriptors(&peer.error("net/connect", &connect), limit);
                peer.ping();
                peer.ok("fs/stat", &json!({"path": "/"}));
                for id in &started {
                    assert!(peer.kill(id));
                }
                for id in &started {
                    assert_eq!(peer.exit(id).signal(), Some("SIGKILL"));
                }
                victim.await_gone();
                peer.sh("true").assert_success();
            },
        );
    }
}

#[test]
fn out_of_descriptors_a_new_connection_is_answered_503() {
    if lacks("out_of_descriptors_a_new_connection_is_answered_503", "prlimit") {
        return;
    }
    let server = limited(64).listen();
    let mut peer = server.connect();
    let victim = Victim::new();
    let (started, _) = fill(&mut peer, &victim);
    let answer = http::get(server.address, "/healthz");
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("descriptors"), "{answer:?}");
    peer.ping();
    for id in &started {
        assert!(peer.kill(id));
    }
    victim.await_gone();
    let fine = || http::get(server.address, "/healthz").status == 200;
    eventually(DEADLINE, "it answers again", fine);
    server.connect().sh("true").assert_success();
}

#[test]
fn as_many_connections_as_there_are_descriptors_leave_it_alive() {
    if lacks("as_many_connections_as_there_are_descriptors_leave_it_alive", "prlimit") {
        return;
    }
    let server = limited(64).listen();
    let mut first = server.connect();
    // They say nothing; each is one descriptor.
    let silent: Vec<_> = (0..200).map(|_| http::connect(server.address)).collect();
    first.ping();
    assert!(procfs::busy_within(server.pid(), Duration::from_secs(1)) < Duration::from_millis(200));
    first.ping();
    drop(silent);
    let fine =
        || http::upgrade_status(server.address, "/exec", &[&server.authorization().unwrap()]);
    eventually(DEADLINE, "there is room again", || fine() == 101);
    first.sh("true").assert_success();
}

/// Sets the limit on descriptors of a running process.
fn set_limit(pid: u32, limit: &str) {
    let words = ["--pid", &pid.to_string(), &format!("--nofile={limit}:")];
    assert!(Command::new("prlimit").args(words).status().unwrap().success());
}

/// The connection waits in the kernel's queue, which poll(2) tells again and again.
#[test]
fn with_no_descriptor_left_to_accept_it_waits_and_says_so_once() {
    if lacks("with_no_descriptor_left_to_accept_it_waits_and_says_so_once", "prlimit") {
        return;
    }
    let server = Server::start();
    let mut peer = server.connect();
    let pid = server.pid();
    for episode in 1..=2 {
        set_limit(pid, "3");
        let mut waiting = http::connect(server.address);
        std::io::Write::write_all(&mut waiting, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            .unwrap();
        let said = || server.log.text().matches("cannot accept").count();
        eventually(DEADLINE, "it says so", || said() == episode);
        let busy = procfs::busy_within(pid, Duration::from_secs(1));
        assert!(busy < Duration::from_millis(100), "{busy:?}");
        assert_eq!(said(), episode, "it says so again and again");
        peer.ping();
        set_limit(pid, "1024");
        let answer = http::read_to_end(&mut waiting, DEADLINE).expect("it is answered");
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    }
    peer.sh("true").assert_success();
}
