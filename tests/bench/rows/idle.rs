//! What a server costs that has nothing to do.

use std::thread;
use std::time::Duration;

use crate::Outcome;
use crate::arena::Arena;
use crate::contest::Measured;
use crate::figures::{Samples, Unit};
use crate::floor::Listener;
use crate::procfs;
use crate::raw::Raw;
use crate::report::{Bound, Row};
use crate::server::Server;

const ROUNDS: usize = 5;
const CONNECTIONS: u32 = 100;
/// After this nothing of a start or a handshake is going on any more.
const REST: Duration = Duration::from_millis(150);
const MOST_ALONE: f64 = 3.0 * 1024.0 * 1024.0;
const MOST_EACH: f64 = 64.0 * 1024.0;

/// Resident memory without a connection, and what each of 100 adds.
pub(super) fn idle(arena: &Arena) -> Outcome<Vec<Row>> {
    let mut bare = Vec::new();
    let mut ours = Vec::new();
    for _ in 0..if arena.quick { 2 } else { ROUNDS } {
        let listener = Listener::start()?;
        bare.push(memory(listener.pid(), || {
            let mut echo = listener.connect()?;
            echo.round_trip(b"x", 1)?;
            Ok(echo)
        })?);
        let server = Server::start(&arena.binary)?;
        ours.push(memory(server.pid(), || {
            let mut raw = Raw::connect(&server)?;
            raw.ping()?;
            Ok(raw)
        })?);
    }
    let both = |part: fn(&Memory) -> f64| -> Outcome<Vec<Measured>> {
        let samples =
            |all: &[Memory]| Samples::new(all.iter().map(|one| vec![part(one)]).collect());
        let bare_name = "bare: this program, a thread a connection".to_owned();
        Ok(vec![
            Measured { name: bare_name, samples: samples(&bare)? },
            Measured { name: "ta".to_owned(), samples: samples(&ours)? },
        ])
    };
    let each = format!("each of {CONNECTIONS} idle connections more");
    Ok(vec![
        Row::beside_floor("VmRSS without a connection", Unit::Memory, both(|one| one.alone)?)
            .bound(1, Bound::AtMost(MOST_ALONE)),
        Row::beside_floor(each, Unit::Memory, both(|one| one.each)?)
            .bound(1, Bound::AtMost(MOST_EACH)),
    ])
}

struct Memory {
    alone: f64,
    each: f64,
}

/// Looks at a fresh server's memory before and after it has been connected to.
fn memory<C>(pid: u32, connect: impl Fn() -> Outcome<C>) -> Outcome<Memory> {
    thread::sleep(REST);
    let alone = procfs::resident(pid)?;
    let connections: Vec<C> = (0..CONNECTIONS).map(|_| connect()).collect::<Outcome<Vec<C>>>()?;
    thread::sleep(REST);
    let with_all = procfs::resident(pid)?;
    drop(connections);
    Ok(Memory { alone, each: (with_all - alone) / f64::from(CONNECTIONS) })
}
