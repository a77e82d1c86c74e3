//! `ta` itself fails: 125, and one line that says what to do.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};
use std::thread;

use serde_json::json;

use super::{Done, Running, run, ta, ta_alone, url};
use crate::support::fake::Fake;
use crate::support::{ClosedPort, Server, Setup, TOKEN, TempDir, Victim};

#[track_caller]
fn finish(command: Command) -> Done {
    Running::start(command).finish()
}

#[test]
fn a_token_that_is_wrong_or_missing_is_refused() {
    let server = Server::start();
    let mut wrong = ta(&server, ["true"]);
    wrong.env("TA_EXEC_TOKEN", "wrong-horse");
    let done = finish(wrong);
    done.assert_failed(125, "TA_EXEC_TOKEN");
    assert!(!done.stderr.contains("wrong-horse"), "{done:?}");
    let mut none = ta(&server, ["true"]);
    none.env_remove("TA_EXEC_TOKEN");
    finish(none).assert_failed(125, "--token-file");
    let mut empty = ta(&server, ["true"]);
    empty.env("TA_EXEC_TOKEN", "");
    finish(empty).assert_failed(125, "TA_EXEC_TOKEN");
}

#[test]
fn a_token_comes_from_a_file_or_the_url_before_the_variable() {
    let server = Server::start();
    let dir = TempDir::new();
    let file = dir.write("token", format!("{TOKEN}\n"));
    let file = file.to_str().unwrap();
    let mut from_file = ta(&server, ["--token-file", file, "true"]);
    from_file.env("TA_EXEC_TOKEN", "wrong");
    finish(from_file).assert(0, "", "");
    let with_token = format!("{}?token={TOKEN}", url(&server));
    let mut from_url = ta(&server, ["--exec", &with_token, "true"]);
    from_url.env("TA_EXEC_TOKEN", "wrong");
    finish(from_url).assert(0, "", "");
    let mut in_variable = ta_alone(["true"]);
    in_variable.env("TA_EXEC_URL", &with_token);
    finish(in_variable).assert(0, "", "");
    let twice = run(&server, &["--exec", &with_token, "--token-file", file, "true"]);
    twice.assert_failed(125, "--token-file");
    let missing = dir.join("missing");
    let done = run(&server, &["--token-file", missing.to_str().unwrap(), "true"]);
    done.assert_failed(125, "no such file");
}

#[test]
fn a_server_without_a_token_needs_none() {
    let server = Setup::new().without_token().listen();
    let mut command = ta(&server, ["true"]);
    command.env_remove("TA_EXEC_TOKEN");
    finish(command).assert(0, "", "");
}

/// /proc shows the environment that a program was started with.
#[test]
fn the_token_is_shown_to_nobody() {
    let server = Server::start();
    let victim = Victim::new();
    let running = Running::start(ta(&server, ["sleep", victim.argument()]));
    victim.await_alive();
    for file in ["environ", "cmdline"] {
        let shown = std::fs::read(format!("/proc/{}/{file}", running.pid())).unwrap();
        assert!(!String::from_utf8_lossy(&shown).contains(TOKEN), "in {file}");
    }
    let with_token = format!("{}?token={TOKEN}", url(&server));
    let twice = ["--exec", &with_token, "--exec", &with_token, "true"];
    run(&server, &twice).assert_failed(125, "--exec");
    let port = ClosedPort::new();
    let closed = format!("{}?token={TOKEN}", url_of(&port));
    run(&server, &["--exec", &closed, "true"]).assert_failed(125, "cannot reach");
    run(&server, &["--exec", &with_token, "--cwd", "/nope", "true"]).assert_failed(125, "/nope");
}

/// A URL at which nobody listens.
fn url_of(closed: &ClosedPort) -> String {
    format!("ws://127.0.0.1:{}/exec", closed.port)
}

#[test]
fn a_server_that_cannot_be_reached_is_named() {
    let closed = ClosedPort::new();
    let url = url_of(&closed);
    finish(ta_alone(["--exec", &url, "true"])).assert_failed(125, &url);
    let unknown = "ws://no-such-host.invalid:4200/exec";
    finish(ta_alone(["--exec", unknown, "true"])).assert_failed(125, "no-such-host.invalid");
}

/// Port 80 was taken in place of what is none, and whoever listens there was given the token.
#[test]
fn a_port_that_is_none_is_not_another_one() {
    for port in ["42000000", "65536", "0", "", "42O0", "-1"] {
        let url = format!("ws://127.0.0.1:{port}/exec");
        finish(ta_alone(["--exec", &url, "true"])).assert_failed(125, "is no ");
        let url = format!("ws://[::1]:{port}/exec");
        finish(ta_alone(["--exec", &url, "true"])).assert_failed(125, "is no ");
    }
}

#[test]
fn what_is_no_server_of_this_kind_is_told() {
    let server = Server::start();
    for path in ["/elsewhere", "/", ""] {
        let elsewhere = url(&server).replace("/exec", path);
        run(&server, &["--exec", &elsewhere, "true"]).assert_failed(125, "/exec");
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}/exec", listener.local_addr().unwrap());
    let answer = move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(b"220 mail ready\r\n\r\n");
    };
    let stranger = thread::Builder::new().name("stranger".into()).spawn(answer).unwrap();
    finish(ta_alone(["--exec", &url, "true"])).assert_failed(125, &url);
    stranger.join().unwrap();
}

/// A file of completions on a full disk would be half of them.
#[test]
fn what_cannot_be_printed_is_told() {
    for args in [&["completions", "bash"][..], &["man"], &["--help"], &["--version"]] {
        let mut command = Command::new(crate::support::binary());
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = command.args(args).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.starts_with("ta: cannot write to stdout: "), "{args:?}: {said}");
    }
}

/// What another machine says must not be obeyed by the terminal here.
#[test]
fn control_characters_of_a_server_are_shown_as_such() {
    let fake = Fake::start(|request| {
        let error = json!({"code": -32000, "message": "\u{1b}[31mred\u{7}"});
        let answer = json!({"jsonrpc": "2.0", "id": request["id"], "error": error});
        vec![answer.to_string()]
    });
    let done = finish(ta_alone(["--exec", &fake.url, "true"]));
    assert!(!done.stderr.contains(['\u{1b}', '\u{7}']), "{done:?}");
    assert!(done.stderr.contains("[31mred"), "{done:?}");
    fake.join();
}

#[test]
fn a_command_line_that_is_wrong_says_what_is_right() {
    let server = Server::start();
    let wrong: [(&[&str], &str); 13] = [
        (&[], "no command"),
        (&["--"], "no command"),
        (&["-i"], "no command"),
        (&["-c", "true", "true"], "-c"),
        (&["--nonsense", "true"], "--nonsense"),
        (&["--timeout", "soon", "true"], "500ms"),
        (&["--timeout", "0", "true"], "more than 0"),
        (&["--timeout"], "--timeout"),
        (&["--env", "=x", "true"], "--env"),
        (&["--exec", "http://127.0.0.1/exec", "true"], "ws://"),
        (&["--exec", "nonsense", "true"], "ws://"),
        (&["--exec", "ws://", "true"], "ws://"),
        (&["-it", "true"], "--tty"),
    ];
    for (args, says) in wrong {
        run(&server, args).assert_failed(125, says);
    }
    let latin1 = std::ffi::OsStr::from_bytes(b"caf\xe9");
    finish(ta(&server, ["echo".as_ref(), latin1])).assert_failed(125, "UTF-8");
}

#[test]
fn help_is_no_failure() {
    for args in [&["--help"][..], &["-h"], &["--tty", "--help"]] {
        let done = finish(ta_alone(args));
        assert_eq!((done.code, done.stderr.as_str()), (0, ""), "{args:?}");
        for told in ["--timeout", "--tty", "TA_EXEC_URL", "TA_EXEC_TOKEN", "124", "125", "127"] {
            assert!(done.text().contains(told), "{told} is not in {}", done.text());
        }
    }
}

#[test]
fn a_lost_connection_is_told_after_all_output_that_arrived() {
    for tail in [&["-c"][..], &["--", "sh", "-c"], &["-i", "-c"]] {
        let mut server = Server::start();
        let victim = Victim::new();
        let line = format!("seq 1 20000; echo out; echo err >&2; {}", victim.command());
        let mut command = ta(&server, [tail, &[&line]].concat());
        command.stdin(Stdio::piped());
        let running = Running::start(command);
        running.await_stdout("\nout\n");
        running.stderr.wait_for("err\n");
        victim.await_alive();
        server.signal(libc::SIGTERM);
        let done = running.finish();
        assert_eq!(done.code, 125, "{done:?}");
        let stderr = done.stderr.strip_prefix("err\n").expect("the command's own stderr first");
        let last = Done { stderr: stderr.to_owned(), stdout: Vec::new(), ..done };
        last.assert_one_line("lost");
        last.assert_one_line("log");
        server.wait(crate::support::DEADLINE);
        victim.await_gone();
    }
}

#[test]
fn a_full_disk_is_told_and_ends_the_command() {
    let server = Server::start();
    for way in [&["-c"][..], &["--", "sh", "-c"]] {
        let victim = Victim::new();
        let line = format!("{} & read x; yes", victim.command());
        let mut command = ta(&server, [&["-i"], way, &[&line]].concat());
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut running = Running::start_with(command.stdin(Stdio::piped()).stdout(full));
        victim.await_alive();
        running.write(b"\n");
        running.finish().assert_failed(125, "no space left");
        victim.await_gone();
    }
}
