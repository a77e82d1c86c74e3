//! A program that is given a great deal on its stdin.

use std::time::Instant;

use super::{compare, with_missing};
use crate::Outcome;
use crate::arena::Arena;
use crate::figures::{Unit, per_second};
use crate::peers::Peers;
use crate::report::Row;

const ROUNDS: usize = 3;

pub(super) fn input(arena: &Arena) -> Outcome<Vec<Row>> {
    let size: u64 = if arena.quick { 1 << 26 } else { 1 << 30 };
    let peers = Peers::start(arena)?;
    let all = compare(&peers, ROUNDS, |way| {
        let start = Instant::now();
        way.input(size)?;
        Ok(vec![per_second(size, start.elapsed())])
    })?;
    let row = Row::beside_floor(format!("stdin of {} MiB", size >> 20), Unit::Rate, all);
    Ok(vec![with_missing(row, &peers)])
}
