//! Order within a connection, the end of stdin, and a host that does not read.

use std::time::Duration;

use serde_json::{Value, json};

use super::{bytes, content, from_to, merged, mkdir, names, noise, path, version, wire};
use crate::support::{
    DEADLINE, Peer, Server, Setup, TempDir, describe, eventually, lacks, over_both, procfs,
};

#[test]
fn requests_sent_without_waiting_take_effect_in_the_order_sent() {
    const ROUNDS: usize = 40;
    over_both(|peer| {
        let dir = TempDir::new();
        let (file, moved) = (dir.join("f"), dir.join("moved"));
        let append = json!({"append": true});
        let ids: Vec<_> = (0..ROUNDS)
            .map(|n| {
                [
                    peer.request("fs/writeFile", &content(&file, format!("{n} "))),
                    peer.request("fs/writeFile", &merged(content(&file, "more"), &append)),
                    peer.request("fs/rename", &from_to(&file, &moved)),
                    peer.request("fs/readFile", &path(&moved)),
                    peer.request("fs/remove", &path(&moved)),
                ]
            })
            .collect();
        for (n, [write, append, rename, read, remove]) in ids.iter().enumerate() {
            let size = format!("{n} ").len();
            assert_eq!(peer.answer(write).unwrap()["size"], json!(size));
            assert_eq!(peer.answer(append).unwrap()["size"], json!(size + 4));
            assert_eq!(peer.answer(rename).unwrap(), json!({}));
            let found = bytes(&peer.answer(read).unwrap());
            assert_eq!(String::from_utf8(found).unwrap(), format!("{n} more"));
            assert_eq!(peer.answer(remove).unwrap(), json!({}));
        }
        assert_eq!(names(dir.path()), [""; 0]);
    });
}

#[test]
fn every_kind_of_read_sees_the_changes_sent_before_it() {
    over_both(|peer| {
        let base = TempDir::new();
        let recursive = json!({"recursive": true});
        let all: Vec<_> = (0..20)
            .map(|n| {
                let dir = base.join(&format!("{n}"));
                let (file, copy) = (dir.join("a/f"), dir.join("copy"));
                [
                    peer.request("fs/mkdir", &path(dir.join("a"))),
                    peer.request("fs/writeFile", &content(&file, noise(50_000, n))),
                    peer.request("fs/stat", &path(&file)),
                    peer.request("fs/copy", &merged(from_to(dir.join("a"), &copy), &recursive)),
                    peer.request("fs/readdir", &path(&dir)),
                    peer.request("fs/realpath", &path(copy.join("../copy/f"))),
                    peer.request("fs/readFile", &path(copy.join("f"))),
                ]
            })
            .collect();
        let gone: Vec<_> = (0..20)
            .map(|n| {
                let dir = dir_of(&base, n);
                (n, dir.clone(), peer.request("fs/stat", &path(dir)))
            })
            .collect();
        for (n, [mkdir, write, stat, copy, list, real, read]) in (0..).zip(&all) {
            let mut ok = |id| peer.answer(id).unwrap();
            assert_eq!([ok(mkdir), ok(copy)], [json!({}), json!({})]);
            assert_eq!(version(&ok(stat)), version(&ok(write)));
            assert_eq!(ok(list)["entries"].as_array().unwrap().len(), 2);
            let expected = base.join(&format!("{n}")).join("copy/f");
            assert_eq!(ok(real)["path"], wire(expected));
            assert!(bytes(&ok(read)) == noise(50_000, n));
        }
        for (n, dir, id) in gone {
            peer.answer(&id).unwrap();
            let remove = peer.request("fs/remove", &merged(path(&dir), &recursive));
            let stat = peer.request("fs/stat", &path(&dir));
            assert_eq!(peer.answer(&stat).unwrap_err().data_code(), "ENOENT", "{n}");
            peer.answer(&remove).unwrap();
        }
        assert_eq!(names(base.path()), [""; 0]);
    });
}

fn dir_of(base: &TempDir, n: u32) -> std::path::PathBuf {
    base.join(&format!("{n}"))
}

/// Two names of one file are one file.
#[test]
fn the_order_holds_across_the_names_of_a_file() {
    over_both(|peer| {
        let dir = TempDir::new();
        mkdir(dir.join("d"));
        super::symlink("d", dir.join("link"));
        super::symlink("d/f", dir.join("flink"));
        let spelled = ["d/f", "link/f", "flink", "link/../d/f", "d/./f"];
        let ids: Vec<_> = (0..60)
            .map(|n| {
                let file = format!("{}/{}", dir.path().display(), spelled[n % spelled.len()]);
                let params = merged(content(file, format!("{n:02}")), &json!({"append": n > 0}));
                let read = format!("{}/{}", dir.path().display(), spelled[(n + 1) % 5]);
                let write = peer.request("fs/writeFile", &params);
                (write, peer.request("fs/readFile", &path(read)))
            })
            .collect();
        let mut expected = String::new();
        for (n, (write, read)) in ids.iter().enumerate() {
            expected += &format!("{n:02}");
            assert_eq!(peer.answer(write).unwrap()["size"], json!(expected.len()));
            let found = bytes(&peer.answer(read).unwrap());
            let found = String::from_utf8(found).unwrap();
            assert!(found.starts_with(&expected), "in step {n}: {found} for {expected}");
        }
    });
}

#[test]
fn a_failed_request_does_not_hold_up_those_behind_it() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.join("f");
        let ids: Vec<_> = (0..100)
            .map(|n| {
                let fails = peer.request("fs/remove", &path(dir.join("nope")));
                (fails, peer.request("fs/writeFile", &content(&file, format!("{n}"))))
            })
            .collect();
        for (fails, works) in ids {
            assert_eq!(peer.answer(&fails).unwrap_err().data_code(), "ENOENT");
            peer.answer(&works).unwrap();
        }
        assert_eq!(super::read(peer, &file), b"99");
    });
}

#[test]
fn large_reads_and_writes_delay_no_ping_and_no_kill() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.write("f", noise(8 << 20, 1));
        let process = peer.spawn(json!({"command": "cat"}));
        let mut ids = Vec::new();
        for n in 0..4 {
            ids.push(peer.request("fs/readFile", &path(&file)));
            let copy = dir.join(&format!("copy{n}"));
            ids.push(peer.request("fs/copy", &from_to(&file, copy)));
        }
        let since = std::time::Instant::now();
        assert!(peer.kill(&process));
        assert_eq!(peer.exit(&process).signal(), Some("SIGKILL"));
        assert!(since.elapsed() < Duration::from_secs(8), "{:?}", since.elapsed());
        for id in ids {
            peer.answer_within(&id, Duration::from_secs(60)).unwrap();
        }
    });
}

#[track_caller]
fn ends_with_0(peer: &mut Peer) {
    let status = peer.pipes().wait(DEADLINE).expect("the server ends");
    assert_eq!(status.code(), Some(0), "{}", describe(status));
}

#[test]
fn at_the_end_of_stdin_what_was_received_is_finished_and_answered() {
    let mut peer = Setup::new().stdio();
    let dir = TempDir::new();
    let big = dir.write("big", noise(4 << 20, 1));
    let writes: Vec<_> = (0..50)
        .map(|n| {
            let file = dir.join(&format!("{n}"));
            peer.request("fs/writeFile", &content(file, noise(20_000, n)))
        })
        .collect();
    let read = peer.request("fs/readFile", &path(&big));
    peer.hang_up();
    peer.closed(Duration::from_secs(30));
    for id in &writes {
        assert!(peer.has_answer(id), "no answer to {id}");
        assert_eq!(peer.answer(id).unwrap()["size"], json!(20_000));
    }
    assert!(peer.has_answer(&read), "the read is not answered");
    assert!(bytes(&peer.answer(&read).unwrap()) == noise(4 << 20, 1));
    ends_with_0(&mut peer);
    for n in 0..50 {
        assert!(std::fs::read(dir.join(&format!("{n}"))).unwrap() == noise(20_000, n));
    }
    assert_eq!(names(dir.path()).len(), 51);
}

#[test]
fn what_was_sent_before_a_close_frame_is_carried_out() {
    let server = Server::start();
    let mut peer = server.connect();
    let dir = TempDir::new();
    for n in 0..50 {
        peer.request("fs/writeFile", &content(dir.join(&format!("{n}")), noise(20_000, n)));
    }
    peer.wire().socket().close(None).unwrap();
    peer.closed(Duration::from_secs(15));
    let whole = |n: u32| {
        std::fs::read(dir.join(&format!("{n}"))).is_ok_and(|found| found == noise(20_000, n))
    };
    eventually(DEADLINE, "all of it is there", || (0..50).all(whole));
    assert_eq!(names(dir.path()).len(), 50);
}

/// A link of 2 MB/s. What is still on its way after a second is no less an answer.
#[test]
fn at_the_end_of_stdin_a_host_that_reads_slowly_gets_every_answer() {
    const NAME: &str = "at_the_end_of_stdin_a_host_that_reads_slowly_gets_every_answer";
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
    let big = dir.write("big", noise(4 << 20, 1));
    let ids: Vec<_> = (0..2).map(|_| peer.request("fs/readFile", &path(&big))).collect();
    let last = peer.request("fs/writeFile", &content(dir.join("last"), "x"));
    peer.hang_up();
    peer.closed(Duration::from_secs(30));
    for id in ids {
        assert!(peer.has_answer(&id), "a read is not answered");
        assert!(bytes(&peer.answer(&id).unwrap()) == noise(4 << 20, 1));
    }
    assert!(peer.has_answer(&last), "the write is not answered");
}

/// Reads more than any pipe or socket holds, and takes none of it until the end.
fn requests_two_hundred_mib(peer: &mut Peer, watch: impl FnOnce(&mut Peer)) {
    const MIB: usize = 1 << 20;
    let dir = TempDir::new();
    let content = noise(MIB, 3);
    let file = dir.write("f", &content);
    let pid = peer.server_pid();
    super::read(peer, &file);
    let before = procfs::resident_kib(pid);
    let ids: Vec<_> = (0..200).map(|_| peer.request("fs/readFile", &path(&file))).collect();
    let peak = procfs::peak_kib(pid, Duration::from_secs(2));
    assert!(peak < before + 64 * 1024, "from {before} to {peak} KiB for a host that reads nothing");
    watch(peer);
    for id in ids {
        let result: Value = peer.answer_within(&id, Duration::from_secs(60)).unwrap();
        assert!(bytes(&result) == content);
    }
}

#[test]
fn a_host_that_asks_for_200_mib_and_does_not_read_costs_no_memory() {
    let server = Server::start();
    requests_two_hundred_mib(&mut server.connect(), |_| {
        let mut other = server.connect();
        other.ping();
        other.sh("true").assert_success();
        let dir = TempDir::new();
        super::write(&mut other, dir.join("f"), "not delayed");
        assert_eq!(super::read(&mut other, dir.join("f")), b"not delayed");
    });
}

#[test]
fn over_stdio_too_a_host_that_does_not_read_costs_no_memory() {
    requests_two_hundred_mib(&mut Setup::new().stdio(), |_| ());
}
