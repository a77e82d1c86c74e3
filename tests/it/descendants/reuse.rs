//! Numbers of processes that are used again: in a namespace that has a thousand of them, every one
//! is, many times.

use std::fs;
use std::thread;

use serde_json::json;

use super::{Escaped, ways};
use crate::support::{DEADLINE, Peer, Setup, Victim, procfs, skipped, sys};

const NAME: &str = "with_every_number_used_again_and_again";
const THREADS: usize = 4;
const COMMANDS: usize = 5_000;
/// In flight at a time.
const AHEAD: usize = 16;

/// Since Linux 6.14 a namespace has a limit of its own; before, this would be the machine's.
fn has_limit_of_its_own() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>());
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else { return false };
    (major, minor) >= (6, 14)
}

/// Short commands, of which some are killed and some time out: each must end as it should.
fn run_many(peer: &mut Peer) {
    let mut running = std::collections::VecDeque::new();
    for number in 0..COMMANDS {
        let code = number % 250;
        let command = match number % 50 {
            7 => "sleep 60 & setsid sleep 60 & exec sleep 60".to_owned(),
            9 => "(setsid sleep 60 >/dev/null 2>&1 &); exec sleep 60".to_owned(),
            _ => format!("exit {code}"),
        };
        let mut params = json!({"command": command, "shell": "/bin/sh"});
        if number % 50 == 9 {
            params["timeoutMs"] = json!(200);
        }
        let started = peer.start_exec(params);
        if number % 50 == 7 {
            peer.request("process/kill", &json!({"processId": started.process}));
        }
        running.push_back((number, started));
        while running.len() > if number + 1 == COMMANDS { 0 } else { AHEAD } {
            let (number, started) = running.pop_front().unwrap();
            let done = peer.finish_within(&started, 3 * DEADLINE);
            match number % 50 {
                7 => assert!(done.is("killed"), "{}", done.result),
                9 => assert!(done.is("timedOut"), "{}", done.result),
                _ => {
                    let code = i64::try_from(number % 250).unwrap();
                    assert_eq!((done.code(), done.signal()), (Some(code), None));
                }
            }
        }
    }
}

/// The process that has children of its own, by the name of its program.
fn serving_below(launcher: u32) -> u32 {
    let mut below = vec![launcher];
    while let Some(pid) = below.pop() {
        let children = procfs::children(pid);
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        if name == "ta\n" && !children.iter().any(|child| below_is_ta(*child)) {
            return pid;
        }
        below.extend(children);
    }
    panic!("no server below {launcher}");
}

fn below_is_ta(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "ta\n")
}

#[test]
fn with_every_number_used_again_and_again_nobody_else_is_hit() {
    if !(sys::is_root() && has_limit_of_its_own())
        && skipped(NAME, "needs root, and Linux 6.14: pid_max of a namespace")
    {
        return;
    }
    let _alone = super::alone();
    let all = fs::read_to_string("/proc/sys/kernel/pid_max").unwrap();
    let bystander = Victim::new();
    let within = format!(
        "echo 1000 >/proc/sys/kernel/pid_max || exit 1
        setsid sh -c '{0} & {0} & {0} & wait' &
        \"$0\" \"$@\"",
        bystander.command()
    );
    let launcher = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
    let setup = Setup::new().under(&[&launcher[..], &["sh", "-c", &within]].concat());
    let server = setup.listen();
    assert_eq!(fs::read_to_string("/proc/sys/kernel/pid_max").unwrap(), all, "not the machine's");
    let mut watcher = server.connect();
    let long_lived = Escaped::one(&mut watcher, &ways::DAEMON);
    bystander.await_count(3);
    let before = bystander.pids();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| run_many(&mut server.connect()));
        }
    });
    assert_eq!(bystander.pids(), before, "the bystanders are the same");
    assert_eq!(long_lived.victim.count(), 2);
    watcher.sh("exit 0").assert_success();
    // Seen from outside, the server has another number.
    let serving = serving_below(server.guardian());
    super::assert_no_zombies(serving);
    sys::signal(serving, libc::SIGTERM).unwrap();
    long_lived.await_gone();
}
