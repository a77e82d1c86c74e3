//! `ta ssh-clean`

use std::path::PathBuf;
use std::process::ExitCode;

use argh::{ArgsInfo, FromArgs};

use super::arguments::{say, say_error};
use super::end::End;
use super::place;
use crate::ssh;

/// Remove from a host what --ssh has placed there, and end the login.
#[derive(FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "ssh-clean",
    help_triggers("-h", "--help"),
    example = "{command_name} box",
    note = "It removes the servers of all versions below ~/.ta, or below the directory that
was used in its place. Commands that run there go on. The next --ssh places a
server again.",
    error_code(1, "something could not be removed"),
    error_code(2, "the command line is wrong"),
    error_code(125, "the host cannot be reached")
)]
pub(super) struct SshClean {
    /// read this configuration alone (ssh -F)
    #[argh(option)]
    ssh_config: Option<PathBuf>,
    /// the host, as ssh knows it
    #[argh(positional)]
    host: String,
}

impl SshClean {
    /// Says what has been removed.
    pub(super) fn run(self) -> ExitCode {
        self.end().unwrap_or_else(|end| end).exit()
    }

    fn end(self) -> Result<End, End> {
        let host = place::ssh_host(self.host, self.ssh_config, None).map_err(End::Usage)?;
        let (removed, left) = ssh::clean(&host).map_err(End::Failed)?;
        for directory in &removed {
            say(&format!("removed {directory} on {host}\n"));
        }
        for directory in &left {
            say_error(&format!("cannot remove all of {directory} on {host}"));
        }
        if removed.is_empty() && left.is_empty() {
            say(&format!("there is nothing of ta on {host}\n"));
        }
        Ok(End::Code(u8::from(!left.is_empty())))
    }
}
