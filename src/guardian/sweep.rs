//! Ending everything that runs below this process. As its descendants lose their parents they
//! become its own children, so nothing is left once it has none.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::{Duration, Instant};

use crate::descendants;
use crate::sys::guard::{self, Reaped};
use crate::sys::handle::Handle;
use crate::sys::signal::{self, Signals};

/// How long between two looks, where no child's end comes first.
const TURN: Duration = Duration::from_millis(10);
/// The most rounds in which whatever has turned up is only stopped, and looked at again.
const ROUNDS: usize = 50;
/// No process has a higher number, wherever that limit is raised to.
const HIGHEST_PID: i32 = 1 << 22;
/// How many are asked first.
const NEAR: i32 = 1 << 16;

/// Which of this process's children are to be ended, with all that is below them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// All: this process had none before it had the server.
    All,
    /// Those that bear the server's mark.
    Marked,
}

impl Whose {
    fn includes(self, child: i32) -> bool {
        self == Self::All || descendants::is_own(child)
    }
}

/// Kills and reaps these children with all their descendants, and answers whether none is left.
/// `ends` tells of a child's end. What is not gone at `deadline` hangs in the kernel.
pub(super) fn sweep(ends: &Signals, whose: Whose, deadline: Instant) -> bool {
    let mut killed = HashSet::new();
    loop {
        if !reap_all() {
            return true;
        }
        let found = Family::now(whose);
        if whose == Whose::Marked && found.members.is_empty() {
            return true;
        }
        // The first look is at what has always been there. Whatever turns up after it makes more
        // of itself, and may do so faster than it can be killed one by one: it has to stand still.
        let found = if killed.is_empty() { found } else { hold_still(found, &killed, whose) };
        let signalled = found.signal(signal::KILL);
        killed.extend(found.members());
        let _ = ends.next_within(TURN);
        // (What is altogether another user's, as by sudo(8), is not to be waited for.)
        if signalled == 0 && !found.members.is_empty() || Instant::now() >= deadline {
            return !reap_all();
        }
    }
}

/// Reaps what has ended. `false` if there are no children any more.
fn reap_all() -> bool {
    loop {
        match guard::reap_any() {
            Reaped::One(..) => {}
            Reaped::None => return true,
            Reaped::Childless => return false,
        }
    }
}

/// Stops what is new, and looks again, until nothing new turns up.
fn hold_still(mut found: Family, known: &HashSet<i32>, whose: Whose) -> Family {
    let mut seen = known.clone();
    for _ in 0..ROUNDS {
        if found.members().all(|pid| seen.contains(&pid)) {
            break;
        }
        found.signal(signal::STOP);
        seen.extend(found.members());
        found = Family::now(whose);
    }
    found
}

/// These children and their descendants, each with its parent.
struct Family {
    own: i32,
    members: Vec<(i32, i32)>,
}

impl Family {
    /// Those that there are now.
    fn now(whose: Whose) -> Self {
        let own = guard::pid();
        let members = by_proc(own, whose);
        // A /proc may hide the processes of other users, which those of sudo(8) are. (Beside
        // children of another's that is not worth two seconds: what bears the mark is looked for
        // once more after this.)
        let members = members.filter(|members| whose == Whose::Marked || !members.is_empty());
        Self { own, members: members.unwrap_or_else(|| by_asking(own, whose)) }
    }

    fn members(&self) -> impl Iterator<Item = i32> {
        self.members.iter().map(|(pid, _)| *pid)
    }

    /// Signals all, and answers how many of them it could.
    fn signal(&self, signal: i32) -> usize {
        let signalled = self.members.iter().filter(|&&(pid, parent)| {
            if parent == self.own {
                guard::signal_child(pid, signal)
            } else {
                // It may have ended and its number be another's, and it may have lost its parent:
                // then it is found again.
                let handle = Handle::open(pid).ok();
                let handle = handle.filter(|_| descendants::parent(pid) == Some(parent));
                handle.is_some_and(|handle| handle.signal(signal).is_ok())
            }
        });
        signalled.count()
    }
}

/// From one pass over /proc; `None` where there is none, or it is another PID namespace's.
fn by_proc(own: i32, whose: Whose) -> Option<Vec<(i32, i32)>> {
    if !descendants::proc_is_usable() {
        return None;
    }
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(pid) = pid
            && let Some(parent) = descendants::parent(pid)
        {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut parents = children.remove(&own).unwrap_or_default();
    parents.retain(|child| whose.includes(*child));
    let mut found: Vec<_> = parents.iter().map(|child| (*child, own)).collect();
    while let Some(parent) = parents.pop() {
        let below = children.remove(&parent).unwrap_or_default();
        found.extend(below.iter().map(|pid| (*pid, parent)));
        parents.extend(below);
    }
    Some(found)
}

/// This process's children, by asking of numbers whether they are children of it; their own become
/// this process's when they have been killed. Asking of all takes two seconds. But numbers are
/// given out in turn, and few systems have set the limit high: so those that follow on this
/// process's own come first, then the low ones, then all.
fn by_asking(own: i32, whose: Whose) -> Vec<(i32, i32)> {
    let ranges = [own..own.saturating_add(NEAR), 1..NEAR, 1..HIGHEST_PID];
    let children = ranges.into_iter().map(|range| -> Vec<_> {
        let children = range.filter(|pid| guard::is_child(*pid) && whose.includes(*pid));
        children.map(|pid| (pid, own)).collect()
    });
    children.into_iter().find(|children| !children.is_empty()).unwrap_or_default()
}
