//! `ta hosts`

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use argh::{ArgsInfo, FromArgs};
use serde::Serialize;

use super::arguments::{escaped, say_error};
use super::end::End;
use super::files;
use crate::ssh::config::{self, Host, HostList, Warning};

/// Names longer than that do not make the column wider.
const WIDEST: usize = 40;

/// List the hosts of ~/.ssh/config that have a name of their own.
#[derive(FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "hosts",
    help_triggers("-h", "--help"),
    example = "{command_name} -l",
    example = "{command_name} --json | jq -r '.hosts[] | select(.proxyJump != []) | .name'",
    note = "The names after Host without wildcards, one a line, each once, in the order of the
files, with all that Include names. Only files are read: no command is run (Match
exec) and no name is looked up. Where only that could tell, -l shows a question
mark and --json null.

--json prints one object. Its hosts have name, hostName, user, port, proxyJump (a
list, empty for a host that is reached directly), file and line; its warnings have
file, line (null for the whole file) and message. Without --json warnings go to
stderr; they are what could not be read and is left out.",
    error_code(2, "the command line is wrong, or the file of --config cannot be read")
)]
pub(super) struct Hosts {
    /// show where each host leads: user, name or address, port, and the hosts on the way
    #[argh(switch, short = 'l')]
    long: bool,
    /// print JSON
    #[argh(switch)]
    json: bool,
    /// read this file and nothing of the system's, as ssh -F does
    #[argh(option, short = 'F')]
    config: Option<PathBuf>,
}

#[derive(Serialize)]
struct Report<'a> {
    hosts: Vec<Told<'a>>,
    warnings: Vec<Complaint<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Told<'a> {
    name: &'a str,
    host_name: Option<&'a str>,
    user: Option<&'a str>,
    port: Option<u16>,
    proxy_jump: Option<&'a [String]>,
    file: String,
    line: u64,
}

#[derive(Serialize)]
struct Complaint<'a> {
    file: String,
    line: Option<u64>,
    message: &'a str,
}

impl Hosts {
    /// Prints the list.
    pub(super) fn run(self) -> ExitCode {
        files::exit(self.print())
    }

    fn print(&self) -> Result<(), End> {
        let (list, file) = match self.config.as_deref() {
            // As ssh -F has it.
            Some(file) if file == Path::new("none") => (Ok(HostList::default()), None),
            Some(file) => (HostList::of_file(file), Some(file.to_owned())),
            None => (HostList::of_user(), config::user_file()),
        };
        let list = list.map_err(End::Usage)?;
        if self.json {
            return files::print_json(&Report::of(&list));
        }
        for warning in &list.warnings {
            say_error(&shown(&warning.to_string()));
        }
        if list.hosts.is_empty() {
            say_error(&none_in(file.as_deref()));
        }
        let wide = list.hosts.iter().map(|host| shown(&host.name).chars().count());
        let wide = wide.filter(|wide| *wide <= WIDEST).max().unwrap_or(0);
        let lines = list.hosts.iter().map(|host| match self.long {
            true => format!("{:<wide$}  {}\n", shown(&host.name), shown(&way(host))),
            false => format!("{}\n", shown(&host.name)),
        });
        files::print(lines.collect::<String>().as_bytes())
    }
}

fn none_in(file: Option<&Path>) -> String {
    match file {
        Some(file) if file.exists() => format!("no hosts in {file:?}: no Host without wildcards"),
        Some(file) => format!("no hosts: there is no file {file:?}"),
        None => "no hosts: there is no configuration".to_owned(),
    }
}

/// A text of somebody's file, which may hold what would do something to a terminal.
fn shown(text: &str) -> String {
    escaped(OsStr::new(text))
}

/// `USER@HOST:PORT via JUMP,JUMP`
fn way(host: &Host) -> String {
    let name = match host.host_name.as_deref() {
        Some(address) if address.contains(':') => format!("[{address}]"),
        Some(name) => name.to_owned(),
        None => "?".to_owned(),
    };
    let user = host.user.as_deref().unwrap_or("?");
    let port = host.port.map_or_else(|| "?".to_owned(), |port| port.to_string());
    let via = match host.proxy_jump.as_deref() {
        Some([]) => String::new(),
        Some(jumps) => format!(" via {}", jumps.join(",")),
        None => " via ?".to_owned(),
    };
    format!("{user}@{name}:{port}{via}")
}

impl<'a> Report<'a> {
    fn of(list: &'a HostList) -> Self {
        let file = |file: &Path| file.to_string_lossy().into_owned();
        let told = |host: &'a Host| Told {
            name: &host.name,
            host_name: host.host_name.as_deref(),
            user: host.user.as_deref(),
            port: host.port,
            proxy_jump: host.proxy_jump.as_deref(),
            file: file(&host.file),
            line: host.line,
        };
        let complaint = |warning: &'a Warning| Complaint {
            file: file(&warning.file),
            line: warning.line,
            message: &warning.message,
        };
        Self {
            hosts: list.hosts.iter().map(told).collect(),
            warnings: list.warnings.iter().map(complaint).collect(),
        }
    }
}
