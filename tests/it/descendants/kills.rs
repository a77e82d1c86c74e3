//! `process/kill` and what has escaped.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Escaped, await_all_gone, ways};
use crate::support::{DEADLINE, Victim, base64, best_of_three, over_both};

#[test]
fn a_kill_takes_what_has_escaped_in_whatever_way_and_nothing_else() {
    over_both(|peer| {
        let mut all = Escaped::all(peer, &ways::all(), &json!({}));
        while let Some(one) = all.pop() {
            assert!(peer.kill(&one.running.process));
            one.await_gone();
            let done = peer.finish(&one.running);
            assert_eq!((done.code(), done.signal()), (None, Some("SIGKILL")), "{}", one.name);
            assert!(done.is("killed"));
            all.iter().for_each(Escaped::assert_alive);
        }
    });
}

/// The leader dies of the SIGTERM; what is not in its group never hears of that.
#[test]
fn a_grace_ends_in_sigkill_for_what_has_escaped_though_the_leader_has_obeyed() {
    over_both(|peer| {
        let all = Escaped::all(peer, &ways::all_that_bear_a_mark(), &json!({}));
        for one in &all {
            let process = &one.running.process;
            peer.ok(
                "process/kill",
                &json!({"processId": process, "signal": "TERM", "graceMs": 500}),
            );
        }
        for one in &all {
            let done = peer.finish(&one.running);
            assert_eq!(done.signal(), Some("SIGTERM"), "{}", one.name);
        }
        await_all_gone(&all);
    });
}

#[test]
fn what_has_escaped_has_all_of_the_grace() {
    over_both(|peer| {
        let one = Escaped::one(peer, &ways::ORPHANS);
        let since = Instant::now();
        let params = json!({"processId": one.running.process, "signal": "TERM", "graceMs": 700});
        peer.ok("process/kill", &params);
        peer.finish(&one.running);
        let count = one.victim.count();
        let early = since.elapsed() < Duration::from_millis(700);
        assert!(count == 3 || !early, "{count} of 3 live after {:?}", since.elapsed());
        one.await_gone();
        assert!(since.elapsed() >= Duration::from_millis(700), "{:?}", since.elapsed());
    });
}

#[test]
fn a_grace_is_followed_by_sigkill_though_the_leader_ignores_sigterm() {
    over_both(|peer| {
        let victim = Victim::new();
        let command = "trap '' TERM; (setsid sleep $N &); sleep $N; :";
        let running = peer.start_exec(json!({"command": command, "env": {"N": victim.argument()}}));
        victim.await_count(2);
        let params = json!({"processId": running.process, "signal": "TERM", "graceMs": 200});
        peer.ok("process/kill", &params);
        assert_eq!(peer.finish(&running).signal(), Some("SIGKILL"));
        super::assert_gone(&victim, "a leader that ignores SIGTERM");
    });
}

/// Only SIGKILL is for all.
#[test]
fn other_signals_are_for_the_group_alone() {
    over_both(|peer| {
        let one = Escaped::one(peer, &ways::SETSID);
        let params = json!({"processId": one.running.process, "signal": "TERM"});
        peer.ok("process/kill", &params);
        assert_eq!(peer.finish(&one.running).signal(), Some("SIGTERM"));
        peer.sh("sleep 0.2").assert_success();
        one.assert_alive();
        peer.hang_up();
        one.await_gone();
    });
}

#[test]
fn when_a_kill_is_answered_what_has_escaped_is_gone() {
    over_both(|peer| {
        best_of_three(Duration::from_millis(100), "from the answer to the end of all", || {
            let one = Escaped::one(peer, &ways::DAEMON);
            peer.kill(&one.running.process);
            let since = Instant::now();
            one.await_gone();
            since.elapsed()
        });
    });
}

#[test]
fn the_jobs_of_an_interactive_shell_are_killed_with_it() {
    over_both(|peer| {
        let victim = Victim::new();
        let sleep = victim.command();
        let shell = peer.spawn(json!({
            "command": "bash", "args": ["--norc", "-i"], "pty": {"cols": 80, "rows": 24}
        }));
        let lines = format!("{sleep} &\n(setsid {sleep} &)\n{sleep} | {sleep} &\n{sleep}\n");
        peer.ok("process/write", &json!({"processId": shell, "chunk": base64(lines)}));
        victim.await_count(5);
        assert!(peer.kill(&shell));
        super::assert_gone(&victim, "an interactive shell");
        peer.wait_until(DEADLINE, "its exit", |peer| peer.is_over(&shell));
    });
}
