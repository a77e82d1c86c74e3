//! Params: a wrong one is -32602 and named, an unknown one ignored, null is absent.

use serde_json::json;

use crate::support::params::{with, without, wrong};
use crate::support::{Victim, base64, over_both};

#[test]
fn exec_names_the_wrong_member() {
    over_both(|peer| {
        let right = json!({"processId": "p", "command": "true"});
        for member in ["processId", "command"] {
            wrong(peer, "process/exec", &without(&right, member), member);
            wrong(peer, "process/exec", &with(&right, member, json!(5)), member);
            wrong(peer, "process/exec", &with(&right, member, json!(null)), member);
        }
        let cases = [
            ("processId", json!("")),
            ("processId", json!("x".repeat(129))),
            ("command", json!(["true"])),
            ("command", json!("a\u{0}b")),
            ("shell", json!(1)),
            ("cwd", json!(false)),
            ("cwd", json!("/a\u{0}b")),
            ("env", json!([])),
            ("env", json!("A=1")),
            ("env", json!({"A": 5})),
            ("timeoutMs", json!(0)),
            ("timeoutMs", json!(-1)),
            ("timeoutMs", json!(1.5)),
            ("timeoutMs", json!("1000")),
            ("graceMs", json!(-1)),
            ("graceMs", json!("1")),
            ("stdin", json!(5)),
            ("stdin", json!("not base64!")),
            ("stdin", json!("YQ")),
            ("mergeStderr", json!("yes")),
            ("mergeStderr", json!(1)),
            ("window", json!("big")),
            ("window", json!(-1)),
            ("window", json!(0.5)),
        ];
        for (member, value) in cases {
            wrong(peer, "process/exec", &with(&right, member, value), member);
        }
        peer.exec(right).assert_success();
    });
}

#[test]
fn spawn_names_the_wrong_member() {
    over_both(|peer| {
        let right = json!({"processId": "p", "command": "true"});
        for member in ["processId", "command"] {
            wrong(peer, "process/spawn", &without(&right, member), member);
            wrong(peer, "process/spawn", &with(&right, member, json!({})), member);
        }
        let cases = [
            ("processId", json!("x".repeat(129))),
            ("command", json!("tr\u{0}ue")),
            ("args", json!("x")),
            ("args", json!([1])),
            ("args", json!(["a\u{0}b"])),
            ("cwd", json!(1)),
            ("env", json!({"A": true})),
            ("mergeStderr", json!(0)),
            ("window", json!([])),
            ("pty", json!(true)),
        ];
        for (member, value) in cases {
            wrong(peer, "process/spawn", &with(&right, member, value), member);
        }
        for (cols, rows, member) in [
            (json!(0), json!(24), "cols"),
            (json!(65_536), json!(24), "cols"),
            (json!("80"), json!(24), "cols"),
            (json!(80), json!(0), "rows"),
            (json!(80), json!(-1), "rows"),
            (json!(80), json!(null), "rows"),
        ] {
            let params = with(&right, "pty", json!({"cols": cols, "rows": rows}));
            wrong(peer, "process/spawn", &params, member);
        }
        wrong(peer, "process/spawn", &with(&right, "pty", json!({"rows": 1})), "cols");
    });
}

#[test]
fn a_bad_environment_name_or_value_is_refused() {
    over_both(|peer| {
        for env in [
            json!({"A": "a\u{0}b"}),
            json!({"": "x"}),
            json!({"A=B": "x"}),
            json!({"A\u{0}": "x"}),
            json!({"": null}),
            json!({"=": null}),
        ] {
            let params = json!({"processId": "p", "command": "true", "env": env});
            wrong(peer, "process/exec", &params, "env");
            wrong(peer, "process/spawn", &params, "env");
        }
    });
}

#[test]
fn the_calls_about_a_process_name_the_wrong_member() {
    over_both(|peer| {
        let process = peer.spawn(json!({"command": "cat"}));
        let right = json!({"processId": process, "chunk": "", "cols": 80, "rows": 24});
        for method in ["process/write", "process/kill", "process/resize"] {
            wrong(peer, method, &without(&right, "processId"), "processId");
            wrong(peer, method, &with(&right, "processId", json!(1)), "processId");
        }
        let cases = [
            ("process/write", "chunk", json!(5)),
            ("process/write", "chunk", json!("%%%")),
            ("process/write", "chunk", json!(null)),
            ("process/write", "eof", json!("true")),
            ("process/kill", "signal", json!({})),
            ("process/kill", "signal", json!("NOPE")),
            ("process/kill", "signal", json!("SIGNOPE")),
            ("process/kill", "signal", json!("")),
            ("process/kill", "signal", json!(-1)),
            ("process/kill", "signal", json!(1000)),
            ("process/kill", "signal", json!(9.5)),
            ("process/kill", "graceMs", json!(-5)),
            ("process/kill", "graceMs", json!("soon")),
            ("process/resize", "cols", json!(0)),
            ("process/resize", "cols", json!(65_536)),
            ("process/resize", "rows", json!(0)),
            ("process/resize", "rows", json!("24")),
            ("process/resize", "rows", json!(null)),
        ];
        for (method, member, value) in cases {
            wrong(peer, method, &with(&right, member, value), member);
        }
        // None of them has harmed it.
        let write = json!({"processId": process, "chunk": base64("still here"), "eof": true});
        peer.ok("process/write", &write);
        assert_eq!(peer.exit(&process).text(), "still here");
    });
}

#[test]
fn initialize_names_the_wrong_member() {
    over_both(|peer| {
        wrong(peer, "initialize", &json!({"clientName": 5}), "clientName");
        wrong(peer, "initialize", &json!({"clientVersion": []}), "clientVersion");
    });
}

#[test]
fn params_that_are_no_object_are_refused() {
    over_both(|peer| {
        for params in ["[]", r#"["p","true"]"#, "5", r#""x""#, "true"] {
            let text = format!(
                r#"{{"jsonrpc":"2.0","id":"p","method":"process/exec","params":{params}}}"#
            );
            peer.send(&text);
            let reply = peer.reply();
            assert_eq!(reply.id, r#""p""#);
            let code = reply.outcome.unwrap_err().code;
            // JSON-RPC calls a scalar an invalid request; an array is params of the wrong type.
            assert!(code == -32602 || code == -32600 && !params.starts_with('['), "{params}");
        }
    });
}

#[test]
fn absent_params_are_empty_params() {
    over_both(|peer| {
        for params in ["", r#","params":null"#, r#","params":{}"#] {
            for method in ["ping", "initialize"] {
                peer.send(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"{params}}}"#));
                peer.reply().outcome.unwrap();
            }
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"process/kill"{params}}}"#);
            peer.send(&text);
            let error = peer.reply().outcome.unwrap_err();
            assert_eq!(error.code, -32602);
            error.assert_names("processId");
        }
    });
}

#[test]
fn null_for_an_optional_member_means_absent() {
    over_both(|peer| {
        let done = peer.exec(json!({
            "command": "cat; echo out; echo err >&2", "shell": null, "cwd": null, "env": null,
            "timeoutMs": null, "graceMs": null, "stdin": null, "mergeStderr": null, "window": null,
        }));
        assert_eq!((done.text().as_str(), done.errors().as_str()), ("out\n", "err\n"));
        let process = peer.spawn(json!({
            "command": "cat", "args": null, "cwd": null, "env": null, "pty": null,
            "mergeStderr": null, "window": null,
        }));
        let write = json!({"processId": process, "chunk": base64("x"), "eof": null});
        peer.ok("process/write", &write);
        let kill = json!({"processId": process, "signal": null, "graceMs": null});
        assert_eq!(peer.ok("process/kill", &kill), json!({"running": true}));
        assert_eq!(peer.exit(&process).signal(), Some("SIGKILL"));
        let nothing = json!({"clientName": null, "clientVersion": null, "epoch": null});
        peer.ok("initialize", &nothing);
    });
}

#[test]
fn an_unknown_member_is_ignored() {
    over_both(|peer| {
        let more = json!({"command": "echo hi", "colour": "blue", "argv0": [1], "Cwd": "/nope"});
        assert_eq!(peer.exec(more).text(), "hi\n");
        peer.ok("ping", &json!({"payload": {"deep": [1, 2]}}));
        let more = json!({"command": "true", "arg": 1, "pty_": true});
        peer.run(more).assert_success();
    });
}

#[test]
fn a_process_id_may_have_128_characters() {
    over_both(|peer| {
        for id in ["é".repeat(128), "x".repeat(128), " ".into(), "\n\"\\\u{0}".into()] {
            let done = peer.exec(json!({"processId": id, "command": "echo hi"}));
            assert_eq!(done.text(), "hi\n", "with the id {id:?}");
        }
        let params = json!({"processId": "é".repeat(129), "command": "true"});
        wrong(peer, "process/exec", &params, "processId");
    });
}

#[test]
fn a_wrong_acknowledgement_is_met_by_silence() {
    over_both(|peer| {
        let victim = Victim::new();
        let process = victim.spawn(peer);
        for params in [
            json!({}),
            json!([]),
            json!({"processId": process}),
            json!({"processId": process, "bytes": -1}),
            json!({"processId": process, "bytes": "many"}),
            json!({"processId": process, "bytes": 1.5}),
            json!({"processId": process, "bytes": 9_007_199_254_740_993_u64}),
            json!({"processId": "unknown", "bytes": 1}),
            json!({"processId": 7, "bytes": 1}),
        ] {
            peer.notify("process/ack", &params);
        }
        peer.assert_quiet();
        victim.assert_alive();
    });
}
