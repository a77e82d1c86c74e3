//! The end of the host's connection: its connections are closed with it.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{await_hung_up, connect, connect_with, pattern};
use crate::support::{DEADLINE, Peer, Server, Setup, eventually, over_both, procfs, sys};

/// One of each: idle, one whose far end does not read, one whose window is closed, half closed.
fn one_of_each(peer: &mut Peer) -> Vec<TcpStream> {
    let (_, idle) = connect(peer);
    let (full, stuck) = connect(peer);
    for _ in 0..14 {
        peer.begin_net_write(&full, pattern(1 << 20));
    }
    let (held, mut sender) = connect_with(peer, json!({"window": 1000}));
    sender.write_all(&pattern(5000)).unwrap();
    peer.await_data(&held, 1000);
    let (half, ended) = connect(peer);
    ended.shutdown(std::net::Shutdown::Write).unwrap();
    peer.await_end_of_data(&half);
    vec![idle, stuck, sender, ended]
}

#[track_caller]
fn assert_all_hung_up(streams: Vec<TcpStream>) {
    for mut stream in streams {
        await_hung_up(&mut stream);
    }
}

#[test]
fn a_host_that_ends_by_fin_or_rst_takes_its_connections_along() {
    let server = Server::start();
    let mut watcher = server.connect();
    let pid = watcher.server_pid();
    let before = procfs::settled(pid);
    for reset in [false, true] {
        let mut peer = server.connect();
        let streams = one_of_each(&mut peer);
        let (other, mut untouched) = connect(&mut watcher);
        if reset {
            sys::reset_on_close(peer.wire().socket().get_ref());
        }
        drop(peer);
        assert_all_hung_up(streams);
        watcher.net_write(&other, "still");
        std::io::Read::read_exact(&mut untouched, &mut [0; 5]).unwrap();
        assert!(watcher.net_close(&other));
    }
    let now = || (procfs::threads(pid), procfs::descriptors(pid));
    let what = format!("threads and descriptors {before:?} again");
    eventually(DEADLINE, &what, || now() == before);
}

#[test]
fn the_end_of_stdin_takes_the_connections_along() {
    let mut peer = Setup::new().stdio();
    let streams = one_of_each(&mut peer);
    let since = Instant::now();
    peer.hang_up();
    assert_all_hung_up(streams);
    assert!(since.elapsed() < Duration::from_secs(3), "{:?}", since.elapsed());
    assert_eq!(peer.pipes().wait(DEADLINE).expect("it ends").code(), Some(0));
}

#[test]
fn on_sigterm_the_connections_are_closed_and_nobody_is_waited_for() {
    let mut server = Server::start();
    let mut peer = server.connect();
    let streams = one_of_each(&mut peer);
    let since = Instant::now();
    server.signal(libc::SIGTERM);
    assert_all_hung_up(streams);
    assert_eq!(server.wait(DEADLINE).code(), Some(0));
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
}

#[test]
fn a_host_that_ends_with_its_output_stuck_takes_its_connections_along() {
    over_both(|peer| {
        let (_, mut stream) = connect(peer);
        stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
        while stream.write(&pattern(1 << 20)).is_ok() {}
        peer.hang_up();
        if peer.is_stdio() {
            peer.pipes().close_stdout();
        }
        await_hung_up(&mut stream);
    });
}

/// The log tells of connections, and never what passes through them.
#[test]
fn the_log_tells_of_connections_and_not_of_their_data() {
    let server = Setup::new().args(["--log-level", "debug"]).listen();
    let mut peer = server.connect();
    let (connection, mut stream) = connect(&mut peer);
    stream.write_all(b"secret-there").unwrap();
    peer.await_data(&connection, 12);
    peer.net_write(&connection, "secret-here");
    assert!(peer.net_close(&connection));
    let logged = |text: &str| server.log.text().contains(text);
    eventually(DEADLINE, "the connection is logged", || {
        logged(&format!("id={connection}")) && logged("connection closed")
    });
    let coded = crate::support::base64("secret-");
    assert!(!logged("secret-") && !logged(coded.trim_end_matches('=')), "{}", server.log.text());
}
