//! Real programs from the npm registry: MCP and language servers that run in an environment by
//! `ta run -i`, and the real clients that start them on the host as any local command.
//! tests/real.sh installs them.

mod lsp;
mod mcp;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::procfs::all_pids;
use crate::support::{
    Server, TOKEN, binary, eventually, lacks, side_by_side, skipped, sys, unique,
};

/// How long all that one client does may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// What tests/real.sh has installed; nothing where the test is skipped.
pub(crate) fn installed(test: &str) -> Option<PathBuf> {
    if lacks(test, "node") {
        return None;
    }
    let test_binary = std::env::current_exe().unwrap();
    let real = test_binary.ancestors().map(|directory| directory.join("real"));
    let found = real.into_iter().find(|real| real.join("packages").is_file());
    if found.is_none() {
        skipped(test, "the servers from npm are not there (make test-tools installs them)");
    }
    found
}

/// The two ways to an environment, side by side, each with the options of `ta run` for it.
fn over_both(body: impl Fn(&[String]) + Sync) {
    let websocket = || {
        let server = Server::start();
        body(&["--exec".into(), format!("ws://{}/exec", server.address)]);
    };
    let via = || {
        let server = format!("'{}' exec-server --stdio --log-level off", binary().display());
        body(&["--via".into(), server]);
    };
    side_by_side("websocket", &websocket, "via", &via);
}

/// A command in an environment, known there by a variable that all its processes have.
struct Remote {
    way: Vec<String>,
    mark: String,
    command: Vec<String>,
}

impl Remote {
    fn new(way: &[String], command: &[&str]) -> Self {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        Self { way: way.to_vec(), mark: format!("REAL_MARK={}", unique()), command }
    }

    /// What a client is told of it: a command of this machine.
    fn job(&self, packages: &Path) -> Value {
        let mut args = vec!["run".to_owned(), "-i".to_owned()];
        args.extend_from_slice(&self.way);
        args.extend(["--env".to_owned(), self.mark.clone(), "--".to_owned()]);
        args.extend_from_slice(&self.command);
        json!({
            "packages": packages, "command": binary(), "args": args, "env": {"TA_EXEC_TOKEN": TOKEN},
        })
    }

    /// Its processes, and all that they have started; zombies have no environment.
    fn pids(&self) -> Vec<u32> {
        let has_it = |pid: &u32| {
            let variables = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            variables.split(|byte| *byte == 0).any(|variable| variable == self.mark.as_bytes())
        };
        all_pids().filter(has_it).collect()
    }

    #[track_caller]
    fn await_gone(&self) {
        let what = format!("nothing of {:?} is left", self.command);
        eventually(Duration::from_secs(5), &what, || self.pids().is_empty());
    }
}

impl Drop for Remote {
    /// A failed test leaves nothing either.
    fn drop(&mut self) {
        for pid in self.pids() {
            let _ = sys::signal(pid, libc::SIGKILL);
        }
    }
}

/// A client's script, told what to do. Dropped, it is killed and reaped.
pub(crate) struct Host {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Host {
    pub(crate) fn start(script: &str, job: &Value) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/real").join(script);
        Self::run(&script, job)
    }

    pub(crate) fn run(script: &Path, job: &Value) -> Self {
        let mut command = Command::new("node");
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"TA_") {
                command.env_remove(name);
            }
        }
        command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(job.to_string().as_bytes()).unwrap();
        let lines = follow(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// What it has to say.
    #[track_caller]
    pub(crate) fn line(&self) -> Value {
        serde_json::from_str(&self.text()).unwrap()
    }

    /// The same as text.
    #[track_caller]
    pub(crate) fn text(&self) -> String {
        let line = self.lines.recv_timeout(DEADLINE);
        line.unwrap_or_else(|error| panic!("nothing from the client: {error}"))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn follow(stdout: ChildStdout) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    receiver
}
