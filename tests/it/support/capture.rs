//! What arrived about one process, and the promises of the protocol about it: `seq` without a gap,
//! the spawn's answer before the first notification, nothing after the end, byte counts that add
//! up. They are checked at every message of every test.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use super::unbase64;

#[derive(Default)]
pub(crate) struct Capture {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    /// The params of `process/exit`.
    pub(crate) exit: Option<Value>,
    /// Bytes that came while `discard` was set.
    pub(crate) discarded: usize,
    /// Counts output instead of keeping it.
    pub(crate) discard: bool,
    pub(crate) acknowledge: bool,
    seq: u64,
    awaiting_start: bool,
    over: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Output<'a> {
    #[serde(borrow)]
    pub(crate) process_id: Cow<'a, str>,
    seq: u64,
    #[serde(borrow)]
    chunk: Cow<'a, str>,
}

#[derive(Clone, Copy)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Capture {
    pub(crate) fn of_spawn() -> Self {
        Self { awaiting_start: true, ..Self::default() }
    }

    pub(crate) fn started(&mut self) {
        self.awaiting_start = false;
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    pub(crate) fn received(&self) -> usize {
        self.stdout.len() + self.stderr.len() + self.discarded
    }

    /// Takes a chunk; returns its size.
    pub(crate) fn output(&mut self, output: &Output<'_>, stream: Stream) -> Result<usize, String> {
        self.next(output.seq)?;
        let bytes = unbase64(&output.chunk);
        if bytes.is_empty() || bytes.len() > 64 * 1024 {
            return Err(format!("a chunk of {} bytes", bytes.len()));
        }
        match stream {
            _ if self.discard => self.discarded += bytes.len(),
            Stream::Stdout => self.stdout.extend_from_slice(&bytes),
            Stream::Stderr => self.stderr.extend_from_slice(&bytes),
        }
        Ok(bytes.len())
    }

    /// Takes a `process/exit`.
    pub(crate) fn exited(&mut self, params: Value) -> Result<(), String> {
        let seq = params["seq"].as_u64().ok_or("process/exit without seq")?;
        self.next(seq)?;
        self.ended(&params)?;
        self.exit = Some(params);
        Ok(())
    }

    /// Compares what arrived with what the end of the process says was sent.
    pub(crate) fn ended(&mut self, end: &Value) -> Result<(), String> {
        self.over = true;
        let sent = |name: &str| {
            end[name].as_u64().ok_or_else(|| format!("{name} is not a number in {end}"))
        };
        let (stdout, stderr) = (sent("stdoutBytes")?, sent("stderrBytes")?);
        let arrived = (count(&self.stdout), count(&self.stderr));
        if self.discard {
            let (sum, all) = (stdout + stderr, u64::try_from(self.received()).unwrap());
            return if sum == all { Ok(()) } else { Err(format!("sent {sum}, arrived {all}")) };
        }
        if (stdout, stderr) == arrived {
            return Ok(());
        }
        Err(format!("arrived (stdout, stderr) {arrived:?}, but the end says {end}"))
    }

    fn next(&mut self, seq: u64) -> Result<(), String> {
        if self.awaiting_start {
            return Err("a notification before the answer to process/spawn".into());
        }
        if self.over {
            return Err("a notification after the end of the process".into());
        }
        if seq != self.seq + 1 {
            return Err(format!("seq {seq} after {}", self.seq));
        }
        self.seq = seq;
        Ok(())
    }
}

fn count(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap()
}
