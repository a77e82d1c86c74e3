//! The command line: one file per subcommand.

mod arguments;
#[cfg(feature = "host")]
mod completions;
#[cfg(feature = "host")]
mod connect;
#[cfg(feature = "host")]
mod cp;
mod duration;
mod end;
mod exec_server;
mod far_side;
#[cfg(feature = "host")]
mod files;
#[cfg(feature = "host")]
mod forward;
#[cfg(feature = "host")]
mod fs;
mod healthcheck;
#[cfg(feature = "host")]
mod hosts;
mod life;
#[cfg(feature = "host")]
mod man;
#[cfg(feature = "host")]
mod mcp;
#[cfg(feature = "host")]
mod ping;
mod place;
#[cfg(feature = "host")]
mod progress;
#[cfg(feature = "host")]
mod prompt;
mod run;
#[cfg(feature = "host")]
mod serve;
#[cfg(feature = "host")]
mod ssh_clean;
mod thread;
mod token;
mod variables;

use std::ffi::OsString;
use std::process::ExitCode;

use argh::{ArgsInfo, FromArgs};

pub(crate) use arguments::say_error;

use crate::error::{Error, ErrorKind, StartStep};
#[cfg(feature = "host")]
use crate::ssh::ask;
use crate::sys;

/// Commands of coding agents, run where they belong. `ta --version` tells the version.
#[derive(FromArgs, ArgsInfo)]
#[argh(help_triggers("-h", "--help"))]
struct Ta {
    #[argh(subcommand)]
    command: Command,
}

/// The commands: each is a parser in a module of its own, and can be run.
macro_rules! commands {
    ($($command:ident: $module:ident,)*) => {
        #[derive(FromArgs, ArgsInfo)]
        #[argh(subcommand)]
        enum Command {
            $($command($module::$command),)*
        }

        impl Command {
            fn run(self) -> ExitCode {
                match self {
                    $(Self::$command(command) => command.run(),)*
                }
            }
        }
    };
}

#[cfg(feature = "host")]
commands! {
    ExecServer: exec_server,
    Run: run,
    Forward: forward,
    Connect: connect,
    Healthcheck: healthcheck,
    Ping: ping,
    Completions: completions,
    Man: man,
    Fs: fs,
    Cp: cp,
    Hosts: hosts,
    SshClean: ssh_clean,
    Serve: serve,
    Mcp: mcp,
}

#[cfg(not(feature = "host"))]
commands! {
    ExecServer: exec_server,
    Run: run,
    Healthcheck: healthcheck,
}

/// Runs the program with these arguments, its own name first.
#[must_use]
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    #[cfg(feature = "host")]
    if let Some(code) = ask::run(&arguments) {
        return code;
    }
    if let Some(code) = far_side::run(&arguments) {
        return code;
    }
    match arguments::parse::<Ta>(arguments) {
        Ok(Ta { command }) => command.run(),
        Err(code) => code,
    }
}

/// `ta run` itself failed. This and the next two are what env(1), timeout(1) and docker answer
/// too: exit codes of a command that runs others.
const FAILED: u8 = 125;
/// The command was found and could not be run.
const NOT_EXECUTABLE: u8 = 126;
/// The command was not found.
const NOT_FOUND: u8 = 127;

/// Says on one line what has failed, why, and what to do.
fn say_failure(error: &Error) {
    say_error(&sentence(error));
}

/// What has gone wrong and what to do about it, on one line.
fn sentence(error: &Error) -> String {
    let message = match advice(error) {
        Some(advice) => format!("{} ({advice})", error.message()),
        None => error.message().to_owned(),
    };
    message.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

/// What a failure means to whoever has called.
fn code(error: &Error) -> u8 {
    match (error.kind(), error.step()) {
        (ErrorKind::NoShell, _) => NOT_FOUND,
        (ErrorKind::Os(sys::errno::ENOENT), Some(StartStep::Exec)) => NOT_FOUND,
        (ErrorKind::Os(_), Some(StartStep::Exec)) => NOT_EXECUTABLE,
        _ => FAILED,
    }
}

/// The error of a thread that has panicked.
fn lost_thread() -> Error {
    Error::new(ErrorKind::Internal, "ta has a bug: one of its threads has ended too early")
}

/// What to do, where the message alone does not tell.
fn advice(error: &Error) -> Option<&'static str> {
    match (error.kind(), error.step()) {
        (_, Some(StartStep::Cwd)) => Some("--cwd names a directory on the server's machine"),
        (ErrorKind::NoShell, _) => Some("give a program and its arguments in place of -c"),
        (ErrorKind::StaleEpoch, _) => Some("end this host, or give it a higher --epoch"),
        (ErrorKind::Limit, _) => Some("try again when less is running there"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_program_itself_can_be_missing_or_not_executable() {
        let os = |name: &str, step| {
            let errno = sys::errno::number(name).unwrap();
            code(&Error::os(errno, "x").at(step))
        };
        assert_eq!(os("ENOENT", Some(StartStep::Exec)), 127);
        for errno in ["EACCES", "ENOEXEC", "EISDIR", "E2BIG"] {
            assert_eq!(os(errno, Some(StartStep::Exec)), 126, "{errno}");
        }
        assert_eq!(os("ENOENT", Some(StartStep::Cwd)), 125);
        assert_eq!(os("ENOENT", None), 125, "there may be no /dev/ptmx");
    }
}
