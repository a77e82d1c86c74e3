//! The end of a connection and of the server: nothing that was started is left.

use std::io::Write as _;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::frames::{CLOSE, FIN, Frames, PING, TEXT, masked};
use crate::support::{
    DEADLINE, Peer, Server, Setup, Victim, describe, eventually, holds_within, http,
    over_both_with, procfs, sys,
};

/// What has been killed before the server's exit may take a moment to be taken down by the kernel.
const SWEEP: Duration = Duration::from_millis(300);

/// Starts one of each: spawned, executed, on a terminal, left behind, ignoring signals.
fn one_of_each(peer: &mut Peer) -> Vec<Victim> {
    let victims: Vec<_> = (0..5).map(|_| Victim::new()).collect();
    victims[0].spawn(peer);
    peer.start_exec(json!({"command": format!("{} & wait", victims[1].command())}));
    let args = [victims[2].argument()];
    peer.spawn(json!({"command": "sleep", "args": args, "pty": {"cols": 80, "rows": 24}}));
    peer.sh(&format!("{} & echo left behind", victims[3].command()));
    let ignoring = format!("trap '' TERM HUP INT PIPE; {}; :", victims[4].command());
    peer.start_exec(json!({"command": ignoring}));
    for victim in &victims {
        victim.await_alive();
    }
    victims
}

#[track_caller]
fn await_all_gone(victims: &[Victim]) {
    for victim in victims {
        victim.await_gone();
    }
}

#[test]
fn a_connection_closed_by_fin_takes_its_processes_along() {
    let server = Server::start();
    let mut watcher = server.connect();
    let mut peer = server.connect();
    let victims = one_of_each(&mut peer);
    drop(peer);
    await_all_gone(&victims);
    assert_no_zombies(&mut watcher);
}

#[test]
fn a_connection_closed_by_rst_takes_its_processes_along() {
    let server = Server::start();
    let mut watcher = server.connect();
    let mut peer = server.connect();
    let victims = one_of_each(&mut peer);
    sys::reset_on_close(peer.wire().socket().get_ref());
    drop(peer);
    await_all_gone(&victims);
    assert_no_zombies(&mut watcher);
}

#[test]
fn a_connection_closed_by_a_close_frame_takes_its_processes_along() {
    let server = Server::start();
    let mut peer = server.connect();
    let victims = one_of_each(&mut peer);
    peer.wire().socket().close(None).unwrap();
    peer.closed(DEADLINE);
    await_all_gone(&victims);
}

#[test]
fn a_connection_dropped_within_a_frame_takes_its_processes_along() {
    let server = Server::start();
    let victim = Victim::new();
    let mut frames = Frames::connect(&server);
    let command = victim.command();
    frames.text(&format!(
        r#"{{"id":1,"method":"process/exec","params":{{"processId":"p","command":"{command}"}}}}"#
    ));
    victim.await_alive();
    let frame = masked(FIN | TEXT, &[b' '; 5000]);
    frames.stream.write_all(&frame[..2000]).unwrap();
    drop(frames);
    victim.await_gone();
}

#[track_caller]
fn assert_no_zombies(watcher: &mut Peer) {
    let pid = watcher.server_pid();
    eventually(DEADLINE, "all are reaped", || procfs::zombies_of(pid).is_empty());
    watcher.ping();
}

#[test]
fn a_connection_that_ends_while_its_output_is_stuck_takes_its_processes_along() {
    let server = Server::start();
    let mut peer = server.connect();
    let victim = Victim::new();
    let script = format!("{} & exec yes", victim.command());
    let (_, pid) = peer.spawn_with_pid(json!({"command": "sh", "args": ["-c", script]}));
    victim.await_alive();
    procfs::await_stalled(&[pid]);
    drop(peer);
    victim.await_gone();
    server.connect().ping();
}

#[test]
fn the_processes_of_another_connection_are_untouched() {
    let server = Server::start();
    let (mut one, mut other) = (server.connect(), server.connect());
    let (mine, theirs) = (Victim::new(), Victim::new());
    mine.spawn(&mut one);
    let process = theirs.spawn(&mut other);
    let running = other.start_exec(json!({"command": "sleep 0.7; echo whole"}));
    drop(one);
    mine.await_gone();
    theirs.assert_alive();
    assert_eq!(other.finish(&running).text(), "whole\n");
    theirs.assert_alive();
    assert!(other.kill(&process));
    assert_eq!(other.exit(&process).signal(), Some("SIGKILL"));
}

/// A host that froze or lost its network sends neither FIN nor RST.
#[test]
fn a_silent_peer_is_given_up_and_its_processes_are_gone() {
    let setup = || Setup::new().args(["--peer-timeout", "1"]);
    over_both_with(setup, |peer| {
        let victims = one_of_each(peer);
        let since = Instant::now();
        await_all_gone(&victims);
        let took = since.elapsed();
        assert!(took < Duration::from_secs(3), "given up after {took:?} only");
        peer.closed(DEADLINE);
        if peer.is_stdio() {
            let status = peer.pipes().wait(DEADLINE).expect("the server ends");
            assert_eq!(status.code(), Some(0), "{}", describe(status));
        }
    });
}

#[test]
fn a_silent_peer_that_does_not_read_is_given_up_too() {
    let setup = || Setup::new().args(["--peer-timeout", "1"]);
    over_both_with(setup, |peer| {
        let victim = Victim::new();
        let command = format!("{} & yes", victim.command());
        peer.start_exec(json!({"command": command}));
        victim.await_alive();
        victim.await_gone_within(Duration::from_secs(4));
        if peer.is_stdio() {
            // Its processes are gone; a host that does not read is not waited for.
            let status = peer.pipes().wait(Duration::from_secs(5)).expect("the server ends");
            assert_eq!(status.code(), Some(0), "{}", describe(status));
        }
    });
}

#[test]
fn an_idle_peer_that_answers_pings_is_kept() {
    let server = Setup::new().args(["--peer-timeout", "1"]).listen();
    let mut peer = server.connect();
    let victim = Victim::new();
    victim.spawn(&mut peer);
    // The library answers the server's pings while it reads.
    peer.pump(Duration::from_millis(2_500));
    victim.assert_alive();
    peer.ping();
}

#[test]
fn a_stdio_peer_that_pings_is_kept() {
    let mut peer = Setup::new().args(["--peer-timeout", "1"]).stdio();
    let victim = Victim::new();
    victim.spawn(&mut peer);
    let since = Instant::now();
    while since.elapsed() < Duration::from_millis(2_500) {
        peer.ping();
        peer.pump(Duration::from_millis(300));
    }
    victim.assert_alive();
}

#[test]
fn a_peer_that_sends_one_long_message_slowly_is_not_silent() {
    let server = Setup::new().args(["--peer-timeout", "1"]).listen();
    let mut frames = Frames::connect(&server);
    let text = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}              "#;
    let since = Instant::now();
    for byte in masked(FIN | TEXT, text.as_bytes()) {
        frames.stream.write_all(&[byte]).unwrap();
        std::thread::sleep(Duration::from_millis(40));
    }
    assert!(since.elapsed() > Duration::from_secs(2));
    let answer = loop {
        let frame = frames.next().expect("it was not given up");
        if frame.opcode != PING {
            break frame;
        }
    };
    assert_eq!(answer.opcode, TEXT);
}

#[track_caller]
fn assert_exits_with_0(server: &mut Server, since: Instant) {
    let status = server.wait(DEADLINE);
    let took = since.elapsed();
    assert_eq!(status.code(), Some(0), "{}", describe(status));
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn on_sigterm_and_sigint_it_closes_with_1001_and_exits_with_0() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let mut server = Server::start();
        let mut peers = [server.connect(), server.connect(), server.connect()];
        let mut victims = one_of_each(&mut peers[0]);
        victims.extend(one_of_each(&mut peers[1]));
        let since = Instant::now();
        server.signal(signal);
        for peer in &mut peers {
            let closing = peer.closed(DEADLINE);
            assert_eq!(closing.code, Some(1001), "{}", closing.reason);
        }
        assert_exits_with_0(&mut server, since);
        for victim in &victims {
            victim.await_gone_within(SWEEP);
        }
    }
}

#[test]
fn on_sigterm_a_stdio_server_ends_its_processes_and_exits_with_0() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let mut peer = Setup::new().stdio();
        let victims = one_of_each(&mut peer);
        let pid = peer.pipes().guardian();
        sys::signal(pid, signal).unwrap();
        let status = peer.pipes().wait(Duration::from_secs(5)).expect("it ends within 5 s");
        assert_eq!(status.code(), Some(0), "{}", describe(status));
        for victim in &victims {
            victim.await_gone_within(SWEEP);
        }
    }
}

#[test]
fn on_sigterm_nobody_is_waited_for() {
    let mut server = Server::start();
    let mut stuck = server.connect();
    let (_, pid) = stuck.spawn_with_pid(json!({"command": "yes"}));
    procfs::await_stalled(&[pid]);
    let silent = Frames::connect(&server);
    let unfinished = http::connect(server.address);
    let mut half = http::connect(server.address);
    half.write_all(b"GET /exec HTTP/1.1\r\n").unwrap();
    let since = Instant::now();
    server.signal(libc::SIGTERM);
    assert_exits_with_0(&mut server, since);
    drop((silent, unfinished, half));
}

/// Ctrl-C reaches a whole foreground group, and a wrapper that forwards it makes it two.
#[test]
fn a_second_signal_leaves_no_process_behind() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let mut server = Server::start();
        let mut peer = server.connect();
        let victims = one_of_each(&mut peer);
        // A peer that does not read makes the shutdown take a while.
        let mut stuck = server.connect();
        let (_, yes) = stuck.spawn_with_pid(json!({"command": "yes"}));
        procfs::await_stalled(&[yes]);
        let since = Instant::now();
        server.signal(signal);
        let refuses = || std::net::TcpStream::connect(server.address).is_err();
        eventually(DEADLINE, "the server accepts no more", refuses);
        let _ = sys::signal(server.guardian(), signal);
        let status = server.wait(DEADLINE);
        await_all_gone(&victims);
        assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
        assert_eq!(status.code(), Some(0), "{}", describe(status));
    }
}

/// The second came while the processes were being ended, ended the server at once, and left some.
#[test]
fn two_signals_right_behind_each_other_leave_no_process_behind() {
    for round in 0..12 {
        let mut peer = Setup::new().stdio();
        let victim = Victim::new();
        for n in 0..20 {
            let args = [victim.argument()];
            let id = format!("s{n}");
            peer.spawn(json!({"processId": id, "command": "sleep", "args": args}));
        }
        victim.await_count(20);
        let pid = peer.pipes().guardian();
        sys::signal(pid, libc::SIGTERM).unwrap();
        std::thread::sleep(Duration::from_micros(200 * (round % 6)));
        let _ = sys::signal(pid, libc::SIGTERM);
        peer.pipes().wait(DEADLINE).expect("it ends");
        let gone = holds_within(SWEEP, || victim.count() == 0);
        let left = victim.pids();
        for pid in &left {
            let _ = sys::signal(*pid, libc::SIGKILL);
        }
        assert!(gone, "in round {round} {} of 20 have outlived the server", left.len());
    }
}

#[test]
fn the_port_is_free_when_the_server_has_gone() {
    let mut server = Server::start();
    let mut peer = server.connect();
    one_of_each(&mut peer);
    let address = server.address;
    server.signal(libc::SIGTERM);
    server.wait(DEADLINE);
    TcpListener::bind(address).unwrap();
}

/// A child that had inherited the listening socket kept the port busy.
#[test]
fn the_port_is_free_though_a_child_lives_on() {
    let mut server = Server::start();
    let mut peer = server.connect();
    let victim = Victim::new();
    victim.spawn(&mut peer);
    let serving = peer.server_pid();
    let address = server.address;
    sys::signal(serving, libc::SIGKILL).unwrap();
    server.wait(DEADLINE);
    let bound = TcpListener::bind(address);
    for pid in victim.pids() {
        let _ = sys::signal(pid, libc::SIGKILL);
    }
    bound.unwrap();
}

#[test]
fn while_it_is_shutting_down_nobody_is_admitted() {
    let mut server = Server::start();
    let address = server.address;
    server.signal(libc::SIGTERM);
    server.wait(DEADLINE);
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn more_than_max_connections_are_refused_until_one_ends() {
    let server = Setup::new().args(["--max-connections", "2"]).listen();
    let bearer = server.authorization().unwrap();
    let mut one = server.connect();
    let mut other = server.connect();
    let status = || http::upgrade_status(server.address, "/exec", &[&bearer]);
    assert_eq!(status(), 503);
    one.ping();
    other.ping();
    drop(one);
    eventually(DEADLINE, "there is room again", || status() == 101);
    other.ping();
}

#[test]
fn a_close_frame_is_answered_at_once_though_a_command_runs() {
    let server = Server::start();
    let mut frames = Frames::connect(&server);
    frames.text(
        r#"{"id":1,"method":"process/exec","params":{"processId":"p","command":"sleep 30"}}"#,
    );
    let since = Instant::now();
    frames.send(FIN | CLOSE, &1000_u16.to_be_bytes());
    assert_eq!(frames.close_code(), Some(1000));
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
}
