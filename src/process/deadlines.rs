//! The times at which something becomes due for one process.

use std::time::{Duration, Instant};

use super::Terms;

/// Silence after the exit that means: whoever still holds the output has nothing to say.
const QUIET: Duration = Duration::from_millis(100);
/// The longest that output is waited for after the exit, whatever comes.
const DRAIN: Duration = Duration::from_secs(2);
/// How long a killed process's output may wait for its window before it is dropped.
const ADMISSION: Duration = Duration::from_millis(100);
/// How long after its time was up a process is given to be reaped. Together with a busy
/// machine's delays this keeps to the 250 ms that the protocol promises.
const REAPING: Duration = Duration::from_millis(200);

/// All deadlines of one process.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    /// Its time is up.
    pub(super) timeout: Option<Instant>,
    grace: Option<Duration>,
    /// SIGKILL follows an earlier signal.
    pub(super) kill: Option<Instant>,
    /// The answer is due although it has not been reaped.
    pub(super) give_up: Option<Instant>,
    /// Output that its window does not admit is dropped from here on.
    pub(super) admission: Option<Instant>,
    drain: Option<Drain>,
}

/// After the exit, until the output counts as drained.
#[derive(Debug)]
struct Drain {
    quiet: Instant,
    end: Instant,
    /// Since when the host, not the child, is what output waits for.
    held_back: Option<Instant>,
}

impl Deadlines {
    pub(super) fn new(terms: &Terms, start: Instant) -> Self {
        // A time beyond what the clock can say is no limit.
        let timeout = terms.timeout.and_then(|timeout| start.checked_add(timeout));
        Self { timeout, grace: terms.grace, ..Self::default() }
    }

    /// Its time is up: answers whether SIGKILL comes at once.
    pub(super) fn time_is_up(&mut self, now: Instant) -> bool {
        self.timeout = None;
        let grace = self.grace.unwrap_or_default();
        let kill_at = now.checked_add(grace);
        self.give_up = kill_at.and_then(|kill_at| kill_at.checked_add(REAPING));
        if grace.is_zero() {
            return true;
        }
        self.kill_after(now, grace);
        false
    }

    /// SIGKILL follows that much later, or when it was due already if that is sooner.
    pub(super) fn kill_after(&mut self, now: Instant, grace: Duration) {
        let at = now.checked_add(grace);
        self.kill = match (self.kill, at) {
            (Some(earlier), Some(at)) => Some(earlier.min(at)),
            (earlier, at) => earlier.or(at),
        };
    }

    /// It is over: only a SIGKILL for what it has left can still be due.
    pub(super) fn keep_only_kill(&mut self) {
        *self = Self { kill: self.kill, ..Self::default() };
    }

    /// It is being ended: from now on the host has [`ADMISSION`] for what it has to say.
    pub(super) fn start_admission(&mut self, now: Instant) {
        self.admission.get_or_insert(now + ADMISSION);
    }

    /// It has exited.
    pub(super) fn start_drain(&mut self, now: Instant) {
        self.drain = Some(Drain { quiet: now + QUIET, end: now + DRAIN, held_back: None });
    }

    /// A chunk has come.
    pub(super) fn heard(&mut self, now: Instant) {
        if let Some(drain) = &mut self.drain {
            drain.quiet = now + QUIET;
        }
    }

    /// The time for draining runs only while it is the child that is waited for.
    pub(super) fn hold_back(&mut self, held_back: bool, now: Instant) {
        let Some(drain) = &mut self.drain else { return };
        match (held_back, drain.held_back) {
            (true, None) => drain.held_back = Some(now),
            (false, Some(since)) => {
                let waited = now.saturating_duration_since(since);
                drain.held_back = None;
                drain.quiet = (drain.quiet + waited).max(now + QUIET);
                drain.end += waited;
            }
            _ => {}
        }
    }

    /// Whether output counts as drained only because nothing has come for a while.
    pub(super) fn is_quiet(&self, now: Instant) -> bool {
        self.drain
            .as_ref()
            .is_some_and(|drain| drain.held_back.is_none() && now >= drain.quiet && now < drain.end)
    }

    /// Whether output need not be waited for any longer.
    pub(super) fn drained(&self, now: Instant) -> bool {
        self.drain.as_ref().is_some_and(|drain| {
            drain.held_back.is_none() && (now >= drain.quiet || now >= drain.end)
        })
    }

    /// When the next of all these is due.
    pub(super) fn next(&self) -> Option<Instant> {
        let drain = self.drain.as_ref().filter(|drain| drain.held_back.is_none());
        let drain = drain.map(|drain| drain.quiet.min(drain.end));
        [self.timeout, self.kill, self.give_up, self.admission, drain].into_iter().flatten().min()
    }
}

/// Whether a moment has come; it comes once.
pub(super) fn take_due(deadline: &mut Option<Instant>, now: Instant) -> bool {
    deadline.take_if(|deadline| *deadline <= now).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draining_stands_still_while_the_host_holds_output_back() {
        let start = Instant::now();
        let later = |ms| start + Duration::from_millis(ms);
        let mut deadlines = Deadlines::default();
        deadlines.start_drain(start);
        assert!(!deadlines.drained(later(99)) && deadlines.drained(later(100)));
        deadlines.hold_back(true, later(50));
        assert!(!deadlines.drained(later(10_000)));
        deadlines.hold_back(false, later(10_000));
        assert!(!deadlines.drained(later(10_099)) && deadlines.drained(later(10_100)));
        for ms in (10_050..11_940).step_by(50) {
            deadlines.heard(later(ms));
            assert!(!deadlines.drained(later(ms + 1)));
        }
        deadlines.heard(later(11_949));
        assert!(deadlines.drained(later(11_950)), "2 s of draining are over");
    }

    #[test]
    fn a_grace_puts_the_kill_and_the_answer_off() {
        let start = Instant::now();
        let terms = Terms {
            window: None,
            timeout: Some(Duration::from_secs(1)),
            grace: Some(Duration::from_secs(3)),
        };
        let mut deadlines = Deadlines::new(&terms, start);
        let up = start + Duration::from_secs(1);
        assert!(take_due(&mut deadlines.timeout, up));
        assert!(!deadlines.time_is_up(up));
        assert_eq!(deadlines.kill, Some(up + Duration::from_secs(3)));
        assert_eq!(deadlines.give_up, Some(up + Duration::from_secs(3) + REAPING));
    }
}
