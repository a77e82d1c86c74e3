//! Asking and being answered, with nothing done in between.

use std::time::Instant;

use super::{compare, with_missing};
use crate::Outcome;
use crate::arena::Arena;
use crate::contest::{Contender, take_turns};
use crate::figures::Unit;
use crate::floor::Listener;
use crate::peers::{BARE, CODEX, CODEX_ACKS, Peers, TA, TA_CODEX};
use crate::raw::Raw;
use crate::report::{Bound, Row};
use crate::server::Server;

const ROUNDS: usize = 50;
const TURN: usize = 100;
/// A ping and its answer as they are on the wire, in bytes: frame header, mask, JSON.
const ASKED: usize =
    6 + "{\"jsonrpc\":\"2.0\",\"id\":1234,\"method\":\"ping\",\"params\":{}}".len();
const ANSWERED: usize = 2 + "{\"jsonrpc\":\"2.0\",\"id\":1234,\"result\":{}}".len();

/// `ping`, beside an echo over TCP.
pub(super) fn ping(arena: &Arena) -> Outcome<Vec<Row>> {
    let listener = Listener::start()?;
    let mut echo = listener.connect()?;
    let server = Server::start(&arena.binary)?;
    let client = server.client()?;
    let mut raw = Raw::connect(&server)?;
    let message = [b'x'; ASKED];
    let peers = Peers::of(arena, &[TA_CODEX, CODEX, CODEX_ACKS])?;
    let mut contenders = vec![
        turn("bare: TCP echo of the same sizes", || echo.round_trip(&message, ANSWERED)),
        turn(TA, || Ok(client.ping()?)),
        turn("ta, raw WebSocket", || raw.ping()),
    ];
    for peer in peers.iter() {
        let mut way = peer.way()?;
        contenders.push(turn(peer.name(), move || way.ping()));
    }
    let all = take_turns(contenders, arena.scaled(ROUNDS))?;
    let row = Row::beside_floor("ping", Unit::Time, all);
    let row = row.note("Codex's has `environment/status` in its place");
    Ok(vec![with_missing(row, &peers), stat(arena)?])
}

/// What stands at a path.
fn stat(arena: &Arena) -> Outcome<Row> {
    let peers = Peers::of(arena, &[BARE, TA, TA_CODEX, CODEX, CODEX_ACKS])?;
    let file = std::env::current_exe()?;
    let all = compare(&peers, arena.scaled(ROUNDS), |way| {
        let look = |_| {
            let start = Instant::now();
            way.stat(&file)?;
            Ok(start.elapsed().as_secs_f64())
        };
        (0..TURN).map(look).collect()
    })?;
    let row = Row::beside_floor("what stands at a path", Unit::Time, all);
    Ok(with_missing(row.bound_of(TA_CODEX, Bound::TimesOf(CODEX, 1.0)), &peers))
}

fn turn<'a>(name: &str, mut ask: impl FnMut() -> Outcome<()> + 'a) -> Contender<'a> {
    Contender::new(name, move || {
        let timed = |_| {
            let start = Instant::now();
            ask()?;
            Ok(start.elapsed().as_secs_f64())
        };
        (0..TURN).map(timed).collect()
    })
}
