//! A command with a great deal to say.

use std::time::Instant;

use ta_exec::client::ExecClient;

use crate::Outcome;
use crate::arena::Arena;
use crate::commands;
use crate::contest::{Contender, take_turns};
use crate::figures::{Unit, float, per_second};
use crate::floor;
use crate::procfs;
use crate::raw::Raw;
use crate::report::{Bound, Row};
use crate::rows::single;
use crate::server::Server;

const ROUNDS: usize = 5;
const MOST_RESIDENT: f64 = 16.0 * 1024.0 * 1024.0;

/// 1 GiB of output, whole.
pub(super) fn output(arena: &Arena) -> Outcome<Vec<Row>> {
    let size: u64 = if arena.quick { 1 << 27 } else { 1 << 30 };
    let rounds = if arena.quick { 2 } else { ROUNDS };
    let text = size.to_string();
    let arguments = ["-c", text.as_str(), "/dev/zero"];
    let server = Server::start(&arena.binary)?;
    let client = server.client()?;
    let mut raw = Raw::connect(&server)?;
    content_is_right(&client, &arguments, size)?;

    let timed = |read: &mut dyn FnMut() -> Outcome<u64>| {
        let start = Instant::now();
        let count = read()?;
        let rate = per_second(count, start.elapsed());
        let wrong = || format!("{count} bytes came in place of {size}").into();
        (count == size).then(|| vec![rate]).ok_or_else(wrong)
    };
    let contenders = vec![
        Contender::new("bare: std reads the pipe", || {
            timed(&mut || floor::read_output("head", &arguments))
        }),
        Contender::new("ta, ExecClient", || {
            timed(&mut || {
                commands::finish(client.spawn(&commands::program("head", &arguments))?, |_| {})
            })
        }),
        Contender::new("ta, raw WebSocket", || {
            timed(&mut || {
                let id = raw.ask_to_spawn("head", &arguments)?;
                raw.await_started(&[id])?;
                raw.await_exits(1)
            })
        }),
    ];
    let busy = procfs::processor_time(server.pid())?;
    let (all, resident) = procfs::watch_resident(server.pid(), || take_turns(contenders, rounds))?;
    let busy = procfs::processor_time(server.pid())? - busy;
    let peak = procfs::peak_resident(server.pid())?;
    let gib = float(size) * f64::from(u32::try_from(2 * (rounds + 1))?) / float(1 << 30);
    let title = format!("{size} bytes of output of `head -c {size} /dev/zero`");
    let memory = vec![single("VmHWM", peak)?, single("most VmRSS seen", resident)?];
    Ok(vec![
        Row::beside_floor(title, Unit::Rate, all).bound(1, Bound::PartOfFloor(0.5)).note(format!(
            "the server spent {} of processor time a GiB",
            Unit::Time.show(busy / gib)
        )),
        Row::alone("resident memory of the server meanwhile", Unit::Memory, memory)
            .bound(0, Bound::AtMost(MOST_RESIDENT)),
    ])
}

/// Before the clock runs: it is zeros that come, and as many as were asked for.
fn content_is_right(client: &ExecClient, arguments: &[&str], size: u64) -> Outcome<()> {
    let mut wrong = 0_usize;
    let process = client.spawn(&commands::program("head", arguments))?;
    let count = commands::finish(process, |bytes| {
        wrong += bytes.iter().filter(|byte| **byte != 0).count();
    })?;
    let fine = count == size && wrong == 0;
    fine.then_some(()).ok_or_else(|| format!("{count} bytes came, {wrong} of them wrong").into())
}
