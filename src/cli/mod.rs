//! The command line: one file per subcommand.

mod arguments;
mod exec_server;

use std::ffi::OsString;
use std::process::ExitCode;

use argh::FromArgs;

/// Commands of coding agents, run where they belong.
#[derive(FromArgs)]
#[argh(help_triggers("-h", "--help"))]
struct Ta {
    #[argh(subcommand)]
    command: Command,
}

#[derive(FromArgs)]
#[argh(subcommand)]
enum Command {
    ExecServer(exec_server::ExecServer),
}

/// Runs the program with these arguments, its own name first.
#[must_use]
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    match arguments::parse::<Ta>(arguments) {
        Ok(Ta { command: Command::ExecServer(command) }) => command.run(),
        Err(code) => code,
    }
}
