//! Calls of a server that take long or fail, which strace can do to them.

use std::time::{Duration, Instant};

use crate::support::{DEADLINE, Setup, eventually, procfs};

/// strace is none of the tools that the tests need, so its absence is no failure anywhere.
pub(crate) fn lacks_strace(test: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join("strace").is_file());
    if !found {
        println!("SKIPPED {test}: strace is not installed");
    }
    !found
}

/// A server to whose `calls` that is done, with a umask of 022. strace stays in the background: the
/// server is our child.
pub(crate) fn injected(setup: Setup, calls: &str, what: &str) -> Setup {
    let inject = format!("inject={calls}:{what}");
    under_strace(setup, calls, &["-e", &inject, "-o", "/dev/null"])
}

pub(crate) fn under_strace(setup: Setup, calls: &str, more: &[&str]) -> Setup {
    let calls = format!("trace={calls}");
    let shell = ["sh", "-c", "umask 022; exec \"$0\" \"$@\""];
    let strace = ["strace", "-D", "-f", "-qq", "-e", &calls];
    setup.under(&[&shell[..], &strace, more, &["--"]].concat())
}

/// Waits until a call of this process is held up: for longer than strace only looks at it.
#[track_caller]
pub(crate) fn await_held(pid: u32) {
    let is_held = || {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let ids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
        ids.into_iter().any(|id| procfs::state(id) == "t")
    };
    let mut since = Instant::now();
    eventually(DEADLINE, "a call is held up", || {
        if !is_held() {
            since = Instant::now();
        }
        since.elapsed() > Duration::from_millis(100)
    });
}
