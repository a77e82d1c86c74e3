//! Programs that do nothing: how long one takes, alone and among others, and how many there are a second.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Instant;

use super::{compare, with_missing};
use crate::Outcome;
use crate::arena::Arena;
use crate::contest::{Contender, Measured, take_turns};
use crate::figures::{Samples, Unit, per_second};
use crate::peers::{CODEX, CODEX_ACKS, Peers, TA, Way, on_threads};
use crate::report::{Bound, Row};

/// Alone: programs a turn.
const TURN: usize = 20;
const TURNS: usize = 40;
const IN_FLIGHT: usize = 8;
/// Among others: programs a turn.
const MANY: usize = 400;
const ROUNDS: usize = 7;
const MOST_TIMES: f64 = 1.3;
const MOST_OF_CODEX: f64 = 1.0 / 20.0;
/// Where Codex's server does not wait for ACKs.
const MOST_OF_CODEX_ACKS: f64 = 1.0 / 3.0;
const LEAST_OF_BARE: f64 = 0.7;

/// /bin/true from the request to its exit.
pub(super) fn spawn(arena: &Arena) -> Outcome<Vec<Row>> {
    let peers = Peers::start(arena)?;
    let all = compare(&peers, arena.scaled(TURNS), |way| way.run_true(1, TURN))?;
    let row = Row::beside_floor("/bin/true, alone, to its exit", Unit::Time, all)
        .bound_of(TA, Bound::TimesFloor(MOST_TIMES))
        .bound_of(TA, Bound::TimesOf(CODEX, MOST_OF_CODEX))
        .bound_of(TA, Bound::TimesOf(CODEX_ACKS, MOST_OF_CODEX_ACKS));
    Ok(vec![with_missing(row, &peers)])
}

/// The same eight at a time, on one connection and on eight.
pub(super) fn throughput(arena: &Arena) -> Outcome<Vec<Row>> {
    let peers = Peers::start(arena)?;
    let mut rows = Vec::new();
    for (connections, each, how) in
        [(1, IN_FLIGHT, "on one connection"), (IN_FLIGHT, 1, "on eight connections")]
    {
        let rates = RefCell::new(BTreeMap::<&str, Vec<Vec<f64>>>::new());
        let contender = |peer: &dyn crate::peers::Peer| {
            let name = peer.name();
            let ways = (0..connections).map(|_| peer.way().map(std::sync::Mutex::new));
            let ways = ways.collect::<Outcome<Vec<_>>>()?;
            let rates = &rates;
            Ok(Contender::new(name, move || {
                let count = arena.scaled(MANY).next_multiple_of(IN_FLIGHT);
                let start = Instant::now();
                let times = at_once(&ways, each, count / connections)?;
                let rate = per_second(times.len() as u64, start.elapsed());
                rates.borrow_mut().entry(name).or_default().push(vec![rate]);
                Ok(times)
            }))
        };
        let contenders = peers.iter().map(contender).collect::<Outcome<Vec<_>>>()?;
        let times = take_turns(contenders, arena.scaled(ROUNDS))?;
        let mut rates = rates.into_inner();
        let of = |one: &Measured| {
            // (The first turn does not count.)
            let turns = rates.remove(one.name.as_str()).unwrap_or_default().split_off(1);
            Ok(Measured { name: one.name.clone(), samples: Samples::new(turns)? })
        };
        let rates = times.iter().map(of).collect::<Outcome<Vec<_>>>()?;
        let title = format!("/bin/true, {IN_FLIGHT} in flight {how}");
        let rates = Row::beside_floor(&*title, Unit::PerSecond, rates);
        let times = Row::beside_floor(format!("{title}: each"), Unit::Time, times);
        rows.push(with_missing(rates.bound_of(TA, Bound::PartOfFloor(LEAST_OF_BARE)), &peers));
        rows.push(times);
    }
    Ok(rows)
}

/// Runs programs on all connections at once, so many in flight and in all on each.
fn at_once(
    ways: &[std::sync::Mutex<Box<dyn Way>>],
    in_flight: usize,
    count: usize,
) -> Outcome<Vec<f64>> {
    let run = |number: usize| {
        let mut way = ways[number].lock().map_err(|_| "a caller has panicked")?;
        way.run_true(in_flight, count)
    };
    Ok(on_threads(ways.len(), run)?.concat())
}
