//! `ta ping`

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::arguments::say;
use super::end::End;
use super::place::{self, Place, Variables};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::{InitializeResult, PROTOCOL_VERSION};

place::command! {
    /// Reach an environment, measure the way there, and tell what it is.
    #[argh(
        name = "ping",
        example = "{command_name} --exec ws://box:4200/exec",
        example = "{command_name} --via 'ssh box ta exec-server --stdio'",
        example = "{command_name} -c 100 --json",
        error_code(2, "an option is not as it must be"),
        error_code(125, "the environment cannot be reached, or does not answer")
    )]
    struct Ping {
        /// how many round trips to make, one after the other (10)
        #[argh(option, short = 'c', default = "10")]
        count: u32,
        /// print JSON
        #[argh(switch)]
        json: bool,
    }
}

/// What was found.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    /// What was reached, as it was named.
    environment: String,
    /// Milliseconds until the connection stood and the first answer was there.
    connect_ms: f64,
    round_trip_ms: RoundTrips,
    client_version: &'static str,
    client_protocol_version: u32,
    server: InitializeResult,
}

#[derive(Serialize)]
struct RoundTrips {
    count: usize,
    min: f64,
    median: f64,
    max: f64,
}

impl Ping {
    /// Prints what there is to know.
    pub(super) fn run(self) -> ExitCode {
        // Before any thread is there: it is the whole process's.
        let variables = Variables::take();
        self.end(variables).unwrap_or_else(|end| end).exit()
    }

    fn end(mut self, variables: Variables) -> Result<End, End> {
        if self.count == 0 {
            return Err(End::Usage(Error::params("-c must be at least 1")));
        }
        let place = self.place_options().place(variables).map_err(End::Usage)?;
        let report = measure(place, self.count).map_err(End::Failed)?;
        let text = if self.json {
            let text = serde_json::to_string_pretty(&report);
            let failed = |error| Error::new(ErrorKind::Internal, format!("no JSON: {error}"));
            text.map_err(|error| End::Failed(failed(error)))? + "\n"
        } else {
            report.as_text()
        };
        say(&text);
        Ok(End::Code(0))
    }
}

fn measure(place: Place, count: u32) -> Result<Report> {
    let environment = place.to_string();
    let start = Instant::now();
    let client = place.client()?;
    let server = client.initialize()?;
    let connect_ms = milliseconds(start.elapsed());
    let mut times = Vec::new();
    for _ in 0..count {
        let start = Instant::now();
        client.ping()?;
        times.push(start.elapsed());
    }
    times.sort();
    let at = |place: usize| times.get(place).copied().unwrap_or_default();
    let last = times.len().saturating_sub(1);
    let round_trip_ms = RoundTrips {
        count: times.len(),
        min: milliseconds(at(0)),
        median: milliseconds((at(last / 2) + at(times.len() / 2)) / 2),
        max: milliseconds(at(last)),
    };
    client.close();
    Ok(Report {
        environment,
        connect_ms,
        round_trip_ms,
        client_version: env!("CARGO_PKG_VERSION"),
        client_protocol_version: PROTOCOL_VERSION,
        server,
    })
}

/// To the microsecond.
fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

impl Report {
    /// For a person, on one screen.
    fn as_text(&self) -> String {
        let RoundTrips { count, min, median, max } = &self.round_trip_ms;
        let server = &self.server;
        let none = |text: &Option<String>| text.as_deref().unwrap_or("none").to_owned();
        let epoch = server.epoch.map_or_else(|| "none".to_owned(), |epoch| epoch.to_string());
        let lines = [
            ("round trip", format!("{min} ms min, {median} ms median, {max} ms max, of {count}")),
            ("connecting", format!("{} ms", self.connect_ms)),
            (
                "versions",
                format!(
                    "{} {} there, ta {} here; protocol {} there, {} here",
                    server.server_name,
                    server.server_version,
                    self.client_version,
                    server.protocol_version,
                    self.client_protocol_version
                ),
            ),
            ("machine", format!("{}, {} {}", server.hostname, server.os, server.arch)),
            ("directory", server.cwd.clone()),
            ("home", none(&server.home)),
            ("temporary", server.tmpdir.clone()),
            ("shell", none(&server.shell)),
            ("process", server.pid.to_string()),
            ("epoch", epoch),
            ("messages", format!("up to {} bytes", server.max_message_bytes)),
            ("features", server.features.join(", ")),
        ];
        let mut text = format!("{}\n", self.environment);
        for (name, value) in lines {
            let _ = writeln!(text, "  {name:<11} {value}");
        }
        text
    }
}
