//! The offsets that partitions have, and what becomes of a position that is not among them.

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::{Offset, TopicPartitionList};

use super::StartFrom;
use super::client::IngestContext;
use super::discovery::REQUEST_TIMEOUT;
use super::offsets::Offsets;

/// First and end offset of a partition, as its leader reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) first: i64,
    pub(super) end: i64,
}

impl Bounds {
    /// Returns where reading continues if the partition does not have `position`. Records that
    /// retention removed are gone, so `from` decides. A position beyond the end belongs to a topic
    /// that was deleted and created again: nothing of the new one has been read.
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
    /// Asks the leaders of all partitions in `list`; those that do not answer are left out.
    pub(super) fn query(consumer: &BaseConsumer<IngestContext>, list: &[(String, i32)]) -> Self {
        Self {
            first: query(consumer, list, Offset::Beginning),
            end: query(consumer, list, Offset::End),
        }
    }

    pub(super) fn get(&self, topic: &str, partition: i32) -> Option<Bounds> {
        Some(Bounds {
            first: self.first.get(topic, partition)?,
            end: self.end.get(topic, partition)?,
        })
    }
}

/// Returns the offset that `logical` stands for in each partition, without those that failed. One
/// partition without a leader fails a common request, so after a failure each is asked for alone.
pub(super) fn query(
    consumer: &BaseConsumer<IngestContext>,
    partitions: &[(String, i32)],
    logical: Offset,
) -> Offsets {
    let mut offsets = Offsets::default();
    if partitions.is_empty() {
        return offsets;
    }
    match ask(consumer, partitions, logical) {
        Ok(found) => found,
        Err(_) if partitions.len() == 1 => offsets,
        Err(_) => {
            for one in partitions.chunks(1) {
                offsets.merge(&query(consumer, one, logical));
            }
            offsets
        }
    }
}

fn ask(
    consumer: &BaseConsumer<IngestContext>,
    partitions: &[(String, i32)],
    logical: Offset,
) -> KafkaResult<Offsets> {
    let mut list = TopicPartitionList::new();
    for (topic, partition) in partitions {
        list.add_partition_offset(topic, *partition, logical)?;
    }
    let found = consumer.offsets_for_times(list, REQUEST_TIMEOUT)?;
    let mut offsets = Offsets::default();
    for element in found.elements() {
        if let (Ok(()), Offset::Offset(offset)) = (element.error(), element.offset()) {
            offsets.set(element.topic(), element.partition(), offset);
        }
    }
    Ok(offsets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_within_the_bounds_stay() {
        let bounds = Bounds { first: 5, end: 9 };
        for from in [StartFrom::Latest, StartFrom::Earliest] {
            for position in 5..=9 {
                assert_eq!(bounds.replacement(position, from), None);
            }
        }
    }

    #[test]
    fn positions_lost_by_retention_follow_the_start_rule() {
        let bounds = Bounds { first: 5, end: 9 };
        assert_eq!(bounds.replacement(4, StartFrom::Latest), Some(9));
        assert_eq!(bounds.replacement(4, StartFrom::Earliest), Some(5));
    }

    #[test]
    fn positions_beyond_the_end_start_over() {
        let bounds = Bounds { first: 0, end: 3 };
        for from in [StartFrom::Latest, StartFrom::Earliest] {
            assert_eq!(bounds.replacement(4, from), Some(0));
        }
    }
}
