//! The whole of an output that is too long to be shown, in a file of the environment.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::environment::{Answer, ExecEnvironment, part};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::{Mode, WirePath, WriteFileParams, WriteFileResult};
use crate::sys::host::random_number;

/// Bytes of one write: a file that is appended to costs a round trip for each.
const PART: usize = 256 * 1024;
/// Writes without an answer.
const IN_FLIGHT: usize = 4;
/// How long a disk may take for a write before it is given up; the command is not held up for ever.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest output that is kept whole.
const MOST: u64 = 1024 * 1024 * 1024;

/// Keeps an output: in memory first, in a file once that is wanted.
pub(super) struct Spill<'a> {
    environment: &'a dyn ExecEnvironment,
    /// What is not in the file yet.
    pending: Vec<u8>,
    kept: u64,
    file: Option<WirePath>,
    in_flight: VecDeque<Answer<WriteFileResult>>,
    failed: Option<Error>,
}

impl<'a> Spill<'a> {
    pub(super) fn new(environment: &'a dyn ExecEnvironment) -> Self {
        let (pending, in_flight) = (Vec::new(), VecDeque::new());
        Self { environment, pending, kept: 0, file: None, in_flight, failed: None }
    }

    /// Takes output; `to_file` where it is known that it will be too long.
    pub(super) fn push(&mut self, bytes: &[u8], to_file: bool) {
        if self.failed.is_some() {
            return;
        }
        self.pending.extend_from_slice(bytes);
        if to_file && (self.file.is_none() || self.pending.len() >= PART) {
            self.write();
        }
    }

    /// Writes what is left. Answers the file that has all of it.
    ///
    /// # Errors
    /// Why there is none, or not all in it.
    pub(super) fn finish(mut self) -> Result<WirePath> {
        self.write();
        while self.failed.is_none() && !self.in_flight.is_empty() {
            self.await_oldest();
        }
        match (self.failed, self.file) {
            (None, Some(file)) => Ok(file),
            (Some(error), _) => Err(error),
            (None, None) => Err(Error::new(ErrorKind::Internal, "there was no output")),
        }
    }

    /// Sends what is pending on its way.
    fn write(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        if let Err(error) = self.send(&pending) {
            self.failed.get_or_insert(error);
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let most = part(self.environment)?.min(PART);
        for bytes in bytes.chunks(most) {
            if self.failed.is_some() {
                return Ok(());
            }
            self.kept += bytes.len() as u64;
            if self.kept > MOST {
                let message = "the output is longer than 1 GB";
                return Err(Error::new(ErrorKind::Limit, message));
            }
            while self.in_flight.len() >= IN_FLIGHT && self.failed.is_none() {
                self.await_oldest();
            }
            let params = self.params(bytes)?;
            self.in_flight.push_back(self.environment.begin_write_file(&params)?);
        }
        Ok(())
    }

    fn params(&mut self, bytes: &[u8]) -> Result<WriteFileParams> {
        let is_new = self.file.is_none();
        let path = match &self.file {
            Some(path) => path.clone(),
            None => {
                let directory = self.environment.about()?.tmpdir;
                let name = format!("{directory}/ta-bash-{:016x}.log", random_number());
                let path = WirePath::try_from(name.as_str()).map_err(Error::params)?;
                self.file.insert(path).clone()
            }
        };
        let mut params = WriteFileParams::new(path, bytes.to_vec());
        if is_new {
            // Nobody else's, and for its user alone.
            params.if_version = Some(String::new());
            params.mode = Mode::try_from(0o600).ok();
        } else {
            params.append = Some(true);
        }
        Ok(params)
    }

    fn await_oldest(&mut self) {
        let Some(oldest) = self.in_flight.pop_front() else { return };
        let failed = match oldest.wait_until(Instant::now() + PATIENCE) {
            Ok(Some(_)) => return,
            Ok(None) => Error::new(ErrorKind::TimedOut, "the disk did not take it in time"),
            Err(error) => error,
        };
        self.failed.get_or_insert(failed);
    }
}
