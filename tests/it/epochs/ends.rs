//! Its connections, and old hosts that do not read.

use std::io::Read as _;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::json;

use super::assert_fenced;
use crate::support::frames::Frames;
use crate::support::{DEADLINE, Server, TempDir, Victim, procfs};

#[test]
fn at_the_first_answer_to_the_new_host_the_connections_of_the_old_one_are_closed() {
    let server = Server::start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let dir = TempDir::new();
    let path = dir.join("socket");
    let unix = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let mut old = server.connect_of(1);
    old.connect_to(json!({"host": "127.0.0.1", "port": port}));
    old.connect_to(json!({"path": path}));
    let (mut tcp, _) = listener.accept().unwrap();
    let (mut local, _) = unix.accept().unwrap();
    tcp.set_nonblocking(true).unwrap();
    local.set_nonblocking(true).unwrap();
    let open = tcp.read(&mut [0]).unwrap_err();
    assert_eq!(open.kind(), std::io::ErrorKind::WouldBlock);
    server.connect_of(2).ping();
    // A reset is an end, too.
    for end in [tcp.read(&mut [0]), local.read(&mut [0])] {
        assert!(!matches!(&end, Ok(1..)), "{end:?}");
        assert!(end.map_or_else(|error| error.kind() != std::io::ErrorKind::WouldBlock, |_| true));
    }
    assert_fenced(&mut old);
}

/// What the kernel has taken and the far end has no room for.
#[test]
fn of_what_an_old_host_has_written_to_a_connection_nothing_is_sent_after_the_first_answer() {
    let server = Server::start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut old = server.connect_of(1);
    let (connection, _) = old.connect_to(json!({"host": "127.0.0.1", "port": port}));
    let (mut far, _) = listener.accept().unwrap();
    // More than both ends take.
    for _ in 0..24 {
        old.begin_net_write(&connection, vec![b'x'; 600_000]);
    }
    old.pump(Duration::from_millis(300));
    server.connect_of(2).ping();
    let waiting = rustix::io::ioctl_fionread(&far).unwrap();
    assert!(waiting > 0);
    let mut received = Vec::new();
    far.set_read_timeout(Some(DEADLINE)).unwrap();
    let end = far.read_to_end(&mut received).unwrap_err();
    assert_eq!(end.kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(received.len() as u64, waiting, "it was sent after the answer");
    assert_fenced(&mut old);
}

#[test]
fn an_old_host_that_does_not_read_is_not_waited_for() {
    let server = Server::start();
    let mut old = server.connect_of(1);
    let victim = Victim::new();
    let script = format!("{} & exec yes", victim.command());
    let (_, pid) = old.spawn_with_pid(json!({"command": "sh", "args": ["-c", script]}));
    victim.await_alive();
    procfs::await_stalled(&[pid]);
    let since = Instant::now();
    server.connect_of(2).ping();
    let took = since.elapsed();
    assert!(took < Duration::from_millis(900), "it was waited for: {took:?}");
    victim.await_gone_within(Duration::ZERO);
}

/// It has so many answers to read that the server has stopped reading its calls.
#[test]
fn an_old_host_that_is_throttled_is_not_waited_for() {
    let server = Server::start();
    let mut old = Frames::new(server.upgrade_of(1));
    let id = "x".repeat(900);
    let call = format!(r#"{{"id":"{id}","method":"ping"}}"#);
    let frame = crate::support::frames::masked(
        crate::support::frames::FIN | crate::support::frames::TEXT,
        call.as_bytes(),
    );
    // Until it takes no more.
    crate::support::frames::flood(&mut old.stream, &frame, 256 << 20);
    let since = Instant::now();
    server.connect_of(2).ping();
    let took = since.elapsed();
    assert!(took < Duration::from_millis(900), "it was waited for: {took:?}");
}

#[test]
fn an_old_host_that_has_gone_without_a_word_is_not_waited_for() {
    let server = Server::start();
    let mut old = server.connect_of(1);
    let victim = Victim::new();
    victim.spawn(&mut old);
    // It is there, but nobody reads or writes any more.
    let since = Instant::now();
    server.connect_of(2).ping();
    assert!(since.elapsed() < Duration::from_millis(900));
    victim.await_gone_within(Duration::ZERO);
    drop(old);
}

/// A new host behind a fence is as any other: its end is waited for by nobody.
#[test]
fn a_server_stops_in_time_with_fenced_hosts() {
    let mut server = Server::start();
    let peers: Vec<_> = (1..20).map(|epoch| server.connect_of(epoch)).collect();
    let since = Instant::now();
    server.signal(libc::SIGTERM);
    assert_eq!(server.wait(DEADLINE).code(), Some(0));
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    drop(peers);
}
