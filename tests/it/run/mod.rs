//! `ta run`, the real program against a real server: what a person at a shell gets.

mod codes;
mod failures;
mod hostile;
mod places;
pub(crate) mod pty;
mod signals;
mod streams;
mod terminal;
mod timeouts;

use std::ffi::OsStr;
use std::io::{Read, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{DEADLINE, Server, TOKEN, binary, holds_within, sys};

/// `ta run` with a server's address and token, stdin empty.
fn ta<A: AsRef<OsStr>>(server: &Server, args: impl IntoIterator<Item = A>) -> Command {
    let mut command = ta_alone(args);
    command.env("TA_EXEC_URL", url(server)).env("TA_EXEC_TOKEN", TOKEN);
    command
}

/// `ta run` that is told nothing.
fn ta_alone<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(binary());
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"TA_") {
            command.env_remove(name);
        }
    }
    command.arg("run").args(args).stdin(Stdio::null());
    command
}

pub(crate) fn url(server: &Server) -> String {
    format!("ws://{}/exec", server.address)
}

/// Runs it to its end.
#[track_caller]
fn run(server: &Server, args: &[&str]) -> Done {
    Running::start(ta(server, args)).finish()
}

/// Runs a shell's command line in the usual way and as a program's argument: the two ways to the
/// server, which have to be the same for whoever runs a command.
#[track_caller]
fn both_ways(server: &Server, options: &[&str], line: &str, check: impl Fn(&Done)) {
    for tail in [&["-c", line][..], &["--", "sh", "-c", line]] {
        check(&run(server, &[options, tail].concat()));
    }
}

/// How it ended, and all it wrote.
#[derive(Debug)]
pub(crate) struct Done {
    /// As a shell shows it.
    pub(crate) code: i32,
    stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Done {
    /// Runs a command to its end.
    #[track_caller]
    pub(crate) fn of(command: Command) -> Self {
        Running::start(command).finish()
    }

    /// It has done what it should, without a word on stderr.
    #[track_caller]
    pub(crate) fn assert_ok(&self, what: &str) {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""), "{what}: {self:?}");
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    #[track_caller]
    pub(crate) fn assert(&self, code: i32, stdout: &str, stderr: &str) {
        let found = (self.code, self.text(), self.stderr.as_str());
        assert_eq!(found, (code, stdout.to_owned(), stderr));
    }

    /// `ta` itself has failed: nothing on stdout, one line on stderr, which says this.
    #[track_caller]
    pub(crate) fn assert_failed(&self, code: i32, says: &str) {
        assert_eq!((self.code, self.stdout.len()), (code, 0), "{self:?}");
        self.assert_one_line(says);
    }

    #[track_caller]
    pub(crate) fn assert_one_line(&self, says: &str) {
        let lines: Vec<_> = self.stderr.lines().collect();
        assert!(lines.len() == 1 && self.stderr.ends_with('\n'), "not one line: {self:?}");
        assert!(lines[0].starts_with("ta: ") && lines[0].contains(says), "not {says:?}: {self:?}");
        assert!(!self.stderr.contains(TOKEN), "the token is shown: {self:?}");
    }
}

fn code_of(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap()
}

/// A `ta run` under way. Dropped, it is killed and reaped.
pub(crate) struct Running {
    child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Followed,
    pub(crate) stderr: Followed,
}

impl Running {
    /// Starts it with both outputs followed.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = Followed::new(child.stdout.take().unwrap());
        let stderr = Followed::new(child.stderr.take().unwrap());
        let stdin = child.stdin.take();
        Self { child, stdin, stdout, stderr }
    }

    /// Starts it with a stdout of the test's own.
    fn start_with(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let stderr = Followed::new(child.stderr.take().unwrap());
        let stdin = child.stdin.take();
        Self { child, stdin, stdout: Followed::nothing(), stderr }
    }

    /// Starts it with its stdout left to the test, which need not read it.
    fn start_unread(mut command: Command) -> (Self, std::process::ChildStdout) {
        let mut running = Self::start_with(command.stdout(Stdio::piped()));
        let stdout = running.child.stdout.take().unwrap();
        (running, stdout)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: i32) {
        sys::signal(self.pid(), signal).unwrap();
    }

    #[track_caller]
    fn await_stdout(&self, text: &str) {
        self.stdout.wait_for(text);
    }

    /// Writes to its stdin, which must have been piped.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    #[track_caller]
    pub(crate) fn wait(&mut self) -> i32 {
        let mut status = None;
        let ended = holds_within(DEADLINE, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        assert!(ended, "ta run has not ended: {:?} {:?}", self.stdout.text(), self.stderr.text());
        code_of(status.unwrap())
    }

    #[track_caller]
    pub(crate) fn finish(mut self) -> Done {
        let code = self.wait();
        let (stdout, stderr) = (self.stdout.to_end(), self.stderr.to_end());
        Done { code, stdout, stderr: String::from_utf8(stderr).unwrap() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What comes out of a stream, read by a thread of its own as it comes.
#[derive(Clone, Default)]
pub(crate) struct Followed(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    ended: bool,
}

impl Followed {
    fn new(mut stream: impl Read + Send + 'static) -> Self {
        let followed = Self::default();
        let shared = Arc::clone(&followed.0);
        let follow = move || {
            let (state, changed) = &*shared;
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                state.lock().unwrap().bytes.extend_from_slice(&buffer[..count]);
                changed.notify_all();
            }
            state.lock().unwrap().ended = true;
            changed.notify_all();
        };
        thread::Builder::new().name("stream".into()).spawn(follow).unwrap();
        followed
    }

    /// A stream that has ended.
    fn nothing() -> Self {
        Self::new(std::io::empty())
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.0.lock().unwrap().bytes.clone()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) {
        let holds =
            |state: &State| state.bytes.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(self.wait(holds), "no {text:?} came, but {:?}", self.text());
    }

    #[track_caller]
    pub(crate) fn to_end(&self) -> Vec<u8> {
        assert!(self.wait(|state| state.ended), "no end came, but {:?}", self.text());
        self.bytes()
    }

    fn wait(&self, done: impl Fn(&State) -> bool) -> bool {
        let end = Instant::now() + DEADLINE;
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        loop {
            if done(&state) {
                return true;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left == Duration::ZERO || state.ended {
                return false;
            }
            state = changed.wait_timeout(state, left).unwrap().0;
        }
    }
}
