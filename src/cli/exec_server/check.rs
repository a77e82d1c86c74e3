//! `ta exec-server --check`: what a server would use, without being one.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;

use super::super::arguments::{USAGE, say, say_error};
use super::{ExecServer, TOKEN, failed};
use crate::descendants;
use crate::environment::{Machine, MachineOptions};
use crate::error::{Error, Result};
use crate::server::{Epochs, listen};
use crate::supervision::Supervision;
use crate::sys;

/// What there is to tell. What a person reads has the same order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    version: &'static str,
    /// `ws://` URLs; none over stdio.
    listens: Vec<String>,
    stdio: bool,
    /// Where the token comes from; never the token.
    token: Option<&'static str>,
    allowed_origins: Vec<String>,
    cwd: String,
    shell: Option<String>,
    home: Option<String>,
    peer_timeout_seconds: u32,
    max_message_bytes: usize,
    max_processes: usize,
    max_connections: usize,
    /// Of the server, which raises its own.
    descriptors: Option<u64>,
    descriptors_of_commands: Option<u64>,
    /// `None` where there is no limit.
    processes_of_user: Option<u64>,
    /// The directory that the control groups of connections would be made in.
    cgroup: Option<String>,
    no_cgroup_because: Option<&'static str>,
    pidfd: bool,
    clone3: bool,
    proc: bool,
    /// Whether processes can be marked by a limit (RLIMIT_LOCKS).
    marks: bool,
    guardian: bool,
    /// Whether orphans are handed to it.
    subreaper: bool,
    epoch_file: Option<String>,
    /// The one in it; `None` where there is no file yet.
    epoch: Option<u64>,
    epoch_required: bool,
    /// Whether Codex's dialect is spoken, and how long its sessions wait for their clients.
    codex: bool,
    codex_resume_seconds: u32,
    /// Whether names can be looked up: /etc/resolv.conf, /etc/hosts.
    resolver: bool,
    hosts: bool,
}

impl ExecServer {
    /// Tells what would be used. What would keep the server from starting ends this in the same way.
    pub(super) fn run_check(&self, token: Option<OsString>, supervision: &Supervision) -> ExitCode {
        let (report, code) = match self.report(token, supervision) {
            Ok(report) => (report, ExitCode::SUCCESS),
            Err((error, code)) => {
                say_error(error.message());
                return code;
            }
        };
        if !self.json {
            say(&report.as_text());
            return code;
        }
        match serde_json::to_string(&report) {
            Ok(json) => {
                say(&format!("{json}\n"));
                code
            }
            Err(error) => {
                say_error(&format!("no JSON: {error}"));
                ExitCode::FAILURE
            }
        }
    }

    /// In the order of a real start, so that of several faults the same one is told.
    fn report(
        &self,
        token: Option<OsString>,
        supervision: &Supervision,
    ) -> Result<Report, (Error, ExitCode)> {
        let usage = |error| (error, ExitCode::from(USAGE));
        let sockets = if self.stdio { Ok(Vec::new()) } else { supervision.sockets() };
        let sockets = sockets.map_err(usage)?;
        let whence = if self.token_file.is_some() { "file" } else { "variable" };
        let access = self.access(token, &sockets).map_err(usage)?;
        self.check_numbers().map_err(usage)?;
        let epoch = match &self.epoch_file {
            Some(file) => Epochs::look_at(file).map_err(usage)?,
            None => None,
        };
        let options = MachineOptions {
            cwd: self.cwd.clone(),
            shell: self.shell.clone(),
            descriptor_limit: None,
        };
        let machine = Machine::new(options).map_err(usage)?;
        let listens = self.would_listen(&sockets).map_err(|error| (error, ExitCode::FAILURE))?;
        let shown = |path: &Path| path.display().to_string();
        let (soft, hard) = sys::host::descriptor_limits().unzip();
        let groups = descendants::groups();
        Ok(Report {
            version: env!("CARGO_PKG_VERSION"),
            listens,
            stdio: self.stdio,
            token: access.token.map(|_| whence),
            allowed_origins: access.origins,
            cwd: shown(machine.cwd()),
            shell: machine.shell().map(|shell| shown(&shell)),
            home: machine.home().map(|home| home.to_string_lossy().into_owned()),
            peer_timeout_seconds: self.peer_timeout,
            max_message_bytes: self.max_message_bytes,
            max_processes: self.max_processes,
            max_connections: self.max_connections,
            descriptors: hard,
            descriptors_of_commands: soft,
            processes_of_user: sys::host::process_limit(),
            cgroup: groups.ok().and_then(Path::parent).map(shown),
            no_cgroup_because: groups.err(),
            pidfd: sys::handle::can_signal(),
            clone3: sys::spawn::can_choose_group(),
            proc: descendants::proc_is_usable(),
            marks: descendants::are_marked(),
            guardian: cfg!(target_os = "linux"),
            subreaper: would_adopt(),
            epoch_file: self.epoch_file.as_deref().map(shown),
            epoch,
            epoch_required: self.require_epoch,
            codex: self.speaks_codex(),
            codex_resume_seconds: if self.stdio { 0 } else { self.codex_resume },
            resolver: Path::new("/etc/resolv.conf").exists(),
            hosts: Path::new("/etc/hosts").exists(),
        })
    }

    /// Binds and closes. (Sockets that have been passed are left as they are.)
    fn would_listen(&self, sockets: &[TcpListener]) -> Result<Vec<String>> {
        if self.stdio {
            return Ok(Vec::new());
        }
        let url = |listener: &TcpListener| match listener.local_addr() {
            Ok(address) => Ok(format!("ws://{address}/exec")),
            Err(error) => Err(failed(&error)),
        };
        if !sockets.is_empty() {
            return sockets.iter().map(url).collect();
        }
        let url = url(&listen(&self.host, self.port)?)?;
        // (A free port is another one the next time.)
        let port = url.rsplit_once(':').filter(|_| self.port == 0);
        Ok(vec![port.map_or_else(|| url.clone(), |(host, _)| format!("{host}:0/exec"))])
    }
}

/// (This process exits in a moment, and has no descendants.)
#[cfg(target_os = "linux")]
fn would_adopt() -> bool {
    sys::guard::adopt_orphans().is_ok()
}

#[cfg(not(target_os = "linux"))]
fn would_adopt() -> bool {
    false
}

impl Report {
    /// For a person, on one screen.
    fn as_text(&self) -> String {
        let mut text = String::new();
        for (name, value) in self.of_server().into_iter().chain(self.of_system()) {
            let _ = writeln!(text, "{:<13} {value}", format!("{name}:"));
        }
        text
    }

    fn of_server(&self) -> Vec<(&'static str, String)> {
        let or_none =
            |text: &Option<String>, none: &str| text.clone().unwrap_or_else(|| none.to_owned());
        let listens =
            if self.stdio { "stdin and stdout".to_owned() } else { self.listens.join(", ") };
        let token = match self.token {
            Some("file") => "from the file".to_owned(),
            Some(_) => format!("from {TOKEN}"),
            None => "none".to_owned(),
        };
        let epochs = match (&self.epoch_file, self.epoch) {
            (Some(file), Some(epoch)) => format!("{file}, {epoch} in it"),
            (Some(file), None) => format!("{file}, which will be made"),
            (None, _) => "no file".to_owned(),
        };
        let codex = match self.codex {
            true => format!("yes, resumed within {} s", self.codex_resume_seconds),
            false => "no".to_owned(),
        };
        vec![
            ("version", self.version.to_owned()),
            ("listens on", listens),
            ("token", token),
            ("directory", self.cwd.clone()),
            ("shell", or_none(&self.shell, "none: programs alone can be started")),
            ("home", or_none(&self.home, "none")),
            ("peer timeout", format!("{} s", self.peer_timeout_seconds)),
            ("messages", format!("up to {} bytes", self.max_message_bytes)),
            ("connections", format!("up to {}", self.max_connections)),
            ("processes", format!("up to {} a connection", self.max_processes)),
            ("epochs", epochs + if self.epoch_required { ", required" } else { "" }),
            ("codex", codex),
        ]
    }

    fn of_system(&self) -> Vec<(&'static str, String)> {
        let yes = |is: bool, no: &str| if is { "yes".to_owned() } else { format!("no: {no}") };
        let limit = |limit: Option<u64>| match limit {
            Some(u64::MAX) | None => "no limit".to_owned(),
            Some(limit) => limit.to_string(),
        };
        let (own, commands) = (limit(self.descriptors), limit(self.descriptors_of_commands));
        let cgroups = match &self.cgroup {
            Some(path) => format!("in {path}"),
            None => format!("none: {}", self.no_cgroup_because.unwrap_or_default()),
        };
        let guardian = match (self.guardian, self.subreaper) {
            (true, true) => "yes".to_owned(),
            (true, false) => "yes, but it is handed no orphans".to_owned(),
            (false, _) => "no: only on Linux".to_owned(),
        };
        vec![
            ("descriptors", format!("{own}, {commands} for commands")),
            ("user's limit", format!("{} (processes)", limit(self.processes_of_user))),
            ("guardian", guardian),
            ("cgroups", cgroups),
            ("clone3", yes(self.clone3, "no command is started in a cgroup")),
            ("pidfds", yes(self.pidfd, "processes are signalled by their numbers")),
            ("marks", yes(self.marks, "what leaves its process group is not found")),
            ("/proc", yes(self.proc, "not there, or of another namespace; ending takes longer")),
            ("names", yes(self.resolver, "there is no /etc/resolv.conf")),
            ("/etc/hosts", yes(self.hosts, "not there; localhost is known all the same")),
        ]
    }
}
