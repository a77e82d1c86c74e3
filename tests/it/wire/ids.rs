//! Ids are echoed as they were written, and are unique among the requests in flight.

use serde_json::json;

use crate::support::{Victim, over_both};

#[test]
fn an_id_is_echoed_exactly_as_it_was_written() {
    over_both(|peer| {
        let ids = [
            "1",
            "1.0",
            "0",
            "-1",
            "1.5",
            "1e2",
            "9007199254740993",
            "123456789012345678901234567890",
            r#""1""#,
            r#""""#,
            r#""ünï→""#,
            r#""\u0061\n""#,
        ];
        for id in ids {
            peer.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping","params":{{}}}}"#));
            let reply = peer.reply();
            assert_eq!(reply.id, id);
            assert_eq!(reply.outcome.unwrap(), json!({}));
        }
    });
}

#[test]
fn an_error_echoes_the_id_too() {
    over_both(|peer| {
        for id in ["7.0", r#""seven""#, "9007199254740993"] {
            peer.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"no/such"}}"#));
            let reply = peer.reply();
            assert_eq!((reply.id.as_str(), reply.outcome.unwrap_err().code), (id, -32601));
        }
    });
}

#[test]
fn an_id_that_is_neither_string_nor_number_is_refused_with_id_null() {
    over_both(|peer| {
        for id in ["null", "true", "false", "{}", "[]", "[1]", r#"{"a":1}"#] {
            peer.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping","params":{{}}}}"#));
            let reply = peer.reply();
            assert_eq!(reply.id, "null", "for id {id}");
            assert_eq!(reply.outcome.unwrap_err().code, -32600, "for id {id}");
            peer.assert_quiet();
        }
    });
}

#[test]
fn the_second_of_two_requests_with_one_id_is_refused_and_the_first_unharmed() {
    over_both(|peer| {
        let victim = Victim::new();
        let exec = |process: &str| {
            let params = json!({"processId": process, "command": victim.command()});
            json!({"jsonrpc": "2.0", "id": "twin", "method": "process/exec", "params": params})
        };
        peer.send(&exec("first").to_string());
        victim.await_alive();
        for second in [
            exec("second").to_string(),
            r#"{"jsonrpc":"2.0","id":"twin","method":"ping"}"#.to_owned(),
        ] {
            peer.send(&second);
            let refused = peer.reply();
            assert_eq!(refused.id, r#""twin""#);
            assert_eq!(refused.outcome.unwrap_err().code, -32600);
        }
        assert_eq!(victim.count(), 1, "the refused request ran nothing");
        assert!(peer.kill("first"));
        let first = peer.reply();
        assert_eq!(first.id, r#""twin""#);
        assert_eq!(first.outcome.unwrap()["killed"], true);
    });
}

#[test]
fn an_id_is_free_again_once_it_was_answered() {
    over_both(|peer| {
        for _ in 0..50 {
            peer.send(r#"{"jsonrpc":"2.0","id":5,"method":"ping","params":{}}"#);
            peer.reply().outcome.unwrap();
        }
        let exec = r#"{"jsonrpc":"2.0","id":5,"method":"process/exec",
            "params":{"processId":"a","command":"exit 3"}}"#
            .replace('\n', " ");
        for _ in 0..20 {
            peer.send(&exec);
            assert_eq!(peer.reply().outcome.unwrap()["exitCode"], 3);
        }
    });
}

#[test]
fn a_number_and_a_string_are_different_ids() {
    over_both(|peer| {
        let victim = Victim::new();
        let params = json!({"processId": "p", "command": victim.command()});
        let exec = json!({"jsonrpc": "2.0", "id": 7, "method": "process/exec", "params": params});
        peer.send(&exec.to_string());
        victim.await_alive();
        peer.send(r#"{"jsonrpc":"2.0","id":"7","method":"ping"}"#);
        let reply = peer.reply();
        assert_eq!(reply.id, r#""7""#);
        reply.outcome.unwrap();
        peer.kill("p");
        assert_eq!(peer.reply().id, "7");
    });
}

/// The id of every request in flight is kept, and ids of megabytes were memory that a host could
/// take without limit.
#[test]
fn an_id_of_1024_bytes_is_echoed_and_a_longer_one_refused_with_id_null() {
    over_both(|peer| {
        // As they stand in the message, quotes included.
        let text = |length: usize| format!("\"{}\"", "x".repeat(length - 2));
        let number = |length: usize| "7".repeat(length);
        for id in [text(1024), number(1024)] {
            peer.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping","params":{{}}}}"#));
            let reply = peer.reply();
            assert!(reply.id == id, "echoed as {:.60}…", reply.id);
            assert_eq!(reply.outcome.unwrap(), json!({}));
        }
        for id in [text(1025), number(1025), text(1 << 20)] {
            peer.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping","params":{{}}}}"#));
            let reply = peer.reply();
            assert!(reply.id == "null", "an id of {} bytes is {:.60}", id.len(), reply.id);
            assert_eq!(reply.outcome.unwrap_err().code, -32600);
            peer.assert_quiet();
        }
    });
}
