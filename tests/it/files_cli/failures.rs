//! How it fails: the exit code, and the one line.

use super::{Running, Site, bare};
use crate::support::{ClosedPort, Setup};

const READ: [&str; 2] = ["fs", "read"];

#[test]
fn a_wrong_command_line_is_2() {
    for (words, says) in [
        (&["fs"][..], "One of the following subcommands"),
        (&["fs", "read"], "path"),
        (&["fs", "read", "--what", "x"], "--what"),
        (&["fs", "write", "--mode", "999", "x"], "999"),
        (&["fs", "read", "--exec", "ws://x/exec", "--via", "y", "z"], "--exec and --via"),
        (&["fs", "read", "--token-file", "x", "y"], "--token-file"),
        (&["fs", "read", "--token-file", "x", "--via", "y", "z"], "--token-file"),
        (&["fs", "read", "--offset", "x", "y"], "--offset \"x\": it takes a whole number"),
        (&["ping", "-c", "x"], "-c \"x\": it takes a whole number"),
        (&["ping", "-c", "4294967296"], "too large"),
        (&["exec-server", "--port", "x"], "--port \"x\": a port is a whole number from 0 to 65535"),
        (&["exec-server", "--port", "65536"], "from 0 to 65535"),
        (&["fs", "ls", "--epoch", "x"], "from 0 to 9007199254740991"),
        (&["cp", "--epoch", "9007199254740992", "x", ":y"], "from 0 to 9007199254740991"),
        (&["cp", "x"], "no destination"),
        (&["cp", "x", "y"], "use cp"),
        (&["cp", ":x", "y", "z"], "use cp"),
    ] {
        let done = Running::start(bare(words)).finish();
        done.failed(2, says);
        assert_eq!(done.stdout, b"", "{words:?}");
    }
}

#[test]
fn who_cannot_be_reached_is_125() {
    let port = ClosedPort::new();
    let url = format!("ws://127.0.0.1:{}/exec?token=secret", port.port);
    for tail in [&["fs", "read", "x"][..], &["fs", "write", "x"], &["fs", "ls"], &["cp", "a", ":"]]
    {
        let mut command = bare(tail);
        command.args(["--exec", &url]);
        let done = Running::start(command).finish();
        done.failed(125, "cannot reach");
        assert!(!done.stderr.contains("secret"), "{done:?}");
    }
    for (via, says) in [
        ("/does/not/exist", "/does/not/exist"),
        ("false", "ended with exit code 1 before it spoke"),
    ] {
        let words = [&READ[..], &["--via", via, "x"]].concat();
        Running::start(bare(words)).finish().failed(125, says);
    }
}

#[test]
fn who_does_not_let_us_in_is_125() {
    let site = Site::listening();
    let mut command = site.ta("fs read", ["x"]);
    command.env("TA_EXEC_TOKEN", "wrong");
    Running::start(command).finish().failed(125, "the token is missing or wrong");
    let file = site.here.write("token", crate::support::TOKEN);
    let mut command = site.ta("fs ls", ["--token-file", file.to_str().unwrap()]);
    command.env_remove("TA_EXEC_TOKEN");
    Running::start(command).finish().quiet();
}

#[test]
fn an_epoch_is_sent_only_when_it_is_given() {
    let server = Setup::new().args(["--require-epoch"]).listen();
    let site = Site::new("epoch", Some(server), &[]);
    site.there.write("file", b"x");
    for subcommand in ["fs read", "fs stat", "cp"] {
        let args = match subcommand {
            "cp" => vec![site.colon("file"), "copy".to_owned()],
            _ => vec![site.far("file")],
        };
        site.run(subcommand, &args).failed(125, "epoch");
        let args = [vec!["--epoch".to_owned(), "7".to_owned()], args].concat();
        assert_eq!(site.run(subcommand, args).code, 0);
    }
    let done = site.run("fs read", ["--epoch", "6", &site.far("file")]);
    assert_eq!(done.code, 125, "{done:?}");
}

#[test]
fn messages_are_short_where_the_server_takes_only_those() {
    let server = Setup::new().args(["--max-message-bytes", "100000"]).listen();
    let site = Site::new("short", Some(server), &[]);
    let bytes = super::noise(1 << 20);
    site.here.write("file", &bytes);
    site.run("cp", ["file", &site.colon("file")]).quiet();
    assert!(site.run("fs read", [site.far("file")]).quiet() == bytes);
    site.feed("fs write", &[&site.far("file")], &bytes[1..]).quiet();
    site.run("cp", [&site.colon("file"), "back"]).quiet();
    assert!(std::fs::read(site.here.join("back")).unwrap() == bytes[1..]);
}
