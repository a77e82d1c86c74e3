//! From the start of the process to the first connection.

use crate::Outcome;
use crate::arena::Arena;
use crate::contest::{Contender, take_turns};
use crate::figures::Unit;
use crate::floor::Listener;
use crate::report::{Bound, Row};
use crate::server::Server;

const ROUNDS: usize = 50;

/// A fresh server, until it has told its address and until it has answered.
pub(super) fn start(arena: &Arena) -> Outcome<Vec<Row>> {
    let contenders = vec![
        Contender::new("bare: this program binds, accepts and echoes", || {
            Ok(vec![Listener::start()?.first_answer.as_secs_f64()])
        }),
        Contender::new("ta, to the answer of /healthz", || {
            Ok(vec![Server::start(&arena.binary)?.first_answer()?.as_secs_f64()])
        }),
        Contender::new("ta, to the line with its address", || {
            Ok(vec![Server::start(&arena.binary)?.told.as_secs_f64()])
        }),
    ];
    let all = take_turns(contenders, arena.scaled(ROUNDS))?;
    let row =
        Row::beside_floor("start of the process to its first accepted connection", Unit::Time, all);
    Ok(vec![row.bound(1, Bound::AtMost(3e-3)).bound(2, Bound::AtMost(3e-3))])
}
