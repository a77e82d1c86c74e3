//! Our server and the library's client, which is what people run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ta_exec::client::{ExecClient, Process, ProcessControl, ProcessEvent};
use ta_exec::protocol::{ReadFileParams, StatParams, WirePath, WriteFileParams};

use super::bare::all_came;
use super::openssh::checked;
use super::{Peer, TA, Way, on_threads, timed};
use crate::Outcome;
use crate::arena::Arena;
use crate::commands;
use crate::server::{DEADLINE, Server};

const PART: usize = 256 * 1024;

pub(crate) struct Library {
    binary: PathBuf,
    server: Server,
}

impl Library {
    pub(super) fn new(arena: &Arena, server: Server) -> Self {
        Self { binary: arena.binary.clone(), server }
    }
}

impl Peer for Library {
    fn name(&self) -> &'static str {
        TA
    }

    fn way(&self) -> Outcome<Box<dyn Way>> {
        let client = self.server.client()?;
        client.ping()?;
        let environment = (self.server.url(), self.server.token().to_owned());
        let binary = self.binary.clone();
        Ok(Box::new(Connection { client, binary, environment, kept: Vec::new() }))
    }

    fn started(&self) -> Option<u32> {
        Some(self.server.guardian())
    }
}

struct Connection {
    client: ExecClient,
    /// `ta` itself, and what leads it to the server.
    binary: PathBuf,
    environment: (String, String),
    /// Programs that are to run on, and whose output nobody takes.
    kept: Vec<Process>,
}

impl Connection {
    fn copy(&self, from: &str, to: &str) -> Outcome<()> {
        let mut command = Command::new(&self.binary);
        let (url, token) = &self.environment;
        command.args(["cp", from, to]).env("TA_EXEC_URL", url).env("TA_EXEC_TOKEN", token);
        checked(command.stdout(Stdio::null()))
    }
}

fn wire(path: &Path) -> Outcome<WirePath> {
    Ok(WirePath::try_from(path.to_path_buf())?)
}

impl Way for Connection {
    fn ping(&mut self) -> Outcome<()> {
        Ok(self.client.ping()?)
    }

    fn stat(&mut self, file: &Path) -> Outcome<()> {
        let params = StatParams { path: wire(file)?, follow_symlinks: None };
        Ok(self.client.stat(&params).map(drop)?)
    }

    fn run_true(&mut self, in_flight: usize, count: usize) -> Outcome<Vec<f64>> {
        timed(in_flight, count, || commands::spawn_true(&self.client))
    }

    fn output(&mut self, processes: usize, each: u64) -> Outcome<()> {
        let size = each.to_string();
        let take = |_| {
            let program = commands::program("head", &["-c", &size, "/dev/zero"]);
            commands::finish(self.client.spawn(&program)?, |_| {})
        };
        let counts = on_threads(processes, take)?;
        all_came(counts.into_iter().sum(), each * processes as u64)
    }

    fn sleep(&mut self, processes: usize) -> Outcome<()> {
        let start = |_| Ok(self.client.spawn(&commands::program("sleep", &["600"]))?);
        self.kept = (0..processes).map(start).collect::<Outcome<Vec<_>>>()?;
        Ok(())
    }

    fn stall(&mut self) -> Outcome<()> {
        self.kept.push(self.client.spawn(&commands::program("cat", &["/dev/zero"]))?);
        Ok(())
    }

    fn under_load(&mut self, streams: usize, count: usize) -> Outcome<(Vec<f64>, Vec<f64>)> {
        let client = &self.client;
        let start = |_| Ok(client.spawn(&commands::program("cat", &["/dev/zero"]))?);
        let processes = (0..streams).map(start).collect::<Outcome<Vec<_>>>()?;
        let controls: Vec<_> = processes.iter().map(Process::control).collect();
        let came: Vec<_> = (0..streams).map(|_| AtomicU64::new(0)).collect();
        thread::scope(|scope| {
            for (process, came) in processes.into_iter().zip(&came) {
                let read = move || take_all(process, came);
                thread::Builder::new().name("reader".to_owned()).spawn_scoped(scope, read)?;
            }
            let measured = measure_meanwhile(client, &came, count);
            controls.iter().for_each(ProcessControl::abort);
            measured
        })
    }

    fn input(&mut self, size: u64) -> Outcome<()> {
        let line = format!("head -c {size} > /dev/null");
        let process = self.client.spawn(&commands::program("sh", &["-c", &line]))?;
        let mut stdin = process.control().stdin();
        let part = vec![b'x'; PART];
        for _ in 0..size / PART as u64 {
            stdin.write(&part)?;
        }
        commands::finish(process, |_| {}).map(drop)
    }

    fn read(&mut self, files: &[PathBuf], size: usize) -> Outcome<()> {
        files.iter().try_for_each(|file| {
            let params = ReadFileParams { path: wire(file)?, offset: None, length: None };
            all_came(self.client.read_file(&params)?.data_base64.0.len() as u64, size as u64)
        })
    }

    fn write(&mut self, files: &[PathBuf], content: &[u8]) -> Outcome<()> {
        let Some(first) = files.first() else { return Ok(()) };
        let mut params = WriteFileParams::new(wire(first)?, content.to_vec());
        files.iter().try_for_each(|file| {
            params.path = wire(file)?;
            all_came(self.client.write_file(&params)?.size, content.len() as u64)
        })
    }

    fn store(&mut self, here: &Path, there: &Path) -> Outcome<()> {
        self.copy(&here.display().to_string(), &format!(":{}", there.display()))
    }

    fn fetch(&mut self, there: &Path, here: &Path) -> Outcome<()> {
        self.copy(&format!(":{}", there.display()), &here.display().to_string())
    }
}

/// Reads until the program has been ended.
fn take_all(mut process: Process, came: &AtomicU64) {
    while let Ok(Some(ProcessEvent::Output(_, bytes))) = process.next(None) {
        came.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    }
}

/// Each of the streams has to flow before, and go on meanwhile.
fn measure_meanwhile(
    client: &ExecClient,
    came: &[AtomicU64],
    count: usize,
) -> Outcome<(Vec<f64>, Vec<f64>)> {
    let now = || came.iter().map(|came| came.load(Ordering::Relaxed)).collect::<Vec<_>>();
    let deadline = Instant::now() + DEADLINE;
    while now().contains(&0) {
        if Instant::now() > deadline {
            return Err("not all streams flow".into());
        }
        thread::sleep(Duration::from_millis(10));
    }
    let before = now();
    let (mut pings, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let start = Instant::now();
        client.ping()?;
        pings.push(start.elapsed().as_secs_f64());
        let mut process = client.spawn(&commands::program("sleep", &["600"]))?;
        let start = Instant::now();
        process.control().abort();
        match process.next(Some(Instant::now() + DEADLINE))? {
            Some(ProcessEvent::Exit(exit)) if exit.signal.as_deref() == Some("SIGKILL") => {}
            other => return Err(format!("in place of the end came {other:?}").into()),
        }
        ends.push(start.elapsed().as_secs_f64());
    }
    let still = now().iter().zip(before).filter(|(now, before)| **now == *before).count();
    match still {
        0 => Ok((pings, ends)),
        still => Err(format!("{still} streams stood still").into()),
    }
}
