//! Somebody who does not read beside somebody who does.

use std::time::Instant;

use crate::Outcome;
use crate::arena::Arena;
use crate::contest::{Contender, take_turns};
use crate::figures::{Unit, per_second};
use crate::peers::{CODEX, Peers, TA, Way};
use crate::report::{Bound, Row};

const ROUNDS: usize = 5;
/// Of the rate alone, beside one that stands still.
const LEAST: f64 = 0.9;

/// The output of one program, alone, and while another's output is not read at all.
pub(super) fn slow(arena: &Arena) -> Outcome<Vec<Row>> {
    let size: u64 = if arena.quick { 1 << 26 } else { 1 << 29 };
    let take = |mut way: Box<dyn Way>| {
        move || {
            let start = Instant::now();
            way.output(1, size)?;
            Ok(vec![per_second(size, start.elapsed())])
        }
    };
    let mut rows = Vec::new();
    for name in [TA, CODEX] {
        // (Each has a server of its own: what stands still is to be beside one of them only.)
        let fresh = || Peers::of(arena, &[name]);
        let (alone, shared, apart) = (fresh()?, fresh()?, fresh()?);
        let ([Some(alone), Some(shared), Some(apart)], title) = (
            [&alone, &shared, &apart].map(|peers| peers.iter().next()),
            format!("{name}: output beside a program whose output is not read"),
        ) else {
            rows.push(Row::left_out(name, "it is not installed"));
            continue;
        };
        let mut contenders = vec![Contender::new("alone", take(alone.way()?))];
        let mut stalled = apart.way()?;
        stalled.stall()?;
        contenders.push(Contender::new("on another connection", take(apart.way()?)));
        // In Codex's protocol whoever reads of a connection reads all of it.
        if name == TA {
            let mut both = shared.way()?;
            both.stall()?;
            contenders.push(Contender::new("on the same connection", take(both)));
        }
        let row = Row::beside_floor(title, Unit::Rate, take_turns(contenders, ROUNDS)?);
        rows.push(match name {
            TA => row.bound(1, Bound::PartOfFloor(LEAST)).bound(2, Bound::PartOfFloor(LEAST)),
            _ => row,
        });
    }
    Ok(rows)
}
