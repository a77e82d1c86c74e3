//! A file on its way here, in parts of which several are under way at once.

use std::collections::VecDeque;
use std::time::Instant;

use crate::environment::{Answer, ExecEnvironment};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::{ReadFileParams, ReadFileResult, WirePath};
use crate::sys;

/// Parts that are under way at once: with 1 MiB each, enough for a round trip of 10 ms at 400 MB/s.
const AHEAD: usize = 4;

/// The parts of a file, in order.
pub(in crate::cli) struct Parts<'a> {
    environment: &'a dyn ExecEnvironment,
    path: WirePath,
    part: u64,
    /// Where the next part to ask for begins.
    next: u64,
    /// Where the last one ends.
    end: u64,
    /// Where the next part to hand over begins.
    at: u64,
    /// What the file system says of the size, so far.
    size: u64,
    /// What the content was at first; `None` until it is known, and empty where it tells nothing:
    /// files of /proc are made while they are read.
    version: Option<String>,
    /// Parts that have come and wait to be handed over, with how much was asked for.
    ready: VecDeque<(u64, ReadFileResult)>,
    in_flight: VecDeque<(u64, Answer<ReadFileResult>)>,
    over: bool,
}

impl<'a> Parts<'a> {
    /// Those of a file that is expected to have `size` bytes, from `offset` on and `length` in all.
    pub(in crate::cli) fn new(
        environment: &'a dyn ExecEnvironment,
        path: WirePath,
        (offset, length): (u64, Option<u64>),
        (part, size): (usize, u64),
    ) -> Self {
        let end = length.map_or(u64::MAX, |length| offset.saturating_add(length));
        Self {
            environment,
            path,
            part: part as u64,
            next: offset,
            end,
            at: offset,
            size,
            version: None,
            ready: VecDeque::new(),
            in_flight: VecDeque::new(),
            over: false,
        }
    }

    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// The file has changed since it began to be read (`Os(EIO)`), and those of reading it.
    pub(in crate::cli) fn next(&mut self) -> Result<Option<Vec<u8>>> {
        self.ask()?;
        let (wanted, read) = match self.ready.pop_front() {
            Some(ready) => ready,
            None => match self.in_flight.pop_front() {
                Some((wanted, answer)) => (wanted, answer.wait()?),
                None => return Ok(None),
            },
        };
        let bytes = read.data_base64.0;
        let count = bytes.len() as u64;
        self.at += count;
        let sized = read.eof || read.size > self.at;
        let version = if sized { read.version } else { String::new() };
        let first = self.version.get_or_insert_with(|| version.clone());
        let known = !first.is_empty() && !version.is_empty();
        if known && *first != version {
            return Err(self.changed());
        }
        self.size = self.size.max(read.size);
        if read.eof {
            self.over = true;
            self.drop_ahead();
        } else if count == 0 {
            // Neither a byte nor the end.
            return Err(self.changed());
        } else if count < wanted {
            // It ended there and has grown since, which its version has not shown.
            self.drop_ahead();
            self.next = self.at;
        }
        Ok((count > 0).then_some(bytes))
    }

    /// Asks for parts: for one always, since a size may be wrong, for more where there is more.
    fn ask(&mut self) -> Result<()> {
        // A lost connection is seen here: a call would make a new one first.
        while let Some((wanted, answer)) = self.in_flight.front()
            && let Some(read) = answer.wait_until(Instant::now())?
        {
            self.ready.push_back((*wanted, read));
            self.in_flight.pop_front();
        }
        let most = if self.environment.local() { 1 } else { AHEAD };
        while !self.over && self.ahead() < most && self.next < self.end {
            if self.ahead() > 0 && self.next >= self.size {
                break;
            }
            let wanted = self.part.min(self.end - self.next);
            let params = ReadFileParams {
                path: self.path.clone(),
                offset: Some(self.next),
                length: Some(wanted),
            };
            let answer = self.environment.begin_read_file(&params)?;
            self.in_flight.push_back((wanted, answer));
            self.next += wanted;
        }
        Ok(())
    }

    fn ahead(&self) -> usize {
        self.ready.len() + self.in_flight.len()
    }

    fn drop_ahead(&mut self) {
        self.ready.clear();
        self.in_flight.clear();
    }

    fn changed(&self) -> Error {
        let path = self.path.as_path();
        let message = format!("cannot read {path:?} to its end: it has changed meanwhile");
        Error::new(ErrorKind::Os(sys::errno::EIO), message)
    }
}
