//! Who reads from a connection.
//!
//! Whoever waits for something that comes over it reads himself, as long as he is the only one who
//! waits: to hand a short answer to another thread takes longer than all else that happens to it here.
//! Everybody else is served by whoever reads at the moment; and a thread of the connection's own reads
//! where several wait, and where nobody does.
//!
//! That thread watches the stream without holding the source, so a caller never has to wait for it to
//! let go. When it finds that a caller reads, or has read just now, it stands back for a while: it
//! would be woken by everything that the next caller reads.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::dispatch::Dispatch;
use super::link::Carrier;
use crate::environment::Reader;
use crate::sync::{lock, wait};
use crate::transport::{End, Event, TurnSource, Wait, Watch};

/// How long the thread stands back after a caller has read. Meanwhile nobody may watch the stream:
/// what comes then waits in it for so long, if nobody calls.
const STAND_BACK: Duration = Duration::from_millis(5);

/// How long the thread may take to be done, where somebody waits for that.
const SOON: Duration = Duration::from_secs(1);

/// The receiving side of one connection, in turns.
pub(super) struct Turns {
    dispatch: Arc<Dispatch>,
    carrier: Arc<dyn Carrier>,
    state: Mutex<State>,
    /// For the thread.
    changed: Condvar,
    /// For those who wait for the thread to leave.
    left: Condvar,
}

struct State {
    seat: Seating,
    /// Callers who wait for somebody else to read.
    waiting: usize,
    /// How many turns callers have had.
    turns: u64,
    /// The thread is to read, whoever has read just now.
    wanted: bool,
    /// The thread waits for the seat.
    is_queued: bool,
    /// Those who wait for it to leave.
    awaiting: usize,
}

/// Who has the seat.
enum Seating {
    Nobody(Seat),
    Caller,
    Thread,
    /// All is over, and there is none any more.
    Over,
}

impl State {
    /// Takes the seat for a caller, if nobody else reads or waits.
    fn take_turn(&mut self) -> Option<Seat> {
        if self.waiting > 0 {
            return None;
        }
        let seat = self.take(Seating::Caller)?;
        self.turns += 1;
        Some(seat)
    }

    fn take(&mut self, by: Seating) -> Option<Seat> {
        match std::mem::replace(&mut self.seat, by) {
            Seating::Nobody(seat) => Some(seat),
            other => {
                self.seat = other;
                None
            }
        }
    }
}

/// What one has while he reads.
struct Seat {
    source: Box<dyn TurnSource>,
    /// Whether anything of the protocol has come.
    has_spoken: bool,
}

impl Turns {
    /// Starts the thread.
    pub(super) fn start(
        source: Box<dyn TurnSource>,
        dispatch: Arc<Dispatch>,
        carrier: Arc<dyn Carrier>,
    ) -> io::Result<Arc<Self>> {
        let watch = source.watch();
        let state = State {
            seat: Seating::Nobody(Seat { source, has_spoken: false }),
            waiting: 0,
            turns: 0,
            wanted: false,
            is_queued: false,
            awaiting: 0,
        };
        let (state, changed, left) = (Mutex::new(state), Condvar::new(), Condvar::new());
        let turns = Arc::new(Self { dispatch, carrier, state, changed, left });
        let own = Arc::clone(&turns);
        let run = move || own.run(&watch);
        thread::Builder::new().name("client".to_owned()).spawn(run)?;
        Ok(turns)
    }

    /// Takes in what is there already, where nobody watches the stream. So a connection that has ended
    /// is known to have ended before anything is sent on it.
    pub(super) fn catch_up(&self) {
        let now = Instant::now();
        let mut state = lock(&self.state);
        // It may be about to find the end, and is soon done. (Where others wait, it is there all the time.)
        let reads = |state: &mut State| matches!(state.seat, Seating::Thread) && state.waiting == 0;
        if reads(&mut state) {
            state.awaiting += 1;
            let waited = self.left.wait_timeout_while(state, SOON, reads);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.awaiting -= 1;
        }
        let seat = state.take_turn();
        drop(state);
        if let Some(seat) = seat {
            self.read(seat, Wait::Until(now), || false);
        }
    }

    fn run(&self, watch: &Watch) {
        let mut seen = 0;
        while let Some(seat) = self.take_seat(&mut seen) {
            self.read(seat, Wait::Until(Instant::now()), || false);
            if watch.wait().is_err() {
                // The source tells it too, to whoever reads.
                thread::sleep(STAND_BACK);
            }
        }
    }

    /// Takes the seat for the thread, when it is time. `None` when all is over.
    fn take_seat(&self, seen: &mut u64) -> Option<Seat> {
        let mut state = lock(&self.state);
        loop {
            if matches!(state.seat, Seating::Over) {
                return None;
            }
            let has_called = std::mem::replace(seen, state.turns) != state.turns;
            let is_needed = state.wanted || state.waiting > 0;
            if has_called && !is_needed {
                // (It ends early when it is wanted.)
                state = wait(&self.changed, state, Some(Instant::now() + STAND_BACK));
                continue;
            }
            if let Some(seat) = state.take(Seating::Thread) {
                state.wanted = false;
                return Some(seat);
            }
            state.is_queued = true;
            state = wait(&self.changed, state, None);
            state.is_queued = false;
            // Who has just left may come again.
            *seen = state.turns.wrapping_sub(1);
        }
    }

    /// Takes in what comes until that is enough, or nothing more comes within the wait; then others
    /// may read.
    fn read(&self, mut seat: Seat, wait: Wait, mut is_enough: impl FnMut() -> bool) {
        let mut has_looked = false;
        let end = loop {
            // What has been read is taken in whole: it would not be seen in the stream.
            let read = match seat.source.next_within(Wait::Not) {
                // (When it is late the stream is looked at once: there may always be more in it.)
                None if is_enough() || has_looked && wait.is_over() => break None,
                None => {
                    has_looked = true;
                    seat.source.next_within(wait)
                }
                event => event,
            };
            match read {
                Some(Event::Message(text)) => {
                    seat.has_spoken = seat.has_spoken || super::speaks(text);
                    self.dispatch.receive(text);
                }
                Some(Event::TooLong | Event::NotText(_)) => {}
                Some(Event::End(end)) => break Some(end),
                None => break None,
            }
        };
        match end {
            // A peer that does not stop sending is not listened to when it has been closed.
            None if self.dispatch.ended().is_some() => self.end(seat, &End::Closed),
            None => self.leave(seat),
            Some(end) => self.end(seat, &end),
        }
    }

    fn leave(&self, seat: Seat) {
        let mut state = lock(&self.state);
        state.wanted |= state.waiting > 0;
        let calls_thread = state.wanted || state.is_queued;
        state.seat = Seating::Nobody(seat);
        self.tell_left(state);
        if calls_thread {
            self.changed.notify_one();
        }
    }

    fn tell_left(&self, state: MutexGuard<'_, State>) {
        let is_awaited = state.awaiting > 0;
        drop(state);
        if is_awaited {
            self.left.notify_all();
        }
    }

    fn end(&self, seat: Seat, end: &End) {
        let has_spoken = seat.has_spoken;
        drop(seat);
        // Whoever has closed it himself has told everybody why.
        if self.dispatch.ended().is_none() {
            self.dispatch.lose(end, self.carrier.explain(end), has_spoken);
        }
        let mut state = lock(&self.state);
        state.seat = Seating::Over;
        self.tell_left(state);
        self.changed.notify_one();
    }
}

impl Reader for Turns {
    fn read_until(&self, deadline: Option<Instant>, has_come: &mut dyn FnMut() -> bool) -> bool {
        let mut state = lock(&self.state);
        let Some(seat) = state.take_turn() else {
            state.waiting += 1;
            return false;
        };
        drop(state);
        self.read(seat, deadline.map_or(Wait::Forever, Wait::Until), has_come);
        true
    }

    fn leave(&self) {
        lock(&self.state).waiting -= 1;
    }
}
