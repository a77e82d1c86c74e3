//! The way to a server that is a child of this program, or is reached by one: `docker exec -i`,
//! `kubectl exec -i`, `ssh`, `ta exec-server --stdio` itself.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::MAX_MESSAGE;
use super::dispatch::{Dispatch, Pending};
use super::link::{Carrier, Link, Opened};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::{Empty, method, rpc};
use crate::sync::lock;
use crate::sys::child;
use crate::sys::errno;
use crate::sys::handle::Handle;
use crate::sys::poll::Waker;
use crate::sys::signal;
use crate::transport::stdio::LineSource;
use crate::transport::{End, Framing, Outbox, Patience, message};

/// How long the program may take to end once its stdin is closed; then, after SIGTERM.
const FAREWELL: Duration = Duration::from_secs(3);
const TERM: Duration = Duration::from_secs(1);
/// How long it is waited for the exit of a program that has closed its stdout, to tell of it.
const EXIT: Duration = Duration::from_millis(500);

/// Starts the program.
pub(super) fn connect(words: &[OsString], peer: Patience) -> Result<Link> {
    let (source, outbox, carrier) = start(words, peer)?;
    let dispatch = Arc::new(Dispatch::default());
    let source = source.nudging(nudge(&dispatch, &outbox));
    Link::start(Box::new(source), outbox, dispatch, carrier)
        .map_err(|error| Error::io(&error, "cannot make a thread for the connection"))
}

/// The same, with nobody at this end yet: whoever is there sees to it that the far end hears
/// something, and is not given up for its silence.
pub(super) fn open(words: &[OsString], peer: Patience) -> Result<Opened> {
    let (source, outbox, carrier) = start(words, Patience::never(peer.timeout))?;
    Ok(Opened { source: Box::new(source), outbox, carrier })
}

fn start(words: &[OsString], patience: Patience) -> Result<(LineSource, Outbox, Arc<dyn Carrier>)> {
    let (program, arguments) =
        words.split_first().ok_or_else(|| Error::params("the command has no words"))?;
    let name = program.to_string_lossy().into_owned();
    let failed = |error: std::io::Error| Error::io(&error, format!("cannot start {name:?}"));
    let mut command = child::command(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| {
        let why = errno::message(errno::of(&error));
        Error::new(ErrorKind::Unreachable, format!("cannot start {name:?}: {why}"))
    })?;
    let streams = child.stdin.take().zip(child.stdout.take());
    let stop = Arc::new(Waker::new().map_err(failed)?);
    let carrier = Arc::new(Program { name, child: Mutex::new(child), stop: Arc::clone(&stop) });
    let lost = || Error::new(ErrorKind::Internal, "a child has no pipes");
    let (stdin, stdout) = streams.ok_or_else(lost)?;
    let target = Box::new(File::from(OwnedFd::from(stdin)));
    let waken = Arc::clone(&stop);
    let (outbox, _writer) =
        Outbox::start(target, Framing::Lines, move || waken.wake(), || false)
            .map_err(|error| Error::io(&error, "cannot make a thread for the connection"))?;
    Ok((LineSource::new(stdout.into(), stop, patience, MAX_MESSAGE), outbox, carrier))
}

/// A stream of lines has no pings of its own: the far end, which gives up who is silent, is sent one
/// of the protocol's.
pub(super) fn nudge(dispatch: &Arc<Dispatch>, outbox: &Outbox) -> Box<dyn Fn() + Send> {
    let (dispatch, outbox) = (Arc::clone(dispatch), outbox.clone());
    Box::new(move || {
        let Ok(id) = dispatch.expect(Pending::Nobody) else { return };
        let mut buffer = message(Vec::with_capacity(64));
        rpc::write_request(&mut buffer, id, method::PING, &Empty {});
        outbox.control(buffer);
    })
}

/// The program that carries the connection.
struct Program {
    name: String,
    child: Mutex<Child>,
    stop: Arc<Waker>,
}

impl Program {
    /// Waits for its exit, `timeout` at most; answers whether it has exited.
    fn wait(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut child = lock(&self.child);
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
            drop(child);
            match Handle::open(pid) {
                Ok(handle) => drop(handle.wait_exit(left)),
                Err(_) => thread::sleep(Duration::from_millis(5)),
            }
            child = lock(&self.child);
        }
    }
}

impl Carrier for Program {
    fn close(&self, outbox: &Outbox) {
        // Its stdin is closed when the writer has ended.
        outbox.stop();
        if !self.wait(FAREWELL) {
            let pid = i32::try_from(lock(&self.child).id()).unwrap_or(i32::MAX);
            let _ = Handle::open(pid).and_then(|handle| handle.signal(signal::TERM));
            if !self.wait(TERM) {
                let mut child = lock(&self.child);
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        self.stop.wake();
    }

    fn explain(&self, end: &End) -> Option<String> {
        // (It is stopped where nothing can be written to it.)
        if !matches!(end, End::Closed | End::Lost(_) | End::Stopped) || !self.wait(EXIT) {
            return None;
        }
        let status = lock(&self.child).try_wait().ok()??;
        let command = format!("the command {:?}", self.name);
        Some(match (status.code(), std::os::unix::process::ExitStatusExt::signal(&status)) {
            (Some(code), _) => format!("{command} ended with exit code {code}"),
            (None, Some(number)) => {
                format!("{command} was ended by {}", signal::name(number))
            }
            (None, None) => format!("{command} ended"),
        })
    }
}
