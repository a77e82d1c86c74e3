//! OpenSSH beside us: its real server on loopback, and one login that its client shares.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::server::{DEADLINE, Process};

const DAEMON: &str = "/usr/sbin/sshd";

/// A server with keys of its own, and the ControlMaster that is logged in to it. Dropped, both end.
pub(crate) struct Ssh {
    _daemon: Process,
    _master: Process,
    directory: PathBuf,
    port: u16,
}

impl Ssh {
    /// `None` where OpenSSH is not installed.
    pub(crate) fn start() -> Outcome<Option<Self>> {
        let has_client = Command::new("ssh").arg("-V").stderr(Stdio::null()).status().is_ok();
        if !has_client || !Path::new(DAEMON).exists() {
            return Ok(None);
        }
        // (A socket's path may have 108 bytes, and the client adds some while it makes it.)
        let directory = std::env::temp_dir().join(format!("ta-bench-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        let [host, user] = ["host", "user"].map(|name| directory.join(name));
        for key in [&host, &user] {
            let mut generate = Command::new("ssh-keygen");
            generate.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(key);
            checked(&mut generate)?;
        }
        // As root the server wants the directory that its package makes when it starts.
        let _ = fs::create_dir_all("/run/sshd");
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let config = directory.join("config");
        fs::write(
            &config,
            format!(
                "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\n\
                 StrictModes no\nPidFile none\nUsePAM no\nPermitRootLogin yes\n\
                 PasswordAuthentication no\nSetEnv HOME={}\n",
                host.display(),
                directory.join("user.pub").display(),
                directory.display()
            ),
        )?;
        fs::write(
            directory.join("client"),
            format!(
                "Host bench\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {}\n  \
                 UserKnownHostsFile /dev/null\n  StrictHostKeyChecking no\n",
                user.display()
            ),
        )?;
        let mut daemon = Command::new(DAEMON);
        daemon.args(["-D", "-e", "-f"]).arg(config).stderr(Stdio::null());
        let daemon = Process(daemon.spawn()?);
        await_that("sshd listens", || TcpStream::connect(("127.0.0.1", port)).is_ok())?;
        let mut master = client(&directory, port);
        master.args(["-M", "-N", "127.0.0.1"]).stdin(Stdio::null()).stderr(Stdio::null());
        let master = Process(master.spawn()?);
        await_that("the master is logged in", || directory.join("control").exists())?;
        Ok(Some(Self { _daemon: daemon, _master: master, directory, port }))
    }

    /// Runs a command line there over the login that stands.
    pub(crate) fn run(&self, line: &str) -> Command {
        let mut command = client(&self.directory, self.port);
        command.args(["-o", "ControlMaster=no", "127.0.0.1", line]);
        command
    }
}

impl Ssh {
    /// The same over a login of its own.
    pub(crate) fn log_in_and_run(&self, line: &str) -> Command {
        let mut command = Command::new("ssh");
        command.args(["-o", "LogLevel=ERROR", "-F"]).arg(self.directory.join("client"));
        command.args(["bench", line]);
        command
    }

    /// `ta run --ssh`, with logins of its own.
    pub(crate) fn ta(&self, binary: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(binary);
        command.args(["run", "--ssh", "bench", "--ssh-config"]).arg(self.directory.join("client"));
        command.args(words).env("XDG_RUNTIME_DIR", &self.directory).env_remove("TA_EXEC_URL");
        command
    }

    /// Removes what `ta` has placed there, and ends its login.
    pub(crate) fn clean(&self, binary: &Path) -> Command {
        let mut command = Command::new(binary);
        command.args(["ssh-clean", "--ssh-config"]).arg(self.directory.join("client")).arg("bench");
        command.env("XDG_RUNTIME_DIR", &self.directory);
        command
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        // The login of `ta`, which would stand for ten minutes.
        for socket in fs::read_dir(self.directory.join("ta")).into_iter().flatten().flatten() {
            let mut end = Command::new("ssh");
            end.args(["-F", "none", "-O", "exit", "-o"]);
            end.arg(format!("ControlPath={}", socket.path().display())).arg("bench");
            let _ = end.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn client(directory: &Path, port: u16) -> Command {
    let mut command = Command::new("ssh");
    command.args(["-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no"]);
    command.args(["-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]);
    command.arg("-o").arg(format!("ControlPath={}", directory.join("control").display()));
    command.arg("-i").arg(directory.join("user")).args(["-p", &port.to_string()]);
    command
}

/// Runs it to its end, which must be a success.
pub(crate) fn checked(command: &mut Command) -> Outcome<()> {
    let status = command.stdin(Stdio::null()).status()?;
    let what = || format!("{} has ended with {status}", command.get_program().display()).into();
    status.success().then_some(()).ok_or_else(what)
}

fn await_that(what: &str, is_so: impl Fn() -> bool) -> Outcome<()> {
    let end = Instant::now() + DEADLINE;
    while !is_so() {
        if Instant::now() >= end {
            return Err(format!("{what}: not within {DEADLINE:?}").into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
