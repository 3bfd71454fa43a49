//! Holds single partitions at a record that cannot be processed yet, while the others are read on.

use super::discovery::assign_ready;
use super::error::SourceError;
use super::reader::KafkaReader;
use super::state::partition_mut;

impl KafkaReader<'_> {
    /// Stops reading a partition. Records from `offset` on count as not read: they are delivered
    /// again after [`Self::release`]. Records that were polled already are the caller's to drop.
    ///
    /// # Errors
    /// The client rejected the call, which would be a bug in this crate.
    pub fn hold(&mut self, topic: &str, partition: i32, offset: i64) -> Result<(), SourceError> {
        let next = &mut self.cursor.next;
        self.shared.with_topics(|topics| {
            // A deleted topic has no partitions.
            let Some(state) = partition_mut(topics, topic, partition) else {
                return Ok(());
            };
            next.set(topic, partition, offset);
            state.held = true;
            state.start = Some(offset);
            if !std::mem::take(&mut state.assigned) {
                return Ok(());
            }
            let client = self.client.partitions();
            client.unassign(&[(topic.to_owned(), partition)])
        })
    }

    /// Reads a held partition on, where it was held. Does nothing if it is not held.
    ///
    /// # Errors
    /// The client rejected the call, which would be a bug in this crate.
    pub fn release(&mut self, topic: &str, partition: i32) -> Result<(), SourceError> {
        self.shared.with_topics(|topics| {
            if let Some(state) = partition_mut(topics, topic, partition) {
                state.held = false;
            }
        });
        assign_ready(self.client.partitions(), self.shared)
    }
}
