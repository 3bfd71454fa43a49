//! The reading end: takes records from librdkafka, keeps positions, holds reading back and goes on,
//! stores offsets. One thread at a time; the records themselves may be read on others.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{Offset, TopicPartitionList};

use super::client::IngestContext;
use super::committer::Committer;
use super::discovery::assign_waiting;
use super::moves::Move;
use super::offsets::Offsets;
use super::state::IngestState;
use super::{PartitionLag, PauseScope, SourceError, SourceStatus};
use crate::record::{HeaderList, Record};

/// What a reader remembers between calls.
#[derive(Debug, Default)]
pub(super) struct ReadCursor {
    /// Next offset to be read, from records handed over.
    pub(super) next: Offsets,
    /// What was stored last, to skip what would change nothing.
    pub(super) stored: Offsets,
    pub(super) headers_skipped: u64,
}

/// Reads; lends its records for as long as its [`KafkaIngest`](super::KafkaIngest) is borrowed.
pub struct KafkaReader<'a> {
    pub(super) consumer: &'a BaseConsumer<IngestContext>,
    pub(super) shared: &'a IngestState,
    pub(super) committer: Option<&'a Committer>,
    pub(super) cursor: &'a mut ReadCursor,
}

/// A record lent by librdkafka: nothing is copied, and another thread may read and drop it.
pub struct LentRecord<'a>(BorrowedMessage<'a>);

impl LentRecord<'_> {
    /// Topic the record was read from.
    #[must_use]
    pub fn topic(&self) -> &str {
        self.0.topic()
    }

    /// Partition of that topic.
    #[must_use]
    pub fn partition(&self) -> i32 {
        self.0.partition()
    }

    /// Offset in that partition.
    #[must_use]
    pub fn offset(&self) -> i64 {
        self.0.offset()
    }

    /// Key bytes; `None` is a null key.
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        self.0.key()
    }

    /// All of it. Header names that are not UTF-8 are left out and counted.
    pub fn record(&self, headers_skipped: &mut u64) -> Record<'_> {
        Record {
            headers: borrow_headers(&self.0, headers_skipped),
            ..self.without_headers()
        }
    }

    /// All but its headers, which librdkafka parses only for those who ask.
    #[must_use]
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
    /// Waits up to `timeout` for a first record, then appends what is there to `out`, at most `max`
    /// records. Tells how many.
    ///
    /// # Errors
    /// Only when the source can never deliver again.
    pub fn poll(
        &mut self,
        timeout: Duration,
        max: usize,
        out: &mut Vec<LentRecord<'a>>,
    ) -> Result<usize, SourceError> {
        self.take_news()?;
        let deadline = Instant::now() + timeout;
        let mut count = 0;
        while count < max {
            let wait = if count == 0 {
                deadline.saturating_duration_since(Instant::now())
            } else {
                Duration::ZERO
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
                // librdkafka retries by itself.
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

    /// Stops reading. `unread` were polled but count as not read: they come again after
    /// [`go_on`](Self::go_on), before what follows them.
    ///
    /// # Errors
    /// librdkafka's refusal, which would be a fault of this crate.
    pub fn hold(&mut self, unread: &[LentRecord<'_>]) -> Result<(), SourceError> {
        self.take_news()?;
        for record in unread.iter().rev() {
            let (topic, partition) = (record.topic(), record.partition());
            self.cursor.next.set(topic, partition, record.offset());
        }
        let next = &self.cursor.next;
        let outcome = self.shared.with_hold(|hold, topics| {
            *hold = PauseScope::All;
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
                _ => self.consumer.incremental_unassign(&read),
            }
        });
        outcome.map_err(refused)
    }

    /// Reads everything that was held back, from where it was held.
    ///
    /// # Errors
    /// librdkafka's refusal, which would be a fault of this crate.
    pub fn go_on(&mut self) -> Result<(), SourceError> {
        self.shared.with_hold(|hold, _| *hold = PauseScope::Nothing);
        assign_waiting(self.consumer, self.shared).map_err(refused)
    }

    /// Reads what was held back, except for partitions that resume from a stored offset.
    ///
    /// # Errors
    /// librdkafka's refusal, which would be a fault of this crate.
    pub fn go_on_with_new(&mut self) -> Result<(), SourceError> {
        self.shared.with_hold(|hold, _| *hold = PauseScope::Stored);
        assign_waiting(self.consumer, self.shared).map_err(refused)
    }

    /// Returns `true` if any partition resumes from a stored offset.
    #[must_use]
    pub fn resumes(&self) -> bool {
        self.shared.with_topics(|topics| {
            let partitions = topics.iter().flat_map(|topic| topic.partitions.values());
            partitions.into_iter().any(|partition| partition.stored)
        })
    }

    /// Returns `true` if this reader gets nothing useful any more, since a topic was replaced by
    /// another one of its name: end it and call [`renew`](super::KafkaIngest::renew).
    #[must_use]
    pub fn needs_renewal(&self) -> bool {
        self.shared.needs_renewal()
    }

    /// Lets librdkafka tell what it has to tell while reading is held back.
    ///
    /// # Errors
    /// librdkafka's refusal, which would be a fault of this crate.
    pub fn serve(&mut self) -> Result<(), SourceError> {
        self.take_news()?;
        // A record left over from before comes again: it is not counted as read.
        drop(self.consumer.poll(Duration::ZERO));
        Ok(())
    }

    /// Where each partition goes on: behind the last record polled, or where it started.
    #[must_use]
    pub fn positions(&self) -> Offsets {
        let mut positions = Offsets::default();
        self.shared.with_topics(|topics| {
            for topic in topics.iter() {
                for (partition, state) in &topic.partitions {
                    let next = self
                        .cursor
                        .next
                        .get(&topic.name, *partition)
                        .or(state.start);
                    if let Some(next) = next {
                        positions.set(&topic.name, *partition, next);
                    }
                }
            }
        });
        positions
    }

    /// Stores offsets under the group id and does not wait for the answer, which
    /// [`SourceStatus`] counts. Nothing is sent without a group id, or if these were sent last.
    ///
    /// # Errors
    /// librdkafka's refusal of an offset.
    pub fn commit(&mut self, offsets: &Offsets) -> Result<(), SourceError> {
        let Some(committer) = self.committer else {
            return Ok(());
        };
        if self.cursor.stored == *offsets {
            return Ok(());
        }
        let mut list = TopicPartitionList::new();
        for (topic, partition, offset) in offsets.iter() {
            let added = list.add_partition_offset(topic, partition, Offset::Offset(offset));
            added.map_err(refused)?;
        }
        committer.post(list);
        self.cursor.stored = offsets.clone();
        Ok(())
    }

    /// Waits for the answers to all commits, at most so long; `true` if they came.
    #[must_use]
    pub fn await_commits(&self, patience: Duration) -> bool {
        self.committer
            .is_none_or(|committer| committer.wait_committed(patience))
    }

    /// How the source is doing; asks no broker.
    #[must_use]
    pub fn status(&self) -> SourceStatus {
        SourceStatus {
            headers_skipped: self.cursor.headers_skipped,
            ..self.shared.status()
        }
    }

    /// Returns the lag of each partition from cached figures and, if brokers answer and every end is
    /// known, `true`. Asks no broker.
    #[must_use]
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
            tracing::warn!(topic, partition, offset, "offsets started anew");
        }
    }

    fn note_error(&self, error: &KafkaError) {
        let code = match error {
            KafkaError::MessageConsumption(code) => *code,
            _ => RDKafkaErrorCode::Unknown,
        };
        match code {
            // Not a failure: what became of a position is found out and logged there.
            RDKafkaErrorCode::AutoOffsetReset => return self.shared.doubt(self.positions()),
            RDKafkaErrorCode::UnknownTopicOrPartition
            | RDKafkaErrorCode::UnknownTopic
            | RDKafkaErrorCode::UnknownPartition => self.shared.probe_soon(),
            _ => {}
        }
        self.shared.note_error(error.to_string());
    }

    /// Forgets deleted topics and moves positions as discovery decided.
    fn take_news(&mut self) -> Result<(), SourceError> {
        let Some((deleted, moves)) = self.shared.take_news() else {
            return Ok(());
        };
        for topic in deleted {
            self.cursor.next.remove(&topic);
            self.cursor.stored.remove(&topic);
        }
        match moves.is_empty() {
            true => Ok(()),
            false => self.apply(&moves).map_err(refused),
        }
    }

    /// Reads partitions from elsewhere, unless they have been read on since that was decided.
    fn apply(&mut self, moves: &[Move]) -> KafkaResult<()> {
        let next = &mut self.cursor.next;
        let mut lost = Vec::new();
        self.shared.with_topics(|topics| {
            let mut read = TopicPartitionList::new();
            for order in moves {
                let topic = topics.iter_mut().find(|topic| topic.name == order.topic);
                let state = topic.and_then(|topic| topic.partitions.get_mut(&order.partition));
                let Some(state) = state else { continue };
                let position = next.get(&order.topic, order.partition).or(state.start);
                if position != Some(order.from) {
                    continue;
                }
                state.start = Some(order.to);
                next.set(&order.topic, order.partition, order.to);
                if std::mem::take(&mut state.assigned) {
                    read.add_partition(&order.topic, order.partition);
                }
                if order.from != order.to {
                    lost.push(order);
                }
            }
            match read.count() {
                0 => Ok(()),
                _ => self.consumer.incremental_unassign(&read),
            }
        })?;
        for order in lost {
            self.shared.note_reset();
            order.log();
        }
        assign_waiting(self.consumer, self.shared)
    }
}

fn refused(error: KafkaError) -> SourceError {
    SourceError::Refused {
        reason: error.to_string(),
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
        // rdkafka 0.39 unwraps the UTF-8 check of the name, and anyone who may produce chooses
        // that name, so the panic is caught here. Costs nothing when it does not happen.
        match catch_unwind(AssertUnwindSafe(|| headers.try_get(index))) {
            Ok(Some(header)) => list.push((header.key, header.value)),
            Ok(None) => break,
            Err(_) => *skipped += 1,
        }
    }
    list
}
