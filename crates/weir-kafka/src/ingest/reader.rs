//! Takes records from librdkafka, tracks positions, pauses and resumes, and commits offsets. Used
//! by one thread at a time; other threads may use the records.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{Offset, TopicPartitionList};

use super::client::IngestContext;
use super::committer::Committer;
use super::config::PauseScope;
use super::discovery::assign_ready;
use super::error::SourceError;
use super::moves::{Move, log_move};
use super::offsets::Offsets;
use super::state::{IngestState, partition_mut};
use super::status::{PartitionLag, SourceStatus};
use crate::record::{HeaderList, Record};

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
    pub(super) consumer: &'a BaseConsumer<IngestContext>,
    pub(super) shared: &'a IngestState,
    pub(super) committer: Option<&'a Committer>,
    pub(super) cursor: &'a mut ReadCursor,
}

/// A record lent by librdkafka, without a copy. Another thread may use and drop it.
pub struct LentRecord<'a>(BorrowedMessage<'a>);

impl LentRecord<'_> {
    /// Returns the topic of the record.
    pub fn topic(&self) -> &str {
        self.0.topic()
    }

    /// Returns the partition within that topic.
    pub fn partition(&self) -> i32 {
        self.0.partition()
    }

    /// Returns the offset in that partition.
    pub fn offset(&self) -> i64 {
        self.0.offset()
    }

    /// Returns the key; `None` is a null key.
    pub fn key(&self) -> Option<&[u8]> {
        self.0.key()
    }

    /// Returns the record with its headers. Headers whose names are not UTF-8 are skipped and
    /// counted.
    pub fn record(&self, headers_skipped: &mut u64) -> Record<'_> {
        Record {
            headers: borrow_headers(&self.0, headers_skipped),
            ..self.without_headers()
        }
    }

    /// Returns the record without its headers, so that librdkafka does not parse them.
    pub fn without_headers(&self) -> Record<'_> {
        Record {
            topic: self.0.topic(),
            partition: self.0.partition(),
            offset: self.0.offset(),
            timestamp_ms: self.0.timestamp().to_millis().unwrap_or(-1),
            key: self.0.key(),
            value: self.0.payload(),
            headers: HeaderList::new(),
        }
    }
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
        out: &mut Vec<LentRecord<'a>>,
    ) -> Result<usize, SourceError> {
        self.take_changes()?;
        let deadline = Instant::now() + timeout;
        let mut count = 0;
        while count < max {
            let wait = match count {
                0 => deadline.saturating_duration_since(Instant::now()),
                _ => Duration::ZERO,
            };
            match self.consumer.poll(wait) {
                None => break,
                Some(Ok(message)) => {
                    self.note_position(&message);
                    out.push(LentRecord(message));
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

    /// Pauses all partitions. The `unread` records count as not read: they are delivered again
    /// after resuming, before later ones.
    ///
    /// # Errors
    /// librdkafka rejected the call, which would be a bug in this crate.
    pub fn pause(&mut self, unread: &[LentRecord<'_>]) -> Result<(), SourceError> {
        self.take_changes()?;
        for record in unread.iter().rev() {
            let (topic, partition) = (record.topic(), record.partition());
            self.cursor.next.set(topic, partition, record.offset());
        }
        let next = &self.cursor.next;
        self.shared.with_pause(|pause, topics| {
            *pause = PauseScope::All;
            let mut read = TopicPartitionList::new();
            for topic in topics {
                for (partition, state) in &mut topic.partitions {
                    if std::mem::take(&mut state.assigned) {
                        read.add_partition(&topic.name, *partition);
                        state.start = next.get(&topic.name, *partition).or(state.start);
                    }
                }
            }
            match read.count() {
                0 => Ok(()),
                _ => Ok(self.consumer.incremental_unassign(&read)?),
            }
        })
    }

    /// Resumes all paused partitions where they were paused.
    pub fn resume(&mut self) -> Result<(), SourceError> {
        self.shared
            .with_pause(|pause, _| *pause = PauseScope::Nothing);
        Ok(assign_ready(self.consumer, self.shared)?)
    }

    /// Resumes paused partitions, except those that resume from a stored offset.
    pub fn resume_new(&mut self) -> Result<(), SourceError> {
        self.shared
            .with_pause(|pause, _| *pause = PauseScope::Stored);
        Ok(assign_ready(self.consumer, self.shared)?)
    }

    /// Returns `true` if any partition resumes from a stored offset.
    pub fn has_stored_positions(&self) -> bool {
        self.shared.with_topics(|topics| {
            let partitions = topics.iter().flat_map(|topic| topic.partitions.values());
            partitions.into_iter().any(|partition| partition.stored)
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
        // This record is delivered again, so it does not count as read.
        drop(self.consumer.poll(Duration::ZERO));
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

    /// Stores offsets under the group id, without waiting for the result, which [`SourceStatus`]
    /// counts. Does nothing without a group id, or if the same offsets were committed last.
    pub fn commit(&mut self, offsets: &Offsets) -> Result<(), SourceError> {
        let Some(committer) = self.committer else {
            return Ok(());
        };
        if self.cursor.stored == *offsets {
            return Ok(());
        }
        let mut list = TopicPartitionList::new();
        for (topic, partition, offset) in offsets.iter() {
            list.add_partition_offset(topic, partition, Offset::Offset(offset))?;
        }
        committer.post(list);
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

    fn note_position(&mut self, message: &BorrowedMessage<'_>) {
        let (topic, partition, offset) = (message.topic(), message.partition(), message.offset());
        let before = self.cursor.next.set(topic, partition, offset + 1);
        if before.is_some_and(|next| offset < next) {
            self.shared.note_reset();
            tracing::warn!(topic, partition, offset, "offsets restarted");
        }
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

    /// Forgets deleted topics and applies the moves of discovery.
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
            false => Ok(self.apply(&moves)?),
        }
    }

    /// Applies moves, except to partitions whose position has changed since the check.
    fn apply(&mut self, moves: &[Move]) -> KafkaResult<()> {
        let next = &mut self.cursor.next;
        let mut lost = Vec::new();
        self.shared.with_topics(|topics| {
            let mut read = TopicPartitionList::new();
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
                    read.add_partition(&step.topic, step.partition);
                }
                if step.from != step.to {
                    lost.push(step);
                }
            }
            match read.count() {
                0 => Ok(()),
                _ => self.consumer.incremental_unassign(&read),
            }
        })?;
        for step in lost {
            self.shared.note_reset();
            log_move(&step.topic, step.partition, step.from, step.to);
        }
        assign_ready(self.consumer, self.shared)
    }
}

pub(crate) fn borrow_headers<'a>(
    message: &'a BorrowedMessage<'_>,
    skipped: &mut u64,
) -> HeaderList<'a> {
    let mut list = HeaderList::new();
    let Some(headers) = message.headers() else {
        return list;
    };
    for index in 0..headers.count() {
        // rdkafka 0.39 unwraps the UTF-8 check of the name, and producers choose the name, so the
        // panic is caught here. This costs nothing when there is no panic.
        match catch_unwind(AssertUnwindSafe(|| headers.try_get(index))) {
            Ok(Some(header)) => list.push((header.key, header.value)),
            Ok(None) => break,
            Err(_) => *skipped += 1,
        }
    }
    list
}
