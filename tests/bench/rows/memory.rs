//! What a server takes: on disk, idle, with connections and processes, and after them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::footprint::server_only;
use super::{single, with_missing};
use crate::Outcome;
use crate::arena::Arena;
use crate::contest::Measured;
use crate::figures::{Samples, Unit, float};
use crate::floor::Listener;
use crate::peers::{BARE, CODEX, CODEX_ACKS, Peer, Peers, SSH, TA, Way, codex, memory as resident};
use crate::procfs;
use crate::report::{Bound, Row};

const ROUNDS: usize = 3;
const CONNECTIONS: usize = 100;
const MANY_CONNECTIONS: usize = 1000;
/// A login takes time.
const LOGINS: usize = 30;
const PROCESSES: usize = 500;
const FINISHED: usize = 10_000;
/// After this nothing of a start or a handshake is going on any more.
const REST: Duration = Duration::from_millis(200);
const MOST_ALONE: f64 = 3.0 * 1024.0 * 1024.0;
const MOST_EACH: f64 = 64.0 * 1024.0;
const MOST_OF_CODEX_ALONE: f64 = 1.0 / 20.0;
const MOST_OF_CODEX_EACH: f64 = 1.0 / 4.0;
/// The build that goes into images.
const SERVER_ONLY: &str = "ta, server-only";

/// What has to be on the machine.
pub(super) fn size(arena: &Arena) -> Outcome<Vec<Row>> {
    let mut all = vec![(TA, vec![arena.binary.clone()])];
    all.extend(server_only(&arena.binary).map(|path| (SERVER_ONLY, vec![path])));
    all.extend(codex::program(arena).map(|path| (CODEX, vec![path])));
    let sshd = ["/usr/sbin/sshd", "/usr/lib/openssh/sshd-session", "/usr/lib/openssh/sshd-auth"];
    let sshd: Vec<_> = sshd.into_iter().map(PathBuf::from).filter(|path| path.exists()).collect();
    if !sshd.is_empty() {
        all.push((SSH, sshd));
    }
    let size = |(name, files): (&str, Vec<PathBuf>)| {
        let sizes = files.iter().map(|file| Ok(file.metadata()?.len()));
        single(name, float(sizes.sum::<Outcome<u64>>()?))
    };
    let all = all.into_iter().map(size).collect::<Outcome<Vec<_>>>()?;
    let note = "OpenSSH's are linked with eleven libraries that are not counted";
    Ok(vec![Row::alone("size of the program", Unit::Memory, all).note(note)])
}

/// Fresh servers, each looked at in one state after the other.
pub(super) fn memory(arena: &Arena) -> Outcome<Vec<Row>> {
    let mut alone = Figures::default();
    let mut each = Figures::default();
    let mut each_of_many = Figures::default();
    let mut missing = None;
    let files = [Some(arena.binary.clone()), server_only(&arena.binary), codex::program(arena)];
    files.into_iter().flatten().try_for_each(|file| forget_pages(&file))?;
    for _ in 0..if arena.quick { 1 } else { ROUNDS } {
        bare(&mut alone, &mut each)?;
        let mut builds = vec![(TA, arena.binary.clone())];
        builds.extend(server_only(&arena.binary).map(|path| (SERVER_ONLY, path)));
        for (name, binary) in builds {
            let arena = Arena { binary, directory: arena.directory.clone(), quick: arena.quick };
            let ours = Peers::of(&arena, &[TA])?;
            ours.iter().try_for_each(|peer| {
                connections(name, peer, &mut alone, &mut each, &mut each_of_many)
            })?;
        }
        let others = Peers::of(arena, &[CODEX, SSH])?;
        others.iter().try_for_each(|peer| {
            connections(peer.name(), peer, &mut alone, &mut each, &mut each_of_many)
        })?;
        missing = others.missing();
    }
    let note = |row: Row| match &missing {
        Some(missing) => row.note(missing.clone()),
        None => row,
    };
    let title = format!("each of {CONNECTIONS} idle connections more");
    let titles = format!("each of {MANY_CONNECTIONS} idle connections more");
    let mut rows = vec![
        note(alone.row("memory, idle")?)
            .bound_of(TA, Bound::AtMost(MOST_ALONE))
            .bound_of(SERVER_ONLY, Bound::TimesOf(CODEX, MOST_OF_CODEX_ALONE)),
        note(each.row(title)?)
            .bound_of(TA, Bound::AtMost(MOST_EACH))
            .bound_of(TA, Bound::TimesOf(CODEX, MOST_OF_CODEX_EACH))
            .note(format!("OpenSSH: of {LOGINS} logins")),
        each_of_many.row(titles)?.bound_of(TA, Bound::TimesOf(CODEX, MOST_OF_CODEX_EACH)),
    ];
    rows.extend(with_processes(arena)?);
    Ok(rows)
}

/// Has a program read from the disk again. Three quarters of what a small one takes are its own file, and how
/// much of that the kernel maps at a time depends on how it came into its cache: copied or built just now, it
/// takes a third more.
fn forget_pages(program: &Path) -> Outcome<()> {
    let file = File::open(program)?;
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

/// What was measured of each, in the order in which it came first.
#[derive(Default)]
struct Figures(Vec<(String, Vec<Vec<f64>>)>);

impl Figures {
    fn add(&mut self, name: &str, value: f64) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, values)) => values.push(vec![value]),
            None => self.0.push((name.to_owned(), vec![vec![value]])),
        }
    }

    fn row(self, title: impl Into<String>) -> Outcome<Row> {
        let measured = self
            .0
            .into_iter()
            .map(|(name, values)| Ok(Measured { name, samples: Samples::new(values)? }));
        Ok(Row::alone(title, Unit::Memory, measured.collect::<Outcome<Vec<_>>>()?))
    }
}

/// This program, which listens and has a thread for each connection.
fn bare(alone: &mut Figures, each: &mut Figures) -> Outcome<()> {
    let listener = Listener::start()?;
    thread::sleep(REST);
    let before = procfs::proportional(listener.pid())?;
    let connect = |_| {
        let mut echo = listener.connect()?;
        echo.round_trip(b"x", 1)?;
        Ok(echo)
    };
    let connections = (0..CONNECTIONS).map(connect).collect::<Outcome<Vec<_>>>()?;
    thread::sleep(REST);
    let after = procfs::proportional(listener.pid())?;
    drop(connections);
    alone.add(BARE, before);
    each.add(BARE, (after - before) / float(CONNECTIONS as u64));
    Ok(())
}

fn connections(
    name: &str,
    peer: &dyn Peer,
    alone: &mut Figures,
    each: &mut Figures,
    each_of_many: &mut Figures,
) -> Outcome<()> {
    thread::sleep(REST);
    let idle = resident(peer)?;
    alone.add(name, idle);
    let is_ssh = peer.name() == SSH;
    let count = if is_ssh { LOGINS } else { CONNECTIONS };
    let mut ways = (0..count).map(|_| peer.way()).collect::<Outcome<Vec<_>>>()?;
    thread::sleep(REST);
    each.add(name, (resident(peer)? - idle) / float(count as u64));
    if !is_ssh {
        for _ in count..MANY_CONNECTIONS {
            ways.push(peer.way()?);
        }
        thread::sleep(REST);
        each_of_many.add(name, (resident(peer)? - idle) / float(MANY_CONNECTIONS as u64));
    }
    Ok(())
}

/// With many programs that sleep, and when many have been run.
fn with_processes(arena: &Arena) -> Outcome<Vec<Row>> {
    let peers = Peers::of(arena, &[TA, CODEX_ACKS])?;
    let mut busy = Vec::new();
    let mut afterwards = Vec::new();
    for peer in peers.iter() {
        let mut way: Box<dyn Way> = peer.way()?;
        way.sleep(PROCESSES)?;
        thread::sleep(REST);
        busy.push(single(peer.name(), resident(peer)?)?);
    }
    let peers = Peers::of(arena, &[TA, CODEX_ACKS])?;
    for peer in peers.iter() {
        let mut way = peer.way()?;
        way.run_true(8, arena.scaled(FINISHED).next_multiple_of(8))?;
        thread::sleep(REST);
        afterwards.push(single(peer.name(), resident(peer)?)?);
    }
    let busy = Row::alone(format!("memory with {PROCESSES} processes"), Unit::Memory, busy);
    let title = format!("memory after {FINISHED} processes");
    let afterwards = Row::alone(title, Unit::Memory, afterwards);
    Ok(vec![with_missing(busy, &peers), with_missing(afterwards, &peers)])
}
