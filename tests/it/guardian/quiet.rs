//! A guardian costs next to nothing and knows no secret.

use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::time::Duration;

use serde_json::json;

use crate::support::{DEADLINE, Server, TOKEN, eventually, procfs, skipped, sys};

#[test]
fn two_thousand_commands_leave_nothing_in_the_guardian() {
    let server = Server::start();
    let mut peer = server.connect();
    let guardian = server.guardian();
    let run = |peer: &mut crate::support::Peer, count: usize| {
        for _ in 0..count / 20 {
            let command = "(true &); exit 3";
            let running: Vec<_> =
                (0..20).map(|_| peer.start_exec(json!({"command": command}))).collect();
            for running in &running {
                assert_eq!(peer.finish(running).code(), Some(3));
            }
        }
    };
    run(&mut peer, 100);
    let before = procfs::resident_kib(guardian);
    run(&mut peer, 2000);
    let after = procfs::resident_kib(guardian);
    assert!(after <= before + 64, "from {before} to {after} KiB");
    assert_eq!(procfs::descriptors(guardian), 1);
    assert_eq!(procfs::threads(guardian), 1);
    let alone = || procfs::children(guardian) == [server.pid()];
    eventually(DEADLINE, "the server is its only child", alone);
}

#[test]
fn an_idle_guardian_never_wakes() {
    let server = Server::start();
    let mut peer = server.connect();
    peer.ping();
    let switches = || {
        let status = fs::read_to_string(format!("/proc/{}/status", server.guardian())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    let rests = || {
        let guardian = server.guardian();
        procfs::descriptors(guardian) == 1 && procfs::state(guardian) == "S"
    };
    eventually(DEADLINE, "it has come to rest", rests);
    let before = switches();
    peer.pump(Duration::from_secs(2));
    assert_eq!(switches(), before);
}

#[test]
fn neither_process_shows_the_token() {
    let server = Server::start();
    server.connect().ping();
    for pid in [server.guardian(), server.pid()] {
        for file in ["environ", "cmdline"] {
            let shown = fs::read(format!("/proc/{pid}/{file}")).unwrap();
            assert!(!contains(&shown, TOKEN.as_bytes()), "/proc/{pid}/{file} shows the token");
        }
    }
}

#[test]
fn the_guardian_keeps_no_copy_of_the_token() {
    if !sys::is_root() {
        skipped("the_guardian_keeps_no_copy_of_the_token", "reading memory needs root");
        return;
    }
    let server = Server::start();
    server.connect().ping();
    let is_known = |pid| memory(pid).iter().any(|part| contains(part, TOKEN.as_bytes()));
    assert!(is_known(server.pid()), "the server knows it, and it is found there");
    assert!(!is_known(server.guardian()));
}

/// All that the process may write to.
fn memory(pid: u32) -> Vec<Vec<u8>> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let mut memory = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut parts = Vec::new();
    for line in maps.lines().filter(|line| line.split(' ').nth(1).unwrap().starts_with("rw")) {
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let start = u64::from_str_radix(start, 16).unwrap();
        let end = u64::from_str_radix(end, 16).unwrap();
        let mut part = vec![0; usize::try_from(end - start).unwrap()];
        memory.seek(SeekFrom::Start(start)).unwrap();
        if memory.read_exact(&mut part).is_ok() {
            parts.push(part);
        }
    }
    parts
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
