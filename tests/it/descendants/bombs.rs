//! What goes on starting others while it is being ended.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{alone, as_user, lacks_root, nobody_else, ways};
use crate::support::{
    DEADLINE, Peer, TempDir, Victim, eventually, holds_within, over_both, procfs, sys,
};

/// What the tests allow for the end of it all.
const SOON: Duration = Duration::from_secs(3);

/// Bounded by a limit on processes, which holds for all but root, and in time.
const SHELL_BOMB: &str = "ulimit -u 200; b() { b | b & }; b; exec sleep 30";
const PROGRAM_BOMB: &str = "ulimit -u 200; exec \"$PYTHON\" -c \"$CODE\"";

/// Each has a session of its own, and half of them lose their parents.
const BOMB: &str = r"
import os, random, time
end = time.monotonic() + 30
leader = os.getpid()
while time.monotonic() < end:
    try:
        if os.fork() == 0: os.setsid()
        elif random.random() < 0.5 and os.getpid() != leader: os._exit(0)
    except OSError: time.sleep(0.002)
";

/// How many processes of this user there are, the server aside.
fn bomb_of(uid: u32, server: u32) -> Vec<u32> {
    let is_part = |pid: &u32| {
        let owner = fs::metadata(format!("/proc/{pid}")).map(|found| found.uid());
        owner.is_ok_and(|owner| owner == uid)
            && *pid != server
            && procfs::parent(server) != Some(*pid)
            && procfs::state(*pid) != "Z"
    };
    procfs::all_pids().filter(is_part).collect()
}

#[track_caller]
fn assert_defused(uid: u32, server: u32) {
    let gone = holds_within(SOON, || bomb_of(uid, server).is_empty());
    let left = bomb_of(uid, server);
    for _ in 0..20 {
        bomb_of(uid, server).iter().for_each(|pid| drop(sys::signal(*pid, libc::SIGKILL)));
    }
    assert!(gone, "{} are left", left.len());
}

/// Lights a bomb of each kind, over each transport, and ends it so.
fn each_bomb(test: &str, params: &Value, end: impl Fn(&mut Peer, &str) + Sync) {
    if lacks_root(test) {
        return;
    }
    let _alone = alone();
    for command in [SHELL_BOMB, PROGRAM_BOMB] {
        let uids = [nobody_else(), nobody_else()];
        let light = |peer: &mut Peer, uid: u32| {
            let server = peer.server_pid();
            let mut params = params.clone();
            params["command"] = json!(command);
            params["env"] = json!({"PYTHON": ways::python(), "CODE": BOMB});
            let running = peer.start_exec(params);
            let all = || bomb_of(uid, server).len();
            eventually(DEADLINE, "it has gone off", || all() > 100);
            end(peer, &running.process);
            assert_defused(uid, server);
        };
        let server = as_user(uids[0]).listen();
        light(&mut server.connect(), uids[0]);
        light(&mut as_user(uids[1]).stdio(), uids[1]);
    }
}

#[test]
fn a_fork_bomb_is_ended_by_a_kill() {
    each_bomb("a_fork_bomb_is_ended_by_a_kill", &json!({}), |peer, process| {
        assert!(peer.kill(process));
        peer.wait_until(DEADLINE, "its end", |peer| peer.is_over(process));
    });
}

#[test]
fn a_fork_bomb_is_ended_by_a_timeout() {
    let params = json!({"timeoutMs": 2_500});
    each_bomb("a_fork_bomb_is_ended_by_a_timeout", &params, |peer, process| {
        peer.wait_until(DEADLINE, "its end", |peer| peer.is_over(process));
    });
}

#[test]
fn a_fork_bomb_is_ended_with_its_connection() {
    each_bomb("a_fork_bomb_is_ended_with_its_connection", &json!({}), |peer, _| peer.hang_up());
}

/// Lets a `sleep` escape every few milliseconds.
const BREEDER: &str = r"
import os, shutil, sys, time
sleep = shutil.which('sleep')
if os.fork(): time.sleep(300)
os.setsid()
for _ in range(600):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0: os.execv(sleep, ['sleep', sys.argv[1]])
        os._exit(0)
    os.wait()
    time.sleep(0.003)
time.sleep(300)
";

#[test]
fn what_breeds_while_it_is_being_ended_is_ended() {
    let _alone = alone();
    let params = |victim: &Victim| {
        json!({
            "command": "exec \"$PYTHON\" -c \"$CODE\" \"$N\"",
            "env": {"PYTHON": ways::python(), "CODE": BREEDER, "N": victim.argument()},
        })
    };
    over_both(|peer| {
        for _ in 0..5 {
            let victim = Victim::new();
            let running = peer.start_exec(params(&victim));
            eventually(DEADLINE, "it breeds", || victim.count() > 10);
            assert!(peer.kill(&running.process));
            super::assert_gone(&victim, "killed");
        }
        let victim = Victim::new();
        peer.start_exec(params(&victim));
        eventually(DEADLINE, "it breeds", || victim.count() > 10);
        peer.hang_up();
        super::assert_gone(&victim, "ended with the connection");
    });
}

/// Runs away: the child goes on and the parent exits, without end. (Each tells that it lives.)
const RUNAWAY: &str = r"
import os, sys, time
end = time.monotonic() + 20
told = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
if os.fork(): time.sleep(300)
os.setsid()
while time.monotonic() < end:
    if os.fork(): os._exit(0)
    os.write(told, b'x')
";

/// Starts one; answers its process and how often it has told that it lives.
#[track_caller]
fn run_away(peer: &mut Peer, dir: &TempDir) -> (String, impl Fn() -> u64 + use<>) {
    let file = dir.join(&crate::support::unique());
    let told = {
        let file = file.clone();
        move || fs::metadata(&file).map_or(0, |found| found.len())
    };
    let running = peer.start_exec(json!({
        "command": "exec \"$PYTHON\" -c \"$CODE\" \"$FILE\"",
        "env": {"PYTHON": ways::python(), "CODE": RUNAWAY, "FILE": file},
    }));
    eventually(DEADLINE, "it runs away", || told() > 50);
    (running.process, told)
}

#[track_caller]
fn assert_caught(told: impl Fn() -> u64, how: &str) {
    let (mut last, mut since) = (told(), Instant::now());
    let caught = holds_within(SOON, || {
        if told() != last {
            (last, since) = (told(), Instant::now());
        }
        since.elapsed() > Duration::from_millis(500)
    });
    assert!(caught, "{how}: it still runs");
}

#[test]
fn what_runs_away_is_caught() {
    let _alone = alone();
    over_both(|peer| {
        let dir = TempDir::new();
        for _ in 0..8 {
            let (process, told) = run_away(peer, &dir);
            assert!(peer.kill(&process));
            assert_caught(told, "killed");
        }
        let all: Vec<_> = (0..4).map(|_| run_away(peer, &dir).1).collect();
        peer.hang_up();
        all.iter().for_each(|told| assert_caught(told, "ended with the connection"));
    });
}
