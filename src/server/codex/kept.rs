//! What is kept of a process's output, for a client that comes back and reads on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;

use crate::protocol::Base64;

/// The most bytes and chunks of one process.
const MOST_BYTES: usize = 1024 * 1024;
const MOST_CHUNKS: usize = 50_000;
/// The most bytes of all processes of a session. Where there is more, whoever writes next gives up its
/// own oldest.
const MOST_OF_ALL: usize = 64 * 1024 * 1024;

/// How many bytes are kept of all processes of a session.
#[derive(Clone, Debug, Default)]
pub(super) struct Total(Arc<AtomicUsize>);

/// Chunks of output, the newest.
#[derive(Debug)]
pub(super) struct Kept {
    chunks: VecDeque<Chunk>,
    bytes: usize,
    total: Total,
}

#[derive(Debug)]
struct Chunk {
    seq: u64,
    stream: &'static str,
    bytes: Vec<u8>,
}

/// A chunk as it is told.
#[derive(Debug, Serialize)]
pub(super) struct Told {
    seq: u64,
    stream: &'static str,
    chunk: Base64,
}

impl Told {
    pub(super) fn seq(&self) -> u64 {
        self.seq
    }
}

impl Kept {
    pub(super) fn new(total: &Total) -> Self {
        Self { chunks: VecDeque::new(), bytes: 0, total: total.clone() }
    }

    /// Takes a chunk in, and gives up old ones where there are too many.
    pub(super) fn add(&mut self, seq: u64, stream: &'static str, chunk: &[u8]) {
        let mut bytes = Vec::new();
        while self.bytes + chunk.len() > MOST_BYTES
            || self.chunks.len() >= MOST_CHUNKS
            || (self.total.0.load(Ordering::Relaxed) + chunk.len() > MOST_OF_ALL)
        {
            let Some(oldest) = self.chunks.pop_front() else { break };
            self.note(oldest.bytes.len(), 0);
            bytes = oldest.bytes;
        }
        // The memory of one that was given up is used again, unless it is far too much.
        if bytes.capacity() / 2 > chunk.len() {
            bytes = Vec::new();
        }
        bytes.clear();
        bytes.extend_from_slice(chunk);
        self.note(0, chunk.len());
        self.chunks.push_back(Chunk { seq, stream, bytes });
    }

    fn note(&mut self, gone: usize, come: usize) {
        self.bytes = self.bytes + come - gone;
        self.total.0.fetch_add(come, Ordering::Relaxed);
        self.total.0.fetch_sub(gone, Ordering::Relaxed);
    }

    /// Those after `after`, in order, of `most` bytes together; of a first one that is longer, all.
    pub(super) fn after(&self, after: u64, most: usize) -> Vec<Told> {
        let mut left = Some(most);
        let chunks = self.chunks.iter().skip_while(|chunk| chunk.seq <= after);
        let chunks = chunks.enumerate().take_while(|(at, chunk)| {
            left = left.and_then(|left| left.checked_sub(chunk.bytes.len()));
            *at == 0 || left.is_some()
        });
        chunks
            .map(|(_, chunk)| {
                let Chunk { seq, stream, bytes } = chunk;
                Told { seq: *seq, stream, chunk: Base64(bytes.clone()) }
            })
            .collect()
    }

    /// The number of the last one.
    pub(super) fn last(&self) -> u64 {
        self.chunks.back().map_or(0, |chunk| chunk.seq)
    }

    /// Gives up all of it.
    pub(super) fn clear(&mut self) {
        self.note(self.bytes, 0);
        self.chunks = VecDeque::new();
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seqs(told: &[Told]) -> Vec<u64> {
        told.iter().map(|told| told.seq).collect()
    }

    #[test]
    fn the_newest_are_kept() {
        let total = Total::default();
        let mut kept = Kept::new(&total);
        for seq in 1..=20 {
            kept.add(seq, "stdout", &[0; 100_000]);
        }
        assert_eq!(seqs(&kept.after(0, usize::MAX)), (11..=20).collect::<Vec<_>>());
        assert_eq!(total.0.load(Ordering::Relaxed), 1_000_000);
        drop(kept);
        assert_eq!(total.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_part_has_whole_chunks_and_at_least_one() {
        let mut kept = Kept::new(&Total::default());
        for (seq, size) in [(1, 10), (3, 10), (4, 100)] {
            kept.add(seq, "stderr", &vec![0; size]);
        }
        assert_eq!(seqs(&kept.after(0, 20)), [1, 3]);
        assert_eq!(seqs(&kept.after(0, 1)), [1]);
        assert_eq!(seqs(&kept.after(2, 119)), [3, 4]);
        assert_eq!(seqs(&kept.after(3, 1)), [4]);
        assert!(kept.after(4, 1).is_empty() && kept.last() == 4);
    }

    #[test]
    fn all_together_are_bounded() {
        let total = Total::default();
        let mut all: Vec<_> = (0..80).map(|_| Kept::new(&total)).collect();
        for round in 1..=4 {
            for kept in &mut all {
                kept.add(round, "pty", &[0; 500_000]);
            }
        }
        let sum = total.0.load(Ordering::Relaxed);
        assert!((MOST_OF_ALL / 2..=MOST_OF_ALL + 80 * 500_000).contains(&sum), "{sum}");
    }
}
