//! Starting the real binary, and making sure that it ends with the test.

use std::net::SocketAddr;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::log::Log;
use super::wire::Wire;
use super::{DEADLINE, Peer, holds_within, http, procfs, sys};

/// The token of every server that is not started without one.
pub(crate) const TOKEN: &str = "correct-horse-battery-staple";

/// How a server is to be started.
pub(crate) struct Setup {
    launcher: Vec<String>,
    host: String,
    port: u16,
    args: Vec<String>,
    token: Option<String>,
    token_in_file: bool,
    env: Vec<(String, String)>,
    user: Option<u32>,
    ignored_signal: Option<i32>,
    is_job: bool,
}

impl Setup {
    pub(crate) fn new() -> Self {
        Self {
            launcher: Vec::new(),
            host: "127.0.0.1".into(),
            port: 0,
            args: Vec::new(),
            token: Some(TOKEN.into()),
            token_in_file: false,
            env: Vec::new(),
            user: None,
            ignored_signal: None,
            is_job: false,
        }
    }

    pub(crate) fn args<A: AsRef<str>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    pub(crate) fn host(mut self, host: &str) -> Self {
        self.host = host.into();
        self
    }

    pub(crate) fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// What `TA_EXEC_TOKEN` is set to.
    pub(crate) fn token(mut self, token: &str) -> Self {
        self.token = Some(token.into());
        self
    }

    /// The server reads the token from this file, which holds `token`.
    pub(crate) fn token_file(mut self, file: &Path, token: &str) -> Self {
        self.args.extend(["--token-file".into(), file.to_str().unwrap().into()]);
        self.token = Some(token.into());
        self.token_in_file = true;
        self
    }

    pub(crate) fn without_token(mut self) -> Self {
        self.token = None;
        self
    }

    /// Runs the server as `LAUNCHER… ta exec-server …`; the launcher must exec it.
    pub(crate) fn under(mut self, launcher: &[&str]) -> Self {
        self.launcher = launcher.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    pub(crate) fn user(mut self, uid: u32) -> Self {
        self.user = Some(uid);
        self
    }

    /// Whoever starts the server ignores this signal.
    pub(crate) fn ignoring(mut self, signal: i32) -> Self {
        self.ignored_signal = Some(signal);
        self
    }

    /// It is started as a shell with job control does it: in a process group of its own. (Where its
    /// group has nobody outside it in its session, the kernel ignores a SIGTSTP.)
    pub(crate) fn own_job(mut self) -> Self {
        self.is_job = true;
        self
    }

    /// Starts it, on a free port if no other was said, and waits until it says where it listens.
    pub(crate) fn listen(self) -> Server {
        let port = self.port.to_string();
        let mut command = self.command(&["--host", &self.host, "--port", &port]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let log = Log::follow(child.stderr.take().unwrap());
        let line = log.first_line(DEADLINE);
        let Some(address) = line.as_deref().and_then(bound_address) else {
            stop(&mut child);
            panic!("the first line on stderr names no ws:// URL: {}", log.text());
        };
        Server { child, log, address, token: self.token }
    }

    /// Starts it as a stdio child.
    pub(crate) fn stdio(self) -> Peer {
        let (wire, log) = self.stdio_wire();
        Peer::new(wire, log)
    }

    /// The same for a peer that speaks otherwise.
    pub(crate) fn stdio_wire(self) -> (Wire, Log) {
        let mut command = self.command(&["--stdio"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let log = Log::follow(child.stderr.take().unwrap());
        (Wire::stdio(child), log)
    }

    /// Starts a server that must refuse to run.
    pub(crate) fn refused(self) -> Refusal {
        let mut command = self.command(&["--host", &self.host, "--port", "0"]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let log = Log::follow(child.stderr.take().unwrap());
        let status = wait(&mut child, DEADLINE);
        stop(&mut child);
        let status =
            status.unwrap_or_else(|| panic!("the server runs, but must not: {}", log.text()));
        Refusal { status, stderr: log.to_end(DEADLINE) }
    }

    fn command(&self, mode: &[&str]) -> Command {
        let binary = binary().into_os_string();
        let mut words: Vec<_> = self.launcher.iter().map(Into::into).collect();
        words.push(binary);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg("exec-server").args(mode).args(&self.args);
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"TA_") {
                command.env_remove(name);
            }
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(token) = self.token.as_ref().filter(|_| !self.token_in_file) {
            command.env("TA_EXEC_TOKEN", token);
        }
        if let Some(uid) = self.user {
            command.uid(uid).gid(uid);
        }
        if let Some(signal) = self.ignored_signal {
            sys::ignore_in_child(&mut command, signal);
        }
        if self.is_job {
            command.process_group(0);
        }
        command.stderr(Stdio::piped());
        command
    }
}

/// The binary under test.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("TA_BIN").map_or_else(|| env!("CARGO_BIN_EXE_ta").into(), Into::into)
}

fn bound_address(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("ws://")?;
    let (address, _) = rest.split_once("/exec")?;
    address.parse().ok()
}

/// How a server that must not start ended.
pub(crate) struct Refusal {
    pub(crate) status: ExitStatus,
    pub(crate) stderr: String,
}

/// A listening server. Dropped, it is stopped and reaped.
pub(crate) struct Server {
    child: Child,
    pub(crate) log: Log,
    pub(crate) address: SocketAddr,
    token: Option<String>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Setup::new().listen()
    }

    /// The process that serves.
    pub(crate) fn pid(&self) -> u32 {
        procfs::serving(self.guardian())
    }

    /// The process that was started, which guards the one that serves.
    pub(crate) fn guardian(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn authorization(&self) -> Option<String> {
        self.token.as_ref().map(|token| format!("Authorization: Bearer {token}"))
    }

    pub(crate) fn connect(&self) -> Peer {
        let (stream, rest) = self.upgrade();
        Peer::new(Wire::websocket(stream, rest), self.log.clone())
    }

    /// The connection of a host with this epoch.
    pub(crate) fn connect_of(&self, epoch: u64) -> Peer {
        let (stream, rest) = self.upgrade_of(epoch);
        Peer::new(Wire::websocket(stream, rest), self.log.clone())
    }

    /// A connection after its handshake, for a test that speaks in frames.
    pub(crate) fn upgrade(&self) -> http::Upgraded {
        self.upgrade_at("/exec")
    }

    pub(crate) fn upgrade_of(&self, epoch: u64) -> http::Upgraded {
        self.upgrade_at(&format!("/exec?epoch={epoch}"))
    }

    pub(crate) fn upgrade_at(&self, target: &str) -> http::Upgraded {
        let headers: Vec<String> = self.authorization().into_iter().collect();
        http::upgrade(self.address, target, &headers)
            .unwrap_or_else(|answer| panic!("not upgraded: {answer:?}\n{}", self.log.text()))
    }

    pub(crate) fn signal(&self, signal: i32) {
        sys::signal(self.guardian(), signal).unwrap();
    }

    /// Waits for the end of the server.
    pub(crate) fn wait(&mut self, limit: Duration) -> ExitStatus {
        wait(&mut self.child, limit)
            .unwrap_or_else(|| panic!("the server still runs after {limit:?}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        stop(&mut self.child);
        if std::thread::panicking() {
            eprintln!("--- the server's stderr\n{}", self.log.text());
        }
    }
}

pub(crate) fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let mut status = None;
    holds_within(limit, || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status
}

/// SIGTERM first, so that a server takes its processes with it when a test fails half way.
pub(crate) fn stop(child: &mut Child) {
    if matches!(child.try_wait(), Ok(Some(_))) {
        return;
    }
    let _ = sys::signal(child.id(), libc::SIGTERM);
    if wait(child, Duration::from_secs(6)).is_none() {
        let _ = child.kill();
        let _ = child.wait();
        eprintln!("--- the server did not end on SIGTERM and was killed");
    }
}

/// For messages: how a process ended.
pub(crate) fn describe(status: ExitStatus) -> String {
    format!("code {:?}, signal {:?}", status.code(), status.signal())
}
