//! Programs that live on.

use std::time::{Duration, Instant};

use ta_exec::protocol::SpawnParams;
use ta_exec::{ErrorKind, StartStep};

use super::{await_output, finish, over_all, told};
use crate::support::{DEADLINE, eventually, procfs};

fn sh(script: &str) -> SpawnParams {
    SpawnParams::new("sh").arg("-c").arg(script)
}

#[test]
fn what_is_written_is_read_and_eof_ends_it() {
    over_all(|environment| {
        let process = environment.spawn(&SpawnParams::new("cat")).unwrap();
        let control = process.control();
        control.write(b"one\n", false).unwrap();
        let mut stdin = control.stdin();
        stdin.write(b"two\n").unwrap();
        stdin.close().unwrap();
        finish(process).unwrap()
    });
}

#[test]
fn both_outputs_come_each_as_its_own() {
    over_all(|environment| finish(environment.spawn(&sh("echo a; echo b >&2; exit 7")).unwrap()));
}

#[test]
fn its_pid_is_that_of_the_process() {
    over_all(|environment| {
        let process = environment.spawn(&sh("echo $$; read x")).unwrap();
        let pid = process.pid().unwrap();
        process.control().write(b"", true).unwrap();
        assert_eq!(finish(process).unwrap().stdout, format!("{pid}\n"));
    });
}

#[test]
fn what_cannot_be_started_is_told_with_the_step() {
    over_all(|environment| {
        std::fs::write(environment.cwd().join("plain"), "no program").unwrap();
        let refused = |params: &SpawnParams| told(environment, environment.spawn(params));
        let mut elsewhere = SpawnParams::new("true");
        elsewhere.cwd = Some("nope".to_owned());
        let all = [
            refused(&SpawnParams::new("no-such-program")),
            refused(&SpawnParams::new("./nope")),
            refused(&SpawnParams::new("./plain")),
            refused(&SpawnParams::new("/")),
            refused(&elsewhere),
            refused(&SpawnParams::new("")),
            refused(&SpawnParams::new("true").arg("a\0b")),
            refused(&SpawnParams::new("true").arg("x".repeat(200_000))),
        ];
        let steps = all[..5].iter().map(|told| told.step);
        let exec = Some(StartStep::Exec);
        assert_eq!(steps.collect::<Vec<_>>(), [exec, exec, exec, exec, Some(StartStep::Cwd)]);
        assert_eq!(all[0].kind, ErrorKind::Os(libc::ENOENT));
        assert_eq!(all[2].kind, ErrorKind::Os(libc::EACCES));
        all
    });
}

#[test]
fn a_kill_with_grace_asks_first_and_then_ends_it() {
    over_all(|environment| {
        let deaf = sh("trap '' TERM; echo up; while :; do sleep 0.05; done");
        let mut process = environment.spawn(&deaf).unwrap();
        await_output(&mut process, "up");
        let start = Instant::now();
        let grace = Duration::from_millis(300);
        assert!(process.control().kill("TERM", Some(grace)).unwrap());
        let deaf = finish(process).unwrap();
        assert!(start.elapsed() >= grace && start.elapsed() < DEADLINE);
        let polite = sh("trap 'echo bye; exit 4' TERM; echo up; while :; do sleep 0.05; done");
        let mut process = environment.spawn(&polite).unwrap();
        await_output(&mut process, "up");
        assert!(process.control().kill("SIGTERM", Some(2 * DEADLINE)).unwrap());
        let polite = finish(process).unwrap();
        (deaf.exit, polite.stdout, polite.exit.exit_code)
    });
}

#[test]
fn after_its_end_there_is_nothing_to_write_to_or_to_signal() {
    over_all(|environment| {
        let params = SpawnParams::new("true");
        let process = environment.spawn(&params).unwrap();
        let control = process.control();
        finish(process).unwrap();
        let late = told(environment, control.write(b"late", false));
        assert_eq!(late.kind, ErrorKind::UnknownProcess);
        let message = late.message.replace(params.process_id.as_str(), "ID");
        (message, control.kill("KILL", None).unwrap())
    });
}

#[test]
fn a_closed_stdin_takes_no_more() {
    over_all(|environment| {
        let params = sh("exec <&-; echo closed; sleep 60");
        let mut process = environment.spawn(&params).unwrap();
        let control = process.control();
        await_output(&mut process, "closed");
        // (What is being started elsewhere in this program may have its other end for a moment.)
        let mut refused = Ok(());
        eventually(DEADLINE, "it is refused", || {
            refused = control.write(b"x", false);
            refused.is_err()
        });
        let refused = told(environment, refused);
        control.abort();
        finish(process).unwrap();
        (refused.kind, refused.message.replace(params.process_id.as_str(), "ID"))
    });
}

#[test]
fn a_process_that_was_dropped_lives_on() {
    over_all(|environment| {
        let process = environment.spawn(&SpawnParams::new("sleep").arg("60")).unwrap();
        let (pid, control) = (u32::try_from(process.pid().unwrap()).unwrap(), process.control());
        drop(process);
        assert_ne!(procfs::state(pid), "gone");
        assert!(control.kill("KILL", None).unwrap());
        eventually(DEADLINE, "it is gone", || procfs::state(pid) == "gone");
    });
}
