//! Much at once, ended in little time.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{alone, two_hundred, ways, with_and_without_groups};
use crate::support::{DEADLINE, Peer, Server, Victim, best_of_three, eventually, holds_within};

/// A tree of 1,000, of which each branch is a session of its own and each third leaf an orphan.
const TREE: &str = r"
import os, shutil, sys, time
sleep = shutil.which('sleep')
def leaf(number):
    if os.fork(): return
    if number % 3 == 0:
        os.setsid()
        if os.fork(): os._exit(0)
    os.execv(sleep, ['sleep', sys.argv[1]])
for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        for number in range(49): leaf(number)
        os.execv(sleep, ['sleep', sys.argv[1]])
os.execv(sleep, ['sleep', sys.argv[1]])
";

#[track_caller]
fn plant(peer: &mut Peer) -> (String, Victim) {
    let victim = Victim::new();
    let running = peer.start_exec(json!({
        "command": "exec \"$PYTHON\" -c \"$CODE\" \"$N\"",
        "env": {"PYTHON": ways::python(), "CODE": TREE, "N": victim.argument()},
    }));
    eventually(3 * DEADLINE, "a thousand run", || victim.count() == 1_001);
    (running.process, victim)
}

#[track_caller]
fn time_to_be_gone(since: Instant, victim: &Victim) -> Duration {
    assert!(holds_within(DEADLINE, || victim.count() == 0), "{} are left", victim.count());
    since.elapsed()
}

#[test]
fn a_tree_of_a_thousand_is_killed_within_a_second() {
    let _alone = alone();
    let server = Server::start();
    let mut peer = server.connect();
    best_of_three(Duration::from_secs(1), "a kill of a thousand", || {
        let (process, victim) = plant(&mut peer);
        let since = Instant::now();
        assert!(peer.kill(&process));
        time_to_be_gone(since, &victim)
    });
}

#[test]
fn a_tree_of_a_thousand_ends_with_its_connection_within_a_second() {
    let _alone = alone();
    with_and_without_groups(|setup| {
        let server = setup.listen();
        best_of_three(Duration::from_secs(1), "the end of a thousand", || {
            let mut peer = server.connect();
            let (_, victim) = plant(&mut peer);
            let since = Instant::now();
            peer.hang_up();
            time_to_be_gone(since, &victim)
        });
    });
}

#[test]
fn two_hundred_processes_end_with_their_connection_within_half_a_second() {
    let _alone = alone();
    with_and_without_groups(|setup| {
        let server = setup.listen();
        best_of_three(Duration::from_millis(500), "the end of two hundred", || {
            let mut peer = server.connect();
            let victim = two_hundred(&mut peer);
            let since = Instant::now();
            peer.hang_up();
            time_to_be_gone(since, &victim)
        });
    });
}
