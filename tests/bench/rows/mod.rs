//! What is measured.

mod command;
mod cp;
mod crowd;
mod files;
mod flat;
mod footprint;
mod forward;
mod input;
mod latency;
mod loaded;
mod memory;
mod output;
mod processor;
mod programs;
mod round_trip;
mod search;
mod slow;
mod ssh;
mod start;

use crate::Outcome;
use crate::arena::Arena;
use crate::contest::{Contender, Measured, take_turns};
use crate::figures::Samples;
use crate::peers::{Peers, Way};
use crate::report::Row;

/// Measures one thing, which may make several rows.
pub(crate) type Measure = fn(&Arena) -> Outcome<Vec<Row>>;

/// All there are, by the name that they are asked for with.
pub(crate) const ALL: &[(&str, Measure)] = &[
    ("start", start::start),
    ("size", memory::size),
    ("memory", memory::memory),
    ("ping", round_trip::ping),
    ("spawn", programs::spawn),
    ("throughput", programs::throughput),
    ("exec", latency::exec),
    ("before", latency::before),
    ("command", command::command),
    ("output", output::output),
    ("input", input::input),
    ("files", files::files),
    ("sync", files::sync),
    ("carry", files::carry),
    ("cp", cp::cp),
    ("list", files::list),
    ("forward", forward::forward),
    ("loaded", loaded::loaded),
    ("slow", slow::slow),
    ("processor", processor::processor),
    ("crowd", crowd::crowd),
    ("search", search::search),
    ("ssh", ssh::ssh),
    ("footprint", footprint::footprint),
    ("flat", flat::flat),
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

/// The same job of each, in turns, over a connection that each has for itself.
fn compare(
    peers: &Peers,
    rounds: usize,
    job: impl Fn(&mut dyn Way) -> Outcome<Vec<f64>>,
) -> Outcome<Vec<Measured>> {
    let job = &job;
    let mut contenders = Vec::new();
    for peer in peers.iter() {
        let mut way = peer.way()?;
        contenders.push(Contender::new(peer.name(), move || job(way.as_mut())));
    }
    take_turns(contenders, rounds)
}

/// What the row has to say of peers that are not there.
fn with_missing(row: Row, peers: &Peers) -> Row {
    match peers.missing() {
        Some(missing) => row.note(missing),
        None => row,
    }
}
