//! Where something comes in that is waited for.
//!
//! (A channel would do, but its ways to wait are some kilobytes of code for every type of answer.)

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::Instant;

use crate::sync::{lock, wait};

/// Reads what is to come, for all who wait for something.
pub(crate) trait Reader: Send + Sync {
    /// Reads until `has_come` says so, the deadline has come, or there is nothing more to read.
    /// `false` where somebody else reads: then the caller may wait for that one to bring it, and says
    /// so when he does not any more ([`Reader::leave`]).
    fn read_until(&self, deadline: Option<Instant>, has_come: &mut dyn FnMut() -> bool) -> bool;

    /// The caller waits for nobody else any more.
    fn leave(&self);
}

/// What comes for one who waits. Where somebody has to read it he may be that one himself.
pub(crate) struct Inbox<T> {
    shared: Arc<Shared<T>>,
    reader: Option<Weak<dyn Reader>>,
}

/// Puts something into an inbox. Dropped, it tells that nothing more will come.
pub(crate) struct Sender<T>(Arc<Shared<T>>);

/// Why nothing has come.
pub(crate) enum Missed {
    /// Not by the deadline.
    Deadline,
    /// Nothing will.
    Gone,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    /// Bounded by who sends: the one answer, or what a window lets through ([`Allowance`]
    /// (super::Allowance) sees to it that a far end keeps to that).
    items: VecDeque<T>,
    waiting: usize,
    sender_is_gone: bool,
    /// Nobody takes anything any more.
    is_unwanted: bool,
}

impl<T> Inbox<T> {
    /// One, and what fills it; `reader` brings what comes, where somebody has to.
    pub(crate) fn new(reader: Option<Weak<dyn Reader>>) -> (Sender<T>, Self) {
        let state =
            State { items: VecDeque::new(), waiting: 0, sender_is_gone: false, is_unwanted: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        (Sender(Arc::clone(&shared)), Self { shared, reader })
    }

    /// Waits for the next one, until the deadline if there is one.
    pub(crate) fn receive(&self, deadline: Option<Instant>) -> Result<T, Missed> {
        let look = || lock(&self.shared.state).take();
        let mut found = look();
        if let Some(found) = found {
            return found;
        }
        let Some(reader) = self.reader.as_ref().and_then(Weak::upgrade) else {
            return self.wait(deadline);
        };
        let mut has_come = || {
            found = look();
            found.is_some()
        };
        if reader.read_until(deadline, &mut has_come) {
            // (Where all is over, it is here too.)
            return found.unwrap_or_else(|| self.wait(deadline));
        }
        let waited = self.wait(deadline);
        reader.leave();
        waited
    }

    fn wait(&self, deadline: Option<Instant>) -> Result<T, Missed> {
        let mut state = lock(&self.shared.state);
        loop {
            if let Some(found) = state.take() {
                return found;
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(Missed::Deadline);
            }
            state.waiting += 1;
            state = wait(&self.shared.changed, state, deadline);
            state.waiting -= 1;
        }
    }
}

impl<T> State<T> {
    /// What is there; `None` where something may still come.
    fn take(&mut self) -> Option<Result<T, Missed>> {
        match self.items.pop_front() {
            Some(item) => Some(Ok(item)),
            None => self.sender_is_gone.then_some(Err(Missed::Gone)),
        }
    }
}

impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.is_unwanted = true;
        let items = std::mem::take(&mut state.items);
        drop(state);
        drop(items);
    }
}

impl<T> Sender<T> {
    /// Never waits. What nobody wants is dropped.
    pub(crate) fn send(&self, item: T) {
        let mut state = lock(&self.0.state);
        if state.is_unwanted {
            drop(state);
            return drop(item);
        }
        state.items.push_back(item);
        let is_awaited = state.waiting > 0;
        drop(state);
        if is_awaited {
            self.0.changed.notify_one();
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.sender_is_gone = true;
        let is_awaited = state.waiting > 0;
        drop(state);
        if is_awaited {
            self.0.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_sent_comes_in_order_and_then_the_end() {
        let (sender, inbox) = Inbox::new(None);
        let past = Instant::now();
        assert!(matches!(inbox.receive(Some(past)), Err(Missed::Deadline)));
        let send = move || (0..1000).for_each(|number| sender.send(number));
        let sending = thread::Builder::new().spawn(send).unwrap();
        let deadline = Some(Instant::now() + Duration::from_secs(20));
        for expected in 0..1000 {
            assert!(inbox.receive(deadline).is_ok_and(|number| number == expected));
        }
        assert!(matches!(inbox.receive(None), Err(Missed::Gone)));
        sending.join().unwrap();
    }

    #[test]
    fn what_nobody_wants_is_dropped() {
        let (sender, inbox) = Inbox::new(None);
        let (before, after) = (Arc::new(()), Arc::new(()));
        sender.send(Arc::clone(&before));
        drop(inbox);
        sender.send(Arc::clone(&after));
        assert_eq!((Arc::strong_count(&before), Arc::strong_count(&after)), (1, 1));
    }
}
