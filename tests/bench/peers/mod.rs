//! Those who are compared: each has its server, and ways to it that do the same jobs.

pub(crate) mod bare;
pub(crate) mod codex;
pub(crate) mod library;
pub(crate) mod openssh;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use crate::Outcome;
use crate::arena::Arena;
use crate::procfs;
use crate::server::Server;
use bare::Bare;
use codex::{Codex, OurDialect};
use library::Library;
use openssh::Ssh;

/// The system calls and nothing else.
pub(crate) const BARE: &str = "bare";
/// Our server and the library's client.
pub(crate) const TA: &str = "ta";
/// Our server and a client that speaks Codex's dialect.
pub(crate) const TA_CODEX: &str = "ta, Codex's dialect";
/// Codex's server as it comes: its socket waits for the ACK of what it has sent before.
pub(crate) const CODEX: &str = "codex exec-server";
/// The same, and a client that has its kernel send each ACK at once.
pub(crate) const CODEX_ACKS: &str = "codex, ACKs at once";
/// OpenSSH's server, and its client over logins that stand.
pub(crate) const SSH: &str = "OpenSSH";

/// Somebody whose server runs.
pub(crate) trait Peer {
    fn name(&self) -> &'static str;

    /// A connection of its own.
    fn way(&self) -> Outcome<Box<dyn Way>>;

    /// The process that was started, if there is one.
    fn started(&self) -> Option<u32>;
}

/// One connection. Each job is checked to have been done.
pub(crate) trait Way: Send {
    /// Asks something that is answered at once.
    fn ping(&mut self) -> Outcome<()> {
        Err("there is nothing that could be asked".into())
    }

    /// Looks what stands at a path.
    fn stat(&mut self, _file: &Path) -> Outcome<()> {
        Err("not to be measured".into())
    }

    /// Runs /bin/true so often, so many at a time. Answers how long each took, in seconds.
    fn run_true(&mut self, in_flight: usize, count: usize) -> Outcome<Vec<f64>>;

    /// Takes the output of so many processes at once that write so many bytes each.
    fn output(&mut self, processes: usize, each: u64) -> Outcome<()>;

    /// Starts so many programs that sleep for as long as the connection stands.
    fn sleep(&mut self, _processes: usize) -> Outcome<()> {
        Err("not to be measured".into())
    }

    /// Starts a program that writes without pause, and reads nothing of that.
    fn stall(&mut self) -> Outcome<()> {
        Err("not to be measured".into())
    }

    /// Takes the output of so many programs that write without pause, and meanwhile pings and ends
    /// programs that sleep, so often. Answers how long each took, in seconds; an end to the exit.
    fn under_load(&mut self, _streams: usize, _count: usize) -> Outcome<(Vec<f64>, Vec<f64>)> {
        Err("not to be measured".into())
    }

    /// Gives a program so many bytes on its stdin.
    fn input(&mut self, size: u64) -> Outcome<()>;

    /// Reads each of these files, of that many bytes, as a whole.
    fn read(&mut self, files: &[PathBuf], size: usize) -> Outcome<()>;

    /// Writes these files, which are not there yet, one after the other.
    fn write(&mut self, files: &[PathBuf], content: &[u8]) -> Outcome<()>;

    /// Copies a large file there, to where none is yet, and back.
    fn store(&mut self, here: &Path, there: &Path) -> Outcome<()>;
    fn fetch(&mut self, there: &Path, here: &Path) -> Outcome<()>;
}

/// All that are installed, each with its server.
pub(crate) struct Peers {
    all: Vec<Box<dyn Peer>>,
    missing: Vec<&'static str>,
}

impl Peers {
    pub(crate) fn start(arena: &Arena) -> Outcome<Self> {
        Self::of(arena, &[BARE, TA, TA_CODEX, CODEX, CODEX_ACKS, SSH])
    }

    /// Those of these names.
    pub(crate) fn of(arena: &Arena, names: &[&'static str]) -> Outcome<Self> {
        let mut peers = Self { all: Vec::new(), missing: Vec::new() };
        for name in names {
            match start(arena, name)? {
                Some(peer) => peers.all.push(peer),
                None => peers.missing.push(name),
            }
        }
        Ok(peers)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &dyn Peer> {
        self.all.iter().map(|peer| &**peer)
    }

    /// What a row has to say of those that are not there.
    pub(crate) fn missing(&self) -> Option<String> {
        let names = self.missing.join(", ");
        (!names.is_empty())
            .then(|| format!("LEFT OUT, not installed (`make bench-peers` does that): {names}"))
    }
}

/// Starts one of a name from above. `None` where it is not installed.
fn start(arena: &Arena, name: &'static str) -> Outcome<Option<Box<dyn Peer>>> {
    let ours = || Server::start(&arena.binary);
    Ok(match name {
        TA => Some(Box::new(Library::new(arena, ours()?))),
        TA_CODEX => Some(Box::new(OurDialect(ours()?))),
        CODEX | CODEX_ACKS => {
            let peer = Codex::start(arena, name == CODEX_ACKS)?;
            peer.map(|peer| -> Box<dyn Peer> { Box::new(peer) })
        }
        SSH => Ssh::start()?.map(|peer| -> Box<dyn Peer> { Box::new(peer) }),
        _ => Some(Box::new(Bare)),
    })
}

/// The memory of all processes that serve, in bytes: what they share is counted once.
pub(crate) fn memory(peer: &dyn Peer) -> Outcome<f64> {
    serving(peer)?.into_iter().map(procfs::proportional).sum()
}

/// Seconds on the processor that all processes that serve have spent, and the programs that they
/// have seen the end of.
pub(crate) fn processor_time(peer: &dyn Peer) -> Outcome<f64> {
    serving(peer)?.into_iter().map(procfs::processor_time_of_all).sum()
}

fn serving(peer: &dyn Peer) -> Outcome<Vec<u32>> {
    procfs::same_program(peer.started().ok_or("nothing was started")?)
}

/// Runs something so often, so many at a time, each on a thread. Answers how long each took, in seconds.
fn timed(
    in_flight: usize,
    count: usize,
    run: impl Fn() -> Outcome<()> + Sync,
) -> Outcome<Vec<f64>> {
    let once = |_| {
        let start = Instant::now();
        run()?;
        Ok(start.elapsed().as_secs_f64())
    };
    let each = |_| (0..count / in_flight).map(once).collect::<Outcome<Vec<f64>>>();
    if in_flight == 1 { each(0) } else { Ok(on_threads(in_flight, each)?.concat()) }
}

/// Runs a job on so many threads, each with its number, and answers what all of them did.
pub(crate) fn on_threads<T: Send>(
    count: usize,
    job: impl Fn(usize) -> Outcome<T> + Sync,
) -> Outcome<Vec<T>> {
    let job = &job;
    thread::scope(|scope| {
        let start = |number| {
            let name = thread::Builder::new().name("caller".to_owned());
            name.spawn_scoped(scope, move || job(number))
        };
        let threads = (0..count).map(start).collect::<Result<Vec<_>, _>>()?;
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a caller has panicked")?)
            .collect()
    })
}
