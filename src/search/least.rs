//! The first so many of what turns up in any order.

use std::collections::BinaryHeap;

/// Keeps the least of all items that it is offered: so many, of so many bytes together.
pub(super) struct Least<T> {
    /// The greatest is on top: it is the next to go.
    items: BinaryHeap<Weighed<T>>,
    most: usize,
    most_bytes: usize,
    bytes: usize,
    /// Whether something was offered that is not among them.
    is_cut: bool,
}

struct Weighed<T> {
    item: T,
    bytes: usize,
}

impl<T: Ord> Least<T> {
    /// Of at most so many items (at least one), and so many bytes.
    pub(super) fn new(most: usize, most_bytes: usize) -> Self {
        Self { items: BinaryHeap::new(), most, most_bytes, bytes: 0, is_cut: false }
    }

    /// Takes an item in that weighs so much, if it is among the least.
    pub(super) fn offer(&mut self, item: T, bytes: usize) {
        self.bytes += bytes;
        self.items.push(Weighed { item, bytes });
        while self.items.len() > self.most || self.bytes > self.most_bytes {
            let Some(greatest) = self.items.pop() else { break };
            self.bytes -= greatest.bytes;
            self.is_cut = true;
        }
    }

    /// Something that was to be offered could not be.
    pub(super) fn cut(&mut self) {
        self.is_cut = true;
    }

    /// The one that whatever is to be kept must be less than, once there is more than enough.
    pub(super) fn bound(&self) -> Option<&T> {
        self.items.peek().filter(|_| self.is_cut).map(|greatest| &greatest.item)
    }

    /// All that were kept, in order, and whether there were more.
    pub(super) fn into_sorted(self) -> (Vec<T>, bool) {
        let items = self.items.into_sorted_vec();
        (items.into_iter().map(|weighed| weighed.item).collect(), self.is_cut)
    }
}

impl<T: Ord> Ord for Weighed<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.item.cmp(&other.item)
    }
}

impl<T: Ord> PartialOrd for Weighed<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Ord> PartialEq for Weighed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T: Ord> Eq for Weighed<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn least(most: usize, most_bytes: usize, offered: &[u32]) -> (Vec<u32>, bool) {
        let mut least = Least::new(most, most_bytes);
        offered.iter().for_each(|item| least.offer(*item, 10));
        least.into_sorted()
    }

    #[test]
    fn the_first_ones_are_kept_whatever_the_order() {
        assert_eq!(least(3, 1000, &[5, 1, 4, 2, 3]), (vec![1, 2, 3], true));
        assert_eq!(least(3, 1000, &[3, 1, 2]), (vec![1, 2, 3], false));
        assert_eq!(least(3, 25, &[3, 1, 2]), (vec![1, 2], true), "by their bytes");
        assert_eq!(least(3, 5, &[3]), (vec![], true), "one that is too large for all room");
    }

    #[test]
    fn there_is_a_bound_once_there_is_more_than_enough() {
        let mut least = Least::new(2, 1000);
        for item in [7, 3] {
            least.offer(item, 1);
            assert_eq!(least.bound(), None);
        }
        least.offer(5, 1);
        assert_eq!(least.bound(), Some(&5));
    }
}
