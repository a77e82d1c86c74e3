//! How far host and environment may be ahead of each other, in both directions.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::ExecEnvironment;
use super::process::Answer;
use crate::error::Result;
use crate::protocol::{Empty, MAX_CHUNK};

/// Bytes that have been taken and not yet acknowledged.
pub(crate) struct Debt {
    window: Option<NonZeroU64>,
    owed: u64,
}

impl Debt {
    pub(crate) fn new(window: Option<NonZeroU64>) -> Self {
        Self { window, owed: 0 }
    }

    /// So many have been taken. Answers how many are to be acknowledged now: none until a quarter
    /// of the window is owed.
    pub(crate) fn add(&mut self, count: usize) -> Option<u64> {
        let window = self.window?;
        self.owed += count as u64;
        let due = self.owed >= window.get().div_ceil(4);
        due.then(|| std::mem::take(&mut self.owed))
    }
}

/// What a far end may send before that is acknowledged. One that sends more would fill the memory of this
/// one, whose reader may take his time.
pub(crate) struct Allowance {
    window: Option<NonZeroU64>,
    /// Bytes that have come and have not been acknowledged.
    unacknowledged: AtomicU64,
}

impl Allowance {
    pub(crate) fn new(window: Option<NonZeroU64>) -> Arc<Self> {
        Arc::new(Self { window, unacknowledged: AtomicU64::new(0) })
    }

    /// So many have come. `false` where they are more than may come.
    pub(crate) fn take(&self, count: usize) -> bool {
        let count = count as u64;
        let sum = self.unacknowledged.fetch_add(count, Ordering::Relaxed).saturating_add(count);
        self.window.is_none_or(|window| sum <= window.get())
    }

    /// So many are about to be acknowledged.
    pub(crate) fn acknowledge(&self, count: u64) {
        self.unacknowledged.fetch_sub(count, Ordering::Relaxed);
    }
}

/// The bytes of a file in one message to or from an environment.
pub(crate) fn part(environment: &dyn ExecEnvironment) -> Result<usize> {
    /// Larger ones are not carried faster.
    const MOST: usize = 1024 * 1024;
    /// For all that is around them: a path may have 4 KiB, and six characters for each.
    const AROUND: usize = 32 * 1024;
    let longest = environment.about()?.max_message_bytes;
    Ok((longest.saturating_sub(AROUND) / 4 * 3).clamp(4096, MOST))
}

/// Writes that go out one after the other without a round trip in between.
#[derive(Default)]
pub(crate) struct Pipeline {
    /// Writes without an answer, the oldest first.
    in_flight: VecDeque<Answer<Empty>>,
}

impl Pipeline {
    /// The most writes without an answer. With chunks of 64 KiB that is 1 MiB, as much as output
    /// has: it keeps a connection busy whose round trip takes 10 ms at 100 MB/s.
    const IN_FLIGHT: usize = 16;

    /// Sends bytes, one call a chunk, each begun by `begin`. Waits while too many are under way.
    pub(crate) fn send(
        &mut self,
        bytes: &[u8],
        begin: impl Fn(&[u8]) -> Result<Answer<Empty>>,
    ) -> Result<()> {
        bytes.chunks(MAX_CHUNK).try_for_each(|chunk| self.push(|| begin(chunk)))
    }

    /// Takes in the answers that have come.
    pub(crate) fn settle(&mut self) -> Result<()> {
        let now = Instant::now();
        while let Some(oldest) = self.in_flight.front() {
            if oldest.wait_until(now)?.is_none() {
                break;
            }
            self.in_flight.pop_front();
        }
        Ok(())
    }

    /// Sends one more and waits until all have been made.
    pub(crate) fn finish(&mut self, begin: impl FnOnce() -> Result<Answer<Empty>>) -> Result<()> {
        self.push(begin)?;
        self.in_flight.drain(..).try_for_each(|answer| answer.wait().map(|Empty {}| ()))
    }

    fn push(&mut self, begin: impl FnOnce() -> Result<Answer<Empty>>) -> Result<()> {
        if self.in_flight.len() >= Self::IN_FLIGHT
            && let Some(middle) = self.in_flight.remove(Self::IN_FLIGHT / 2)
        {
            // Until half of them have been answered (they are in the order sent): going on after
            // each would wake a thread for each, at both ends.
            middle.wait()?;
        }
        self.settle()?;
        self.in_flight.push_back(begin()?);
        Ok(())
    }
}
