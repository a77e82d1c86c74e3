//! Something small, while a great deal is on its way on the same connection.

use super::with_missing;
use crate::Outcome;
use crate::arena::Arena;
use crate::contest::Measured;
use crate::figures::{Samples, Unit};
use crate::peers::{CODEX, Peers, TA, TA_CODEX};
use crate::report::{Bound, Row};

const STREAMS: usize = 100;
const ROUNDS: usize = 3;
const TURN: usize = 100;
const MOST: f64 = 10e-3;

/// `ping`, and the end of a program that sleeps, while others write without pause and all is read.
pub(super) fn loaded(arena: &Arena) -> Outcome<Vec<Row>> {
    let peers = Peers::of(arena, &[TA, TA_CODEX, CODEX])?;
    let mut pings: Vec<Vec<Vec<f64>>> = peers.iter().map(|_| Vec::new()).collect();
    let mut ends = pings.clone();
    for _ in 0..if arena.quick { 1 } else { ROUNDS } {
        for ((peer, pings), ends) in peers.iter().zip(&mut pings).zip(&mut ends) {
            let (ping, end) = peer.way()?.under_load(STREAMS, arena.scaled(TURN))?;
            pings.push(ping);
            ends.push(end);
        }
    }
    let row = |what: &str, all: Vec<Vec<Vec<f64>>>| {
        let measured = peers.iter().zip(all).map(|(peer, turns)| {
            Ok(Measured { name: peer.name().to_owned(), samples: Samples::new(turns)? })
        });
        let title = format!("{what} under {STREAMS} streams on the same connection");
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(with_missing(
            Row::alone(title, Unit::Time, measured.collect::<Outcome<Vec<_>>>()?),
            &peers,
        ))
    };
    Ok(vec![
        row("ping", pings)?.bound_of(TA, Bound::WorstAtMost(MOST)),
        row("kill, to the exit,", ends)?,
    ])
}
