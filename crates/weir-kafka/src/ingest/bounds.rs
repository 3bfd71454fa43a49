//! First and end offsets of partitions, and replacements of positions that are out of range.

use super::config::StartFrom;
use super::offsets::Offsets;
use super::partition_client::{OffsetAt, PartitionClient, TopicPartition};

/// First and end offset of a partition, as reported by its leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) first: i64,
    pub(super) end: i64,
}

impl Bounds {
    /// Returns the offset to continue at if `position` is out of range, else `None`. If retention
    /// removed the records, `from` decides. A position beyond the end belongs to a topic that was
    /// deleted and created again, so the new topic is read from its beginning.
    pub(super) fn replacement(self, position: i64, from: StartFrom) -> Option<i64> {
        if position > self.end {
            return Some(self.first);
        }
        (position < self.first).then_some(match from {
            StartFrom::Earliest => self.first,
            StartFrom::Latest => self.end,
        })
    }
}

/// Bounds of several partitions.
#[derive(Debug, Default)]
pub(super) struct AllBounds {
    first: Offsets,
    end: Offsets,
}

impl AllBounds {
    /// Requests the bounds of the partitions in `list` from their leaders. The result lacks those
    /// whose leader did not respond.
    pub(super) fn query(client: &dyn PartitionClient, list: &[TopicPartition]) -> Self {
        Self {
            first: query(client, list, OffsetAt::Beginning),
            end: query(client, list, OffsetAt::End),
        }
    }

    pub(super) fn get(&self, topic: &str, partition: i32) -> Option<Bounds> {
        Some(Bounds {
            first: self.first.get(topic, partition)?,
            end: self.end.get(topic, partition)?,
        })
    }
}

/// Returns an offset of each partition, without failed ones.
pub(super) fn query(
    client: &dyn PartitionClient,
    partitions: &[TopicPartition],
    at: OffsetAt,
) -> Offsets {
    let mut offsets = Offsets::default();
    if partitions.is_empty() {
        return offsets;
    }
    for ((topic, partition), offset) in client.offsets(partitions, at) {
        if let Ok(offset) = offset {
            offsets.set(&topic, partition, offset);
        }
    }
    offsets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_within_bounds_are_valid() {
        let bounds = Bounds { first: 5, end: 9 };
        for from in [StartFrom::Latest, StartFrom::Earliest] {
            for position in 5..=9 {
                assert_eq!(bounds.replacement(position, from), None);
            }
        }
    }

    #[test]
    fn positions_lost_by_retention_follow_start_config() {
        let bounds = Bounds { first: 5, end: 9 };
        assert_eq!(bounds.replacement(4, StartFrom::Latest), Some(9));
        assert_eq!(bounds.replacement(4, StartFrom::Earliest), Some(5));
    }

    #[test]
    fn positions_beyond_end_restart_at_first_offset() {
        let bounds = Bounds { first: 0, end: 3 };
        for from in [StartFrom::Latest, StartFrom::Earliest] {
            assert_eq!(bounds.replacement(4, from), Some(0));
        }
    }
}
