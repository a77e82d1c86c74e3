//! `timeoutMs`, `graceMs` and what has escaped.

use std::time::Duration;

use serde_json::json;

use super::{Escaped, await_all_gone, ways};
use crate::support::{DEADLINE, Victim, best_of_three, over_both};

#[test]
fn a_timeout_takes_what_has_escaped_in_whatever_way() {
    over_both(|peer| {
        let all = Escaped::timed(peer, &ways::all(), &json!({}));
        for one in &all {
            assert!(peer.finish_within(&one.running, 4 * DEADLINE).is("timedOut"), "{}", one.name);
        }
        await_all_gone(&all);
    });
}

#[test]
fn a_timeout_with_a_grace_takes_it_too() {
    over_both(|peer| {
        let params = json!({"graceMs": 500});
        let all = Escaped::timed(peer, &ways::all_that_bear_a_mark(), &params);
        for one in &all {
            let done = peer.finish_within(&one.running, 4 * DEADLINE);
            assert!(done.is("timedOut"), "{}", one.name);
            assert_eq!(done.signal(), Some("SIGTERM"), "{}", one.name);
        }
        await_all_gone(&all);
    });
}

#[test]
fn the_answer_comes_at_the_deadline_though_much_has_escaped() {
    over_both(|peer| {
        for (grace, due) in [(0, 1_000), (300, 1_300)] {
            let limit = Duration::from_millis(due + 250);
            best_of_three(limit, "a timeout of 1 s", || {
                let victim = Victim::new();
                let command = "trap '' TERM; for i in 1 2 3 4 5 6 7 8; do (setsid sleep $N &); done
                    sleep $N; :";
                let running = peer.start_exec(json!({
                    "command": command, "timeoutMs": 1_000, "graceMs": grace,
                    "env": {"N": victim.argument()},
                }));
                victim.await_alive();
                let done = peer.finish(&running);
                assert!(done.is("timedOut"));
                super::assert_gone(&victim, "eight daemons");
                done.elapsed
            });
        }
    });
}

/// The leader has gone long before, and what it has left holds the output.
#[test]
fn a_timeout_takes_what_holds_the_output_from_a_session_of_its_own() {
    over_both(|peer| {
        let command = "(setsid sh -c 'sleep $N & while :; do echo x; sleep 0.02; done' &); exit 3";
        // A busy machine may stretch one of the pauses to 100 ms, and then it is over before.
        let timed_out = (0..5).any(|_| {
            let victim = Victim::new();
            let params = json!({
                "command": command, "timeoutMs": 1_000, "env": {"N": victim.argument()},
            });
            let done = peer.exec(params);
            assert_eq!(done.code(), Some(3));
            if done.is("timedOut") {
                super::assert_gone(&victim, "what holds the output");
            }
            done.is("timedOut")
        });
        assert!(timed_out, "what holds the output does not keep the command running");
    });
}
