//! `ta mcp`: one stdio server on an environment, as the command of an agent's config.

mod real;

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use serde_json::json;

use crate::serve::{Agent, Place, over_both, script};
use crate::support::{DEADLINE, Victim, eventually, lacks, procfs, sys, unique};

/// A server there, known by its mark.
struct Fake {
    mark: String,
}

impl Fake {
    fn new() -> Self {
        Self { mark: format!("mark-{}", unique()) }
    }

    fn start(&self, place: &Place, options: &[&str], modes: &[&str]) -> Agent {
        let fake = script("fake.py");
        let command = ["--", "python3", fake.to_str().unwrap(), &self.mark];
        let mut command = place.ta("mcp", &[options, &command, modes].concat());
        command.env("NAMED", "by the agent").env("UNNAMED", "a key of the host");
        Agent::start(command)
    }

    fn pids(&self) -> Vec<u32> {
        let has_it = |pid: &u32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = line.split(|byte| *byte == 0);
            // (`ta` itself is told the mark, too.)
            words.next().is_some_and(|program| program.ends_with(b"python3"))
                && words.any(|word| word == self.mark.as_bytes())
        };
        procfs::all_pids().filter(has_it).collect()
    }

    #[track_caller]
    fn await_gone(&self) {
        eventually(Duration::from_secs(5), "the server is gone", || self.pids().is_empty());
    }
}

#[test]
fn messages_pass_and_roots_are_the_environment_s() {
    if lacks("messages_pass_and_roots_are_the_environment_s", "python3") {
        return;
    }
    over_both(|place| {
        let fake = Fake::new();
        let mut agent = fake.start(place, &[], &[]);
        assert_eq!(agent.hello()["serverInfo"]["name"], "fake");
        let long = "zeile \u{e9}\n".repeat(1_200_000);
        let echoed = agent.call("echo", &json!({"text": long}));
        assert!(echoed.as_deref() == Ok(&long), "more than 10 MB came back as another text");
        let root = format!("file://{}", place.path().display());
        assert_eq!(agent.call("roots", &json!({})), Ok(root));
        assert_eq!(agent.told, [] as [serde_json::Value; 0], "the agent was asked for nothing");
        assert_eq!(agent.stderr.text(), "ready to serve\n");
        agent.close();
        fake.await_gone();
    });
}

#[test]
fn only_the_variables_that_are_named_are_passed_on() {
    if lacks("only_the_variables_that_are_named_are_passed_on", "python3") {
        return;
    }
    over_both(|place| {
        let options = ["--env", "NAMED", "--env", "SET=here", "--cwd", "sub"];
        std::fs::create_dir(place.dir.join("sub")).unwrap();
        let mut agent = Fake::new().start(place, &options, &[]);
        agent.hello();
        for (name, value) in [
            ("NAMED", "by the agent"),
            ("SET", "here"),
            ("UNNAMED", "(unset)"),
            ("TA_EXEC_TOKEN", "(unset)"),
            ("TA_EXEC_URL", "(unset)"),
        ] {
            // (Over `--via` this machine's own variables are those of the environment.)
            if name == "UNNAMED" && place.is_via() {
                continue;
            }
            let seen = agent.call("get env", &json!({"name": name}));
            assert_eq!(seen.as_deref(), Ok(value), "{name}");
        }
        let sub = place.dir.join("sub");
        assert_eq!(agent.call("cwd", &json!({})).as_deref(), Ok(sub.to_str().unwrap()));
        assert_eq!(agent.call("roots", &json!({})), Ok(format!("file://{}", sub.display())));
        agent.close();
    });
}

#[test]
fn the_exit_code_is_the_server_s() {
    over_both(|place| {
        let code = |args: &[&str]| {
            let done = place.ta("mcp", args).output().unwrap();
            (done.status.code(), String::from_utf8(done.stderr).unwrap())
        };
        assert_eq!(code(&["--", "sh", "-c", "echo bye >&2; exit 7"]), (Some(7), "bye\n".into()));
        assert_eq!(code(&["--", "sh", "-c", "kill -9 $$"]).0, Some(137));
        let none = format!("no-such-program-{}", unique());
        let (missing, says) = code(&["--", &none]);
        assert!(missing == Some(127) && says.contains(&none), "{missing:?} {says}");
        assert_eq!(code(&["--", "/etc/passwd"]).0, Some(126));
        assert_eq!(code(&[]).0, Some(125));
        let output = place.ta("mcp", &["sh", "-c", "printf 'no end'"]).output().unwrap();
        assert_eq!(output.stdout, b"no end");
    });
}

#[test]
fn a_server_that_does_not_end_with_its_stdin_is_ended() {
    if lacks("a_server_that_does_not_end_with_its_stdin_is_ended", "python3") {
        return;
    }
    over_both(|place| {
        for (mode, code) in [("lingers", 143), ("stays", 137)] {
            let fake = Fake::new();
            let mut agent = fake.start(place, &[], &[mode]);
            agent.hello();
            assert_eq!(fake.pids().len(), 1, "it runs");
            agent.close_stdin();
            assert_eq!(agent.exit(DEADLINE).code(), Some(code), "{mode}");
            fake.await_gone();
        }
    });
}

#[test]
fn a_signal_ends_the_server_and_then_ta() {
    if lacks("a_signal_ends_the_server_and_then_ta", "python3") {
        return;
    }
    over_both(|place| {
        for mode in ["lingers", "stays"] {
            let fake = Fake::new();
            let mut agent = fake.start(place, &[], &[mode]);
            agent.hello();
            assert_eq!(fake.pids().len(), 1, "it runs");
            sys::signal(agent.child.id(), libc::SIGTERM).unwrap();
            assert_eq!(agent.exit(DEADLINE).signal(), Some(libc::SIGTERM), "{mode}");
            fake.await_gone();
        }
    });
}

#[test]
fn killed_it_leaves_nothing() {
    over_both(|place| {
        let victims = [Victim::new(), Victim::new()];
        let line = format!("setsid {} & {}", victims[0].command(), victims[1].command());
        let agent = Agent::start(place.ta("mcp", &["--", "sh", "-c", &line]));
        for victim in &victims {
            victim.await_alive();
        }
        sys::signal(agent.child.id(), libc::SIGKILL).unwrap();
        victims.iter().for_each(Victim::await_gone);
    });
}

#[test]
fn it_fences_nobody_unless_it_is_told_an_epoch() {
    let place = Place::websocket();
    let (victim, other) = (Victim::new(), Victim::new());
    let run = |options: &[&str], victim: &Victim| {
        let mut words = options.to_vec();
        words.extend(["--", "sleep", victim.argument()]);
        let agent = Agent::start(place.ta("mcp", &words));
        victim.await_alive();
        agent
    };
    let _first = run(&["--epoch", "1000"], &victim);
    let mut second = run(&[], &other);
    victim.assert_alive();
    let _third = run(&["--epoch", "2000"], &Victim::new());
    victim.await_gone();
    other.assert_alive();
    second.close_stdin();
    other.await_gone_within(DEADLINE);
}
