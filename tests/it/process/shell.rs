//! Which shell runs a command line.

use serde_json::{Value, json};

use crate::support::{Setup, TempDir, lacks, over_both, over_both_with, skipped, sys};

#[test]
fn the_shell_is_bash_where_there_is_one() {
    if lacks("the_shell_is_bash_where_there_is_one", "bash") {
        return;
    }
    over_both(|peer| {
        let done = peer.sh("echo ${BASH_VERSION:+bash}; [[ a == a ]] && echo yes");
        assert_eq!(done.text(), "bash\nyes\n");
    });
}

#[test]
fn without_bash_in_path_the_shell_is_bin_sh() {
    let dir = TempDir::new();
    let setup = || Setup::new().env("PATH", dir.path().to_str().unwrap());
    over_both_with(setup, |peer| {
        assert_eq!(peer.ok("initialize", &json!({}))["shell"], "/bin/sh");
        assert_eq!(peer.sh("echo $0").text(), "/bin/sh\n");
    });
}

#[test]
fn bash_is_looked_up_in_path_and_a_directory_of_that_name_passed_over() {
    let (decoy, real) = (TempDir::new(), TempDir::new());
    std::fs::create_dir(decoy.join("bash")).unwrap();
    real.program("bash", "#!/bin/sh\necho \"my bash: $1 $2\"\n");
    let path = format!("{}:{}:/usr/bin:/bin", decoy.path().display(), real.path().display());
    over_both_with(
        || Setup::new().env("PATH", &path),
        |peer| {
            assert_eq!(peer.sh("echo hi").text(), "my bash: -c echo hi\n");
            assert_eq!(peer.ok("initialize", &json!({}))["shell"], json!(real.join("bash")));
        },
    );
}

#[test]
fn the_flag_sets_the_shell_and_the_request_overrides_it() {
    let dir = TempDir::new();
    let shell = |name: &str| dir.program(name, format!("#!/bin/sh\necho \"{name}|$1|$2|$#\"\n"));
    let (flagged, asked) = (shell("flagged"), shell("asked"));
    let setup = || Setup::new().args(["--shell", flagged.to_str().unwrap()]);
    over_both_with(setup, |peer| {
        assert_eq!(peer.sh("a b; c").text(), "flagged|-c|a b; c|2\n");
        let done = peer.exec(json!({"command": "d 'e'", "shell": asked}));
        assert_eq!(done.text(), "asked|-c|d 'e'|2\n");
    });
}

#[test]
fn a_shell_that_does_not_exist_is_an_error_that_names_it() {
    over_both(|peer| {
        let params = json!({"processId": "p", "command": "true", "shell": "/nonexistent/sh"});
        let error = peer.error("process/exec", &params);
        assert_eq!(error.code, -32000);
        let codes = ["ENOENT", "CELL_TA_EXEC_NO_SHELL"];
        assert!(codes.contains(&error.data_code()), "{error:?}");
        error.assert_names("/nonexistent/sh");
        peer.sh("true").assert_success();
    });
}

#[test]
fn a_server_whose_own_shell_is_missing_says_so_at_each_exec_and_still_spawns() {
    let setup = || Setup::new().env("PATH", "").args(["--shell", "/nonexistent/sh"]);
    over_both_with(setup, |peer| {
        let error = peer.error("process/exec", &json!({"processId": "p", "command": "true"}));
        let codes = ["ENOENT", "CELL_TA_EXEC_NO_SHELL"];
        assert!(codes.contains(&error.data_code()), "{error:?}");
        error.assert_names("/nonexistent/sh");
        peer.run(json!({"command": "/bin/true"})).assert_success();
    });
}

/// In a mount namespace of its own in which no shell can be found.
#[test]
fn a_machine_without_any_shell_is_told_by_its_own_code() {
    const NAME: &str = "a_machine_without_any_shell_is_told_by_its_own_code";
    if !sys::is_root() {
        skipped(NAME, "a mount namespace needs root");
        return;
    }
    if lacks(NAME, "unshare") || lacks(NAME, "mount") {
        return;
    }
    // What hides /usr/bin must not itself be looked for in it afterwards.
    let hide = "mount -t tmpfs none /usr/bin && { [ -L /bin ] || mount -t tmpfs none /bin; } \
                && exec \"$0\" \"$@\"";
    let setup = || Setup::new().under(&["unshare", "-m", "sh", "-c", hide]);
    over_both_with(setup, |peer| {
        let error = peer.error("process/exec", &json!({"processId": "p", "command": "true"}));
        assert_eq!((error.code, error.data_code()), (-32000, "CELL_TA_EXEC_NO_SHELL"));
        assert_eq!(peer.ok("initialize", &json!({}))["shell"], Value::Null);
        peer.ping();
    });
}
