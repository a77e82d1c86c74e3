//! `process/write`: order, the end of stdin, and what waits for a child that does not read.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Peer, TempDir, Victim, base64, over_both};

const MIB: usize = 1 << 20;

fn chunk(process: &str, bytes: impl AsRef<[u8]>) -> Value {
    json!({"processId": process, "chunk": base64(bytes)})
}

fn eof(process: &str) -> Value {
    json!({"processId": process, "eof": true})
}

#[test]
fn what_is_written_is_read() {
    over_both(|peer| {
        let cat = peer.spawn(json!({"command": "cat"}));
        assert_eq!(peer.ok("process/write", &chunk(&cat, "hello\n")), json!({}));
        peer.await_stdout(&cat, "hello\n");
        assert_eq!(peer.ok("process/write", &chunk(&cat, "")), json!({}));
        peer.ok("process/write", &chunk(&cat, [0, 255, 10]));
        assert_eq!(peer.ok("process/write", &eof(&cat)), json!({}));
        let done = peer.exit(&cat);
        assert_eq!(done.stdout, b"hello\n\0\xff\n");
        done.assert_success();
    });
}

#[test]
fn a_last_chunk_may_come_with_eof() {
    over_both(|peer| {
        let cat = peer.spawn(json!({"command": "cat"}));
        let mut last = chunk(&cat, "all");
        last["eof"] = json!(true);
        peer.ok("process/write", &last);
        assert_eq!(peer.exit(&cat).text(), "all");
        let cat = peer.spawn(json!({"command": "cat"}));
        let mut more = chunk(&cat, "no ");
        more["eof"] = json!(false);
        peer.ok("process/write", &more);
        peer.ok("process/write", &json!({"processId": cat, "chunk": null, "eof": true}));
        assert_eq!(peer.exit(&cat).text(), "no ");
    });
}

#[test]
fn writes_take_effect_in_the_order_sent() {
    over_both(|peer| {
        let cat = peer.spawn(json!({"command": "cat"}));
        let ids: Vec<_> = (0..500)
            .map(|n| peer.request("process/write", &chunk(&cat, format!("{n}\n"))))
            .collect();
        let end = peer.request("process/write", &eof(&cat));
        for id in ids.iter().chain([&end]) {
            assert_eq!(peer.answer(id).unwrap(), json!({}));
        }
        let expected: String = (0..500).map(|n| format!("{n}\n")).collect();
        assert_eq!(peer.exit(&cat).text(), expected);
    });
}

#[test]
fn a_write_behind_the_spawn_need_not_wait_for_its_answer() {
    over_both(|peer| {
        let spawn = json!({"processId": "early", "command": "cat"});
        let ids = [
            peer.request("process/spawn", &spawn),
            peer.request("process/write", &chunk("early", "bird")),
            peer.request("process/write", &eof("early")),
        ];
        for id in &ids {
            peer.answer(id).unwrap();
        }
        assert_eq!(peer.exit("early").text(), "bird");
    });
}

#[test]
fn megabytes_pass_through_cat() {
    over_both(|peer| {
        let cat = peer.spawn(json!({"command": "cat"}));
        let bytes: Vec<u8> = (0..251).cycle().take(4 * MIB).collect();
        let ids: Vec<_> = bytes
            .chunks(300_000)
            .map(|part| peer.request("process/write", &chunk(&cat, part)))
            .collect();
        for id in &ids {
            peer.answer(id).unwrap();
        }
        peer.ok("process/write", &eof(&cat));
        assert!(peer.exit(&cat).stdout == bytes, "the bytes differ");
    });
}

#[test]
fn a_write_after_eof_is_epipe_and_after_the_end_unknown() {
    over_both(|peer| {
        let victim = Victim::new();
        let script = format!("cat; exec {}", victim.command());
        let process = peer.spawn(json!({"command": "sh", "args": ["-c", script]}));
        peer.ok("process/write", &eof(&process));
        for params in [chunk(&process, "late"), eof(&process)] {
            let error = peer.error("process/write", &params);
            assert_eq!((error.code, error.data_code()), (-32000, "EPIPE"), "{error:?}");
        }
        assert!(peer.kill(&process));
        peer.exit(&process);
        let error = peer.error("process/write", &chunk(&process, "later"));
        assert_eq!(error.data_code(), "CELL_TA_EXEC_UNKNOWN_PROCESS", "{error:?}");
        error.assert_names(&process);
    });
}

#[test]
fn a_child_that_has_closed_its_stdin_is_epipe() {
    over_both(|peer| {
        let victim = Victim::new();
        let script = format!("exec 0</dev/null; echo closed; {}", victim.command());
        let process = peer.spawn(json!({"command": "sh", "args": ["-c", script]}));
        peer.await_stdout(&process, "closed");
        let error = peer.error("process/write", &chunk(&process, "x"));
        assert_eq!((error.code, error.data_code()), (-32000, "EPIPE"), "{error:?}");
        peer.kill(&process);
    });
}

#[test]
fn a_write_to_an_exec_is_epipe() {
    over_both(|peer| {
        let victim = Victim::new();
        for stdin in [json!(null), json!(base64("x"))] {
            let running = peer.start_exec(json!({"command": victim.command(), "stdin": stdin}));
            victim.await_alive();
            let error = peer.error("process/write", &chunk(&running.process, "x"));
            assert_eq!((error.code, error.data_code()), (-32000, "EPIPE"), "{error:?}");
            peer.kill(&running.process);
            peer.finish(&running);
        }
    });
}

#[test]
fn an_unknown_process_is_told_by_its_own_code() {
    over_both(|peer| {
        for (method, params) in [
            ("process/write", chunk("nobody", "x")),
            ("process/resize", json!({"processId": "nobody", "cols": 80, "rows": 24})),
        ] {
            let error = peer.error(method, &params);
            let found = (error.code, error.data_code());
            assert_eq!(found, (-32000, "CELL_TA_EXEC_UNKNOWN_PROCESS"), "{error:?}");
            error.assert_names("nobody");
        }
    });
}

/// Sends this many MiB in chunks of one MiB; returns the requests.
fn write_mib(peer: &mut Peer, process: &str, count: usize) -> Vec<String> {
    let params = chunk(process, vec![b'x'; MIB]);
    (0..count).map(|_| peer.request("process/write", &params)).collect()
}

fn is_stdin_full(outcome: Result<Value, crate::support::RpcError>) -> bool {
    let Err(error) = outcome else { return false };
    assert_eq!((error.code, error.data_code()), (-32000, "CELL_TA_EXEC_STDIN_FULL"), "{error:?}");
    true
}

#[test]
fn more_than_16_mib_waiting_is_refused_and_what_was_taken_arrives() {
    let dir = TempDir::new();
    over_both(|peer| {
        let go = dir.join(if peer.is_stdio() { "stdio" } else { "websocket" });
        let script = format!("while [ ! -e {} ]; do sleep 0.05; done; wc -c", go.display());
        let process = peer.spawn(json!({"command": "sh", "args": ["-c", script]}));
        let ids = write_mib(peer, &process, 24);
        // The last is refused at once; by then all have been looked at.
        assert!(is_stdin_full(peer.answer(ids.last().unwrap())), "24 MiB were taken");
        let refused = ids[..23].iter().filter(|id| peer.has_answer(id)).count() + 1;
        assert!((7..=8).contains(&refused), "{refused} of 24 MiB refused");
        std::fs::write(&go, "").unwrap();
        let outcomes: Vec<_> = ids[..23].iter().map(|id| peer.answer(id)).collect();
        let full = outcomes.into_iter().filter(|outcome| is_stdin_full(outcome.clone())).count();
        assert_eq!(full + 1, refused);
        peer.ok("process/write", &eof(&process));
        let taken = (24 - refused) * MIB;
        assert_eq!(peer.exit(&process).text().trim(), taken.to_string());
    });
}

#[test]
fn one_chunk_of_more_than_16_mib_is_refused_whole() {
    over_both(|peer| {
        let cat = peer.spawn(json!({"command": "cat"}));
        let outcome = peer.call("process/write", &chunk(&cat, vec![b'x'; 17 * MIB]));
        assert!(is_stdin_full(outcome), "17 MiB at once were taken");
        peer.ok("process/write", &chunk(&cat, "small"));
        peer.ok("process/write", &eof(&cat));
        assert_eq!(peer.exit(&cat).text(), "small");
    });
}

#[test]
fn a_child_that_does_not_read_delays_nobody() {
    over_both(|peer| {
        let victim = Victim::new();
        let process = victim.spawn(peer);
        let ids = write_mib(peer, &process, 4);
        let late = peer.request("process/write", &eof(&process));
        peer.ping();
        let done = peer.sh("echo other");
        assert_eq!(done.text(), "other\n");
        assert!(done.elapsed < Duration::from_secs(2), "{:?}", done.elapsed);
        assert!(peer.kill(&process), "the kill does not wait for the writes");
        assert_eq!(peer.exit(&process).signal(), Some("SIGKILL"));
        for id in ids.iter().chain([&late]) {
            let error = peer.answer(id).unwrap_err();
            assert_eq!(error.data_code(), "EPIPE", "{error:?}");
        }
    });
}

#[test]
fn a_write_is_answered_when_the_bytes_are_in_the_pipe_and_not_before() {
    let dir = TempDir::new();
    over_both(|peer| {
        let go = dir.join(if peer.is_stdio() { "stdio" } else { "websocket" });
        let script = format!("while [ ! -e {} ]; do sleep 0.05; done; wc -c", go.display());
        let process = peer.spawn(json!({"command": "sh", "args": ["-c", script]}));
        peer.ok("process/write", &chunk(&process, "small"));
        let big = peer.request("process/write", &chunk(&process, vec![b'x'; MIB]));
        peer.pump(Duration::from_millis(200));
        assert!(!peer.has_answer(&big), "a pipe does not hold a MiB");
        std::fs::write(&go, "").unwrap();
        peer.answer(&big).unwrap();
        peer.ok("process/write", &eof(&process));
        assert_eq!(peer.exit(&process).text().trim(), (5 + MIB).to_string());
    });
}
