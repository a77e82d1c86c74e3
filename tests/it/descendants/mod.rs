//! Everything that comes of a process is ended with it and with its connection, whatever it does to
//! get away, and nothing else is.

mod bombs;
mod ends;
mod groups;
mod kills;
mod many;
mod marks;
mod nested;
mod others;
mod reuse;
mod sandboxes;
mod setuid;
mod stress;
mod timeouts;
mod ways;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    DEADLINE, Peer, Running, Setup, Victim, eventually, holds_within, procfs, sys,
};
use ways::Way;

/// A process that has let something escape.
struct Escaped {
    name: &'static str,
    running: Running,
    victim: Victim,
}

impl Escaped {
    /// Starts one process for each way, with these params besides, and shows that all are alive.
    #[track_caller]
    fn all(peer: &mut Peer, ways: &[Way], params: &Value) -> Vec<Self> {
        let all: Vec<_> = ways.iter().map(|way| Self::start(peer, way, params)).collect();
        for (way, escaped) in ways.iter().zip(&all) {
            eventually(2 * DEADLINE, way.name, || escaped.victim.count() > way.count);
        }
        all
    }

    /// The same with a timeout that leaves this machine, as busy as it is, the time to show that
    /// all are alive.
    #[track_caller]
    fn timed(peer: &mut Peer, ways: &[Way], params: &Value) -> Vec<Self> {
        let mut params = params.clone();
        for seconds in [3, 9, 27] {
            params["timeoutMs"] = json!(seconds * 1_000);
            let all: Vec<_> = ways.iter().map(|way| Self::start(peer, way, &params)).collect();
            let are_alive =
                || ways.iter().zip(&all).all(|(way, escaped)| escaped.victim.count() > way.count);
            if holds_within(Duration::from_secs(seconds), are_alive) {
                return all;
            }
        }
        panic!("some do not even start");
    }

    #[track_caller]
    fn one(peer: &mut Peer, way: &Way) -> Self {
        Self::all(peer, std::slice::from_ref(way), &json!({})).remove(0)
    }

    fn start(peer: &mut Peer, way: &Way, params: &Value) -> Self {
        let victim = Victim::new();
        let mut params = params.clone();
        params["command"] = json!(format!("{}\nexec sleep \"$N\"", way.script));
        params["env"] = json!({"N": victim.argument(), "PYTHON": ways::python(), "CODE": way.code});
        Self { name: way.name, running: peer.start_exec(params), victim }
    }

    #[track_caller]
    fn await_gone(&self) {
        assert_gone(&self.victim, self.name);
    }

    #[track_caller]
    fn assert_alive(&self) {
        assert!(self.victim.count() > 0, "{}: it is not running", self.name);
    }
}

#[track_caller]
fn await_all_gone(all: &[Escaped]) {
    all.iter().for_each(Escaped::await_gone);
    // What one that was missed would have started since.
    all.iter().for_each(Escaped::await_gone);
}

/// Two hundred processes, and fifty more that have escaped.
#[track_caller]
pub(crate) fn two_hundred(peer: &mut Peer) -> Victim {
    let victim = Victim::new();
    for number in 0..200 {
        let command = match number % 4 {
            0 => "(setsid sleep $N &); exec sleep $N",
            _ => "exec sleep $N",
        };
        peer.start_exec(json!({"command": command, "env": {"N": victim.argument()}}));
    }
    eventually(3 * DEADLINE, "all run", || victim.count() == 250);
    victim
}

/// Waits until nothing is left that was started with the victim's argument, of whatever program.
#[track_caller]
fn assert_gone(victim: &Victim, name: &str) {
    let gone = holds_within(DEADLINE, || victim.traces().is_empty());
    let left = victim.traces();
    for pid in &left {
        let _ = sys::signal(*pid, libc::SIGKILL);
    }
    assert!(gone, "{name}: {left:?} have survived");
}

#[track_caller]
fn assert_no_zombies(server: u32) {
    eventually(DEADLINE, "all are reaped", || procfs::zombies_of(server).is_empty());
}

/// Runs a test with control groups, where they can be had, and without.
pub(crate) fn with_and_without_groups(test: impl Fn(Setup)) {
    test(Setup::new());
    if sys::is_root() {
        test(without_groups());
    }
}

/// A server that sees no control groups.
fn without_groups() -> Setup {
    let hide = "umount -R /sys/fs/cgroup 2>/dev/null; exec \"$0\" \"$@\"";
    Setup::new().under(&["unshare", "-m", "sh", "-c", hide])
}

/// One at a time of the tests that take all of the machine, or measure.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A user that nobody else is.
fn nobody_else() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    100_000 + std::process::id() % 100_000 * 64 + NEXT.fetch_add(1, Ordering::Relaxed) % 64
}

/// A server of a user of its own, whose processes can be told from all others.
fn as_user(uid: u32) -> Setup {
    Setup::new().user(uid)
}

/// True, and says so, where tests cannot be other users.
fn lacks_root(test: &str) -> bool {
    !sys::is_root() && crate::support::skipped(test, "only root can be another user")
}
