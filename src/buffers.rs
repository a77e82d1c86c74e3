//! Large buffers, used again.
//!
//! musl maps every block of this size anew, has it faulted in page by page and unmaps it: that
//! is slower than all else that happens to a chunk of output. So the few that are in use at a
//! time go round.

use std::sync::Mutex;

use crate::protocol::MAX_CHUNK;
use crate::sync::lock;
use crate::sys::memory;

/// Enough for one chunk in base64 with the notification around it.
pub(crate) const CAPACITY: usize = MAX_CHUNK / 3 * 4 + 2048;
/// The message about a chunk below this gets a buffer of its own size.
const SMALL: usize = 4096;
const HALF: usize = CAPACITY / 2;
const TWICE: usize = 2 * CAPACITY;
/// How many unused ones are kept, for the whole program: 1.4 MB.
const KEPT: usize = 16;
/// Larger buffers of up to that size are kept too, but only a few: parts of files.
const LARGE: usize = 2 * 1024 * 1024;
const KEPT_LARGE: usize = 2;
/// Their sizes are multiples of this.
const STEP: usize = 64 * 1024;

static UNUSED: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
static UNUSED_LARGE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// An empty buffer of [`CAPACITY`] bytes.
pub(crate) fn take() -> Vec<u8> {
    let unused = lock(&UNUSED).pop();
    unused.unwrap_or_else(|| Vec::with_capacity(CAPACITY))
}

/// An empty buffer for the message about a chunk of that size, in base64.
pub(crate) fn for_chunk(size: usize) -> Vec<u8> {
    if size < SMALL { Vec::with_capacity(size / 3 * 4 + 384) } else { take() }
}

/// An empty buffer for so many bytes. Many may wait for a slow reader, each in at most twice the
/// memory that it needs.
pub(crate) fn take_for(bytes: usize) -> Vec<u8> {
    match bytes {
        0..HALF => Vec::with_capacity(bytes),
        HALF..=CAPACITY => take(),
        _ => {
            let mut unused = lock(&UNUSED_LARGE);
            let fitting = unused.iter().rposition(|large| large.capacity() >= bytes);
            let large = fitting.map(|place| unused.remove(place));
            drop(unused);
            // So that the next one fits that is a little longer.
            large.unwrap_or_else(|| {
                let mut buffer = Vec::with_capacity(bytes.next_multiple_of(STEP));
                memory::prefer_large_pages(&mut buffer);
                buffer
            })
        }
    }
}

/// Gives a buffer back. One that is of no size that is kept is freed.
pub(crate) fn give(mut buffer: Vec<u8>) {
    buffer.clear();
    let (unused, most) = match buffer.capacity() {
        CAPACITY..TWICE => (&UNUSED, KEPT),
        TWICE..=LARGE => (&UNUSED_LARGE, KEPT_LARGE),
        _ => return,
    };
    let mut unused = lock(unused);
    unused.push(buffer);
    // What is kept is of the size that is in use now.
    let oldest = (unused.len() > most).then(|| unused.remove(0));
    drop(unused);
    drop(oldest);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers to one request after the other differ by the digits of its number.
    #[test]
    fn a_large_buffer_fits_what_is_a_little_longer() {
        for size in [CAPACITY + 1, 1_398_258, LARGE - 10] {
            let buffer = take_for(size);
            assert!(buffer.is_empty() && buffer.capacity() >= size + 9, "{}", buffer.capacity());
        }
    }
}
