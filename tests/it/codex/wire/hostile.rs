//! Clients that mean no good.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::codex::peer::Peer;
use crate::support::frames::{BINARY, FIN, Frames, TEXT};
use crate::support::{DEADLINE, Server, Setup, Victim, procfs};

#[test]
fn a_client_that_sends_and_does_not_read_is_no_danger_to_others() {
    let server = Setup::new().args(["--codex-resume", "0"]).listen();
    let mut peer = Peer::connect(&server);
    let victim = Victim::new();
    peer.start("p", &["sleep", victim.argument()]);
    victim.await_alive();
    let ask = json!({"id": "x".repeat(1000), "method": "environment/status"}).to_string();
    let (end, mut sent) = (Instant::now() + DEADLINE, 0);
    while peer.wire().try_send_unread(&ask, Duration::from_millis(500)) {
        sent += 1;
        assert!(Instant::now() < end, "{sent} requests, and still the server listens");
    }
    assert!(procfs::resident_kib(server.pid()) < 64 * 1024);
    let mut other = Peer::connect(&server);
    assert_eq!(other.sh("p", "echo hi").out(), "hi\n");
    drop(peer);
    victim.await_gone();
}

#[test]
fn deep_and_wide_messages_are_answered_and_the_connection_goes_on() {
    let server = Server::start();
    let mut peer = Peer::connect(&server);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let wide = format!("[{}0]", "0,".repeat(400_000));
    for value in [&deep, &wide] {
        for params in [format!("{{\"x\":{value}}}"), format!("{{\"path\":{value}}}")] {
            peer.send(&format!(r#"{{"id":7,"method":"fs/readFile","params":{params}}}"#));
            let answer = peer.next_answer().expect("the connection goes on");
            assert!(answer["error"]["code"].is_i64(), "{answer}");
            assert!(answer["id"] == -1 || answer["id"] == 7, "{answer}");
        }
    }
    peer.ok("environment/status", &json!({}));
}

#[test]
fn a_message_that_is_too_long_ends_its_connection_and_no_other() {
    let server = Setup::new().args(["--max-message-bytes", "100000"]).listen();
    let (mut long, mut other) = (Peer::connect(&server), Peer::connect(&server));
    let text = json!({"id": 1, "method": "x".repeat(200_000)}).to_string();
    let _ = long.wire().send(&text);
    long.await_end();
    assert_eq!(other.sh("p", "echo hi").out(), "hi\n");
}

#[test]
fn bytes_in_a_binary_frame_are_read_as_text_or_refused() {
    let server = Server::start();
    let mut frames = Frames::new(server.upgrade_at("/"));
    let initialize = json!({"id": 1, "method": "initialize", "params": {"clientName": "it"}});
    frames.send(FIN | BINARY, initialize.to_string().as_bytes());
    // (Codex's own server reads it; ending the connection would be fair, too.)
    if let Some(frame) = frames.next() {
        assert!(frame.opcode == TEXT || frame.opcode == crate::support::frames::CLOSE, "{frame:?}");
    }
    assert_eq!(Peer::connect(&server).sh("p", "echo hi").out(), "hi\n");
}

#[test]
fn processes_are_limited_as_they_are_for_others() {
    let server = Setup::new().args(["--max-processes", "3"]).listen();
    let mut peer = Peer::connect(&server);
    let victim = Victim::new();
    for name in ["a", "b", "c"] {
        peer.start(name, &["sleep", victim.argument()]);
    }
    let error = peer.ask("process/start", &Peer::params("d", &["true"])).unwrap_err();
    assert!(error["message"].as_str().unwrap().contains('3'), "{error}");
    assert!(peer.terminate("a"));
    peer.closed("a");
    crate::support::eventually(DEADLINE, "there is room again", || {
        peer.ask("process/start", &Peer::params("e", &["true"])).is_ok()
    });
    assert!(peer.terminate("b") && peer.terminate("c"));
    victim.await_gone();
}

/// Ids that are used up, ends that are waited for, and reads of what is long gone cost nothing that
/// grows.
#[test]
fn thousands_of_processes_leave_no_threads_and_no_descriptors() {
    let server = Server::start();
    let mut peer = Peer::connect(&server);
    peer.sh("warm", "true");
    let before = procfs::settled(server.pid());
    for number in 0..1000 {
        peer.start(&number.to_string(), &["true"]);
        if number % 20 == 19 {
            peer.closed(&number.to_string());
        }
    }
    for number in 0..1000 {
        peer.closed(&number.to_string());
    }
    let after = procfs::settled(server.pid());
    assert!(after.0 <= before.0 + 2 && after.1 <= before.1 + 2, "{before:?}, {after:?}");
    assert!(procfs::resident_kib(server.pid()) < 64 * 1024);
}
