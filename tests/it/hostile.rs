//! Peers that mean no good, strangers, and parents that leave their child a strange world.

use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{
    DEADLINE, Peer, Server, Setup, Victim, describe, http, over_both_with, procfs, sys,
};

/// Sends pings and reads no answer, until the server does not listen any more.
#[track_caller]
fn ping_and_do_not_read(peer: &mut Peer) {
    // The id comes back, so that few answers fill what lies between.
    let id = "x".repeat(1000);
    let ping = json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string();
    let end = Instant::now() + DEADLINE;
    let mut sent = 0;
    while peer.wire().try_send_unread(&ping, Duration::from_millis(500)) {
        sent += 1;
        assert!(Instant::now() < end, "{sent} pings, and still the server listens");
    }
    assert!(sent > 100, "only {sent} pings were taken");
}

#[track_caller]
fn assert_exits_with_0(peer: &mut Peer, since: Instant) {
    let status = peer.pipes().wait(Duration::from_secs(10)).expect("the server ends");
    let took = since.elapsed();
    assert_eq!(status.code(), Some(0), "{}", describe(status));
    assert!(took < Duration::from_secs(5), "{took:?}");
}

/// The connection's thread waited for the peer to read and saw no stop: the server went after 4 s
/// without it, and the processes lived on.
#[test]
fn on_sigterm_the_processes_of_a_peer_that_sends_and_does_not_read_are_gone() {
    let mut server = Server::start();
    let mut peer = server.connect();
    let victim = Victim::new();
    victim.spawn(&mut peer);
    ping_and_do_not_read(&mut peer);
    victim.assert_alive();
    let since = Instant::now();
    server.signal(libc::SIGTERM);
    let status = server.wait(DEADLINE);
    let took = since.elapsed();
    let left = victim.pids();
    victim.await_gone_within(Duration::from_millis(300));
    assert_eq!(status.code(), Some(0), "{}", describe(status));
    assert!(took < Duration::from_secs(5), "{took:?}, left {left:?}");
}

/// Over stdio it did not end before `--peer-timeout`.
#[test]
fn on_sigterm_a_stdio_server_whose_host_sends_and_does_not_read_ends() {
    let mut peer = Setup::new().stdio();
    let victim = Victim::new();
    victim.spawn(&mut peer);
    ping_and_do_not_read(&mut peer);
    victim.assert_alive();
    let since = Instant::now();
    sys::signal(peer.pipes().guardian(), libc::SIGTERM).unwrap();
    assert_exits_with_0(&mut peer, since);
    victim.await_gone_within(Duration::from_millis(300));
}

#[test]
fn at_the_end_of_stdin_a_stdio_server_whose_host_did_not_read_ends() {
    let mut peer = Setup::new().stdio();
    let victim = Victim::new();
    victim.spawn(&mut peer);
    ping_and_do_not_read(&mut peer);
    victim.assert_alive();
    let since = Instant::now();
    peer.hang_up();
    assert_exits_with_0(&mut peer, since);
    victim.await_gone_within(Duration::from_millis(300));
}

/// The kernel reaps the children of who ignores SIGCHLD, and with them goes their exit code: no
/// command was ever answered.
#[test]
fn a_parent_that_ignores_sigchld_costs_no_exit_code() {
    over_both_with(
        || Setup::new().ignoring(libc::SIGCHLD),
        |peer| {
            for _ in 0..5 {
                assert_eq!(peer.sh("exit 6").code(), Some(6));
            }
            assert_eq!(peer.sh("kill -TERM $$").signal(), Some("SIGTERM"));
            assert_eq!(peer.run(json!({"command": "false"})).code(), Some(1));
            // A command that waits for children of its own is none the wiser.
            assert_eq!(peer.sh("(exit 7) & wait $!").code(), Some(7));
            let pid = peer.server_pid();
            let busy = procfs::busy_within(pid, Duration::from_millis(200));
            assert!(busy < Duration::from_millis(100), "busy for {busy:?} with nothing to do");
        },
    );
}

/// The user database answers in one buffer for all threads: asked by several at once it gave
/// mixtures.
#[test]
fn without_home_all_are_told_the_same_home() {
    const EACH: usize = 200;
    let server = Setup::new().under(&["env", "-u", "HOME"]).listen();
    let ask = || {
        let mut peer = server.connect();
        let ids: Vec<_> = (0..EACH).map(|_| peer.request("initialize", &json!({}))).collect();
        let mut home = |id: &String| peer.answer(id).unwrap()["home"].clone();
        ids.iter().map(&mut home).collect::<Vec<_>>()
    };
    let all: Vec<_> = thread::scope(|scope| {
        let start = |n: usize| {
            let builder = thread::Builder::new().name(format!("host {n}"));
            builder.spawn_scoped(scope, ask).unwrap()
        };
        let threads: Vec<_> = (0..8).map(start).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(all.len(), 8 * EACH);
    let other = all.iter().find(|home| **home != all[0]);
    assert!(other.is_none(), "{} and {other:?}", all[0]);
}

/// Strangers without a token took all places by connecting and saying nothing.
#[test]
fn idle_strangers_keep_out_neither_a_host_nor_a_health_check() {
    let server = Setup::new().args(["--max-connections", "4"]).listen();
    let strangers: Vec<TcpStream> = (0..300).map(|_| http::connect(server.address)).collect();
    let mut peer = server.connect();
    assert_eq!(peer.sh("echo hi").text(), "hi\n");
    let healthz = http::get(server.address, "/healthz");
    assert_eq!(healthz.status, 200, "{healthz:?}");
    // Nor do they once the host is in, and more of them come.
    let more: Vec<TcpStream> = (0..300).map(|_| http::connect(server.address)).collect();
    peer.ping();
    assert_eq!(server.connect().sh("echo hi").text(), "hi\n");
    drop((strangers, more));
}
