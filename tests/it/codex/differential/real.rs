//! Codex's own server.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use crate::support::{DEADLINE, stop};

/// Dropped, it is stopped and reaped.
pub(super) struct Real {
    child: Child,
    pub(super) address: SocketAddr,
}

impl Real {
    pub(super) fn start(codex: &Path, home: &Path, user: Option<u32>) -> Self {
        let mut command = Command::new(codex);
        command.args(["exec-server", "--listen", "ws://127.0.0.1:0"]);
        command.env_clear().envs(super::variables(home)).current_dir("/tmp");
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let (sender, receiver) = mpsc::channel();
        let read = move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        };
        std::thread::Builder::new().name("Codex's stdout".into()).spawn(read).unwrap();
        let line = receiver.recv_timeout(DEADLINE).unwrap_or_default();
        let Some(address) = line.strip_prefix("ws://").and_then(|it| it.trim().parse().ok()) else {
            stop(&mut child);
            panic!("Codex's server does not say where it listens: {line:?}");
        };
        Self { child, address }
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}
