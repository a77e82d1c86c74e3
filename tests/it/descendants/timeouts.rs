//! `timeoutMs`, `graceMs` and what has escaped.

use std::time::Duration;

use serde_json::json;

use super::{Escaped, await_all_gone, ways};
use crate::support::{Victim, best_of_three, over_both};

/// Long enough for all ways to be gone on a busy machine.
const LONG: u64 = 4_000;

#[test]
fn a_timeout_takes_what_has_escaped_in_whatever_way() {
    over_both(|peer| {
        let all = Escaped::all(peer, &ways::all(), &json!({"timeoutMs": LONG}));
        for one in &all {
            assert!(peer.finish(&one.running).is("timedOut"), "{}", one.name);
        }
        await_all_gone(&all);
    });
}

#[test]
fn a_timeout_with_a_grace_takes_it_too() {
    over_both(|peer| {
        let params = json!({"timeoutMs": LONG, "graceMs": 500});
        let all = Escaped::all(peer, &ways::all_that_bear_a_mark(), &params);
        for one in &all {
            let done = peer.finish(&one.running);
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
        let victim = Victim::new();
        let command = "(setsid sh -c 'sleep $N & while :; do echo x; sleep 0.02; done' &); exit 3";
        let running = peer.start_exec(json!({
            "command": command, "timeoutMs": 1_000, "env": {"N": victim.argument()},
        }));
        victim.await_alive();
        let done = peer.finish(&running);
        assert!(done.is("timedOut"));
        assert_eq!(done.code(), Some(3));
        super::assert_gone(&victim, "what holds the output");
    });
}
