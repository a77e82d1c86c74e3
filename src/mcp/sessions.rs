//! The sessions of agents that come by HTTP.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::server::{Server, Session};
use crate::sync::lock;
use crate::sys::host::random_number;

/// The most at a time. An agent that has left without a word leaves one behind; the one that was
/// used longest ago makes room.
const MOST: usize = 64;

/// The sessions, by their ids.
#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<String, Entry>>);

struct Entry {
    session: Arc<Session>,
    used: Instant,
}

impl Sessions {
    /// Begins one; none where there are too many that do something.
    pub(super) fn begin(&self, server: &Arc<Server>) -> Option<(String, Arc<Session>)> {
        let id = format!("{:016x}{:016x}", random_number(), random_number());
        let session = Session::new(server);
        let mut sessions = lock(&self.0);
        if sessions.len() >= MOST {
            let idle = sessions.iter().filter(|(_, entry)| !entry.session.is_busy());
            let oldest = idle.min_by_key(|(_, entry)| entry.used).map(|(id, _)| id.clone())?;
            sessions.remove(&oldest);
        }
        let entry = Entry { session: Arc::clone(&session), used: Instant::now() };
        sessions.insert(id.clone(), entry);
        Some((id, session))
    }

    /// The one with this id.
    pub(super) fn find(&self, id: &str) -> Option<Arc<Session>> {
        let mut sessions = lock(&self.0);
        let entry = sessions.get_mut(id)?;
        entry.used = Instant::now();
        Some(Arc::clone(&entry.session))
    }

    /// Ends one, with what it has under way. `false` where there is none.
    pub(super) fn remove(&self, id: &str) -> bool {
        let removed = lock(&self.0).remove(id);
        removed.inspect(|entry| entry.session.end()).is_some()
    }

    /// Ends them all.
    pub(super) fn end(&self) {
        let all: Vec<_> = lock(&self.0).drain().collect();
        all.iter().for_each(|(_, entry)| entry.session.end());
    }
}
