//! What a person runs by `!`, and what they break off: through pi's RPC mode.

use std::io::Write as _;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc;
use std::time::Instant;

use serde_json::{Value, json};

use super::there::{PROJECT, There};
use super::{DEADLINE, Here, Model, Pi, asked, await_alive, bash, lines, text};
use crate::support::procfs::{children, state};
use crate::support::{Victim, eventually};

/// A pi that is told what to do on stdin. Dropped, it is killed and reaped.
pub(super) struct Rpc {
    pub(super) child: Child,
    stdin: ChildStdin,
    events: mpsc::Receiver<Value>,
}

impl Rpc {
    pub(super) fn start(here: &Here, pi: &Pi, model: &Model, there: &There) -> Self {
        let mut command = here.extended(pi, model);
        command.envs(there.variables()).args(["--mode", "rpc"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let events = lines(child.stdout.take().unwrap());
        Self { child, stdin, events }
    }

    pub(super) fn send(&mut self, command: &Value) {
        writeln!(self.stdin, "{command}").unwrap();
    }

    /// The next event for which this holds.
    #[track_caller]
    pub(super) fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + DEADLINE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let event = self.events.recv_timeout(left);
            let event = event.unwrap_or_else(|error| panic!("no {what}: {error}"));
            if holds(&event) {
                return event;
            }
        }
    }

    #[track_caller]
    pub(super) fn answer(&self, id: &str) -> Value {
        let answer = self.until(id, |event| event["type"] == "response" && event["id"] == id);
        assert_eq!(answer["success"], true, "{answer}");
        answer["data"].clone()
    }
}

impl Drop for Rpc {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_persons_commands_run_there() {
    const NAME: &str = "a_persons_commands_run_there";
    let Some(versions) = Pi::all(NAME) else { return };
    let Some(there) = There::start(NAME) else { return };
    for pi in versions {
        let (here, model) = (Here::new(), Model::that(&[]));
        let before = here.files();
        let mut rpc = Rpc::start(&here, &pi, &model, &there);
        let mut run = |command: &str| {
            rpc.send(&json!({"id": command, "type": "bash", "command": command}));
            rpc.answer(command)
        };
        let done = run("pwd; cat marker.txt; exit 4");
        assert_eq!(done["output"], format!("{PROJECT}\nthe environment's\n"), "{}", pi.version);
        assert_eq!(done["exitCode"], 4);
        assert_eq!(done["cancelled"], false);
        let done = run("env");
        let output = done["output"].as_str().unwrap();
        assert!(output.contains("HOME=/there\n") && !output.contains("SECRET"), "{output}");

        // So much that pi would keep it on this machine.
        let done = run("seq 1 100000; echo the end");
        let output = done["output"].as_str().unwrap().trim_end();
        assert!(output.starts_with("1\n2\n") && output.ends_with("100000\nthe end"), "{output}");
        let note = "[... 100001 lines in all. Full output: ";
        let (_, name) = output.split_once(note).expect("a note of where all is");
        let (name, _) = name.split_once(" ...]").unwrap();
        assert_eq!(there.read(name).lines().count(), 100_001);
        // Not so much, but more than is shown as it comes.
        let done = run("seq 1 1990");
        assert!(done["output"].as_str().unwrap().lines().eq((1..=1990).map(|it| it.to_string())));
        // The extension goes on, or begins anew, with another session.
        rpc.send(&json!({"id": "new", "type": "new_session"}));
        rpc.answer("new");
        rpc.send(&json!({"id": "again", "type": "bash", "command": "cat marker.txt"}));
        assert_eq!(rpc.answer("again")["output"], "the environment's\n", "{}", pi.version);
        assert_eq!(here.files(), before);
        assert_eq!(here.outputs(), [""; 0]);
    }
}

#[test]
fn a_persons_command_is_shown_as_it_runs_and_ends_when_it_is_broken_off() {
    const NAME: &str = "a_persons_command_is_shown_as_it_runs_and_ends_when_it_is_broken_off";
    let Some(versions) = Pi::all(NAME) else { return };
    let Some(there) = There::start(NAME) else { return };
    for pi in versions {
        let (here, model, victim) = (Here::new(), Model::that(&[]), Victim::new());
        let mut rpc = Rpc::start(&here, &pi, &model, &there);
        let command = format!("trap '' TERM; echo it has begun; {} & wait", victim.command());
        rpc.send(&json!({"id": "run", "type": "bash", "command": command}));
        await_alive(&victim);
        if !pi.is_old() {
            rpc.until("output", |event| {
                event["type"] == "bash_execution_update" && event["delta"] == "it has begun\n"
            });
        }
        rpc.send(&json!({"id": "abort", "type": "abort_bash"}));
        let done = rpc.answer("run");
        assert_eq!(done["cancelled"], true, "{done}");
        assert_eq!(done["output"], "it has begun\n");
        victim.await_gone();
    }
}

#[test]
fn a_turn_that_is_broken_off_ends_its_commands() {
    const NAME: &str = "a_turn_that_is_broken_off_ends_its_commands";
    let Some(versions) = Pi::all(NAME) else { return };
    let Some(there) = There::start(NAME) else { return };
    for pi in versions {
        let victim = Victim::new();
        let step = bash(&format!("echo it has begun; {} & wait", victim.command()));
        let (here, model) = (Here::new(), Model::that(&[vec![step]]));
        let mut rpc = Rpc::start(&here, &pi, &model, &there);
        rpc.send(&json!({"id": "ask", "type": "prompt", "message": "do it"}));
        rpc.until("update", |event| {
            let shown = text(&event["partialResult"]["content"]);
            event["type"] == "tool_execution_update" && shown == "it has begun\n"
        });
        victim.await_alive();
        rpc.send(&json!({"id": "abort", "type": "abort"}));
        let end = rpc.until("end of the tool", |event| event["type"] == "tool_execution_end");
        assert_eq!(end["isError"], true, "{end}");
        let told = text(&end["result"]["content"]);
        assert_eq!(told, "it has begun\n\n\nCommand aborted", "{}", pi.version);
        victim.await_gone();
    }
}

/// SIGKILL tells nobody anything; SIGTERM lets pi say goodbye.
#[test]
fn a_pi_that_is_killed_leaves_nothing_there() {
    const NAME: &str = "a_pi_that_is_killed_leaves_nothing_there";
    let Some(versions) = Pi::all(NAME) else { return };
    let Some(there) = There::start(NAME) else { return };
    for pi in versions {
        for signal in [libc::SIGKILL, libc::SIGTERM] {
            let (foreground, background) = (Victim::new(), Victim::new());
            let step = bash(&format!(
                "setsid {} & trap '' TERM HUP; {} & wait",
                background.command(),
                foreground.command()
            ));
            let (here, model) = (Here::new(), Model::that(&[vec![step]]));
            let mut command = here.extended(&pi, &model);
            command.envs(there.variables());
            asked(&mut command);
            let mut child = command.stdout(Stdio::null()).spawn().unwrap();
            await_alive(&foreground);
            await_alive(&background);
            let connections = children(child.id());
            assert_eq!(connections.len(), 1, "one `ta connect`");
            crate::support::sys::signal(child.id(), signal).unwrap();
            foreground.await_gone();
            background.await_gone();
            eventually(DEADLINE, "its child is gone", || state(connections[0]) == "gone");
            assert!(crate::support::server::wait(&mut child, DEADLINE).is_some());
        }
    }
}
