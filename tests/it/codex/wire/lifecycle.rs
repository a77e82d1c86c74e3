//! Messages, and in what order they have to come.

use serde_json::{Value, json};

use crate::codex::peer::Peer;
use crate::support::{Server, Setup, TempDir, unique};

/// The same over a WebSocket and over stdio.
fn over_both(body: impl Fn(&mut Peer)) {
    body(&mut Peer::connect(&Server::start()));
    body(&mut Peer::stdio(Setup::new()));
}

#[test]
fn an_id_comes_back_as_it_was() {
    over_both(|peer| {
        for id in [json!(0), json!(-7), json!(i64::MAX), json!(i64::MIN), json!(""), json!("a b")] {
            peer.send(&json!({"id": id, "method": "environment/status"}).to_string());
            let answer = peer.next_answer().unwrap();
            assert_eq!(answer, json!({"id": id, "result": {"status": "ready"}}));
        }
    });
}

#[test]
fn what_cannot_be_read_is_answered_with_the_id_minus_1_and_the_connection_goes_on() {
    over_both(|peer| {
        for text in ["{", "nonsense", "[]", "null", "42", "{}", r#"{"id":1.5,"method":"x"}"#] {
            peer.send(text);
            let answer = peer.next_answer().expect("the connection goes on");
            assert_eq!(answer["id"], -1, "{text}: {answer}");
            assert_eq!(answer["error"]["code"], -32600, "{text}: {answer}");
        }
        assert_eq!(peer.ok("environment/status", &json!({})), json!({"status": "ready"}));
    });
}

#[test]
fn members_that_are_not_known_are_passed_over() {
    over_both(|peer| {
        peer.send(
            r#" {"jsonrpc":"1.0","x":[{}],"id":1,"method":"environment/status","params":null} "#,
        );
        assert_eq!(peer.next_answer().unwrap()["result"]["status"], "ready");
        let mut params = Peer::params("p", &["true"]);
        params["unknown"] = json!({"a": [1]});
        peer.start_with(&params);
        assert_eq!(peer.closed("p").code(), 0);
    });
}

#[test]
fn nothing_is_done_before_initialize_and_initialized() {
    let server = Server::start();
    let mut peer = Peer::silent(&server);
    let dir = TempDir::new();
    let path = format!("file://{}/made", dir.path().display());
    let make = json!({"path": path, "dataBase64": ""});
    let start = Peer::params("p", &["touch", dir.join("made").to_str().unwrap()]);
    let refuse = |peer: &mut Peer| {
        for (method, params) in [("fs/writeFile", &make), ("process/start", &start)] {
            assert_eq!(peer.error(method, params).0, -32600, "{method}");
        }
        assert!(!dir.join("made").exists());
    };
    refuse(&mut peer);
    peer.ok("initialize", &json!({"clientName": "it"}));
    refuse(&mut peer);
    assert_eq!(peer.error("initialize", &json!({"clientName": "it"})).0, -32600);
    peer.notify("initialized", &json!({}));
    peer.ok("fs/writeFile", &make);
    assert!(dir.join("made").exists());
}

#[test]
fn what_is_not_offered_is_unknown_and_in_no_capability() {
    over_both(|peer| {
        for method in [
            "http/request",
            "capabilityRoots/discoverV1",
            "capabilities/discoverV2",
            "environmentConfig/read",
            "fs/watchMissing",
            "fs/rename",
            "process/exec",
            "process/spawn",
            "net/connect",
            "ping",
            "no/such",
            "",
        ] {
            assert_eq!(peer.error(method, &json!({})).0, -32601, "{method}");
        }
        let info = &peer.initialized["environmentInfo"];
        let capabilities = info["capabilities"].as_object();
        let claimed: Vec<_> = capabilities
            .into_iter()
            .flatten()
            .filter(|(_, has)| **has != Value::Bool(false))
            .collect();
        assert!(claimed.is_empty(), "{claimed:?}");
    });
}

#[test]
fn the_environment_is_described() {
    let dir = TempDir::new();
    let place = dir.path().to_str().unwrap();
    let setup = || {
        let setup = Setup::new().env("HOME", place).env("TMPDIR", place);
        setup.args(["--cwd", place, "--shell", "/bin/bash"])
    };
    let server = setup().listen();
    for mut peer in [Peer::connect(&server), Peer::stdio(setup())] {
        let info = peer.ok("environment/info", &Value::Null);
        assert_eq!(info, peer.initialized["environmentInfo"]);
        assert_eq!(info["shell"], json!({"name": "bash", "path": "/bin/bash"}));
        assert_eq!(info["platformOs"], "linux");
        for member in ["cwd", "userHomeDir", "tempDir"] {
            assert_eq!(info[member], format!("file://{place}"), "{member} of {info}");
        }
        assert!(info["executorVersion"].is_string(), "{info}");
    }
}

#[test]
fn sessions_have_names_of_their_own_and_processes_names_within_them() {
    let server = Server::start();
    let (mut one, mut other) = (Peer::connect(&server), Peer::connect(&server));
    assert_ne!(one.session(), other.session());
    let word = unique();
    one.start("same", &["/bin/echo", &word]);
    other.start("same", &["/bin/echo", "other"]);
    assert_eq!(one.closed("same").out(), format!("{word}\n"));
    assert_eq!(other.closed("same").out(), "other\n");
    // A dialect of its own beside it, on the same listener.
    assert_eq!(server.connect().sh("echo exec").text(), "exec\n");
}
