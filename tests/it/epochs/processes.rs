//! From the first answer to the new host on nothing of the old one runs.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::assert_fenced;
use crate::descendants::{alone, two_hundred, with_and_without_groups};
use crate::support::{Peer, Server, TempDir, Victim, best_of_three};

/// Something that an old host may have left running.
type Start = fn(&mut Peer, &Victim);

const KINDS: &[(&str, Start)] = &[
    ("exec", |peer, victim| {
        peer.start_exec(json!({"command": format!("{} & wait", victim.command())}));
    }),
    ("spawn", |peer, victim| drop(victim.spawn(peer))),
    ("terminal", |peer, victim| {
        let pty = json!({"cols": 80, "rows": 24});
        peer.spawn(json!({"command": "sleep", "args": [victim.argument()], "pty": pty}));
    }),
    ("left behind", |peer, victim| {
        peer.sh(&format!("{} >/dev/null 2>&1 & echo", victim.command()));
    }),
    ("holds the output", |peer, victim| {
        peer.sh(&format!("{} & echo", victim.command()));
    }),
    ("ignores signals", |peer, victim| {
        let command = format!("trap '' TERM HUP INT; {}; :", victim.command());
        peer.start_exec(json!({"command": command}));
    }),
    ("has escaped", |peer, victim| {
        peer.sh(&format!("(setsid env -i sh -c '{} >/dev/null 2>&1 & wait' &)", victim.command()));
    }),
    ("runs away", |peer, victim| {
        let chain = "f() { sleep 0.01; f & }; f >/dev/null 2>&1 &";
        peer.sh(&format!("setsid bash -c '{chain}'; {} >/dev/null 2>&1 &", victim.command()));
    }),
    ("writes without end", |peer, victim| {
        peer.start_exec(json!({"command": format!("{} & yes", victim.command()), "window": 9}));
    }),
];

#[test]
fn at_the_first_answer_to_the_new_host_nothing_of_the_old_one_runs() {
    with_and_without_groups(|setup| nothing_runs_at_the_first_answer(&setup.listen()));
}

fn nothing_runs_at_the_first_answer(server: &Server) {
    for (epoch, (kind, start)) in (1..).step_by(2).zip(KINDS) {
        let mut old = server.connect_of(epoch);
        let victim = Victim::new();
        start(&mut old, &victim);
        victim.await_alive();
        let mut new = server.connect_of(epoch + 1);
        new.ping();
        assert_eq!(victim.count(), 0, "{kind} runs on");
        assert_fenced(&mut old);
        new.ping();
    }
}

#[test]
fn a_host_with_two_hundred_processes_is_fenced_within_half_a_second() {
    let _alone = alone();
    with_and_without_groups(|setup| {
        let server = setup.listen();
        let mut epochs = 1..;
        let limit = Duration::from_millis(500);
        best_of_three(limit, "the first answer to the new host", || {
            let mut old = server.connect_of(epochs.next().unwrap());
            let victim = two_hundred(&mut old);
            let since = Instant::now();
            let mut new = server.connect_of(epochs.next().unwrap());
            new.ping();
            let took = since.elapsed();
            assert_eq!(victim.count(), 0, "all are gone by then");
            assert_fenced(&mut old);
            took
        });
    });
}

/// What appends to a file as fast as it can has not done so after the answer.
#[test]
fn nothing_that_an_old_command_writes_lands_after_the_first_answer() {
    let server = Server::start();
    let dir = TempDir::new();
    for epoch in (1..20).step_by(2) {
        let file = dir.join(&format!("f{epoch}"));
        let mut old = server.connect_of(epoch);
        let writer = format!("while :; do echo x; done >> {}", file.display());
        old.start_exec(json!({"command": format!("({writer}) & ({writer}) & {writer}")}));
        let grows = || std::fs::metadata(&file).is_ok_and(|metadata| metadata.len() > 100);
        crate::support::eventually(crate::support::DEADLINE, "it writes", grows);
        server.connect_of(epoch + 1).ping();
        let then = std::fs::metadata(&file).unwrap().len();
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(std::fs::metadata(&file).unwrap().len(), then, "epoch {epoch}");
    }
}

#[test]
fn nothing_that_an_old_host_asks_for_meanwhile_is_started_after_the_first_answer() {
    let server = Server::start();
    let dir = TempDir::new();
    for epoch in (1..30).step_by(2) {
        let mut old = server.connect_of(epoch);
        let victim = Victim::new();
        let call = |n: usize| -> Value {
            json!({"id": n, "method": "process/spawn", "params": {"processId": format!("p{n}"),
                "command": "sh", "args": ["-c", format!("echo >> {}; exec {}",
                    dir.join("log").display(), victim.command())]}})
        };
        let ready = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            let ask = || {
                for n in 0..60 {
                    if n == 10 {
                        ready.wait();
                    }
                    if old.try_send(&call(n).to_string()).is_err() {
                        return;
                    }
                }
            };
            std::thread::Builder::new().spawn_scoped(scope, ask).unwrap();
            ready.wait();
            let mut new = server.connect_of(epoch + 1);
            new.ping();
            let count = victim.count();
            let log = std::fs::read(dir.join("log")).unwrap_or_default().len();
            assert_eq!(count, 0, "epoch {epoch}");
            new.pump(Duration::from_millis(30));
            assert_eq!(victim.count(), 0, "epoch {epoch}");
            assert_eq!(std::fs::read(dir.join("log")).unwrap_or_default().len(), log);
        });
    }
}
