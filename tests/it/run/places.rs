//! Where a command runs: here, or wherever another command leads.

use std::process::Command;

use super::{Running, ta_alone};
use crate::support::{DEADLINE, Victim, binary};

fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let output = ta_alone(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn without_a_server_a_command_runs_here() {
    let here = std::env::current_dir().unwrap().canonicalize().unwrap();
    let (code, stdout, stderr) = run(&["--", "pwd", "-P"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert_eq!(stdout.trim_end(), here.to_str().unwrap());
    assert_eq!(
        run(&["-c", "echo out; echo err >&2; exit 7"]),
        (Some(7), "out\n".into(), "err\n".into())
    );
    assert_eq!(run(&["--timeout", "200ms", "-c", "sleep 60"]).0, Some(124));
    assert_eq!(run(&["--", "/nope/nope"]).0, Some(127));
}

#[test]
fn a_command_that_runs_here_ends_with_ta_and_all_that_came_of_it() {
    let victim = Victim::new();
    let line = format!("(setsid {0} &); {0}", victim.command());
    let mut running = Running::start(ta_alone(["-c", &line]));
    victim.await_count(2);
    running.signal(libc::SIGTERM);
    running.wait();
    victim.await_gone();
}

#[test]
fn a_command_that_speaks_the_protocol_leads_to_an_environment() {
    let via = format!("'{}' exec-server --stdio --cwd / --log-level off", binary().display());
    let (code, stdout, stderr) = run(&["--via", &via, "-c", "pwd; exit 3"]);
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(3), "/\n", ""));
}

#[test]
fn a_way_that_leads_nowhere_is_125_and_says_why() {
    for (via, why) in [
        ("false", "the command \"false\" ended with exit code 1 before it spoke the protocol"),
        ("/nope/nope", "/nope/nope"),
        ("sh -c 'kill -9 $$'", "SIGKILL"),
        ("a 'b", "--via: a quote is not closed"),
        ("cat", "asks where it should answer"),
    ] {
        let (code, stdout, stderr) = run(&["--via", via, "--", "true"]);
        assert_eq!((code, stdout.as_str()), (Some(125), ""), "{via}: {stderr}");
        assert!(stderr.contains(why) && stderr.lines().count() == 1, "{via}: {stderr}");
        assert!(!stderr.contains("log"), "no server was reached: {stderr}");
    }
    // What it says itself comes first.
    let via = "sh -c 'echo hello; echo no such container: box >&2; exit 125'";
    let (code, _, stderr) = run(&["--via", via, "--", "true"]);
    let lines: Vec<_> = stderr.lines().collect();
    assert_eq!((code, lines[0]), (Some(125), "no such container: box"));
    assert!(lines.len() == 2 && lines[1].contains("125 before it spoke the protocol"), "{stderr}");
}

/// Those that a thread of this program waits for were blocked in it: it did not heed SIGTERM.
#[test]
fn what_carries_a_connection_has_no_signals_blocked() {
    let via = "sh -c 'grep SigBlk /proc/self/status >&2; exit 1'";
    let (_, _, stderr) = run(&["--via", via, "--", "true"]);
    assert_eq!(stderr.lines().next(), Some("SigBlk:\t0000000000000000"), "{stderr}");
}

/// Its log lines came among the command's own.
#[test]
fn a_server_on_a_pipe_is_quiet_unless_it_is_asked() {
    let via = format!("'{}' exec-server --stdio", binary().display());
    assert_eq!(run(&["--via", &via, "-c", "echo hi"]), (Some(0), "hi\n".into(), String::new()));
    let (code, _, stderr) = run(&["--via", &format!("{via} --log-level info"), "--", "true"]);
    assert!(code == Some(0) && stderr.contains("disconnected"), "{stderr}");
}

#[test]
fn the_epoch_of_a_run_is_that_which_is_said() {
    let server = crate::support::Server::start();
    let mut old = server.connect();
    let held = Victim::new();
    held.spawn(&mut old);
    let run = |epoch: Option<&str>| {
        let mut command = Command::new(binary());
        command.env("TA_EXEC_URL", format!("ws://{}/exec", server.address));
        command.env("TA_EXEC_TOKEN", crate::support::TOKEN).arg("run");
        command.args(epoch.iter().flat_map(|epoch| ["--epoch", epoch])).args(["--", "true"]);
        command.output().unwrap().status.code()
    };
    let mut host = server.connect_of(5);
    assert_eq!(run(None), Some(0));
    host.ping();
    assert_eq!(run(Some("4")), Some(125), "it is stale");
    host.ping();
    assert_eq!(run(Some("6")), Some(0));
    assert_eq!(host.closed(DEADLINE).code, Some(4409));
    held.assert_alive();
}
