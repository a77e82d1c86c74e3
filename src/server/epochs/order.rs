//! Which epoch is the highest, and who has to be gone before its hosts are answered: the rules
//! alone, without locks, time or files.

use std::collections::BTreeMap;

/// What becomes of a connection that says its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It has the highest epoch, and is a member.
    Joined,
    /// Its epoch is higher than any before: the caller makes that last, and then says
    /// [`raised`](Order::raised) or [`not_raised`](Order::not_raised).
    Raises,
    /// The same, but another one is being raised: again when that has been settled.
    Waits,
    /// There is a newer one already: this.
    Stale(u64),
}

/// The state of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Order {
    highest: u64,
    /// Every connection with an epoch of which something may still have an effect, by number.
    members: BTreeMap<u64, u64>,
    raising: bool,
}

impl Order {
    pub(super) fn new(highest: u64) -> Self {
        Self { highest, ..Self::default() }
    }

    pub(super) fn highest(&self) -> u64 {
        self.highest
    }

    /// A connection says its epoch.
    pub(super) fn arrive(&mut self, connection: u64, epoch: u64) -> Arrival {
        if epoch < self.highest {
            return Arrival::Stale(self.highest);
        }
        if epoch == self.highest {
            self.members.insert(connection, epoch);
            return Arrival::Joined;
        }
        if self.raising {
            return Arrival::Waits;
        }
        self.raising = true;
        Arrival::Raises
    }

    /// The epoch that was being raised is the highest, and its connection a member. Answers who is
    /// fenced by it. (Some of them may have been fenced before.)
    #[must_use]
    pub(super) fn raised(&mut self, connection: u64, epoch: u64) -> Vec<u64> {
        self.raising = false;
        self.highest = epoch;
        self.members.insert(connection, epoch);
        let below = self.members.iter().filter(|(_, theirs)| **theirs < epoch);
        below.map(|(connection, _)| *connection).collect()
    }

    /// It could not be made to last: all is as it was.
    pub(super) fn not_raised(&mut self) {
        self.raising = false;
    }

    /// Nothing of this connection has an effect any more.
    pub(super) fn left(&mut self, connection: u64) {
        self.members.remove(&connection);
    }

    /// Whether nothing of an older epoch is left.
    pub(super) fn is_settled(&self, epoch: u64) -> bool {
        self.members.values().all(|theirs| *theirs >= epoch)
    }
}

#[cfg(test)]
#[path = "model.rs"]
mod model;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_epochs_share_and_a_larger_one_fences_all_below() {
        let mut order = Order::new(0);
        assert_eq!(order.arrive(1, 5), Arrival::Raises);
        assert!(order.raised(1, 5).is_empty());
        assert_eq!(order.arrive(2, 5), Arrival::Joined);
        assert_eq!(order.arrive(3, 4), Arrival::Stale(5));
        assert_eq!(order.arrive(3, 9), Arrival::Raises);
        assert_eq!(order.raised(3, 9), [1, 2]);
        assert!(!order.is_settled(9));
        assert_eq!(order.arrive(4, 9), Arrival::Joined);
        order.left(1);
        assert!(!order.is_settled(9));
        order.left(2);
        assert!(order.is_settled(9));
    }

    #[test]
    fn one_raise_at_a_time_and_a_failed_one_changes_nothing() {
        let mut order = Order::new(3);
        assert_eq!(order.arrive(1, 3), Arrival::Joined);
        assert_eq!(order.arrive(2, 7), Arrival::Raises);
        assert_eq!(order.arrive(3, 5), Arrival::Waits);
        assert_eq!(order.arrive(4, 3), Arrival::Joined, "nothing has been raised yet");
        order.not_raised();
        assert_eq!(order.highest(), 3);
        assert_eq!(order.arrive(3, 5), Arrival::Raises);
        assert_eq!(order.raised(3, 5), [1, 4]);
    }
}
