//! The server under test: the real binary, on a port of its own choice, ended with its value.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ta_exec::client::ExecClient;

use crate::{Outcome, procfs};

/// How long anything that should take a moment may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// A server that listens. Dropped, it is stopped and reaped.
pub(crate) struct Server {
    process: Process,
    serving: u32,
    token: String,
    pub(crate) address: SocketAddr,
    /// From its start to the line that tells its address.
    pub(crate) told: Duration,
    started: Instant,
}

impl Server {
    pub(crate) fn start(binary: &Path) -> Outcome<Self> {
        let token = format!("{:016x}", RandomState::new().build_hasher().finish());
        let mut command = Command::new(binary);
        command.args(["exec-server", "--port", "0"]);
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"TA_") {
                command.env_remove(name);
            }
        }
        command.env("TA_EXEC_TOKEN", &token);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let started = Instant::now();
        let mut process = Process(command.spawn()?);
        let mut stderr = BufReader::new(process.0.stderr.take().ok_or("no stderr")?);
        let mut line = String::new();
        stderr.read_line(&mut line)?;
        let told = started.elapsed();
        let address = line.split_once("ws://").and_then(|(_, rest)| rest.split_once("/exec"));
        let Some((address, _)) = address else {
            return Err(format!("the server's first line names no address: {line:?}").into());
        };
        let address = address.parse()?;
        drain(stderr)?;
        let serving = procfs::serving(process.0.id())?;
        Ok(Self { process, serving, token, address, told, started })
    }

    /// The process that serves.
    pub(crate) fn pid(&self) -> u32 {
        self.serving
    }

    /// The process that was started, and outlives it.
    pub(crate) fn guardian(&self) -> u32 {
        self.process.0.id()
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}/exec", self.address)
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// The library's client, which is what people run.
    pub(crate) fn client(&self) -> Outcome<ExecClient> {
        Ok(ExecClient::websocket(&self.url(), Some(&self.token))?)
    }

    /// Asks for `/healthz` and answers how long after the server's start the answer was there.
    pub(crate) fn first_answer(&self) -> Outcome<Duration> {
        let mut socket = TcpStream::connect(self.address)?;
        socket.set_read_timeout(Some(DEADLINE))?;
        socket.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        let mut answer = [0_u8; 512];
        let count = socket.read(&mut answer)?;
        let after = self.started.elapsed();
        let is_fine = answer[..count].starts_with(b"HTTP/1.1 200 ");
        is_fine.then_some(after).ok_or_else(|| "/healthz was not answered by 200".into())
    }
}

/// Reads what the server logs, so that it never waits for room.
fn drain(mut stderr: BufReader<ChildStderr>) -> io::Result<()> {
    let read = move || drop(io::copy(&mut stderr, &mut io::sink()));
    thread::Builder::new().name("stderr".to_owned()).spawn(read).map(drop)
}

/// A child of the bench that ends with it.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        terminate(&self.0);
        let deadline = Instant::now() + Duration::from_secs(6);
        while Instant::now() < deadline {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Asks a child to end, so that a server takes what it has started with it.
#[expect(unsafe_code, reason = "std has SIGKILL alone")]
fn terminate(child: &Child) {
    let Ok(pid) = libc::pid_t::try_from(child.id()) else { return };
    // SAFETY: kill takes two integers; the child is not reaped yet, so the number is its own.
    unsafe { libc::kill(pid, libc::SIGTERM) };
}
