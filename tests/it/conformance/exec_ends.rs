//! Command lines: how they end.

use std::num::NonZeroU64;
use std::thread;
use std::time::{Duration, Instant};

use ta_exec::protocol::ExecParams;

use super::{await_output, finish, over_all, run, shell, told};
use crate::support::{DEADLINE, Victim};

fn timed(line: &str, timeout: u64, grace: Option<u64>) -> ExecParams {
    let mut params = ExecParams::new(line);
    params.timeout_ms = NonZeroU64::new(timeout);
    params.grace_ms = grace;
    params
}

#[test]
fn when_its_time_is_up_it_ends_and_what_it_wrote_has_come() {
    over_all(|environment| {
        let start = Instant::now();
        let ran = run(environment, &timed("echo before; sleep 60", 1500, None));
        assert!(ran.exit.timed_out && start.elapsed() < DEADLINE, "{ran:?}");
        ran
    });
}

#[test]
fn a_grace_lets_it_say_goodbye() {
    over_all(|environment| {
        let line = "trap 'echo bye; exit 3' TERM; sleep 60 & wait";
        let ran = run(environment, &timed(line, 1500, Some(8000)));
        assert_eq!((ran.stdout.as_str(), ran.exit.exit_code), ("bye\n", Some(3)));
        ran
    });
}

#[test]
fn after_the_grace_it_is_killed() {
    over_all(|environment| {
        let ran =
            run(environment, &timed("trap '' TERM; sleep 60 & wait; sleep 60", 800, Some(300)));
        assert!(ran.exit.timed_out && ran.exit.exit_code.is_none(), "{ran:?}");
        ran
    });
}

#[test]
fn an_abort_from_another_thread_ends_it_with_all_that_came_of_it() {
    over_all(|environment| {
        let victim = Victim::new();
        let line = format!("setsid {} & echo up; sleep 60", victim.command());
        let mut process = environment.exec(&ExecParams::new(line)).unwrap();
        await_output(&mut process, "up");
        victim.await_alive();
        let control = process.control();
        let abort = thread::Builder::new().spawn(move || control.abort()).unwrap();
        let ran = finish(process).unwrap();
        abort.join().unwrap();
        assert!(ran.exit.killed && !ran.exit.timed_out);
        victim.await_gone();
        (ran.exit.signal, ran.exit.exit_code)
    });
}

#[test]
fn a_signal_reaches_it_and_a_wrong_name_is_told() {
    over_all(|environment| {
        let line = "trap 'echo usr1; exit 9' USR1; echo up; while :; do sleep 0.05; done";
        let mut process = environment.exec(&ExecParams::new(line)).unwrap();
        await_output(&mut process, "up");
        let control = process.control();
        let wrong = told(environment, control.kill("NOPE", None));
        assert!(control.kill("USR1", None).unwrap());
        let ran = finish(process).unwrap();
        let late = control.kill("SIGTERM", None).unwrap();
        (wrong, ran.stdout, ran.exit.exit_code, ran.exit.killed, late)
    });
}

#[test]
fn output_that_a_descendant_holds_does_not_hold_the_end_up() {
    over_all(|environment| {
        let start = Instant::now();
        let ran = shell(environment, "sleep 30 & echo done");
        assert!(ran.exit.output_held && start.elapsed() < Duration::from_secs(8));
        ran
    });
}
