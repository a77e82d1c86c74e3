//! `ta run`: a command on another machine, as if it ran here.
//!
//! The main thread waits in one place for whatever comes next (a signal, a deadline, the end)
//! and decides what it means ([`supervisor`]). Bytes are moved by threads of their own
//! ([`streams`]), so that a reader who has stopped reading holds up no decision.

mod streams;
mod supervisor;
mod terminal;

use std::process::ExitCode;
use std::time::Duration;

use super::end::End;
use super::place::{self, Place, Runner, Variables};
use super::{duration, variables};
use crate::client::Process;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::{EnvDelta, ExecParams, PtySize, SpawnParams};
use crate::sys::signal::{self, Signals};

/// How long a command has from SIGTERM to SIGKILL when its time is up or `ta` is to end.
const GRACE: Duration = Duration::from_secs(1);
/// Options without a value.
pub(super) const SWITCHES: &[&str] = &["--tty", "-t", "--stdin", "-i", "--help", "-h"];

place::command! {
    /// Run a command in an environment: on another machine, in a container, or here.
    #[argh(
        name = "run",
        usage = "[OPTIONS] [--] COMMAND [ARGS...]\n       {command_name} [OPTIONS] -c 'COMMAND LINE'",
        example = "{command_name} --exec ws://box:4200/exec -- uname -a",
        example = "{command_name} --cwd src --timeout 10m -c 'make -j8 2>&1'",
        example = "tar c . | {command_name} -i -- tar x -C /tmp",
        example = "{command_name} -it -- bash",
        note = "The token comes from --token-file or the URL's ?token= (percent-encoded, and
for everybody on this machine to see while ta runs), and where neither is given
from the environment variable TA_EXEC_TOKEN.

Output comes as it is written, byte for byte. Without -i the command's stdin
is empty. What the command leaves running in its process group ends with it.
With -i, once stdin has ended and nobody can read stdout any more, the command
has a second to end by itself; then it is ended.

When its time is up the command gets SIGTERM, and SIGKILL one second later.
Ctrl-C sends it SIGINT, a second one SIGKILL; a third waits for nobody.
SIGTERM and SIGHUP to ta end the command as a timeout does, and then ta.

--tty needs a terminal on stdin. It is in raw mode meanwhile: every key, Ctrl-C
too, goes to the command. stdout may be something else; stderr is part of it,
as on any terminal. TERM and the window's size are passed on.

The exit code is the command's own, 128+n where signal n has ended it
(130 SIGINT, 137 SIGKILL, 143 SIGTERM), or one of these.",
        error_code(124, "its time was up"),
        error_code(125, "ta itself has failed; one line on stderr says why and what to do"),
        error_code(126, "the command cannot be run"),
        error_code(127, "the command was not found")
    )]
    struct Run {
        /// directory to run in, absolute or relative to the server's
        #[argh(option)]
        cwd: Option<String>,
        /// set a variable, as NAME=VALUE; as NAME, pass the caller's own on, if it is set; may be
        /// repeated
        #[argh(option)]
        env: Vec<String>,
        /// end the command after this time: 10s, 500ms, 2m, 1h, or seconds
        #[argh(option, from_str_fn(duration::parse))]
        timeout: Option<Duration>,
        /// run the command on a terminal of its own; implies -i
        #[argh(switch, short = 't')]
        tty: bool,
        /// pass stdin on
        #[argh(switch, short = 'i')]
        stdin: bool,
        /// a command line for the shell on that machine
        #[argh(option, short = 'c', long = "command")]
        line: Option<String>,
        #[argh(positional, greedy)]
        program: Vec<String>,
    }
}

impl Run {
    /// Runs the command and answers its exit code.
    pub(super) fn run(self) -> ExitCode {
        // Before any thread is there: both are the whole process's.
        let variables = Variables::take();
        let mut signals = vec![signal::INT, signal::QUIT, signal::TERM, signal::HUP];
        if self.tty {
            signals.extend([signal::TSTP, signal::CONT]);
        }
        let signals = Signals::block(&signals);
        let resizes = self.tty.then(|| Signals::block(&[signal::WINCH]));
        let plan = self.plan(variables);
        let end = plan.and_then(|plan| supervisor::run(plan, signals, resizes));
        end.unwrap_or_else(End::Failed).exit()
    }

    fn plan(mut self, variables: Variables) -> Result<Plan> {
        let mut env = variables::delta(&self.env)?;
        let options = self.place_options();
        let job = match (self.line, self.program) {
            (Some(line), program) if program.is_empty() => Job::Line(line),
            (None, program) if !program.is_empty() => Job::Program(program),
            (None, _) => {
                let message =
                    "no command: ta run [OPTIONS] -- COMMAND ARGS..., or -c 'COMMAND LINE'";
                return Err(Error::params(message));
            }
            (Some(_), _) => {
                let message = "-c and a COMMAND are both given: put all of it into the line of -c";
                return Err(Error::params(message));
            }
        };
        let place = options.place(variables)?;
        let window = if self.tty { Some(terminal::window_to_use()?) } else { None };
        if window.is_some()
            && env.iter().all(|(name, _)| name != "TERM")
            && let Ok(term) = std::env::var("TERM")
        {
            variables::insert(&mut env, "TERM", term)?;
        }
        Ok(Plan {
            place,
            job,
            cwd: self.cwd,
            env: (!env.is_empty()).then_some(env),
            timeout: self.timeout,
            stdin: self.stdin || self.tty,
            window,
        })
    }
}

/// All that there is to know of a command that is to run.
struct Plan {
    place: Place,
    job: Job,
    cwd: Option<String>,
    env: Option<EnvDelta>,
    timeout: Option<Duration>,
    /// Whether our stdin is passed on.
    stdin: bool,
    /// The size of the terminal that it gets, if it gets one.
    window: Option<PtySize>,
}

enum Job {
    /// A line for the shell.
    Line(String),
    /// A program and its arguments; never empty.
    Program(Vec<String>),
}

/// A command that has been started.
struct Started {
    environment: Box<dyn Runner>,
    process: Process,
    /// Whether its time and its stdin are the server's business, as with a command line that is
    /// fed nothing.
    served: bool,
}

impl Plan {
    /// Connects and starts the command.
    fn start(self) -> Result<Started> {
        let environment = self.place.runner()?;
        let (command, args) = match self.job {
            Job::Line(line) if !self.stdin => {
                let process = environment.exec(&ExecParams {
                    cwd: self.cwd,
                    env: self.env,
                    timeout_ms: self.timeout.map(whole_ms),
                    grace_ms: self.timeout.map(|_| whole_ms(GRACE).get()),
                    ..ExecParams::new(line)
                })?;
                return Ok(Started { environment, process, served: true });
            }
            Job::Line(line) => (shell(&*environment)?, vec!["-c".to_owned(), line]),
            Job::Program(words) => {
                let mut words = words.into_iter();
                (words.next().unwrap_or_default(), words.collect())
            }
        };
        let process = environment.spawn(&SpawnParams {
            args: Some(args),
            cwd: self.cwd,
            env: self.env,
            pty: self.window,
            ..SpawnParams::new(command)
        })?;
        Ok(Started { environment, process, served: false })
    }
}

/// The shell that the server would use itself.
fn shell(environment: &dyn Runner) -> Result<String> {
    environment.about()?.shell.ok_or_else(|| {
        Error::new(ErrorKind::NoShell, "that machine has no shell to run a command line")
    })
}

/// At least one.
fn whole_ms(duration: Duration) -> std::num::NonZeroU64 {
    let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    std::num::NonZeroU64::new(ms).unwrap_or(std::num::NonZeroU64::MIN)
}

#[cfg(test)]
mod tests {
    use argh::FromArgs as _;

    use super::*;

    #[test]
    fn the_list_of_switches_is_that_of_the_parser() {
        for switch in SWITCHES.iter().filter(|switch| !switch.contains('h')) {
            let run = Run::from_args(&["ta", "run"], &[switch, "ls"]).ok().unwrap();
            assert_eq!(run.program, ["ls"], "{switch} takes a value");
        }
        for option in [
            "--exec",
            "--via",
            "--ssh",
            "--ssh-config",
            "--server-dir",
            "--epoch",
            "--token-file",
            "--cwd",
            "--env",
            "--command",
            "-c",
        ] {
            assert!(Run::from_args(&["ta", "run"], &[option]).is_err(), "{option} takes a value");
        }
    }
}
