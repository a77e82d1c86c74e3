//! Exit codes: 2 for what somebody has to set right, 1 for what is in the way.

use std::net::TcpListener;
use std::process::Command;

use crate::support::{Setup, TempDir, binary, describe, lacks, skipped, sys};

#[track_caller]
fn assert_refused(setup: Setup, code: i32, names: &str) {
    let refusal = setup.refused();
    assert_eq!(refusal.status.code(), Some(code), "{}", describe(refusal.status));
    assert!(refusal.stderr.contains(names), "{:?} is not named: {}", names, refusal.stderr);
    assert!(refusal.stderr.starts_with("ta: "), "{}", refusal.stderr);
}

#[test]
fn a_wrong_configuration_is_2() {
    let dir = TempDir::new();
    let empty = dir.write("empty", "");
    let empty = empty.to_str().unwrap();
    assert_refused(Setup::new().args(["--no-such-option"]), 2, "--no-such-option");
    assert_refused(Setup::new().args(["--max-processes", "0"]), 2, "--max-processes");
    assert_refused(Setup::new().args(["--cwd", "/no/such/place"]), 2, "/no/such/place");
    let with_file = |file| Setup::new().without_token().args(["--token-file", file]);
    assert_refused(with_file("/no/such/file"), 2, "/no/such/file");
    assert_refused(with_file(empty), 2, empty);
    assert_refused(Setup::new().token(""), 2, "TA_EXEC_TOKEN");
    assert_refused(Setup::new().without_token().host("0.0.0.0"), 2, "0.0.0.0");
}

#[test]
fn an_address_in_use_is_1() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = Command::new(binary()).args(["exec-server", "--port", &port]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&port), "{said}");
}

#[test]
fn no_room_for_a_second_process_is_1_and_said() {
    const NAME: &str = "no_room_for_a_second_process_is_1_and_said";
    if lacks(NAME, "prlimit") {
        return;
    }
    if !sys::is_root() {
        skipped(NAME, "a user of its own needs root");
        return;
    }
    let setup = Setup::new().user(54_323).under(&["prlimit", "--nproc=1:1", "--"]);
    assert_refused(setup.args(["--cwd", "/"]), 1, "guardian");
}
