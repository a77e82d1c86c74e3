//! Memory: what is asked for costs a bounded amount of it, however it is asked for.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::json;

use super::slow_fifo::SlowReader;
use super::{AT_ONCE, content, mkdir, mkfifo, path, write};
use crate::support::{Peer, Setup, TempDir};

const MIB: u64 = 1 << 20;

/// A server that bears with a test that says nothing for long, on a machine that is busy.
fn patient() -> Setup {
    Setup::new().args(["--peer-timeout", "600"])
}

/// The most memory that a process ever had.
fn high_water(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// A request whose params are this text, which the peer need not take apart.
fn request(id: usize, method: &str, params: &str) -> String {
    let head = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":");
    head + params + "}"
}

#[test]
fn sixty_long_lists_for_a_host_that_does_not_read_take_little_memory() {
    const LISTS: usize = 60;
    const NAMES: usize = 20_000;
    let dir = TempDir::new();
    let big = mkdir(dir.join("big"));
    for n in 0..NAMES {
        std::fs::File::create(big.join(format!("{n:0200}"))).unwrap();
    }
    let mut peer = patient().stdio();
    let pid = peer.server_pid();
    let ids: Vec<_> = (0..LISTS).map(|_| peer.request("fs/readdir", &path(&big))).collect();
    await_rest(pid);
    assert!(high_water(pid) < 150 * MIB, "{} MiB", high_water(pid) / MIB);
    for id in ids {
        let list = peer.answer_within(&id, Duration::from_secs(60)).unwrap();
        assert_eq!(list["entries"].as_array().unwrap().len(), NAMES);
    }
    // What its threads have freed, the allocator may keep.
    assert!(high_water(pid) < 256 * MIB, "{} MiB", high_water(pid) / MIB);
}

/// Waits until a server does nothing any more.
#[track_caller]
fn await_rest(pid: u32) {
    use crate::support::procfs::busy_within;
    let end = Instant::now() + Duration::from_secs(60);
    let window = Duration::from_millis(300);
    while busy_within(pid, window) > window / 10 {
        assert!(Instant::now() < end, "the server is busy still");
    }
}

#[test]
fn a_path_longer_than_any_is_refused_at_once_and_not_kept() {
    const LENGTH: usize = 10_000_000;
    let dir = TempDir::new();
    let fifo = mkfifo(dir.join("fifo"));
    let mut peer = patient().stdio();
    let pid = peer.server_pid();
    let reader = SlowReader::of(&fifo);
    let slow = peer.request("fs/writeFile", &content(&fifo, vec![b'x'; 1_000_000]));
    let before = high_water(pid);
    let mut params = "{\"path\":\"/".to_owned();
    params.extend(std::iter::repeat_n('a', LENGTH));
    params.push_str("\"}");
    for id in 1..=40 {
        peer.send(&request(id, "fs/stat", &params));
        let error = peer.answer(&id.to_string()).unwrap_err();
        assert_eq!(error.data_code(), "ENAMETOOLONG", "{error:?}");
    }
    let grown = high_water(pid) - before;
    assert!(grown < 80 * MIB, "{} MiB more", grown / MIB);
    peer.answer_within(&slow, Duration::from_secs(30)).unwrap_err();
    reader.finish();
}

/// What waits weighs what counts, and not what came around it.
#[test]
fn short_content_in_a_long_message_weighs_little() {
    let dir = TempDir::new();
    let fifo = mkfifo(dir.join("fifo"));
    let mut peer = patient().stdio();
    let pid = peer.server_pid();
    let reader = SlowReader::of(&fifo);
    let slow = peer.request("fs/writeFile", &content(&fifo, vec![b'x'; 1_000_000]));
    let before = high_water(pid);
    let junk = "z".repeat(4 << 20);
    for id in 1..=60 {
        let file = dir.join(&format!("f{id}"));
        let file = file.display();
        let params = format!("{{\"dataBase64\":\"QUJD\",\"path\":\"{file}\",\"z\":\"{junk}\"}}");
        peer.send(&request(id, "fs/writeFile", &params));
    }
    peer.ping();
    let grown = high_water(pid) - before;
    assert!(grown < 80 * MIB, "{} MiB more", grown / MIB);
    peer.answer_within(&slow, Duration::from_secs(30)).unwrap_err();
    for id in 1..=60 {
        peer.answer(&id.to_string()).unwrap();
    }
    assert_eq!(std::fs::read(dir.join("f60")).unwrap(), b"ABC");
    reader.finish();
}

/// Their size is not known before they are read.
#[test]
fn files_of_no_size_for_a_host_that_does_not_read_take_little_memory() {
    const READS: usize = 60;
    let expected = std::fs::read("/proc/kallsyms").unwrap_or_default();
    if expected.len() < 1_000_000 {
        return;
    }
    let mut peer = patient().stdio();
    let pid = peer.server_pid();
    let read = || json!({"path": "/proc/kallsyms"});
    let ids: Vec<_> = (0..READS).map(|_| peer.request("fs/readFile", &read())).collect();
    await_rest(pid);
    assert!(high_water(pid) < 150 * MIB, "{} MiB", high_water(pid) / MIB);
    for id in ids {
        let found = peer.answer_within(&id, Duration::from_secs(60)).unwrap();
        assert_eq!(super::bytes(&found).len(), expected.len());
    }
}

/// `DIR/./././…/name`, of so many bytes in all.
fn long_path(dir: &TempDir, name: &str, length: usize) -> String {
    let around = dir.path().as_os_str().len() + 1 + name.len();
    let dots = length - around;
    let slashes = if dots % 2 == 1 { "/" } else { "" };
    format!("{}/{slashes}{}{name}", dir.path().display(), "./".repeat(dots / 2))
}

#[test]
fn a_path_is_too_long_where_it_is_for_the_system() {
    let mut peer = patient().stdio();
    let dir = TempDir::new();
    dir.write("f", "content");
    let longest = long_path(&dir, "f", 4_095);
    assert_eq!(super::read(&mut peer, &longest), b"content");
    super::write_with(&mut peer, &longest, "new", &json!({}));
    for length in [4_097, 100_000] {
        let long = long_path(&dir, "f", length);
        for method in ["fs/stat", "fs/readFile", "fs/readdir", "fs/realpath", "fs/remove"] {
            super::fails(&mut peer, method, &path(&long), "ENAMETOOLONG");
        }
        super::fails(&mut peer, "fs/writeFile", &content(&long, "x"), "ENAMETOOLONG");
    }
    assert_eq!(std::fs::read(dir.join("f")).unwrap(), b"new");
}

/// Wherever it would be cut.
#[test]
fn a_path_that_is_too_long_never_stands_for_a_shorter_one() {
    let mut peer = patient().stdio();
    let dir = TempDir::new();
    let source = dir.write("source", "x");
    for cut in 4_090..=4_100 {
        let mut long = long_path(&dir, "ff", cut);
        long.push_str(&"f".repeat(200));
        let from = json!({"from": super::wire(&source), "to": long});
        for (method, params) in [
            ("fs/writeFile", content(&long, "x")),
            ("fs/writeFile", super::merged(content(&long, "x"), &json!({"append": true}))),
            ("fs/writeFile", super::merged(content(&long, "x"), &json!({"createParents": true}))),
            ("fs/mkdir", path(&long)),
            ("fs/copy", from.clone()),
            ("fs/rename", from),
        ] {
            super::fails(&mut peer, method, &params, "ENAMETOOLONG");
            assert_eq!(super::names(dir.path()), ["source"], "{method} of {} bytes", long.len());
        }
    }
}

#[test]
fn a_version_longer_than_any_is_another_one() {
    let dir = TempDir::new();
    let file = dir.write("f", "kept");
    let mut peer = patient().stdio();
    let long = "v".repeat(10_000_000);
    let mut params = content(&file, "new");
    params["ifVersion"] = json!(long);
    let error = peer.error("fs/writeFile", &params);
    assert_eq!(error.data_code(), "CELL_TA_EXEC_CONFLICT", "{error:?}");
    assert_eq!(std::fs::read(&file).unwrap(), b"kept");
    write(&mut peer, &file, "new");
}

#[track_caller]
fn is_invalid(peer: &mut Peer, params: &str) {
    let since = Instant::now();
    peer.send(&request(7, "fs/stat", params));
    let error = peer.answer("7").unwrap_err();
    assert_eq!(error.code, -32602, "{error:?}");
    assert!(since.elapsed() < 2 * AT_ONCE, "{:?}", since.elapsed());
}

#[test]
fn a_path_of_five_million_elements_is_invalid_and_never_kept() {
    let mut zeros = "0".to_owned();
    zeros.extend(std::iter::repeat_n(",0", 5_000_000));
    let mut deep = String::new();
    for _ in 0..100 {
        write!(deep, "[{}],", &zeros[..100_001]).unwrap();
    }
    for path in [format!("[{zeros}]"), format!("[{deep}0]"), format!("{{\"base64\":[{zeros}]}}")] {
        let mut peer = patient().stdio();
        let pid = peer.server_pid();
        let before = high_water(pid);
        let params = format!("{{\"path\":{path}}}");
        let length = u64::try_from(params.len()).unwrap();
        is_invalid(&mut peer, &params);
        let grown = high_water(pid).saturating_sub(before + length);
        assert!(grown < 60 * MIB, "{} MiB more than the message", grown / MIB);
    }
}
