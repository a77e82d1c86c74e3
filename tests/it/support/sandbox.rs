//! Sandboxes that refuse system calls, as containers and gVisor do.

use std::process::Command;

use serde_json::Value;

use super::{Setup, binary, python, rootfs};

/// What can be refused: each a rule of its own, or the names of system calls.
pub(crate) const RULES: [&str; 8] =
    ["pidfd", "clone3", "clone-pidfd", "mark", "subreaper", "new", "files", "group"];

/// Refuses system calls by an errno: `python3 -c REFUSING RULES ERRNO PROGRAM…`. The rules are `pidfd`,
/// `clone3`, `clone-pidfd` (the flag of the older call), `mark` (setting the limit that marks are in),
/// `subreaper`, `group` (signalling a group by its leader's pidfd, which Linux 6.9 was the first to
/// do), `new` (what old kernels and gVisor lack besides) and `files` (what files can do without).
const REFUSING: &str = r"
import ctypes, errno, os, platform, struct, sys
rules, error = sys.argv[1].split(','), getattr(errno, sys.argv[2])
LD, JEQ, JSET, RET, ALLOW, REFUSE = 0x20, 0x15, 0x45, 0x06, 0x7fff0000, 0x00050000 | error
NUMBERS = {
    'x86_64': dict(clone=56, prctl=157, prlimit64=302, renameat2=316, statx=332, fallocate=285,
                   flistxattr=196, fgetxattr=193, inotify_init1=294, signalfd4=289,
                   copy_file_range=326, memfd_create=319),
    'aarch64': dict(clone=220, prctl=167, prlimit64=261, renameat2=276, statx=291, fallocate=47,
                    flistxattr=13, fgetxattr=10, inotify_init1=26, signalfd4=74,
                    copy_file_range=285, memfd_create=279),
}[platform.machine()]
NUMBERS.update(pidfd_send_signal=424, pidfd_open=434, clone3=435, close_range=436, openat2=437,
               faccessat2=439, io_uring_setup=425, fchmodat2=452)
ARGUMENT = [16, 24, 32, 40]
def call(name, *tests):
    # Each test is a jump with what it compares, and the argument that it looks at.
    steps = []
    for jump, value, argument in tests:
        steps += [(LD, 0, 0, ARGUMENT[argument]), (jump, 0, None, value)]
    steps += [(RET, 0, 0, REFUSE)]
    for at, step in enumerate(steps):
        if step[2] is None: steps[at] = (step[0], 0, len(steps) - 1 - at, step[3])
    return [(LD, 0, 0, 0), (JEQ, 0, len(steps), NUMBERS[name])] + steps
RULES = {
    'pidfd': [call('pidfd_send_signal'), call('pidfd_open')],
    'clone3': [call('clone3')],
    'clone-pidfd': [call('clone', (JSET, 0x1000, 0))],
    # RLIMIT_LOCKS, of oneself, set (and not only asked for).
    'mark': [call('prlimit64', (JEQ, 10, 1), (JSET, 0xffffffff, 2))],
    'subreaper': [call('prctl', (JEQ, 36, 0))],
    'group': [call('pidfd_send_signal', (JEQ, 4, 3))],
    'new': [call(name) for name in ['close_range', 'openat2', 'faccessat2', 'io_uring_setup',
                                    'inotify_init1', 'memfd_create', 'fchmodat2']],
    'files': [call(name) for name in ['statx', 'renameat2', 'fallocate', 'copy_file_range',
                                      'flistxattr', 'fgetxattr']],
}
code = [step for rule in rules for part in RULES[rule] for step in part] + [(RET, 0, 0, ALLOW)]
code = b''.join(struct.pack('HBBI', *step) for step in code)
buffer = ctypes.create_string_buffer(code)
program = struct.pack('HxxxxxxQ', len(code) // 8, ctypes.addressof(buffer))
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER = 38, 22, 2
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
assert libc.prctl(PR_SET_SECCOMP, FILTER, program, 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execv(sys.argv[3], sys.argv[3:])
";

/// A server behind a filter that answers what these rules name with this errno.
pub(crate) fn refusing(rules: &[&str], errno: &str) -> Setup {
    assert!(rules.iter().all(|rule| RULES.contains(rule)), "{rules:?}");
    Setup::new().under(&[python(), "-c", REFUSING, &rules.join(","), errno])
}

/// What that filter lets a server tell of itself by `--check --json`.
pub(crate) fn check(rules: &[&str], errno: &str) -> Value {
    let mut command = Command::new(python());
    command.args(["-c", REFUSING, &rules.join(","), errno]).arg(binary());
    command.args(["exec-server", "--check", "--json", "--port", "0"]).env_remove("TA_EXEC_TOKEN");
    let done = command.output().unwrap();
    assert!(done.status.success(), "{done:?}");
    serde_json::from_slice(&done.stdout).unwrap()
}

/// As [`refusing`] for the static binary, whatever the one under test is: glibc makes no thread where
/// clone3 is refused by another errno than ENOSYS. `None` where there is none.
pub(crate) fn refusing_static(rules: &[&str], errno: &str) -> Option<Setup> {
    // The static one in place of the other.
    const INSTEAD: &str = "shift; exec \"$0\" \"$@\"";
    assert!(rules.iter().all(|rule| RULES.contains(rule)), "{rules:?}");
    let program = rootfs::static_binary()?.to_str()?;
    let python = [python(), "-c", REFUSING, &rules.join(","), errno];
    Some(Setup::new().under(&[&python[..], &["/bin/sh", "-c", INSTEAD, program]].concat()))
}
