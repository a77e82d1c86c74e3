//! The writer thread: takes what waits in the two lanes, a batch at a time, and writes it.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_channel::{Receiver, Sender, select};

use super::direct::Direct;
use super::outbox::{HEADROOM, Item, OUTPUT_LANE, Waiters};
use super::ws;
use crate::buffers;
use crate::metrics::Traffic;
use crate::sys::poll::{Interest, wait_for};

/// At most this much is given to one write.
const BATCH_BYTES: usize = 512 * 1024;
const BATCH_ITEMS: usize = 64;
/// At most this much is given to one write of a stream that is waited for.
const PIECE: usize = 256 * 1024;

/// A stream's sending side.
pub(crate) trait Target: Write + AsFd + Send {
    /// The socket that it is, if it is one that others may write to.
    fn shared(&self) -> Option<Arc<TcpStream>> {
        None
    }

    /// Says what comes after the last bytes, where the stream has such a thing.
    ///
    /// # Errors
    /// Those of a write.
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Target for SharedSocket {
    fn shared(&self) -> Option<Arc<TcpStream>> {
        Some(Arc::clone(&self.0))
    }
}

impl Target for std::os::unix::net::UnixStream {}
impl Target for std::fs::File {}

/// The sending side of a socket of which others hold the receiving side, or a hand on the brake:
/// one descriptor for all of them.
pub(crate) struct SharedSocket(pub(crate) Arc<TcpStream>);

impl Write for SharedSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.as_ref().write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.as_ref().write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for SharedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// How messages are told apart on the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// WebSocket text frames, as a server sends them.
    WebSocketServer,
    /// The same as a client sends them: masked.
    WebSocketClient,
    /// A line each.
    Lines,
}

/// What the thread shares with those who send.
pub(super) struct Shared {
    pub(super) waiters: Arc<Waiters>,
    pub(super) traffic: Arc<Traffic>,
    pub(super) direct: Arc<Direct>,
    /// How many answers wait for output.
    pub(super) late: Arc<AtomicUsize>,
}

/// The thread that owns a stream's sending side.
pub(super) struct Writer {
    target: Box<dyn Target>,
    framing: Framing,
    control: Receiver<Item>,
    output: Receiver<Item>,
    shared: Shared,
    /// Frames to write, and where each starts in its buffer.
    batch: Vec<(Vec<u8>, usize)>,
    barriers: Vec<Sender<()>>,
    /// Dropped when the batch has been written.
    shares: Vec<Box<dyn Send>>,
    last: bool,
    /// Items of the batch, those included that are no bytes.
    items: usize,
    /// Items taken from the output lane so far.
    outputs: u64,
    /// What is to be written when so many have been taken.
    late: VecDeque<(u64, Vec<u8>)>,
}

impl Writer {
    pub(super) fn new(
        target: Box<dyn Target>,
        framing: Framing,
        control: Receiver<Item>,
        output: Receiver<Item>,
        shared: Shared,
    ) -> Self {
        Self {
            target,
            framing,
            control,
            output,
            shared,
            batch: Vec::new(),
            barriers: Vec::new(),
            shares: Vec::new(),
            last: false,
            items: 0,
            outputs: 0,
            late: VecDeque::new(),
        }
    }

    /// Who waits for room in the output lane.
    pub(super) fn waiters(&self) -> Arc<Waiters> {
        Arc::clone(&self.shared.waiters)
    }

    /// Writes until it is told to stop, or a write fails.
    pub(super) fn run(&mut self) -> io::Result<()> {
        // A write to a pipe ends when all of it is in the pipe, and only then it is known that the
        // peer takes something.
        let most = if self.framing == Framing::Lines { PIECE } else { usize::MAX };
        while self.collect() {
            if let Some(rest) = self.shared.direct.take() {
                let frame = [(rest.buffer, rest.start)];
                write_all(self.target.as_mut(), &frame, most, &self.shared.traffic)?;
                frame.into_iter().for_each(|(buffer, _)| buffers::give(buffer));
            }
            write_all(self.target.as_mut(), &self.batch, most, &self.shared.traffic)?;
            for (buffer, _) in self.batch.drain(..) {
                buffers::give(buffer);
            }
            self.shares.clear();
            if self.last {
                self.target.finish()?;
            }
            for barrier in self.barriers.drain(..) {
                let _ = barrier.send(());
            }
            if self.last {
                return Ok(());
            }
            self.shared.direct.done(std::mem::take(&mut self.items));
            self.shared.direct.give_back();
        }
        Ok(())
    }

    /// Waits for something to write and takes what is there. `false` when nothing will come.
    fn collect(&mut self) -> bool {
        if self.output.is_empty() {
            // Whoever was woken for room and did not use it must not leave the others waiting.
            self.shared.waiters.wake(usize::MAX);
        }
        let mut taken = 0;
        let first = select! {
            recv(self.control) -> item => item.map(|item| (item, false)),
            recv(self.output) -> item => item.map(|item| (item, true)),
        };
        let Ok((item, is_output)) = first else { return false };
        let mut bytes = 0;
        let mut next = Some((item, is_output));
        while let Some((item, is_output)) = next {
            if is_output {
                taken += 1;
                while let Ok(item) = self.control.try_recv() {
                    bytes += self.add(item);
                }
            }
            bytes += self.add(item);
            if is_output {
                self.outputs += 1;
                self.add_late(self.outputs);
            }
            let full = self.last || bytes >= BATCH_BYTES || self.batch.len() >= BATCH_ITEMS;
            next = if full { None } else { self.try_next() };
        }
        if self.output.is_empty() {
            // Nothing is left that they could wait for.
            self.add_late(u64::MAX);
        }
        self.shared.waiters.wake(taken);
        true
    }

    fn try_next(&self) -> Option<(Item, bool)> {
        let control = self.control.try_recv().map(|item| (item, false));
        control.or_else(|_| self.output.try_recv().map(|item| (item, true))).ok()
    }

    /// Adds what was to be written after so many items of output.
    fn add_late(&mut self, outputs: u64) {
        while self.late.front().is_some_and(|(after, _)| *after <= outputs) {
            let Some((_, buffer)) = self.late.pop_front() else { return };
            self.shared.late.fetch_sub(1, Ordering::Relaxed);
            if !self.last {
                self.batch.push(self.framing.seal(buffer));
            }
        }
    }

    fn add(&mut self, item: Item) -> usize {
        self.items += 1;
        let (buffer, start) = match item {
            // Also after the last bytes: whoever waits for these waits for them to be written.
            Item::Barrier(sender) => {
                self.barriers.push(sender);
                return 0;
            }
            _ if self.last => return 0,
            Item::Message(buffer, share) => {
                self.shares.extend(share);
                self.framing.seal(buffer)
            }
            Item::Raw(bytes) => (bytes, 0),
            Item::Last(bytes) => {
                self.last = true;
                (bytes, 0)
            }
            // The rest is taken with the baton.
            Item::Rest => return 0,
            // All that is in the lane now has been taken after as many as fit into it, and the one
            // that has been taken already.
            Item::After(buffer) => {
                self.late.push_back((self.outputs + OUTPUT_LANE as u64 + 1, buffer));
                return 0;
            }
            Item::Stop => {
                self.last = true;
                return 0;
            }
        };
        let size = buffer.len() - start;
        self.batch.push((buffer, start));
        size
    }
}

impl Framing {
    /// The mask of the next frame, where there has to be one.
    fn mask(self) -> Option<[u8; 4]> {
        (self == Self::WebSocketClient).then(ws::new_mask)
    }

    /// A frame of the transport's own, where that has such a thing.
    pub(super) fn control(self, what: ws::Control, payload: &[u8]) -> Option<Vec<u8>> {
        (self != Self::Lines).then(|| ws::control(what, payload, self.mask()))
    }

    /// Completes a message's frame; answers where it starts.
    pub(super) fn seal(self, mut buffer: Vec<u8>) -> (Vec<u8>, usize) {
        let start = match self {
            Self::WebSocketServer | Self::WebSocketClient => {
                ws::write_header(&mut buffer, self.mask())
            }
            Self::Lines => {
                buffer.push(b'\n');
                HEADROOM
            }
        };
        (buffer, start)
    }
}

/// How many of the slices have no more than `most` bytes together.
pub(super) fn within(slices: &[IoSlice<'_>], most: usize) -> usize {
    let mut left = most;
    let mut fits = |slice: &&IoSlice<'_>| {
        let fits = slice.len() <= left;
        left = left.saturating_sub(slice.len());
        fits
    };
    slices.iter().take_while(|slice| fits(slice)).count()
}

/// Writes all frames with as few calls as it takes, and waits where the stream, which may have
/// been made non-blocking by whoever shares it, has no room.
fn write_all(
    target: &mut dyn Target,
    batch: &[(Vec<u8>, usize)],
    most: usize,
    traffic: &Traffic,
) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> =
        batch.iter().map(|(buffer, start)| IoSlice::new(&buffer[*start..])).collect();
    let mut slices = slices.as_mut_slice();
    // Empty frames would make a write of nothing look like a closed stream.
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        let written = match &*slices {
            [long, ..] if long.len() > most => target.write(&long[..most]),
            slices if most == usize::MAX => target.write_vectored(slices),
            slices => target.write_vectored(&slices[..within(slices, most)]),
        };
        match written {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                IoSlice::advance_slices(&mut slices, count);
                traffic.send(count);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait_for(target.as_fd(), Interest::Write, None)?;
            }
            Err(error) => return Err(error),
        }
    }
    target.flush()
}
