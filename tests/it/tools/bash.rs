//! `bash`.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use ta_exec::client::ExecClient;
use ta_exec::environment::RemoteExecEnvironment;
use ta_exec::tools::{Call, Tool, Tools};

use super::{outcome, outcome_of, over_all, shown};
use crate::support::{Server, TOKEN, Victim, eventually, sys};

fn bash(tools: &Tools, command: &str) -> Result<String, String> {
    shown(tools, Tool::Bash, &json!({"command": command}))
}

#[test]
fn output_comes_together_and_the_exit_code_is_told() {
    over_all(|tools, _| {
        assert_eq!(bash(tools, "echo a; echo b >&2; echo c").as_deref(), Ok("a\nb\nc\n"));
        assert_eq!(bash(tools, "cat; pwd").as_deref(), Ok("DIR\n"));
        assert_eq!(bash(tools, "true").as_deref(), Ok("(no output)"));
        let failed = [
            ("echo x; exit 7", "x\n\nCommand exited with code 7"),
            ("exit 1", "(no output)\n\nCommand exited with code 1"),
            ("kill -9 $$", "(no output)\n\nCommand exited with code 137 (SIGKILL)"),
        ];
        for (command, expected) in failed {
            assert_eq!(bash(tools, command), Err(expected.to_owned()));
        }
        let details =
            outcome(tools, Tool::Bash, &json!({"command": "kill -9 $$"})).details.unwrap();
        assert_eq!((&details["exitCode"], &details["signal"]), (&json!(137), &json!("SIGKILL")));
        assert!(bash(tools, "no-such-program-1").unwrap_err().ends_with("exited with code 127"));
        // What is left in the background does not hold it up.
        let start = Instant::now();
        assert_eq!(bash(tools, "sleep 30 & echo hi").as_deref(), Ok("hi\n"));
        assert!(start.elapsed() < Duration::from_secs(10));
    });
}

#[test]
fn at_its_timeout_all_of_it_is_ended_and_its_output_told() {
    over_all(|tools, _| {
        let victim = Victim::new();
        let command = format!("echo so far; {} & wait", victim.command());
        let told = shown(tools, Tool::Bash, &json!({"command": command, "timeout": 0.5}));
        let expected = "so far\n\nCommand timed out after 0.5 seconds";
        assert_eq!(told, Err(expected.to_owned()));
        victim.await_gone();
    });
}

#[test]
fn a_call_that_is_cancelled_ends_its_command_and_tells_the_output_so_far() {
    over_all(|tools, _| {
        let victim = Victim::new();
        let call = Call::default();
        let cancel = call.cancel.clone();
        let command = format!("echo so far; trap '' TERM; {} & wait", victim.command());
        thread::scope(|scope| {
            let start = || outcome_of(tools, Tool::Bash, &json!({"command": command}), &call);
            let running = thread::Builder::new().spawn_scoped(scope, start).unwrap();
            victim.await_alive();
            cancel.cancel();
            let outcome = running.join().unwrap();
            assert!(outcome.is_error);
            assert_eq!(outcome.all_text(), "so far\n\nCommand aborted");
        });
        victim.await_gone();
    });
}

#[test]
fn a_long_output_is_shown_by_its_end_and_kept_whole_in_a_file() {
    over_all(|tools, _| {
        for (command, start, lines) in [
            ("seq 1 5000", "3001\n", "[lines 3001-5000 of 5000 are shown; "),
            ("seq 1 1000000", "992686\n", "[lines 992686-1000000 of 1000000 are shown; "),
            ("head -c 200000 /dev/zero | tr '\\0' x", "xxx", "[the end of line 1 of 1 are shown; "),
        ] {
            let seen = outcome(tools, Tool::Bash, &json!({"command": command}));
            let text = seen.all_text();
            if command != "seq 1 1000000" {
                assert!(text.starts_with(start), "{text:.60}");
                assert!(text.contains(lines), "{}", &text[text.len() - 200..]);
            }
            let shown = text.split("\n\n[").next().unwrap();
            assert!(shown.len() <= 50 * 1024 && shown.lines().count() <= 2000, "{}", shown.len());
            let path = seen.details.unwrap()["fullOutputPath"].as_str().unwrap().to_owned();
            assert!(text.contains(&path), "{path}");
            let expected = std::process::Command::new("sh").args(["-c", command]).output().unwrap();
            assert!(std::fs::read(&path).unwrap() == expected.stdout, "another output in {path}");
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            let read = super::shown(tools, Tool::Read, &json!({"path": path, "limit": 1}));
            assert!(read.is_ok(), "{read:?}");
            std::fs::remove_file(path).unwrap();
        }
    });
}

#[test]
fn no_file_is_made_for_an_output_that_is_shown_whole() {
    over_all(|tools, _| {
        let seen = outcome(tools, Tool::Bash, &json!({"command": "seq 1 2000"}));
        assert_eq!(seen.details.unwrap()["fullOutputPath"], Value::Null);
    });
}

#[test]
fn progress_has_all_output_in_whole_characters() {
    over_all(|tools, _| {
        let told: Arc<Mutex<(String, u64)>> = Arc::default();
        let to = Arc::clone(&told);
        let call = Call {
            progress: Some(Box::new(move |progress| {
                let mut told = to.lock().unwrap();
                assert!(progress.bytes > told.1, "it grows");
                told.0.push_str(progress.text);
                told.1 = progress.bytes;
            })),
            ..Call::default()
        };
        // The last is held back until the command is over, and is in its answer.
        let command =
            "printf 'a\\342'; sleep .3; printf '\\202\\254b'; sleep .3; printf c; sleep .3";
        let outcome = outcome_of(tools, Tool::Bash, &json!({"command": command}), &call);
        assert_eq!(outcome.all_text(), "a\u{20ac}bc");
        let told = told.lock().unwrap().0.clone();
        assert!("a\u{20ac}bc".starts_with(&told) && told.contains('\u{20ac}'), "{told:?}");
    });
}

#[test]
fn a_lost_environment_is_told_with_the_output_so_far() {
    let server = Server::start();
    let url = format!("ws://{}/exec", server.address);
    let client = ExecClient::websocket(&url, Some(TOKEN)).unwrap();
    let tools = Tools::new(Arc::new(RemoteExecEnvironment::new(client).unwrap()));
    let victim = Victim::new();
    let command = format!("echo so far; {}", victim.command());
    thread::scope(|scope| {
        let running =
            thread::Builder::new().spawn_scoped(scope, || bash(&tools, &command)).unwrap();
        victim.await_alive();
        sys::signal(server.pid(), libc::SIGKILL).unwrap();
        let told = running.join().unwrap().unwrap_err();
        assert!(told.starts_with("so far\n\nThe environment was lost while"), "{told}");
    });
    victim.await_gone();
    eventually(Duration::from_secs(5), "the server is gone", || {
        std::net::TcpStream::connect(server.address).is_err()
    });
    let told = shown(&tools, Tool::Write, &json!({"path": "x", "content": "y"})).unwrap_err();
    assert!(told.contains("cannot reach"), "{told}");
}
