//! Takes records from the client, tracks positions, pauses and resumes, and commits offsets. Used
//! by one thread at a time; other threads may use the records.

use std::time::{Duration, Instant};

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message};

use super::borrowed_record::BorrowedRecord;
use super::client_kind::ClientKind;
use super::committer::Committer;
use super::config::PauseScope;
use super::discovery::assign_ready;
use super::error::SourceError;
use super::lean::{LeanClient, QueueEntry};
use super::librdkafka::LibrdkafkaClient;
use super::moves::{Move, MoveReason};
use super::offsets::Offsets;
use super::state::{IngestState, partition_mut};
use super::status::{PartitionLag, SourceStatus};

/// State of a reader between calls.
#[derive(Debug, Default)]
pub(super) struct ReadCursor {
    /// Next offset of each partition, after the records returned so far.
    pub(super) next: Offsets,
    /// Offsets of the last commit, to skip commits that change nothing.
    pub(super) stored: Offsets,
    pub(super) headers_skipped: u64,
}

/// Reader of records. It lends them while its [`KafkaIngest`](super::KafkaIngest) is borrowed.
pub struct KafkaReader<'a> {
    pub(super) client: &'a ClientKind,
    pub(super) shared: &'a IngestState,
    pub(super) committer: Option<&'a Committer>,
    pub(super) cursor: &'a mut ReadCursor,
}

impl<'a> KafkaReader<'a> {
    /// Waits up to `timeout` for a first record, then appends the available records, at most `max`,
    /// to `out`. Returns their number.
    ///
    /// # Errors
    /// Only if the source can never deliver records again.
    pub fn poll(
        &mut self,
        timeout: Duration,
        max: usize,
        out: &mut Vec<BorrowedRecord<'a>>,
    ) -> Result<usize, SourceError> {
        self.take_changes()?;
        let deadline = Instant::now() + timeout;
        let client: &'a ClientKind = self.client;
        match client {
            ClientKind::Librdkafka(client) => self.poll_librdkafka(client, deadline, max, out),
            ClientKind::Lean(client) => self.poll_lean(client, deadline, max, out),
        }
    }

    fn poll_librdkafka(
        &mut self,
        client: &'a LibrdkafkaClient,
        deadline: Instant,
        max: usize,
        out: &mut Vec<BorrowedRecord<'a>>,
    ) -> Result<usize, SourceError> {
        let mut count = 0;
        while count < max {
            let wait = match count {
                0 => whole_ms(deadline.saturating_duration_since(Instant::now())),
                _ => Duration::ZERO,
            };
            match client.consumer().poll(wait) {
                None => break,
                Some(Ok(message)) => {
                    self.note_message(&message);
                    out.push(BorrowedRecord::librdkafka(message));
                    count += 1;
                }
                Some(Err(KafkaError::MessageConsumptionFatal(code))) => {
                    return Err(SourceError::Fatal {
                        reason: code.to_string(),
                    });
                }
                // librdkafka retries.
                Some(Err(error)) => {
                    self.note_error(&error);
                    if Instant::now() >= deadline {
                        break;
                    }
                }
            }
        }
        Ok(count)
    }

    fn poll_lean(
        &mut self,
        client: &'a LeanClient,
        deadline: Instant,
        max: usize,
        out: &mut Vec<BorrowedRecord<'a>>,
    ) -> Result<usize, SourceError> {
        let first = out.len();
        let mut decoder = client.decoder();
        loop {
            let from = out.len();
            let mut failure = None;
            while out.len() - first < max {
                match decoder.next() {
                    Some(Ok(record)) => out.push(BorrowedRecord::lean(record)),
                    Some(Err(error)) => {
                        failure = Some(error);
                        break;
                    }
                    None => break,
                }
            }
            // All records decoded by this iteration are from one partition.
            if let (Some(one), Some(last)) = (out[from..].first(), out.last()) {
                self.note_position(one.topic(), one.partition(), (one.offset(), last.offset()));
            }
            if let Some(failure) = failure {
                self.shared.note_error(failure.to_string());
                client.fetch_again(&failure);
            }
            let count = out.len() - first;
            let wait = match count {
                0 => deadline.saturating_duration_since(Instant::now()),
                _ => Duration::ZERO,
            };
            if count >= max {
                return Ok(count);
            }
            match client.take(wait) {
                Some(QueueEntry::Records(records)) => decoder.open(records),
                Some(entry) => self.on_event(entry)?,
                None => return Ok(count),
            }
        }
    }

    /// Pauses all partitions. The `unread` records count as not read: they are delivered again
    /// after resuming, before later ones.
    ///
    /// # Errors
    /// The client rejected the call, which would be a bug in this crate.
    pub fn pause(&mut self, unread: &[BorrowedRecord<'_>]) -> Result<(), SourceError> {
        self.take_changes()?;
        for record in unread.iter().rev() {
            let (topic, partition) = (record.topic(), record.partition());
            self.cursor.next.set(topic, partition, record.offset());
        }
        let next = &self.cursor.next;
        self.shared.with_pause(|pause, topics| {
            *pause = PauseScope::All;
            let mut read = Vec::new();
            for topic in topics {
                for (partition, state) in &mut topic.partitions {
                    if std::mem::take(&mut state.assigned) {
                        read.push((topic.name.clone(), *partition));
                        state.start = next.get(&topic.name, *partition).or(state.start);
                    }
                }
            }
            match read.is_empty() {
                true => Ok(()),
                false => self.client.partitions().unassign(&read),
            }
        })
    }

    /// Resumes all paused partitions where they were paused.
    pub fn resume(&mut self) -> Result<(), SourceError> {
        self.shared
            .with_pause(|pause, _| *pause = PauseScope::Nothing);
        assign_ready(self.client.partitions(), self.shared)
    }

    /// Resumes paused partitions, except those that resume from a committed offset.
    pub fn resume_new(&mut self) -> Result<(), SourceError> {
        self.shared
            .with_pause(|pause, _| *pause = PauseScope::Committed);
        assign_ready(self.client.partitions(), self.shared)
    }

    /// Returns `true` if any partition resumes from a committed offset.
    pub fn has_committed_offsets(&self) -> bool {
        self.shared.with_topics(|topics| {
            let partitions = topics.iter().flat_map(|topic| topic.partitions.values());
            partitions.into_iter().any(|partition| partition.committed)
        })
    }

    /// Returns `true` if a topic was replaced by another one with the same name, so that this
    /// reader does not return its records. Drop the reader and call
    /// [`renew`](super::KafkaIngest::renew).
    pub fn needs_renewal(&self) -> bool {
        self.shared.needs_renewal()
    }

    /// Runs librdkafka's callbacks while reading is paused.
    pub fn run_callbacks(&mut self) -> Result<(), SourceError> {
        self.take_changes()?;
        if let ClientKind::Librdkafka(client) = self.client {
            // This record is delivered again, so it does not count as read.
            drop(client.consumer().poll(Duration::ZERO));
        }
        Ok(())
    }

    /// Returns the next offset of each partition: after the last record polled, or the start
    /// offset.
    pub fn positions(&self) -> Offsets {
        let mut positions = Offsets::default();
        self.shared.with_topics(|topics| {
            for topic in topics.iter() {
                for (partition, state) in &topic.partitions {
                    let next = self.cursor.next.get(&topic.name, *partition);
                    if let Some(next) = next.or(state.start) {
                        positions.set(&topic.name, *partition, next);
                    }
                }
            }
        });
        positions
    }

    /// Queues a commit of the offsets under the group id and does not wait for the result, which
    /// [`SourceStatus`] counts. Does nothing without a group id, or if the last commit had the same
    /// offsets.
    pub fn commit(&mut self, offsets: &Offsets) -> Result<(), SourceError> {
        let Some(committer) = self.committer else {
            return Ok(());
        };
        if self.cursor.stored == *offsets {
            return Ok(());
        }
        committer.post(offsets.clone());
        self.cursor.stored = offsets.clone();
        Ok(())
    }

    /// Waits up to `timeout` for the results of all commits. Returns `true` if all were received.
    #[must_use]
    pub fn await_commits(&self, timeout: Duration) -> bool {
        self.committer
            .is_none_or(|committer| committer.wait_committed(timeout))
    }

    /// Returns the current status without a request to a broker.
    pub fn status(&self) -> SourceStatus {
        SourceStatus {
            headers_skipped: self.cursor.headers_skipped,
            ..self.shared.status()
        }
    }

    /// Returns the cached lag of each partition, and `true` if brokers respond and every end is
    /// known. Sends no request to a broker.
    pub fn lag(&self) -> (Vec<PartitionLag>, bool) {
        let (mut lag, known) = self.shared.lag();
        for entry in &mut lag {
            if let Some(next) = self.cursor.next.get(&entry.topic, entry.partition) {
                entry.position = next;
            }
        }
        (lag, known)
    }

    fn note_message(&mut self, message: &BorrowedMessage<'_>) {
        let offset = message.offset();
        self.note_position(message.topic(), message.partition(), (offset, offset));
    }

    /// Sets the position after the records from offset `first` to `last`.
    fn note_position(&mut self, topic: &str, partition: i32, (first, last): (i64, i64)) {
        let before = self.cursor.next.set(topic, partition, last + 1);
        if before.is_some_and(|next| first < next) {
            self.shared.note_reset();
            tracing::warn!(topic, partition, offset = first, "offsets restarted");
        }
    }

    /// Handles an event of the lean client.
    fn on_event(&mut self, entry: QueueEntry) -> Result<(), SourceError> {
        match entry {
            QueueEntry::Records(_) => {}
            // Discovery checks and logs the positions.
            QueueEntry::OutOfRange { .. } => self.shared.request_check(self.positions()),
            QueueEntry::Truncated {
                key, topic, end, ..
            } => {
                let Some(from) = self.positions().get(&topic, key.1) else {
                    return Ok(());
                };
                let moved = Move {
                    topic: topic.to_string(),
                    partition: key.1,
                    from,
                    to: end.min(from),
                };
                self.apply(&[moved], MoveReason::Truncated)?;
            }
        }
        Ok(())
    }

    fn note_error(&self, error: &KafkaError) {
        let code = match error {
            KafkaError::MessageConsumption(code) => *code,
            _ => RDKafkaErrorCode::Unknown,
        };
        match code {
            // Not a failure: discovery checks and logs the positions.
            RDKafkaErrorCode::AutoOffsetReset => {
                return self.shared.request_check(self.positions());
            }
            RDKafkaErrorCode::UnknownTopicOrPartition
            | RDKafkaErrorCode::UnknownTopic
            | RDKafkaErrorCode::UnknownPartition => self.shared.probe_soon(),
            _ => {}
        }
        self.shared.note_error(error.to_string());
    }

    /// Removes deleted topics and applies the position changes that discovery requested.
    fn take_changes(&mut self) -> Result<(), SourceError> {
        let Some((deleted, moves)) = self.shared.take_changes() else {
            return Ok(());
        };
        for topic in deleted {
            self.cursor.next.remove(&topic);
            self.cursor.stored.remove(&topic);
        }
        match moves.is_empty() {
            true => Ok(()),
            false => self.apply(&moves, MoveReason::OutOfRange),
        }
    }

    /// Applies position changes, except to partitions whose position has changed since the check.
    fn apply(&mut self, moves: &[Move], reason: MoveReason) -> Result<(), SourceError> {
        let next = &mut self.cursor.next;
        let mut lost = Vec::new();
        self.shared.with_topics(|topics| {
            let mut read = Vec::new();
            for step in moves {
                let Some(state) = partition_mut(topics, &step.topic, step.partition) else {
                    continue;
                };
                let position = next.get(&step.topic, step.partition).or(state.start);
                if position != Some(step.from) {
                    continue;
                }
                state.start = Some(step.to);
                next.set(&step.topic, step.partition, step.to);
                if std::mem::take(&mut state.assigned) {
                    read.push((step.topic.clone(), step.partition));
                }
                if step.from != step.to {
                    lost.push(step);
                }
            }
            match read.is_empty() {
                true => Ok(()),
                false => self.client.partitions().unassign(&read),
            }
        })?;
        for step in lost {
            self.shared.note_move(step, reason);
        }
        assign_ready(self.client.partitions(), self.shared)
    }
}

/// Rounds up to milliseconds. librdkafka waits for whole milliseconds, and its binding polls
/// without a pause for the rest, which costs an idle gateway half a percent of a core.
fn whole_ms(wait: Duration) -> Duration {
    let ms = wait.as_micros().div_ceil(1_000);
    Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_whole_milliseconds() {
        for (us, ms) in [(0, 0), (1, 1), (999, 1), (1_000, 1), (99_981, 100)] {
            assert_eq!(
                whole_ms(Duration::from_micros(us)),
                Duration::from_millis(ms)
            );
        }
    }
}
