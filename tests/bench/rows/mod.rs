//! What is measured.

mod codex;
mod command;
mod cp;
mod crowd;
mod files;
mod footprint;
mod forward;
mod idle;
mod latency;
mod output;
mod round_trip;
mod search;
mod ssh;
mod start;
mod throughput;

use crate::Outcome;
use crate::arena::Arena;
use crate::contest::Measured;
use crate::figures::Samples;
use crate::report::Row;

/// Measures one thing, which may make several rows.
pub(crate) type Measure = fn(&Arena) -> Outcome<Vec<Row>>;

/// All there are, by the name that they are asked for with.
pub(crate) const ALL: &[(&str, Measure)] = &[
    ("spawn", latency::spawn),
    ("exec", latency::exec),
    ("before", latency::before),
    ("command", command::command),
    ("output", output::output),
    ("start", start::start),
    ("idle", idle::idle),
    ("footprint", footprint::footprint),
    ("crowd", crowd::crowd),
    ("files", files::files),
    ("sync", files::sync),
    ("carry", files::carry),
    ("cp", cp::cp),
    ("list", files::list),
    ("search", search::search),
    ("ping", round_trip::ping),
    ("throughput", throughput::throughput),
    ("forward", forward::forward),
    ("ssh", ssh::ssh),
    ("codex", codex::codex),
];

/// Measures; what fails is a row that says so.
pub(crate) fn measured(name: &'static str, measure: Measure, arena: &Arena) -> Vec<Row> {
    let rows = measure(arena);
    let rows = rows.unwrap_or_else(|error| vec![Row::failed(name, error.to_string())]);
    rows.into_iter().map(|row| row.named(name)).collect()
}

/// Something that was looked at once.
fn single(name: &str, value: f64) -> Outcome<Measured> {
    Ok(Measured { name: name.to_owned(), samples: Samples::new(vec![vec![value]])? })
}
