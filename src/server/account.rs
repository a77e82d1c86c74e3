//! What log and metrics tell of a process, whatever becomes of it.

use std::time::Instant;

use crate::error::Error;
use crate::log;
use crate::metrics::{self, How, Kind, Traffic};
use crate::process::Ending;
use crate::protocol::ProcessId;
use crate::sys::child::Status;

/// What is known of it before it runs.
pub(super) struct Told {
    pub(super) connection: u64,
    pub(super) id: ProcessId,
    pub(super) kind: Kind,
    /// Its command, where the log is to have it.
    pub(super) line: Option<String>,
}

/// Tells its start and, once, its end.
pub(super) struct Account {
    told: Told,
    started: Option<Started>,
}

/// A process that runs.
struct Started {
    pid: i32,
    at: Instant,
    /// Until its end is.
    counted: Option<metrics::Process>,
}

impl Account {
    pub(super) fn new(told: Told) -> Self {
        Self { told, started: None }
    }

    /// The process's id.
    pub(super) fn id(&self) -> &str {
        self.told.id.as_str()
    }

    /// It runs, on behalf of a connection that carries this.
    pub(super) fn started(&mut self, pid: i32, traffic: &Traffic) {
        let counted = Some(metrics::Process::start(self.told.kind, traffic));
        self.started = Some(Started { pid, at: Instant::now(), counted });
        self.told.log(log::Level::Debug, "process started", &[("pid", &pid)]);
    }

    /// It could not be started, or has ended with its connection.
    pub(super) fn failed(&mut self, error: &Error) {
        if self.started.is_some() {
            return self.log_end(None);
        }
        metrics::not_started(self.told.kind);
        // (The message names the command.)
        let (number, code) = error.kind().wire();
        let why = code.map_or_else(|| number.to_string(), str::to_owned);
        self.told.log(log::Level::Info, "process not started", &[("why", &why)]);
    }

    /// It has ended so. Metrics know it from now on; the log line is written by [`Account::log_ended`].
    pub(super) fn ended(&mut self, ending: &Ending) {
        if let Some(counted) = self.started.as_mut().and_then(|started| started.counted.take()) {
            counted.end(how(ending));
        }
    }

    /// The log line, for when the host has been told: to write it takes as long as that does.
    pub(super) fn log_ended(&mut self, ending: &Ending) {
        self.log_end(Some(ending));
    }

    fn log_end(&mut self, ending: Option<&Ending>) {
        let Some(Started { pid, at, counted }) = self.started.take() else { return };
        let duration = at.elapsed().as_millis();
        let how = ending.map_or(How::Disconnected, how);
        let exit = match ending.map(Ending::code_and_signal) {
            Some((Some(code), _)) => code.to_string(),
            Some((None, Some(signal))) => signal,
            Some((None, None)) => "unknown".to_owned(),
            None => "disconnected".to_owned(),
        };
        if let Some(counted) = counted {
            counted.end(how);
        }
        let (stdout, stderr) =
            ending.map_or((0, 0), |ending| (ending.stdout_bytes, ending.stderr_bytes));
        let mut fields: Vec<log::Field<'_>> =
            vec![("pid", &pid), ("exit", &exit), ("durationMs", &duration)];
        if ending.is_some() {
            fields.extend::<[log::Field<'_>; 2]>([
                ("stdoutBytes", &stdout),
                ("stderrBytes", &stderr),
            ]);
        }
        if how == How::TimedOut {
            fields.push(("timedOut", &true));
        }
        self.told.log(log::Level::Info, "process ended", &fields);
    }
}

fn how(ending: &Ending) -> How {
    match ending.status {
        _ if ending.timed_out => How::TimedOut,
        Some(Status::Exited(_)) => How::Exited,
        _ if ending.killed => How::Killed,
        _ => How::Signalled,
    }
}

impl Told {
    fn log(&self, level: log::Level, event: &str, more: &[log::Field<'_>]) {
        let (id, kind) = (self.id.as_str(), self.kind.name());
        let mut fields: Vec<log::Field<'_>> =
            vec![("connection", &self.connection), ("process", &id), ("kind", &kind)];
        fields.extend_from_slice(more);
        if let Some(line) = &self.line {
            fields.push(("command", line));
        }
        log::event(level, event, &fields);
    }
}
