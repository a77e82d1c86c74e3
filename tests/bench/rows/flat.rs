//! Memory over time: a server that has done a great deal takes no more than one that has done some.

use super::single;
use crate::Outcome;
use crate::arena::Arena;
use crate::figures::Unit;
use crate::peers::{Peers, TA, memory};
use crate::report::{Bound, Row};

const PARTS: usize = 10;
const COMMANDS: usize = 100_000;
const CONNECTIONS: usize = 10_000;
const BYTES: u64 = 100 << 30;
const MOST_TIMES: f64 = 1.05;

/// 100,000 commands, 10,000 connections, and 100 GiB of output, all through one server.
pub(super) fn flat(arena: &Arena) -> Outcome<Vec<Row>> {
    let peers = Peers::of(arena, &[TA])?;
    let peer = peers.iter().next().ok_or("there is no server")?;
    let mut way = peer.way()?;
    let part = PARTS as u64 * if arena.quick { 10 } else { 1 };
    let mut seen = Vec::new();
    for number in 1..=PARTS {
        way.run_true(8, arena.scaled(COMMANDS) / PARTS)?;
        for _ in 0..arena.scaled(CONNECTIONS) / PARTS {
            peer.way()?.ping()?;
        }
        way.output(4, BYTES / part / 4)?;
        let name = match number {
            1 => FIRST.to_owned(),
            number => format!("after {number} tenths"),
        };
        seen.push(single(&name, memory(peer)?)?);
    }
    let title = format!(
        "memory of one server over {} commands, {} connections and {} GiB of output",
        arena.scaled(COMMANDS),
        arena.scaled(CONNECTIONS),
        (BYTES >> 30) / if arena.quick { 10 } else { 1 }
    );
    let row = Row::alone(title, Unit::Memory, seen);
    Ok(vec![row.bound(PARTS - 1, Bound::TimesOf(FIRST, MOST_TIMES))])
}

const FIRST: &str = "after a tenth";
