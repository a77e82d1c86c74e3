//! An epoch file that cannot be used.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::json;

use super::epoch_of;
use crate::support::{Setup, TempDir, Victim, http, skipped, sys};

/// Who is not root.
const NOBODY: u32 = 65_534;

#[track_caller]
fn assert_refused(setup: Setup, file: &Path, why: &str) {
    let refusal = setup.args(["--epoch-file", file.to_str().unwrap()]).refused();
    assert_eq!(refusal.status.code(), Some(2), "{}", refusal.stderr);
    for part in [file.to_str().unwrap(), why] {
        assert!(refusal.stderr.contains(part), "{part:?} is not in {}", refusal.stderr);
    }
    assert_eq!(refusal.stderr.lines().count(), 1, "{}", refusal.stderr);
}

#[test]
fn one_that_holds_no_epoch_refuses_to_start_and_is_left_as_it_is() {
    let dir = TempDir::new();
    for (bad, why) in [
        ("", "empty"),
        ("\n", "empty"),
        ("x\n", "no epoch"),
        ("1 2\n", "no epoch"),
        ("-1\n", "no epoch"),
        ("1\n2\n", "no epoch"),
        ("9007199254740992\n", "no epoch"),
        ("\0\0\0\0", "no epoch"),
    ] {
        let file = dir.write("epoch", bad);
        assert_refused(Setup::new(), &file, why);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), bad);
    }
    let huge = dir.write("huge", "1".repeat(10 << 20));
    assert_refused(Setup::new(), &huge, "no epoch");
}

#[test]
fn what_is_no_file_refuses_to_start() {
    let dir = TempDir::new();
    assert_refused(Setup::new(), dir.path(), "directory");
    assert_refused(Setup::new(), &dir.join("none/epoch"), "no such file or directory");
    assert_refused(Setup::new(), &dir.write("f", "").join("epoch"), "not a directory");
    assert_refused(Setup::new(), Path::new("/dev/null"), "no regular file");
    let fifo = dir.join("fifo");
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, rustix::fs::Mode::from(0o600), 0).unwrap();
    assert_refused(Setup::new(), &fifo, "no regular file");
    std::os::unix::fs::symlink("loop", dir.join("loop")).unwrap();
    assert_refused(Setup::new(), &dir.join("loop"), "");
}

#[test]
fn over_stdio_it_refuses_as_well() {
    let dir = TempDir::new();
    let file = dir.write("epoch", "x");
    let args = ["--stdio", "--epoch-file", file.to_str().unwrap()];
    assert_refused(Setup::new().args(&args[..1]), &file, "no epoch");
}

fn needs_root(test: &str) -> bool {
    !sys::is_root() && skipped(test, "only root can become somebody else")
}

fn open_to_all(dir: &TempDir, mode: u32) {
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(mode)).unwrap();
}

/// `nobody`, who reaches the binary.
fn as_nobody(test: &str) -> Option<(TempDir, Setup)> {
    if needs_root(test) {
        return None;
    }
    Some((TempDir::new(), Setup::new().user(NOBODY)))
}

#[test]
fn one_that_cannot_be_read_or_made_refuses_to_start() {
    const NAME: &str = "one_that_cannot_be_read_or_made_refuses_to_start";
    let Some((dir, setup)) = as_nobody(NAME) else { return };
    open_to_all(&dir, 0o755);
    let file = dir.write("epoch", "1\n");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_refused(setup, &file, "permission denied");
    assert_refused(Setup::new().user(NOBODY), &dir.join("missing"), "permission denied");
}

#[test]
fn where_it_cannot_be_written_the_new_host_is_refused_and_nobody_is_fenced() {
    const NAME: &str = "where_it_cannot_be_written_the_new_host_is_refused_and_nobody_is_fenced";
    let Some((dir, setup)) = as_nobody(NAME) else { return };
    open_to_all(&dir, 0o755);
    let file = dir.write("epoch", "5\n");
    let path = file.to_str().unwrap();
    let server = setup.args(["--epoch-file", path]).listen();
    let mut old = server.connect_of(5);
    let victim = Victim::new();
    victim.spawn(&mut old);
    let headers: Vec<_> = server.authorization().into_iter().collect();
    for _ in 0..3 {
        let refused = http::upgrade(server.address, "/exec?epoch=6", &headers).unwrap_err();
        assert_eq!(refused.status, 503);
        for part in [path, "permission denied"] {
            assert!(refused.body.contains(part), "{refused:?}");
        }
        let mut other = server.connect();
        let error = other.error("initialize", &json!({"epoch": 6}));
        error.assert_names(path);
        error.assert_names("permission denied");
        // It has none then, and can go on without.
        assert_eq!(epoch_of(&mut other), json!(null));
    }
    old.ping();
    victim.assert_alive();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "5\n");
    // An equal one needs no write, and once it can be written the newer one is let in.
    server.connect_of(5).ping();
    open_to_all(&dir, 0o777);
    let mut new = server.connect_of(6);
    new.ping();
    assert_eq!(victim.count(), 0);
    super::assert_fenced(&mut old);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "6\n");
}
