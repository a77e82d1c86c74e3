//! Searching: names (`fs/find`) and lines (`fs/grep`) below a directory, by ripgrep's own libraries.
//!
//! The thing to know: a tree may be of any size, and so may a file. So what is kept is never more
//! than what will be answered, what cannot be among that any more is not looked at, and whoever
//! asked can end the search at any step ([`Leave`]).

mod find;
mod grep;
mod least;
mod lines;
mod running;
#[cfg(feature = "host")]
mod shown;
mod tree;

pub(crate) use find::find;
pub(crate) use grep::grep;
pub(crate) use running::{Running, Searches};
#[cfg(feature = "host")]
pub(crate) use shown::{Shown, show};

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::error::{Error, ErrorKind, Result};
use crate::sys;

/// A pattern or glob of more bytes is refused: it is compiled into something far longer.
const LONGEST_PATTERN: usize = 64 * 1024;
/// An answer is cut off at so many bytes, however many entries it may have.
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// For what is compiled, which is done recursively as deep as patterns may be nested (250).
const STACK: usize = 4 * 1024 * 1024;

/// Whether a search goes on; asked at each step.
#[derive(Default)]
pub(crate) struct Leave(AtomicBool);

impl Leave {
    /// Ends the search at its next step.
    pub(crate) fn end(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn has_ended(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// # Errors
    /// `ECANCELED` once it has ended.
    fn check(&self) -> Result<()> {
        if self.has_ended() {
            let message = "the search was ended before it was done";
            return Err(Error::new(ErrorKind::Os(sys::errno::ECANCELED), message));
        }
        Ok(())
    }
}

/// How many bytes an answer may have of which a message may have `longest`.
fn room(longest: usize) -> usize {
    /// The answer's own frame, its id included.
    const AROUND: usize = 2048;
    longest.saturating_sub(AROUND).min(MOST_BYTES)
}

/// Runs a search on a thread with room for what is compiled.
fn on_own_thread<T: Send>(search: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("search".to_owned()).stack_size(STACK);
        let started = thread.spawn_scoped(scope, search);
        let started =
            started.map_err(|error| Error::io(&error, "cannot make a thread for the search"))?;
        started.join().unwrap_or_else(|_| Err(lost()))
    })
}

/// The error of a thread that has panicked.
fn lost() -> Error {
    Error::new(ErrorKind::Internal, "the search has failed by a bug of the server's")
}

fn check_length(what: &str, pattern: &str) -> Result<()> {
    if pattern.len() > LONGEST_PATTERN {
        let message = format!("{what} has {} bytes, at most {LONGEST_PATTERN}", pattern.len());
        return Err(Error::params(message));
    }
    Ok(())
}

/// How many bytes a value takes as JSON.
fn weigh(value: &impl serde::Serialize) -> usize {
    struct Scale(usize);
    impl io::Write for Scale {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut scale = Scale(1);
    // (Neither the scale nor what is weighed can fail.)
    let _ = serde_json::to_writer(&mut scale, value);
    scale.0
}
