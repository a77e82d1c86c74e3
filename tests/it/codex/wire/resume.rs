//! Sessions that outlive their connection.

use std::time::Duration;

use serde_json::{Value, json};

use crate::codex::peer::Peer;
use crate::support::{DEADLINE, Server, Setup, Victim, eventually, unbase64};

/// All that a process has said after that number, in order.
fn read_after(peer: &mut Peer, process: &str, after: Option<u64>) -> (String, Value) {
    let params = json!({"processId": process, "afterSeq": after, "waitMs": 0});
    let read = peer.ok("process/read", &params);
    let chunks = read["chunks"].as_array().unwrap().iter();
    let bytes = chunks.flat_map(|chunk| unbase64(chunk["chunk"].as_str().unwrap()));
    (String::from_utf8(bytes.collect()).unwrap(), read)
}

#[test]
fn a_client_whose_connection_is_cut_reads_on_where_it_was() {
    let server = Server::start();
    let mut peer = Peer::connect(&server);
    let mut params = Peer::params("p", &["/bin/sh", "-c", "echo one; read a; echo $a; exit 4"]);
    params["pipeStdin"] = json!(true);
    peer.start_with(&params);
    peer.until("p", "one\n");
    let last = peer.seen("p").last;
    let session = peer.session();
    peer.wire().hang_up();
    let mut peer = Peer::resume(&server, &session).unwrap();
    assert_eq!(peer.session(), session);
    assert_eq!(read_after(&mut peer, "p", None).0, "one\n");
    assert_eq!(peer.write("p", "two\n", "1"), "accepted");
    let seen = peer.closed("p");
    assert_eq!((seen.out().as_str(), seen.code()), ("two\n", 4));
    let (text, read) = read_after(&mut peer, "p", last);
    assert_eq!(text, "two\n");
    assert_eq!((&read["exitCode"], &read["closed"]), (&json!(4), &json!(true)));
}

#[test]
fn what_happens_while_nobody_is_connected_is_kept() {
    let server = Server::start();
    let dir = crate::support::TempDir::new();
    let done = dir.join("done");
    let mut peer = Peer::connect(&server);
    let line = format!("echo one; sleep 0.3; echo two; echo x >{}; exit 5", done.display());
    peer.start("p", &["/bin/sh", "-c", &line]);
    peer.until("p", "one\n");
    let (session, last) = (peer.session(), peer.seen("p").last);
    drop(peer);
    eventually(DEADLINE, "it has gone on alone", || done.exists());
    let mut peer = Peer::resume(&server, &session).unwrap();
    let params = json!({"processId": "p", "afterSeq": last, "waitMs": 5000});
    eventually(DEADLINE, "it is closed", || peer.ok("process/read", &params)["closed"] == true);
    let (text, read) = read_after(&mut peer, "p", last);
    assert_eq!((text.as_str(), &read["exitCode"]), ("two\n", &json!(5)));
}

/// It does not read, and nobody has told the server that it is gone.
#[test]
fn a_newcomer_takes_a_session_over_from_a_connection_that_is_half_open() {
    let server = Server::start();
    let mut old = Peer::connect(&server);
    let victim = Victim::new();
    old.start("p", &["sleep", victim.argument()]);
    victim.await_alive();
    old.start("q", &["/bin/sh", "-c", "while :; do echo yes; done"]);
    let mut new = Peer::resume(&server, &old.session()).unwrap();
    victim.assert_alive();
    assert!(new.terminate("p"));
    assert!(new.terminate("q"));
    new.closed("p");
    victim.await_gone();
    eventually(DEADLINE, "the old one is closed", || {
        old.wait("its end", |peer| peer.closing.is_some() || peer.seen("q").last.is_some());
        old.closing.is_some() || {
            old.await_end();
            true
        }
    });
}

#[test]
fn a_session_that_was_never_there_is_not_resumed() {
    let server = Server::start();
    for session in ["", "x", "00000000-0000-0000-0000-000000000000"] {
        let error = Peer::resume(&server, session).err().expect("it is refused");
        assert_eq!(error["code"], -32600, "{session}: {error}");
        assert!(error["message"].as_str().unwrap().contains(session), "{session}: {error}");
    }
}

#[test]
fn when_the_time_to_resume_is_up_everything_of_the_session_ends() {
    let server = Setup::new().args(["--codex-resume", "1"]).listen();
    let mut peer = Peer::connect(&server);
    let (own, left) = (Victim::new(), Victim::new());
    peer.start("p", &["sleep", own.argument()]);
    peer.sh("q", &format!("setsid {} & echo x", left.command()));
    own.await_alive();
    left.await_alive();
    let session = peer.session();
    drop(peer);
    own.await_gone_within(DEADLINE);
    left.await_gone_within(DEADLINE);
    let error = Peer::resume(&server, &session).err().expect("it is over");
    assert_eq!(error["code"], -32600, "{error}");
}

#[test]
fn a_session_is_resumed_again_and_again_and_its_time_begins_anew() {
    let server = Setup::new().args(["--codex-resume", "2"]).listen();
    let mut peer = Peer::connect(&server);
    let victim = Victim::new();
    peer.start("p", &["sleep", victim.argument()]);
    victim.await_alive();
    for _ in 0..4 {
        let session = peer.session();
        peer.wire().hang_up();
        peer = Peer::resume(&server, &session).unwrap();
        peer.assert_quiet_for(Duration::from_millis(700));
        victim.assert_alive();
    }
    assert!(peer.terminate("p"));
    victim.await_gone();
}

#[test]
fn with_0_seconds_to_resume_everything_ends_with_the_connection() {
    let server = Setup::new().args(["--codex-resume", "0"]).listen();
    let mut peer = Peer::connect(&server);
    let victim = Victim::new();
    peer.start("p", &["sleep", victim.argument()]);
    victim.await_alive();
    let session = peer.session();
    drop(peer);
    victim.await_gone();
    assert!(Peer::resume(&server, &session).is_err());
}

/// What nobody reads is dropped from its beginning; the process is not held up by it.
#[test]
fn what_is_kept_for_a_client_that_is_gone_is_bounded() {
    let server = Server::start();
    let dir = crate::support::TempDir::new();
    let done = dir.join("done");
    let mut peer = Peer::connect(&server);
    let line = format!("read a; head -c 50000000 /dev/zero; echo end; echo x >{}", done.display());
    let mut params = Peer::params("p", &["/bin/sh", "-c", &line]);
    params["pipeStdin"] = json!(true);
    peer.start_with(&params);
    let session = peer.session();
    assert_eq!(peer.write("p", "go\n", "1"), "accepted");
    drop(peer);
    eventually(DEADLINE, "it has written all", || done.exists());
    assert!(crate::support::procfs::resident_kib(server.pid()) < 32 * 1024);
    let mut peer = Peer::resume(&server, &session).unwrap();
    // (Its last words may still be in the pipe.)
    eventually(DEADLINE, "the end is what is kept", || {
        let (text, _) = read_after(&mut peer, "p", None);
        assert!(text.len() <= 1 << 20, "{} bytes are kept", text.len());
        text.ends_with("end\n")
    });
}
