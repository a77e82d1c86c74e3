//! Commands a second, several in flight.

use std::thread;
use std::time::Instant;

use ta_exec::client::ExecClient;

use crate::Outcome;
use crate::arena::Arena;
use crate::commands;
use crate::contest::{Contender, take_turns};
use crate::figures::{Unit, per_second};
use crate::floor;
use crate::report::Row;
use crate::server::Server;

const IN_FLIGHT: u32 = 8;
const ROUNDS: usize = 5;
/// Commands of each of the eight in a turn.
const EACH: u32 = 50;

/// `true` in the shell, eight at a time.
pub(super) fn throughput(arena: &Arena) -> Outcome<Vec<Row>> {
    let server = Server::start(&arena.binary)?;
    let one = server.client()?;
    let shared: Vec<ExecClient> = (0..IN_FLIGHT).map(|_| one.clone()).collect();
    let own = (0..IN_FLIGHT).map(|_| server.client()).collect::<Outcome<Vec<ExecClient>>>()?;
    let shell = one.initialize()?.shell.ok_or("the server has no shell")?;
    let bare: Vec<()> = (0..IN_FLIGHT).map(|_| ()).collect();
    let contenders = vec![
        Contender::new(format!("bare: {IN_FLIGHT} threads run {shell} -c true"), || {
            together(&bare, |()| floor::run(&shell, &["-c", "true"]))
        }),
        Contender::new("ta, ExecClient, one connection", || together(&shared, commands::exec_true)),
        Contender::new("ta, ExecClient, a connection each", || together(&own, commands::exec_true)),
    ];
    let all = take_turns(contenders, if arena.quick { 2 } else { ROUNDS })?;
    let title = format!("process/exec of `true`, {IN_FLIGHT} in flight");
    Ok(vec![Row::beside_floor(title, Unit::PerSecond, all)])
}

/// A thread for each of `with`, all running their commands at once; answers the rate.
fn together<W: Sync>(with: &[W], run: impl Fn(&W) -> Outcome<()> + Sync) -> Outcome<Vec<f64>> {
    let start = Instant::now();
    let run = &run;
    thread::scope(|scope| {
        let begin = |with| {
            let commands = move || (0..EACH).try_for_each(|_| run(with));
            thread::Builder::new().name("caller".to_owned()).spawn_scoped(scope, commands)
        };
        let threads = with.iter().map(begin).collect::<Result<Vec<_>, _>>()?;
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| "a caller has panicked")?)
    })?;
    let commands = u64::from(EACH) * with.len() as u64;
    Ok(vec![per_second(commands, start.elapsed())])
}
