//! A start that fails says with which errno and on what, and the server lives.

use serde_json::{Value, json};

use crate::support::{Peer, TempDir, over_both};

#[track_caller]
fn spawn_fails(peer: &mut Peer, mut params: Value, code: &str, named: &str) {
    params["processId"] = json!("failing");
    let error = peer.error("process/spawn", &params);
    assert_eq!((error.code, error.data_code()), (-32000, code), "{error:?}");
    error.assert_names(named);
    let again = json!({"processId": "failing", "command": "true"});
    peer.run(again).assert_success();
}

#[test]
fn enoent_and_eacces_name_the_file() {
    let dir = TempDir::new();
    let plain = dir.write("plain", "#!/bin/sh\n");
    over_both(|peer| {
        for (command, code) in [
            ("nope", "ENOENT"),
            ("/nope/prog", "ENOENT"),
            ("./nope", "ENOENT"),
            ("/etc/passwd", "EACCES"),
            ("/tmp", "EACCES"),
            (plain.to_str().unwrap(), "EACCES"),
            ("/etc/passwd/prog", "ENOTDIR"),
        ] {
            spawn_fails(peer, json!({"command": command}), code, command);
        }
    });
}

#[test]
fn an_empty_command_is_an_error() {
    over_both(|peer| {
        let error = peer.error("process/spawn", &json!({"processId": "p", "command": ""}));
        assert!(error.code == -32602 || error.data_code() == "ENOENT", "{error:?}");
    });
}

#[test]
fn a_file_that_is_no_program_is_enoexec() {
    let dir = TempDir::new();
    let binary = dir.program("binary", b"\0\x01garbage");
    let text = dir.program("text", "echo no shell was asked for\n");
    let empty = dir.program("empty", "");
    over_both(|peer| {
        for file in [&binary, &text, &empty] {
            let file = file.to_str().unwrap();
            spawn_fails(peer, json!({"command": file}), "ENOEXEC", file);
        }
    });
}

#[test]
fn a_script_whose_interpreter_is_missing_is_enoent_and_named() {
    let dir = TempDir::new();
    let script = dir.program("script", "#!/no/such/interpreter\n");
    over_both(|peer| {
        let script = script.to_str().unwrap();
        spawn_fails(peer, json!({"command": script}), "ENOENT", script);
    });
}

/// One argument or variable may have 131,071 bytes and its NUL.
#[test]
fn an_argument_of_131_071_bytes_runs_and_one_more_is_e2big() {
    over_both(|peer| {
        let args = |length| json!({"command": "true", "args": ["x".repeat(length)]});
        peer.run(args(131_071)).assert_success();
        assert_names_the_limit(peer, "process/spawn", &args(131_072));
        let echo = |length| {
            json!({"command": "printenv", "args": ["V"],
            "env": {"V": "x".repeat(length)}})
        };
        assert_eq!(peer.run(echo(131_069)).stdout.len(), 131_070, "V= counts too");
        assert_names_the_limit(peer, "process/spawn", &echo(131_070));
        let line = |length: usize| json!({"command": format!(":{}", " ".repeat(length - 1))});
        peer.exec(line(131_071)).assert_success();
        assert_names_the_limit(peer, "process/exec", &line(131_072));
    });
}

#[track_caller]
fn assert_names_the_limit(peer: &mut Peer, method: &str, params: &Value) {
    let mut params = params.clone();
    params["processId"] = json!("big");
    let error = peer.error(method, &params);
    assert_eq!((error.code, error.data_code()), (-32000, "E2BIG"), "{error:?}");
    let limit = error.message.replace(',', "").contains("131071");
    assert!(limit, "the limit is not named: {error:?}");
    assert!(error.message.len() < 2_000, "the message repeats the argument");
}

#[test]
fn too_many_arguments_together_are_e2big() {
    over_both(|peer| {
        let args = vec!["x".repeat(100_000); 100];
        let params = json!({"processId": "big", "command": "true", "args": args});
        let error = peer.error("process/spawn", &params);
        assert_eq!(error.data_code(), "E2BIG", "{error:?}");
        peer.sh("true").assert_success();
    });
}

#[test]
fn a_hundred_failing_starts_leave_nothing_behind() {
    use crate::support::procfs;
    over_both(|peer| {
        let pid = peer.server_pid();
        let open = || (procfs::threads(pid), procfs::descriptors(pid));
        peer.run(json!({"command": "true"}));
        let fail = |peer: &mut Peer| {
            let params = json!({"processId": "p", "command": "nope"});
            assert_eq!(peer.error("process/spawn", &params).data_code(), "ENOENT");
        };
        fail(peer);
        let limit = crate::support::DEADLINE;
        crate::support::eventually(limit, "it is quiet", || procfs::zombies_of(pid).is_empty());
        let before = open();
        for _ in 0..100 {
            fail(peer);
        }
        crate::support::eventually(limit, "as many as before", || {
            open().0 <= before.0 && open().1 <= before.1
        });
        assert_eq!(procfs::zombies_of(pid), [0_u32; 0]);
    });
}
