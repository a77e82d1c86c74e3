//! What refuses to start.

use std::net::TcpListener;

use crate::support::{Setup, TempDir, lacks, skipped, sys};

#[test]
fn no_token_and_a_host_that_is_not_loopback_refuses_to_start() {
    for host in ["0.0.0.0", "::", "192.0.2.1"] {
        let refusal = Setup::new().without_token().host(host).refused();
        assert!(!refusal.status.success());
        assert!(refusal.stderr.contains("token"), "{host}: {}", refusal.stderr);
        assert!(refusal.stderr.contains(host), "{host}: {}", refusal.stderr);
    }
}

/// In a network namespace of its own, so that nothing is open to the outside even for a moment.
#[test]
fn a_token_or_no_auth_lets_it_listen_on_every_address() {
    const NAME: &str = "a_token_or_no_auth_lets_it_listen_on_every_address";
    if lacks(NAME, "unshare") {
        return;
    }
    if !sys::is_root() {
        skipped(NAME, "a network namespace needs root");
        return;
    }
    let isolated = || Setup::new().under(&["unshare", "-n", "--"]).host("0.0.0.0");
    drop(isolated().listen());
    drop(isolated().without_token().args(["--no-auth"]).listen());
}

#[test]
fn an_empty_token_refuses_to_start() {
    let refusal = Setup::new().token("").refused();
    assert!(!refusal.status.success());
    assert!(refusal.stderr.contains("TA_EXEC_TOKEN"), "{}", refusal.stderr);
}

#[test]
fn a_token_with_white_space_around_it_refuses_to_start_and_is_not_shown() {
    for token in [" s3cret", "s3cret ", "s3cret\n", "\ts3cret", "s3cret\r\n", " "] {
        let refusal = Setup::new().token(token).refused();
        assert!(!refusal.status.success(), "{token:?}");
        assert!(refusal.stderr.contains("TA_EXEC_TOKEN"), "{token:?}: {}", refusal.stderr);
        assert!(!refusal.stderr.contains("s3cret"), "{token:?}: {}", refusal.stderr);
    }
}

#[test]
fn an_empty_or_missing_token_file_refuses_to_start() {
    let dir = TempDir::new();
    let empty = dir.write("empty", "");
    let newline = dir.write("newline", "\n");
    for file in [empty, newline, dir.join("missing"), dir.path().to_owned()] {
        let file = file.to_str().unwrap();
        let refusal = Setup::new().without_token().args(["--token-file", file]).refused();
        assert!(!refusal.status.success(), "{file}");
        assert!(refusal.stderr.contains(file), "{file}: {}", refusal.stderr);
    }
}

#[test]
fn wrong_arguments_refuse_to_start_and_are_named() {
    for (flag, value) in [
        ("--port", "70000"),
        ("--port", "x"),
        ("--peer-timeout", "soon"),
        ("--max-message-bytes", "-1"),
        ("--max-processes", "many"),
        ("--no-such-flag", "x"),
        ("--log-format", "xml"),
    ] {
        let refusal = Setup::new().args([flag, value]).refused();
        assert!(!refusal.status.success(), "{flag} {value}");
        let named = refusal.stderr.contains(flag) || refusal.stderr.contains(value);
        assert!(named, "{flag} {value}: {}", refusal.stderr);
    }
}

#[test]
fn a_server_that_refuses_to_start_leaves_its_port_free() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let refusal = Setup::new().token("").args(["--port", &port.to_string()]).refused();
    assert!(!refusal.status.success());
    TcpListener::bind(("127.0.0.1", port)).unwrap();
}
