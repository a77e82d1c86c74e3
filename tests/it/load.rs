//! Much at once, and hosts that do not keep up.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{DEADLINE, Peer, Server, Victim, eventually, over_both, procfs};

/// How much resident memory may grow, whatever passes through.
const GROWTH_KIB: u64 = 16 * 1024;

#[test]
fn five_hundred_at_once_get_their_codes_and_leave_nothing() {
    over_both(|peer| {
        let pid = peer.server_pid();
        // What is made once, at the first process of all, is not counted.
        peer.sh("true").assert_success();
        let before = procfs::settled(pid);
        let all: Vec<_> = (0..500)
            .map(|n| peer.start_exec(json!({"command": format!("sleep 2; exit {}", n % 256)})))
            .collect();
        for (n, running) in (0..).zip(&all) {
            let done = peer.finish_within(running, Duration::from_secs(20));
            assert_eq!((done.code(), done.signal()), (Some(n % 256), None));
        }
        let now = || (procfs::threads(pid), procfs::descriptors(pid));
        let what = format!("threads and descriptors {before:?} again");
        eventually(DEADLINE, &what, || now() == before);
        assert_eq!(procfs::zombies_of(pid), [0_u32; 0]);
    });
}

#[test]
fn connections_that_have_ended_leave_nothing() {
    let server = Server::start();
    let mut watcher = server.connect();
    let pid = watcher.server_pid();
    let use_one = |server: &Server| {
        let mut peer = server.connect();
        peer.sh("echo hi").assert_success();
        peer.spawn(json!({"command": "cat", "pty": {"cols": 80, "rows": 24}}));
        peer.spawn(json!({"command": "sleep", "args": ["30"]}));
    };
    use_one(&server);
    let before = procfs::settled(pid);
    for _ in 0..40 {
        use_one(&server);
    }
    let now = || (procfs::threads(pid), procfs::descriptors(pid));
    let what = format!("threads and descriptors {before:?} again");
    eventually(DEADLINE, &what, || now() == before);
    watcher.ping();
}

#[test]
fn a_gib_to_a_host_that_does_not_read_costs_no_memory() {
    over_both(|peer| {
        let pid = peer.server_pid();
        let before = procfs::resident_kib(pid);
        let args = ["-c", "1073741824", "/dev/zero"];
        let (_, head) = peer.spawn_with_pid(json!({"command": "head", "args": args}));
        procfs::await_stalled(&[head]);
        let peak = procfs::peak_kib(pid, Duration::from_millis(300));
        assert!(peak < before + GROWTH_KIB, "from {before} to {peak} KiB");
    });
}

#[test]
fn many_that_write_to_a_host_that_does_not_read_cost_no_memory() {
    over_both(|peer| {
        let pid = peer.server_pid();
        let before = procfs::resident_kib(pid);
        for n in 0..50 {
            peer.request("process/spawn", &json!({"processId": format!("y{n}"), "command": "yes"}));
        }
        let children = || procfs::children(pid);
        eventually(DEADLINE, "fifty run", || children().len() >= 50);
        procfs::await_stalled(&children());
        let peak = procfs::peak_kib(pid, Duration::from_millis(300));
        assert!(peak < before + 2 * GROWTH_KIB, "from {before} to {peak} KiB");
    });
}

#[test]
fn what_a_host_reads_does_not_pile_up_in_the_server() {
    over_both(|peer| {
        let pid = peer.server_pid();
        let before = procfs::resident_kib(pid);
        let running = peer.start_exec(json!({"command": "head -c 32M /dev/zero"}));
        peer.capture(&running.process).discard = true;
        let mut peak = 0;
        while !peer.is_over(&running.process) {
            peer.pump(Duration::from_millis(20));
            peak = peak.max(procfs::resident_kib(pid));
        }
        peer.finish(&running).assert_success();
        assert_eq!(peer.received(&running.process), 32 << 20);
        assert!(peak < before + GROWTH_KIB, "from {before} to {peak} KiB");
    });
}

#[test]
fn sixty_four_mib_arrive_whole() {
    let command = "seq 1 9000000 | head -c 67108864";
    let local = std::process::Command::new("sh").args(["-c", command]).output().unwrap().stdout;
    assert_eq!(local.len(), 64 << 20);
    over_both(|peer| {
        let running = peer.start_exec(json!({"command": command}));
        let done = peer.finish_within(&running, Duration::from_secs(40));
        done.assert_success();
        assert_eq!(done.stdout.len(), local.len());
        assert!(done.stdout == local, "the bytes differ");
    });
}

#[test]
fn a_slow_reader_gets_every_line() {
    over_both(|peer| {
        let running = peer.start_exec(json!({"command": "seq 1 200000"}));
        // 1.3 MB at about 1 MB a second: a little at a time, and a pause between.
        let mut seen = 0;
        while !peer.is_over(&running.process) {
            peer.pump_until_more(&running.process, seen);
            let arrived = peer.received(&running.process);
            let pause = u64::try_from(arrived - seen).unwrap() / 1000;
            thread::sleep(Duration::from_millis(pause));
            seen = arrived;
        }
        let done = peer.finish(&running);
        let expected: String = (1..=200_000).map(|n| format!("{n}\n")).collect();
        assert!(done.stdout == expected.as_bytes(), "{} bytes arrived", done.stdout.len());
    });
}

#[test]
fn a_stuck_peer_does_not_hold_up_another() {
    let server = Server::start();
    let mut stuck = server.connect();
    let (_, yes) = stuck.spawn_with_pid(json!({"command": "yes"}));
    procfs::await_stalled(&[yes]);
    let mut other = server.connect();
    for _ in 0..20 {
        let done = other.sh("echo hi");
        assert_eq!(done.text(), "hi\n");
        assert!(done.elapsed < Duration::from_secs(2), "{:?}", done.elapsed);
    }
}

#[test]
fn twenty_peers_work_side_by_side() {
    let server = Server::start();
    let work = |n: usize| {
        let mut peer: Peer = server.connect();
        for round in 0..5 {
            let text = format!("{n} {round}");
            assert_eq!(peer.sh(&format!("echo {text}")).text(), format!("{text}\n"));
        }
        let victim = Victim::new();
        let process = victim.spawn(&mut peer);
        assert!(peer.kill(&process));
        assert_eq!(peer.exit(&process).signal(), Some("SIGKILL"));
    };
    thread::scope(|scope| {
        for n in 0..20 {
            let name = format!("peer {n}");
            thread::Builder::new().name(name).spawn_scoped(scope, move || work(n)).unwrap();
        }
    });
}

/// Interactive programs are slow when answers wait for delayed acknowledgements (40 ms each).
#[test]
fn small_answers_are_not_delayed() {
    over_both(|peer| {
        crate::support::best_of_three(Duration::from_secs(2), "50 times ping and spawn", || {
            let since = Instant::now();
            for _ in 0..50 {
                peer.ping();
                peer.run(json!({"command": "true"}));
            }
            since.elapsed()
        });
    });
}
