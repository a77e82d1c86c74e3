//! Finding them all, and ending them, although they may be forking meanwhile.
//!
//! First everything is stopped, until a look at all processes finds nothing new: what is stopped
//! has no more children, and keeps those it has. Only then it is killed. (Killing at once would
//! give a fork bomb that has come to the limit on processes the room to go on, and would lose sight
//! of the children of whatever bears no mark.)
//!
//! No stranger is hit, whatever number is used again: a process is taken hold of first, and looked
//! at then, so what has been looked at is what is signalled, or has gone.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::mark::Pattern;
use super::pids;
use crate::sys::child::Group;
use crate::sys::handle::Handle;
use crate::sys::signal;

/// How long one process is waited for before all are looked at again.
const GLANCE: Duration = Duration::from_millis(10);

/// Ends what bears the mark, the groups of `leaders`, and the descendants of both. Answers how many
/// were not gone after `timeout`.
pub(super) fn end(pattern: Option<Pattern>, leaders: &[Arc<Group>], timeout: Duration) -> usize {
    let start = Instant::now();
    let deadline = start + timeout;
    let mut hunt = Hunt { pattern, server: Pattern::of_server(), ..Hunt::default() };
    // (On a machine that is kept busy the time may be up before all are stopped. Nothing must be
    // left that is stopped and not killed.)
    hunt.stop_all(leaders, start + timeout / 2);
    hunt.kill_all(leaders);
    let left = hunt.wait(deadline);
    if !hunt.stop_far(deadline) {
        return left;
    }
    hunt.kill_all(&[]);
    hunt.wait(deadline)
}

/// Whether anything that bears the mark is alive.
pub(super) fn is_any_alive(pattern: Pattern) -> bool {
    let mut found = false;
    let soon = Instant::now() + GLANCE;
    pids::each_and_newer(soon, |pid| {
        found = found || hold(pattern, pid).is_some_and(|handle| is_alive(&handle));
        false
    });
    found
}

#[derive(Default)]
struct Hunt {
    pattern: Option<Pattern>,
    server: Option<Pattern>,
    /// What has been stopped, by number. What bears the mark is known by that; of what does not, a
    /// hold is kept.
    found: HashMap<i32, Option<Handle>>,
    /// Of these, the ones that bear the mark and whose children have not been looked at: that takes
    /// too long to be done while something runs away.
    unexplored: Vec<i32>,
}

/// Takes hold of a process that bears the mark.
fn hold(pattern: Pattern, pid: i32) -> Option<Handle> {
    // The first look only saves a system call for all the others.
    let handle = pattern.fits(pid).then(|| Handle::open(pid).ok())??;
    pattern.fits(pid).then_some(handle)
}

fn is_alive(handle: &Handle) -> bool {
    !handle.wait_exit(Duration::ZERO)
}

impl Hunt {
    fn stop_all(&mut self, leaders: &[Arc<Group>], deadline: Instant) {
        if !pids::proc_is_usable() {
            // No children can be found through them, and the look at all takes longer than they can
            // be waited for.
            for leader in leaders {
                leader.signal(signal::KILL);
            }
        }
        for leader in leaders {
            if leader.stop_leader() {
                self.found.insert(leader.id(), None);
                let children = self.stop_children(leader.id(), || leader.leader_is_alive());
                self.stop_below(children);
            }
        }
        let Some(pattern) = self.pattern else { return };
        loop {
            let before = self.found.len();
            // (One look alone can take long where much has to be looked at on a busy machine.)
            pids::each_and_newer(deadline, |pid| {
                Instant::now() < deadline && self.stop_marked(pattern, pid)
            });
            self.explore(pattern, deadline);
            if self.found.len() == before || Instant::now() >= deadline {
                return;
            }
        }
    }

    /// Stops what has an unlikely number, where each has to be tried.
    fn stop_far(&mut self, deadline: Instant) -> bool {
        let Some(pattern) = self.pattern else { return false };
        let found = pids::each_far(deadline, |pid| self.stop_marked(pattern, pid));
        self.explore(pattern, deadline);
        found
    }

    /// Answers whether it has found one that was not known.
    fn stop_marked(&mut self, pattern: Pattern, pid: i32) -> bool {
        if self.found.contains_key(&pid) {
            return false;
        }
        let Some(handle) = hold(pattern, pid) else { return false };
        let _ = handle.signal(signal::STOP);
        // What runs away leaves many behind that wait to be reaped.
        if handle.has_surely_exited() {
            return false;
        }
        self.found.insert(pid, None);
        self.unexplored.push(pid);
        true
    }

    /// Stops what is below the marked ones.
    fn explore(&mut self, pattern: Pattern, deadline: Instant) {
        for pid in std::mem::take(&mut self.unexplored) {
            if Instant::now() >= deadline {
                return;
            }
            if let Some(handle) = hold(pattern, pid) {
                self.stop_below(vec![handle]);
            }
        }
    }

    /// Stops all descendants of what is stopped already.
    fn stop_below(&mut self, mut stopped: Vec<Handle>) {
        while let Some(handle) = stopped.pop() {
            stopped.extend(self.stop_children(handle.pid(), || is_alive(&handle)));
            if !self.is_marked(handle.pid()) {
                self.found.insert(handle.pid(), Some(handle));
            }
        }
    }

    /// Stops the children of a process that is stopped. `parent_lives` tells, after they have been
    /// read, whether they were really its own.
    fn stop_children(&mut self, parent: i32, parent_lives: impl Fn() -> bool) -> Vec<Handle> {
        let children = pids::children(parent);
        if !parent_lives() {
            return Vec::new();
        }
        let mut stopped = Vec::new();
        for pid in children {
            if self.found.contains_key(&pid) || self.is_anothers(pid) {
                continue;
            }
            let Ok(handle) = Handle::open(pid) else { continue };
            if pids::parent(pid) == Some(parent) && handle.signal(signal::STOP).is_ok() {
                self.found.insert(pid, None);
                stopped.push(handle);
            }
        }
        stopped
    }

    fn is_marked(&self, pid: i32) -> bool {
        self.pattern.is_some_and(|pattern| pattern.fits(pid))
    }

    /// Whether it is of another connection. (A process whose mark differs otherwise may be a
    /// server's that was started here, and that marks what it starts in its own way.)
    fn is_anothers(&self, pid: i32) -> bool {
        let own = self.pattern.map(Pattern::any_process);
        self.server.is_some_and(|server| server.fits(pid)) && !own.is_some_and(|own| own.fits(pid))
    }

    fn kill_all(&self, leaders: &[Arc<Group>]) {
        // First, while no leader has been reaped: until then a group can be told by its number.
        for leader in leaders {
            leader.signal(signal::KILL);
        }
        for (pid, held) in &self.found {
            let marked = || hold(self.pattern?, *pid);
            if let Some(handle) = held.as_ref().or(marked().as_ref()) {
                let _ = handle.signal(signal::KILL);
            }
        }
    }

    /// Waits for their end. Whatever turns up now was being started just before.
    fn wait(&mut self, deadline: Instant) -> usize {
        let known: Vec<i32> = self.found.keys().copied().collect();
        let mut held: Vec<Handle> = self.found.drain().filter_map(|(_, held)| held).collect();
        loop {
            held.retain(is_alive);
            let mut alive = HashSet::new();
            let mut last = None;
            if let Some(pattern) = self.pattern {
                let mut kill = |pid| {
                    let Some(handle) = hold(pattern, pid).filter(is_alive) else { return };
                    let _ = handle.signal(signal::KILL);
                    alive.insert(pid);
                    last = Some(handle);
                };
                known.iter().copied().for_each(&mut kill);
                pids::each(kill);
            }
            let Some(one) = last.as_ref().or(held.first()) else { return 0 };
            if Instant::now() >= deadline {
                return alive.len() + held.len();
            }
            one.wait_exit(GLANCE);
        }
    }
}
