//! Making connections.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType};
use serde_json::json;

use super::{ClosedPort, accept, await_hung_up, listen, listen_on};
use crate::support::{best_of_three, over_both, sys};

#[test]
fn remote_address_tells_where_it_leads() {
    over_both(|peer| {
        let (v4, port) = listen();
        let (_, remote) = peer.connect_to(json!({"host": "127.0.0.1", "port": port}));
        assert_eq!(remote, format!("127.0.0.1:{port}"));
        accept(&v4);
        let (v6, port) = listen_on("::1");
        for host in ["::1", "[::1]"] {
            let (_, remote) = peer.connect_to(json!({"host": host, "port": port}));
            assert_eq!(remote, format!("[::1]:{port}"));
            accept(&v6);
        }
    });
}

/// A listener, and its port bound on the other address too, where it listens not: a listener of
/// another test would answer there.
fn listen_on_one(address: &str, other: &str) -> (TcpListener, u16, OwnedFd) {
    loop {
        let (listener, port) = listen_on(address);
        let other = SocketAddr::new(other.parse().unwrap(), port);
        let family = if other.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let silent = rustix::net::socket(family, SocketType::STREAM, None).unwrap();
        if rustix::net::bind(&silent, &other).is_ok() {
            return (listener, port, silent);
        }
    }
}

#[test]
fn localhost_is_reached_where_only_one_family_listens() {
    over_both(|peer| {
        for (address, shown, other) in
            [("::1", "[::1]", "127.0.0.1"), ("127.0.0.1", "127.0.0.1", "::1")]
        {
            let (listener, port, _silent) = listen_on_one(address, other);
            for host in ["localhost", "LOCALHOST", "some.localhost"] {
                let (connection, remote) = peer.connect_to(json!({"host": host, "port": port}));
                assert_eq!(remote, format!("{shown}:{port}"));
                accept(&listener).write_all(b"hi").unwrap();
                peer.await_data(&connection, 2);
            }
        }
    });
}

#[test]
fn a_refused_port_is_told_with_host_and_port() {
    over_both(|peer| {
        let closed = ClosedPort::new();
        let port = closed.port;
        for host in ["127.0.0.1", "localhost", "::1"] {
            let error = peer.connect_error(json!({"host": host, "port": port}));
            assert_eq!((error.code, error.data_code()), (-32000, "ECONNREFUSED"), "{error:?}");
            error.assert_names(host);
            error.assert_names(&port.to_string());
            error.assert_names("refused");
        }
        peer.assert_quiet();
    });
}

/// A listener that answers no more: its queue is full.
fn full_listener(address: &str, port: u16) -> (TcpListener, Vec<TcpStream>, u16) {
    let listener = TcpListener::bind((address, port)).unwrap();
    sys::set_backlog(&listener, 0);
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    let short = Duration::from_millis(150);
    while let Ok(stream) = TcpStream::connect_timeout(&address, short) {
        waiting.push(stream);
        assert!(waiting.len() < 10, "the queue does not fill");
    }
    (listener, waiting, address.port())
}

#[test]
fn a_connect_without_an_answer_ends_with_its_timeout() {
    let (_listener, _waiting, port) = full_listener("127.0.0.1", 0);
    over_both(|peer| {
        best_of_three(Duration::from_millis(650), "a connect of 400 ms", || {
            let since = Instant::now();
            let params = json!({"host": "127.0.0.1", "port": port, "timeoutMs": 400});
            let error = peer.connect_error(params);
            assert_eq!((error.code, error.data_code()), (-32000, "ETIMEDOUT"), "{error:?}");
            error.assert_names(&format!("127.0.0.1:{port}"));
            assert!(since.elapsed() >= Duration::from_millis(400), "{:?}", since.elapsed());
            since.elapsed()
        });
    });
}

/// The other address is tried beside one that does not answer (RFC 8305).
#[test]
fn an_address_that_does_not_answer_holds_up_no_other() {
    let (v4, port) = listen();
    let (_v6, _waiting, _) = full_listener("::1", port);
    over_both(|peer| {
        best_of_three(Duration::from_millis(900), "localhost with a dead ::1", || {
            let since = Instant::now();
            let (connection, remote) = peer.connect_to(json!({"host": "localhost", "port": port}));
            assert_eq!(remote, format!("127.0.0.1:{port}"));
            assert!(peer.net_close(&connection));
            since.elapsed()
        });
    });
    drop(v4);
}

#[test]
fn a_connect_in_progress_can_be_closed_and_delays_nothing() {
    let (_listener, _waiting, port) = full_listener("127.0.0.1", 0);
    over_both(|peer| {
        let params = json!({"connectionId": "c", "host": "127.0.0.1", "port": port});
        let (connect, _) = peer.begin_connect(params.clone());
        let write = peer.begin_net_write("c", "early");
        let since = Instant::now();
        peer.ping();
        assert!(!peer.has_answer(&connect));
        assert!(peer.net_close("c"));
        for id in [connect, write] {
            let error = peer.answer(&id).unwrap_err();
            assert_eq!((error.code, error.data_code()), (-32000, "ECONNABORTED"), "{error:?}");
            error.assert_names("\"c\"");
        }
        assert!(since.elapsed() < Duration::from_secs(3), "{:?}", since.elapsed());
        // The id is free.
        let (listener, port) = listen();
        peer.connect_to(json!({"connectionId": "c", "host": "127.0.0.1", "port": port}));
        let mut stream = accept(&listener);
        assert!(peer.net_close("c"));
        await_hung_up(&mut stream);
        assert_eq!(peer.await_closed("c").map(|error| error.message), None);
    });
}

#[test]
fn what_is_written_before_the_connection_is_made_arrives() {
    over_both(|peer| {
        let (listener, port) = listen();
        let params = json!({"connectionId": "c", "host": "127.0.0.1", "port": port});
        let (connect, connection) = peer.begin_connect(params);
        let write = peer.begin_net_write(&connection, "early");
        peer.answer(&connect).unwrap();
        peer.answer(&write).unwrap();
        let mut stream = accept(&listener);
        let mut bytes = [0; 5];
        std::io::Read::read_exact(&mut stream, &mut bytes).unwrap();
        assert_eq!(&bytes, b"early");
        assert!(peer.net_close("c"));
    });
}

/// Nagle's algorithm would make each of these wait for an acknowledgement.
#[test]
fn small_writes_are_not_delayed() {
    use std::io::Read as _;
    over_both(|peer| {
        let (connection, mut stream) = super::connect(peer);
        best_of_three(Duration::from_secs(1), "50 round trips in two writes each", || {
            let since = Instant::now();
            for _ in 0..50 {
                peer.net_write(&connection, "a");
                peer.net_write(&connection, "b");
                let mut bytes = [0; 2];
                stream.read_exact(&mut bytes).unwrap();
            }
            since.elapsed()
        });
    });
}
