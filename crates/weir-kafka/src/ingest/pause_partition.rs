//! Pauses single partitions at a record that cannot be processed yet, while the others are read.

use super::discovery::assign_ready;
use super::error::SourceError;
use super::reader::KafkaReader;
use super::state::partition_mut;

impl KafkaReader<'_> {
    /// Stops reading a partition. Records from `offset` on count as not read: they are delivered
    /// again after [`Self::resume_partition`]. The caller drops records that were polled already.
    ///
    /// # Errors
    /// The client rejected the call, which would be a bug in this crate.
    pub fn pause_partition(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
    ) -> Result<(), SourceError> {
        let next = &mut self.cursor.next;
        self.shared.with_topics(|topics| {
            // A deleted topic has no partitions.
            let Some(state) = partition_mut(topics, topic, partition) else {
                return Ok(());
            };
            next.set(topic, partition, offset);
            state.paused = true;
            state.start = Some(offset);
            if !std::mem::take(&mut state.assigned) {
                return Ok(());
            }
            let client = self.client.partitions();
            client.unassign(&[(topic.to_owned(), partition)])
        })
    }

    /// Resumes a paused partition where it was paused. Does nothing if it is not paused.
    ///
    /// # Errors
    /// The client rejected the call, which would be a bug in this crate.
    pub fn resume_partition(&mut self, topic: &str, partition: i32) -> Result<(), SourceError> {
        self.shared.with_topics(|topics| {
            if let Some(state) = partition_mut(topics, topic, partition) {
                state.paused = false;
            }
        });
        assign_ready(self.client.partitions(), self.shared)
    }
}
