//! What is a message and what is not. After each of them the connection lives.

use serde_json::json;

use crate::support::{Peer, TempDir, over_both};

/// Sends something that is no request; expects an error with this code, id null, and no more.
#[track_caller]
fn refused(peer: &mut Peer, text: &str, code: i64) -> String {
    peer.send(text);
    let reply = peer.reply();
    assert_eq!(reply.id, "null", "for {text:.80}");
    let error = reply.outcome.expect_err("an error");
    assert_eq!(error.code, code, "for {text:.80}: {error:?}");
    peer.assert_quiet();
    error.message
}

#[test]
fn malformed_json_is_a_parse_error() {
    over_both(|peer| {
        let brackets = "[".repeat(10_000);
        let braces = r#"{"a":"#.repeat(10_000);
        let texts = [
            "{",
            "nul",
            "}",
            "{]",
            "'x'",
            r#"{"id":1,}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"} {"jsonrpc":"2.0","id":2,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":01,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"#,
            "\u{0}",
            "\u{feff}{}",
            &brackets,
            &braces,
        ];
        for text in texts {
            refused(peer, text, -32700);
        }
    });
}

#[test]
fn a_message_that_is_no_object_is_an_invalid_request() {
    over_both(|peer| {
        for text in ["1", "-0.5", "true", "null", r#""ping""#] {
            refused(peer, text, -32600);
        }
    });
}

#[test]
fn a_batch_is_refused_as_a_whole() {
    over_both(|peer| {
        let batches = [
            "[]",
            "[1]",
            " [ ]",
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}]"#,
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]"#,
        ];
        for batch in batches {
            let message = refused(peer, batch, -32600);
            assert!(message.to_lowercase().contains("batch"), "{message}");
        }
    });
}

#[test]
fn deep_nesting_is_answered_and_does_not_end_the_server() {
    over_both(|peer| {
        for depth in [100, 1_000, 10_000, 100_000] {
            let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            peer.send(&nested);
            let error = peer.reply().outcome.unwrap_err();
            assert!([-32600, -32700].contains(&error.code), "{error:?}");
            let ping = r#"{"jsonrpc":"2.0","id":3,"method":"ping","params":{"x":NESTED}}"#;
            peer.send(&ping.replace("NESTED", &nested));
            // Either is right: the member is ignored, or the parser has a limit of depth.
            if let Err(error) = peer.reply().outcome {
                assert_eq!(error.code, -32700, "{error:?}");
            }
            peer.assert_quiet();
        }
    });
}

#[test]
fn a_missing_version_is_accepted_and_another_one_refused() {
    over_both(|peer| {
        peer.send(r#"{"id":"bare","method":"ping","params":{}}"#);
        let reply = peer.reply();
        assert_eq!((reply.id.as_str(), reply.outcome.unwrap()), (r#""bare""#, json!({})));
        for version in [r#""1.0""#, r#""2""#, r#""""#, "2.0", "2", "true", "{}"] {
            peer.send(&format!(r#"{{"jsonrpc":{version},"id":4,"method":"ping"}}"#));
            let reply = peer.reply();
            assert_eq!(reply.outcome.unwrap_err().code, -32600, "for version {version}");
            peer.assert_quiet();
        }
    });
}

#[test]
fn the_order_of_members_and_white_space_do_not_matter() {
    over_both(|peer| {
        peer.send(
            " \t{ \"params\" : { } , \"method\":\"ping\",\t\"id\" : 5 , \"jsonrpc\":\"2.0\" } ",
        );
        let reply = peer.reply();
        assert_eq!((reply.id.as_str(), reply.outcome.unwrap()), ("5", json!({})));
        peer.send(r#"{"jsonrpc":"2.0","\u0069d":6,"method":"p\u0069ng","more":[1]}"#);
        let reply = peer.reply();
        assert_eq!((reply.id.as_str(), reply.outcome.unwrap()), ("6", json!({})));
    });
}

#[test]
fn a_request_without_a_proper_method_is_invalid() {
    over_both(|peer| {
        for method in ["5", "null", "{}", "[]", "true"] {
            peer.send(&format!(r#"{{"jsonrpc":"2.0","id":8,"method":{method}}}"#));
            let reply = peer.reply();
            assert_eq!(reply.outcome.unwrap_err().code, -32600, "for method {method}");
            peer.assert_quiet();
        }
        peer.send(r#"{"jsonrpc":"2.0","id":8}"#);
        assert_eq!(peer.reply().outcome.unwrap_err().code, -32600);
        refused(peer, "{}", -32600);
    });
}

#[test]
fn an_unknown_method_is_named() {
    over_both(|peer| {
        for method in ["", "Ping", "process", "process/", "process/output", "fs/nope", "rpc.x"] {
            let error = peer.error(method, &json!({}));
            assert_eq!(error.code, -32601, "{method}: {error:?}");
            error.assert_names(method);
        }
    });
}

#[test]
fn an_unknown_notification_is_met_by_silence() {
    over_both(|peer| {
        for method in ["initialized", "nope", "process/output", "$/cancelRequest"] {
            peer.notify(method, &json!({"processId": "x", "seq": 1, "chunk": "aGk="}));
        }
        peer.send(r#"{"jsonrpc":"2.0","method":"nope","params":7}"#);
        peer.send(r#"{"method":"nope"}"#);
        peer.assert_quiet();
    });
}

#[test]
fn a_request_without_an_id_runs_nothing() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.join("ran");
        let touch = format!("touch {}", file.display());
        peer.notify("process/exec", &json!({"processId": "n", "command": touch}));
        let args = [file.to_str().unwrap()];
        peer.notify("process/spawn", &json!({"processId": "m", "command": "touch", "args": args}));
        peer.notify("ping", &json!({}));
        peer.notify("initialize", &json!({}));
        peer.notify("process/exec", &json!({"wrong": true}));
        peer.assert_quiet();
        // Both ids are free, so neither has been started; and nothing is late.
        for process in ["n", "m"] {
            let done = peer.exec(json!({"processId": process, "command": "sleep 0.2"}));
            done.assert_success();
        }
        assert!(!file.exists(), "a notification has run its command");
    });
}

#[test]
fn a_kill_without_an_id_kills_nothing() {
    over_both(|peer| {
        let running = peer.start_exec(json!({"command": "sleep 0.3; echo whole"}));
        peer.notify("process/kill", &json!({"processId": running.process}));
        assert_eq!(peer.finish(&running).text(), "whole\n");
    });
}

#[test]
fn a_response_is_ignored() {
    over_both(|peer| {
        peer.send(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        peer.send(r#"{"jsonrpc":"2.0","id":"x","result":null}"#);
        peer.send(r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"no"}}"#);
        peer.send(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#);
        peer.assert_quiet();
    });
}

#[test]
fn a_message_may_be_as_long_as_the_limit_and_no_longer() {
    use crate::support::{Setup, over_both_with};
    const LIMIT: usize = 65_536;
    let setup = || Setup::new().args(["--max-message-bytes", &LIMIT.to_string()]);
    over_both_with(setup, |peer| {
        let head = r#"{"jsonrpc":"2.0","id":9,"method":"ping","params":{"x":""#;
        let tail = r#""}}"#;
        let padding = "a".repeat(LIMIT - head.len() - tail.len());
        peer.send(&format!("{head}{padding}{tail}"));
        assert_eq!(peer.reply().id, "9");
        // The server may close before it has read all of it.
        let _ = peer.try_send(&format!("{head}{padding}b{tail}"));
        if peer.is_stdio() {
            let reply = peer.reply();
            assert_eq!((reply.id.as_str(), reply.outcome.unwrap_err().code), ("null", -32600));
            peer.assert_quiet();
        } else {
            assert_eq!(peer.closed(crate::support::DEADLINE).code, Some(1009));
        }
    });
}

/// An error quotes what came. Quoted whole, a megabyte came back as one, or as six once escaped,
/// and lay in the server's memory until the host read it.
#[test]
fn what_an_error_quotes_is_cut() {
    over_both(|peer| {
        let million = 1 << 20;
        for text in ["x".repeat(million), "\u{7f}".repeat(million), "ü→".repeat(million / 5)] {
            for (method, params, code) in [
                (text.as_str(), json!({}), -32601),
                ("process/kill", json!({"processId": "a", "graceMs": text}), -32602),
                ("process/kill", json!({"processId": "a", "signal": text}), -32602),
            ] {
                let error = peer.error(method, &params);
                assert_eq!(error.code, code, "{:.200}", error.message);
                let length = error.message.len();
                assert!(length <= 2100, "{length} bytes: {:.200}…", error.message);
            }
        }
    });
}
