//! Large buffers, used again.
//!
//! musl maps every block of this size anew, has it faulted in page by page and unmaps it: that
//! is slower than all else that happens to a chunk of output. So the few that are in use at a
//! time go round.

use std::sync::Mutex;

use crate::protocol::MAX_CHUNK;
use crate::sync::lock;

/// Enough for one chunk in base64 with the notification around it.
pub(crate) const CAPACITY: usize = MAX_CHUNK / 3 * 4 + 2048;
/// How many unused ones are kept, for the whole program: 1.4 MB.
const KEPT: usize = 16;

static UNUSED: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// An empty buffer of [`CAPACITY`] bytes.
pub(crate) fn take() -> Vec<u8> {
    let unused = lock(&UNUSED).pop();
    unused.unwrap_or_else(|| Vec::with_capacity(CAPACITY))
}

/// An empty buffer for so many bytes: one of these if it is large enough and not much too large.
pub(crate) fn take_for(bytes: usize) -> Vec<u8> {
    if (CAPACITY / 16..=CAPACITY).contains(&bytes) { take() } else { Vec::with_capacity(bytes) }
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
