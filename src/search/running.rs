//! The searches that run, and their end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::Leave;
use crate::protocol::ProcessId;
use crate::sync::lock;

/// The searches of one owner: a connection, an environment.
#[derive(Clone, Default)]
pub(crate) struct Searches(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    running: HashMap<u64, Arc<Leave>>,
    by_id: HashMap<ProcessId, u64>,
    next: u64,
    has_ended: bool,
}

/// A search that runs, or waits for its turn; dropped, it is none any more.
pub(crate) struct Running {
    searches: Searches,
    number: u64,
    id: Option<ProcessId>,
    leave: Arc<Leave>,
}

impl Searches {
    /// Takes a search in. An id that is in use from then on leads to the newer one: whoever hands
    /// them out sees to that.
    pub(crate) fn begin(&self, id: Option<ProcessId>) -> Running {
        let leave = Arc::new(Leave::default());
        let mut state = lock(&self.0);
        if state.has_ended {
            leave.end();
        }
        let number = state.next;
        state.next += 1;
        state.running.insert(number, Arc::clone(&leave));
        if let Some(id) = &id {
            state.by_id.insert(id.clone(), number);
        }
        drop(state);
        Running { searches: self.clone(), number, id, leave }
    }

    /// Ends the search of that id. `false` where there is none.
    pub(crate) fn end(&self, id: &ProcessId) -> bool {
        let state = lock(&self.0);
        let running = state.by_id.get(id).and_then(|number| state.running.get(number));
        running.map(|leave| leave.end()).is_some()
    }

    /// Ends all of them, and those that are still to come.
    pub(crate) fn end_all(&self) {
        let mut state = lock(&self.0);
        state.has_ended = true;
        state.running.values().for_each(|leave| leave.end());
    }
}

impl Running {
    /// What it asks whether it is to go on.
    pub(crate) fn leave(&self) -> &Leave {
        &self.leave
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = lock(&self.searches.0);
        state.running.remove(&self.number);
        if let Some(id) = &self.id
            && state.by_id.get(id) == Some(&self.number)
        {
            state.by_id.remove(id);
        }
    }
}
