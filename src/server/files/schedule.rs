//! The order of a connection's file requests: which may begin now. Nothing here waits or starts a
//! thread; the time is told.
//!
//! A change waits for all before it; what only looks waits for the changes before it, and looks
//! at the same time as others. A file system that hangs would so stop everything behind it.
//! Therefore what has not come to its end for some time is passed by whatever is on another file
//! system. For the same reason there is no fixed number of threads: when all of them wait for
//! something that does not come, others are started.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::queue::Work;

/// Requests that are carried out at the same time, as long as they come to an end: more would
/// only take turns on the processors.
pub(super) const RUNNING: usize = 4;
/// The most threads, when those that run wait for a file system.
pub(super) const MOST_RUNNING: usize = 512;
/// After so long without an end all that run are taken to wait for a file system.
pub(super) const STALLED: Duration = Duration::from_millis(50);
/// After so long a request may be passed by what is on another file system.
const LATE: Duration = Duration::from_secs(2);
/// Searches that run at the same time; each reads as fast as the machine can.
const MOST_SEARCHING: usize = 4;
/// Answers that wait for the host to read, from which on no more are made.
const MOST_PARKED: usize = 16;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum Kind {
    /// It looks, and its answer is short.
    Look,
    /// It looks, and its answer may be long.
    Read,
    /// It looks, and that may take as long as it likes: nothing that comes later waits for it.
    Search,
    /// It changes something.
    Change,
}

/// The requests that are not done yet.
pub(super) struct Schedule {
    /// In the order they came.
    entries: VecDeque<Entry>,
    next: u64,
    /// Threads that carry something out, those not counted that are parked.
    running: usize,
    parked: usize,
    /// When something came to its end last.
    progress: Instant,
    /// Bytes of content that they carry.
    held: usize,
}

struct Entry {
    number: u64,
    kind: Kind,
    stage: Stage,
    submitted: Instant,
    /// When its stage began.
    entered: Instant,
    /// The file systems it is on, once they are known.
    devices: Option<Vec<u64>>,
    paths: Vec<PathBuf>,
    bytes: usize,
    run: Option<Work>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    /// Its thread finds out where it is.
    Locating,
    Running,
}

/// What there is to do for a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Carry it out, and first find out where it is, if it is a change that others may have to
    /// pass.
    Run(u64),
    /// Find out where it is.
    Locate(u64),
}

/// A task that has begun.
pub(super) struct Begun {
    pub(super) number: u64,
    /// What it is about, if where that is has to be found out.
    pub(super) paths: Vec<PathBuf>,
    /// What carries it out.
    pub(super) run: Option<Work>,
}

impl Schedule {
    pub(super) fn new(now: Instant) -> Self {
        Self { entries: VecDeque::new(), next: 0, running: 0, parked: 0, progress: now, held: 0 }
    }

    /// Adds a request; answers its number.
    pub(super) fn add(
        &mut self,
        kind: Kind,
        paths: Vec<PathBuf>,
        bytes: usize,
        run: Work,
        now: Instant,
    ) -> u64 {
        if self.entries.is_empty() {
            // Nothing could come to its end while there was nothing.
            self.progress = now;
        }
        let number = self.next;
        self.next += 1;
        self.held += bytes;
        self.entries.push_back(Entry {
            number,
            kind,
            stage: Stage::Waiting,
            submitted: now,
            entered: now,
            devices: None,
            paths,
            bytes,
            run: Some(run),
        });
        number
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn running(&self) -> usize {
        self.running
    }

    pub(super) fn held(&self) -> usize {
        self.held
    }

    pub(super) fn progress(&self) -> Instant {
        self.progress
    }

    pub(super) fn is_anything_waiting(&self) -> bool {
        self.entries.iter().any(|entry| entry.stage == Stage::Waiting)
    }

    /// All threads that there may be wait for a file system, and have for some time.
    pub(super) fn is_stuck(&self, now: Instant) -> bool {
        self.running >= MOST_RUNNING && now.saturating_duration_since(self.progress) >= LATE
    }

    /// The first thing that may be done now, if one more thread may do something.
    pub(super) fn task(&self, now: Instant) -> Option<Task> {
        let stalled = now.saturating_duration_since(self.progress) >= STALLED;
        if self.running >= RUNNING && !(stalled && self.running < MOST_RUNNING) {
            return None;
        }
        // What is late, and may be passed; whether there is a look that is not.
        let (mut changes, mut looks) = (Vec::new(), Vec::new());
        let mut has_fresh_look = false;
        for entry in &self.entries {
            let is_change = entry.kind == Kind::Change;
            let is_held_up = (is_change && has_fresh_look) || self.holds_up(entry);
            if entry.stage == Stage::Waiting && !is_held_up {
                let looks = if is_change { looks.as_slice() } else { &[] };
                let mut before = changes.iter().chain(looks).peekable();
                if before.peek().is_some() && entry.devices.is_none() {
                    return Some(Task::Locate(entry.number));
                }
                if before.all(|earlier: &&Entry| earlier.lets_pass(entry, now)) {
                    return Some(Task::Run(entry.number));
                }
            }
            if entry.kind == Kind::Search {
                continue;
            }
            match (is_change, now.saturating_duration_since(entry.submitted) >= LATE) {
                // Nothing behind it may pass.
                (true, false) => return None,
                (true, true) => changes.push(entry),
                (false, false) => has_fresh_look = true,
                (false, true) => looks.push(entry),
            }
        }
        None
    }

    /// Whether there is no room for it, whatever comes before it.
    fn holds_up(&self, entry: &Entry) -> bool {
        match entry.kind {
            Kind::Read => self.parked >= MOST_PARKED,
            Kind::Search => {
                let begun =
                    |other: &&Entry| other.kind == Kind::Search && other.stage == Stage::Running;
                self.entries.iter().filter(begun).count() >= MOST_SEARCHING
            }
            Kind::Look | Kind::Change => false,
        }
    }

    /// Begins a task. `None` where the request has gone.
    pub(super) fn begin(&mut self, task: Task, now: Instant) -> Option<Begun> {
        let (number, stage) = match task {
            Task::Run(number) => (number, Stage::Running),
            Task::Locate(number) => (number, Stage::Locating),
        };
        let entry = self.enter(number, stage, now)?;
        let begun = match stage {
            // A change may have to be passed later; where it is must be known by then.
            Stage::Running if entry.kind != Kind::Change || entry.devices.is_some() => {
                Begun { number, paths: Vec::new(), run: entry.run.take() }
            }
            Stage::Running => {
                let paths = std::mem::take(&mut entry.paths);
                Begun { number, paths, run: entry.run.take() }
            }
            _ => Begun { number, paths: entry.paths.clone(), run: None },
        };
        self.running += 1;
        Some(begun)
    }

    /// Takes note of where a request is.
    pub(super) fn note_devices(&mut self, number: u64, devices: Vec<u64>) {
        if let Some(entry) = self.entry(number) {
            entry.devices = Some(devices);
        }
    }

    /// Where it is has been found out: it waits again.
    pub(super) fn located(&mut self, number: u64, devices: Vec<u64>, now: Instant) {
        self.running -= 1;
        self.note_devices(number, devices);
        self.enter(number, Stage::Waiting, now);
    }

    /// It is done.
    pub(super) fn done(&mut self, number: u64, now: Instant) {
        self.running -= 1;
        self.progress = now;
        self.take_back(number);
    }

    /// It waits for the host, and for no file system.
    pub(super) fn park(&mut self) {
        self.running -= 1;
        self.parked += 1;
    }

    /// It goes on.
    pub(super) fn unpark(&mut self, now: Instant) {
        self.parked -= 1;
        self.running += 1;
        self.progress = now;
    }

    /// Takes a request out.
    pub(super) fn take_back(&mut self, number: u64) -> Option<Work> {
        let place = self.entries.iter().position(|entry| entry.number == number)?;
        let entry = self.entries.remove(place)?;
        self.held -= entry.bytes;
        entry.run
    }

    /// Takes out all that has not begun.
    pub(super) fn take_waiting(&mut self) -> Vec<Work> {
        let entries = std::mem::take(&mut self.entries);
        let (waiting, begun): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|entry| entry.stage == Stage::Waiting);
        self.entries = begun.into();
        self.held = self.entries.iter().map(|entry| entry.bytes).sum();
        waiting.into_iter().filter_map(|entry| entry.run).collect()
    }

    fn entry(&mut self, number: u64) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.number == number)
    }

    fn enter(&mut self, number: u64, stage: Stage, now: Instant) -> Option<&mut Entry> {
        let entry = self.entry(number)?;
        entry.stage = stage;
        entry.entered = now;
        Some(entry)
    }
}

impl Entry {
    /// Whether what was sent after this request, which is late, may be done before it. (If this
    /// one has begun and nobody knows yet where it is, finding that out hangs: so it is not where
    /// the other one is, about which that is known.)
    fn lets_pass(&self, other: &Self, now: Instant) -> bool {
        let Some(others) = &other.devices else { return false };
        let hangs = || {
            let time = now.saturating_duration_since(self.entered);
            self.stage != Stage::Waiting && time >= STALLED
        };
        match &self.devices {
            Some(devices) => devices.iter().all(|device| !others.contains(device)),
            None => hangs(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Kind::{Change, Look, Read, Search};

    struct Table(Schedule, Instant);

    impl Table {
        /// With requests 0, 1, 2 … of these kinds.
        fn of(kinds: &[Kind]) -> Self {
            let start = Instant::now();
            let mut schedule = Schedule::new(start);
            for kind in kinds {
                schedule.add(*kind, vec!["/x".into()], 1, Box::new(|_| ()), start);
            }
            Self(schedule, start)
        }

        /// Begins all that may begin at that time; answers their numbers.
        fn begin(&mut self, after: Duration) -> Vec<Task> {
            let now = self.1 + after;
            let mut begun = Vec::new();
            while let Some(task) = self.0.task(now) {
                self.0.begin(task, now).unwrap();
                begun.push(task);
            }
            begun
        }

        fn done(&mut self, number: u64) {
            self.0.done(number, self.1);
        }
    }

    const SOON: Duration = Duration::from_millis(1);
    const LATER: Duration = Duration::from_secs(3);

    #[test]
    fn looks_go_together_and_changes_alone() {
        let mut table = Table::of(&[Look, Read, Change, Look, Change]);
        assert_eq!(table.begin(SOON), [Task::Run(0), Task::Run(1)]);
        table.done(1);
        assert_eq!(table.begin(SOON), []);
        table.done(0);
        assert_eq!(table.begin(SOON), [Task::Run(2)]);
        table.done(2);
        assert_eq!(table.begin(SOON), [Task::Run(3)]);
        table.done(3);
        assert_eq!(table.begin(SOON), [Task::Run(4)]);
        table.done(4);
        assert!(table.0.is_empty() && table.0.held() == 0);
    }

    #[test]
    fn nothing_waits_for_a_search_and_it_waits_for_the_changes_before_it() {
        let mut table = Table::of(&[Change, Search, Change, Look]);
        assert_eq!(table.begin(SOON), [Task::Run(0)]);
        table.done(0);
        assert_eq!(table.begin(SOON), [Task::Run(1), Task::Run(2)]);
        table.done(2);
        assert_eq!(table.begin(SOON), [Task::Run(3)]);
    }

    #[test]
    fn few_searches_run_at_the_same_time() {
        let mut table = Table::of(&[[Search; MOST_SEARCHING + 1].as_slice(), &[Look]].concat());
        for number in 0..MOST_SEARCHING as u64 {
            assert_eq!(table.0.task(table.1 + SOON), Some(Task::Run(number)));
            table.0.begin(Task::Run(number), table.1).unwrap();
            table.0.park();
        }
        assert_eq!(table.begin(SOON), [Task::Run(MOST_SEARCHING as u64 + 1)]);
        table.0.unpark(table.1);
        table.done(0);
        assert_eq!(table.begin(SOON), [Task::Run(MOST_SEARCHING as u64)]);
    }

    #[test]
    fn what_hangs_is_passed_only_by_what_is_elsewhere() {
        let mut table = Table::of(&[Change, Change, Look, Change]);
        assert_eq!(table.begin(SOON), [Task::Run(0)]);
        table.0.note_devices(0, vec![7]);
        let all = [Task::Locate(1), Task::Locate(2), Task::Locate(3)];
        assert_eq!(table.begin(LATER), all);
        let now = table.1 + LATER;
        table.0.located(1, vec![7], now);
        table.0.located(2, vec![8], now);
        table.0.located(3, vec![9, 7], now);
        assert_eq!(table.begin(LATER), [Task::Run(2)], "1 and 3 are on what hangs");
    }

    #[test]
    fn what_hangs_while_it_is_located_is_passed_after_a_moment() {
        let mut table = Table::of(&[Change, Look]);
        let now = table.1 + LATER;
        table.0.begin(Task::Locate(0), now);
        assert_eq!(table.0.task(now), Some(Task::Locate(1)));
        table.0.begin(Task::Locate(1), now);
        table.0.located(1, vec![8], now);
        assert_eq!(table.0.task(now), None, "0 may be about to be known");
        assert_eq!(table.0.task(now + STALLED), Some(Task::Run(1)));
    }

    #[test]
    fn four_run_unless_nothing_comes_to_an_end() {
        let mut table = Table::of(&[Look; 10]);
        assert_eq!(table.begin(SOON).len(), RUNNING);
        assert_eq!(table.begin(STALLED).len(), 10 - RUNNING);
    }

    #[test]
    fn answers_that_wait_for_the_host_stop_reads_and_nothing_else() {
        let mut table = Table::of(&[[Read; MOST_PARKED + 1].as_slice(), &[Look]].concat());
        for number in 0..MOST_PARKED as u64 {
            table.0.begin(Task::Run(number), table.1).unwrap();
            table.0.park();
        }
        assert_eq!(table.begin(SOON), [Task::Run(MOST_PARKED as u64 + 1)]);
        table.0.unpark(table.1);
        table.done(0);
        assert_eq!(table.begin(SOON), [Task::Run(MOST_PARKED as u64)]);
    }
}
