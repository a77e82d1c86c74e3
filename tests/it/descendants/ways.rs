//! Ways to escape.

use std::process::{Command, Stdio};

pub(super) use crate::support::python;
use crate::support::skipped;

#[derive(Clone, Copy)]
pub(super) struct Way {
    pub(super) name: &'static str,
    /// Shell commands that let `count` of `sleep "$N"` escape and come back.
    pub(super) script: &'static str,
    /// What `"$PYTHON" -c "$CODE"` does.
    pub(super) code: &'static str,
    pub(super) count: usize,
    /// It has taken its mark off: it is found while its parents live.
    needs_parents: bool,
    /// The script looks into /proc.
    needs_proc: bool,
}

const fn way(name: &'static str, count: usize, script: &'static str) -> Way {
    Way { name, script, code: "", count, needs_parents: false, needs_proc: false }
}

/// All of them, for a test that also ends the leader first.
pub(super) fn all_that_bear_a_mark() -> Vec<Way> {
    that_keep_their_mark(&all())
}

pub(super) fn that_keep_their_mark(ways: &[Way]) -> Vec<Way> {
    ways.iter().filter(|way| !way.needs_parents).copied().collect()
}

/// All that work, and can be found, without a usable /proc.
pub(super) fn all_without_proc() -> Vec<Way> {
    all_that_bear_a_mark().into_iter().filter(|way| !way.needs_proc).collect()
}

pub(super) fn all() -> Vec<Way> {
    let mut ways = vec![
        SETSID,
        way("a session of its own, and no parent", 1, r#"(setsid sleep "$N" &)"#),
        way("forked twice", 1, r#"( (sleep "$N" &) & )"#),
        ORPHANS,
        way("a group of its own", 2, r#"set -m; sleep "$N" & (sleep "$N" &) ; set +m"#),
        way("ignores signals", 1, r#"(trap '' TERM HUP INT QUIT USR1 PIPE; setsid sleep "$N" &)"#),
        way("an empty environment", 1, r#"env -i setsid sleep "$N" &"#),
        DAEMON,
        Way {
            needs_proc: true,
            ..way(
                "stopped",
                1,
                r#"setsid sleep "$N" &
                until grep -qa ^sleep "/proc/$!/cmdline"; do sleep 0.01; done; kill -STOP $!"#,
            )
        },
        Way { code: VFORK, ..way("a vfork parent", 1, PROGRAM) },
        Way { code: TRACED, ..way("traced", 1, PROGRAM) },
        Way { code: LEADERLESS, needs_proc: true, ..way("a dead leader thread", 1, PROGRAM) },
        Way {
            needs_parents: true,
            ..way(
                "a mark taken off below the leader",
                2,
                r#"setsid bash -c 'ulimit -x 5; setsid sleep "$N" & exec sleep "$N"' &"#,
            )
        },
        Way {
            needs_parents: true,
            ..way("a mark taken off by the leader", 1, r#"ulimit -x 5; setsid sleep "$N" &"#)
        },
        way("a mark taken off in the group", 1, r#"(bash -c 'ulimit -x 5; exec sleep "$N"' &)"#),
    ];
    if can_unshare() {
        ways.push(Way {
            needs_proc: true,
            ..way("a PID namespace", 1, r#"(setsid unshare -Urpf sleep "$N" &)"#)
        });
        ways.push(Way {
            needs_proc: true,
            ..way(
                "another's namespace",
                2,
                r#"setsid unshare -Ur sleep "$N" &
                own=$(readlink /proc/self/ns/user)
                until [ "$(readlink /proc/$!/ns/user)" != "$own" ]; do sleep 0.01; done
                (nsenter -U --preserve-credentials -t $! setsid sleep "$N" &)"#,
            )
        });
    }
    ways
}

pub(super) const SETSID: Way = way("a session of its own", 1, r#"setsid sleep "$N" &"#);

pub(super) const ORPHANS: Way = way(
    "another session's orphans",
    2,
    r#"setsid sh -c 'sleep "$N" & sleep "$N" & (sleep "$N" &)' & wait"#,
);

/// All at once.
pub(super) const DAEMON: Way = Way { code: DAEMONIZE, ..way("a daemon", 1, PROGRAM) };

const PROGRAM: &str = r#""$PYTHON" -c "$CODE" "$N" &"#;

fn can_unshare() -> bool {
    let mut probe = Command::new("unshare");
    probe.args(["-Urpf", "true"]).stderr(Stdio::null());
    let can = probe.status().is_ok_and(|status| status.success());
    can || !skipped("ways of escape by namespaces", "unshare -Urpf does not work here")
}

const DAEMONIZE: &str = r"
import os, shutil, signal, sys
sleep = shutil.which('sleep')
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
os.chdir('/')
os.closerange(0, 4096)
os.execve(sleep, ['sleep', sys.argv[1]], {})
";

/// Waits in the kernel for a child that never execs.
const VFORK: &str = r"
import ctypes, os, platform, shutil, sys, time
sleep = shutil.which('sleep')
clone = {'x86_64': 56, 'aarch64': 220}[platform.machine()]
os.setsid()
CLONE_VFORK, SIGCHLD = 0x4000, 17
if ctypes.CDLL(None).syscall(clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0) == 0:
    os.setsid()
    if os.fork() == 0: os.execv(sleep, ['sleep', sys.argv[1]])
    time.sleep(300)
";

/// Stopped at its exec by the one that traces it.
const TRACED: &str = r"
import ctypes, os, shutil, sys, time
sleep = shutil.which('sleep')
child = os.fork()
if child == 0:
    os.setsid()
    PTRACE_TRACEME = 0
    ctypes.CDLL(None).ptrace(PTRACE_TRACEME, 0, None, None)
    os.execv(sleep, ['sleep', sys.argv[1]])
os.setsid()
os.waitpid(child, 0)
time.sleep(300)
";

/// Its first thread has exited, which makes it look like a zombie; another goes on, and starts the
/// sleep again when that is killed.
const LEADERLESS: &str = r"
import ctypes, os, platform, shutil, sys, threading, time
sleep = shutil.which('sleep')
os.setsid()
def go_on():
    while ') Z' not in open(f'/proc/{os.getpid()}/stat').read(): time.sleep(0.01)
    while True: os.waitpid(os.posix_spawn(sleep, ['sleep', sys.argv[1]], {}), 0)
threading.Thread(target=go_on).start()
exit_thread = {'x86_64': 60, 'aarch64': 93}[platform.machine()]
ctypes.CDLL(None).syscall(exit_thread, 0)
";
