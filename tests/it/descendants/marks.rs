//! What takes its mark off by a limit that nobody uses, on purpose.

use serde_json::json;

use super::lacks_root;
use crate::support::{Peer, Server, Victim, over_both, procfs, sys};

#[track_caller]
fn start(peer: &mut Peer, victim: &Victim, command: &str, count: usize) -> String {
    let env = json!({"N": victim.argument()});
    let running = peer.start_exec(json!({"command": command, "env": env}));
    victim.await_count(count);
    running.process
}

#[test]
fn a_mark_taken_off_by_another_program_does_not_help_while_a_parent_lives() {
    over_both(|peer| {
        let command = "setsid sleep $N & prlimit --pid $! --locks=5:5; \
            setsid bash -c 'prlimit --pid $$ --locks=7:9; sleep $N & sleep $N & wait' & sleep $N";
        let victim = Victim::new();
        let process = start(peer, &victim, command, 4);
        assert!(peer.kill(&process));
        super::assert_gone(&victim, "killed");
        let victim = Victim::new();
        start(peer, &victim, command, 4);
        peer.hang_up();
        super::assert_gone(&victim, "ended with the connection");
    });
}

/// Nothing is left by which it could be known but the one that orphans are handed to.
const ALL_GIVEN_UP: &str = "(setsid bash -c 'ulimit -x 5; exec sleep $N' &); sleep $N";

#[test]
fn without_its_mark_its_parents_and_its_group_it_ends_with_the_server() {
    let mut server = Server::start();
    let mut peer = server.connect();
    let victim = Victim::new();
    start(&mut peer, &victim, ALL_GIVEN_UP, 2);
    server.signal(libc::SIGTERM);
    server.wait(crate::support::DEADLINE);
    super::assert_gone(&victim, "with nothing to know it by");
}

/// What protocol and code have said so far: this one is not found, and nothing else is hit instead.
#[test]
fn without_its_mark_its_parents_and_its_group_it_may_outlive_a_kill() {
    over_both(|peer| {
        let (lost, other) = (Victim::new(), Victim::new());
        let process = start(peer, &lost, ALL_GIVEN_UP, 2);
        other.spawn(peer);
        assert!(peer.kill(&process));
        peer.wait_until(crate::support::DEADLINE, "its end", |peer| peer.is_over(&process));
        assert!(lost.count() <= 1);
        other.assert_alive();
        for pid in lost.pids() {
            let _ = sys::signal(pid, libc::SIGKILL);
        }
    });
}

/// The hard limit cannot be raised again: so nobody but root can take another's mark on.
#[test]
fn a_mark_of_another_process_is_out_of_reach_for_who_is_not_root() {
    if lacks_root("a_mark_of_another_process_is_out_of_reach") {
        return;
    }
    let server = super::as_user(super::nobody_else()).listen();
    let (mut one, mut other) = (server.connect(), server.connect());
    let victim = Victim::new();
    let pid = {
        victim.spawn(&mut one);
        victim.await_alive()
    };
    let limits = procfs::read_lossy(format!("/proc/{pid}/limits"));
    let line = limits.lines().find(|line| line.starts_with("Max file locks")).unwrap();
    let hard: u64 = line.split_whitespace().nth(4).unwrap().parse().unwrap();
    let done =
        other.sh(&format!("prlimit --pid $$ --locks=5:5; prlimit --pid $$ --locks=5:{hard}"));
    assert_ne!(done.code(), Some(0), "{}", done.errors());
}
