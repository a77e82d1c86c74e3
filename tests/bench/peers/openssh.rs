//! OpenSSH beside us: its real server on loopback, and logins that its client shares.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::bare::{all_came, feed};
use super::{Peer, SSH, Way, on_threads, timed};
use crate::Outcome;
use crate::floor::output_of;
use crate::server::{DEADLINE, Process};

const DAEMON: &str = "/usr/sbin/sshd";

/// A server with keys of its own, and a login to it that stands. Dropped, both end.
pub(crate) struct Ssh {
    daemon: Process,
    login: Login,
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
                 PasswordAuthentication no\nSetEnv HOME={}\nMaxSessions 1000\n\
                 Subsystem sftp internal-sftp\n",
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
        let login = Login::new(&directory, port)?;
        Ok(Some(Self { daemon, login, directory, port }))
    }

    /// How long another server takes from its start to its first connection.
    pub(crate) fn another_accepts(&self) -> Outcome<Duration> {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let mut daemon = Command::new(DAEMON);
        daemon.args(["-D", "-e", "-p", &port.to_string(), "-o"]);
        daemon.arg(format!("ListenAddress=127.0.0.1:{port}"));
        daemon.arg("-f").arg(self.directory.join("config")).stderr(Stdio::null());
        let start = Instant::now();
        let _daemon = Process(daemon.spawn()?);
        // (It does not say when it listens.)
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if start.elapsed() > DEADLINE {
                return Err("sshd does not listen".into());
            }
            thread::sleep(Duration::from_micros(100));
        }
        Ok(start.elapsed())
    }

    /// Runs a command line there over the login that stands.
    pub(crate) fn run(&self, line: &str) -> Command {
        self.login.run(line)
    }
}

/// A ControlMaster that is logged in, and its socket.
pub(crate) struct Login {
    _master: Process,
    directory: PathBuf,
    socket: PathBuf,
    port: u16,
}

impl Login {
    fn new(directory: &Path, port: u16) -> Outcome<Self> {
        static LAST: AtomicUsize = AtomicUsize::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let socket = directory.join(format!("control-{number}"));
        let mut master = client("ssh", directory, &socket);
        master.args(["-M", "-N", "-p", &port.to_string(), "127.0.0.1"]);
        master.stdin(Stdio::null()).stderr(Stdio::null());
        let master = Process(master.spawn()?);
        await_that("the master is logged in", || socket.exists())?;
        Ok(Self { _master: master, directory: directory.to_owned(), socket, port })
    }

    fn run(&self, line: &str) -> Command {
        let mut command = client("ssh", &self.directory, &self.socket);
        command.args(["-o", "ControlMaster=no", "-p", &self.port.to_string(), "127.0.0.1", line]);
        command
    }

    /// Carries out the lines of a batch.
    fn sftp(&self, lines: impl Iterator<Item = String>) -> Outcome<()> {
        let batch = self.socket.with_extension("batch");
        fs::write(&batch, lines.map(|line| line + "\n").collect::<String>())?;
        let mut command = client("sftp", &self.directory, &self.socket);
        command.args(["-o", "ControlMaster=no", "-q", "-P", &self.port.to_string(), "-b"]);
        command.arg(batch).arg("127.0.0.1").stdout(Stdio::null());
        checked(&mut command)
    }
}

impl Peer for Ssh {
    fn name(&self) -> &'static str {
        SSH
    }

    fn way(&self) -> Outcome<Box<dyn Way>> {
        Ok(Box::new(Login::new(&self.directory, self.port)?))
    }

    fn started(&self) -> Option<u32> {
        Some(self.daemon.0.id())
    }
}

impl Way for Login {
    fn run_true(&mut self, in_flight: usize, count: usize) -> Outcome<Vec<f64>> {
        timed(in_flight, count, || checked(&mut self.run("/bin/true")))
    }

    fn output(&mut self, processes: usize, each: u64) -> Outcome<()> {
        let line = format!("head -c {each} /dev/zero");
        let counts = on_threads(processes, |_| output_of(&mut self.run(&line)))?;
        all_came(counts.into_iter().sum(), each * processes as u64)
    }

    fn input(&mut self, size: u64) -> Outcome<()> {
        feed(&mut self.run(&format!("head -c {size} > /dev/null")), size)
    }

    fn read(&mut self, files: &[PathBuf], size: usize) -> Outcome<()> {
        let here = self.socket.with_extension("here");
        self.sftp(files.iter().map(|file| format!("get {} {}", file.display(), here.display())))?;
        all_came(here.metadata()?.len(), size as u64)
    }

    fn write(&mut self, files: &[PathBuf], content: &[u8]) -> Outcome<()> {
        let here = self.socket.with_extension("here");
        fs::write(&here, content)?;
        self.sftp(files.iter().map(|file| format!("put {} {}", here.display(), file.display())))
    }

    fn store(&mut self, here: &Path, there: &Path) -> Outcome<()> {
        self.sftp([format!("put {} {}", here.display(), there.display())].into_iter())
    }

    fn fetch(&mut self, there: &Path, here: &Path) -> Outcome<()> {
        self.sftp([format!("get {} {}", there.display(), here.display())].into_iter())
    }
}

impl Ssh {
    /// A port here that leads to one there, over the login that stands.
    pub(crate) fn forward(&self, port: u16, target: u16) -> Outcome<()> {
        let mut command = client("ssh", &self.directory, &self.login.socket);
        command.args(["-O", "forward", "-L", &format!("127.0.0.1:{port}:127.0.0.1:{target}")]);
        checked(command.args(["-p", &self.port.to_string(), "127.0.0.1"]).stdout(Stdio::null()))
    }

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

/// One of OpenSSH's programs, by a master.
fn client(program: &str, directory: &Path, socket: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no"]);
    command.args(["-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]);
    command.arg("-o").arg(format!("ControlPath={}", socket.display()));
    command.arg("-i").arg(directory.join("user"));
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
