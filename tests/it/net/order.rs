//! What comes after what, and what an end costs.

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{accept, await_hung_up, connect, listen};
use crate::support::{DEADLINE, Server, Setup, TempDir, over_both, procfs};

/// An id may be used again as soon as either is read; nothing of the old one may follow.
#[test]
fn the_answer_to_a_close_comes_after_the_last_word_whoever_closed_first() {
    const ROUNDS: usize = 300;
    over_both(|peer| {
        for _ in 0..ROUNDS {
            let (connection, mut stream) = connect(peer);
            peer.net_eof(&connection);
            stream.write_all(&[7; 3000]).unwrap();
            drop(stream);
            // At the same time as the far end, or so.
            let closing = peer.request("net/close", &json!({"connectionId": connection}));
            peer.answer(&closing).unwrap();
            assert!(peer.is_closed(&connection), "answered before net/closed");
        }
    });
}

#[test]
fn closes_of_nothing_cost_no_thread_each() {
    let server = Server::start();
    let mut peer = server.connect();
    let mut other = server.connect();
    let pid = other.server_pid();
    peer.spawn(json!({"command": "yes"}));
    procfs::await_stalled(&[pid]);
    let before = procfs::threads(pid);
    for id in 0..5000 {
        let close = json!({"jsonrpc": "2.0", "id": id, "method": "net/close",
            "params": {"connectionId": "nobody"}});
        if !peer.wire().try_send_unread(&close.to_string(), Duration::from_millis(200)) {
            break;
        }
    }
    other.ping();
    let threads = procfs::threads(pid);
    assert!(threads < before + 20, "{threads} threads, {before} before");
}

#[test]
fn urgent_data_is_data() {
    over_both(|peer| {
        let (connection, mut stream) = connect(peer);
        stream.write_all(b"abc").unwrap();
        rustix::net::send(stream.as_fd(), b"!", rustix::net::SendFlags::OOB).unwrap();
        stream.write_all(b"def").unwrap();
        peer.await_data(&connection, 7);
        assert_eq!(peer.link(&connection).data, b"abc!def");
    });
}

/// What still goes on with files is no reason to keep a connection.
#[test]
fn the_end_of_stdin_closes_connections_at_once_though_a_copy_goes_on() {
    let dir = TempDir::new();
    let big = dir.join("big");
    let file = std::fs::File::create(&big).unwrap();
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 3 << 30).unwrap();
    let mut peer = Setup::new().stdio();
    let (connection, mut stream) = connect(&mut peer);
    peer.net_write(&connection, "there");
    peer.request("fs/copy", &json!({"from": big, "to": dir.join("copy")}));
    peer.hang_up();
    let since = Instant::now();
    await_hung_up(&mut stream);
    assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
    peer.closed(Duration::from_secs(60));
}

/// The far end takes what was written before the host closed, though the host has not read all.
#[test]
fn a_close_does_not_take_back_what_was_written() {
    over_both(|peer| {
        let (listener, port) = listen();
        let params = json!({"host": "127.0.0.1", "port": port, "window": 1});
        let (connection, _) = peer.connect_to(params);
        let mut stream = accept(&listener);
        stream.write_all(&[1; 1000]).unwrap();
        peer.await_data(&connection, 1);
        peer.net_write(&connection, vec![2; 200_000]);
        assert!(peer.net_close(&connection));
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut there = Vec::new();
        std::io::Read::read_to_end(&mut stream, &mut there).unwrap();
        assert_eq!(there, vec![2; 200_000]);
    });
}
