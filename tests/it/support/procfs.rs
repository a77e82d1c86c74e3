//! What /proc says: who is alive, how much memory, how many threads and descriptors.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{DEADLINE, Peer, eventually, holds_within, unique};

/// A `sleep` that no other test has, to be found by its argument.
pub(crate) struct Victim {
    argument: String,
}

impl Victim {
    pub(crate) fn new() -> Self {
        // sleep takes fractions: the digits after the point are the marker.
        Self { argument: format!("321.{}", unique()) }
    }

    /// The command line of a shell.
    pub(crate) fn command(&self) -> String {
        format!("sleep {}", self.argument)
    }

    pub(crate) fn argument(&self) -> &str {
        &self.argument
    }

    /// How many of it are running; zombies do not count.
    pub(crate) fn count(&self) -> usize {
        self.pids().len()
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        let line = format!("sleep\0{}\0", self.argument);
        let is_it = |pid: &u32| {
            let found = fs::read(format!("/proc/{pid}/cmdline"));
            found.is_ok_and(|found| found == line.as_bytes())
        };
        all_pids().filter(is_it).collect()
    }

    /// Of whatever program, with its argument among the others.
    pub(crate) fn traces(&self) -> Vec<u32> {
        let names_it = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|word| word == self.argument.as_bytes())
        };
        all_pids().filter(names_it).collect()
    }

    #[track_caller]
    pub(crate) fn await_alive(&self) -> u32 {
        let mut pids = Vec::new();
        let what = format!("{} is running", self.command());
        eventually(DEADLINE, &what, || {
            pids = self.pids();
            !pids.is_empty()
        });
        pids[0]
    }

    /// Waits until so many of it are running.
    #[track_caller]
    pub(crate) fn await_count(&self, count: usize) {
        let what = format!("{count} of {} alive", self.command());
        eventually(DEADLINE, &what, || self.count() == count);
    }

    #[track_caller]
    pub(crate) fn assert_alive(&self) {
        assert!(self.count() > 0, "{} is not running", self.command());
    }

    #[track_caller]
    pub(crate) fn await_gone(&self) {
        self.await_gone_within(Duration::from_secs(3));
    }

    #[track_caller]
    pub(crate) fn await_gone_within(&self, limit: Duration) {
        let left = || format!("{} is gone, but {:?} live", self.command(), self.pids());
        let gone = holds_within(limit, || self.count() == 0);
        assert!(gone, "not within {limit:?}: {}", left());
    }

    /// Spawns it and shows that it runs.
    #[track_caller]
    pub(crate) fn spawn(&self, peer: &mut Peer) -> String {
        let process = peer.spawn(json!({"command": "sleep", "args": [self.argument]}));
        self.await_alive();
        process
    }
}

pub(crate) fn all_pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// Fields of /proc/PID/stat from the third (the state) on.
pub(crate) fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(text.rsplit_once(") ")?.1.split_whitespace().map(str::to_owned).collect())
}

pub(crate) fn state(pid: u32) -> String {
    stat(pid).map_or_else(|| "gone".into(), |fields| fields[0].clone())
}

pub(crate) fn parent(pid: u32) -> Option<u32> {
    stat(pid)?.get(1)?.parse().ok()
}

/// Waits until processes that write all they can have been held up for 100 ms.
#[track_caller]
pub(crate) fn await_stalled(pids: &[u32]) {
    await_stalled_for(pids, Duration::from_millis(100));
}

#[track_caller]
pub(crate) fn await_stalled_for(pids: &[u32], time: Duration) {
    let busy = || pids.iter().map(|pid| processor_time(*pid)).collect::<Vec<_>>();
    let (mut last, mut since) = (busy(), Instant::now());
    eventually(DEADLINE, "the writers are held up", || {
        let now = busy();
        if now != last || pids.iter().any(|pid| state(*pid) != "S") {
            (last, since) = (now, Instant::now());
        }
        since.elapsed() > time
    });
}

fn processor_time(pid: u32) -> (String, String) {
    let fields = stat(pid).unwrap_or_else(|| panic!("pid {pid} is gone"));
    (fields[11].clone(), fields[12].clone())
}

pub(crate) fn children(pid: u32) -> Vec<u32> {
    all_pids().filter(|child| parent(*child) == Some(pid)).collect()
}

/// The server that this guardian guards: of its children the one with its own command line.
#[track_caller]
pub(crate) fn serving(guardian: u32) -> u32 {
    let line = |pid: u32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut serving = None;
    eventually(DEADLINE, "the guardian has a server", || {
        let own = line(guardian);
        serving = children(guardian).into_iter().find(|child| line(*child) == own);
        serving.is_some()
    });
    serving.unwrap()
}

pub(crate) fn zombies_of(pid: u32) -> Vec<u32> {
    children(pid).into_iter().filter(|child| state(*child) == "Z").collect()
}

/// What its threads are called.
pub(crate) fn thread_names(pid: u32) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    let name = |thread: std::io::Result<fs::DirEntry>| {
        fs::read_to_string(thread.ok()?.path().join("comm")).ok()
    };
    threads.filter_map(name).map(|name| name.trim_end().to_owned()).collect()
}

pub(crate) fn threads(pid: u32) -> usize {
    entries(&format!("/proc/{pid}/task"))
}

pub(crate) fn descriptors(pid: u32) -> usize {
    entries(&format!("/proc/{pid}/fd"))
}

/// The numbers of threads and descriptors, once they have been the same for longer than the second
/// that a thread waits for another process.
#[track_caller]
pub(crate) fn settled(pid: u32) -> (usize, usize) {
    let now = || (threads(pid), descriptors(pid));
    let (mut last, mut since) = (now(), Instant::now());
    eventually(DEADLINE, "the server is at rest", || {
        if now() != last {
            (last, since) = (now(), Instant::now());
        }
        since.elapsed() > Duration::from_millis(1200)
    });
    last
}

/// How much processor time a process takes within this time.
pub(crate) fn busy_within(pid: u32, time: Duration) -> Duration {
    let ticks = || -> u64 {
        let (user, system) = processor_time(pid);
        user.parse::<u64>().unwrap() + system.parse::<u64>().unwrap()
    };
    let before = ticks();
    std::thread::sleep(time);
    Duration::from_millis((ticks() - before) * 1000 / super::sys::ticks_per_second())
}

fn entries(path: &str) -> usize {
    fs::read_dir(path).map_or(0, Iterator::count)
}

/// Resident memory in KiB.
pub(crate) fn resident_kib(pid: u32) -> u64 {
    status_kib(pid, "VmRSS:")
}

/// The most resident memory that a process has ever had, in KiB.
pub(crate) fn highest_kib(pid: u32) -> u64 {
    status_kib(pid, "VmHWM:")
}

fn status_kib(pid: u32, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("the server runs");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect(name);
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The highest resident memory seen in this time, in KiB.
pub(crate) fn peak_kib(pid: u32, time: Duration) -> u64 {
    let end = Instant::now() + time;
    let mut peak = 0;
    holds_within(time, || {
        peak = peak.max(resident_kib(pid));
        Instant::now() >= end
    });
    peak
}

/// How many bytes it has read so far, of files, pipes and sockets.
pub(crate) fn bytes_read(pid: u32) -> u64 {
    let io = read_lossy(format!("/proc/{pid}/io"));
    let count = io.lines().find_map(|line| line.strip_prefix("rchar:"));
    count.and_then(|count| count.trim().parse().ok()).expect("rchar in /proc/PID/io")
}

pub(crate) fn read_lossy(path: impl AsRef<Path>) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}
