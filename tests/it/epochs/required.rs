//! `--require-epoch`

use serde_json::json;

use crate::support::{Peer, Setup, TempDir, over_both_with};

fn setup() -> Setup {
    Setup::new().args(["--require-epoch"])
}

#[track_caller]
fn assert_needed(peer: &mut Peer, method: &str, params: &serde_json::Value) {
    let error = peer.error(method, params);
    assert_eq!(error.code, -32_602, "{method}: {error:?}");
    error.assert_names("epoch");
    error.assert_names("--require-epoch");
}

#[test]
fn without_an_epoch_every_call_is_refused_until_initialize_brings_one() {
    let dir = TempDir::new();
    over_both_with(setup, |peer| {
        let file = dir.join(if peer.is_stdio() { "stdio" } else { "websocket" });
        let command = format!("echo > {}", file.display());
        let calls = [
            ("ping", json!({})),
            ("initialize", json!({})),
            ("initialize", json!({"epoch": null})),
            ("process/exec", json!({"processId": "p", "command": command})),
            ("process/spawn", json!({"processId": "p", "command": "touch", "args": [file]})),
            ("fs/writeFile", json!({"path": file, "dataBase64": ""})),
            ("fs/stat", json!({"path": "/"})),
            ("net/connect", json!({"connectionId": "c", "host": "127.0.0.1", "port": 1})),
        ];
        for (method, params) in &calls {
            assert_needed(peer, method, params);
        }
        assert_eq!(peer.error("initialize", &json!({"epoch": -1})).code, -32_602);
        assert_needed(peer, "ping", &json!({}));
        assert!(!file.exists());
        assert_eq!(peer.ok("initialize", &json!({"epoch": 3}))["epoch"], json!(3));
        peer.ping();
        peer.ok("initialize", &json!({}));
        peer.sh(&command).assert_success();
        assert!(file.exists());
    });
}

#[test]
fn an_epoch_in_the_url_is_enough() {
    let server = setup().listen();
    server.connect_of(1).ping();
}
