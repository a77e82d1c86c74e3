//! One program on the far side: its three streams, and what carries them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use super::mux;
use super::said::Said;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::lock;
use crate::sys::child::detach;
use crate::sys::fd::grow_pipe;
use crate::sys::handle::Handle;
use crate::sys::{errno, signal};
use crate::threads;

/// The size of a pipe to the master.
const PIPE: i32 = 512 * 1024;
/// How long ssh may take to end by itself; then, after SIGTERM.
const FAREWELL: Duration = Duration::from_secs(3);
const TERM: Duration = Duration::from_secs(1);

/// A program that runs there.
pub(crate) struct Channel {
    /// Until it is closed.
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: OwnedFd,
    pub(crate) carried: Carried,
}

/// What carries it. Dropped, it ends: within a moment, which nobody waits for.
pub(crate) struct Carried {
    by: By,
    pub(crate) said: Said,
}

enum By {
    /// A program `ssh`.
    Child(Mutex<Option<Child>>),
    /// The socket of a master, which closes the channel when this is closed.
    Master(UnixStream),
}

impl Channel {
    /// By a program of its own.
    pub(super) fn start(mut ssh: Command) -> Result<Self> {
        ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        detach(&mut ssh);
        let mut child = ssh.spawn().map_err(|error| no_ssh(&error))?;
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
            return Err(Error::new(ErrorKind::Internal, "a child has no pipes"));
        };
        let by = By::Child(Mutex::new(Some(child)));
        let carried = Carried { by, said: Said::follow(stderr.into())? };
        Ok(Self { stdin: Some(stdin.into()), stdout: stdout.into(), carried })
    }

    /// Over the login that stands behind this socket.
    pub(super) fn over(socket: UnixStream, line: &str, agent: bool) -> io::Result<Self> {
        let (their_stdin, stdin) = io::pipe()?;
        let (stdout, their_stdout) = io::pipe()?;
        let (stderr, their_stderr) = io::pipe()?;
        // So that writer and reader take fewer turns.
        grow_pipe(stdout.as_fd(), PIPE);
        grow_pipe(stdin.as_fd(), PIPE);
        let theirs = [their_stdin.as_fd(), their_stdout.as_fd(), their_stderr.as_fd()];
        mux::open_session(&socket, line, agent, theirs)?;
        let said = Said::follow(stderr.into()).map_err(io::Error::other)?;
        let carried = Carried { by: By::Master(socket), said };
        Ok(Self { stdin: Some(stdin.into()), stdout: stdout.into(), carried })
    }
}

/// There is no `ssh`.
pub(super) fn no_ssh(error: &io::Error) -> Error {
    let why = errno::message(errno::of(error));
    Error::new(ErrorKind::Unreachable, format!("cannot start ssh: {why}"))
}

impl Carried {
    /// How it has ended: the exit code of the program there, 255 where it is ssh that has failed.
    /// Waits for `timeout` at most.
    pub(crate) fn code(&self, timeout: Duration) -> Option<i32> {
        match &self.by {
            By::Child(child) => {
                let mut child = lock(child);
                let child = child.as_mut()?;
                if !wait(child, timeout) {
                    return None;
                }
                let status = child.try_wait().ok()??;
                status.code().or_else(|| status.signal().map(|signal| 128 + signal))
            }
            By::Master(socket) => mux::exit_code(socket, timeout),
        }
    }

    /// Ends it now.
    pub(super) fn kill(&self) {
        match &self.by {
            By::Child(child) => {
                if let Some(child) = lock(child).as_mut() {
                    let _ = child.kill();
                }
            }
            By::Master(socket) => drop(socket.shutdown(std::net::Shutdown::Both)),
        }
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        let By::Child(child) = &self.by else { return };
        let Some(mut child) = lock(child).take() else { return };
        if matches!(child.try_wait(), Ok(Some(_))) {
            return;
        }
        // Its stdin is closed by now. It is reaped by a thread, or never: this program ends then.
        let _ = threads::run(move || end(child));
    }
}

fn end(mut child: Child) {
    if wait(&mut child, FAREWELL) {
        return;
    }
    let pid = i32::try_from(child.id()).unwrap_or(i32::MAX);
    let _ = Handle::open(pid).and_then(|handle| handle.signal(signal::TERM));
    if !wait(&mut child, TERM) {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Waits for its exit; answers whether it has exited.
pub(super) fn wait(child: &mut Child, timeout: Duration) -> bool {
    let deadline = Instant::now() + timeout;
    loop {
        if !matches!(child.try_wait(), Ok(None)) {
            return true;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        // Not reaped yet, so the number is its own.
        let pid = i32::try_from(child.id()).unwrap_or(i32::MAX);
        match Handle::open(pid) {
            Ok(handle) => drop(handle.wait_exit(left)),
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
}
