//! Large buffers, used again.
//!
//! musl maps every block of this size anew, has it faulted in page by page and unmaps it: that
//! is slower than all else that happens to a chunk of output. So the few that are in use at a
//! time go round.

use std::sync::Mutex;

use crate::protocol::MAX_CHUNK;
use crate::sync::lock;

/// Enough for one chunk in base64 with the notification around it.
const CAPACITY: usize = MAX_CHUNK / 3 * 4 + 2048;
/// The message about a chunk below this gets a buffer of its own size.
const SMALL: usize = 4096;
/// How many unused ones are kept, for the whole program: 1.4 MB.
const KEPT: usize = 16;

static UNUSED: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// An empty buffer of [`CAPACITY`] bytes.
pub(crate) fn take() -> Vec<u8> {
    let unused = lock(&UNUSED).pop();
    unused.unwrap_or_else(|| Vec::with_capacity(CAPACITY))
}

/// An empty buffer for what is decoded from so much base64. Many may wait for a slow reader, each
/// in at most twice the memory that it needs.
pub(crate) fn of(size: usize) -> Vec<u8> {
    if (CAPACITY / 2..=CAPACITY).contains(&size) { take() } else { Vec::new() }
}

/// An empty buffer for the message about a chunk of that size, in base64.
pub(crate) fn for_chunk(size: usize) -> Vec<u8> {
    if size < SMALL { Vec::with_capacity(size / 3 * 4 + 384) } else { take() }
}

/// Gives a buffer back. One that is not of that size is freed.
pub(crate) fn give(mut buffer: Vec<u8>) {
    buffer.clear();
    if (CAPACITY..2 * CAPACITY).contains(&buffer.capacity()) {
        let mut unused = lock(&UNUSED);
        if unused.len() < KEPT {
            unused.push(buffer);
        }
    }
}
