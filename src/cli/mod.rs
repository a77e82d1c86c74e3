//! The command line: one file per subcommand.

mod arguments;
mod completions;
mod connect;
mod cp;
mod duration;
mod end;
mod exec_server;
mod files;
mod forward;
mod fs;
mod hosts;
mod life;
mod mcp;
mod ping;
mod place;
mod run;
mod serve;
mod thread;
mod token;
mod variables;

use std::ffi::OsString;
use std::process::ExitCode;

use argh::{ArgsInfo, FromArgs};

pub(crate) use arguments::say_error;

use crate::error::{Error, ErrorKind, StartStep};
use crate::sys;

/// Commands of coding agents, run where they belong. `ta --version` tells the version.
#[derive(FromArgs, ArgsInfo)]
#[argh(help_triggers("-h", "--help"))]
struct Ta {
    #[argh(subcommand)]
    command: Command,
}

#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand)]
enum Command {
    ExecServer(exec_server::ExecServer),
    Run(run::Run),
    Forward(forward::Forward),
    Connect(connect::Connect),
    Ping(ping::Ping),
    Completions(completions::Completions),
    Fs(fs::Fs),
    Cp(cp::Cp),
    Hosts(hosts::Hosts),
    Serve(serve::Serve),
    Mcp(mcp::Mcp),
}

/// Runs the program with these arguments, its own name first.
#[must_use]
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    match arguments::parse::<Ta>(arguments) {
        Ok(Ta { command }) => command.run(),
        Err(code) => code,
    }
}

impl Command {
    fn run(self) -> ExitCode {
        match self {
            Self::ExecServer(command) => command.run(),
            Self::Run(command) => command.run(),
            Self::Forward(command) => command.run(),
            Self::Connect(command) => command.run(),
            Self::Ping(command) => command.run(),
            Self::Completions(command) => command.run(),
            Self::Fs(command) => command.run(),
            Self::Cp(command) => command.run(),
            Self::Hosts(command) => command.run(),
            Self::Serve(command) => command.run(),
            Self::Mcp(command) => command.run(),
        }
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
