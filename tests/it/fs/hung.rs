//! A file system whose server has stopped: what touches it hangs, and nothing else does.

use std::cell::RefCell;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{AT_ONCE, content, from_to, path, read, write};
use crate::support::{
    DEADLINE, Peer, Setup, TempDir, Victim, eventually, lacks, procfs, skipped, sys,
};

/// Mounts a FUSE file system, answers the first request, which is the kernel's own, and then
/// either reads no more (as a stopped server) or reads and never answers (as one whose network is
/// gone; then not even SIGKILL wakes who waits). It ends when its stdin does.
const FILE_SYSTEM: &str = r"
import ctypes, os, struct, sys, threading
directory, kind = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
fuse = os.open('/dev/fuse', os.O_RDWR)
options = f'fd={fuse},rootmode=40000,user_id=0,group_id=0,allow_other'
if libc.mount(b'hung', directory.encode(), b'fuse', 6, options.encode()) != 0:
    sys.exit('mount: ' + os.strerror(ctypes.get_errno()))
length, opcode, unique = struct.unpack_from('<IIQ', os.read(fuse, 1 << 20))
assert opcode == 26, opcode
init = struct.pack('<IIIIHHII', 7, 31, 1 << 16, 0, 100, 75, 1 << 16, 1) + bytes(36)
os.write(fuse, struct.pack('<IiQ', 16 + len(init), 0, unique) + init)
def swallow():
    while True:
        os.read(fuse, 1 << 20)
if kind == 'silent':
    threading.Thread(target=swallow, daemon=True).start()
print('mounted', flush=True)
sys.stdin.read()
os._exit(0)
";

/// How long a read and a write elsewhere may take behind a change that hangs.
const READ: Duration = Duration::from_secs(5);
pub(super) const WRITE: Duration = Duration::from_secs(8);

/// A directory in which `hung` is such a file system, for who is in the mount namespace of its
/// server. When that is dropped, all that hangs is woken.
pub(crate) struct Hung {
    pub(crate) dir: TempDir,
    server: Rc<RefCell<Child>>,
}

impl Hung {
    /// `None` where the machine has no such thing.
    pub(crate) fn mount(test: &str, kind: &str) -> Option<Self> {
        if lacks(test, "python3") || lacks(test, "unshare") || lacks(test, "nsenter") {
            return None;
        }
        if !sys::is_root() || !Path::new("/dev/fuse").exists() {
            skipped(test, "no FUSE without root and /dev/fuse");
            return None;
        }
        let dir = TempDir::new();
        let hung = dir.join("hung");
        std::fs::create_dir(&hung).unwrap();
        let words = ["-m", "python3", "-c", FILE_SYSTEM, hung.to_str().unwrap(), kind];
        let mut server = Command::new("unshare")
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mounted = Self { dir, server: Rc::new(RefCell::new(server)) };
        assert_eq!(line, "mounted\n");
        Some(mounted)
    }

    /// A server of ours that sees the mount.
    pub(crate) fn setup(&self) -> Setup {
        let pid = self.server.borrow().id().to_string();
        let setup = Setup::new().args(["--cwd", self.dir.path().to_str().unwrap()]);
        setup.under(&["nsenter", "-t", &pid, "-m", "--"])
    }

    pub(crate) fn inside(&self, name: &str) -> PathBuf {
        self.dir.join("hung").join(name)
    }

    /// Ends the file system: whoever waits for it gets an error.
    pub(crate) fn end(&self) {
        drop(self.woken_first());
    }

    /// To be held after the servers and peers, so that it is dropped before them, whatever happens:
    /// no server ends while its requests hang.
    pub(crate) fn woken_first(&self) -> Woken {
        Woken(Rc::clone(&self.server))
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        self.end();
    }
}

/// Ends the file system when it is dropped.
pub(crate) struct Woken(Rc<RefCell<Child>>);

impl Drop for Woken {
    fn drop(&mut self) {
        let mut server = self.0.borrow_mut();
        let _ = server.kill();
        let _ = server.wait();
    }
}

/// One request of each kind that will hang.
pub(crate) fn hang(peer: &mut Peer, hung: &Hung, name: &str) -> Vec<String> {
    let file = hung.inside(name);
    vec![
        peer.request("fs/readFile", &path(&file)),
        peer.request("fs/writeFile", &content(&file, "x")),
        peer.request("fs/stat", &path(&file)),
        peer.request("fs/readdir", &path(hung.inside(""))),
    ]
}

/// Shows that they hang.
#[track_caller]
pub(crate) fn assert_hanging(peer: &mut Peer, ids: &[String]) {
    peer.pump(Duration::from_millis(300));
    for id in ids {
        assert!(!peer.has_answer(id), "{id} does not hang");
    }
}

#[track_caller]
fn at_once<T>(what: &str, limit: Duration, action: impl FnOnce() -> T) -> T {
    let since = Instant::now();
    let result = action();
    assert!(since.elapsed() < limit, "{what} took {:?}", since.elapsed());
    result
}

/// Everything that does not touch the hung file system.
#[track_caller]
pub(crate) fn all_else_works(peer: &mut Peer, dir: &TempDir, name: &str) {
    at_once("ping", AT_ONCE, || peer.ping());
    at_once("exec", AT_ONCE, || peer.sh("true").assert_success());
    let victim = Victim::new();
    let process = victim.spawn(peer);
    assert!(at_once("kill", AT_ONCE, || peer.kill(&process)));
    assert_eq!(peer.exit(&process).signal(), Some("SIGKILL"));
    let file = dir.write(name, "elsewhere");
    // They have waited for the change that hangs to be one that will not end.
    assert_eq!(at_once("read", READ, || read(peer, &file)), b"elsewhere");
    at_once("stat", READ, || peer.ok("fs/stat", &path(&file)));
    at_once("readdir", READ, || peer.ok("fs/readdir", &json!({"path": "/dev"})));
    at_once("write", WRITE, || write(peer, &file, "written"));
    assert_eq!(at_once("read", READ, || read(peer, &file)), b"written");
}

fn only_what_touches_it_hangs(test: &str, kind: &str, count: usize) {
    let Some(hung) = Hung::mount(test, kind) else { return };
    let mut server = hung.setup().listen();
    let mut peer = server.connect();
    let mut other = server.connect();
    let _woken = hung.woken_first();
    let mut ids = Vec::new();
    for n in 0..count {
        ids.extend(hang(&mut peer, &hung, &format!("f{n}")));
    }
    assert_hanging(&mut peer, &ids);
    all_else_works(&mut other, &hung.dir, "other");
    all_else_works(&mut peer, &hung.dir, "same");
    assert_hanging(&mut peer, &ids);
    all_else_works(&mut server.connect(), &hung.dir, "new");
    // When it is gone, each gets its error, and the connection is as it was.
    hung.end();
    for id in &ids {
        let error = peer.answer_within(id, Duration::from_secs(20)).unwrap_err();
        assert!(!error.data_code().is_empty(), "{error:?}");
    }
    write(&mut peer, hung.dir.join("after"), "x");
    drop((peer, other));
    server.signal(libc::SIGTERM);
    assert_eq!(server.wait(DEADLINE).code(), Some(0));
}

#[test]
fn a_stopped_file_system_blocks_only_what_touches_it() {
    only_what_touches_it_hangs("a_stopped_file_system_blocks_only_what_touches_it", "stopped", 1);
}

#[test]
fn a_silent_file_system_blocks_only_what_touches_it() {
    only_what_touches_it_hangs("a_silent_file_system_blocks_only_what_touches_it", "silent", 1);
}

#[test]
fn a_hundred_requests_that_hang_block_nothing_else() {
    // So many of each of four kinds.
    only_what_touches_it_hangs("a_hundred_requests_that_hang_block_nothing_else", "stopped", 25);
}

#[test]
fn a_change_that_hangs_makes_other_changes_wait_for_a_moment_only() {
    const NAME: &str = "a_change_that_hangs_makes_other_changes_wait_for_a_moment_only";
    let Some(hung) = Hung::mount(NAME, "stopped") else { return };
    let server = hung.setup().listen();
    let mut peer = server.connect();
    let _woken = hung.woken_first();
    let from = hung.dir.write("from", "x");
    let ids = [
        peer.request("fs/copy", &from_to(&from, hung.inside("to"))),
        peer.request("fs/rename", &from_to(hung.inside("a"), hung.inside("b"))),
        peer.request("fs/mkdir", &path(hung.inside("d"))),
        peer.request("fs/remove", &path(hung.inside("d"))),
        peer.request("fs/realpath", &path(hung.inside("d"))),
    ];
    assert_hanging(&mut peer, &ids);
    all_else_works(&mut peer, &hung.dir, "same");
}

/// A path that only leads there hangs too, and a relative one.
#[test]
fn a_link_into_a_hung_file_system_hangs_alone() {
    const NAME: &str = "a_link_into_a_hung_file_system_hangs_alone";
    let Some(hung) = Hung::mount(NAME, "stopped") else { return };
    let server = hung.setup().listen();
    let mut peer = server.connect();
    let _woken = hung.woken_first();
    super::symlink("hung/f", hung.dir.join("link"));
    let ids = [
        peer.request("fs/writeFile", &content("link", "x")),
        peer.request("fs/readFile", &path("link")),
        // Listing it asks what the link leads to.
        peer.request("fs/readFile", &path("hung/f")),
    ];
    assert_hanging(&mut peer, &ids);
    all_else_works(&mut peer, &hung.dir, "same");
}

/// The connection that has hung requests goes away; its threads cannot.
#[test]
fn a_connection_that_ends_while_its_requests_hang_takes_its_processes_along() {
    const NAME: &str = "a_connection_that_ends_while_its_requests_hang_takes_its_processes_along";
    let Some(hung) = Hung::mount(NAME, "stopped") else { return };
    let server = hung.setup().listen();
    let mut watcher = server.connect();
    let _woken = hung.woken_first();
    let pid = watcher.server_pid();
    let before = procfs::settled(pid);
    let mut peer = server.connect();
    let ids = hang(&mut peer, &hung, "f");
    assert_hanging(&mut peer, &ids);
    let victim = Victim::new();
    victim.spawn(&mut peer);
    drop(peer);
    victim.await_gone();
    all_else_works(&mut watcher, &hung.dir, "watcher");
    hung.end();
    let (threads, descriptors) = before;
    eventually(Duration::from_secs(20), "threads and descriptors are as before", || {
        // One thread may be kept for the next file request of the watcher's.
        procfs::threads(pid) <= threads + 1 && procfs::descriptors(pid) <= descriptors + 1
    });
}
