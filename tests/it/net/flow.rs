//! `window` and `net/ack`, and a host that does not read.

use std::io::Write as _;
use std::net::Shutdown;
use std::time::Duration;

use serde_json::json;

use super::{connect, connect_with, pattern};
use crate::support::{DEADLINE, Peer, eventually, over_both, procfs};

#[track_caller]
fn await_held_back_at(peer: &mut Peer, connection: &str, bytes: usize) {
    peer.await_data(connection, bytes);
    peer.pump(Duration::from_millis(200));
    assert_eq!(peer.net_received(connection), bytes, "more than the window admits");
}

#[test]
fn no_more_than_the_window_is_sent_until_it_is_acknowledged() {
    over_both(|peer| {
        let (connection, mut stream) = connect_with(peer, json!({"window": 1000}));
        stream.write_all(&pattern(10_000)).unwrap();
        await_held_back_at(peer, &connection, 1000);
        peer.net_ack(&connection, 1);
        await_held_back_at(peer, &connection, 1001);
        // As a request it does the same.
        let ack = json!({"connectionId": connection, "bytes": 999});
        assert_eq!(peer.ok("net/ack", &ack), json!({}));
        await_held_back_at(peer, &connection, 2000);
        // More than is owed is ignored.
        peer.net_ack(&connection, u64::MAX);
        await_held_back_at(peer, &connection, 3000);
        peer.link(&connection).acknowledge = true;
        peer.net_ack(&connection, 1000);
        peer.await_data(&connection, 10_000);
        assert_eq!(peer.link(&connection).data, pattern(10_000));
    });
}

#[test]
fn the_end_of_data_is_seen_with_a_closed_window() {
    over_both(|peer| {
        for _ in 0..20 {
            let (connection, mut stream) = connect_with(peer, json!({"window": 1000}));
            stream.write_all(&pattern(1000)).unwrap();
            drop(stream);
            peer.await_end_of_data(&connection);
            assert_eq!(peer.net_received(&connection), 1000);
            peer.net_eof(&connection);
            assert!(peer.await_closed(&connection).is_none());
        }
    });
}

#[test]
fn a_natural_end_waits_for_the_acknowledgements() {
    over_both(|peer| {
        let (connection, mut stream) = connect_with(peer, json!({"window": 1000}));
        stream.write_all(&pattern(2500)).unwrap();
        drop(stream);
        peer.net_eof(&connection);
        await_held_back_at(peer, &connection, 1000);
        assert!(!peer.is_closed(&connection));
        peer.link(&connection).acknowledge = true;
        peer.net_ack(&connection, 1000);
        assert!(peer.await_closed(&connection).is_none());
        assert_eq!(peer.link(&connection).data, pattern(2500));
    });
}

#[test]
fn a_close_does_not_wait_for_the_window() {
    over_both(|peer| {
        let (connection, mut stream) = connect_with(peer, json!({"window": 1000}));
        stream.write_all(&pattern(2500)).unwrap();
        await_held_back_at(peer, &connection, 1000);
        assert!(peer.net_close(&connection));
        assert!(peer.await_closed(&connection).is_none());
        assert_eq!(peer.net_received(&connection), 1000);
        super::await_hung_up(&mut stream);
    });
}

/// A hang-up is told by every poll: one that nothing can be done about must not be waited for.
#[test]
fn a_closed_window_and_a_peer_that_has_gone_cost_no_processor_time() {
    over_both(|peer| {
        let pid = peer.server_pid();
        let mut open = Vec::new();
        for reset in [true, false] {
            let (connection, mut stream) = connect_with(peer, json!({"window": 1000}));
            stream.write_all(&pattern(5000)).unwrap();
            await_held_back_at(peer, &connection, 1000);
            if reset {
                crate::support::sys::reset_on_close(&stream);
            }
            drop(stream);
            open.push(connection);
        }
        // Ended, and the host's half still open.
        let (connection, stream) = connect(peer);
        stream.shutdown(Shutdown::Both).unwrap();
        peer.await_end_of_data(&connection);
        let busy = procfs::busy_within(pid, Duration::from_millis(500));
        assert!(busy < Duration::from_millis(100), "{busy:?} of processor time in 500 ms");
        for connection in open {
            assert!(peer.net_close(&connection));
        }
    });
}

#[test]
fn a_closed_window_of_one_connection_is_open_for_another() {
    over_both(|peer| {
        let (held, mut stream) = connect_with(peer, json!({"window": 1000}));
        stream.write_all(&pattern(5000)).unwrap();
        await_held_back_at(peer, &held, 1000);
        let (free, mut other) = connect_with(peer, json!({"window": 1000}));
        other.write_all(&pattern(900)).unwrap();
        peer.await_data(&free, 900);
        assert_eq!(peer.sh("echo hi").text(), "hi\n");
        peer.net_write(&held, "still");
    });
}

#[test]
fn a_fast_sender_to_a_host_that_does_not_read_costs_no_memory() {
    over_both(|peer| {
        let pid = peer.server_pid();
        let (connection, mut stream) = connect(peer);
        peer.link(&connection).discard = true;
        let before = procfs::resident_kib(pid);
        stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        let part = pattern(1 << 20);
        let mut sent = 0;
        while let Ok(count) = stream.write(&part) {
            sent += count;
            assert!(sent < 256 << 20, "nothing holds the sender up");
        }
        let now = procfs::peak_kib(pid, Duration::from_millis(300));
        assert!(now < before + 16 * 1024, "from {before} to {now} KiB");
        // And nothing of it delays an answer, or the end of the connection.
        let ping = peer.request("ping", &json!({}));
        let close = peer.request("net/close", &json!({"connectionId": connection}));
        let hung_up = std::thread::Builder::new().name("far end".into());
        let hung_up = hung_up.spawn(move || super::await_hung_up(&mut stream)).unwrap();
        eventually(DEADLINE, "the far end is closed", || hung_up.is_finished());
        peer.answer(&ping).unwrap();
        assert_eq!(peer.answer(&close).unwrap(), json!({"closed": true}));
        assert!(peer.await_closed(&connection).is_none());
    });
}
