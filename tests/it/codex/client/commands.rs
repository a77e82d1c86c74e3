//! Commands: what the model is told of them, terminals, and jobs in the background.

use std::time::Duration;

use serde_json::json;

use crate::codex::here::{DEADLINE, Here};
use crate::codex::model::{Model, SESSION, Step, exec};
use crate::support::{TOKEN, Victim, eventually};

/// The answer about a command that has ended.
#[track_caller]
fn assert_ended(answer: &str, code: i32, output: &str) {
    let exited = answer.contains(&format!("\nProcess exited with code {code}\n"));
    assert!(exited && answer.ends_with(&format!("Output:\n{output}")), "{answer:?}");
}

#[test]
fn commands_end_as_codex_expects() {
    const NAME: &str = "commands_end_as_codex_expects";
    let Some(here) = Here::new(NAME) else { return };
    let Some(_there) = here.there(NAME, &[]) else { return };
    let steps = [
        exec("cat marker.txt; pwd; exit 3"),
        exec("echo to stderr >&2"),
        Step::Call("exec_command", json!({"cmd": "pwd", "workdir": "/there"})),
        exec("kill -9 $$"),
        exec("no-such-program-anywhere"),
        exec("true"),
        exec("seq 1 30000 | tail -n +29999; printf '\\342\\202\\254'"),
        exec("cat; echo read to the end"),
        exec("tr a-z A-Z <<< 'it is bash'"),
        Step::Call("exec_command", json!({"cmd": "pwd", "workdir": "/no/such/directory"})),
    ];
    let came = here.answers(&steps);
    assert_ended(&came[0], 3, &format!("the environment's\n{}\n", here.cwd.display()));
    assert_ended(&came[1], 0, "to stderr\n");
    assert_ended(&came[2], 0, "/there\n");
    assert_ended(&came[3], 137, "");
    assert!(came[4].contains("Process exited with code 127"), "{}", came[4]);
    assert_ended(&came[5], 0, "");
    assert_ended(&came[6], 0, "29999\n30000\n\u{20ac}");
    assert_ended(&came[7], 0, "read to the end\n");
    assert_ended(&came[8], 0, "IT IS BASH\n");
    assert!(came[9].contains("no such file or directory"), "{}", came[9]);
}

#[test]
fn the_variables_are_the_environments_own_and_those_of_codex() {
    const NAME: &str = "the_variables_are_the_environments_own_and_those_of_codex";
    let Some(here) = Here::new(NAME) else { return };
    let Some(_there) = here.there(NAME, &[]) else { return };
    let came = here.answers(&[exec("env")]);
    let value = |name: &str| {
        let start = format!("{name}=");
        came[0].lines().find_map(|line| line.strip_prefix(&start))
    };
    assert_eq!(value("HOME"), Some("/there"), "{}", came[0]);
    assert_eq!(value("TERM"), Some("dumb"));
    assert_eq!(value("PAGER"), Some("cat"));
    assert_eq!(value("CODEX_CI"), Some("1"));
    assert!(value("CODEX_THREAD_ID").is_some_and(|id| !id.is_empty()));
    assert_eq!(value("A_SECRET_OF_THE_HOST"), None);
    assert!(!came[0].contains("TA_EXEC") && !came[0].contains(TOKEN), "{}", came[0]);
}

#[test]
fn a_terminal_is_written_to_and_interrupted() {
    const NAME: &str = "a_terminal_is_written_to_and_interrupted";
    let Some(here) = Here::new(NAME) else { return };
    let Some(_there) = here.there(NAME, &[]) else { return };
    let victim = Victim::new();
    let line = format!("stty size; read line; echo got $line; exec {}", victim.command());
    let write = |chars: &str| json!({"session_id": SESSION, "chars": chars, "yield_time_ms": 1000});
    let steps = [
        Step::Call("exec_command", json!({"cmd": line, "tty": true, "yield_time_ms": 1000})),
        Step::Call("write_stdin", write("hello\n")),
        Step::Call("write_stdin", write("\u{3}")),
    ];
    let came = here.answers(&steps);
    for (answer, output) in came.iter().zip(["24 80\r\n", "hello\r\ngot hello\r\n"]) {
        assert!(answer.contains("Process running with session ID "), "{answer:?}");
        assert!(answer.ends_with(&format!("Output:\n{output}")), "{answer:?}");
    }
    assert!(came[2].contains("\nProcess exited with code "), "{:?}", came[2]);
    assert!(came[2].ends_with("Output:\n^C"), "{:?}", came[2]);
    victim.await_gone();
}

/// With Codex's own server it looks like a command that still runs, after all the time that Codex
/// waits for one.
#[test]
fn a_command_that_leaves_a_job_behind_returns_at_once() {
    const NAME: &str = "a_command_that_leaves_a_job_behind_returns_at_once";
    let Some(here) = Here::new(NAME) else { return };
    let Some(_there) = here.there(NAME, &[]) else { return };
    let victim = Victim::new();
    let job =
        |line: &str| Step::Call("exec_command", json!({"cmd": line, "yield_time_ms": 30_000}));
    let steps = [
        job(&format!("{} & echo it has begun", victim.command())),
        exec("echo and what comes after"),
    ];
    let model = Model::that(&steps);
    let took = here.session(&model).finish();
    let came = model.answers();
    assert_ended(&came[0], 0, "it has begun\n");
    assert_ended(&came[1], 0, "and what comes after\n");
    assert!(took < Duration::from_secs(25), "{took:?}");
}

/// Not with its command, and not because Codex says `terminate` when a command is over.
#[test]
fn a_job_in_the_background_goes_on_until_its_session_is_over() {
    const NAME: &str = "a_job_in_the_background_goes_on_until_its_session_is_over";
    let Some(here) = Here::new(NAME) else { return };
    let Some(_there) = here.there(NAME, &["--codex-resume", "1"]) else { return };
    let (job, last) = (Victim::new(), Victim::new());
    let steps = [
        exec(&format!("{} & echo it has begun", job.command())),
        exec("echo one more"),
        Step::Call("exec_command", json!({"cmd": last.command(), "yield_time_ms": 250})),
        exec("sleep 1"),
    ];
    let model = Model::that(&steps);
    let session = here.session(&model);
    eventually(DEADLINE, "the last command runs", || last.count() > 0);
    job.assert_alive();
    session.finish();
    assert_ended(&model.answers()[0], 0, "it has begun\n");
    job.await_gone();
    last.await_gone();
}

/// SIGKILL tells nobody anything.
#[test]
fn a_codex_that_is_killed_leaves_nothing_there() {
    const NAME: &str = "a_codex_that_is_killed_leaves_nothing_there";
    let Some(here) = Here::new(NAME) else { return };
    let Some(_there) = here.there(NAME, &["--codex-resume", "0"]) else { return };
    let (foreground, background) = (Victim::new(), Victim::new());
    let (own, other) = (foreground.command(), background.command());
    let line = format!("setsid {other} & trap '' TERM HUP; {own} & wait");
    let model = Model::that(&[exec(&line)]);
    let session = here.session(&model);
    for victim in [&foreground, &background] {
        eventually(DEADLINE, "the command runs", || victim.count() > 0);
    }
    drop(session);
    foreground.await_gone();
    background.await_gone();
}
