//! How often somebody has asked the server to stop.

/// Signals that came, by what they are and who sent them.
///
/// A terminal's Ctrl-C and a supervisor that signals a whole group or cgroup reach the server
/// twice: directly, and through its guardian. So of each signal from each sender, the ways are
/// counted apart, and the longer count is how often it was meant.
#[derive(Default)]
pub(crate) struct Acts {
    seen: Vec<Seen>,
}

struct Seen {
    signal: i32,
    sender: i32,
    direct: usize,
    forwarded: usize,
}

impl Acts {
    /// One more signal, which came directly.
    pub(crate) fn direct(&mut self, signal: i32, sender: i32) {
        self.of(signal, sender).direct += 1;
    }

    /// One more signal that the guardian has passed on.
    pub(crate) fn forwarded(&mut self, signal: i32, sender: i32) {
        self.of(signal, sender).forwarded += 1;
    }

    /// How often it was meant.
    pub(crate) fn count(&self) -> usize {
        self.seen.iter().map(|seen| seen.direct.max(seen.forwarded)).sum()
    }

    fn of(&mut self, signal: i32, sender: i32) -> &mut Seen {
        let known = |seen: &Seen| (seen.signal, seen.sender) == (signal, sender);
        let place = self.seen.iter().position(known).unwrap_or_else(|| {
            self.seen.push(Seen { signal, sender, direct: 0, forwarded: 0 });
            self.seen.len() - 1
        });
        &mut self.seen[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_both_ways_was_meant_once() {
        let mut acts = Acts::default();
        acts.direct(2, 0);
        acts.forwarded(2, 0);
        assert_eq!(acts.count(), 1);
        acts.forwarded(2, 0);
        assert_eq!(acts.count(), 2);
        acts.direct(2, 0);
        assert_eq!(acts.count(), 2);
    }

    #[test]
    fn another_signal_or_sender_is_another_act() {
        let mut acts = Acts::default();
        acts.forwarded(15, 700);
        acts.forwarded(15, 701);
        assert_eq!(acts.count(), 2);
        acts.direct(2, 701);
        assert_eq!(acts.count(), 3);
    }
}
