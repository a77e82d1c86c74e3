//! A file of any size in parts, at constant memory.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::{from_to, names, path, wire};
use crate::support::{Peer, Server, TempDir, base64};

const MIB: usize = 1 << 20;

/// How many parts are asked for ahead, as a host does that wants speed.
const AHEAD: usize = 4;

/// Mebibytes there and back. 2048 take a minute in an unoptimized build; `make bench` has them.
fn size() -> usize {
    std::env::var("TA_TEST_BIG_MIB").map_or(512, |size| size.parse().unwrap())
}

/// The parts of a file, each with its number in it, made without encoding a mebibyte every time.
struct Parts {
    /// The base64 of all but the first twelve bytes.
    tail: String,
}

impl Parts {
    fn new() -> Self {
        Self { tail: base64(super::noise(MIB - 12, 8)) }
    }

    fn base64(&self, number: usize) -> String {
        format!("{}{}", base64(format!("{number:012}")), self.tail)
    }
}

/// Highest resident memory ever, in KiB.
fn high_water_kib(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn append(peer: &mut Peer, file: &Path, parts: &Parts, count: usize) {
    let mut sent = std::collections::VecDeque::new();
    for number in 0..count {
        let params =
            json!({"path": wire(file), "dataBase64": parts.base64(number), "append": true});
        sent.push_back(peer.request("fs/writeFile", &params));
        if sent.len() > AHEAD {
            peer.answer(&sent.pop_front().unwrap()).unwrap();
        }
    }
    for id in sent {
        peer.answer(&id).unwrap();
    }
}

fn read_back(peer: &mut Peer, file: &Path, parts: &Parts, count: usize) {
    let ask = |peer: &mut Peer, number: usize| {
        let params = json!({"path": wire(file), "offset": number * MIB, "length": MIB});
        peer.request("fs/readFile", &params)
    };
    let mut asked: std::collections::VecDeque<_> =
        (0..AHEAD).map(|number| ask(peer, number)).collect();
    for number in 0..count {
        let id = asked.pop_front().unwrap();
        let result = peer.answer_within(&id, Duration::from_secs(20)).unwrap();
        assert!(result["dataBase64"] == json!(parts.base64(number)), "part {number} is another");
        assert_eq!(result["eof"], json!(number + 1 == count));
        assert_eq!(result["size"], json!(count * MIB));
        if number + AHEAD < count {
            asked.push_back(ask(peer, number + AHEAD));
        }
    }
}

#[test]
fn a_large_file_goes_there_and_back_at_constant_memory() {
    let count = size();
    let dir = TempDir::new();
    let parts = Parts::new();
    let server = Server::start();
    let mut peer = server.connect();
    let pid = peer.server_pid();
    let (growing, whole) = (dir.join("growing"), dir.join("whole"));
    append(&mut peer, &growing, &parts, count);
    peer.ok("fs/rename", &from_to(&growing, &whole));
    assert_eq!(peer.ok("fs/stat", &path(&whole))["size"], json!(count * MIB));
    let written = high_water_kib(pid);
    read_back(&mut peer, &whole, &parts, count);
    let peak = high_water_kib(pid);
    assert_eq!(names(dir.path()), ["whole"]);
    println!("{count} MiB: {written} KiB after writing, {peak} KiB after reading");
    assert!(peak < 64 * 1024, "{written} KiB after writing, {peak} KiB after reading");
}
