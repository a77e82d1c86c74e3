//! Large buffers, used again.
//!
//! musl maps every block of this size anew, has it faulted in page by page and unmaps it: that
//! is slower than all else that happens to a chunk of output. So the few that are in use at a
//! time go round.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::protocol::MAX_CHUNK;
use crate::sync::lock;
use crate::sys::memory;
use crate::threads;

/// Enough for one chunk in base64 with the notification around it.
pub(crate) const CAPACITY: usize = MAX_CHUNK / 3 * 4 + 2048;
/// The message about a chunk below this gets a buffer of its own size.
const SMALL: usize = 4096;
const HALF: usize = CAPACITY / 2;
/// How many unused ones are kept, for the whole program: 1.4 MB.
const KEPT: usize = 16;
/// Larger buffers of up to that size are kept too, but only a few: parts of files.
pub(crate) const LARGE: usize = 2 * 1024 * 1024;
const KEPT_LARGE: usize = 2;
/// Their sizes are multiples of this.
const STEP: usize = 64 * 1024;

static CHUNKS: Pool = Pool::new(KEPT);
static PARTS: Pool = Pool::new(KEPT_LARGE);

/// An empty buffer of [`CAPACITY`] bytes.
pub(crate) fn take() -> Vec<u8> {
    CHUNKS.take(CAPACITY).unwrap_or_else(|| Vec::with_capacity(CAPACITY))
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
            let kept = if bytes <= LARGE { PARTS.take(bytes) } else { HUGE.take(bytes) };
            // So that the next one fits that is a little longer.
            kept.unwrap_or_else(|| {
                let mut buffer = Vec::with_capacity(bytes.next_multiple_of(STEP));
                memory::prefer_large_pages(&mut buffer);
                buffer
            })
        }
    }
}

/// Whether it is large enough, and not more than twice as large.
fn fits(buffer: &Vec<u8>, bytes: usize) -> bool {
    (bytes..=2 * bytes).contains(&buffer.capacity())
}

/// Gives a buffer back. One that is of no size that is kept is freed.
pub(crate) fn give(mut buffer: Vec<u8>) {
    buffer.clear();
    match buffer.capacity() {
        0..CAPACITY => {}
        CAPACITY => CHUNKS.give(buffer),
        size if size <= LARGE => PARTS.give(buffer),
        huge if huge <= MOST_HUGE => HUGE.give(buffer),
        _ => {}
    }
}

/// Buffers that nobody uses at the moment, the one used last at the end: it may still be in the cache.
struct Pool {
    unused: Mutex<Vec<Vec<u8>>>,
    most: usize,
}

impl Pool {
    const fn new(most: usize) -> Self {
        Self { unused: Mutex::new(Vec::new()), most }
    }

    fn take(&self, bytes: usize) -> Option<Vec<u8>> {
        let mut unused = lock(&self.unused);
        let fitting = unused.iter().rposition(|buffer| fits(buffer, bytes))?;
        Some(unused.remove(fitting))
    }

    fn give(&self, buffer: Vec<u8>) {
        let mut unused = lock(&self.unused);
        let oldest = push_out(&mut unused, buffer, self.most);
        drop(unused);
        drop(oldest);
    }
}

/// Adds one; where they are too many, the oldest comes out: what is kept is of the size that is in use now.
fn push_out<T>(unused: &mut Vec<T>, one: T, most: usize) -> Option<T> {
    unused.push(one);
    (unused.len() > most).then(|| unused.remove(0))
}

/// The largest buffer that is kept for a moment: what a message may have where nothing else is said.
const MOST_HUGE: usize = 65 * 1024 * 1024;
/// How many: a message, and what it stands for.
const KEPT_HUGE: usize = 2;
/// One is given back to the system when nobody has wanted it for so long, or a little longer.
const MOMENT: Duration = Duration::from_secs(1);

static HUGE: Huge = Huge::new();

/// Buffers of many megabytes, used again while one such message follows the other: the kernel has to clear
/// the pages of new ones, which is a quarter of all that happens to a message of that size.
struct Huge(Mutex<Moment>);

struct Moment {
    /// Each with the time since when it is unused.
    unused: Vec<(Instant, Vec<u8>)>,
    /// A thread gives back what nobody wants.
    is_watched: bool,
}

impl Huge {
    const fn new() -> Self {
        Self(Mutex::new(Moment { unused: Vec::new(), is_watched: false }))
    }

    /// An empty buffer for so many bytes, if one is kept.
    fn take(&self, bytes: usize) -> Option<Vec<u8>> {
        let mut moment = lock(&self.0);
        let fitting = moment.unused.iter().rposition(|(_, buffer)| fits(buffer, bytes))?;
        Some(moment.unused.remove(fitting).1)
    }

    fn give(&'static self, buffer: Vec<u8>) {
        let mut moment = lock(&self.0);
        // Without a thread that gives it back later, now.
        if !moment.is_watched && threads::run(|| self.watch()).is_err() {
            return;
        }
        moment.is_watched = true;
        let oldest = push_out(&mut moment.unused, (Instant::now(), buffer), KEPT_HUGE);
        drop(moment);
        drop(oldest);
    }

    fn watch(&self) {
        loop {
            thread::sleep(MOMENT);
            let mut moment = lock(&self.0);
            let unwanted: Vec<_> =
                moment.unused.extract_if(.., |(since, _)| since.elapsed() >= MOMENT).collect();
            let is_over = moment.unused.is_empty();
            moment.is_watched = !is_over;
            drop(moment);
            drop(unwanted);
            if is_over {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_huge_buffer_is_used_again_and_given_back_when_nobody_wants_it() {
        static HUGE: Huge = Huge::new();
        let buffer = Vec::with_capacity(10 << 20);
        let place = buffer.as_ptr();
        HUGE.give(buffer);
        assert!(HUGE.take(4 << 20).is_none(), "that is more than twice as large");
        assert!(HUGE.take(11 << 20).is_none(), "that is too small");
        let again = HUGE.take(9 << 20).unwrap();
        assert_eq!(again.as_ptr(), place);
        HUGE.give(again);
        let deadline = Instant::now() + Duration::from_secs(20);
        while !lock(&HUGE.0).unused.is_empty() {
            assert!(Instant::now() < deadline, "it is still kept");
            thread::yield_now();
        }
        assert!(HUGE.take(9 << 20).is_none());
    }

    #[test]
    fn a_buffer_is_used_again_for_what_needs_most_of_it() {
        let pool = Pool::new(2);
        let buffers: Vec<Vec<u8>> = [1000, 1001, 1800].map(Vec::with_capacity).into();
        let places: Vec<_> = buffers.iter().map(|buffer| buffer.as_ptr()).collect();
        buffers.into_iter().for_each(|buffer| pool.give(buffer));
        assert!(pool.take(800).is_some_and(|buffer| buffer.as_ptr() == places[1]));
        assert!(pool.take(800).is_none(), "the oldest has been pushed out, the other is too large");
        assert!(pool.take(1801).is_none());
        assert!(pool.take(900).is_some_and(|buffer| buffer.as_ptr() == places[2]));
        assert!(pool.take(1).is_none());
    }

    /// Answers to one request after the other differ by the digits of its number.
    #[test]
    fn a_large_buffer_fits_what_is_a_little_longer() {
        for size in [CAPACITY + 1, 1_398_258, LARGE - 10] {
            let buffer = take_for(size);
            assert!(buffer.is_empty() && buffer.capacity() >= size + 9, "{}", buffer.capacity());
        }
    }
}
