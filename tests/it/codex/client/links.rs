//! A connection that breaks, and one that is not made.

use serde_json::json;

use crate::codex::here::{DEADLINE, Here};
use crate::codex::model::{Model, Step, exec};
use crate::support::{Victim, eventually};

/// The command goes on, and nothing of what it says is lost or told twice.
#[test]
fn a_socket_that_is_cut_in_the_middle_of_a_command_is_made_anew() {
    const NAME: &str = "a_socket_that_is_cut_in_the_middle_of_a_command_is_made_anew";
    let Some(here) = Here::new(NAME) else { return };
    let Some(there) = here.there(NAME, &[]) else { return };
    let line = "echo begun >begun; for n in $(seq 1 40); do echo line $n; sleep 0.05; done; exit 5";
    let command = json!({"cmd": line, "yield_time_ms": 30_000});
    let model = Model::that(&[Step::Call("exec_command", command), exec("cat marker.txt")]);
    let session = here.session(&model);
    let begun = there.path(&here.path("begun"));
    eventually(DEADLINE, "the command runs", || begun.exists());
    there.proxy.cut();
    session.finish();
    assert!(there.proxy.count() >= 2, "it was never cut");
    let came = model.answers();
    let lines: String = (1..=40).map(|number| format!("line {number}\n")).collect();
    assert!(came[0].contains("Process exited with code 5"), "{:?}", came[0]);
    assert!(came[0].ends_with(&format!("Output:\n{lines}")), "{:?}", came[0]);
    assert!(came[1].ends_with("the environment's\n"), "{:?}", came[1]);
}

#[test]
fn with_a_wrong_token_nothing_runs_anywhere() {
    const NAME: &str = "with_a_wrong_token_nothing_runs_anywhere";
    let Some(here) = Here::new(NAME) else { return };
    let Some(there) = here.there(NAME, &[]) else { return };
    here.reached_at(&format!("ws://{}", there.proxy.address), "wrong");
    let before = here.files();
    let model = Model::that(&[exec("touch it-ran")]);
    here.session(&model).finish();
    let came = model.answers();
    assert!(came[0].contains("No usable execution environment is available"), "{came:?}");
    assert_eq!(here.files(), before);
    assert!(!there.path(&here.path("it-ran")).exists());
    let log = &there.there.server.as_ref().unwrap().log;
    assert!(!log.text().contains("wrong"), "the token is in the log: {}", log.text());
}

/// Whatever Codex makes of it.
#[test]
fn a_server_that_goes_away_ends_its_commands() {
    const NAME: &str = "a_server_that_goes_away_ends_its_commands";
    let Some(here) = Here::new(NAME) else { return };
    let Some(mut there) = here.there(NAME, &[]) else { return };
    let victim = Victim::new();
    let long = json!({"cmd": victim.command(), "yield_time_ms": 250});
    let model = Model::that(&[Step::Call("exec_command", long)]);
    let session = here.session(&model);
    eventually(DEADLINE, "the command runs", || victim.count() > 0);
    drop(there.there.server.take());
    victim.await_gone();
    drop(session);
}
