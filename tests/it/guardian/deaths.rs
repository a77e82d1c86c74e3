//! Either of the two dies without a word.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{escaped, one_of_each};
use crate::support::rootfs::copy_program;
use crate::support::{
    DEADLINE, Server, Setup, TempDir, Victim, best_of_three, describe, eventually, holds_within,
    lacks, procfs, skipped, sys,
};

/// What the protocol promises.
const SWEEP: Duration = Duration::from_secs(1);

/// How long after `since` all were gone.
#[track_caller]
fn time_until_gone(victims: &[Victim], since: Instant) -> Duration {
    for victim in victims {
        victim.await_gone_within(DEADLINE);
    }
    since.elapsed()
}

#[test]
fn a_server_that_is_killed_leaves_nothing_running() {
    best_of_three(SWEEP, "all are gone", || {
        let mut server = Server::start();
        let mut peer = server.connect();
        let mut victims = one_of_each(&mut peer);
        victims.extend(escaped(&mut peer));
        let since = Instant::now();
        sys::signal(server.pid(), libc::SIGKILL).unwrap();
        let took = time_until_gone(&victims, since);
        let status = server.wait(DEADLINE);
        assert_eq!(status.signal(), Some(libc::SIGKILL), "{}", describe(status));
        took
    });
}

#[test]
fn a_stdio_server_that_is_killed_leaves_nothing_running_and_its_peer_sees_the_end() {
    best_of_three(SWEEP, "all are gone", || {
        let mut peer = Setup::new().stdio();
        let mut victims = one_of_each(&mut peer);
        victims.extend(escaped(&mut peer));
        let guardian = peer.pipes().guardian();
        let since = Instant::now();
        sys::signal(procfs::serving(guardian), libc::SIGKILL).unwrap();
        peer.closed(DEADLINE);
        let took = time_until_gone(&victims, since);
        let status = peer.pipes().wait(DEADLINE).expect("the guardian ends");
        assert_eq!(status.signal(), Some(libc::SIGKILL), "{}", describe(status));
        took
    });
}

/// The end of stdout is the server's own doing: the guardian holds nothing open.
#[test]
fn the_guardian_holds_no_descriptor_but_stderr() {
    let mut peer = Setup::new().stdio();
    peer.ping();
    let guardian = peer.pipes().guardian();
    eventually(DEADLINE, "stderr alone is open", || procfs::descriptors(guardian) == 1);
    assert!(std::fs::read_link(format!("/proc/{guardian}/fd/2")).is_ok());
}

/// A program that makes more of itself faster than it can be killed one by one.
#[test]
fn what_goes_on_making_more_of_itself_is_swept_up_too() {
    let mut server = Server::start();
    let mut peer = server.connect();
    let victim = Victim::new();
    let more = format!("i=0; while [ $i -lt 1000 ]; do (setsid {} &); i=$((i+1)); done", {
        victim.command()
    });
    for _ in 0..2 {
        peer.start_exec(json!({"command": format!("({more}) >/dev/null 2>&1")}));
    }
    eventually(DEADLINE, "there are many", || victim.count() > 30);
    sys::signal(server.pid(), libc::SIGKILL).unwrap();
    server.wait(DEADLINE);
    assert_eq!(victim.count(), 0);
}

#[test]
fn a_server_whose_guardian_is_killed_ends_and_takes_its_processes_along() {
    best_of_three(SWEEP, "all are gone", || {
        let server = Server::start();
        let mut peer = server.connect();
        let serving = server.pid();
        let victims = one_of_each(&mut peer);
        let since = Instant::now();
        sys::signal(server.guardian(), libc::SIGKILL).unwrap();
        let took = time_until_gone(&victims, since);
        assert_eq!(peer.closed(DEADLINE).code, Some(1001));
        eventually(DEADLINE, "the server is gone", || procfs::state(serving) == "gone");
        assert!(server.log.to_end(DEADLINE).contains("the guardian has died"));
        took
    });
}

#[test]
fn a_server_whose_guardian_is_killed_finds_what_has_escaped() {
    best_of_three(SWEEP, "all are gone", || {
        let server = Server::start();
        let mut peer = server.connect();
        let victims = escaped(&mut peer);
        let since = Instant::now();
        sys::signal(server.guardian(), libc::SIGKILL).unwrap();
        time_until_gone(&victims, since)
    });
}

#[test]
fn a_stdio_server_whose_guardian_is_killed_ends_too() {
    best_of_three(SWEEP, "all are gone", || {
        let mut peer = Setup::new().stdio();
        let victims = one_of_each(&mut peer);
        let guardian = peer.pipes().guardian();
        let serving = procfs::serving(guardian);
        let since = Instant::now();
        sys::signal(guardian, libc::SIGKILL).unwrap();
        let took = time_until_gone(&victims, since);
        peer.closed(DEADLINE);
        eventually(DEADLINE, "the server is gone", || procfs::state(serving) == "gone");
        took
    });
}

/// The guardian asks of every number whether it is its child.
#[test]
fn without_a_proc_of_its_own_a_server_that_is_killed_leaves_nothing_running() {
    const NAME: &str = "without_a_proc_of_its_own_a_server_that_is_killed_leaves_nothing_running";
    if lacks(NAME, "unshare") || lacks(NAME, "mount") {
        return;
    }
    if !sys::is_root() {
        skipped(NAME, "hiding /proc needs root");
        return;
    }
    let hidden = "mount -t tmpfs none /proc && exec \"$0\" \"$@\"";
    assert_sweeps(&["unshare", "-m", "sh", "-c", hidden], |started| started);
    // Another PID namespace's, in which numbers mean other processes.
    let anothers = "\"$0\" \"$@\" & wait";
    let own_pids = ["unshare", "--pid", "--fork", "--kill-child", "sh", "-c", anothers];
    assert_sweeps(&own_pids, |unshare| {
        let child = |pid| procfs::children(pid)[0];
        child(child(unshare))
    });
}

fn assert_sweeps(launcher: &[&str], guardian: impl Fn(u32) -> u32) {
    let server = Setup::new().under(launcher).listen();
    let mut peer = server.connect();
    let mut victims = one_of_each(&mut peer);
    victims.extend(escaped(&mut peer));
    let since = Instant::now();
    let serving = procfs::serving(guardian(server.guardian()));
    sys::signal(serving, libc::SIGKILL).unwrap();
    let gone = || victims.iter().all(|victim| victim.count() == 0);
    assert!(holds_within(Duration::from_secs(5), gone), "some live on");
    println!("all were gone after {:?}", since.elapsed());
}

/// What has become root's altogether, as by sudo(8), another user's server cannot signal.
#[test]
fn what_may_not_be_ended_does_not_hold_up_the_guardian() {
    const NAME: &str = "what_may_not_be_ended_does_not_hold_up_the_guardian";
    if !sys::is_root() {
        skipped(NAME, "making a set-user-ID program needs root");
        return;
    }
    if lacks(NAME, "setpriv") {
        return;
    }
    use std::os::unix::fs::PermissionsExt as _;
    let dir = TempDir::new();
    let all = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(dir.path(), all(0o755)).unwrap();
    let sudo = dir.join("sudo");
    copy_program(Path::new("/usr/bin/setpriv"), &sudo);
    std::fs::set_permissions(&sudo, all(0o4755)).unwrap();
    let mut server = Setup::new().user(65534).args(["--cwd", "/"]).listen();
    let mut peer = server.connect();
    let args = ["--reuid", "0", "sleep", "60"];
    let (_, pid) = peer.spawn_with_pid(json!({"command": sudo.to_str().unwrap(), "args": args}));
    let is_root = || {
        let status = procfs::read_lossy(format!("/proc/{pid}/status"));
        status.lines().any(|line| line.starts_with("Uid:\t0\t"))
    };
    if !holds_within(DEADLINE, is_root) {
        skipped(NAME, "set-user-ID programs do not work here");
        return;
    }
    let since = Instant::now();
    sys::signal(server.pid(), libc::SIGKILL).unwrap();
    server.wait(DEADLINE);
    let took = since.elapsed();
    let lived_on = procfs::state(pid);
    let _ = sys::signal(pid, libc::SIGKILL);
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(lived_on, "S", "it could be ended after all");
    assert!(server.log.to_end(DEADLINE).contains("cannot be ended"));
}
