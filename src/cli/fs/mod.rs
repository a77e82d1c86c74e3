//! `ta fs`: files of an environment, one at a time.

mod find;
mod grep;
mod ls;
mod mkdir;
mod mv;
mod read;
mod rm;
mod stat;
mod time;
mod write;

pub(super) use ls::name;

use std::process::ExitCode;

use argh::{ArgsInfo, FromArgs};

use super::arguments::{is_text, say_error};
use super::end::End;

/// Read, write, list and change files of an environment: on another machine, in a container, or
/// here.
#[derive(FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "fs",
    help_triggers("-h", "--help"),
    example = "{command_name} read --exec ws://box:4200/exec notes.txt",
    example = "{command_name} write --via 'docker exec -i box /ta exec-server --stdio' notes.txt < notes.txt",
    note = "Each has a --help of its own. Paths are the environment's; relative ones are
relative to its directory. They may be any bytes, UTF-8 or not.
`ta cp` copies files and trees from and to this machine."
)]
pub(super) struct Fs {
    #[argh(subcommand)]
    action: Action,
}

#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand)]
enum Action {
    Read(read::Read),
    Write(write::Write),
    Stat(stat::Stat),
    Ls(ls::Ls),
    Mkdir(mkdir::Mkdir),
    Rm(rm::Rm),
    Mv(mv::Mv),
    Find(find::Find),
    Grep(grep::Grep),
}

impl Fs {
    /// Runs it and answers its exit code.
    pub(super) fn run(self) -> ExitCode {
        match self.action {
            Action::Read(read) => super::files::exit(read.run()),
            Action::Write(write) => write.run(),
            Action::Stat(stat) => super::files::exit(stat.run()),
            Action::Ls(ls) => super::files::exit(ls.run()),
            Action::Mkdir(mkdir) => super::files::exit(mkdir.run()),
            Action::Rm(rm) => super::files::exit(rm.run()),
            Action::Mv(mv) => super::files::exit(mv.run()),
            Action::Find(find) => super::files::exit(find.run()),
            Action::Grep(grep) => super::files::exit(grep.run()),
        }
    }
}

/// A pattern has to be text, whatever bytes a path may have.
fn check_text(what: &str, pattern: &str) -> Result<(), End> {
    if is_text(pattern) { Ok(()) } else { Err(End::usage(format!("{what} is not UTF-8"))) }
}

/// Says that there is more than has been shown, where people look.
fn said_limit(truncated: bool, shown: usize) {
    if truncated {
        say_error(&format!("there is more than these {shown} (--limit)"));
    }
}
