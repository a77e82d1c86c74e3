//! Writes that wait for whoever reads at the far end, and are answered when they have been made.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;

use crate::buffers;
use crate::error::{Error, Result};
use crate::mailbox::{Mailbox, Order, Reply};

/// What is written to.
pub(crate) trait Destination {
    /// Writes what fits, one slice after the other.
    fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// All bytes of a write with `eof` have been written: ends the far end's input.
    fn end(&mut self) -> io::Result<End>;
}

/// How an input ends.
pub(crate) enum End {
    /// It has ended: nothing can be written any more.
    Ended,
    /// By these bytes, which have to be written like others; more may follow them.
    By(Vec<u8>),
}

/// How far [`Writes::advance`] has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// All has been written, or there is no room for more at the moment.
    Open,
    /// The far end's input has ended.
    Ended,
}

/// How many writes are made by one call: whoever reads is woken by each call.
const AT_ONCE: usize = 8;

/// The writes themselves, the oldest first. The mailbox they came through bounds their number and
/// their bytes.
pub(crate) struct Writes<O> {
    queue: VecDeque<Write>,
    mailbox: Arc<Mailbox<O>>,
}

struct Write {
    bytes: Vec<u8>,
    written: usize,
    eof: bool,
    /// What the mailbox has counted for it.
    charged: usize,
    reply: Option<Reply<()>>,
}

impl Write {
    fn is_written(&self) -> bool {
        self.written == self.bytes.len()
    }
}

impl<O: Order> Writes<O> {
    pub(crate) fn new(mailbox: Arc<Mailbox<O>>) -> Self {
        Self { queue: VecDeque::new(), mailbox }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether what waits ends the far end's input.
    pub(crate) fn will_end(&self) -> bool {
        self.queue.back().is_some_and(|last| last.eof)
    }

    /// Queues bytes that nobody waits for, and the end after them.
    pub(crate) fn feed(&mut self, bytes: Vec<u8>) {
        self.queue.push_back(Write { bytes, written: 0, eof: true, charged: 0, reply: None });
    }

    /// Queues a write that came through the mailbox.
    pub(crate) fn push(&mut self, bytes: Vec<u8>, eof: bool, reply: Reply<()>) {
        let charged = bytes.len();
        self.queue.push_back(Write { bytes, written: 0, eof, charged, reply: Some(reply) });
    }

    /// Refuses a write that came through the mailbox.
    pub(crate) fn refuse(&self, bytes: Vec<u8>, reply: Reply<()>, error: Error) {
        self.mailbox.release_write(bytes.len());
        buffers::give(bytes);
        reply(Err(error));
    }

    /// Writes what fits, and then answers the writes that are whole: all at once, because an answer
    /// wakes whoever sends it.
    ///
    /// # Errors
    /// Those of the destination but `EAGAIN`; what waits is still there.
    pub(crate) fn advance(&mut self, to: &mut impl Destination) -> io::Result<Progress> {
        let mut made = Vec::new();
        let progress = self.write_to(to, &mut made);
        for write in made {
            self.finish(write, Ok(()));
        }
        progress
    }

    fn write_to(
        &mut self,
        to: &mut impl Destination,
        made: &mut Vec<Write>,
    ) -> io::Result<Progress> {
        loop {
            while let Some(write) = self.queue.front_mut().filter(|write| write.is_written()) {
                let mut progress = Progress::Open;
                if write.eof {
                    match to.end()? {
                        End::Ended => progress = Progress::Ended,
                        End::By(bytes) => {
                            // More bytes of this write, so that a full terminal is waited for.
                            (write.bytes, write.written, write.eof) = (bytes, 0, false);
                            continue;
                        }
                    }
                }
                made.extend(self.queue.pop_front());
                if progress == Progress::Ended {
                    return Ok(progress);
                }
            }
            let mut slices = [IoSlice::new(&[]); AT_ONCE];
            let mut count = 0;
            for (slice, write) in slices.iter_mut().zip(&self.queue) {
                *slice = IoSlice::new(&write.bytes[write.written..]);
                count += 1;
                if write.eof {
                    break;
                }
            }
            if count == 0 {
                return Ok(Progress::Open);
            }
            let mut written = match to.write(&slices[..count]) {
                Ok(written) => written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Progress::Open);
                }
                Err(error) => return Err(error),
            };
            for write in self.queue.iter_mut().take(count) {
                let its = written.min(write.bytes.len() - write.written);
                write.written += its;
                written -= its;
            }
        }
    }

    /// Refuses all that waits.
    pub(crate) fn refuse_all(&mut self, error: &Error) {
        while let Some(write) = self.queue.pop_front() {
            self.finish(write, Err(error.clone()));
        }
    }

    fn finish(&self, write: Write, result: Result<()>) {
        buffers::give(write.bytes);
        if let Some(reply) = write.reply {
            self.mailbox.release_write(write.charged);
            reply(result);
        }
    }
}
