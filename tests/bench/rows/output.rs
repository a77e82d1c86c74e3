//! Programs with a great deal to say.

use std::time::Instant;

use ta_exec::client::ExecClient;

use super::{compare, single, with_missing};
use crate::Outcome;
use crate::arena::Arena;
use crate::commands;
use crate::figures::{Unit, per_second};
use crate::peers::{CODEX, Peers, TA};
use crate::procfs;
use crate::report::{Bound, Row};
use crate::server::Server;

const ROUNDS: usize = 5;
const AT_ONCE: usize = 16;
const LEAST_OF_PIPE: f64 = 0.6;
const LEAST_OF_CODEX: f64 = 2.0;
const MOST_RESIDENT: f64 = 16.0 * 1024.0 * 1024.0;

/// 1 GiB of output, whole, from one program and from sixteen at once.
pub(super) fn output(arena: &Arena) -> Outcome<Vec<Row>> {
    let size: u64 = if arena.quick { 1 << 27 } else { 1 << 30 };
    let rounds = if arena.quick { 2 } else { ROUNDS };
    let mut rows = vec![memory(arena, size)?];
    let peers = Peers::start(arena)?;
    for (processes, from) in [(1, "one program"), (AT_ONCE, "sixteen programs at once")] {
        let all = compare(&peers, rounds, |way| {
            let start = Instant::now();
            way.output(processes, size / processes as u64)?;
            Ok(vec![per_second(size, start.elapsed())])
        })?;
        let title = format!("{} MiB of output from {from}", size >> 20);
        let row = Row::beside_floor(title, Unit::Rate, all)
            .bound_of(TA, Bound::PartOf(CODEX, LEAST_OF_CODEX));
        // (Sixteen pipes can be read on all processors at once; a connection is read on one.)
        let row = match processes {
            1 => row.bound_of(TA, Bound::PartOfFloor(LEAST_OF_PIPE)),
            _ => row,
        };
        rows.push(with_missing(row, &peers));
    }
    Ok(rows)
}

/// What our server takes meanwhile; and it is zeros that come, and as many as were asked for.
fn memory(arena: &Arena, size: u64) -> Outcome<Row> {
    let server = Server::start(&arena.binary)?;
    let client = server.client()?;
    let check = || content_is_right(&client, size);
    let ((), most) = procfs::watch_resident(server.pid(), check)?;
    let peak = procfs::peak_resident(server.pid())?;
    let memory = vec![single("VmHWM", peak)?, single("most VmRSS seen", most)?];
    let row = Row::alone("resident memory of the server during output", Unit::Memory, memory);
    Ok(row.bound(0, Bound::AtMost(MOST_RESIDENT)))
}

fn content_is_right(client: &ExecClient, size: u64) -> Outcome<()> {
    let mut wrong = 0_usize;
    let program = commands::program("head", &["-c", &size.to_string(), "/dev/zero"]);
    let count = commands::finish(client.spawn(&program)?, |bytes| {
        wrong += bytes.iter().filter(|byte| **byte != 0).count();
    })?;
    let fine = count == size && wrong == 0;
    fine.then_some(()).ok_or_else(|| format!("{count} bytes came, {wrong} of them wrong").into())
}
