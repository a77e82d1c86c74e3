//! What an ssh and the far side say on stderr: its end is kept, to tell why something has failed; what a
//! server says is passed on to our own stderr.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::sync::lock;

/// How much is kept, the end of it.
const KEPT: usize = 8 * 1024;
/// How long the last of it is waited for once the program has ended.
const LAST: Duration = Duration::from_millis(200);

/// All that is said. A thread of its own takes it in.
#[derive(Clone)]
pub(crate) struct Said(Arc<(Mutex<Kept>, Condvar)>);

#[derive(Default)]
struct Kept {
    tail: Vec<u8>,
    /// What nobody has been shown, and when the last of it came.
    unshown: Vec<u8>,
    came: Option<Instant>,
    /// The line that ends the noise of start files, if one does.
    marker: Option<Vec<u8>>,
    /// It has come.
    passed_on: bool,
    ended: bool,
}

impl Said {
    /// Takes in what comes from there.
    pub(super) fn follow(from: OwnedFd) -> Result<Self> {
        let said = Self(Arc::default());
        let shared = Arc::clone(&said.0);
        let read = move || {
            let mut from = File::from(from);
            let mut buffer = [0; 1024];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                let passed_on = lock(&shared.0).take(&buffer[..count]);
                let _ = io::stderr().write_all(&passed_on);
            }
            lock(&shared.0).ended = true;
            shared.1.notify_all();
        };
        let thread = thread::Builder::new().name("ssh-stderr".to_owned()).stack_size(64 * 1024);
        let thread = thread.spawn(read);
        thread.map_err(|error| Error::io(&error, "cannot make a thread for ssh"))?;
        Ok(said)
    }

    /// What follows this line is for whoever reads our own stderr; what comes before it is noise.
    pub(super) fn pass_on_after(&self, line: &str) {
        let mut kept = lock(&self.0.0);
        kept.marker = Some(line.as_bytes().to_vec());
        // (It may have come already.)
        let passed_on = kept.take(&[]);
        drop(kept);
        let _ = io::stderr().write_all(&passed_on);
    }

    /// The lines that nobody has been shown, if for so long nothing has followed them.
    pub(super) fn unshown(&self, age: Duration) -> Option<String> {
        let mut kept = lock(&self.0.0);
        kept.came.filter(|came| came.elapsed() >= age)?;
        let end = kept.unshown.iter().rposition(|byte| *byte == b'\n')?;
        let lines: Vec<u8> = kept.unshown.drain(..=end).collect();
        drop(kept);
        let text = String::from_utf8_lossy(&lines).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// The lines of its end, once all of it is there (or a moment has passed).
    pub(crate) fn lines(&self) -> Vec<String> {
        let (kept, ended) = &*self.0;
        let kept = ended.wait_timeout_while(lock(kept), LAST, |kept| !kept.ended);
        let kept = kept.unwrap_or_else(PoisonError::into_inner).0;
        let text = String::from_utf8_lossy(&kept.tail).into_owned();
        drop(kept);
        let lines = text.lines().map(|line| line.trim().to_owned());
        lines.filter(|line| !line.is_empty()).collect()
    }
}

impl Kept {
    /// Takes bytes in; answers those that are to be passed on.
    fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        for all in [&mut self.tail, &mut self.unshown] {
            all.extend_from_slice(bytes);
            all.drain(..all.len().saturating_sub(KEPT));
        }
        self.came = Some(Instant::now());
        if self.passed_on {
            return bytes.to_vec();
        }
        let Some(marker) = &self.marker else { return Vec::new() };
        let found = self.tail.windows(marker.len()).position(|window| window == marker);
        let Some(found) = found else { return Vec::new() };
        self.passed_on = true;
        self.unshown.clear();
        self.tail.drain(..found + marker.len());
        // The end of the marker's line, if it is there already.
        let ends = usize::from(self.tail.first() == Some(&b'\n'));
        self.tail.drain(..ends);
        self.tail.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_before_the_marker_is_noise_and_all_after_it_is_passed_on() {
        let mut kept = Kept::default();
        assert!(kept.take(b"noise\nno end of line").is_empty());
        kept.marker = Some(b"m begin".to_vec());
        assert!(kept.take(b"\nm be").is_empty());
        assert_eq!(kept.take(b"gin\nta: a warning\n"), b"ta: a warning\n");
        assert_eq!(kept.take(b"m begin\n"), b"m begin\n");
        assert_eq!(kept.tail, b"ta: a warning\nm begin\n");
    }
}
