//! The started process is a container's first, and there may be nothing else in it.

use std::time::Duration;

use serde_json::json;

use super::{escaped, one_of_each};
use crate::support::rootfs::{OWN_PIDS, Root, cannot, guardian};
use crate::support::{DEADLINE, Peer, Setup, describe, eventually, procfs, sys};

fn as_pid_1() -> Setup {
    let own_proc = [&OWN_PIDS[..], &["--mount-proc", "--"]].concat();
    Setup::new().under(&own_proc)
}

#[track_caller]
fn assert_exits(peer: &mut Peer, code: i32) {
    let status = peer.pipes().wait(Duration::from_secs(5)).expect("it ends within 5 s");
    assert_eq!(status.code(), Some(code), "{}", describe(status));
}

#[test]
fn as_pid_1_it_ends_on_a_signal_with_all_that_it_has_started() {
    if cannot("as_pid_1_it_ends_on_a_signal_with_all_that_it_has_started") {
        return;
    }
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let mut peer = as_pid_1().stdio();
        let mut victims = one_of_each(&mut peer);
        victims.extend(escaped(&mut peer));
        let guardian = guardian(&mut peer);
        sys::signal(guardian, signal).unwrap();
        assert_exits(&mut peer, 0);
        assert!(victims.iter().all(|victim| victim.count() == 0), "some live on");
    }
}

#[test]
fn as_pid_1_it_passes_on_how_the_server_ended() {
    if cannot("as_pid_1_it_passes_on_how_the_server_ended") {
        return;
    }
    let mut peer = as_pid_1().stdio();
    let victims = escaped(&mut peer);
    let guardian = guardian(&mut peer);
    sys::signal(procfs::serving(guardian), libc::SIGKILL).unwrap();
    // Nobody can kill PID 1 from within, itself neither.
    assert_exits(&mut peer, 128 + libc::SIGKILL);
    assert!(victims.iter().all(|victim| victim.count() == 0), "some live on");
    let mut peer = as_pid_1().args(["--cwd", "/no/such/directory"]).stdio();
    assert_exits(&mut peer, 2);
}

#[test]
fn orphans_are_reaped_and_no_exit_code_is_lost() {
    if cannot("orphans_are_reaped_and_no_exit_code_is_lost") {
        return;
    }
    let plain: fn(&mut Peer) -> u32 = |peer| peer.pipes().guardian();
    for (setup, guardian) in [(as_pid_1(), guardian as fn(&mut Peer) -> u32), (Setup::new(), plain)]
    {
        let mut peer = setup.stdio();
        let guardian = guardian(&mut peer);
        let orphans = "i=0; while [ $i -lt 500 ]; do (sleep 0.1 &); i=$((i+1)); done; exit 77";
        let orphans = peer.start_exec(json!({"command": orphans}));
        let codes: Vec<_> = (0..100)
            .map(|code| (code, peer.start_exec(json!({"command": format!("exit {code}")}))))
            .collect();
        for (code, running) in &codes {
            assert_eq!(peer.finish(running).code(), Some(*code));
        }
        assert_eq!(peer.finish(&orphans).code(), Some(77));
        let serving = procfs::serving(guardian);
        let alone = || procfs::children(guardian) == [serving];
        eventually(DEADLINE, "the orphans are reaped", alone);
        eventually(DEADLINE, "the server has none", || procfs::children(serving).is_empty());
    }
}

#[test]
fn in_an_empty_root_it_is_all_that_is_needed() {
    let Some(root) = Root::new("in_an_empty_root_it_is_all_that_is_needed") else { return };
    let mut peer = root.stdio();
    let guardian = guardian(&mut peer);
    let version = peer.run(json!({"command": "/ta", "args": ["--version"]}));
    assert!(version.text().starts_with("ta "), "{:?}", version.text());
    // One that forks: killed, it leaves an orphan that has no other parent to go to.
    let inner = json!({"command": "/ta", "args": ["exec-server", "--port", "0"]});
    let (inner, _) = peer.spawn_with_pid(inner);
    let serving = procfs::serving(guardian);
    eventually(DEADLINE, "a server runs within", || {
        procfs::children(serving).iter().any(|pid| !procfs::children(*pid).is_empty())
    });
    assert!(peer.kill(&inner));
    assert_eq!(peer.exit(&inner).signal(), Some("SIGKILL"));
    let alone = || procfs::children(guardian) == [serving];
    eventually(DEADLINE, "the orphan is reaped", alone);
    sys::signal(guardian, libc::SIGTERM).unwrap();
    assert_exits(&mut peer, 0);
}

#[test]
fn in_an_empty_root_it_ends_on_sigint_and_passes_on_how_the_server_ended() {
    const NAME: &str = "in_an_empty_root_it_ends_on_sigint_and_passes_on_how_the_server_ended";
    let Some(root) = Root::new(NAME) else { return };
    let mut peer = root.stdio();
    peer.ping();
    let pid_1 = guardian(&mut peer);
    sys::signal(pid_1, libc::SIGINT).unwrap();
    assert_exits(&mut peer, 0);
    let mut peer = root.stdio();
    peer.ping();
    let pid_1 = guardian(&mut peer);
    sys::signal(procfs::serving(pid_1), libc::SIGKILL).unwrap();
    assert_exits(&mut peer, 128 + libc::SIGKILL);
}
