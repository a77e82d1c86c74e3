//! Servers that lack what they find and end processes by: /proc, pidfds, the limit itself,
//! descriptors.

use std::time::Duration;

use serde_json::json;

use super::ways::{self, Way};
use super::{Escaped, await_all_gone};
use crate::support::sandbox::refusing;
use crate::support::{
    DEADLINE, Peer, Setup, Victim, best_of_three, eventually, over_both_with, skipped, sys,
};

/// Ends what has escaped in each of these ways: by a kill, after a grace, at a timeout, and with the
/// connection.
fn everything_is_ended(peer: &mut Peer, ways: &[Way]) {
    let killed = Escaped::all(peer, ways, &json!({}));
    for one in &killed {
        assert!(peer.kill(&one.running.process));
        peer.finish(&one.running);
    }
    await_all_gone(&killed);
    let timed = Escaped::timed(peer, ways, &json!({}));
    for one in &timed {
        assert!(peer.finish_within(&one.running, 4 * DEADLINE).is("timedOut"));
    }
    await_all_gone(&timed);
    let graced = Escaped::all(peer, &ways::that_keep_their_mark(ways), &json!({}));
    for one in &graced {
        let params = json!({"processId": one.running.process, "signal": "TERM", "graceMs": 200});
        peer.ok("process/kill", &params);
    }
    await_all_gone(&graced);
    let ended = Escaped::all(peer, ways, &json!({}));
    peer.hang_up();
    await_all_gone(&ended);
}

#[track_caller]
fn await_log(peer: &Peer, what: &str) {
    eventually(DEADLINE, "the log says so", || peer.log.text().contains(what));
}

/// True, and says so, where there is no namespace to be had.
fn lacks_namespaces(test: &str) -> bool {
    !sys::is_root() && skipped(test, "only root can hide /proc")
}

fn without_proc() -> Setup {
    let hide = "mount -t tmpfs none /proc && exec \"$0\" \"$@\"";
    Setup::new().under(&["unshare", "-m", "sh", "-c", hide])
}

/// Runs on as the child of what starts it: a PID namespace is entered by a fork.
fn with_proc_of_another_namespace() -> Setup {
    Setup::new().under(&["unshare", "--pid", "--fork", "--kill-child"])
}

#[test]
fn without_proc_what_escapes_is_ended() {
    if lacks_namespaces("without_proc_what_escapes_is_ended") {
        return;
    }
    over_both_with(without_proc, |peer| {
        peer.ping();
        await_log(peer, "/proc is not there");
        everything_is_ended(peer, &ways::all_without_proc());
    });
}

#[test]
fn with_the_proc_of_another_namespace_what_escapes_is_ended() {
    if lacks_namespaces("with_the_proc_of_another_namespace_what_escapes_is_ended") {
        return;
    }
    let mut peer = with_proc_of_another_namespace().stdio();
    assert_eq!(peer.server_pid(), 2, "the guardian's child");
    await_log(&peer, "another namespace's");
    everything_is_ended(&mut peer, &ways::all_without_proc());
}

#[test]
fn without_proc_the_answer_still_comes_at_the_deadline() {
    if lacks_namespaces("without_proc_the_answer_still_comes_at_the_deadline") {
        return;
    }
    let _alone = super::alone();
    over_both_with(without_proc, |peer| {
        let limit = Duration::from_millis(1_000 + 250);
        best_of_three(limit, "a timeout of 1 s", || {
            let victim = Victim::new();
            let env = json!({"N": victim.argument()});
            let command = "(setsid sleep $N &); sleep $N; :";
            let params = json!({"command": command, "timeoutMs": 1_000, "env": env});
            let running = peer.start_exec(params);
            victim.await_count(2);
            let done = peer.finish(&running);
            assert!(done.is("timedOut"));
            super::assert_gone(&victim, "without /proc");
            done.elapsed
        });
    });
}

#[test]
fn without_pidfds_what_escapes_is_ended() {
    for errno in ["ENOSYS", "EPERM"] {
        over_both_with(
            || refusing(&["pidfd"], errno),
            |peer| everything_is_ended(peer, &ways::all()),
        );
    }
}

#[test]
fn before_linux_6_9_what_escapes_is_ended() {
    // (Of a leader that is gone the group cannot be told there, so what is in it needs its mark.)
    let setup = || refusing(&["group"], "EINVAL");
    over_both_with(setup, |peer| everything_is_ended(peer, &ways::all()));
}

#[test]
fn without_clone3_what_escapes_is_ended() {
    let setup = || refusing(&["clone3", "clone-pidfd"], "ENOSYS");
    over_both_with(setup, |peer| everything_is_ended(peer, &ways::all()));
}

/// Then only groups can be ended, and what is below a parent that lives; and the log says so.
#[test]
fn without_a_limit_to_mark_by_the_server_says_so_and_ends_groups() {
    let setup = || refusing(&["mark"], "EPERM");
    over_both_with(setup, |peer| {
        peer.ping();
        await_log(peer, "no limit to mark them by");
        let sleeps = "sleep $N & (sleep $N &); setsid sleep $N & exec sleep $N";
        let start = |peer: &mut Peer, more| {
            let victim = Victim::new();
            let mut params: serde_json::Value = more;
            params["command"] = json!(sleeps);
            params["env"] = json!({"N": victim.argument()});
            let running = peer.start_exec(params);
            victim.await_count(4);
            (running, victim)
        };
        let (running, killed) = start(peer, json!({}));
        assert!(peer.kill(&running.process));
        assert_eq!(peer.finish(&running).signal(), Some("SIGKILL"));
        super::assert_gone(&killed, "killed");
        let (running, timed) = start(peer, json!({"timeoutMs": 1_500}));
        assert!(peer.finish(&running).is("timedOut"));
        super::assert_gone(&timed, "timed out");
        let (_, ended) = start(peer, json!({}));
        peer.hang_up();
        super::assert_gone(&ended, "ended with the connection");
    });
}

#[test]
fn without_a_descriptor_left_what_has_escaped_is_ended() {
    let setup = || Setup::new().under(&["prlimit", "--nofile=64:64"]);
    over_both_with(setup, |peer| {
        let killed = Escaped::one(peer, &ways::DAEMON);
        let ended = Escaped::one(peer, &ways::ORPHANS);
        let idle = Victim::new();
        let mut count = 0;
        let error = loop {
            let params = json!({
                "processId": format!("idle{count}"), "command": "sleep", "args": [idle.argument()],
            });
            match peer.call("process/spawn", &params) {
                Ok(_) => count += 1,
                Err(error) => break error,
            }
            assert!(count < 64, "the descriptors are never used up");
        };
        assert_eq!(error.data_code(), "EMFILE", "{error:?}");
        assert!(peer.kill(&killed.running.process));
        killed.await_gone();
        ended.assert_alive();
        peer.hang_up();
        ended.await_gone();
        super::assert_gone(&idle, "what used them up");
    });
}
