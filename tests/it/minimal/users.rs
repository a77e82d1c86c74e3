//! Users without a name, without rights, and with namespaces of their own.

use std::process::Command;

use serde_json::{Value, json};

use super::{descendants_end, everything_works};
use crate::support::{Setup, TempDir, lacks, over_both_with, skipped, sys};

/// Nobody's number.
const NOBODYS: &str = "54321";

fn open_to_all(dir: &TempDir) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
}

/// True, and says so, where this user cannot become another.
fn is_bound(test: &str) -> bool {
    lacks(test, "setpriv") || (!sys::is_root() && skipped(test, "only root can be another user"))
}

/// Words before a program: as that user, who has no home in the environment either.
fn as_nobody() -> Vec<&'static str> {
    let ids = ["--reuid", NOBODYS, "--regid", NOBODYS, "--clear-groups", "--"];
    [&["env", "-u", "HOME", "setpriv"][..], &ids].concat()
}

#[test]
fn a_user_without_an_entry_in_the_user_database_needs_none() {
    if is_bound("a_user_without_an_entry_in_the_user_database_needs_none") {
        return;
    }
    let setup = || Setup::new().under(&as_nobody()).args(["--cwd", "/"]);
    over_both_with(setup, |peer| {
        let about = peer.ok("initialize", &json!({}));
        assert_eq!(about.get("home").unwrap_or(&Value::Null), &Value::Null, "{about}");
        assert_eq!(peer.sh("id -u").text().trim(), NOBODYS);
        let dir = TempDir::new();
        open_to_all(&dir);
        everything_works(peer, &dir);
    });
}

#[test]
fn with_no_new_privileges_everything_works() {
    if lacks("with_no_new_privileges_everything_works", "setpriv") {
        return;
    }
    let setup = || Setup::new().under(&["setpriv", "--no-new-privs", "--"]);
    over_both_with(setup, |peer| {
        let status = peer.sh("grep NoNewPrivs /proc/self/status").text();
        assert!(status.trim().ends_with('1'), "{status}");
        everything_works(peer, &TempDir::new());
    });
}

#[test]
fn in_a_user_namespace_of_its_own_everything_works() {
    const NAME: &str = "in_a_user_namespace_of_its_own_everything_works";
    const UNSHARE: [&str; 6] =
        ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"];
    if is_bound(NAME) || lacks(NAME, "unshare") {
        return;
    }
    let words = [&as_nobody()[..], &UNSHARE, &["--mount-proc", "--"]].concat();
    let able = Command::new(words[0]).args(&words[1..]).arg("true").output().unwrap();
    if !able.status.success() && skipped(NAME, "a user cannot make a user namespace here") {
        return;
    }
    let mut peer = Setup::new().under(&words).args(["--cwd", "/"]).stdio();
    assert_eq!(peer.server_pid(), 2, "the guardian's child");
    assert_eq!(peer.sh("id -u").text(), "0\n");
    let dir = TempDir::new();
    open_to_all(&dir);
    super::commands_run(&mut peer);
    super::files_are_kept(&mut peer, dir.path().to_str().unwrap());
    descendants_end(&mut peer);
}
