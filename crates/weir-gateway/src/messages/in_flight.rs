//! Bytes of all client messages without an outcome.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory of a message in addition to its text: record headers, queue entries, results.
const MESSAGE_BYTES: usize = 500;

/// Number and bytes of messages without an outcome.
#[derive(Debug, Default)]
pub(crate) struct InFlightTotals {
    messages: AtomicUsize,
    bytes: AtomicUsize,
}

/// Share of one message; returned when it is dropped.
#[derive(Debug)]
pub(crate) struct InFlight {
    bytes: usize,
    totals: Arc<InFlightTotals>,
}

impl InFlightTotals {
    /// Adds a message, unless all would have more than `bytes_max` bytes.
    pub(super) fn add(self: &Arc<Self>, text_bytes: usize, bytes_max: usize) -> Option<InFlight> {
        let bytes = text_bytes + MESSAGE_BYTES;
        let share = InFlight {
            bytes,
            totals: Arc::clone(self),
        };
        self.messages.fetch_add(1, Ordering::Relaxed);
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        (before + bytes <= bytes_max).then_some(share)
    }

    pub(super) fn messages(&self) -> usize {
        self.messages.load(Ordering::Relaxed)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.totals.messages.fetch_sub(1, Ordering::Relaxed);
        self.totals.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_returned() {
        let totals = Arc::new(InFlightTotals::default());
        let one = totals.add(500, 1_500).expect("fits");
        assert!(totals.add(1, 1_500).is_none());
        assert_eq!((totals.messages(), totals.bytes()), (1, 1_000));
        let other = totals.add(0, 1_500).expect("fits");
        drop((one, other));
        assert_eq!((totals.messages(), totals.bytes()), (0, 0));
    }
}
