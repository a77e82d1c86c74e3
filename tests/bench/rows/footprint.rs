//! What a static binary takes: on disk, to start, and in memory.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use ta_exec::client::Process;

use crate::Outcome;
use crate::arena::Arena;
use crate::commands;
use crate::contest::Measured;
use crate::figures::{Samples, Unit, float};
use crate::procfs;
use crate::raw::Raw;
use crate::report::Row;
use crate::server::Server;

const ROUNDS: usize = 10;
const MANY: usize = 100;
/// After this nothing of a start or a handshake is going on any more.
const REST: Duration = Duration::from_millis(150);

/// Both builds, in the order of the table in the README.
pub(super) fn footprint(arena: &Arena) -> Outcome<Vec<Row>> {
    let mut builds = vec![("whole", arena.binary.clone())];
    builds.extend(server_only(&arena.binary).map(|path| ("server-only", path)));
    let mut taken = Vec::new();
    for (name, binary) in &builds {
        let size = float(binary.metadata()?.len());
        let rounds = (0..arena.scaled(ROUNDS)).map(|_| look(binary));
        taken.push((*name, size, rounds.collect::<Outcome<Vec<Look>>>()?));
    }
    let row = |title: &str, unit, part: fn(f64, &Look) -> f64| -> Outcome<Row> {
        let measured = taken.iter().map(|(name, size, looks)| {
            let samples = looks.iter().map(|one| vec![part(*size, one)]).collect();
            Ok(Measured { name: (*name).to_owned(), samples: Samples::new(samples)? })
        });
        Ok(Row::alone(title, unit, measured.collect::<Outcome<Vec<_>>>()?))
    };
    Ok(vec![
        row("size of the file", Unit::Memory, |size, _| size)?,
        row("start, to the first answer", Unit::Time, |_, look| look.start)?,
        row("resident memory, idle", Unit::Memory, |_, look| look.idle)?,
        row("resident memory, 100 connections", Unit::Memory, |_, look| look.connected)?,
        row("resident memory, 100 processes", Unit::Memory, |_, look| look.busy)?
            .note("of the process that serves; most pages of its guardian are the same ones"),
    ])
}

/// Where the server-only build of the same target is.
pub(super) fn server_only(whole: &Path) -> Option<PathBuf> {
    let path = whole.parent()?.parent()?.join("server/ta");
    path.exists().then_some(path)
}

struct Look {
    start: f64,
    idle: f64,
    connected: f64,
    busy: f64,
}

fn look(binary: &Path) -> Outcome<Look> {
    let server = Server::start(binary)?;
    let start = server.first_answer()?.as_secs_f64();
    let resident = || {
        thread::sleep(REST);
        procfs::resident(server.pid())
    };
    let idle = resident()?;
    let connections = (0..MANY).map(|_| {
        let mut raw = Raw::connect(&server)?;
        raw.ping()?;
        Ok(raw)
    });
    let connections = connections.collect::<Outcome<Vec<Raw>>>()?;
    let connected = resident()?;
    drop(connections);
    drop(server);
    // A fresh one: memory that was used once may be kept.
    let server = Server::start(binary)?;
    let client = server.client()?;
    // (Params are made with an id of their own.)
    let processes = (0..MANY).map(|_| Ok(client.spawn(&commands::program("sleep", &["600"]))?));
    let processes = processes.collect::<Outcome<Vec<Process>>>()?;
    thread::sleep(REST);
    let busy = procfs::resident(server.pid())?;
    drop(processes);
    Ok(Look { start, idle, connected, busy })
}
