//! The thread that finds topics, partitions and start offsets, and assigns them.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};

use super::client::Context;
use super::state::{LookedUp, Shared};
use super::{IngestConfig, SourceError, StartFrom};

/// Starts the thread; it ends when `shared` says so.
pub(super) fn spawn(
    config: &IngestConfig,
    consumer: &Arc<BaseConsumer<Context>>,
    shared: &Arc<Shared>,
) -> Result<JoinHandle<()>, SourceError> {
    let discovery = Discovery {
        consumer: Arc::clone(consumer),
        shared: Arc::clone(shared),
        from: config.from,
        resume: config.group_id.is_some(),
        topics: config.topics.clone(),
    };
    std::thread::Builder::new()
        .name("kafka-discover".to_owned())
        .spawn(move || discovery.run())
        .map_err(|error| SourceError::Thread {
            reason: error.to_string(),
        })
}

struct Discovery {
    consumer: Arc<BaseConsumer<Context>>,
    shared: Arc<Shared>,
    from: StartFrom,
    /// Ask for stored offsets first.
    resume: bool,
    topics: Vec<String>,
}

impl Discovery {
    fn run(&self) {
        let mut interval = INTERVAL_MIN;
        loop {
            self.round();
            interval = if self.shared.settled() {
                INTERVAL_MAX
            } else {
                (interval * 2).min(INTERVAL_MAX)
            };
            if !self.shared.wait(interval) {
                return;
            }
            if !self.shared.status().ready {
                interval = interval.min(INTERVAL_LOST);
            }
        }
    }

    fn round(&self) {
        for index in 0..self.topics.len() {
            if self.shared.stopping() {
                return;
            }
            if let Err(error) = self.look_up(index) {
                let topic = &self.topics[index];
                self.shared.probed(false);
                self.shared
                    .note_error(format!("metadata of topic \"{topic}\": {error}"));
            }
        }
        if let Err(error) = self.assign_found() {
            self.shared.note_error(format!("start offsets: {error}"));
        }
    }

    /// Asks for one topic's partitions and notes the new ones.
    fn look_up(&self, index: usize) -> KafkaResult<()> {
        let name = self.topics[index].as_str();
        let metadata = self.consumer.fetch_metadata(Some(name), REQUEST_TIMEOUT)?;
        self.shared.probed(true);
        let Some(found) = metadata.topics().iter().find(|topic| topic.name() == name) else {
            return Ok(());
        };
        let error = found.error().map(RDKafkaErrorCode::from);
        let partitions = match error {
            None => Some(i32::try_from(found.partitions().len()).unwrap_or(i32::MAX)),
            Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
                None
            }
            Some(code) => return Err(KafkaError::MetadataFetch(code)),
        };
        let looked_up = self
            .shared
            .with_topics(|topics| topics[index].looked_up(partitions));
        match looked_up {
            LookedUp::Same => Ok(()),
            LookedUp::Grew => {
                tracing::info!(topic = name, partitions, "reading topic");
                Ok(())
            }
            LookedUp::Deleted => {
                tracing::warn!(topic = name, "topic was deleted");
                self.forget(index)
            }
        }
    }

    /// Stops reading a deleted topic. One that is created with its name is read from its beginning.
    fn forget(&self, index: usize) -> KafkaResult<()> {
        self.shared.note_deleted(&self.topics[index]);
        self.shared.with_topics(|topics| {
            let topic = &mut topics[index];
            let partitions = std::mem::take(&mut topic.partitions);
            let mut gone = TopicPartitionList::new();
            for (partition, _) in partitions.iter().filter(|(_, state)| state.assigned) {
                gone.add_partition(&topic.name, *partition);
            }
            match gone.count() {
                0 => Ok(()),
                _ => self.consumer.incremental_unassign(&gone),
            }
        })
    }

    /// Gives every partition that is not read yet a numeric start offset and assigns it. Logical
    /// offsets would cost half a second each, and `ready` could not be told.
    fn assign_found(&self) -> KafkaResult<()> {
        let (mut late, mut asked) = (TopicPartitionList::new(), TopicPartitionList::new());
        self.shared.with_topics(|topics| {
            for topic in topics {
                for (partition, state) in &topic.partitions {
                    match state.start {
                        Some(_) => {}
                        None if state.late => {
                            late.add_partition(&topic.name, *partition);
                        }
                        None => {
                            asked.add_partition(&topic.name, *partition);
                        }
                    }
                }
            }
        });
        if late.count() > 0 {
            late.set_all_offsets(Offset::Offset(0))?;
            self.note_starts(&late, false)?;
        }
        let started = self.start_asked(&asked);
        assign_waiting(&self.consumer, &self.shared).and(started)
    }

    /// Notes where the leaders, or stored offsets, say. One partition without a leader fails a
    /// common question, so after a failure each partition is asked for alone.
    fn start_asked(&self, asked: &TopicPartitionList) -> KafkaResult<()> {
        let outcome = match asked.count() {
            0 => return Ok(()),
            _ => self.start_offsets(asked),
        };
        match outcome {
            Err(error) if asked.count() == 1 => Err(error),
            Err(_) => {
                let mut result = Ok(());
                for element in asked.elements() {
                    if self.shared.stopping() {
                        break;
                    }
                    let mut one = TopicPartitionList::new();
                    one.add_partition(element.topic(), element.partition());
                    result = self.start_asked(&one).and(result);
                }
                result
            }
            done => done,
        }
    }

    /// One request per leader for all partitions at once, after one for stored offsets.
    fn start_offsets(&self, asked: &TopicPartitionList) -> KafkaResult<()> {
        let mut unknown = asked.clone();
        if self.resume {
            let stored = self
                .consumer
                .committed_offsets(asked.clone(), REQUEST_TIMEOUT)?;
            self.note_starts(&stored, true)?;
            unknown = TopicPartitionList::new();
            for element in stored.elements() {
                if !matches!(element.offset(), Offset::Offset(_)) {
                    unknown.add_partition(element.topic(), element.partition());
                }
            }
        }
        if unknown.count() == 0 {
            return Ok(());
        }
        unknown.set_all_offsets(match self.from {
            StartFrom::Latest => Offset::End,
            StartFrom::Earliest => Offset::Beginning,
        })?;
        let found = self.consumer.offsets_for_times(unknown, REQUEST_TIMEOUT)?;
        self.note_starts(&found, false)
    }

    /// Takes over the offsets that are numbers.
    fn note_starts(&self, found: &TopicPartitionList, stored: bool) -> KafkaResult<()> {
        for element in found.elements() {
            if let Err(error) = element.error() {
                self.shared.note_error(format!(
                    "start offset of \"{}\" partition {}: {error}",
                    element.topic(),
                    element.partition()
                ));
                continue;
            }
            let Offset::Offset(start) = element.offset() else {
                continue;
            };
            self.shared.with_topics(|topics| {
                let mut topics = topics.iter_mut();
                let topic = topics.find(|topic| topic.name == element.topic());
                let state = topic.and_then(|topic| topic.partitions.get_mut(&element.partition()));
                if let Some(state) = state {
                    state.start = Some(start);
                    state.stored = stored;
                }
            });
        }
        Ok(())
    }
}

/// Gives librdkafka every partition whose start is known, except those that are held back.
pub(super) fn assign_waiting(consumer: &BaseConsumer<Context>, shared: &Shared) -> KafkaResult<()> {
    shared.with_hold(|hold, topics| {
        let mut waiting = TopicPartitionList::new();
        for topic in topics.iter() {
            for (partition, state) in &topic.partitions {
                if let Some(start) = state.start.filter(|_| state.is_waiting(*hold)) {
                    let start = Offset::Offset(start);
                    waiting.add_partition_offset(&topic.name, *partition, start)?;
                }
            }
        }
        if waiting.count() == 0 {
            return Ok(());
        }
        consumer.incremental_assign(&waiting)?;
        for topic in topics {
            for state in topic.partitions.values_mut() {
                state.assigned |= state.start.is_some() && state.is_waiting(*hold);
            }
        }
        Ok(())
    })
}

/// First pause between attempts; doubles up to the maximum.
const INTERVAL_MIN: Duration = Duration::from_millis(50);
/// Pause while brokers do not answer: how late recovery may be noticed.
const INTERVAL_LOST: Duration = Duration::from_millis(500);
/// Pause when all is well: how late a new topic or partition may be noticed.
const INTERVAL_MAX: Duration = Duration::from_secs(2);
/// Bounds how long stopping can take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
