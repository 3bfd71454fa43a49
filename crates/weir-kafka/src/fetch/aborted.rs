//! Aborted transactions of a fetch response, by which records of uncommitted data are left out.

use std::collections::HashSet;

use weir_wire::fetch::AbortedTransaction;
use weir_wire::records::{BatchView, RecordPosition, RecordsError};

/// Producers whose current transaction was aborted, while the batches of a partition are read in
/// order.
#[derive(Debug, Default)]
pub(crate) struct AbortedFilter {
    /// Transactions that start later, latest first.
    later: Vec<AbortedTransaction>,
    producers: HashSet<i64>,
}

impl AbortedFilter {
    pub(crate) fn new(mut transactions: Vec<AbortedTransaction>) -> Self {
        transactions.sort_by_key(|one| std::cmp::Reverse(one.first_offset));
        Self {
            later: transactions,
            producers: HashSet::new(),
        }
    }

    /// Returns `true` for markers and for records of aborted transactions. Batches must come in
    /// order.
    pub(crate) fn leaves_out(&mut self, batch: &BatchView<'_>) -> Result<bool, RecordsError> {
        if !batch.is_transactional() {
            return Ok(batch.is_control());
        }
        let last_offset = batch.next_offset()?.saturating_sub(1);
        let is_aborted = self.is_aborted(batch.producer_id, last_offset);
        if !batch.is_control() {
            return Ok(is_aborted);
        }
        let range = (0, batch.payload().len());
        let (marker, _) = RecordPosition::read(&batch.base(), batch.payload(), range)?;
        if marker.key(batch.payload()).is_some_and(is_abort) {
            self.on_abort_marker(batch.producer_id);
        }
        Ok(true)
    }

    /// Returns `true` if the records of a transactional batch are of an aborted transaction.
    fn is_aborted(&mut self, producer_id: i64, last_offset: i64) -> bool {
        while let Some(next) = self.later.last().copied() {
            if next.first_offset > last_offset {
                break;
            }
            self.producers.insert(next.producer_id);
            self.later.pop();
        }
        self.producers.contains(&producer_id)
    }

    /// Notes a marker at the end of an aborted transaction.
    fn on_abort_marker(&mut self, producer_id: i64) {
        self.producers.remove(&producer_id);
    }
}

/// Returns `true` if a marker's key has the type of an aborted transaction.
fn is_abort(key: &[u8]) -> bool {
    key.get(2..4) == Some(&[0, 0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_between_first_offset_and_marker_are_aborted() {
        let aborted = |producer_id, first_offset| AbortedTransaction {
            producer_id,
            first_offset,
        };
        let list = vec![aborted(1, 30), aborted(1, 10), aborted(2, 12)];
        let mut filter = AbortedFilter::new(list);
        assert!(!filter.is_aborted(1, 9), "before the first offset");
        assert!(filter.is_aborted(1, 11));
        assert!(!filter.is_aborted(3, 13), "another producer");
        assert!(filter.is_aborted(2, 14));
        filter.on_abort_marker(1);
        assert!(!filter.is_aborted(1, 20), "the next transaction");
        assert!(filter.is_aborted(2, 21), "not ended yet");
        assert!(filter.is_aborted(1, 30), "aborted again");
    }
}
