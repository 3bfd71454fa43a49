//! The thread that finds topics, partitions and start offsets, and assigns them.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};

use super::bounds::{self, AllBounds};
use super::client::IngestContext;
use super::identity::Identities;
use super::moves::{Move, Moves};
use super::state::{IngestState, TopicLookup};
use super::{IngestConfig, SourceError, StartFrom};

/// Starts the thread; it ends when `shared` says so and returns the topic ids it knows.
pub(super) fn spawn(
    config: &IngestConfig,
    consumer: &Arc<BaseConsumer<IngestContext>>,
    shared: &Arc<IngestState>,
    identities: Identities,
) -> Result<JoinHandle<Identities>, SourceError> {
    let discovery = Discovery {
        consumer: Arc::clone(consumer),
        shared: Arc::clone(shared),
        from: config.from,
        resume: config.group_id.is_some(),
        topics: config.topics.clone(),
        brokers: Vec::new(),
        identities,
    };
    std::thread::Builder::new()
        .name("kafka-discover".to_owned())
        .spawn(move || discovery.run())
        .map_err(|error| SourceError::Thread {
            reason: error.to_string(),
        })
}

struct Discovery {
    consumer: Arc<BaseConsumer<IngestContext>>,
    shared: Arc<IngestState>,
    from: StartFrom,
    /// Ask for stored offsets first.
    resume: bool,
    topics: Vec<String>,
    /// Addresses of all brokers, as last told.
    brokers: Vec<(String, u16)>,
    identities: Identities,
}

impl Discovery {
    fn run(mut self) -> Identities {
        let mut interval = INTERVAL_MIN;
        loop {
            self.round();
            interval = if self.shared.settled() {
                INTERVAL_MAX
            } else {
                (interval * 2).min(INTERVAL_MAX)
            };
            if !self.shared.wait(interval) {
                return self.identities;
            }
            if !self.shared.status().ready {
                interval = interval.min(INTERVAL_LOST);
            }
        }
    }

    fn round(&mut self) {
        for index in 0..self.topics.len() {
            if self.shared.stopping() {
                return;
            }
            if let Err(error) = self.look_up_topic(index) {
                let topic = &self.topics[index];
                self.shared.probed(false);
                self.shared
                    .note_error(format!("metadata of topic \"{topic}\": {error}"));
            }
        }
        let replaced = self.identities.replaced(&self.brokers, &self.topics);
        if !replaced.is_empty() {
            // This client is of no more use.
            return self.shared.note_replaced(replaced);
        }
        if let Err(error) = self.assign_found() {
            self.shared.note_error(format!("start offsets: {error}"));
        }
        self.check_positions();
        let held = self.shared.held();
        let ends = bounds::query(&self.consumer, &held, Offset::End);
        self.shared.note_ends(&held, &ends);
    }

    /// Decides about positions that could not be read from. If all of them are right after all,
    /// reading starts again at each of them.
    fn check_positions(&self) {
        let Some(positions) = self.shared.with_moves(Moves::take_doubtful) else {
            return;
        };
        let partitions: Vec<_> = positions
            .iter()
            .map(|(topic, partition, _)| (topic.to_owned(), partition))
            .collect();
        let bounds = AllBounds::query(&self.consumer, &partitions);
        let mut moves = Vec::new();
        let mut unknown = 0;
        for (topic, partition, from) in positions.iter() {
            let Some(bounds) = bounds.get(topic, partition) else {
                unknown += 1;
                continue;
            };
            moves.push(Move {
                topic: topic.to_owned(),
                partition,
                from,
                to: bounds.replacement(from, self.from).unwrap_or(from),
            });
        }
        let outside = moves.iter().any(|one| one.from != one.to);
        if outside {
            moves.retain(|one| one.from != one.to);
        }
        self.shared.with_moves(|shared| {
            shared.decide(moves);
            if unknown > 0 {
                shared.doubt_again(positions);
            }
        });
    }

    /// Asks for one topic's partitions and notes the new ones.
    fn look_up_topic(&mut self, index: usize) -> KafkaResult<()> {
        let name = self.topics[index].clone();
        let name = name.as_str();
        let metadata = self.consumer.fetch_metadata(Some(name), REQUEST_TIMEOUT)?;
        self.shared.probed(true);
        let brokers = metadata.brokers().iter().filter_map(|broker| {
            let port = u16::try_from(broker.port()).ok()?;
            Some((broker.host().to_owned(), port))
        });
        self.brokers = brokers.collect();
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
            TopicLookup::Same => Ok(()),
            TopicLookup::Grew => {
                tracing::info!(topic = name, partitions, "reading topic");
                Ok(())
            }
            TopicLookup::Deleted => {
                tracing::warn!(topic = name, "topic was deleted");
                self.identities.deleted(name);
                self.forget(index)
            }
        }
    }

    /// Stops reading a deleted topic. One that is created with its name is read from its beginning.
    fn forget(&self, index: usize) -> KafkaResult<()> {
        let unassigned = self.shared.with_topics(|topics| {
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
        });
        // Only now no record of the old topic can come after the reader has forgotten it.
        self.shared.note_deleted(&self.topics[index]);
        unassigned
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
            self.note_starts(&self.within_bounds(&stored)?, true)?;
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

    /// Replaces stored offsets that their partitions do not have any more. Those of partitions
    /// whose leaders do not answer are left out.
    fn within_bounds(&self, stored: &TopicPartitionList) -> KafkaResult<TopicPartitionList> {
        let elements = stored.elements();
        let numbers = elements
            .iter()
            .filter_map(|element| match element.offset() {
                Offset::Offset(offset) => Some((element, offset)),
                _ => None,
            });
        let partitions: Vec<_> = numbers
            .clone()
            .map(|(element, _)| (element.topic().to_owned(), element.partition()))
            .collect();
        let bounds = AllBounds::query(&self.consumer, &partitions);
        let mut checked = TopicPartitionList::new();
        for (element, from) in numbers {
            let (topic, partition) = (element.topic(), element.partition());
            let Some(bounds) = bounds.get(topic, partition) else {
                continue;
            };
            let to = bounds.replacement(from, self.from);
            if let Some(to) = to {
                let topic = topic.to_owned();
                self.shared.note_reset();
                Move {
                    topic,
                    partition,
                    from,
                    to,
                }
                .log();
            }
            checked.add_partition_offset(topic, partition, Offset::Offset(to.unwrap_or(from)))?;
        }
        Ok(checked)
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
pub(super) fn assign_waiting(
    consumer: &BaseConsumer<IngestContext>,
    shared: &IngestState,
) -> KafkaResult<()> {
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
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
