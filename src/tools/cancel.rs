//! Ending a call from another thread.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::sync::lock;

type Act = Box<dyn FnOnce() + Send>;

/// Ends a call. Clones end the same one.
#[derive(Clone, Default)]
pub struct Cancel {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    is_cancelled: bool,
    next: u64,
    acts: BTreeMap<u64, Act>,
}

/// What is to be done at a cancellation; dropped, it is not.
#[must_use = "dropped, nothing happens at a cancellation"]
pub struct OnCancel {
    cancel: Cancel,
    number: u64,
}

impl Cancel {
    /// One that has not happened.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the call. It still answers, soon.
    pub fn cancel(&self) {
        let mut state = lock(&self.state);
        state.is_cancelled = true;
        let acts = std::mem::take(&mut state.acts);
        // Handed back first: what is done may take its time.
        drop(state);
        acts.into_values().for_each(|act| act());
    }

    /// Whether it has happened.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        lock(&self.state).is_cancelled
    }

    /// Does this when it happens, on the thread that cancels; at once if it has. It must not wait.
    pub fn on_cancel(&self, act: impl FnOnce() + Send + 'static) -> OnCancel {
        let mut state = lock(&self.state);
        let number = state.next;
        state.next += 1;
        if state.is_cancelled {
            drop(state);
            act();
        } else {
            state.acts.insert(number, Box::new(act));
        }
        OnCancel { cancel: self.clone(), number }
    }
}

impl Drop for OnCancel {
    fn drop(&mut self) {
        let act = lock(&self.cancel.state).acts.remove(&self.number);
        drop(act);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn what_is_registered_is_done_once_and_what_is_dropped_never() {
        let (cancel, done) = (Cancel::new(), Arc::new(AtomicUsize::new(0)));
        let count = |by: usize| {
            let done = Arc::clone(&done);
            move || {
                done.fetch_add(by, Ordering::SeqCst);
            }
        };
        let kept = cancel.on_cancel(count(1));
        drop(cancel.on_cancel(count(10)));
        assert!(!cancel.is_cancelled());
        cancel.cancel();
        cancel.cancel();
        drop(kept);
        let late = cancel.on_cancel(count(100));
        assert!(cancel.is_cancelled());
        assert_eq!(done.load(Ordering::SeqCst), 101);
        drop(late);
    }
}
