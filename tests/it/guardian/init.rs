//! The started process is a container's first, and there may be nothing else in it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::json;

use super::{copy_program, escaped, one_of_each};
use crate::support::{
    DEADLINE, Peer, Setup, TempDir, binary, describe, eventually, lacks, procfs, skipped, sys,
};

/// `unshare` runs it as PID 1 of a namespace of its own, and exits as it does.
const OWN_PIDS: [&str; 4] = ["unshare", "--pid", "--fork", "--kill-child"];

fn cannot(test: &str) -> bool {
    lacks(test, "unshare")
        || (!sys::is_root() && skipped(test, "a PID namespace of its own needs root"))
}

fn as_pid_1() -> Setup {
    let own_proc = [&OWN_PIDS[..], &["--mount-proc", "--"]].concat();
    Setup::new().under(&own_proc)
}

/// The guardian's number out here.
fn guardian(peer: &mut Peer) -> u32 {
    let unshare = peer.pipes().guardian();
    let mut found = None;
    eventually(DEADLINE, "PID 1 runs", || {
        found = procfs::children(unshare).first().copied();
        found.is_some()
    });
    found.unwrap()
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

/// Nothing but the program is there: no /proc, no /dev, no shell.
struct EmptyRoot {
    dir: TempDir,
}

impl EmptyRoot {
    fn new(test: &str) -> Option<Self> {
        if cannot(test) || lacks(test, "chroot") {
            return None;
        }
        let Some(program) = static_binary() else {
            skipped(test, "there is no static binary, and it cannot be built");
            return None;
        };
        let dir = TempDir::new();
        copy_program(program, &dir.join("ta"));
        Some(Self { dir })
    }

    fn stdio(&self) -> Peer {
        // The root's own /ta in place of the one out here.
        let enter = "shift; exec chroot \"$0\" /ta \"$@\"";
        let root = self.dir.path().to_str().unwrap();
        let words = [&OWN_PIDS[..], &["--", "sh", "-c", enter, root]].concat();
        Setup::new().under(&words).stdio()
    }
}

/// The binary under test if it is static, else one that is built for it.
pub(crate) fn static_binary() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            let is_static = |path: &Path| {
                let bytes = std::fs::read(path).unwrap_or_default();
                let loader = b"/lib64/ld-linux".as_slice();
                !bytes.is_empty() && !bytes.windows(loader.len()).any(|part| part == loader)
            };
            let own = binary();
            if is_static(&own) {
                return Some(own);
            }
            let triple = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
            let mut build = Command::new(env!("CARGO"));
            build.args(["build", "--locked", "--quiet", "--bin", "ta", "--target", &triple]);
            build.current_dir(env!("CARGO_MANIFEST_DIR"));
            let built = build.status().is_ok_and(|status| status.success());
            let target = own.parent()?.parent()?;
            let path = target.join(triple).join("debug/ta");
            (built && is_static(&path)).then_some(path)
        })
        .as_deref()
}

#[test]
fn in_an_empty_root_it_is_all_that_is_needed() {
    let Some(root) = EmptyRoot::new("in_an_empty_root_it_is_all_that_is_needed") else { return };
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
    let Some(root) = EmptyRoot::new(NAME) else { return };
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
