//! Many processes at once.

use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use ta_exec::client::{ExecClient, Process};

use crate::Outcome;
use crate::arena::Arena;
use crate::commands;
use crate::contest::Measured;
use crate::figures::{Samples, Unit, float};
use crate::procfs;
use crate::raw::Raw;
use crate::report::{Bound, Row};
use crate::rows::single;
use crate::server::Server;

const PROCESSES: usize = 500;
/// As many callers as a host may have; each waits for one answer at a time.
const CALLERS: usize = 10;
const ROUNDS: usize = 2;
/// All must have been started within this.
const MOST: f64 = 1.0;

/// 500 of `sleep 5` at once.
pub(super) fn crowd(arena: &Arena) -> Outcome<Vec<Row>> {
    let (seconds, rounds) = if arena.quick { ("2", 1) } else { ("5", ROUNDS) };
    let least = Duration::from_secs(seconds.parse()?);
    let server = Server::start(&arena.binary)?;
    let client = server.client()?;
    let mut raw = Raw::connect(&server)?;
    // What is made once, at the first command of all, is not counted.
    commands::spawn_true(&client)?;
    raw.spawn_true()?;
    let before = procfs::settled(server.pid())?;
    let idle = procfs::resident(server.pid())?;
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    let mut crowded = idle;
    for _ in 0..rounds {
        let sleeps = Sleeps { seconds, least };
        times[0].push(vec![sleeps.bare()?]);
        let look = || procfs::resident(server.pid());
        let (time, resident) = sleeps.by_client(&client, look)?;
        crowded = crowded.max(resident);
        times[1].push(vec![time]);
        times[2].push(vec![sleeps.by_raw(&mut raw)?]);
    }
    leaves_nothing(server.pid(), before)?;
    let names = [
        "bare: std starts them from ten threads",
        "ta, ExecClient, ten threads",
        "ta, raw WebSocket, all asked for at once",
    ];
    let all = names.into_iter().zip(times);
    let all: Outcome<Vec<Measured>> = all
        .map(|(name, times)| Ok(Measured { name: name.to_owned(), samples: Samples::new(times)? }))
        .collect();
    let title = format!("{PROCESSES} concurrent `sleep {seconds}`: until all have been started");
    let each = (crowded - idle) / float(PROCESSES as u64);
    Ok(vec![
        Row::beside_floor(title, Unit::Time, all?)
            .bound(1, Bound::AtMost(MOST))
            .bound(2, Bound::AtMost(MOST))
            .note(format!("all exited with 0 and not before {seconds} s"))
            .note(format!("{before:?} threads and descriptors before and afterwards")),
        Row::alone("resident memory for each of them", Unit::Memory, vec![single("ta", each)?]),
    ])
}

/// How they are started, in several ways. Each answers the time until all had been started, and
/// comes back when all have exited.
struct Sleeps<'a> {
    seconds: &'a str,
    least: Duration,
}

impl Sleeps<'_> {
    fn bare(&self) -> Outcome<f64> {
        let start = Instant::now();
        let children: Vec<Child> =
            by_callers(|| Ok(Command::new("sleep").arg(self.seconds).spawn()?))?;
        let time = start.elapsed();
        for mut child in children {
            let status = child.wait()?;
            if !status.success() {
                return Err(format!("a sleep ended with {status}").into());
            }
        }
        self.slept(start).map(|()| time.as_secs_f64())
    }

    fn by_client(
        &self,
        client: &ExecClient,
        look: impl FnOnce() -> Outcome<f64>,
    ) -> Outcome<(f64, f64)> {
        let start = Instant::now();
        let processes: Vec<Process> =
            by_callers(|| Ok(client.spawn(&commands::program("sleep", &[self.seconds]))?))?;
        let time = start.elapsed();
        let resident = look()?;
        for process in processes {
            commands::finish(process, |_| {})?;
        }
        self.slept(start).map(|()| (time.as_secs_f64(), resident))
    }

    fn by_raw(&self, raw: &mut Raw) -> Outcome<f64> {
        let start = Instant::now();
        let ask = |_| raw.ask_to_spawn("sleep", &[self.seconds]);
        let ids = (0..PROCESSES).map(ask).collect::<Outcome<Vec<u64>>>()?;
        raw.await_started(&ids)?;
        let time = start.elapsed();
        raw.await_exits(ids.len())?;
        self.slept(start).map(|()| time.as_secs_f64())
    }

    fn slept(&self, start: Instant) -> Outcome<()> {
        let slept = start.elapsed() >= self.least;
        slept.then_some(()).ok_or_else(|| "the sleeps were over too soon".into())
    }
}

/// Starts them all from several threads.
fn by_callers<P: Send>(spawn: impl Fn() -> Outcome<P> + Sync) -> Outcome<Vec<P>> {
    let share = || (0..PROCESSES / CALLERS).map(|_| spawn()).collect::<Outcome<Vec<P>>>();
    let share = &share;
    thread::scope(|scope| {
        let caller = || thread::Builder::new().name("caller".to_owned());
        let callers = (0..CALLERS).map(|_| caller().spawn_scoped(scope, share));
        let callers = callers.collect::<Result<Vec<_>, _>>()?;
        let mut all = Vec::with_capacity(PROCESSES);
        for caller in callers {
            all.extend(caller.join().map_err(|_| "a caller has panicked")??);
        }
        Ok(all)
    })
}

fn leaves_nothing(pid: u32, before: (usize, usize)) -> Outcome<()> {
    let deadline = Instant::now() + Duration::from_secs(2);
    loop {
        let now = procfs::threads_and_descriptors(pid)?;
        // Fewer is fine: a thread that waits for work leaves after a while.
        if now.0 <= before.0 && now.1 <= before.1 {
            return Ok(());
        }
        if Instant::now() > deadline {
            let what = format!("{now:?} threads and descriptors afterwards, {before:?} before");
            return Err(what.into());
        }
        thread::sleep(Duration::from_millis(5));
    }
}
