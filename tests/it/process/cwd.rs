//! Where a command runs.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::support::{RpcError, Setup, TempDir, binary, over_both, over_both_with, sys};

#[test]
fn cwd_is_absolute_or_relative_to_the_servers() {
    let dir = TempDir::new();
    std::fs::create_dir_all(dir.join("a/b c")).unwrap();
    let setup = || Setup::new().args(["--cwd", dir.path().to_str().unwrap()]);
    over_both_with(setup, |peer| {
        let root = dir.path().to_str().unwrap();
        for (cwd, expected) in [
            (json!(null), root.to_owned()),
            (json!("."), root.to_owned()),
            (json!("a"), format!("{root}/a")),
            (json!("a/b c"), format!("{root}/a/b c")),
            (json!("a/../a/"), format!("{root}/a")),
            (json!("/"), "/".to_owned()),
            (json!("/tmp"), "/tmp".to_owned()),
        ] {
            let text = peer.exec(json!({"command": "pwd -P", "cwd": cwd})).text();
            assert_eq!(text.trim_end(), expected);
            let params = json!({"command": "readlink", "args": ["/proc/self/cwd"], "cwd": cwd});
            assert_eq!(peer.run(params).text().trim_end(), expected);
        }
    });
}

#[test]
fn the_cwd_of_one_command_is_not_that_of_the_next() {
    over_both(|peer| {
        let before = peer.sh("pwd").text();
        peer.exec(json!({"command": "cd /; pwd", "cwd": "/tmp"}));
        assert_eq!(peer.sh("pwd").text(), before);
    });
}

#[test]
fn a_cwd_that_is_none_is_an_error_that_names_it_before_anything_runs() {
    let dir = TempDir::new();
    let marker = dir.join("ran");
    over_both(|peer| {
        for (cwd, code) in
            [("/nope", "ENOENT"), ("nope/relative", "ENOENT"), ("/etc/passwd", "ENOTDIR")]
        {
            let command = format!("touch {}", marker.display());
            let params = json!({"processId": "p", "command": command, "cwd": cwd});
            assert_cwd_error(&peer.error("process/exec", &params), cwd, code, "touch");
            let args = [marker.to_str().unwrap()];
            let params = json!({"processId": "p", "command": "touch", "args": args, "cwd": cwd});
            assert_cwd_error(&peer.error("process/spawn", &params), cwd, code, "\"touch\"");
        }
        assert!(!marker.exists());
        // The id is free: nothing was started.
        peer.exec(json!({"processId": "p", "command": "true"})).assert_success();
    });
}

#[track_caller]
fn assert_cwd_error(error: &RpcError, cwd: &str, code: &str, program: &str) {
    assert_eq!((error.code, error.data_code()), (-32000, code), "{error:?}");
    error.assert_names(cwd);
    assert!(!error.message.contains(program), "it is not the program's fault: {error:?}");
}

/// Root may enter every directory, so the server runs as somebody else.
#[test]
fn a_cwd_that_may_not_be_entered_is_eacces_and_named() {
    let open = TempDir::new();
    std::fs::set_permissions(open.path(), Permissions::from_mode(0o755)).unwrap();
    let closed = open.join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, Permissions::from_mode(0o600)).unwrap();
    let copy = open.join("ta");
    std::fs::copy(binary(), &copy).unwrap();
    let setup = || {
        let exec_copy = "shift; exec \"$0\" \"$@\"";
        let setup = Setup::new().under(&["sh", "-c", exec_copy, copy.to_str().unwrap()]);
        let setup = setup.args(["--cwd", "/"]);
        if sys::is_root() { setup.user(65_534) } else { setup }
    };
    over_both_with(setup, |peer| {
        let cwd = closed.to_str().unwrap();
        let params = json!({"processId": "p", "command": "true", "cwd": cwd});
        for method in ["process/exec", "process/spawn"] {
            assert_cwd_error(&peer.error(method, &params), cwd, "EACCES", "true");
        }
        peer.exec(json!({"command": "true", "cwd": "/"})).assert_success();
    });
    std::fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_server_whose_cwd_has_been_removed_names_it_and_works_elsewhere() {
    let dirs = [TempDir::new(), TempDir::new()];
    let removed = |peer: &mut crate::support::Peer| {
        let cwd = peer.ok("initialize", &json!({}))["cwd"].as_str().unwrap().to_owned();
        std::fs::remove_dir(&cwd).unwrap();
        let params = json!({"processId": "p", "command": "true"});
        assert_cwd_error(&peer.error("process/exec", &params), &cwd, "ENOENT", "true");
        peer.exec(json!({"command": "true", "cwd": "/"})).assert_success();
    };
    let setup = |dir: &TempDir| Setup::new().args(["--cwd", dir.path().to_str().unwrap()]);
    removed(&mut setup(&dirs[0]).listen().connect());
    removed(&mut setup(&dirs[1]).stdio());
}
