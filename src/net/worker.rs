//! The thread of one connection: it makes it, waits in one place for whatever comes next (data,
//! room, an order, the window), and tells the sink.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use super::dial::{Dial, Made};
use super::order::{Mailbox, Order, already_ended, cannot_write, closed_by_host};
use super::socket::{self, Behind};
use super::{Closer, Counts, Endpoint, Remains, Sink, Terms};
use crate::buffers;
use crate::error::{Error, ErrorKind, Result};
use crate::mailbox::Reply;
use crate::protocol::MAX_CHUNK;
use crate::sys;
use crate::sys::poll::{Interest, Poll};
use crate::threads;
use crate::window::Window;
use crate::writes::{Destination, End, Progress, Writes};

/// How many chunks are read before the thread looks at anything else.
const CHUNKS_A_TURN: usize = 8;

/// On Linux a hang-up means that both halves are gone. Elsewhere the end of what the far end sends
/// may be told as one.
const HANG_UP_IS_FINAL: bool = cfg!(target_os = "linux");

pub(super) fn start<S: Sink>(
    endpoint: Endpoint,
    terms: Terms,
    mailbox: Arc<Mailbox<S::Closer>>,
    sink: S,
) {
    let what = format!("cannot make a thread for the connection to {endpoint}");
    let started = threads::run_on(sink, move |sink| run(endpoint, &terms, &mailbox, sink));
    if let Err((error, Some(mut sink))) = started {
        sink.failed(Error::io(&error, what), Vec::new(), Remains::Nothing);
    }
}

fn run<S: Sink>(endpoint: Endpoint, terms: &Terms, mailbox: &Arc<Mailbox<S::Closer>>, mut sink: S) {
    let shown = endpoint.to_string();
    let mut worker = Worker::new(mailbox, terms, shown);
    match Dial::new(endpoint, terms, mailbox.waker()) {
        Ok(mut dial) => match worker.connect(&mut dial) {
            Ok((socket, remote)) => {
                drop(dial);
                worker.socket = Some(Socket(socket));
                sink.connected(remote);
                worker.advance();
                worker.relay(&mut sink);
                worker.finish(&mut sink);
            }
            Err(error) => {
                let remains = if dial.is_looking_up() { Remains::Lookup } else { Remains::Nothing };
                worker.give_up(error, &mut sink, remains);
                worker.outlast(&mut dial);
            }
        },
        Err(error) => worker.give_up(error, &mut sink, Remains::Nothing),
    }
}

pub(super) struct Worker<'a, C> {
    pub(super) mailbox: &'a Arc<Mailbox<C>>,
    /// Where it leads, for messages.
    shown: String,
    /// `None` until it is made, and after its end.
    pub(super) socket: Option<Socket>,
    writes: Writes<Order<C>>,
    window: Window,
    /// The far end has finished sending, or will not be heard any more.
    received_all: bool,
    /// The sending half is closed, or of no use any more.
    sent_all: bool,
    /// There is data that the window does not let through: no use in waiting for more.
    data_waits: bool,
    /// What it failed of. A socket tells that once.
    pub(super) failure: Option<Error>,
    /// Who has asked for it to be closed.
    pub(super) closers: Vec<C>,
    /// The host has gone: nobody is told anything.
    pub(super) abandoned: bool,
    pub(super) counts: Arc<Counts>,
    pub(super) poll: Poll,
}

impl<'a, C: Closer> Worker<'a, C> {
    fn new(mailbox: &'a Arc<Mailbox<C>>, terms: &Terms, shown: String) -> Self {
        Self {
            mailbox,
            shown,
            socket: None,
            writes: Writes::new(Arc::clone(mailbox)),
            window: Window::new(terms.window),
            received_all: false,
            sent_all: false,
            data_waits: false,
            failure: None,
            closers: Vec::new(),
            abandoned: false,
            counts: Arc::clone(&terms.counts),
            poll: Poll::default(),
        }
    }

    /// Waits until it is made. Writes that come meanwhile wait for that.
    fn connect(&mut self, dial: &mut Dial) -> Result<Made> {
        loop {
            self.obey();
            if self.abandoned {
                let message =
                    format!("the host has gone, and the connection to {} with it", self.shown);
                return Err(Error::new(ErrorKind::Internal, message));
            }
            if self.is_closed() {
                return Err(closed_by_host(self.mailbox.id()));
            }
            if let Some(outcome) = dial.advance() {
                return outcome;
            }
            self.poll.clear();
            let woken = self.poll.add(self.mailbox.waker().as_fd(), Interest::Read);
            dial.add_to(&mut self.poll);
            self.pause(woken, Some(dial.wake_up()));
            if let Some(made) = dial.note(&self.poll) {
                return Ok(made);
            }
        }
    }

    /// Passes on what comes, both ways, until both halves are closed and the sink is ready to hear
    /// that; or until the host has closed it, or has gone.
    fn relay<S: Sink<Closer = C>>(&mut self, sink: &mut S) {
        loop {
            self.obey();
            let ready = sink.ready(self.mailbox.waker());
            let over = self.received_all && self.sent_all && ready;
            if self.abandoned || self.is_closed() || over {
                return;
            }
            if self.wait(ready) {
                self.receive(sink);
            }
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        !self.closers.is_empty()
    }

    fn obey(&mut self) {
        if self.mailbox.has_ended() {
            self.abandoned = true;
            return;
        }
        self.window.acknowledge(self.mailbox.take_acknowledged());
        let orders = self.mailbox.take_orders();
        let came = !orders.is_empty();
        for order in orders {
            match order {
                Order::Write { bytes, eof, reply } => self.take(bytes, eof, reply),
                Order::Close(closer) => {
                    // What was sent before it gets its chance.
                    self.advance();
                    self.closers.push(closer);
                }
            }
        }
        if came {
            self.advance();
        }
    }

    fn take(&mut self, bytes: Vec<u8>, eof: bool, reply: Reply<()>) {
        let id = self.mailbox.id();
        let refusal = match &self.failure {
            _ if self.is_closed() => Some(closed_by_host(id)),
            Some(failure) if self.sent_all => Some(failure.clone()),
            _ if self.sent_all || self.writes.will_end() => Some(already_ended(id)),
            _ => None,
        };
        match refusal {
            Some(error) => self.writes.refuse(bytes, reply, error),
            None => self.writes.push(bytes, eof, reply),
        }
    }

    /// Writes what fits.
    fn advance(&mut self) {
        let Some(socket) = self.socket.as_mut().filter(|_| !self.sent_all) else { return };
        match self.writes.advance(socket) {
            Ok(Progress::Open) => {}
            Ok(Progress::Ended) => self.stop_sending(&already_ended(self.mailbox.id())),
            Err(error) => {
                let error = Error::io(&error, cannot_write(self.mailbox.id()));
                self.stop_sending(&error);
                // What the far end sent before it failed is still there to be read.
                self.failure.get_or_insert(error);
            }
        }
    }

    pub(super) fn stop_sending(&mut self, error: &Error) {
        self.sent_all = true;
        self.writes.refuse_all(error);
    }

    /// Nothing more can be read or written.
    fn fail(&mut self, error: &io::Error) {
        let what = format!("connection {:?} to {} has failed", self.mailbox.id(), self.shown);
        let error = Error::io(error, what);
        self.received_all = true;
        self.stop_sending(&error);
        self.failure.get_or_insert(error);
    }

    /// Waits for something to happen, and writes if there is room. Answers whether there may be
    /// something to read.
    fn wait(&mut self, ready: bool) -> bool {
        let open = self.window.room() > 0;
        let reads = ready && !self.received_all && (open || !self.data_waits);
        let writes = !self.sent_all && !self.writes.is_empty();
        let hang_up = self.received_all && !self.sent_all && HANG_UP_IS_FINAL;
        // A hang-up is told again and again, so the socket is left out where nobody would act.
        let interest = match (reads, writes) {
            (true, true) => Some(Interest::Both),
            (true, false) => Some(Interest::Read),
            (false, true) => Some(Interest::Write),
            (false, false) => hang_up.then_some(Interest::HangUp),
        };
        self.poll.clear();
        let woken = self.poll.add(self.mailbox.waker().as_fd(), Interest::Read);
        let place = match (&self.socket, interest) {
            (Some(socket), Some(interest)) => Some(self.poll.add(socket.0.as_fd(), interest)),
            _ => None,
        };
        self.pause(woken, None);
        let told = place.map(|place| self.poll.ready(place)).unwrap_or_default();
        if writes && (told.writable || told.hung_up) {
            self.advance();
        }
        if hang_up && told.hung_up && !self.sent_all {
            self.far_end_is_gone();
        }
        reads && (told.readable || told.hung_up)
    }

    pub(super) fn pause(&mut self, woken: usize, until: Option<Instant>) {
        if self.poll.wait(until).is_err() {
            // poll(2) fails for want of memory alone. Going on would spin, so give way first.
            thread::yield_now();
        }
        if self.poll.ready(woken).any() {
            self.mailbox.waker().reset();
        }
    }

    /// After its end of data: it takes nothing any more either.
    fn far_end_is_gone(&mut self) {
        let Some(socket) = &self.socket else { return };
        match socket::failure(socket.0.as_fd()) {
            Some(error) => self.fail(&error.into()),
            None => self.stop_sending(&already_ended(self.mailbox.id())),
        }
    }

    fn receive<S: Sink<Closer = C>>(&mut self, sink: &mut S) {
        let mut buffer = buffers::take();
        // Several chunks in one turn, because a wait costs more than a chunk; not all there is,
        // because orders wait meanwhile.
        for _ in 0..CHUNKS_A_TURN {
            let room = self.window.room().min(MAX_CHUNK);
            let Some(socket) = &self.socket else { break };
            if self.received_all || !sink.ready(self.mailbox.waker()) {
                break;
            }
            if room == 0 {
                self.look_behind(sink);
                break;
            }
            buffer.clear();
            self.data_waits = false;
            match sys::fd::read_into(socket.0.as_fd(), &mut buffer, room) {
                Ok(0) => self.end_of_data(sink),
                Ok(count) => {
                    self.window.sent(count);
                    sink.data(&buffer);
                    if count < room {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => self.fail(&error),
            }
        }
        buffers::give(buffer);
    }

    fn end_of_data<S: Sink<Closer = C>>(&mut self, sink: &mut S) {
        self.received_all = true;
        // A socket whose failure a write has taken away looks as if it had ended. (EPIPE is what a
        // write hears of a far end that had finished before it went.)
        let pipe = ErrorKind::Os(sys::errno::EPIPE);
        if self.failure.as_ref().is_none_or(|failure| *failure.kind() == pipe) {
            sink.end_of_data();
        }
    }

    /// The end, which takes no room, is seen with a closed window too.
    fn look_behind<S: Sink<Closer = C>>(&mut self, sink: &mut S) {
        let Some(socket) = &self.socket else { return };
        match socket::look(socket.0.as_fd()) {
            Ok(Behind::Nothing) => {}
            Ok(Behind::Data) => self.data_waits = true,
            Ok(Behind::End) => self.end_of_data(sink),
            Err(error) => self.fail(&error.into()),
        }
    }

    /// It was not made.
    fn give_up<S: Sink<Closer = C>>(&mut self, error: Error, sink: &mut S, remains: Remains) {
        self.writes.refuse_all(&error);
        self.refuse(self.mailbox.close_and_take());
        sink.failed(error, std::mem::take(&mut self.closers), remains);
    }

    /// A look-up that is still running keeps the place of its connection, so that they cannot
    /// pile up; the host's end is not held up by that.
    fn outlast(&mut self, dial: &mut Dial) {
        while dial.is_looking_up() && !self.mailbox.has_ended() {
            self.wait_for_wake();
        }
    }

    pub(super) fn wait_for_wake(&mut self) {
        self.poll.clear();
        let woken = self.poll.add(self.mailbox.waker().as_fd(), Interest::Read);
        self.pause(woken, None);
    }
}

pub(super) struct Socket(pub(super) OwnedFd);

impl Destination for Socket {
    fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        sys::fd::write_slices(self.0.as_fd(), slices)
    }

    fn end(&mut self) -> io::Result<End> {
        socket::end_sending(self.0.as_fd())?;
        Ok(End::Ended)
    }
}
