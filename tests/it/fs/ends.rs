//! The end of a server in the middle of something that takes long and goes on.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::inject::{injected, lacks_strace};
use super::{bytes, from_to, merged, mkdir, names, noise, path};
use crate::support::{DEADLINE, Peer, Setup, TempDir, eventually, lacks, procfs};

const FILES: usize = 56;

/// A server that needs 300 ms to give a file its name: for all of them more than any grace.
fn slow() -> Setup {
    injected(Setup::new(), "rename,renameat,renameat2,linkat", "delay_enter=300000")
}

/// Asks for a copy of so many files; its id.
fn begin_copy(peer: &mut Peer, dir: &TempDir) -> String {
    mkdir(dir.join("from"));
    for n in 0..FILES {
        dir.write(&format!("from/{n}"), noise(1000, 1));
    }
    let params = from_to(dir.join("from"), dir.join("to"));
    peer.request("fs/copy", &merged(params, &json!({"recursive": true})))
}

fn made(dir: &TempDir) -> Vec<String> {
    if dir.join("to").exists() { names(dir.join("to")) } else { Vec::new() }
}

fn is_temporary(name: impl AsRef<Path>) -> bool {
    name.as_ref().to_string_lossy().starts_with(".ta-")
}

#[test]
fn at_the_end_of_stdin_a_copy_that_goes_on_is_finished_and_answered() {
    if lacks_strace("at_the_end_of_stdin_a_copy_that_goes_on_is_finished_and_answered") {
        return;
    }
    let dir = TempDir::new();
    let mut peer = slow().stdio();
    let copy = begin_copy(&mut peer, &dir);
    let since = Instant::now();
    peer.hang_up();
    peer.closed(Duration::from_secs(60));
    assert!(peer.has_answer(&copy), "no answer after {:?}", since.elapsed());
    assert_eq!(peer.answer(&copy).unwrap(), json!({}));
    assert!(since.elapsed() > Duration::from_secs(10), "it was not long");
    assert_eq!(peer.pipes().wait(DEADLINE).expect("the server ends").code(), Some(0));
    assert_eq!(made(&dir), names(dir.join("from")));
}

/// A link of 2 MB/s, and 40 MB for it before anything else.
#[test]
fn at_the_end_of_stdin_reads_that_go_on_are_answered_however_long_it_takes() {
    const NAME: &str = "at_the_end_of_stdin_reads_that_go_on_are_answered_however_long_it_takes";
    const SIZE: usize = 30_000_000;
    const SLOWLY: &str = "import os, time
while chunk := os.read(0, 1 << 16):
    while chunk:
        chunk = chunk[os.write(1, chunk):]
    time.sleep(0.03)
";
    if lacks(NAME, "python3") {
        return;
    }
    let pipeline = "\"$0\" \"$@\" | exec python3 -c \"$SLOWLY\"";
    let setup = Setup::new().under(&["sh", "-c", pipeline]).env("SLOWLY", SLOWLY);
    let mut peer = setup.stdio();
    let dir = TempDir::new();
    let big = dir.write("big", noise(SIZE, 1));
    let small = dir.write("small", "content");
    let pid = peer.server_pid();
    let large = peer.request("fs/readFile", &path(&big));
    let is_made = || procfs::resident_kib(pid) > 40_000;
    eventually(DEADLINE, "the large answer is being written", is_made);
    let rest: Vec<_> = (0..3).map(|_| peer.request("fs/readFile", &path(&small))).collect();
    let since = Instant::now();
    peer.hang_up();
    peer.closed(Duration::from_secs(60));
    assert!(since.elapsed() > Duration::from_secs(10), "it was not long");
    assert!(peer.has_answer(&large), "the large read is not answered");
    assert!(bytes(&peer.answer(&large).unwrap()) == noise(SIZE, 1));
    for id in rest {
        assert!(peer.has_answer(&id), "a read is not answered");
        assert_eq!(bytes(&peer.answer(&id).unwrap()), b"content");
    }
}

#[test]
fn a_server_that_is_told_to_end_leaves_nothing_temporary_of_a_copy() {
    if lacks_strace("a_server_that_is_told_to_end_leaves_nothing_temporary_of_a_copy") {
        return;
    }
    let dir = TempDir::new();
    let mut server = slow().listen();
    let mut peer = server.connect();
    begin_copy(&mut peer, &dir);
    eventually(DEADLINE, "some are copied", || made(&dir).len() > 3);
    server.signal(libc::SIGTERM);
    assert_eq!(server.wait(DEADLINE).code(), Some(0));
    let made = made(&dir);
    assert!(!made.iter().chain(&names(dir.path())).any(is_temporary), "{made:?}");
    assert!(made.len() < FILES, "it was not cut short");
    for name in &made {
        let found = std::fs::read(dir.join("to").join(name)).unwrap();
        assert!(found == noise(1000, 1), "{name} has {} bytes", found.len());
    }
}
