//! The floor: the same jobs with nothing in between.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{BARE, Peer, Way, on_threads, timed};
use crate::Outcome;
use crate::floor;

const PART: usize = 1024 * 1024;

pub(crate) struct Bare;

impl Peer for Bare {
    fn name(&self) -> &'static str {
        BARE
    }

    fn way(&self) -> Outcome<Box<dyn Way>> {
        Ok(Box::new(Self))
    }

    fn started(&self) -> Option<u32> {
        None
    }
}

impl Way for Bare {
    fn stat(&mut self, file: &Path) -> Outcome<()> {
        Ok(fs::symlink_metadata(file).map(drop)?)
    }

    fn run_true(&mut self, in_flight: usize, count: usize) -> Outcome<Vec<f64>> {
        timed(in_flight, count, || floor::run("/bin/true", &[]))
    }

    fn output(&mut self, processes: usize, each: u64) -> Outcome<()> {
        let size = each.to_string();
        let read = |_| floor::read_output("head", &["-c", &size, "/dev/zero"]);
        let counts = on_threads(processes, read)?;
        all_came(counts.into_iter().sum(), each * processes as u64)
    }

    fn input(&mut self, size: u64) -> Outcome<()> {
        let mut command = Command::new("head");
        feed(command.args(["-c", &size.to_string()]).stdout(Stdio::null()), size)
    }

    fn read(&mut self, files: &[PathBuf], size: usize) -> Outcome<()> {
        files.iter().try_for_each(|file| all_came(fs::read(file)?.len() as u64, size as u64))
    }

    fn write(&mut self, files: &[PathBuf], content: &[u8]) -> Outcome<()> {
        files.iter().try_for_each(|file| Ok(fs::write(file, content)?))
    }

    fn store(&mut self, here: &Path, there: &Path) -> Outcome<()> {
        let (mut from, mut to) = (File::open(here)?, File::create_new(there)?);
        let mut part = vec![0; PART];
        loop {
            match from.read(&mut part)? {
                0 => return Ok(()),
                count => to.write_all(&part[..count])?,
            }
        }
    }

    fn fetch(&mut self, there: &Path, here: &Path) -> Outcome<()> {
        self.store(there, here)
    }
}

/// Runs a program that takes so many bytes on its stdin, and then ends with success.
pub(super) fn feed(command: &mut Command, size: u64) -> Outcome<()> {
    let mut child = command.stdin(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().ok_or("no stdin")?;
    let part = vec![b'x'; PART];
    for _ in 0..size / PART as u64 {
        stdin.write_all(&part)?;
    }
    // (Not closed before: what it has not taken by then it waits for in vain.)
    let status = child.wait()?;
    drop(stdin);
    status.success().then_some(()).ok_or_else(|| format!("the program ended with {status}").into())
}

/// Whether as many bytes came as there are.
pub(super) fn all_came(count: u64, size: u64) -> Outcome<()> {
    let wrong = || format!("{count} bytes came in place of {size}").into();
    (count == size).then_some(()).ok_or_else(wrong)
}
