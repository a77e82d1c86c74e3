//! `timeoutMs` and `graceMs`: answered in time, and nothing is left.

use std::time::Duration;

use serde_json::json;

use crate::support::{Done, Victim, best_of_three, over_both};

#[track_caller]
fn assert_timed_out(done: &Done) {
    assert!(done.is("timedOut") && !done.is("killed"), "{}", done.result);
}

/// SIGKILL has ended it. On a machine that is too busy to have it reaped by the time that the answer
/// is due, the answer says neither code nor signal.
fn assert_killed(done: &Done, deadline: Duration) {
    let unknown = (done.code(), done.signal()) == (None, None);
    let due = done.elapsed >= deadline + Duration::from_millis(150);
    let killed = (done.code(), done.signal()) == (None, Some("SIGKILL"));
    assert!(killed || (unknown && due), "{} after {:?}", done.result, done.elapsed);
}

/// What the protocol allows on top of the deadline.
const SLACK: Duration = Duration::from_millis(250);

#[test]
fn the_answer_comes_at_the_deadline_and_not_when_the_command_would_end() {
    over_both(|peer| {
        let timeout = Duration::from_millis(500);
        best_of_three(timeout + SLACK, "an exec with a timeout of 500 ms", || {
            let done = peer.exec(json!({"command": "sleep 6", "timeoutMs": 500}));
            assert_timed_out(&done);
            assert_killed(&done, timeout);
            assert!(done.elapsed >= timeout, "{:?}", done.elapsed);
            assert!(done.elapsed < Duration::from_secs(4), "{:?}", done.elapsed);
            done.elapsed
        });
    });
}

#[test]
fn nothing_of_the_command_is_left() {
    over_both(|peer| {
        let victim = Victim::new();
        let sleep = victim.command();
        for command in [
            format!("sh -c '{sleep} & wait'"),
            format!("{sleep} & {sleep}"),
            format!("({sleep} &) ; sleep 30"),
            format!("trap '' TERM HUP INT; sh -c '{sleep}; :' | cat"),
        ] {
            let running = peer.start_exec(json!({"command": command, "timeoutMs": 500}));
            victim.await_alive();
            assert_timed_out(&peer.finish(&running));
            victim.await_gone_within(Duration::from_secs(1));
        }
    });
}

#[test]
fn what_was_written_before_the_timeout_arrives_first() {
    over_both(|peer| {
        let done = peer.exec(json!({"command": "echo a; echo b >&2; sleep 9", "timeoutMs": 400}));
        assert_timed_out(&done);
        assert_eq!((done.text().as_str(), done.errors().as_str()), ("a\n", "b\n"));
    });
}

#[test]
fn within_the_timeout_nothing_is_different() {
    over_both(|peer| {
        let done = peer.exec(json!({"command": "echo a; exit 3", "timeoutMs": 60_000}));
        assert_eq!((done.text().as_str(), done.code()), ("a\n", Some(3)));
        assert!(!done.is("timedOut") && !done.is("killed"));
    });
}

#[test]
fn an_absurd_timeout_is_only_long() {
    over_both(|peer| {
        for timeout in [9_007_199_254_740_991_u64, 1 << 40, u64::from(u32::MAX) + 1] {
            let params = json!({"command": "sleep 0.1", "timeoutMs": timeout, "graceMs": timeout});
            let done = peer.exec(params);
            done.assert_success();
            assert!(!done.is("timedOut"));
        }
    });
}

#[test]
fn with_grace_sigterm_comes_first() {
    over_both(|peer| {
        let script = "trap 'echo bye; exit 3' TERM; echo a; while :; do sleep 0.05; done";
        let params = json!({"command": script, "timeoutMs": 300, "graceMs": 9_000});
        let done = peer.exec(params);
        assert_timed_out(&done);
        assert_eq!((done.text().as_str(), done.code()), ("a\nbye\n", Some(3)));
        assert!(done.elapsed < Duration::from_secs(5), "{:?}", done.elapsed);
    });
}

#[test]
fn without_grace_there_is_no_sigterm() {
    over_both(|peer| {
        let script = "trap 'echo bye; exit 3' TERM; echo a; while :; do sleep 0.05; done";
        let done = peer.exec(json!({"command": script, "timeoutMs": 300}));
        assert_timed_out(&done);
        assert_eq!(done.text(), "a\n");
        assert_killed(&done, Duration::from_millis(300));
        let params = json!({"command": script, "timeoutMs": 300, "graceMs": 0});
        assert_timed_out(&peer.exec(params));
    });
}

#[test]
fn who_ignores_sigterm_is_killed_when_the_grace_is_over() {
    over_both(|peer| {
        let victim = Victim::new();
        let script = format!("trap '' TERM; {}", victim.command());
        let limit = Duration::from_millis(300 + 300) + SLACK;
        best_of_three(limit, "300 ms and a grace of 300 ms", || {
            let params = json!({"command": script, "timeoutMs": 300, "graceMs": 300});
            let running = peer.start_exec(params);
            victim.await_alive();
            let done = peer.finish(&running);
            assert_timed_out(&done);
            assert_killed(&done, Duration::from_millis(600));
            assert!(done.elapsed >= Duration::from_millis(600), "{:?}", done.elapsed);
            victim.await_gone_within(Duration::from_secs(1));
            done.elapsed
        });
    });
}

#[test]
fn a_child_that_ignores_sigterm_is_killed_though_its_leader_obeyed() {
    over_both(|peer| {
        let victim = Victim::new();
        let script = format!("(trap '' TERM; {}) & wait", victim.command());
        // Long enough for a busy machine to show it alive.
        let params = json!({"command": script, "timeoutMs": 1500, "graceMs": 200});
        let running = peer.start_exec(params);
        victim.await_alive();
        let done = peer.finish(&running);
        assert_timed_out(&done);
        victim.await_gone_within(Duration::from_secs(1));
    });
}

#[test]
fn a_command_that_floods_is_ended_in_time_and_its_bytes_add_up() {
    over_both(|peer| {
        let running = peer.start_exec(json!({"command": "yes", "timeoutMs": 300}));
        peer.capture(&running.process).discard = true;
        let done = peer.finish(&running);
        assert_timed_out(&done);
        assert!(done.elapsed < Duration::from_secs(3), "{:?}", done.elapsed);
        assert!(peer.capture(&running.process).received() > 0);
    });
}

/// The answer is due at the deadline whatever is still going on: here the command has exited, and
/// what it has left behind writes and writes.
#[test]
fn a_held_output_does_not_outlast_the_timeout() {
    over_both(|peer| {
        let script = "(while :; do echo x; sleep 0.02; done) & sleep 0.2";
        let limit = Duration::from_millis(500) + SLACK;
        best_of_three(limit, "a held output with a timeout of 500 ms", || {
            let done = peer.exec(json!({"command": script, "timeoutMs": 500}));
            assert!(done.elapsed < Duration::from_secs(4), "{:?}", done.elapsed);
            done.elapsed
        });
    });
}

#[test]
fn a_kill_before_the_timeout_is_a_kill() {
    over_both(|peer| {
        let victim = Victim::new();
        let params = json!({"command": victim.command(), "timeoutMs": 60_000});
        let running = peer.start_exec(params);
        victim.await_alive();
        peer.kill(&running.process);
        let done = peer.finish(&running);
        assert!(done.is("killed") && !done.is("timedOut"), "{done:?}");
    });
}

#[test]
fn twenty_timeouts_at_once_are_all_kept() {
    over_both(|peer| {
        let victim = Victim::new();
        let params = json!({"command": victim.command(), "timeoutMs": 700});
        let all: Vec<_> = (0..20).map(|_| peer.start_exec(params.clone())).collect();
        victim.await_alive();
        for running in &all {
            let done = peer.finish(running);
            assert_timed_out(&done);
            assert!(done.elapsed < Duration::from_secs(4), "{:?}", done.elapsed);
        }
        victim.await_gone_within(Duration::from_secs(1));
    });
}
