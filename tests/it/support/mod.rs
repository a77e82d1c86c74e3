//! The harness: a real server, a raw peer that shares no code with the product, and deadlines.

mod capture;
pub(crate) mod fake;
pub(crate) mod frames;
pub(crate) mod http;
mod link;
pub(crate) mod log;
pub(crate) mod params;
mod peer;
pub(crate) mod procfs;
pub(crate) mod proxy;
pub(crate) mod random;
pub(crate) mod rootfs;
pub(crate) mod sandbox;
pub(crate) mod server;
pub(crate) mod sys;
pub(crate) mod wire;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub(crate) use peer::{Done, Peer, RpcError, Running};
pub(crate) use procfs::Victim;
pub(crate) use server::{Server, Setup, TOKEN, binary, describe, stop};

/// How long any single wait may take before the test fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// Runs one body over WebSocket and over stdio, each with a server of its own, side by side.
pub(crate) fn over_both(body: impl Fn(&mut Peer) + Sync) {
    over_both_with(Setup::new, body);
}

pub(crate) fn over_both_with(setup: impl Fn() -> Setup + Sync, body: impl Fn(&mut Peer) + Sync) {
    let websocket = || {
        let server = setup().listen();
        body(&mut server.connect());
    };
    let stdio = || body(&mut setup().stdio());
    side_by_side("websocket", &websocket, "stdio", &stdio);
}

pub(crate) fn side_by_side(
    first_name: &str,
    first: &(dyn Fn() + Sync),
    second_name: &str,
    second: &(dyn Fn() + Sync),
) {
    thread::scope(|scope| {
        let spawn = |name: &str, body| {
            thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, body).unwrap()
        };
        let threads = [spawn(first_name, first), spawn(second_name, second)];
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}

/// Polls until the condition holds; fails with `what` when the time is up.
pub(crate) fn eventually(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    assert!(holds_within(limit, &mut condition), "not within {limit:?}: {what}");
}

pub(crate) fn holds_within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// A limit of time that only the server can keep and a busy machine can break: one run of three
/// within it is the proof.
pub(crate) fn best_of_three(limit: Duration, what: &str, mut run: impl FnMut() -> Duration) {
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(run());
        if seen.iter().any(|took| *took <= limit) {
            return;
        }
    }
    panic!("{what}: took {seen:?}, at most {limit:?} allowed");
}

/// Runs a test in a process of its own, with these variables, where what it counts is nobody else's:
/// true in that process, whose body is to follow; false in this one, when that has passed.
#[track_caller]
pub(crate) fn alone(test: &str, variables: &[(&str, &str)]) -> bool {
    const MARK: &str = "TA_IT_ALONE";
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(MARK, "1");
    let done = command.envs(variables.iter().copied()).output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let passed = done.status.success() && stdout.contains("1 passed");
    assert!(passed, "alone: {}\n{stdout}\n{stderr}", describe(done.status));
    false
}

/// `ta` with these arguments, told nothing by its environment, stdin empty.
pub(crate) fn ta(args: &[&str]) -> std::process::Command {
    let mut command = std::process::Command::new(binary());
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"TA_") {
            command.env_remove(name);
        }
    }
    command.args(args).stdin(std::process::Stdio::null());
    command
}

/// The same, told of a server.
pub(crate) fn ta_to(server: &Server, args: &[&str]) -> std::process::Command {
    let mut command = ta(args);
    command.env("TA_EXEC_URL", format!("ws://{}/exec", server.address));
    command.env("TA_EXEC_TOKEN", TOKEN);
    command
}

/// True (and says so) where the machine lacks a program; on CI its absence is a failure.
pub(crate) fn lacks(test: &str, program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    !found && skipped(test, &format!("{program} is not installed"))
}

/// Python of the system: a wrapper of a version manager is slow, and not everybody's.
pub(crate) fn python() -> &'static str {
    if Path::new("/usr/bin/python3").exists() { "/usr/bin/python3" } else { "python3" }
}

/// Says that a test is skipped. Always true; fails instead where `CI=true`.
pub(crate) fn skipped(test: &str, why: &str) -> bool {
    let ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!ci, "{test} cannot be skipped on CI: {why}");
    println!("SKIPPED {test}: {why}");
    true
}

pub(crate) fn unique() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{}{:05}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn base64(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

pub(crate) fn unbase64(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap_or_else(|error| panic!("bad base64 {text:.60}: {error}"))
}

/// A directory of the test's own, removed with it.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new() -> Self {
        let path = std::env::temp_dir().join(format!("ta-it-{}", unique()));
        std::fs::create_dir(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn program(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.write(name, content);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

/// All files below these directories, with their content, by name.
pub(crate) fn contents(directories: &[&Path]) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut left: Vec<_> = directories.iter().map(|directory| directory.to_path_buf()).collect();
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else {
                let content = std::fs::read(&path).unwrap();
                found.push((path, content));
            }
        }
    }
    found.sort();
    found
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A port where nobody listens, of any address, and where nobody else will while this lives.
pub(crate) struct ClosedPort {
    pub(crate) port: u16,
    _bound: std::os::fd::OwnedFd,
}

impl ClosedPort {
    pub(crate) fn new() -> Self {
        use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
        let bound = socket(AddressFamily::INET6, SocketType::STREAM, None).unwrap();
        let any = std::net::SocketAddrV6::new(std::net::Ipv6Addr::UNSPECIFIED, 0, 0, 0);
        bind(&bound, &any).unwrap();
        let address = getsockname(&bound).unwrap();
        let port = std::net::SocketAddrV6::try_from(address).unwrap().port();
        Self { port, _bound: bound }
    }
}
