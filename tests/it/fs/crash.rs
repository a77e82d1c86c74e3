//! A server that is killed in the middle of a write.

use std::thread;
use std::time::{Duration, Instant};

use super::{content, names, write};
use crate::support::{
    DEADLINE, Peer, Server, Setup, TempDir, eventually, holds_within, procfs, sys,
};

/// Small enough for many writes a second, and large enough to be seen on their way.
const SIZE: usize = 3 << 20;

/// Writes until the server is gone.
fn write_on(peer: &mut Peer, dir: &TempDir) {
    let fill = |letter: u8| {
        let params = content(dir.join("f"), vec![letter; SIZE]);
        serde_json::json!({"jsonrpc": "2.0", "id": letter, "method": "fs/writeFile",
            "params": params})
        .to_string()
    };
    let messages = [fill(b'n'), fill(b'm')];
    let end = Instant::now() + Duration::from_secs(30);
    for message in messages.iter().cycle() {
        if Instant::now() > end || peer.try_send(message).is_err() {
            return;
        }
    }
}

/// Waits for something beside the file, but not for ever: it may be there too shortly to be seen.
fn see_a_temporary_file(dir: &TempDir) -> bool {
    let end = Instant::now() + Duration::from_secs(3);
    while Instant::now() < end {
        if names(dir.path()).len() > 1 {
            return true;
        }
    }
    false
}

#[track_caller]
fn assert_whole(dir: &TempDir) {
    let found = std::fs::read(dir.join("f")).unwrap();
    let letters = [b'o', b'n', b'm'];
    let whole = letters.iter().any(|letter| found == vec![*letter; SIZE]);
    assert!(whole, "{} bytes of {SIZE}, begins {:?}", found.len(), found.get(..5));
}

#[track_caller]
fn kill(pid: u32) {
    sys::signal(pid, libc::SIGKILL).unwrap();
    let gone = || matches!(procfs::state(pid).as_str(), "gone" | "Z");
    eventually(DEADLINE, "the server is gone", gone);
}

#[test]
fn a_server_killed_while_it_writes_leaves_the_old_content_or_the_new() {
    let mut seen = 0;
    for round in 0..4 {
        let dir = TempDir::new();
        dir.write("f", vec![b'o'; SIZE]);
        let mut server = Server::start();
        let mut peer = server.connect();
        let pid = peer.server_pid();
        thread::scope(|scope| {
            let writer = || write_on(&mut peer, &dir);
            thread::Builder::new().spawn_scoped(scope, writer).unwrap();
            seen += usize::from(see_a_temporary_file(&dir));
            kill(pid);
        });
        server.wait(DEADLINE);
        assert_whole(&dir);
        let left = names(dir.path());
        assert!(left.len() < 10, "in round {round}: {left:?}");
        let mut peer = Setup::new().stdio();
        write(&mut peer, dir.join("beside"), "x");
        // Whoever finds it may remove it behind the answer.
        let clean = || names(dir.path()) == ["beside", "f"];
        assert!(holds_within(DEADLINE, clean), "of {left:?} there are {:?}", names(dir.path()));
        assert_whole(&dir);
    }
    println!("a temporary file was seen in {seen} rounds of 4");
}

/// A file of the user's own that looks like a leftover is none.
#[test]
fn what_is_not_the_servers_is_never_removed() {
    let dir = TempDir::new();
    let own = [
        ".f.tmp",
        ".f.swp",
        ".f~",
        ".tmp123456",
        ".ta",
        ".ta-",
        ".ta-exec",
        ".ta-exec-backup",
        "f.tmp",
        "f.ta",
        "tmp.f",
        ".ta.tmp",
        ".#f",
        "~f",
    ];
    for name in own {
        dir.write(name, "mine");
    }
    let mut peer = Setup::new().stdio();
    for text in ["one", "two"] {
        write(&mut peer, dir.join("f"), text);
    }
    let mut expected: Vec<_> = own.into_iter().chain(["f"]).collect();
    expected.sort_unstable();
    assert_eq!(names(dir.path()), expected);
}

/// In a directory that others may write to, somebody may have been there first with anything.
#[test]
fn a_trap_with_the_name_of_a_temporary_file_catches_nobody() {
    let dir = TempDir::new();
    let victim = dir.write("victim", "kept");
    super::symlink(&victim, dir.join(".ta-tmp-0"));
    super::mkdir(dir.join(".ta-tmp-1"));
    dir.write(".ta-tmp-1/f", "kept");
    super::mkfifo(dir.join(".ta-tmp-2"));
    super::symlink("nowhere", dir.join(".ta-tmp-3"));
    for name in [".ta-tmp-", ".ta-tmp-x", ".ta-tmp-0.bak", ".ta-tmp-0~", ".ta-tmp--1", ".TA-TMP-0"]
    {
        dir.write(name, "kept");
    }
    let mut peer = Setup::new().stdio();
    for text in ["one", "two"] {
        write(&mut peer, dir.join("f"), text);
    }
    assert_eq!(std::fs::read(&victim).unwrap(), b"kept");
    assert_eq!(std::fs::read(dir.join(".ta-tmp-1/f")).unwrap(), b"kept");
    let left = names(dir.path());
    for name in [".ta-tmp-", ".ta-tmp-x", ".ta-tmp-0.bak", ".ta-tmp-0~", ".ta-tmp--1", ".TA-TMP-0"]
    {
        assert!(left.iter().any(|left| left == name), "{name} is gone: {left:?}");
    }
    assert!(!left.iter().any(|name| name == "nowhere"), "written through a link");
}

/// The host has gone before its writes were made: each is made whole or not at all.
#[test]
fn a_host_that_goes_away_in_the_middle_leaves_nothing_half_written() {
    let dir = TempDir::new();
    dir.write("f", vec![b'o'; SIZE]);
    let server = Server::start();
    let writes = [b'n', b'm'].map(|letter| content(dir.join("f"), vec![letter; SIZE]));
    for _ in 0..4 {
        let mut peer = server.connect();
        for params in &writes {
            peer.request("fs/writeFile", params);
        }
        peer.hang_up();
    }
    let mut peer = server.connect();
    peer.ping();
    eventually(DEADLINE, "nothing temporary is left", || {
        assert_whole(&dir);
        names(dir.path()) == ["f"]
    });
}

/// Only SIGKILL may leave something behind.
#[test]
fn a_server_that_is_told_to_end_while_it_writes_leaves_nothing() {
    for round in 0..3 {
        let dir = TempDir::new();
        dir.write("f", vec![b'o'; SIZE]);
        let mut server = Server::start();
        let mut peer = server.connect();
        thread::scope(|scope| {
            let writer = || write_on(&mut peer, &dir);
            thread::Builder::new().spawn_scoped(scope, writer).unwrap();
            see_a_temporary_file(&dir);
            server.signal(libc::SIGTERM);
        });
        assert_eq!(server.wait(DEADLINE).code(), Some(0));
        assert_whole(&dir);
        assert_eq!(names(dir.path()), ["f"], "in round {round}");
    }
}

/// A copy that takes longer than anybody waits for.
#[test]
fn a_server_that_is_told_to_end_does_not_wait_for_a_copy_and_leaves_nothing() {
    let dir = TempDir::new();
    let big = dir.join("big");
    // Set aside, and no hole: all of it is copied.
    let file = std::fs::File::create(&big).unwrap();
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 8 << 30).unwrap();
    let mut server = Server::start();
    let mut peer = server.connect();
    peer.request("fs/copy", &super::from_to(&big, dir.join("copy")));
    see_a_temporary_file(&dir);
    server.signal(libc::SIGTERM);
    assert_eq!(server.wait(DEADLINE).code(), Some(0));
    let left: Vec<_> = names(dir.path()).into_iter().filter(|name| name != "copy").collect();
    assert_eq!(left, ["big"]);
    // On a fast machine it may have been done in time.
    let copied = std::fs::metadata(dir.join("copy")).map(|metadata| metadata.len());
    assert!(copied.is_err() || copied.is_ok_and(|size| size == 8 << 30));
}

/// What nobody else may read must not be readable while it is being written either.
#[test]
fn what_is_secret_is_secret_on_its_way_too() {
    let dir = TempDir::new();
    let secret = dir.write("secret", "old");
    super::chmod(&secret, 0o600);
    let big = dir.write("big", vec![b's'; 40 << 20]);
    super::chmod(&big, 0o600);
    let server = Server::start();
    let mut peer = server.connect();
    let new = serde_json::json!({"mode": 0o600});
    let mut ids: Vec<_> = (0..4)
        .map(|n| {
            let params = content(dir.join(&format!("new{n}")), vec![b's'; SIZE]);
            peer.request("fs/writeFile", &super::merged(params, &new))
        })
        .collect();
    ids.extend((0..4).map(|_| peer.request("fs/writeFile", &content(&secret, vec![b's'; SIZE]))));
    ids.push(peer.request("fs/copy", &super::from_to(&big, dir.join("copy"))));
    let end = Instant::now() + Duration::from_secs(60);
    while !ids.iter().all(|id| peer.has_answer(id)) {
        assert!(Instant::now() < end, "not answered");
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let name = entry.unwrap().file_name();
            let Ok(found) = std::fs::symlink_metadata(dir.path().join(&name)) else { continue };
            let mode = std::os::unix::fs::PermissionsExt::mode(&found.permissions());
            assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", name.display());
        }
        peer.pump(Duration::from_micros(100));
    }
}
