//! The reading side of a child's output, and the window it is sent through.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Sink, Stream};
use crate::buffers;
use crate::protocol::MAX_CHUNK;
use crate::sys;
use crate::sys::poll::{Interest, Poll, Ready, Waker, wait_for};
use crate::window::Window;

/// A pipe of this size takes a third of the turns that the default of 64 KiB takes between a
/// child that writes without pause and the thread that reads from it.
const PIPE_SIZE: i32 = 256 * 1024;

/// How many chunks of one output are read before the thread looks at anything else.
const CHUNKS_A_TURN: usize = 8;

/// A child's outputs on their way through one window.
pub(super) struct Outputs {
    /// One or two, each with its place in the poll set.
    outputs: Vec<(Output, Option<usize>)>,
    window: Window,
    /// What comes is read and dropped.
    dropping: bool,
    /// The child has exited.
    exited: bool,
    stdout: u64,
    stderr: u64,
    seq: u64,
}

impl Outputs {
    pub(super) fn new(outputs: Vec<Output>, window: Option<u64>) -> Self {
        Self {
            outputs: outputs.into_iter().map(|output| (output, None)).collect(),
            window: Window::new(window),
            dropping: false,
            exited: false,
            stdout: 0,
            stderr: 0,
            seq: 0,
        }
    }

    /// Whether all has been read.
    pub(super) fn ended(&self) -> bool {
        self.outputs.iter().all(|(output, _)| output.from.is_none())
    }

    /// Whether there is something to read at this moment.
    pub(super) fn has_data(&self) -> bool {
        let has_data = |output: &Output| {
            let from = output.from.as_ref()?;
            let told = wait_for(from.as_fd(), Interest::Read, Some(Duration::ZERO));
            told.ok()?.map(|ready| ready.readable)
        };
        self.outputs.iter().any(|(output, _)| has_data(output) == Some(true))
    }

    /// Whether a chunk may be read, the sink being ready for one or not.
    pub(super) fn admits(&self, ready: bool) -> bool {
        self.dropping || (ready && self.window.room() > 0)
    }

    /// Gives bytes back to the window.
    pub(super) fn acknowledge(&mut self, bytes: u64) {
        self.window.acknowledge(bytes);
    }

    /// From now on what comes is read and dropped.
    pub(super) fn drop_the_rest(&mut self) {
        self.dropping = true;
    }

    /// The child has exited: a terminal that nobody has open has ended.
    pub(super) fn child_exited(&mut self) {
        self.exited = true;
        for (output, _) in &mut self.outputs {
            output.look_again = None;
        }
    }

    /// When one that is left alone is to be looked at again.
    pub(super) fn look_again(&self) -> Option<Instant> {
        self.outputs.iter().filter_map(|(output, _)| output.look_again).min()
    }

    /// Closes them. Whoever still writes gets SIGPIPE.
    pub(super) fn close(&mut self) {
        self.outputs.clear();
    }

    /// Bytes of stdout that the sink has been given.
    pub(super) fn stdout_bytes(&self) -> u64 {
        self.stdout
    }

    /// Bytes of stderr that the sink has been given.
    pub(super) fn stderr_bytes(&self) -> u64 {
        self.stderr
    }

    /// The number after that of the last chunk.
    pub(super) fn next_seq(&self) -> u64 {
        self.seq + 1
    }

    /// Adds what there is to wait for: data where `reads`, else only the end.
    pub(super) fn add_to(&mut self, poll: &mut Poll, reads: bool) {
        let now = Instant::now();
        for (output, place) in &mut self.outputs {
            let _due = output.look_again.take_if(|time| *time <= now);
            let interest = output.interest(reads);
            *place = interest.map(|(from, interest)| poll.add(from, interest));
        }
    }

    /// Takes note of what a wait told, data having been asked for where `reads`. Answers whether one
    /// has ended.
    pub(super) fn note(&mut self, poll: &Poll, reads: bool) -> bool {
        let mut has_ended = false;
        for (output, place) in &mut self.outputs {
            match place.map(|place| poll.ready(place)) {
                Some(ready) if ready.any() => {
                    output.note(ready, reads, self.exited);
                    has_ended = has_ended || output.from.is_none();
                }
                _ => *place = None,
            }
        }
        has_ended
    }

    /// Reads what the last wait told of and hands it over. Answers whether anything came.
    pub(super) fn read(&mut self, sink: &mut impl Sink, waker: &Arc<Waker>) -> bool {
        if self.outputs.iter().all(|(_, place)| place.is_none()) {
            return false;
        }
        let mut came = false;
        let mut buffer = buffers::take();
        for index in 0..self.outputs.len() {
            if self.outputs[index].1.is_none() {
                continue;
            }
            // Several chunks in one turn, because a wait costs more than a chunk; not all there
            // is, because orders and the other output wait meanwhile.
            for _ in 0..CHUNKS_A_TURN {
                let room = self.read_chunk(index, &mut buffer, sink, waker);
                came = came || !buffer.is_empty();
                if buffer.is_empty() || buffer.len() < room {
                    break;
                }
            }
        }
        buffers::give(buffer);
        came
    }

    /// Reads and hands over one chunk. Answers how long it might have been.
    fn read_chunk(
        &mut self,
        index: usize,
        buffer: &mut Vec<u8>,
        sink: &mut impl Sink,
        waker: &Arc<Waker>,
    ) -> usize {
        buffer.clear();
        let room = match (self.dropping, self.window.room()) {
            (true, _) => MAX_CHUNK,
            (false, room) if room > 0 && sink.ready(waker) => room.min(MAX_CHUNK),
            _ => return 0,
        };
        let (output, _) = &mut self.outputs[index];
        output.read(buffer, room);
        if !self.dropping && !buffer.is_empty() {
            self.seq += 1;
            *match output.stream {
                Stream::Output => &mut self.stdout,
                Stream::Stderr => &mut self.stderr,
            } += buffer.len() as u64;
            self.window.sent(buffer.len());
            sink.output(output.stream, self.seq, buffer);
        }
        room
    }
}

/// One of a child's outputs.
pub(super) struct Output {
    stream: Stream,
    /// `None` once the end has been seen.
    from: Option<OwnedFd>,
    /// Nobody writes to it any more: what is in it is all that will come. It is not waited for
    /// any more, because a hang-up is told again and again.
    hung_up: bool,
    grown: bool,
    is_terminal: bool,
    /// A terminal that nobody has open, while the process it controls lives, may be opened again
    /// (/dev/tty). It is looked at again then.
    look_again: Option<Instant>,
}

/// How long a terminal that nobody has open is left alone.
const NAP: Duration = Duration::from_millis(50);

impl Output {
    /// The reading end of a pipe.
    pub(super) fn pipe(stream: Stream, from: OwnedFd) -> Self {
        Self {
            stream,
            from: Some(from),
            hung_up: false,
            grown: false,
            is_terminal: false,
            look_again: None,
        }
    }

    /// A terminal's master.
    pub(super) fn terminal(from: OwnedFd) -> Self {
        Self { is_terminal: true, ..Self::pipe(Stream::Output, from) }
    }

    /// What to wait for: data where `reads`, else only the end.
    fn interest(&self, reads: bool) -> Option<(BorrowedFd<'_>, Interest)> {
        let from = self.from.as_ref()?;
        if self.look_again.is_some() {
            return None;
        }
        match (reads, self.hung_up) {
            (true, _) => Some((from.as_fd(), Interest::Read)),
            (false, true) => None,
            (false, false) => Some((from.as_fd(), Interest::HangUp)),
        }
    }

    /// Takes note of what a wait told. The end is seen although nothing may be read at the
    /// moment; data that is still there then waits for its turn.
    fn note(&mut self, ready: Ready, reads: bool, exited: bool) {
        if ready.hung_up && self.is_terminal && !exited {
            if !(reads && ready.readable) {
                self.look_again = Some(Instant::now() + NAP);
            }
        } else if ready.hung_up {
            self.hung_up = true;
            if !(reads && ready.readable) {
                self.end_if_empty();
            }
        }
    }

    /// After a hang-up an empty output has ended. This is looked at once more also where a wait has just told
    /// that there is nothing: the kernel looks for data first and for writers then, and the last of them may have
    /// written and gone in between. And after each chunk: the
    /// one that closes the window may be the last, and then no wait will tell. (The wait itself
    /// is asked, not FIONREAD: a terminal may have bytes on their way that are not counted yet,
    /// and poll(2) waits for these.)
    fn end_if_empty(&mut self) {
        let Some(from) = &self.from else { return };
        let told = wait_for(from.as_fd(), Interest::Read, Some(Duration::ZERO));
        if matches!(told, Ok(Some(ready)) if ready.hung_up && !ready.readable) {
            self.from = None;
        }
    }

    /// Reads one chunk of at most `limit` bytes into the empty `buffer`. Nothing read and not
    /// ended means that there is nothing at the moment.
    fn read(&mut self, buffer: &mut Vec<u8>, limit: usize) {
        let Some(from) = &self.from else { return };
        match sys::fd::read_into(from.as_fd(), buffer, limit.min(MAX_CHUNK)) {
            Ok(0) => self.from = None,
            Ok(count) => {
                // A child with this much to say will have more.
                if count >= MAX_CHUNK / 2 && !self.grown {
                    self.grown = true;
                    sys::fd::grow_pipe(from.as_fd(), PIPE_SIZE);
                }
                if self.hung_up {
                    self.end_if_empty();
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            // EIO is how a terminal tells that nobody has it open; the wait tells it too, and
            // knows whether that is the end.
            Err(_) if self.is_terminal => {}
            Err(_) => self.from = None,
        }
    }
}
