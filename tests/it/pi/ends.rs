//! An environment that cannot be reached, or no longer: nothing is done on this machine instead.

use std::fs;

use serde_json::{Value, json};

use super::there::There;
use super::user::Rpc;
use super::{Here, Model, Pi, SAID, asked, await_alive, bash, call, finish, text};
use crate::support::{ClosedPort, DEADLINE, Victim, eventually, sys};

/// Every tool, each with something that would be seen on this machine.
fn all_tools(here: &Here) -> Vec<Value> {
    let path = |name: &str| here.cwd.join(name);
    let edits = json!([{"oldText": "host", "newText": "nobody"}]);
    vec![
        bash("echo it ran >ran; cat marker.txt"),
        call("read", json!({"path": "marker.txt"})),
        call("read", json!({"path": path("marker.txt")})),
        call("write", json!({"path": "written", "content": "x"})),
        call("write", json!({"path": path("written"), "content": "x"})),
        call("edit", json!({"path": "marker.txt", "edits": edits})),
        call("edit", json!({"path": path("marker.txt"), "edits": edits})),
        call("ls", json!({})),
        call("find", json!({"pattern": "*"})),
        call("grep", json!({"pattern": "host"})),
    ]
}

#[track_caller]
fn all_fail(pi: &Pi, variables: &[(&str, &str)], why: &str) {
    let here = Here::new();
    fs::write(here.cwd.join("AGENTS.md"), "instructions of the host").unwrap();
    let before = here.files();
    let calls = all_tools(&here);
    let model = Model::that(std::slice::from_ref(&calls));
    let mut command = here.extended(pi, &model);
    command.envs(variables.iter().copied());
    asked(&mut command);
    let done = finish(command);
    assert_eq!(done.stdout.trim(), SAID);
    assert!(done.stderr.contains(why), "{}", done.stderr);
    let sent = model.sent();
    let answers = sent.answers();
    assert_eq!(answers.len(), calls.len());
    for (answer, call) in answers.iter().zip(&calls) {
        let told = answer.contains("the environment cannot be reached") && answer.contains(why);
        assert!(told, "{}: {call}: {answer}", pi.version);
    }
    let prompt = sent.prompt();
    assert!(!prompt.contains("instructions of the host"), "{prompt}");
    assert!(!prompt.contains(here.cwd.to_str().unwrap()), "{prompt}");
    assert_eq!(here.files(), before);
}

#[test]
fn where_the_environment_cannot_be_reached_everything_fails() {
    const NAME: &str = "where_the_environment_cannot_be_reached_everything_fails";
    let Some(versions) = Pi::all(NAME) else { return };
    let closed = ClosedPort::new();
    let url = format!("ws://127.0.0.1:{}/exec", closed.port);
    for pi in versions {
        all_fail(&pi, &[("TA_EXEC_URL", &url)], "connection refused");
    }
}

#[test]
fn where_no_environment_is_named_everything_fails() {
    const NAME: &str = "where_no_environment_is_named_everything_fails";
    let Some(versions) = Pi::all(NAME) else { return };
    for pi in versions {
        all_fail(&pi, &[], "none is named (--ta-exec URL");
    }
}

#[test]
fn where_there_is_no_ta_everything_fails() {
    const NAME: &str = "where_there_is_no_ta_everything_fails";
    let Some(pi) = Pi::new(NAME) else { return };
    let variables = [("TA_EXEC_URL", "ws://127.0.0.1:9/exec"), ("TA_BIN", "/no/such/ta")];
    all_fail(&pi, &variables, "cannot start /no/such/ta");
}

/// The model is told what there was, and that it may not be all.
#[test]
fn a_connection_that_is_lost_ends_the_command_and_is_made_anew() {
    const NAME: &str = "a_connection_that_is_lost_ends_the_command_and_is_made_anew";
    let Some(versions) = Pi::all(NAME) else { return };
    for pi in versions {
        let Some(there) = There::start(NAME) else { return };
        let victim = Victim::new();
        let steps = [
            vec![bash(&format!("echo what there was; {} & wait", victim.command()))],
            vec![bash("cat marker.txt"), call("read", json!({"path": "marker.txt"}))],
        ];
        let (here, model) = (Here::new(), Model::that(&steps));
        let mut rpc = Rpc::start(&here, &pi, &model, &there);
        rpc.send(&json!({"id": "ask", "type": "prompt", "message": "do it"}));
        rpc.until("output", |event| {
            text(&event["partialResult"]["content"]).starts_with("what there was\n")
        });
        await_alive(&victim);
        // The one child of pi's that is a `ta`.
        let child = crate::support::procfs::children(rpc.child.id());
        sys::signal(child[0], libc::SIGKILL).unwrap();
        let is_end = |event: &Value| event["type"] == "tool_execution_end";
        let end = rpc.until("end of the command", is_end);
        let told = text(&end["result"]["content"]);
        let note = "what there was\n\n[The connection to the environment was lost: ";
        assert!(told.starts_with(note), "{}: {told}", pi.version);
        assert_eq!(end["isError"], !pi.is_old(), "{told}");
        victim.await_gone();
        for _ in 0..2 {
            let end = rpc.until("end of a call", is_end);
            assert_eq!(text(&end["result"]["content"]), "the environment's\n", "{}", pi.version);
        }
    }
}

#[test]
fn a_server_that_goes_away_fails_what_comes_after() {
    const NAME: &str = "a_server_that_goes_away_fails_what_comes_after";
    let Some(pi) = Pi::new(NAME) else { return };
    let Some(mut there) = There::start(NAME) else { return };
    let victim = Victim::new();
    let here = Here::new();
    let first = bash(&format!("echo what there was; {} & wait", victim.command()));
    let model = Model::that(&[vec![first], all_tools(&here)]);
    let before = here.files();
    let command = here.session(&pi, &model, &there);
    let session = std::thread::spawn(move || finish(command));
    await_alive(&victim);
    drop(there.server.take());
    victim.await_gone();
    assert_eq!(session.join().unwrap().stdout.trim(), SAID);
    let answers = model.sent().answers();
    let note = "what there was\n\n[The connection to the environment was lost: ";
    assert!(answers[0].starts_with(note), "{}", answers[0]);
    assert!(answers[0].ends_with("Command terminated without an exit code"), "{}", answers[0]);
    for answer in &answers[1..] {
        assert!(answer.contains("the environment cannot be reached"), "{answer}");
    }
    assert_eq!(here.files(), before);
}

/// Two of them in one environment: the one that started last has it.
#[test]
fn a_pi_that_starts_later_takes_over() {
    const NAME: &str = "a_pi_that_starts_later_takes_over";
    let Some(pi) = Pi::new(NAME) else { return };
    let Some(there) = There::start(NAME) else { return };
    let victim = Victim::new();
    let steps = [vec![bash(&victim.command())], vec![bash("cat marker.txt")]];
    let (here, model) = (Here::new(), Model::that(&steps));
    let command = here.session(&pi, &model, &there);
    let first = std::thread::spawn(move || finish(command));
    await_alive(&victim);
    let came = super::answers(&pi, &there, &[vec![bash("cat marker.txt")]]);
    assert_eq!(came, ["the environment's\n"]);
    victim.await_gone();
    first.join().unwrap();
    let answers = model.sent().answers();
    for answer in &answers {
        assert!(answer.contains("another host has taken over"), "{answers:#?}");
    }
    eventually(DEADLINE, "nothing of it is left", || victim.count() == 0);
}
