//! Flow control: how far ahead of the host the bytes on their way to it may be.

/// Bytes that may be sent before the host acknowledges some.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    limit: Option<u64>,
    owed: u64,
}

impl Window {
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Self { limit, owed: 0 }
    }

    /// How many bytes it lets through now.
    pub(crate) fn room(&self) -> usize {
        let room = self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.owed));
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    pub(crate) fn sent(&mut self, bytes: usize) {
        if self.limit.is_some() {
            self.owed = self.owed.saturating_add(bytes as u64);
        }
    }

    /// More than is owed is ignored.
    pub(crate) fn acknowledge(&mut self, bytes: u64) {
        self.owed = self.owed.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_lets_through_what_is_not_owed_and_ignores_too_many_acknowledgements() {
        let mut window = Window::new(Some(10));
        window.sent(7);
        assert_eq!(window.room(), 3);
        window.sent(3);
        assert_eq!(window.room(), 0);
        window.acknowledge(4);
        assert_eq!(window.room(), 4);
        window.acknowledge(u64::MAX);
        assert_eq!(window.room(), 10);
        assert_eq!(Window::new(None).room(), usize::MAX);
    }
}
