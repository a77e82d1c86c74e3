//! Asking and being answered, with nothing done in between.

use std::time::Instant;

use crate::Outcome;
use crate::arena::Arena;
use crate::contest::{Contender, take_turns};
use crate::figures::Unit;
use crate::floor::Listener;
use crate::raw::Raw;
use crate::report::Row;
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
    let contenders = vec![
        turn("bare: TCP echo of the same sizes", || echo.round_trip(&message, ANSWERED)),
        turn("ta, ExecClient", || Ok(client.ping()?)),
        turn("ta, raw WebSocket", || raw.ping()),
    ];
    let all = take_turns(contenders, arena.scaled(ROUNDS))?;
    Ok(vec![Row::beside_floor("ping", Unit::Time, all)])
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
