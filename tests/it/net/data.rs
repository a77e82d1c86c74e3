//! Bytes in both directions, and how each of them ends.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::{accept, connect, connect_with, listen, pattern};
use crate::support::{over_both, sys};

const MIB: usize = 1 << 20;

#[test]
fn bytes_pass_as_they_are() {
    over_both(|peer| {
        let (connection, mut stream) = connect(peer);
        let all: Vec<u8> = (0..=255).collect();
        peer.net_write(&connection, &all);
        let mut there = vec![0; 256];
        stream.read_exact(&mut there).unwrap();
        assert_eq!(there, all);
        stream.write_all(&all).unwrap();
        peer.await_data(&connection, 256);
        assert_eq!(peer.link(&connection).data, all);
        assert!(peer.net_close(&connection));
    });
}

#[test]
fn a_peer_that_sends_after_our_half_close_is_heard() {
    over_both(|peer| {
        let (connection, mut stream) = connect(peer);
        peer.net_write(&connection, "question");
        peer.net_eof(&connection);
        let mut question = String::new();
        stream.read_to_string(&mut question).unwrap();
        assert_eq!(question, "question");
        stream.write_all(&pattern(MIB)).unwrap();
        peer.await_data(&connection, MIB);
        assert!(!peer.link(&connection).ended);
        drop(stream);
        assert!(peer.await_closed(&connection).is_none());
        let link = peer.link(&connection);
        assert!(link.ended);
        assert!(link.data == pattern(MIB), "the bytes differ");
    });
}

#[test]
fn we_may_send_after_the_peers_half_close() {
    over_both(|peer| {
        let (connection, mut stream) = connect(peer);
        stream.write_all(b"bye").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        peer.await_end_of_data(&connection);
        assert_eq!(peer.link(&connection).data, b"bye");
        peer.pump(Duration::from_millis(100));
        assert!(!peer.is_closed(&connection));
        peer.net_write(&connection, pattern(MIB));
        peer.net_eof(&connection);
        let mut there = Vec::new();
        stream.read_to_end(&mut there).unwrap();
        assert!(there == pattern(MIB), "the bytes differ");
        assert!(peer.await_closed(&connection).is_none());
    });
}

#[test]
fn the_last_bytes_and_the_end_may_be_one_write() {
    over_both(|peer| {
        let (connection, mut stream) = connect(peer);
        let chunk = crate::support::base64("all");
        let params = json!({"connectionId": connection, "chunk": chunk, "eof": true});
        assert_eq!(peer.ok("net/write", &params), json!({}));
        let mut there = String::new();
        stream.read_to_string(&mut there).unwrap();
        assert_eq!(there, "all");
        drop(stream);
        assert!(peer.await_closed(&connection).is_none());
    });
}

#[test]
fn a_peer_that_sends_and_closes_at_once_is_heard_whole() {
    over_both(|peer| {
        for length in [0, 1, 65_536, 65_537, 300_000] {
            let (listener, port) = listen();
            let (connect, connection) =
                peer.begin_connect(json!({"host": "127.0.0.1", "port": port}));
            let mut stream = accept(&listener);
            stream.write_all(&pattern(length)).unwrap();
            drop(stream);
            peer.answer(&connect).unwrap();
            peer.await_end_of_data(&connection);
            assert!(peer.link(&connection).data == pattern(length), "the bytes differ");
            // Its own half is still open.
            peer.net_eof(&connection);
            assert!(peer.await_closed(&connection).is_none());
        }
    });
}

#[track_caller]
fn reset(stream: TcpStream) {
    sys::reset_on_close(&stream);
    drop(stream);
}

#[test]
fn a_reset_is_told_as_a_failure() {
    over_both(|peer| {
        let (connection, stream) = connect(peer);
        reset(stream);
        let error = peer.await_closed(&connection).expect("an error");
        assert_eq!((error.code, error.data_code()), (-32000, "ECONNRESET"), "{error:?}");
        error.assert_names(&connection);
        error.assert_names("reset");
        assert!(!peer.link(&connection).ended, "a reset is no end of data");
        let error = peer.net_write_error(&connection);
        assert_eq!(error.data_code(), "CELL_TA_EXEC_UNKNOWN_CONNECTION", "{error:?}");
    });
}

#[test]
fn data_before_a_reset_arrive() {
    over_both(|peer| {
        let (connection, mut stream) = connect_with(peer, json!({"window": 1000}));
        stream.write_all(&pattern(5000)).unwrap();
        peer.await_data(&connection, 1000);
        reset(stream);
        peer.pump(Duration::from_millis(100));
        assert!(!peer.is_closed(&connection), "there are data that have not been admitted");
        peer.link(&connection).acknowledge = true;
        peer.net_ack(&connection, 1000);
        let error = peer.await_closed(&connection).expect("an error");
        assert_eq!(error.data_code(), "ECONNRESET", "{error:?}");
        assert_eq!(peer.link(&connection).data, pattern(5000));
    });
}

/// A socket tells its failure once: to the write here, and then reads as if it had ended.
#[test]
fn a_reset_that_a_write_hears_of_is_not_lost() {
    over_both(|peer| {
        let (connection, mut stream) = connect_with(peer, json!({"window": 1000}));
        stream.write_all(&pattern(1500)).unwrap();
        peer.await_data(&connection, 1000);
        reset(stream);
        peer.pump(Duration::from_millis(100));
        let error = peer.net_write_error(&connection);
        assert_eq!(error.data_code(), "ECONNRESET", "{error:?}");
        let again = peer.net_write_error(&connection);
        assert_eq!(again.data_code(), "ECONNRESET", "{again:?}");
        assert!(!peer.is_closed(&connection));
        peer.net_ack(&connection, 1000);
        let error = peer.await_closed(&connection).expect("an error");
        assert_eq!(error.data_code(), "ECONNRESET", "{error:?}");
        assert_eq!(peer.link(&connection).data, pattern(1500));
        assert!(!peer.link(&connection).ended, "a reset is no end of data");
    });
}

#[test]
fn a_reset_after_the_end_of_data_is_told() {
    over_both(|peer| {
        let (connection, stream) = connect(peer);
        stream.shutdown(Shutdown::Write).unwrap();
        peer.await_end_of_data(&connection);
        reset(stream);
        assert!(peer.await_closed(&connection).is_some(), "an error");
    });
}

#[test]
fn writing_to_a_peer_that_has_gone_fails_the_connection() {
    over_both(|peer| {
        let (connection, stream) = connect(peer);
        drop(stream);
        peer.await_end_of_data(&connection);
        // The first meets a socket that nobody has, which answers with a reset.
        peer.begin_net_write(&connection, "x");
        let error = peer.await_closed(&connection).expect("an error");
        assert!(["EPIPE", "ECONNRESET"].contains(&error.data_code()), "{error:?}");
    });
}

#[test]
fn sixty_four_mib_pass_both_ways_at_once() {
    const SIZE: usize = 64 * MIB;
    const PART: usize = 251 * 1024;
    over_both(|peer| {
        let (connection, stream) = connect_with(peer, json!({"window": MIB}));
        peer.link(&connection).acknowledge = true;
        let mut reader = stream.try_clone().unwrap();
        let read = move || {
            let mut all = Vec::with_capacity(SIZE);
            reader.read_to_end(&mut all).map(|_| all)
        };
        let mut writer = stream;
        let write = move || {
            let part = pattern(PART);
            let mut left = SIZE;
            while left > 0 {
                let count = left.min(PART);
                writer.write_all(&part[..count]).unwrap();
                left -= count;
            }
            writer.shutdown(Shutdown::Write).unwrap();
        };
        let spawn = || thread::Builder::new();
        let reads = spawn().name("far reader".into()).spawn(read).unwrap();
        let writes = spawn().name("far writer".into()).spawn(write).unwrap();
        let part = pattern(PART);
        let mut ids = std::collections::VecDeque::new();
        let mut left = SIZE;
        while left > 0 {
            let count = left.min(PART);
            ids.push_back(peer.begin_net_write(&connection, &part[..count]));
            left -= count;
            if ids.len() > 8 {
                let id = ids.pop_front().unwrap();
                assert_eq!(peer.answer(&id).unwrap(), json!({}));
            }
        }
        for id in ids {
            peer.answer(&id).unwrap();
        }
        peer.net_eof(&connection);
        peer.await_end_of_data_within(&connection, Duration::from_secs(60));
        assert!(peer.await_closed(&connection).is_none());
        writes.join().unwrap();
        let there = reads.join().unwrap().unwrap();
        let expected = |all: &[u8]| {
            all.len() == SIZE && all.chunks(PART).all(|chunk| *chunk == part[..chunk.len()])
        };
        assert!(expected(&there), "{} bytes arrived there", there.len());
        let here = &peer.link(&connection).data;
        assert!(expected(here), "{} bytes arrived here", here.len());
    });
}
