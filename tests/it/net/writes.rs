//! `net/write` and `net/close`.

use std::io::Read as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{await_hung_up, connect, pattern};
use crate::support::{Peer, RpcError, Victim, over_both};

const MIB: usize = 1 << 20;

#[test]
fn writes_are_made_in_the_order_sent() {
    over_both(|peer| {
        let (connection, mut stream) = connect(peer);
        let ids: Vec<_> =
            (0..500).map(|n| peer.begin_net_write(&connection, format!("{n:05}"))).collect();
        let mut there = vec![0; 2500];
        stream.read_exact(&mut there).unwrap();
        let expected: String = (0..500).map(|n| format!("{n:05}")).collect();
        assert_eq!(String::from_utf8(there).unwrap(), expected);
        for id in &ids {
            assert_eq!(peer.answer(id).unwrap(), json!({}));
        }
        peer.net_write(&connection, "");
    });
}

#[test]
fn a_write_after_eof_is_epipe() {
    over_both(|peer| {
        let (connection, stream) = connect(peer);
        peer.net_eof(&connection);
        let error = peer.net_write_error(&connection);
        assert_eq!((error.code, error.data_code()), (-32000, "EPIPE"), "{error:?}");
        error.assert_names(&connection);
        drop(stream);
        assert!(peer.await_closed(&connection).is_none());
    });
}

#[test]
fn an_unknown_connection_is_told_by_its_own_code() {
    over_both(|peer| {
        let error = peer.net_write_error("nobody");
        let found = (error.code, error.data_code());
        assert_eq!(found, (-32000, "CELL_TA_EXEC_UNKNOWN_CONNECTION"), "{error:?}");
        error.assert_names("nobody");
        assert!(!peer.net_close("nobody"));
        peer.net_ack("nobody", 5);
        peer.assert_quiet();
    });
}

/// Fills all between the host and a far end that does not read.
#[track_caller]
fn write_mib(peer: &mut Peer, connection: &str, count: usize) -> Vec<String> {
    (0..count).map(|_| peer.begin_net_write(connection, pattern(MIB))).collect()
}

fn is_full(outcome: Result<Value, RpcError>) -> bool {
    let Err(error) = outcome else { return false };
    assert_eq!((error.code, error.data_code()), (-32000, "CELL_TA_EXEC_STDIN_FULL"), "{error:?}");
    true
}

fn read_mib(stream: &mut TcpStream, count: usize) {
    let mut part = vec![0; MIB];
    for _ in 0..count {
        stream.read_exact(&mut part).unwrap();
        assert!(part == pattern(MIB), "the bytes differ");
    }
}

#[test]
fn more_than_16_mib_waiting_is_refused_and_what_was_taken_arrives() {
    over_both(|peer| {
        let (connection, mut stream) = connect(peer);
        let ids = write_mib(peer, &connection, 40);
        // The last is refused at once; by then all have been looked at.
        assert!(is_full(peer.answer(ids.last().unwrap())), "40 MiB were taken");
        // What is stuck delays nothing else.
        let since = Instant::now();
        peer.ping();
        let victim = Victim::new();
        let process = victim.spawn(peer);
        assert!(peer.kill(&process));
        peer.exit(&process);
        assert_eq!(peer.sh("echo hi").text(), "hi\n");
        assert!(since.elapsed() < Duration::from_secs(3), "{:?}", since.elapsed());
        let reads = std::thread::Builder::new().name("far end".into());
        let reads = reads
            .spawn(move || {
                let mut all = Vec::new();
                stream.read_to_end(&mut all).map(|_| all)
            })
            .unwrap();
        let outcomes: Vec<_> = ids[..39].iter().map(|id| peer.answer(id)).collect();
        let taken = outcomes.into_iter().filter(|outcome| !is_full(outcome.clone())).count();
        assert!(taken >= 16, "{taken} MiB were taken");
        peer.net_eof(&connection);
        let there = reads.join().unwrap().unwrap();
        assert_eq!(there.len(), taken * MIB);
        assert!(there.chunks(MIB).all(|part| part == pattern(MIB)), "the bytes differ");
        assert!(peer.await_closed(&connection).is_none());
    });
}

#[test]
fn a_close_gives_up_the_writes_that_wait_and_frees_the_id() {
    over_both(|peer| {
        let (connection, mut stream) = connect(peer);
        let mut ids = write_mib(peer, &connection, 14);
        let close = peer.request("net/close", &json!({"connectionId": connection}));
        // Behind the close.
        let late = peer.begin_net_write(&connection, "late");
        assert_eq!(peer.answer(&close).unwrap(), json!({"closed": true}));
        // By then all has been told.
        assert!(peer.is_closed(&connection));
        assert!(peer.await_closed(&connection).is_none());
        let aborted = ids.split_off(ids.len() - 4);
        for id in aborted {
            let error = peer.answer(&id).unwrap_err();
            assert_eq!((error.code, error.data_code()), (-32000, "ECONNABORTED"), "{error:?}");
            error.assert_names(&connection);
        }
        let error = peer.answer(&late).unwrap_err();
        let codes = ["ECONNABORTED", "CELL_TA_EXEC_UNKNOWN_CONNECTION"];
        assert!(codes.contains(&error.data_code()), "{error:?}");
        assert!(!peer.net_close(&connection));
        await_hung_up(&mut stream);
        let (listener, port) = super::listen();
        peer.connect_to(json!({"connectionId": connection, "host": "127.0.0.1", "port": port}));
        super::accept(&listener);
    });
}

#[test]
fn what_was_answered_before_a_close_arrives() {
    over_both(|peer| {
        let (connection, mut stream) = connect(peer);
        let writes: Vec<_> =
            (0..20).map(|_| peer.begin_net_write(&connection, pattern(1000))).collect();
        // In the order sent: the close comes after the writes.
        assert!(peer.net_close(&connection));
        for id in writes {
            peer.answer(&id).unwrap();
        }
        let mut there = Vec::new();
        stream.read_to_end(&mut there).unwrap();
        assert_eq!(there.len(), 20_000);
    });
}

#[test]
fn too_many_writes_waiting_are_refused_too() {
    over_both(|peer| {
        let (connection, mut stream) = connect(peer);
        let full = write_mib(peer, &connection, 14);
        let small: Vec<_> = (0..1100).map(|_| peer.begin_net_write(&connection, "x")).collect();
        assert!(is_full(peer.answer(small.last().unwrap())), "1100 writes were taken");
        read_mib(&mut stream, 14);
        for id in &full {
            peer.answer(id).unwrap();
        }
        let refused = small[..1099].iter().filter(|id| is_full(peer.answer(id))).count();
        assert!(refused < 100, "{refused} refused");
    });
}
