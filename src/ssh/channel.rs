//! One program on the far side: its three streams, and what carries them.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::mux;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::lock;
use crate::sys::child::detach;
use crate::sys::fd::grow_pipe;
use crate::sys::handle::Handle;
use crate::sys::{errno, signal};
use crate::threads;

/// How much of what comes on stderr is kept, its end.
const KEPT: usize = 8 * 1024;
/// The size of a pipe to the master.
const PIPE: i32 = 512 * 1024;
/// How long the last of it is waited for once the program has ended.
const LAST: Duration = Duration::from_millis(200);
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

/// What comes on stderr: kept, and from some moment on passed on.
#[derive(Clone)]
pub(crate) struct Said(Arc<(Mutex<Kept>, Condvar)>);

#[derive(Default)]
struct Kept {
    tail: Vec<u8>,
    /// What nobody has been shown, and when the last of it came.
    unshown: Vec<u8>,
    came: Option<Instant>,
    passed_on: bool,
    ended: bool,
}

impl Said {
    pub(super) fn follow(from: OwnedFd) -> Result<Self> {
        let said = Self(Arc::default());
        let shared = Arc::clone(&said.0);
        let thread = thread::Builder::new().name("ssh-stderr".to_owned()).stack_size(64 * 1024);
        let read = move || {
            let mut from = File::from(from);
            let mut buffer = [0; 1024];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                let mut kept = lock(&shared.0);
                kept.tail.extend_from_slice(&buffer[..count]);
                kept.unshown.extend_from_slice(&buffer[..count]);
                kept.came = Some(Instant::now());
                for kept in [&mut kept.tail, &mut kept.unshown] {
                    kept.drain(..kept.len().saturating_sub(KEPT));
                }
                if kept.passed_on {
                    drop(kept);
                    let _ = io::stderr().write_all(&buffer[..count]);
                }
            }
            lock(&shared.0).ended = true;
            shared.1.notify_all();
        };
        let thread = thread.spawn(read);
        thread.map_err(|error| Error::io(&error, "cannot make a thread for ssh"))?;
        Ok(said)
    }

    /// From now on this is for whoever reads our own stderr; what came before was noise.
    pub(crate) fn pass_on(&self) {
        let mut kept = lock(&self.0.0);
        kept.passed_on = true;
        kept.tail.clear();
        kept.unshown.clear();
    }

    /// The lines that nobody has been shown, if for so long nothing has followed them.
    pub(super) fn unshown(&self, age: Duration) -> Option<String> {
        let mut kept = lock(&self.0.0);
        kept.came.filter(|came| came.elapsed() >= age)?;
        let end = kept.unshown.iter().rposition(|byte| *byte == b'\n')?;
        let lines: Vec<u8> = kept.unshown.drain(..=end).collect();
        drop(kept);
        let text = String::from_utf8_lossy(&lines).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// The lines of its end, once all of it is there (or a moment has passed).
    pub(crate) fn lines(&self) -> Vec<String> {
        let (kept, ended) = &*self.0;
        let kept = ended.wait_timeout_while(lock(kept), LAST, |kept| !kept.ended);
        let kept = kept.unwrap_or_else(PoisonError::into_inner).0;
        let text = String::from_utf8_lossy(&kept.tail).into_owned();
        drop(kept);
        let lines = text.lines().map(|line| line.trim().to_owned());
        lines.filter(|line| !line.is_empty()).collect()
    }
}
