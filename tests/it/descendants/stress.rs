//! Many at once that start, escape, kill and end.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::others::Bystanders;
use super::{Escaped, assert_gone, assert_no_zombies, ways};
use crate::support::{DEADLINE, Peer, Server, Victim, eventually, procfs};

const TIME: Duration = Duration::from_secs(4);

/// One round of one connection: some are killed, some time out, some end by themselves, and the
/// rest is left to the end of the connection.
fn one_round(peer: &mut Peer, victim: &Victim) {
    let commands = [
        "(setsid sleep $N &); exec sleep $N",
        "set -m; sleep $N & (sleep $N &); exec sleep $N",
        "(setsid sh -c 'trap \"\" TERM; sleep $N & sleep $N' &); exec sleep $N",
        "(setsid sleep $N >/dev/null 2>&1 &); exit 7",
    ];
    let start = |peer: &mut Peer, timeout| {
        commands.map(|command| {
            let env = json!({"N": victim.argument()});
            peer.start_exec(json!({"command": command, "timeoutMs": timeout, "env": env}))
        })
    };
    let timed = start(peer, 1_000);
    let [one, group, grace, over] = start(peer, 60_000);
    eventually(2 * DEADLINE, "they run", || victim.count() >= 8);
    peer.kill(&one.process);
    peer.ok("process/kill", &json!({"processId": grace.process, "signal": "TERM", "graceMs": 50}));
    assert_eq!(peer.finish(&one).signal(), Some("SIGKILL"));
    assert!(peer.finish(&grace).is("killed"));
    assert_eq!(peer.finish(&over).code(), Some(7));
    peer.kill(&group.process);
    assert_eq!(peer.finish(&group).signal(), Some("SIGKILL"));
    for (running, command) in timed.iter().zip(commands) {
        let done = peer.finish(running);
        assert_eq!(done.is("timedOut"), done.code().is_none(), "{command}: {}", done.result);
    }
    start(peer, 60_000);
}

#[test]
fn connections_that_start_and_end_beside_each_other_leave_nothing_and_hit_nobody() {
    let _alone = super::alone();
    let bystanders = Bystanders::start();
    let server = Server::start();
    let mut watcher = server.connect();
    let pid = watcher.server_pid();
    one_round(&mut server.connect(), &Victim::new());
    let theirs = Escaped::one(&mut watcher, &ways::DAEMON);
    let before = procfs::settled(pid);
    let end = Instant::now() + TIME;
    thread::scope(|scope| {
        for number in 0..8 {
            let server = &server;
            scope.spawn(move || {
                while Instant::now() < end {
                    let victim = Victim::new();
                    let mut peer = server.connect();
                    one_round(&mut peer, &victim);
                    if number % 2 == 0 {
                        peer.hang_up();
                    }
                    drop(peer);
                    assert_gone(&victim, "a round of one connection");
                }
            });
        }
    });
    theirs.assert_alive();
    bystanders.assert_unharmed();
    assert_no_zombies(pid);
    let now = || (procfs::threads(pid), procfs::descriptors(pid));
    let what = format!("threads and descriptors {before:?} again");
    eventually(DEADLINE, &what, || now() == before);
    watcher.ping();
}
