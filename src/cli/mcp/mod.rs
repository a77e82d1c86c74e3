//! `ta mcp`: one stdio MCP server on an environment, as the command of an agent's config.
//!
//! Bytes go both ways as they are, with one exception: which directories an agent works in is asked
//! by `roots/list`, and an agent would name its own machine's. `ta` answers that itself ([`relay`]).

mod relay;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, after, bounded, never, select};

use super::end::End;
use super::place::{self, Place, Variables};
use super::thread::{spawn, watch};
use super::{lost_thread, variables};
use crate::client::ExecClient;
use crate::environment::{
    ExecEnvironment, ProcessEnd, ProcessExit, RemoteExecEnvironment, SplitProcess,
};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::{EnvDelta, SpawnParams};
use crate::sys::signal::{self, Signals};
use crate::tools::to_url;

/// How long a server may take to end when its stdin is closed, and then after SIGTERM: as long as
/// the official SDK's client gives it.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long it has from SIGTERM to SIGKILL where `ta` itself was told to end.
const GRACE: Duration = Duration::from_secs(1);
/// Signals, and one last word of each thread.
const NEWS: usize = 8;

place::command! {
    /// Run one stdio MCP server on an environment, as the command of an agent's config.
    #[argh(
        name = "mcp",
        usage = "[OPTIONS] [--] COMMAND [ARGS...]",
        example = "{command_name} --exec ws://box:4200/exec -- npx -y @modelcontextprotocol/server-filesystem .",
        example = "{command_name} --exec ws://box:4200/exec --env API_KEY -- node server.js",
        note = "An agent's config has this in place of the server: \"command\": \"ta\", \"args\": [\"mcp\",
\"--exec\", \"ws://box:4200/exec\", \"--\", \"node\", \"server.js\"].

The server has the environment's variables. Of this program's own only those named by --env
are passed on, because an agent gives a server all that it has itself, keys too: a variable of
the config's \"env\" is named once more, as --env NAME.

When the server asks for roots, ta answers with the directory that it runs in; all else passes
as it is, of any length. At the end of stdin the server's is closed; 2 s later comes SIGTERM,
2 s later SIGKILL. SIGTERM, SIGINT and SIGHUP to ta send it SIGTERM, and SIGKILL a second later.

It fences no other host unless --epoch is given. The exit code is the server's own, 128+n
where signal n has ended it, or one of these.",
        error_code(125, "ta itself has failed, or the environment was lost"),
        error_code(126, "the server cannot be run"),
        error_code(127, "the server was not found")
    )]
    struct Mcp {
        /// directory to run in, absolute or relative to the environment's
        #[argh(option)]
        cwd: Option<String>,
        /// set a variable, as NAME=VALUE; as NAME, pass this program's own on, if it is set; may be
        /// repeated
        #[argh(option)]
        env: Vec<String>,
        #[argh(positional, greedy)]
        program: Vec<String>,
    }
}

impl Mcp {
    /// Runs the server and answers its exit code.
    pub(super) fn run(self) -> ExitCode {
        // Before any thread is there: both are the whole process's.
        let variables = Variables::take();
        let signals = Signals::block(&[signal::INT, signal::QUIT, signal::TERM, signal::HUP]);
        let end = self.plan(variables).and_then(|plan| run(plan, signals));
        end.unwrap_or_else(End::Failed).exit()
    }

    fn plan(mut self, variables: Variables) -> Result<Plan> {
        let env = variables::delta(&self.env)?;
        let place = self.place_options().place(variables)?;
        let mut words = self.program.into_iter();
        let command = words
            .next()
            .ok_or_else(|| Error::params("no server: ta mcp [OPTIONS] -- COMMAND ARGS..."))?;
        Ok(Plan { place, command, args: words.collect(), cwd: self.cwd, env })
    }
}

struct Plan {
    place: Place,
    command: String,
    args: Vec<String>,
    cwd: Option<String>,
    env: EnvDelta,
}

/// A server that runs.
struct Started {
    client: ExecClient,
    process: SplitProcess,
    /// The directory that it runs in, as a URL.
    root: String,
}

impl Plan {
    fn start(self) -> Result<Started> {
        let client = self.place.guarded(None)?;
        let environment = RemoteExecEnvironment::new(client.clone())?;
        let root = match &self.cwd {
            None => environment.cwd().to_owned(),
            Some(cwd) => environment.cwd().join(cwd),
        };
        let process = environment.spawn(&SpawnParams {
            args: Some(self.args),
            cwd: self.cwd,
            env: (!self.env.is_empty()).then_some(self.env),
            ..SpawnParams::new(self.command)
        })?;
        Ok(Started { client, process: process.split()?, root: to_url(&root) })
    }
}

/// What the main thread is told.
enum News {
    Signal(i32),
    /// There is no more of stdin.
    StdinEnded,
    /// All of stdout has been written; or nobody reads it.
    StdoutEnded(Written),
}

/// How passing output on has ended.
enum Written {
    All,
    Unread,
    Failed(Error),
}

fn run(plan: Plan, signals: Signals) -> Result<End> {
    let (sender, news) = bounded(NEWS);
    let told = sender.clone();
    watch(signals, move |signal| drop(told.send(News::Signal(signal))))?;
    let Started { client, process, root } = match connect(plan, &news)? {
        Ok(started) => started,
        Err(signal) => return Ok(End::Signal(signal)),
    };
    let SplitProcess { stdin, stdout, stderr, end } = process;
    let (up, from) = bounded(relay::WAITING);
    let (answers, own) = bounded(relay::WAITING);
    spawn("input", move || relay::feed(stdin, &from, &own))?;
    let told = sender.clone();
    spawn("stdin", move || {
        relay::read_stdin(&up);
        let _ = told.send(News::StdinEnded);
    })?;
    spawn("stderr", move || relay::pass_stderr(stderr))?;
    let told = sender;
    spawn("output", move || {
        let written = relay::pass_on(stdout, &answers, &root);
        let _ = told.send(News::StdoutEnded(written));
    })?;
    let result = Supervisor { news, end }.run();
    client.close();
    result
}

/// Starts the server; a signal before it has started ends `ta` at once, and the server with the
/// connection; that is the inner error.
fn connect(plan: Plan, news: &Receiver<News>) -> Result<Result<Started, i32>> {
    let (sender, started) = bounded(1);
    spawn("connect", move || drop(sender.send(plan.start())))?;
    select! {
        recv(started) -> started => started.map_err(|_| lost_thread())?.map(Ok),
        recv(news) -> told => match told {
            Ok(News::Signal(signal)) => Ok(Err(signal)),
            _ => Err(lost_thread()),
        },
    }
}

struct Supervisor {
    news: Receiver<News>,
    end: ProcessEnd,
}

/// What comes next for a server that is to end.
#[derive(Clone, Copy)]
enum Step {
    None,
    Term(Instant),
    Kill(Instant),
}

impl Supervisor {
    /// Sees the server to its end.
    fn run(self) -> Result<End> {
        let (sender, over) = bounded(1);
        let end = self.end.clone();
        spawn("exit", move || drop(sender.send(end.wait())))?;
        let (mut step, mut was_told, mut is_written) = (Step::None, None, false);
        loop {
            let due = match step {
                Step::None => never(),
                Step::Term(at) | Step::Kill(at) => {
                    after(at.saturating_duration_since(Instant::now()))
                }
            };
            select! {
                recv(over) -> over => {
                    let exit = over.map_err(|_| lost_thread())??;
                    // What it has written is written first.
                    if !is_written {
                        was_told = was_told.or(self.await_written()?);
                    }
                    return was_told.map_or_else(|| of_exit(&exit), |signal| Ok(End::Signal(signal)));
                }
                recv(self.news) -> told => match told {
                    Ok(News::Signal(signal)) if was_told.is_some() => return Ok(End::Signal(signal)),
                    Ok(News::Signal(signal)) => {
                        was_told = Some(signal);
                        self.kill("SIGTERM");
                        step = Step::Kill(Instant::now() + GRACE);
                    }
                    Ok(News::StdinEnded) if matches!(step, Step::None) => {
                        step = Step::Term(Instant::now() + PATIENCE);
                    }
                    Ok(News::StdoutEnded(Written::Unread)) => return Ok(End::Signal(signal::PIPE)),
                    Ok(News::StdoutEnded(Written::Failed(error))) => return Err(error),
                    Ok(News::StdoutEnded(Written::All)) => is_written = true,
                    Ok(News::StdinEnded) => {}
                    Err(_) => return Err(lost_thread()),
                },
                recv(due) -> _ => match step {
                    Step::Term(_) => {
                        self.kill("SIGTERM");
                        step = Step::Kill(Instant::now() + PATIENCE);
                    }
                    _ => {
                        self.kill("SIGKILL");
                        step = Step::None;
                    }
                },
            }
        }
    }

    fn kill(&self, signal: &str) {
        // If the connection has gone, the end says so.
        let _ = self.end.control().begin_kill(signal, None);
    }

    /// Waits until all that the server wrote has been written, at the agent's pace; a signal, which is
    /// answered, ends the waiting.
    fn await_written(&self) -> Result<Option<i32>> {
        loop {
            match self.news.recv() {
                Ok(News::StdoutEnded(Written::Failed(error))) => return Err(error),
                Ok(News::StdoutEnded(_)) | Err(_) => return Ok(None),
                Ok(News::Signal(signal)) => return Ok(Some(signal)),
                Ok(News::StdinEnded) => {}
            }
        }
    }
}

/// The server's end as that of `ta`.
fn of_exit(exit: &ProcessExit) -> Result<End> {
    let code = exit.exit_code.or_else(|| Some(128 + signal::by_name(exit.signal.as_deref()?)?));
    let code = code.and_then(|code| u8::try_from(code & 0xff).ok());
    code.map(End::Code)
        .ok_or_else(|| Error::new(ErrorKind::Internal, "how the server has ended is not known"))
}
