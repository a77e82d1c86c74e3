//! Ids that are taken, how many connections there may be, and params.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ClosedPort, accept, await_hung_up, connect, connect_with, listen};
use crate::support::{DEADLINE, Peer, Server, eventually, over_both, procfs, sys};

#[test]
fn an_id_in_use_is_refused_and_its_owner_unharmed() {
    over_both(|peer| {
        let (_, mut stream) = connect_with(peer, json!({"connectionId": "twin"}));
        let (listener, port) = listen();
        let params = json!({"connectionId": "twin", "host": "127.0.0.1", "port": port});
        let error = peer.error("net/connect", &params);
        let found = (error.code, error.data_code());
        assert_eq!(found, (-32000, "CELL_TA_EXEC_DUPLICATE_ID"), "{error:?}");
        error.assert_names("twin");
        drop(listener);
        std::io::Write::write_all(&mut stream, b"here").unwrap();
        peer.await_data("twin", 4);
        // A process may have the same id: these are names of their own.
        let running = peer.start_exec(json!({"processId": "twin", "command": "echo hi"}));
        assert_eq!(peer.finish(&running).text(), "hi\n");
    });
}

#[test]
fn an_id_can_be_used_again_when_its_connection_is_over() {
    over_both(|peer| {
        for _ in 0..100 {
            let (connection, stream) = connect_with(peer, json!({"connectionId": "again"}));
            drop(stream);
            peer.net_eof(&connection);
            assert!(peer.await_closed(&connection).is_none());
        }
        for _ in 0..5 {
            let closed = ClosedPort::new();
            let port = closed.port;
            peer.connect_error(json!({"connectionId": "again", "host": "::1", "port": port}));
        }
        connect_with(peer, json!({"connectionId": "again"}));
    });
}

#[test]
fn two_hosts_may_use_the_same_id() {
    let server = Server::start();
    let (mut one, mut other) = (server.connect(), server.connect());
    let (same, mut first) = connect_with(&mut one, json!({"connectionId": "same"}));
    let (_, mut second) = connect_with(&mut other, json!({"connectionId": "same"}));
    std::io::Write::write_all(&mut first, b"1").unwrap();
    std::io::Write::write_all(&mut second, b"2").unwrap();
    one.await_data(&same, 1);
    other.await_data(&same, 1);
    assert_eq!((&*one.link(&same).data, &*other.link(&same).data), (&b"1"[..], &b"2"[..]));
    assert!(one.net_close(&same));
    await_hung_up(&mut first);
    other.net_write(&same, "still");
}

#[test]
fn more_than_1024_are_refused_until_one_ends() {
    over_both(|peer| {
        let pid = peer.server_pid();
        peer.ping();
        let before = procfs::settled(pid);
        let (listener, port) = listen();
        sys::set_backlog(&listener, 1024);
        let mut streams = Vec::new();
        for n in 0..1024 {
            let id = format!("c{n}");
            let params = json!({"connectionId": id, "host": "127.0.0.1", "port": port});
            peer.ok("net/connect", &params);
            streams.push(accept(&listener));
        }
        let one_more = json!({"connectionId": "more", "host": "127.0.0.1", "port": port});
        let error = peer.error("net/connect", &one_more);
        assert_eq!((error.code, error.data_code()), (-32000, "CELL_TA_EXEC_LIMIT"), "{error:?}");
        error.assert_names("1024");
        assert!(peer.net_close("c7"));
        peer.ok("net/connect", &one_more);
        for n in (0..1024).filter(|n| *n != 7) {
            assert!(peer.net_close(&format!("c{n}")));
        }
        assert!(peer.net_close("more"));
        // Neither threads nor descriptors are left.
        let now = || (procfs::threads(pid), procfs::descriptors(pid));
        let what = format!("threads and descriptors {before:?} again");
        eventually(DEADLINE, &what, || now() == before);
    });
}

/// A close waits for the host to read what was sent before; a host that does not, and closes again and
/// again, would have the server remember all of that.
#[test]
fn closes_that_wait_are_bounded_and_each_is_answered() {
    const CLOSES: usize = 9400;
    const MOST: usize = 8192 + 1024;
    over_both(|peer| {
        // A socket that looks full may take a little more, and the connection is closed at once.
        for _ in 0..12 {
            let refused = close_unread(peer, CLOSES, MOST);
            if refused > 0 {
                assert_eq!(refused, CLOSES - MOST);
                return;
            }
        }
        panic!("no close has been refused");
    });
}

/// Closes one connection so often while nothing can be told. Answers how many have been refused.
#[track_caller]
fn close_unread(peer: &mut Peer, closes: usize, most: usize) -> usize {
    let pid = peer.server_pid();
    let (connection, _stream) = connect(peer);
    let writers = peer.fill_the_transport();
    let params = json!({"connectionId": connection});
    let closes: Vec<_> = (0..closes).map(|_| peer.request_unread("net/close", &params)).collect();
    procfs::await_stalled(&[pid]);
    let mut refused = 0;
    for close in closes {
        match peer.answer(&close) {
            Ok(result) => assert!(result["closed"].is_boolean(), "{result}"),
            Err(error) => {
                assert_eq!(error.data_code(), "CELL_TA_EXEC_LIMIT");
                error.assert_names(&most.to_string());
                refused += 1;
            }
        }
    }
    for writer in &writers {
        assert!(peer.kill(writer));
    }
    refused
}

#[test]
fn connections_that_fail_leave_nothing() {
    over_both(|peer| {
        let pid = peer.server_pid();
        let closed = ClosedPort::new();
        let port = closed.port;
        let fail = |peer: &mut Peer| {
            peer.connect_error(json!({"host": "localhost", "port": port}));
            peer.connect_error(json!({"path": "/nope"}));
            let (connection, stream) = connect(peer);
            sys::reset_on_close(&stream);
            drop(stream);
            assert!(peer.await_closed(&connection).is_some());
        };
        fail(peer);
        let before = procfs::settled(pid);
        for _ in 0..50 {
            fail(peer);
        }
        let now = || (procfs::threads(pid), procfs::descriptors(pid));
        let what = format!("threads and descriptors {before:?} again");
        eventually(DEADLINE, &what, || now() == before);
    });
}

#[track_caller]
fn wrong(peer: &mut Peer, method: &str, params: &Value, member: &str) {
    let error = peer.error(method, params);
    assert_eq!(error.code, -32602, "{method} {params:.200}: {error:?}");
    assert!(error.message.starts_with(member), "{method} {params:.200}: {error:?}");
}

#[test]
fn a_wrong_member_is_named() {
    over_both(|peer| {
        let right = json!({"connectionId": "c", "host": "127.0.0.1", "port": 1});
        for (member, value) in [
            ("connectionId", json!(null)),
            ("connectionId", json!("")),
            ("connectionId", json!("x".repeat(129))),
            ("host", json!(1)),
            ("host", json!("")),
            ("host", json!(null)),
            ("host", json!("a\u{0}b")),
            ("port", json!(null)),
            ("port", json!(0)),
            ("port", json!(65_536)),
            ("port", json!("80")),
            ("timeoutMs", json!(0)),
            ("timeoutMs", json!(-1)),
            ("window", json!(0)),
            ("window", json!("big")),
            ("path", json!("/x")),
        ] {
            let mut params = right.clone();
            params[member] = value;
            wrong(peer, "net/connect", &params, member);
        }
        for path in [json!(5), json!("a\u{0}b"), json!({"base64": "?"})] {
            wrong(peer, "net/connect", &json!({"connectionId": "c", "path": path}), "path");
        }
        let (connection, _stream) = connect(peer);
        for (params, member) in [
            (json!({"connectionId": connection}), "chunk"),
            (json!({"connectionId": connection, "chunk": "not base64!"}), "chunk"),
            (json!({"connectionId": connection, "chunk": "", "eof": 1}), "eof"),
            (json!({"chunk": ""}), "connectionId"),
        ] {
            wrong(peer, "net/write", &params, member);
        }
        wrong(peer, "net/close", &json!({}), "connectionId");
        wrong(peer, "net/ack", &json!({"connectionId": connection, "bytes": -1}), "bytes");
        // A notification that is no request runs nothing, and one that is wrong is ignored.
        peer.notify("net/close", &json!({"connectionId": connection}));
        peer.notify("net/ack", &json!({"connectionId": connection}));
        peer.pump(Duration::from_millis(50));
        assert!(!peer.is_closed(&connection));
        peer.assert_quiet();
    });
}

#[test]
fn initialize_offers_it() {
    over_both(|peer| {
        let features = peer.ok("initialize", &json!({}))["features"].clone();
        assert!(features.as_array().unwrap().contains(&json!("net")), "{features}");
    });
}
