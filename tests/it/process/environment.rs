//! `env` is a delta over the server's own environment.

use serde_json::json;

use crate::support::{Setup, TOKEN, over_both, over_both_with};

fn served() -> Setup {
    Setup::new().env("IT_KEPT", "kept").env("IT_GONE", "there").env("IT_CHANGED", "old")
}

#[test]
fn a_string_sets_and_null_removes() {
    over_both_with(served, |peer| {
        let env = json!({"IT_CHANGED": "new", "IT_GONE": null, "IT_NEW": "x", "IT_NEVER": null});
        let show = "echo $IT_KEPT,$IT_CHANGED,${IT_GONE-removed},$IT_NEW,${IT_NEVER-unset}";
        let done = peer.exec(json!({"command": show, "env": env}));
        assert_eq!(done.text(), "kept,new,removed,x,unset\n");
        let spawned = json!({"command": "sh", "args": ["-c", show], "env": env});
        assert_eq!(peer.run(spawned).text(), "kept,new,removed,x,unset\n");
        // A delta is of one process alone.
        assert_eq!(peer.sh(show).text(), "kept,old,there,,unset\n");
    });
}

#[test]
fn a_value_is_passed_byte_for_byte() {
    over_both(|peer| {
        for value in ["", "two\nlines\n", "a=b=c", "ünï €", "  ", "'\"$`\\", "x\ty\r"] {
            let params = json!({"command": "printf %s \"$IT_VALUE\"", "env": {"IT_VALUE": value}});
            assert_eq!(peer.exec(params).text(), value);
        }
        let params = json!({"command": "env", "env": {"IT_EMPTY": ""}});
        assert!(peer.run(params).text().contains("IT_EMPTY=\n"));
    });
}

#[test]
fn a_name_need_not_be_a_shell_identifier() {
    over_both(|peer| {
        let env = json!({"it.dotted-name": "1", "IT ü": "2"});
        let text = peer.run(json!({"command": "env", "env": env})).text();
        assert!(text.contains("it.dotted-name=1\n") && text.contains("IT ü=2\n"), "{text}");
    });
}

#[test]
fn no_name_is_there_twice() {
    over_both_with(served, |peer| {
        let params =
            json!({"command": "env", "env": {"IT_CHANGED": "new", "PATH": "/bin:/usr/bin"}});
        let text = peer.run(params).text();
        let mut names: Vec<_> = text.lines().filter_map(|line| line.split_once('=')).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup_by_key(|(name, _)| *name);
        assert_eq!(names.len(), count, "{text}");
    });
}

#[test]
fn exec_env_shows_no_token() {
    let file = crate::support::TempDir::new();
    let path = file.write("token", TOKEN);
    let setup = || Setup::new().token_file(&path, TOKEN);
    for text in [first_env(Setup::new), first_env(setup)] {
        assert!(!text.contains(TOKEN), "{text}");
    }
}

fn first_env(setup: impl Fn() -> Setup) -> String {
    let server = setup().listen();
    let text = server.connect().run(json!({"command": "env"})).text();
    assert!(text.contains("PATH="), "{text}");
    text
}

#[test]
fn a_token_set_by_the_host_on_purpose_is_passed_on() {
    over_both(|peer| {
        let params = json!({"command": "echo $TA_EXEC_TOKEN", "env": {"TA_EXEC_TOKEN": "other"}});
        assert_eq!(peer.exec(params).text(), "other\n");
    });
}

#[test]
fn a_variable_of_the_servers_that_is_not_utf8_is_passed_on() {
    let odd = "IT_ODD=$(printf 'a\\377b') && export IT_ODD && exec \"$0\" \"$@\"";
    over_both_with(
        || Setup::new().under(&["sh", "-c", odd]),
        |peer| {
            assert_eq!(peer.sh("printf %s \"$IT_ODD\"").stdout, b"a\xffb");
        },
    );
}

/// A minimal container, or a supervisor that cleans up: no PATH, no HOME.
#[test]
fn a_server_without_an_environment_works() {
    over_both_with(
        || Setup::new().under(&["env", "-i"]),
        |peer| {
            assert_eq!(peer.sh("echo hi; exit 3").code(), Some(3));
            peer.run(json!({"command": "/bin/true"})).assert_success();
            let path = json!({"PATH": "/usr/bin:/bin"});
            peer.run(json!({"command": "true", "env": path})).assert_success();
            peer.ok("initialize", &json!({}));
        },
    );
}
