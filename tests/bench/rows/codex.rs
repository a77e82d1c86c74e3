//! Codex's dialect: its own server, and ours in its place.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::files::Directory;
use super::footprint::server_only;
use super::single;
use crate::Outcome;
use crate::arena::Arena;
use crate::codex::{Client, Codex};
use crate::contest::{Contender, take_turns};
use crate::figures::{Unit, per_second};
use crate::procfs;
use crate::report::{Bound, Row};
use crate::server::Server;

const ROUNDS: usize = 5;
const TURN: usize = 40;
/// Of the time that its own server takes, and of the memory.
const MOST_OF_START: f64 = 1.0 / 20.0;
const MOST_OF_MEMORY: f64 = 1.0 / 20.0;
const MIB: u64 = 1 << 20;
/// After this nothing of a start is going on any more.
const REST: Duration = Duration::from_millis(150);

pub(super) fn codex(arena: &Arena) -> Outcome<Vec<Row>> {
    let target = arena.directory.parent().ok_or("the tables lie nowhere")?;
    let Some(theirs) = Codex::start(target)? else {
        let why = "Codex is not installed (make test-tools does that)";
        return Ok(vec![Row::left_out("Codex's own server, and ours in its place", why)]);
    };
    let ours = Server::start(&arena.binary)?;
    let mut rows = vec![memory(arena, &theirs, &ours)?];
    let mut both = [theirs.client()?, Client::of(&ours)?];
    rows.push(starts(arena, &mut both)?);
    rows.extend(files(arena, &mut both)?);
    rows.push(output(arena, &mut both)?);
    Ok(rows)
}

/// Of the build that goes into images, where it is at hand.
fn memory(arena: &Arena, theirs: &Codex, ours: &Server) -> Outcome<Row> {
    let mut all = vec![
        single("codex exec-server", procfs::resident(theirs.pid())?)?,
        single("ta", procfs::resident(ours.pid())?)?,
    ];
    if let Some(binary) = server_only(&arena.binary) {
        let server = Server::start(&binary)?;
        thread::sleep(REST);
        all.push(single("ta, server-only", procfs::resident(server.pid())?)?);
    }
    let last = all.len() - 1;
    let row = Row::beside_floor("VmRSS without a connection", Unit::Memory, all);
    Ok(row.bound(last, Bound::TimesFloor(MOST_OF_MEMORY)))
}

fn starts(arena: &Arena, both: &mut [Client; 2]) -> Outcome<Row> {
    let turn = arena.scaled(TURN);
    let times = |client: &mut Client| -> Outcome<Vec<f64>> {
        (0..turn).map(|_| Ok(client.run(&["/bin/true"])?.0.as_secs_f64())).collect()
    };
    let row = beside("/bin/true, from start to exited", Unit::Time, both, &times)?;
    Ok(row.bound(1, Bound::TimesFloor(MOST_OF_START)))
}

fn files(arena: &Arena, both: &mut [Client; 2]) -> Outcome<Vec<Row>> {
    let turn = arena.scaled(TURN);
    let directory = Directory::new(arena)?;
    let file = directory.path().join("file");
    std::fs::write(&file, vec![b'x'; usize::try_from(MIB)?])?;
    let path = format!("file://{}", file.display());
    let looks = |client: &mut Client| -> Outcome<Vec<f64>> {
        let look = |_| {
            let start = Instant::now();
            client.call("fs/getMetadata", &json!({"path": path}))?;
            Ok(start.elapsed().as_secs_f64())
        };
        (0..turn * 5).map(look).collect()
    };
    let row = beside("fs/getMetadata", Unit::Time, both, &looks)?;
    let mut rows = vec![row.bound(1, Bound::TimesFloor(1.0))];
    let content = base64(&vec![b'y'; usize::try_from(MIB)?]);
    for (title, method, params) in [
        ("a file of 1 MiB, read", "fs/readFile", json!({"path": path})),
        ("a file of 1 MiB, written", "fs/writeFile", json!({"path": path, "dataBase64": content})),
    ] {
        let rate = |client: &mut Client| -> Outcome<Vec<f64>> {
            let start = Instant::now();
            for _ in 0..turn {
                client.call(method, &params)?;
            }
            Ok(vec![per_second(MIB * turn as u64, start.elapsed())])
        };
        let row = beside(title, Unit::Rate, both, &rate)?;
        rows.push(row.bound(1, Bound::PartOfFloor(1.0)));
    }
    Ok(rows)
}

fn output(arena: &Arena, both: &mut [Client; 2]) -> Outcome<Row> {
    let size = if arena.quick { 64 * MIB } else { 512 * MIB };
    let output = |client: &mut Client| -> Outcome<Vec<f64>> {
        let start = Instant::now();
        let (_, bytes) = client.run(&["head", "-c", &size.to_string(), "/dev/zero"])?;
        match bytes == size {
            true => Ok(vec![per_second(size, start.elapsed())]),
            false => Err(format!("{bytes} bytes came of {size}").into()),
        }
    };
    Ok(beside("output", Unit::Rate, both, &output)?.bound(1, Bound::PartOfFloor(1.0)))
}

/// The same of both, in turns.
fn beside(
    title: &str,
    unit: Unit,
    [theirs, ours]: &mut [Client; 2],
    turn: &dyn Fn(&mut Client) -> Outcome<Vec<f64>>,
) -> Outcome<Row> {
    let contenders = vec![
        Contender::new("codex exec-server", || turn(theirs)),
        Contender::new("ta", || turn(ours)),
    ];
    Ok(Row::beside_floor(title, unit, take_turns(contenders, ROUNDS)?))
}

fn base64(bytes: &[u8]) -> String {
    let content = serde_json::to_value(ta_exec::protocol::Base64(bytes.to_vec()));
    content.ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
