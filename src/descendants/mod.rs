//! Everything that comes of what a connection starts, whatever it does to get away: it leaves its
//! group and session, loses its parents, clears its environment, ignores signals.
//!
//! The thing to know: a process cannot take off its mark (`mark`) but by setting, on purpose, a
//! limit that nobody uses; and one that does is found all the same while its parents live, or by its
//! group. What bears no mark of this server and is no child of what does is never touched.

mod cgroup;
mod hunt;
mod mark;
mod pids;

#[cfg(target_os = "linux")]
pub(crate) use pids::parent;
pub(crate) use pids::proc_is_usable;

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;

use crate::sys;
use crate::sys::child::Group;
use crate::sys::limit::UnusedLimit;
use crate::threads;
use mark::{Number, Pattern};

/// How long the end of one process waits for its descendants to be gone.
const GONE: Duration = Duration::from_millis(100);
/// How long they are hunted for: a fork bomb leaves little of a processor to whoever ends it. What
/// is not gone by then is stuck in the kernel.
const HUNT: Duration = Duration::from_secs(10);

/// How long the members of a killed group may take to be gone. (What is orphaned and reaped by nobody
/// is never gone.)
const DYING: Duration = Duration::from_millis(300);

/// All that has come of one connection.
#[derive(Debug)]
pub(crate) struct Scope {
    /// `None` where nothing can be marked.
    pattern: Option<Pattern>,
    started: AtomicU64,
    /// Made when there is something to be put into it.
    cgroup: OnceLock<Option<cgroup::Group>>,
    /// Kept for as long as its mark may be borne.
    number: Option<Number>,
}

impl Scope {
    pub(crate) fn new() -> Arc<Self> {
        let number = Number::new();
        let pattern = number.as_ref().and_then(Pattern::of_connection);
        Arc::new(Self { pattern, started: AtomicU64::new(0), cgroup: OnceLock::new(), number })
    }

    /// For one more process of the connection.
    pub(crate) fn branch(self: &Arc<Self>) -> Branch {
        let process = self.started.fetch_add(1, Ordering::AcqRel);
        let pattern = self.pattern.map(|pattern| pattern.of_process(process));
        Branch { pattern, scope: Arc::clone(self) }
    }

    fn cgroup(&self) -> Option<&cgroup::Group> {
        let make = || cgroup::Group::new(self.number.as_ref()?.get());
        self.cgroup.get_or_init(make).as_ref()
    }

    /// Ends everything: `leaders` are the groups of the processes that were started. Waits until
    /// all is gone, `timeout` at most; answers how many were not.
    pub(crate) fn end(&self, leaders: &[Arc<Group>], timeout: Duration) -> usize {
        if self.started.load(Ordering::Acquire) == 0 {
            return 0;
        }
        if let Some(Some(cgroup)) = self.cgroup.get() {
            cgroup.kill();
        }
        let left = hunt::end(self.pattern, leaders, timeout);
        see_off(leaders, timeout.min(DYING));
        if let Some(Some(cgroup)) = self.cgroup.get() {
            // Now, because a thread may hold on to this for longer than the program lives.
            cgroup.remove();
        }
        left
    }
}

/// Waits for the members of these groups, who have been killed and may bear no mark.
fn see_off(groups: &[Arc<Group>], timeout: Duration) {
    let deadline = Instant::now() + timeout;
    for group in groups {
        while group.is_alive() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// All that has come of one process of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    pattern: Option<Pattern>,
    scope: Arc<Scope>,
}

impl Branch {
    /// What the process is to be marked with.
    pub(crate) fn mark(&self) -> Option<UnusedLimit> {
        self.pattern.map(Pattern::mark)
    }

    /// What it is to be started in.
    pub(crate) fn cgroup(&self) -> Option<File> {
        self.scope.cgroup()?.open()
    }

    /// Ends it with all its descendants. They are gone after this, or will be soon: whoever waits
    /// for the answer is not kept from it for long.
    pub(crate) fn end(&self, leader: &Arc<Group>) {
        let (done, is_done) = bounded(1);
        let (branch, hunted) = (self.clone(), Arc::clone(leader));
        let hunt = move || {
            hunt::end(branch.pattern, &[hunted], HUNT);
            let _ = done.send(());
        };
        if threads::run(hunt).is_ok() {
            let _ = is_done.recv_timeout(GONE);
        } else {
            hunt::end(self.pattern, std::slice::from_ref(leader), GONE);
        }
    }

    /// Whether anything of it is alive.
    pub(crate) fn is_alive(&self) -> bool {
        self.pattern.is_some_and(hunt::is_any_alive)
    }
}

/// Chooses by what this server's descendants are known. It is called before the guardian and the
/// server part, so that both know them by the same.
pub(crate) fn prepare() {
    cgroup::prepare();
    mark::can_mark();
}

/// Whether this process bears the server's mark.
#[cfg(target_os = "linux")]
pub(crate) fn is_own(pid: i32) -> bool {
    Pattern::of_server().is_some_and(|pattern| pattern.fits(pid))
}

/// What cannot be done here.
pub(crate) fn shortcomings() -> Vec<&'static str> {
    let search = match (mark::can_mark(), proc_is_usable()) {
        (false, _) => Some(
            "descendants that leave their process group may live until the server ends: this system \
             has no limit to mark them by",
        ),
        (true, false) => Some(
            "/proc is not there or is another namespace's: descendants are looked for number by \
             number, which takes longer",
        ),
        (true, true) => None,
    };
    let pidfds = (cfg!(target_os = "linux") && !sys::handle::can_signal()).then_some(
        "there are no pidfds (an old kernel, or a sandbox refuses them): processes are signalled by \
         their numbers",
    );
    let groups = (cgroup::home().is_ok() && !sys::spawn::can_choose_group()).then_some(
        "there is no clone3 (a sandbox refuses it): commands are in no control group of their own",
    );
    [search, pidfds, groups].into_iter().flatten().collect()
}

/// Whether what this server starts can be told by a mark.
pub(crate) fn are_marked() -> bool {
    mark::can_mark()
}

/// The directory of the control groups, or why there are none.
pub(crate) fn groups() -> Result<&'static std::path::Path, &'static str> {
    cgroup::home()
}

/// Ends everything that this server has started, of whichever connection.
pub(crate) fn end_all(timeout: Duration) -> usize {
    cgroup::kill_all();
    let left = Pattern::of_server().map_or(0, |pattern| hunt::end(Some(pattern), &[], timeout));
    cgroup::remove_all();
    left
}
