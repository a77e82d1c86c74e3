//! What the far side spends on the processor.

use super::with_missing;
use crate::Outcome;
use crate::arena::Arena;
use crate::contest::Measured;
use crate::figures::{Samples, Unit, float};
use crate::peers::{CODEX_ACKS, Peer, Peers, SSH, TA, TA_CODEX, Way, processor_time};
use crate::report::Row;

const ROUNDS: usize = 3;
/// A size and a count that take long enough for a clock of hundredths.
const SIZE: u64 = 2 << 30;
const COMMANDS: usize = 1000;

/// Its own time and that of the programs that it has started, for 1,000 of /bin/true and for 1 GiB of
/// output.
pub(super) fn processor(arena: &Arena) -> Outcome<Vec<Row>> {
    let peers = Peers::of(arena, &[TA, TA_CODEX, CODEX_ACKS, SSH])?;
    let size = if arena.quick { SIZE / 8 } else { SIZE };
    let row = |title: &str, per: f64, job: &dyn Fn(&mut dyn Way) -> Outcome<()>| {
        let spent = |peer: &dyn Peer| {
            let mut way = peer.way()?;
            let turn = |_| {
                let before = processor_time(peer)?;
                job(way.as_mut())?;
                Ok(vec![(processor_time(peer)? - before) * per])
            };
            let turns = (0..ROUNDS).map(turn).collect::<Outcome<Vec<_>>>()?;
            Ok(Measured { name: peer.name().to_owned(), samples: Samples::new(turns)? })
        };
        let all = peers.iter().map(spent).collect::<Outcome<Vec<_>>>()?;
        Ok(with_missing(Row::alone(title, Unit::Time, all), &peers))
    };
    let rows: Outcome<Vec<Row>> = [
        row("the far side's processor time for 1,000 of /bin/true", 1.0, &|way| {
            way.run_true(8, COMMANDS).map(drop)
        }),
        row(
            "the far side's processor time for 1 GiB of output",
            float(1 << 30) / float(size),
            &|way| way.output(1, size),
        ),
    ]
    .into_iter()
    .collect();
    rows
}
