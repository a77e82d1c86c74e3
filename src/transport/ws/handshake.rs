//! A client's handshake, over a stream that tungstenite reads and writes.

use std::io::{self, Read, Write};
use std::time::Instant;

use crate::sys;
use crate::transport::http::end_of_head;
use crate::transport::{Stream, Wait};

/// The longest head of an answer that is waited for.
const LONGEST: usize = 64 * 1024;

/// Gives the head of the server's answer, and nothing of what has come behind it.
pub(crate) struct Handshake {
    stream: Stream,
    /// All of it has one deadline, however slowly the answer drips.
    deadline: Instant,
    /// What has been read.
    read: Vec<u8>,
    /// How much of it is the head, once all of that has come.
    head: Option<usize>,
    given: usize,
}

impl Handshake {
    pub(crate) fn new(stream: Stream, deadline: Instant) -> Self {
        Self { stream, deadline, read: Vec::with_capacity(LONGEST), head: None, given: 0 }
    }

    /// The stream, and what has been read of it behind the head.
    pub(super) fn into_rest(mut self) -> (Stream, Vec<u8>) {
        (self.stream, self.read.split_off(self.given))
    }

    fn mind_deadline(&self) -> io::Result<()> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            // What a read that waits for too long answers, too.
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.stream.socket().set_read_timeout(Some(left))
    }

    /// Waits until the whole head has come; answers its length. (The library takes one that comes in
    /// many small pieces, as over a slow line, for an attack.)
    fn await_head(&mut self) -> io::Result<usize> {
        loop {
            if let Some(end) = end_of_head(&self.read) {
                return Ok(end);
            }
            if self.read.len() >= LONGEST {
                return Err(io::Error::other("the head of its answer does not end"));
            }
            self.mind_deadline()?;
            // (The kernel does not take up a read with a timeout again, whatever has interrupted it: a
            // stop and its end, or SIGCHLD for a child of another thread.)
            let read = || {
                let read = self.stream.read(&mut self.read, LONGEST, Wait::Forever);
                if self.stream.owes_a_write() {
                    self.stream.flush()?;
                }
                read
            };
            if sys::retry(read)? == 0 {
                return Ok(self.read.len());
            }
        }
    }
}

impl Read for Handshake {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let head = self.head.map_or_else(|| self.await_head(), Ok)?;
        self.head = Some(head);
        let count = (&self.read[self.given..head]).read(buffer)?;
        self.given += count;
        Ok(count)
    }
}

impl Write for Handshake {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
