//! Work that leaves nothing half done behind: what is on its way is known by name, and removed when
//! it fails or somebody ends `ta`.

use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded, select};

use super::Shared;
use crate::cli::FAILED;
use crate::cli::arguments::{escaped, say_error};
use crate::cli::end::End;
use crate::cli::thread::{spawn, spawn_with, watch};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::{RemoveParams, WirePath};
use crate::sync::lock;
use crate::sys::signal::{self, Signals};

/// How long removing what is half done may take: the connection may have to be made anew for it.
const CLEANING: Duration = Duration::from_secs(3);
/// Between two attempts to do so.
const PAUSE: Duration = Duration::from_millis(50);
/// The way down into a tree is a call a level, and a path has at most 2,048 of them.
const STACK: usize = 8 * 1024 * 1024;

/// Files without their final name, on either side. A signal closes the list: nothing is begun then,
/// and nothing more is written.
pub(in crate::cli) struct Temporaries(Mutex<Option<Vec<(Shared, WirePath)>>>);

impl Temporaries {
    fn new() -> Self {
        Self(Mutex::new(Some(Vec::new())))
    }

    /// Takes note of one that is about to be made.
    ///
    /// # Errors
    /// `ta` is to end.
    pub(in crate::cli) fn add(
        self: &Arc<Self>,
        environment: &Shared,
        path: WirePath,
    ) -> Result<Temporary> {
        let entry = (Arc::clone(environment), path.clone());
        lock(&self.0).as_mut().ok_or_else(interrupted)?.push(entry);
        let (all, environment) = (Arc::clone(self), Arc::clone(environment));
        Ok(Temporary { all, environment, path, is_there: true })
    }

    /// Does what writes, unless `ta` is to end. (Under the lock: what is removed must not be made
    /// again by an append that comes after that.)
    ///
    /// # Errors
    /// `ta` is to end, and what comes of it.
    pub(in crate::cli) fn while_open<R>(&self, act: impl FnOnce() -> Result<R>) -> Result<R> {
        let open = lock(&self.0);
        open.as_ref().ok_or_else(interrupted)?;
        act()
    }

    /// Whether `ta` is to go on.
    pub(in crate::cli) fn is_open(&self) -> bool {
        lock(&self.0).is_some()
    }

    fn strike(&self, path: &WirePath) {
        if let Some(all) = lock(&self.0).as_mut() {
            all.retain(|(_, other)| other != path);
        }
    }

    fn close(&self) {
        let left = lock(&self.0).take().unwrap_or_default();
        for (environment, path) in left {
            remove(&environment, path);
        }
    }
}

fn interrupted() -> Error {
    Error::new(ErrorKind::Internal, "interrupted")
}

/// A file without its final name. Dropped, it is removed, unless it has got one.
pub(in crate::cli) struct Temporary {
    all: Arc<Temporaries>,
    environment: Shared,
    path: WirePath,
    is_there: bool,
}

impl Temporary {
    pub(in crate::cli) fn path(&self) -> &WirePath {
        &self.path
    }

    /// It has its final name.
    pub(in crate::cli) fn placed(mut self) {
        self.is_there = false;
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // A signal has it removed where the list is closed.
        if self.is_there && self.all.is_open() {
            remove(&self.environment, self.path.clone());
        }
        self.all.strike(&self.path);
    }
}

/// Removes one, within a bounded time; says so where it may have been left.
fn remove(environment: &Shared, path: WirePath) {
    let (sender, removed) = bounded(1);
    let params = RemoveParams { path, recursive: None, force: Some(true) };
    let shown = escaped(params.path.as_path().as_os_str());
    let environment = Arc::clone(environment);
    let remove = move || {
        let deadline = Instant::now() + CLEANING;
        let mut outcome = environment.remove(&params);
        // A Ctrl-C is for all that runs at a terminal, so the program that carries the connection
        // may be on its way out; another one is started for this.
        while outcome.as_ref().is_err_and(is_lost) && Instant::now() < deadline {
            thread::sleep(PAUSE);
            outcome = environment.remove(&params);
        }
        drop(sender.send(outcome));
    };
    let started = spawn("remove", remove);
    let outcome = started.ok().and_then(|_| removed.recv_timeout(CLEANING).ok());
    if !matches!(outcome, Some(Ok(()))) {
        say_error(&format!("{shown} may have been left there, half written: remove it"));
    }
}

fn is_lost(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionLost | ErrorKind::Unreachable)
}

/// Runs it on a thread of its own, and answers its exit code, or ends by the signal that somebody sends. It is
/// called before any thread has been started.
pub(in crate::cli) fn run(work: impl FnOnce(&Arc<Temporaries>) -> u8 + Send + 'static) -> ExitCode {
    let signals = Signals::block(&[signal::INT, signal::QUIT, signal::TERM, signal::HUP]);
    supervise(signals, work).unwrap_or_else(End::Failed).exit()
}

fn supervise(
    signals: Signals,
    work: impl FnOnce(&Arc<Temporaries>) -> u8 + Send + 'static,
) -> Result<End> {
    let temporaries = Arc::new(Temporaries::new());
    let (sender, arrivals) = bounded(8);
    let tell = move |signal| {
        let _ = sender.send(signal);
    };
    watch(signals, tell)?;
    let (sender, ended) = bounded(1);
    let known = Arc::clone(&temporaries);
    let work = move || {
        let _ = sender.send(work(&known));
    };
    spawn_with(STACK, "work", work)?;
    let arrived = select! {
        // (A thread that has panicked has said so.)
        recv(ended) -> end => return Ok(End::Code(end.unwrap_or(FAILED))),
        recv(arrivals) -> signal => signal.unwrap_or(signal::TERM),
    };
    clean(&temporaries, &arrivals)?;
    Ok(End::Signal(arrived))
}

/// Removes what is half done. Whoever signals again does not want to wait.
fn clean(temporaries: &Arc<Temporaries>, arrivals: &Receiver<i32>) -> Result<()> {
    let (sender, cleaned) = bounded(1);
    let temporaries = Arc::clone(temporaries);
    let close = move || {
        temporaries.close();
        let _ = sender.send(());
    };
    spawn("clean", close)?;
    let deadline = crossbeam_channel::at(Instant::now() + CLEANING);
    select! {
        recv(cleaned) -> _ => {}
        recv(arrivals) -> _ => {}
        recv(deadline) -> _ => {}
    }
    Ok(())
}
