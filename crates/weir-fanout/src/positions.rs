//! Positions of Kafka connections in the updates of a shard, from which the ids of events are made.
//!
//! The position of a shard is a cut: of the items whose events have ids, every record before it has
//! been fanned out, and no record after it.

use std::sync::Arc;

use crate::events::{PARTITIONS_MAX, check_of, push_id};

/// The partitions that a Kafka connection reads, in a fixed order.
#[derive(Debug, PartialEq, Eq)]
pub struct PartitionLayout {
    /// Number that distinguishes the layout from earlier ones of the connection.
    generation: u32,
    /// Topics with the index of their partition 0, in ascending order of their names.
    topics: Box<[(Arc<str>, u32)]>,
    partitions: usize,
    check: u64,
}

/// A topic of a layout.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LayoutTopic {
    /// Name.
    pub name: Arc<str>,
    /// Topic id; 0 if it is unknown.
    pub id: u128,
    /// Number of partitions.
    pub partitions: u32,
}

/// Place of a record in a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordPosition {
    /// Generation of the layout.
    pub generation: u32,
    /// Index of the partition in the layout.
    pub partition: u32,
    /// Offset in the partition.
    pub offset: i64,
}

impl PartitionLayout {
    /// Returns the layout of these topics; `None` without a partition, or with more than
    /// [`PARTITIONS_MAX`].
    pub fn new(connection: &str, generation: u32, mut topics: Vec<LayoutTopic>) -> Option<Self> {
        topics.sort();
        let mut partitions = 0;
        let mut placed = Vec::with_capacity(topics.len());
        let mut parts: Vec<Vec<u8>> = vec![connection.as_bytes().to_vec()];
        for topic in topics {
            placed.push((Arc::clone(&topic.name), partitions as u32));
            partitions += topic.partitions as usize;
            parts.push(topic.name.as_bytes().to_vec());
            parts.push(topic.id.to_be_bytes().to_vec());
            parts.push(topic.partitions.to_be_bytes().to_vec());
        }
        (1..=PARTITIONS_MAX).contains(&partitions).then(|| Self {
            generation,
            topics: placed.into(),
            partitions,
            check: check_of(parts.iter().map(Vec::as_slice)),
        })
    }

    /// Returns the number that distinguishes the layout from others of its connection.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Returns the check of its partitions, which ids contain.
    pub fn check(&self) -> u64 {
        self.check
    }

    /// Returns `true` if both layouts have the same partitions of the same topics.
    pub fn has_same_partitions(&self, other: &Self) -> bool {
        self.check == other.check && self.topics == other.topics
    }

    /// Returns the number of partitions.
    pub fn partitions(&self) -> usize {
        self.partitions
    }

    /// Returns the place of a record.
    pub fn place(&self, topic: &str, partition: i32, offset: i64) -> Option<RecordPosition> {
        let at = self.topics.iter().position(|(name, _)| &**name == topic)?;
        let (first, end) = self.range(at);
        let index = first.checked_add(u32::try_from(partition).ok()?)?;
        (index < end).then_some(RecordPosition {
            generation: self.generation,
            partition: index,
            offset,
        })
    }

    /// Returns topic and number of the partition at an index.
    pub fn partition(&self, index: u32) -> Option<(&str, i32)> {
        let at = self.topics.partition_point(|(_, first)| *first <= index);
        let (topic, first) = self.topics.get(at.checked_sub(1)?)?;
        ((index as usize) < self.partitions).then(|| (&**topic, (index - first) as i32))
    }

    fn range(&self, topic: usize) -> (u32, u32) {
        let first = self.topics[topic].1;
        let next = self.topics.get(topic + 1);
        (
            first,
            next.map_or(self.partitions as u32, |(_, first)| *first),
        )
    }
}

/// Positions of the thread that reads a Kafka connection, posted after the records before them.
#[derive(Debug)]
pub struct PositionReport {
    /// Index of the connection in the configuration.
    pub connection: u16,
    /// Number of the last request before the report.
    pub number: u64,
    /// Its partitions; `None` if they are unknown or too many.
    pub layout: Option<Arc<PartitionLayout>>,
    /// Next offset of each partition.
    pub next: Box<[i64]>,
}

/// The cut of a Kafka connection in a shard.
#[derive(Debug)]
struct ConnectionCut {
    layout: Arc<PartitionLayout>,
    next: Box<[i64]>,
    id: String,
    is_stale: bool,
}

/// The cuts of all Kafka connections of a shard.
#[derive(Debug, Default)]
pub(crate) struct PositionCuts {
    cuts: Vec<Option<ConnectionCut>>,
    scratch: Vec<u8>,
}

impl PositionCuts {
    /// Takes over the positions of a reader.
    pub(crate) fn report(&mut self, report: &PositionReport) {
        let index = usize::from(report.connection);
        if self.cuts.len() <= index {
            self.cuts.resize_with(index + 1, || None);
        }
        let cut = &mut self.cuts[index];
        let Some(layout) = &report.layout else {
            *cut = None;
            return;
        };
        match cut {
            Some(cut) if cut.layout.generation == layout.generation => {
                for (next, reported) in cut.next.iter_mut().zip(&report.next) {
                    *next = (*reported).max(*next);
                }
                cut.is_stale = true;
            }
            _ => {
                *cut = Some(ConnectionCut {
                    layout: Arc::clone(layout),
                    next: report.next.clone(),
                    id: String::new(),
                    is_stale: true,
                });
            }
        }
    }

    /// Moves a cut behind a record. Returns `false` if the layout of the connection has changed.
    pub(crate) fn advance(&mut self, connection: u16, record: RecordPosition) -> bool {
        let Some(cut) = self.cut_mut(connection) else {
            return false;
        };
        if cut.layout.generation != record.generation {
            return false;
        }
        if let Some(next) = cut.next.get_mut(record.partition as usize) {
            *next = record.offset.saturating_add(1).max(*next);
            cut.is_stale = true;
        }
        true
    }

    /// Returns the id of the current cut, which is encoded when first needed.
    pub(crate) fn id(&mut self, connection: u16) -> Option<&str> {
        let cut = self.cuts.get_mut(usize::from(connection))?.as_mut()?;
        if std::mem::take(&mut cut.is_stale) {
            cut.id.clear();
            push_id(&mut cut.id, &mut self.scratch, cut.layout.check, &cut.next);
        }
        Some(&cut.id)
    }

    /// Returns the layout of a connection and the next offset of each partition.
    pub(crate) fn cut(&self, connection: u16) -> Option<(&Arc<PartitionLayout>, &[i64])> {
        let cut = self.cuts.get(usize::from(connection))?.as_ref()?;
        Some((&cut.layout, &cut.next))
    }

    fn cut_mut(&mut self, connection: u16) -> Option<&mut ConnectionCut> {
        self.cuts.get_mut(usize::from(connection))?.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Position;

    fn topic(name: &str, id: u128, partitions: u32) -> LayoutTopic {
        LayoutTopic {
            name: name.into(),
            id,
            partitions,
        }
    }

    fn layout(generation: u32) -> Arc<PartitionLayout> {
        let topics = vec![topic("b", 2, 1), topic("a", 1, 2)];
        Arc::new(PartitionLayout::new("c", generation, topics).expect("a layout"))
    }

    fn report(layout: &Arc<PartitionLayout>, next: [i64; 3]) -> PositionReport {
        PositionReport {
            connection: 1,
            number: 0,
            layout: Some(Arc::clone(layout)),
            next: next.into(),
        }
    }

    #[test]
    fn partitions_have_one_order() {
        let layout = layout(3);
        let placed = [("a", 0), ("a", 1), ("b", 0)];
        for (index, (topic, partition)) in (0..).zip(placed) {
            let place = layout.place(topic, partition, 9).expect("a place");
            assert_eq!((place.partition, place.generation), (index, 3));
            assert_eq!(layout.partition(index), Some((topic, partition)));
        }
        for (topic, partition) in [("a", 2), ("b", 1), ("c", 0), ("a", -1)] {
            assert_eq!(layout.place(topic, partition, 9), None);
        }
        assert_eq!(layout.partition(3), None);
        assert!(PartitionLayout::new("c", 0, vec![topic("a", 1, 65)]).is_none());
        assert!(PartitionLayout::new("c", 0, Vec::new()).is_none());
    }

    #[test]
    fn recreated_topic_changes_the_check() {
        let of = |id, partitions| {
            let layout = PartitionLayout::new("c", 0, vec![topic("a", id, partitions)]);
            layout.expect("a layout").check()
        };
        assert_eq!(of(1, 2), of(1, 2));
        assert_ne!(of(1, 2), of(3, 2));
        assert_ne!(of(1, 2), of(1, 3));
    }

    #[test]
    fn cut_moves_forward_only() {
        let (mut cuts, layout) = (PositionCuts::default(), layout(0));
        assert_eq!(cuts.id(1), None);
        cuts.report(&report(&layout, [5, 0, 7]));
        let at = |partition, offset| RecordPosition {
            generation: 0,
            partition,
            offset,
        };
        assert!(cuts.advance(1, at(1, 3)) && cuts.advance(1, at(0, 2)));
        let read = |cuts: &mut PositionCuts| {
            let position = Position::parse(cuts.id(1).expect("an id")).expect("valid");
            assert_eq!(position.check, layout.check());
            position.next.to_vec()
        };
        assert_eq!(read(&mut cuts), [5, 4, 7]);
        cuts.report(&report(&layout, [6, 1, 7]));
        assert_eq!(read(&mut cuts), [6, 4, 7]);
        let other = RecordPosition {
            generation: 1,
            ..at(0, 100)
        };
        assert!(!cuts.advance(1, other) && !cuts.advance(0, at(0, 1)));
        let unknown = PositionReport {
            layout: None,
            ..report(&layout, [0; 3])
        };
        cuts.report(&unknown);
        assert_eq!(cuts.id(1), None);
    }
}
