//! Positions of a reader with the ids of the topics, so that they can be used by another process.

use super::reader::KafkaReader;
use super::state::{PartitionState, TopicState};

/// Next offsets of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPositions {
    /// Topic name.
    pub name: String,
    /// Topic id; 0 if it is unknown.
    pub id: u128,
    /// Next offset of each partition, in their order.
    pub next: Vec<i64>,
}

impl KafkaReader<'_> {
    /// Returns the next offset of every partition, by topic; `None` while a topic or a position is
    /// unknown.
    pub fn topic_positions(&self) -> Option<Vec<TopicPositions>> {
        let next = &self.cursor.next;
        let of_topic = |topic: &mut TopicState| {
            let name = &topic.name;
            let of_partition = |(index, (partition, state)): (i32, (&i32, &PartitionState))| {
                let next = next.get(name, *partition).or(state.start);
                next.filter(|_| *partition == index)
            };
            let partitions = (0..).zip(&topic.partitions);
            let positions: Option<Vec<_>> = partitions.map(of_partition).collect();
            Some(TopicPositions {
                name: name.clone(),
                id: topic.id,
                next: positions.filter(|all| !all.is_empty())?,
            })
        };
        self.shared
            .with_topics(|topics| topics.iter_mut().map(of_topic).collect())
    }
}
