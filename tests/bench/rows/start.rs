//! From the start of the process to the first connection.

use crate::Outcome;
use crate::arena::Arena;
use crate::contest::{Contender, take_turns};
use crate::figures::Unit;
use crate::floor::Listener;
use crate::peers::codex::{self, Codex};
use crate::peers::openssh::Ssh;
use crate::peers::{CODEX, SSH};
use crate::report::{Bound, Row};
use crate::server::Server;

const ROUNDS: usize = 30;
const NOT_INSTALLED: &str = "LEFT OUT, not installed (`make bench-peers` does that): some";

/// A fresh server, until it has told its address and until it has answered.
pub(super) fn start(arena: &Arena) -> Outcome<Vec<Row>> {
    let ssh = Ssh::start()?;
    let mut contenders = vec![
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
    let mut note = None;
    match codex::program(arena) {
        Some(_) => contenders.push(Contender::new(CODEX, || {
            let server = Codex::start(arena, false)?.ok_or("it has gone")?;
            Ok(vec![server.to_accept()?.as_secs_f64()])
        })),
        None => note = Some(NOT_INSTALLED),
    }
    match &ssh {
        Some(ssh) => {
            contenders.push(Contender::new(SSH, || Ok(vec![ssh.another_accepts()?.as_secs_f64()])))
        }
        None => note = Some(NOT_INSTALLED),
    }
    let all = take_turns(contenders, arena.scaled(ROUNDS))?;
    let title = "start of the process to its first accepted connection";
    let row = Row::beside_floor(title, Unit::Time, all);
    let row = row.bound(1, Bound::AtMost(3e-3)).bound(2, Bound::AtMost(3e-3));
    Ok(vec![note.into_iter().fold(row, Row::note)])
}
