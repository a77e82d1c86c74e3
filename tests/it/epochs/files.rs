//! From the first answer to the new host on no change of a file by an old one lands.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{assert_fenced, assert_stale};
use crate::fs::inject::{await_held, injected, lacks_strace};
use crate::support::{DEADLINE, Peer, Server, Setup, TempDir, base64, eventually};

fn content(path: &Path, bytes: impl AsRef<[u8]>) -> Value {
    json!({"path": path, "dataBase64": base64(bytes)})
}

/// All that can be seen below a directory: names, sizes, times of change. (A file that has no place
/// yet may go after the answer.)
fn picture(dir: &Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt as _;
    let mut seen = Vec::new();
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(&dir).unwrap().flatten() {
            let Ok(stat) = entry.path().symlink_metadata() else { continue };
            if entry.file_name().as_encoded_bytes().starts_with(b".ta-tmp-") {
                continue;
            }
            if stat.is_dir() {
                left.push(entry.path());
                seen.push(format!("{}", entry.path().display()));
            } else {
                let time = (stat.mtime(), stat.mtime_nsec(), stat.ino());
                seen.push(format!("{} {} {time:?}", entry.path().display(), stat.len()));
            }
        }
    }
    seen.sort();
    seen
}

/// Takes the server over, and shows that nothing changes from then on.
#[track_caller]
fn take_over(server: &Server, epoch: u64, dir: &Path) -> Duration {
    let mut new = server.connect_of(epoch);
    let since = Instant::now();
    new.ping();
    let took = since.elapsed();
    let then = picture(dir);
    new.pump(Duration::from_millis(40));
    assert_eq!(picture(dir), then, "something has landed after the answer to epoch {epoch}");
    took
}

fn send_all(peer: &mut Peer, calls: &[(&str, Value)]) -> Vec<String> {
    calls.iter().map(|(method, params)| peer.request(method, params)).collect()
}

#[test]
fn of_writes_that_are_pipelined_none_lands_after_the_first_answer() {
    let server = Server::start();
    let dir = TempDir::new();
    let mut cut_short = 0;
    for round in 0..12_u64 {
        let mut old = server.connect_of(2 * round + 1);
        let calls: Vec<_> = (0..120)
            .map(|n| {
                let size = if n % 3 == 0 { 300_000 } else { 10 };
                ("fs/writeFile", content(&dir.join(&format!("f{}", n % 7)), vec![b'x'; size + n]))
            })
            .collect();
        let slow = TempDir::new();
        // In some rounds the last writes wait behind one that takes its time: all have been read when
        // the ping behind them is answered.
        let reader = (round % 4 == 3).then(|| {
            let (fifo, reader) = slow_fifo(&slow);
            old.request("fs/writeFile", &content(&fifo, vec![0; 1 << 20]));
            reader
        });
        let ids = send_all(&mut old, &calls);
        match &reader {
            Some(_) => old.ping(),
            None => old.pump(Duration::from_millis(round)),
        }
        take_over(&server, 2 * round + 2, dir.path());
        for id in &ids {
            // Those that had been done, and those whose frames were never taken, aside.
            old.pump(Duration::from_millis(1));
            if old.has_answer(id)
                && let Err(error) = old.answer(id)
            {
                assert_stale(&error, 2 * round + 1, 2 * round + 2);
                cut_short += 1;
            }
        }
        assert_fenced(&mut old);
    }
    assert!(cut_short > 0, "no write was on its way in any round");
}

#[test]
fn every_kind_of_change_stops_at_the_fence() {
    let server = Server::start();
    let dir = TempDir::new();
    for round in 0..6_u64 {
        let top = dir.join(&format!("r{round}"));
        std::fs::create_dir(&top).unwrap();
        for n in 0..60 {
            std::fs::write(top.join(format!("a{n}")), "x").unwrap();
        }
        let mut old = server.connect_of(2 * round + 1);
        for n in 0..60 {
            let at = |letter: &str| top.join(format!("{letter}{n}"));
            send_all(
                &mut old,
                &[
                    ("fs/mkdir", json!({"path": at("d")})),
                    ("fs/rename", json!({"from": at("a"), "to": at("b")})),
                    ("fs/copy", json!({"from": at("b"), "to": at("c")})),
                    (
                        "fs/writeFile",
                        json!({"path": at("c"), "dataBase64": "eA==", "append": true}),
                    ),
                    ("fs/remove", json!({"path": at("b")})),
                ],
            );
        }
        take_over(&server, 2 * round + 2, &top);
        assert_fenced(&mut old);
    }
}

#[test]
fn a_long_copy_of_a_tree_stops_at_the_fence() {
    let server = Server::start();
    let dir = TempDir::new();
    let from = dir.join("from");
    std::fs::create_dir(&from).unwrap();
    for n in 0..4000 {
        std::fs::write(from.join(format!("f{n}")), "content").unwrap();
    }
    let mut old = server.connect_of(1);
    let to = dir.join("to");
    let params = json!({"from": from, "to": to, "recursive": true});
    let id = old.request("fs/copy", &params);
    let count = || std::fs::read_dir(&to).map_or(0, Iterator::count);
    eventually(DEADLINE, "it copies", || count() > 20);
    take_over(&server, 2, dir.path());
    assert!(count() < 4000, "it was done before");
    assert_stale(&old.answer(&id).unwrap_err(), 1, 2);
    assert_fenced(&mut old);
}

/// Nobody waits for the content of a file that has no place yet, and so not for what comes after it
/// either: the modes that new directories get in the end.
#[test]
fn a_copy_of_a_tree_that_is_stuck_in_a_file_changes_no_directory_after_the_first_answer() {
    if lacks_strace("a_copy_of_a_tree_that_is_stuck_in_a_file_changes_no_directory") {
        return;
    }
    let what = "delay_enter=2000000:when=1";
    let server = injected(Setup::new(), "copy_file_range,sendfile", what).listen();
    let dir = TempDir::new();
    let (from, to) = (dir.join("from"), dir.join("to"));
    std::fs::create_dir_all(from.join("a")).unwrap();
    std::fs::write(from.join("a/f"), "content").unwrap();
    let mut old = server.connect_of(1);
    let id = old.request("fs/copy", &json!({"from": from, "to": to, "recursive": true}));
    await_held(server.pid());
    let modes = || [&to, &to.join("a")].map(|path| mode_of(path));
    let since = Instant::now();
    server.connect_of(2).ping();
    assert!(since.elapsed() < Duration::from_millis(1500), "{:?}", since.elapsed());
    let then = modes();
    assert_stale(&old.answer(&id).unwrap_err(), 1, 2);
    let is_empty = || std::fs::read_dir(to.join("a")).unwrap().count() == 0;
    assert!(!is_empty(), "it is on its way");
    eventually(DEADLINE, "what it has made is removed", is_empty);
    server.connect_of(2).pump(Duration::from_millis(100));
    assert_eq!(modes(), then);
}

fn mode_of(path: &Path) -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    path.metadata().unwrap().mode()
}

#[test]
fn a_long_removal_stops_at_the_fence() {
    let server = Server::start();
    let dir = TempDir::new();
    let tree = dir.join("tree");
    std::fs::create_dir(&tree).unwrap();
    for n in 0..15_000 {
        std::fs::write(tree.join(format!("f{n}")), "").unwrap();
    }
    let mut old = server.connect_of(1);
    let id = old.request("fs/remove", &json!({"path": tree, "recursive": true}));
    let count = || std::fs::read_dir(&tree).map_or(0, Iterator::count);
    eventually(DEADLINE, "it removes", || count() < 14_900);
    take_over(&server, 2, dir.path());
    assert!(count() > 0, "it was done before");
    assert_stale(&old.answer(&id).unwrap_err(), 1, 2);
}

/// Ended also when the test fails.
struct Reader(std::process::Child);

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A FIFO whose reader takes 12 s for a MiB.
fn slow_fifo(dir: &TempDir) -> (std::path::PathBuf, Reader) {
    let fifo = dir.join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from(0o600),
        0,
    )
    .unwrap();
    let mut reader = std::process::Command::new("sh");
    reader.arg("-c").arg("exec < \"$0\"; while head -c 4096; do sleep 0.05; done").arg(&fifo);
    (fifo, Reader(reader.stdout(std::process::Stdio::null()).spawn().unwrap()))
}

/// It would be waited for, for 5 s, by what is behind it.
#[test]
fn a_write_into_a_fifo_that_is_read_slowly_stops_at_the_fence() {
    let server = Server::start();
    let dir = TempDir::new();
    let (fifo, _reader) = slow_fifo(&dir);
    let mut old = server.connect_of(1);
    let id = old.request("fs/writeFile", &content(&fifo, vec![0; 4 << 20]));
    old.pump(Duration::from_millis(200));
    assert!(!old.has_answer(&id));
    let took = take_over(&server, 2, dir.path());
    assert!(took < Duration::from_millis(900), "{took:?}");
    assert_stale(&old.answer(&id).unwrap_err(), 1, 2);
}

/// What nobody sees is not waited for: content on its way to the disk that has no place yet.
#[test]
fn a_write_that_is_stuck_before_it_has_a_place_is_not_waited_for_and_never_gets_one() {
    if lacks_strace("a_write_that_is_stuck_before_it_has_a_place_is_not_waited_for") {
        return;
    }
    let (server, dir, mut old, id) = stuck_before_a_place(Duration::from_secs(3));
    let since = Instant::now();
    server.connect_of(2).ping();
    let took = since.elapsed();
    assert!(took < Duration::from_secs(2), "it was waited for: {took:?}");
    assert_stale(&old.answer(&id).unwrap_err(), 1, 2);
    assert_never_lands(&dir);
}

/// A server that takes so long to flush the content of a new file, which has no place yet, an old host
/// that waits for it, and what it is to replace.
fn stuck_before_a_place(time: Duration) -> (Server, TempDir, Peer, String) {
    let what = format!("delay_enter={}:when=1", time.as_micros());
    let server = injected(Setup::new(), "fsync", &what).listen();
    let dir = TempDir::new();
    let mut old = server.connect_of(1);
    let mut params = content(&dir.write("f", "old"), "new");
    params["sync"] = json!(true);
    let id = old.request("fs/writeFile", &params);
    await_held(server.pid());
    (server, dir, old, id)
}

/// What is on its way is removed, and the file stays what it was.
#[track_caller]
fn assert_never_lands(dir: &TempDir) {
    let is_alone = || std::fs::read_dir(dir.path()).unwrap().count() == 1;
    assert!(!is_alone(), "it is on its way");
    eventually(DEADLINE, "what it has made is removed", is_alone);
    assert_eq!(std::fs::read(dir.join("f")).unwrap(), b"old");
}

/// A server whose first rename takes so long, an old host that waits for it, and what it replaces.
fn stuck_in_a_rename(time: Duration) -> (Server, TempDir, Peer, String) {
    let what = format!("delay_enter={}:when=1", time.as_micros());
    let server = injected(Setup::new(), "rename,renameat,renameat2", &what).listen();
    let dir = TempDir::new();
    let file = dir.write("f", "old");
    let mut old = server.connect_of(1);
    let id = old.request("fs/writeFile", &content(&file, "new"));
    await_held(server.pid());
    assert_eq!(std::fs::read(&file).unwrap(), b"old");
    (server, dir, old, id)
}

#[track_caller]
fn assert_waited_for(server: &Server, dir: &TempDir, time: Duration) {
    let mut new = [server.connect_of(2), server.connect_of(2)];
    let since = Instant::now();
    for new in &mut new {
        new.ping();
        assert_eq!(std::fs::read(dir.join("f")).unwrap(), b"new", "it lands after the answer");
    }
    assert!(since.elapsed() > time, "it was not held: {:?}", since.elapsed());
}

/// What would be seen is waited for: it is there before the answer, and not after it.
#[test]
fn a_rename_that_is_stuck_is_waited_for() {
    if lacks_strace("a_rename_that_is_stuck_is_waited_for") {
        return;
    }
    // Longer than the end of a connection waits for anything else.
    let (server, dir, mut old, id) = stuck_in_a_rename(Duration::from_millis(4500));
    assert_waited_for(&server, &dir, Duration::from_secs(3));
    // It has had its effect, or it was given up: either is the truth.
    if let Err(error) = old.answer(&id) {
        assert_stale(&error, 1, 2);
    }
    assert_fenced(&mut old);
}

/// Its connection has ended, and nobody waits for its end any more.
#[test]
fn a_rename_of_a_host_that_has_gone_is_waited_for() {
    if lacks_strace("a_rename_of_a_host_that_has_gone_is_waited_for") {
        return;
    }
    let (server, dir, mut old, _) = stuck_in_a_rename(Duration::from_secs(7));
    old.hang_up();
    server.connect().pump(Duration::from_millis(4000));
    assert_waited_for(&server, &dir, Duration::from_millis(1500));
}

/// The same before it has a place: it goes on, but nobody is to be surprised by it.
#[test]
fn a_write_of_a_host_that_has_gone_never_lands_after_the_first_answer() {
    if lacks_strace("a_write_of_a_host_that_has_gone_never_lands_after_the_first_answer") {
        return;
    }
    let (server, dir, mut old, _) = stuck_before_a_place(Duration::from_secs(7));
    old.hang_up();
    server.connect().pump(Duration::from_millis(4000));
    let since = Instant::now();
    server.connect_of(2).ping();
    assert!(since.elapsed() < Duration::from_millis(1500), "{:?}", since.elapsed());
    assert_never_lands(&dir);
}
