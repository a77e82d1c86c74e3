//! One interface, four environments behind it: this program itself, the protocol within it, a server
//! over WebSocket, a server over stdio. Every behaviour is the same in all of them, down to the words
//! of an error.

mod about;
mod ends;
mod exec;
mod exec_ends;
mod file_errors;
mod files;
mod ids;
mod searches;
mod spawn;
mod split;
mod terminal;
mod window;

use std::fmt::Debug;
use std::thread;
use std::time::Instant;

use ta_exec::client::{ClientOptions, ExecClient};
use ta_exec::environment::{
    ExecEnvironment, LocalExecEnvironment, Process, ProcessEvent, ProcessExit,
    RemoteExecEnvironment, Stream,
};
use ta_exec::protocol::{ExecParams, WirePath};
use ta_exec::{Error, ErrorKind, StartStep};

use crate::support::{DEADLINE, Server, Setup, TOKEN, TempDir, binary};

const NAMES: [&str; 4] = ["local", "in memory", "websocket", "stdio"];

/// An environment that works in an empty directory of its own, and what has to live as long as it.
pub(crate) struct Place {
    environment: Option<Box<dyn ExecEnvironment>>,
    _server: Option<Server>,
    dir: TempDir,
}

impl Place {
    fn new(name: &str) -> Self {
        let dir = TempDir::new();
        let path = dir.path().to_str().unwrap();
        let local = || LocalExecEnvironment::new(Some(dir.path().to_owned())).unwrap();
        let remote = |client: ExecClient| -> Box<dyn ExecEnvironment> {
            Box::new(RemoteExecEnvironment::new(client).unwrap())
        };
        let mut server = None;
        let environment = match name {
            "local" => Box::new(local()),
            "in memory" => remote(ClientOptions::new().in_memory(&local()).unwrap()),
            "websocket" => {
                let server = server.insert(Setup::new().args(["--cwd", path]).listen());
                let url = format!("ws://{}/exec", server.address);
                remote(ExecClient::websocket(&url, Some(TOKEN)).unwrap())
            }
            _ => {
                let program = binary();
                let program = program.to_str().unwrap();
                let words = [program, "exec-server", "--stdio", "--cwd", path];
                remote(ExecClient::stdio(&words).unwrap())
            }
        };
        Self { environment: Some(environment), _server: server, dir }
    }

    fn environment(&self) -> &dyn ExecEnvironment {
        &**self.environment.as_ref().unwrap()
    }

    /// For whoever shares it; it ends with them.
    pub(crate) fn take(&mut self) -> Box<dyn ExecEnvironment> {
        self.environment.take().unwrap()
    }

    pub(crate) fn dir(&self) -> &TempDir {
        &self.dir
    }
}

/// Runs one body over all four, side by side. What it answers must be the same everywhere.
#[track_caller]
fn over_all<T: Debug + PartialEq + Send>(body: impl Fn(&dyn ExecEnvironment) -> T + Sync) {
    over_all_places(|place| body(place.environment()));
}

/// The same, for a body that ends the environment.
#[track_caller]
pub(crate) fn over_all_places<T: Debug + PartialEq + Send>(body: impl Fn(&mut Place) -> T + Sync) {
    let seen: Vec<T> = thread::scope(|scope| {
        let start = |name: &'static str| {
            let body = &body;
            let run = move || body(&mut Place::new(name));
            thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, run).unwrap()
        };
        let threads = NAMES.map(start);
        let join = |thread: thread::ScopedJoinHandle<'_, T>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    });
    for (name, other) in NAMES.iter().zip(&seen) {
        assert_eq!(*other, seen[0], "{name}, and before it local");
    }
}

/// What a caller can see of an error, with the environment's directory as `DIR`.
#[derive(Debug, PartialEq)]
struct Told {
    kind: ErrorKind,
    step: Option<StartStep>,
    size: Option<u64>,
    message: String,
}

#[track_caller]
fn told<T>(environment: &dyn ExecEnvironment, result: Result<T, Error>) -> Told {
    let error = result.err().expect("it fails");
    let message = error.message().replace(environment.cwd().to_str().unwrap(), "DIR");
    Told { kind: error.kind().clone(), step: error.step(), size: error.size(), message }
}

/// A process that has ended.
#[derive(Debug, PartialEq)]
struct Ran {
    stdout: String,
    stderr: String,
    exit: ProcessExit,
}

#[track_caller]
fn run(environment: &dyn ExecEnvironment, params: &ExecParams) -> Ran {
    finish(environment.exec(params).unwrap()).unwrap()
}

#[track_caller]
fn shell(environment: &dyn ExecEnvironment, line: &str) -> Ran {
    run(environment, &ExecParams::new(line))
}

/// Takes all events of a process, with a deadline for each.
#[track_caller]
fn finish(mut process: Process) -> Result<Ran, Error> {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let exit = loop {
        match process.next(Some(Instant::now() + DEADLINE))?.expect("an event in time") {
            ProcessEvent::Output(Stream::Stdout, bytes) => stdout.extend_from_slice(bytes),
            ProcessEvent::Output(Stream::Stderr, bytes) => stderr.extend_from_slice(bytes),
            ProcessEvent::Exit(exit) => break exit,
        }
    };
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Ok(Ran { stdout: text(&stdout), stderr: text(&stderr), exit })
}

/// Waits until a process has written this to stdout.
#[track_caller]
fn await_output(process: &mut Process, expected: &str) {
    let mut seen = String::new();
    while !seen.contains(expected) {
        match process.next(Some(Instant::now() + DEADLINE)).unwrap() {
            Some(ProcessEvent::Output(_, bytes)) => seen += &String::from_utf8_lossy(bytes),
            other => panic!("{other:?} after {seen:?}, and not {expected:?}"),
        }
    }
}

fn path(path: &str) -> WirePath {
    WirePath::try_from(path).unwrap()
}
