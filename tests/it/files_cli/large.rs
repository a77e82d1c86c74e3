//! A file that fits into no memory that is used.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::Path;

use super::{Running, Site, noise};

const MIB: usize = 1 << 20;
const SIZE: usize = 300 * MIB;
/// All of a debug build, its stacks, and the parts that are under way.
const MOST_KIB: u64 = 64 * 1024;

/// Runs it to its end and answers its peak of resident memory.
fn peak_of(running: Running) -> u64 {
    let status = format!("/proc/{}/status", running.child.id());
    let mut peak = 0;
    let mut running = running;
    while running.child.try_wait().unwrap().is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        peak = peak.max(kib.unwrap_or(0));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    running.finish().quiet();
    peak
}

#[track_caller]
fn assert_same(one: &Path, other: &Path) {
    let (mut one, mut other) = (File::open(one).unwrap(), File::open(other).unwrap());
    assert_eq!(one.metadata().unwrap().len(), other.metadata().unwrap().len());
    let (mut left, mut right) = (vec![0; MIB], vec![0; MIB]);
    while one.read(&mut left).unwrap() > 0 {
        other.read_exact(&mut right).unwrap();
        assert!(left == right);
    }
}

#[test]
fn three_hundred_megabytes_go_there_and_back() {
    let site = Site::listening();
    let here = site.here.join("file");
    let mut file = File::create(&here).unwrap();
    let mut block = noise(MIB);
    for number in 0..SIZE / MIB {
        block[..8].copy_from_slice(&number.to_ne_bytes());
        file.write_all(&block).unwrap();
    }
    let peak = peak_of(Running::start(site.ta("cp", ["file", &site.colon("copy")])));
    assert!(peak < MOST_KIB, "{peak} KiB");
    assert_same(&here, &site.there.join("copy"));
    let peak = peak_of(Running::start(site.ta("cp", [&site.colon("copy"), "back"])));
    assert!(peak < MOST_KIB, "{peak} KiB");
    assert_same(&here, &site.here.join("back"));
    site.assert_nothing_half();
}
