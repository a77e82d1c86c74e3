//! How long one command line takes, alone.

use std::path::Path;
use std::time::Instant;

use crate::Outcome;
use crate::arena::Arena;
use crate::commands;
use crate::contest::{Contender, Measured, take_turns};
use crate::figures::Unit;
use crate::floor;
use crate::procfs;
use crate::raw::Raw;
use crate::report::{Bound, Row};
use crate::server::Server;

/// Commands of each contender.
const COMMANDS: usize = 2000;
/// Commands a turn.
const TURN: usize = 50;

/// A command line from the request to the answer.
pub(super) fn exec(arena: &Arena) -> Outcome<Vec<Row>> {
    let server = Server::start(&arena.binary)?;
    let client = server.client()?;
    let mut raw = Raw::connect(&server)?;
    let shell = client.initialize()?.shell.ok_or("the server has no shell")?;
    let busy = procfs::processor_time(server.pid())?;
    let all = race(
        arena,
        (&format!("bare: std runs and waits for {shell} -c true"), || {
            floor::run(&shell, &["-c", "true"])
        }),
        ("ta, ExecClient", || commands::exec_true(&client)),
        ("ta, raw WebSocket", || raw.exec_true()),
    )?;
    let note = processor_note(&server, busy, &all)?;
    let row = Row::beside_floor("process/exec of `true`", Unit::Time, all);
    Ok(vec![row.bound(1, Bound::TimesFloor(1.5)).note(note)])
}

/// The same command line on this server and on that of an earlier revision. (The library's client
/// is this one's in both cases.)
pub(super) fn before(arena: &Arena) -> Outcome<Vec<Row>> {
    let Some(earlier) = std::env::var_os("TA_BEFORE") else { return Ok(Vec::new()) };
    let servers = [Server::start(Path::new(&earlier))?, Server::start(&arena.binary)?];
    let [mut earlier, mut now] = [Raw::connect(&servers[0])?, Raw::connect(&servers[1])?];
    let contenders = vec![
        one_by_one("TA_BEFORE", || earlier.exec_true()),
        one_by_one("this revision", || now.exec_true()),
    ];
    let all = take_turns(contenders, arena.scaled(COMMANDS / TURN))?;
    let row = Row::beside_floor("process/exec of `true`, before and after", Unit::Time, all);
    Ok(vec![row.bound(1, Bound::TimesFloor(1.1))])
}

fn race(
    arena: &Arena,
    bare: (&str, impl FnMut() -> Outcome<()>),
    client: (&str, impl FnMut() -> Outcome<()>),
    raw: (&str, impl FnMut() -> Outcome<()>),
) -> Outcome<Vec<Measured>> {
    let contenders =
        vec![one_by_one(bare.0, bare.1), one_by_one(client.0, client.1), one_by_one(raw.0, raw.1)];
    take_turns(contenders, arena.scaled(COMMANDS / TURN))
}

fn one_by_one<'a>(name: &str, mut run: impl FnMut() -> Outcome<()> + 'a) -> Contender<'a> {
    Contender::new(name, move || {
        let timed = |_| {
            let start = Instant::now();
            run()?;
            Ok(start.elapsed().as_secs_f64())
        };
        (0..TURN).map(timed).collect()
    })
}

/// What the server itself spent on its commands.
fn processor_note(server: &Server, before: f64, all: &[Measured]) -> Outcome<String> {
    let spent = procfs::processor_time(server.pid())? - before;
    // Those of the warm-up turns are not among the samples.
    let commands = all.iter().skip(1).map(|one| one.samples.count() + TURN).sum::<usize>();
    let each = spent / f64::from(u32::try_from(commands)?);
    Ok(format!("the server spent {} of processor time on each command", Unit::Time.show(each)))
}
