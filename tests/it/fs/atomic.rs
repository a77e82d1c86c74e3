//! Many at one file: nobody sees it half written, and no update is lost.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use serde_json::json;

use super::{bytes, content, merged, names, path, read, version, write};
use crate::support::{Peer, Server, Setup, TempDir, lacks, sys};

/// Runs one body on so many connections of one server at once.
fn on_connections(server: &Server, count: usize, body: impl Fn(usize, &mut Peer) + Sync) {
    let (server, body) = (&server, &body);
    thread::scope(|scope| {
        for n in 0..count {
            let run = move || body(n, &mut server.connect());
            thread::Builder::new().name(format!("peer {n}")).spawn_scoped(scope, run).unwrap();
        }
    });
}

#[test]
fn of_eight_writers_one_wins_as_a_whole() {
    const SIZE: usize = 1_000_000;
    let dir = TempDir::new();
    let file = dir.join("f");
    let server = Server::start();
    on_connections(&server, 8, |n, peer| {
        let letter = b'a' + u8::try_from(n).unwrap();
        for _ in 0..4 {
            write(peer, &file, vec![letter; SIZE]);
        }
    });
    let found = std::fs::read(&file).unwrap();
    assert_eq!(found.len(), SIZE);
    assert!(found.iter().all(|byte| *byte == found[0]), "the content of several writers");
    assert_eq!(names(dir.path()), ["f"]);
}

/// What one server takes for a leftover may be what another one is just writing.
#[test]
fn two_servers_that_write_beside_each_other_do_not_disturb() {
    let dir = TempDir::new();
    let servers = [Server::start(), Server::start()];
    thread::scope(|scope| {
        for (name, server) in ["a", "b"].into_iter().zip(&servers) {
            let dir = &dir;
            let run = move || {
                on_connections(server, 2, |n, peer| {
                    for round in 0..20 {
                        write(peer, dir.join("shared"), vec![b's'; 100_000]);
                        write(peer, dir.join(&format!("{name}{n}")), format!("{round}"));
                    }
                });
            };
            thread::Builder::new().spawn_scoped(scope, run).unwrap();
        }
    });
    assert_eq!(names(dir.path()), ["a0", "a1", "b0", "b1", "shared"]);
    assert_eq!(std::fs::read(dir.join("shared")).unwrap(), vec![b's'; 100_000]);
    assert_eq!(std::fs::read(dir.join("b1")).unwrap(), b"19");
}

/// Containers that share a directory: the pid of the one says nothing to the other.
#[test]
fn servers_that_do_not_see_each_others_processes_do_not_disturb() {
    const NAME: &str = "servers_that_do_not_see_each_others_processes_do_not_disturb";
    if lacks(NAME, "unshare") {
        return;
    }
    let own = if sys::is_root() { "-pmf" } else { "-rpmf" };
    let dir = TempDir::new();
    thread::scope(|scope| {
        for name in ["a", "b"] {
            let dir = &dir;
            let run = move || {
                let setup = Setup::new().under(&["unshare", own, "--mount-proc", "--"]);
                let mut peer = setup.stdio();
                for n in 0..10 {
                    write(&mut peer, dir.join(name), vec![b'x'; 1_000_000 + n]);
                    write(&mut peer, dir.join(&format!("small {name}")), "x");
                }
            };
            thread::Builder::new().spawn_scoped(scope, run).unwrap();
        }
    });
    assert_eq!(names(dir.path()), ["a", "b", "small a", "small b"]);
    assert_eq!(std::fs::read(dir.join("b")).unwrap().len(), 1_000_009);
}

/// The content of version n: its length and every byte follow from n.
fn state(n: usize) -> Vec<u8> {
    vec![u8::try_from(n % 251).unwrap(); 30_000 + n * 97]
}

#[track_caller]
fn assert_whole(found: &[u8]) {
    assert!(found.len() >= 30_000, "{} bytes", found.len());
    let n = (found.len() - 30_000) / 97;
    assert!(found == state(n), "{} bytes, half of them another's", found.len());
}

#[test]
fn a_reader_never_sees_a_half_written_file() {
    let dir = TempDir::new();
    let file = dir.write("f", state(0));
    let server = Server::start();
    let (over, seen) = (AtomicBool::new(false), AtomicUsize::new(0));
    let look = |read: &mut dyn FnMut(&Path) -> Vec<u8>| {
        while !over.load(Ordering::Relaxed) {
            assert_whole(&read(&file));
            seen.fetch_add(1, Ordering::Relaxed);
        }
    };
    let stop_at_the_end = StopOnDrop(&over);
    on_connections(&server, 3, |n, peer| match n {
        0 => {
            let _stop = StopOnDrop(stop_at_the_end.0);
            for n in 1..=300 {
                write(peer, &file, state(n));
            }
        }
        1 => look(&mut |file| read(peer, file)),
        _ => look(&mut |file| std::fs::read(file).unwrap()),
    });
    assert!(seen.load(Ordering::Relaxed) > 20, "{seen:?} readings");
    assert_eq!(std::fs::read(&file).unwrap(), state(300));
    assert_eq!(names(dir.path()), ["f"]);
}

/// Ends the readers when the writer has ended, be it by a failure.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_counter_that_eight_connections_count_up_loses_nothing() {
    counts_to_two_hundred(false);
}

#[test]
fn a_counter_that_is_written_in_place_loses_nothing() {
    counts_to_two_hundred(true);
}

fn counts_to_two_hundred(in_place: bool) {
    let dir = TempDir::new();
    let file = dir.write("counter", "0000");
    if in_place {
        std::fs::hard_link(&file, dir.join("other")).unwrap();
    }
    let server = Server::start();
    on_connections(&server, 8, |_, peer| {
        for _ in 0..25 {
            while !counted_up(peer, &file) {}
        }
    });
    assert_eq!(std::fs::read(&file).unwrap(), b"0200");
}

fn counted_up(peer: &mut Peer, file: &Path) -> bool {
    let before = peer.ok("fs/readFile", &path(file));
    // What is written in place may be seen half written; its version then fails.
    let count: u32 = String::from_utf8(bytes(&before)).unwrap().parse().unwrap_or(0);
    let after = content(file, format!("{:04}", count + 1));
    let params = merged(after, &json!({"ifVersion": version(&before)}));
    match peer.call("fs/writeFile", &params) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.data_code(), "CELL_TA_EXEC_CONFLICT", "{error:?}");
            false
        }
    }
}

#[test]
fn of_eight_that_make_a_file_one_succeeds() {
    let dir = TempDir::new();
    let server = Server::start();
    let made = AtomicUsize::new(0);
    on_connections(&server, 8, |n, peer| {
        for round in 0..30 {
            let file = dir.join(&format!("{round}"));
            let params = merged(content(file, format!("{n}")), &json!({"ifVersion": ""}));
            match peer.call("fs/writeFile", &params) {
                Ok(_) => {
                    made.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => assert_eq!(error.data_code(), "CELL_TA_EXEC_CONFLICT", "{error:?}"),
            }
        }
    });
    assert_eq!(made.load(Ordering::Relaxed), 30, "each file is made once");
    assert_eq!(names(dir.path()).len(), 30);
}

/// Nobody may see it, in between, as if it were not there.
#[test]
fn a_file_that_is_replaced_is_never_gone() {
    let dir = TempDir::new();
    let file = dir.write("f", "0");
    let server = Server::start();
    let over = AtomicBool::new(false);
    on_connections(&server, 2, |n, peer| {
        if n == 0 {
            let _stop = StopOnDrop(&over);
            for n in 0..200 {
                write(peer, &file, format!("{n}"));
            }
        } else {
            while !over.load(Ordering::Relaxed) {
                assert!(file.exists(), "the file is gone");
                peer.ok("fs/stat", &path(&file));
            }
        }
    });
}
