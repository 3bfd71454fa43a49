//! A thread that finds topics, partitions and start offsets, and assigns the partitions.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};

use super::bounds::{self, AllBounds, REQUEST_TIMEOUT};
use super::client::IngestContext;
use super::config::{IngestConfig, StartFrom};
use super::error::SourceError;
use super::identity::Identities;
use super::moves::{Move, log_move};
use super::state::{IngestState, TopicLookup, TopicState, partition_mut};

/// Starts the thread. It ends when `shared` is stopped, and returns the known topic ids.
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
    /// Start at stored offsets, if there are any.
    resume: bool,
    topics: Vec<String>,
    /// Addresses of all brokers, from the latest metadata.
    brokers: Vec<(String, u16)>,
    identities: Identities,
}

impl Discovery {
    fn run(mut self) -> Identities {
        let mut interval = INTERVAL_MIN;
        loop {
            self.look_up_all();
            interval = if self.shared.is_settled() {
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

    fn look_up_all(&mut self) {
        for index in 0..self.topics.len() {
            if self.shared.is_stopping() {
                return;
            }
            if let Err(error) = self.look_up_topic(index) {
                let topic = &self.topics[index];
                self.shared.note_probe(false);
                self.shared
                    .note_error(format!("metadata of topic \"{topic}\": {error}"));
            }
        }
        let replaced = self.identities.replaced(&self.brokers, &self.topics);
        if !replaced.is_empty() {
            // This client cannot read the new topics and must be replaced.
            return self.shared.note_replaced(replaced);
        }
        if let Err(error) = self.assign_found() {
            self.shared.note_error(format!("start offsets: {error}"));
        }
        self.check_positions();
        let unassigned = self.shared.unassigned();
        let ends = bounds::query(&self.consumer, &unassigned, Offset::End);
        self.shared.note_ends(&unassigned, &ends);
    }

    /// Decides how to continue at positions that librdkafka could not fetch from. If all positions
    /// are valid, reading restarts at each of them.
    fn check_positions(&self) {
        let Some(positions) = self.shared.with_moves(|moves| moves.unchecked.take()) else {
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
            shared.decided.extend(moves);
            if unknown > 0 {
                // Positions that were noted since are newer.
                shared.unchecked.get_or_insert(positions);
            }
        });
    }

    fn look_up_topic(&mut self, index: usize) -> KafkaResult<()> {
        let name = self.topics[index].clone();
        let name = name.as_str();
        let metadata = self.consumer.fetch_metadata(Some(name), REQUEST_TIMEOUT)?;
        self.shared.note_probe(true);
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
        let apply = |topics: &mut [TopicState]| topics[index].apply_lookup(partitions);
        match self.shared.with_topics(apply) {
            TopicLookup::Same => {}
            TopicLookup::Grew => tracing::info!(topic = name, partitions, "started reading topic"),
            TopicLookup::Deleted => {
                tracing::warn!(topic = name, "topic deleted");
                self.identities.deleted(name);
                return self.unassign_deleted(index);
            }
        }
        Ok(())
    }

    /// Stops reading a deleted topic. If it is created again, it is read from its beginning.
    fn unassign_deleted(&self, index: usize) -> KafkaResult<()> {
        let unassigned = self.shared.with_topics(|topics| {
            let topic = &mut topics[index];
            let partitions = std::mem::take(&mut topic.partitions);
            let mut deleted = TopicPartitionList::new();
            for (partition, _) in partitions.iter().filter(|(_, state)| state.assigned) {
                deleted.add_partition(&topic.name, *partition);
            }
            match deleted.count() {
                0 => Ok(()),
                _ => self.consumer.incremental_unassign(&deleted),
            }
        });
        // From here on, the reader cannot receive records of the old topic.
        self.shared.note_deleted(&self.topics[index]);
        unassigned
    }

    /// Requests a numeric start offset for every partition that has none, and assigns the
    /// partitions. Logical offsets would take half a second each and would not allow determining
    /// `ready`.
    fn assign_found(&self) -> KafkaResult<()> {
        let (mut late, mut unknown_starts) = (TopicPartitionList::new(), TopicPartitionList::new());
        self.shared.with_topics(|topics| {
            for topic in topics {
                let new = topic
                    .partitions
                    .iter()
                    .filter(|(_, state)| state.start.is_none());
                for (partition, state) in new {
                    let list = if state.late {
                        &mut late
                    } else {
                        &mut unknown_starts
                    };
                    list.add_partition(&topic.name, *partition);
                }
            }
        });
        if late.count() > 0 {
            late.set_all_offsets(Offset::Offset(0))?;
            self.note_starts(&late, false)?;
        }
        let started = self.request_starts(&unknown_starts);
        assign_ready(&self.consumer, &self.shared).and(started)
    }

    /// Requests start offsets and stores them. A partition without a leader fails a request for
    /// several partitions, so after a failure each is requested alone.
    fn request_starts(&self, unknown_starts: &TopicPartitionList) -> KafkaResult<()> {
        let outcome = match unknown_starts.count() {
            0 => return Ok(()),
            _ => self.start_offsets(unknown_starts),
        };
        match outcome {
            Err(error) if unknown_starts.count() == 1 => Err(error),
            Err(_) => {
                let mut result = Ok(());
                for element in unknown_starts.elements() {
                    if self.shared.is_stopping() {
                        break;
                    }
                    let mut one = TopicPartitionList::new();
                    one.add_partition(element.topic(), element.partition());
                    result = self.request_starts(&one).and(result);
                }
                result
            }
            done => done,
        }
    }

    /// Sends one request per leader for all partitions, after a request for stored offsets.
    fn start_offsets(&self, unknown_starts: &TopicPartitionList) -> KafkaResult<()> {
        let mut unknown = unknown_starts.clone();
        if self.resume {
            let stored = self
                .consumer
                .committed_offsets(unknown_starts.clone(), REQUEST_TIMEOUT)?;
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

    /// Replaces stored offsets that are out of range. The result lacks partitions whose leader did
    /// not respond.
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
                self.shared.note_reset();
                log_move(topic, partition, from, to);
            }
            checked.add_partition_offset(topic, partition, Offset::Offset(to.unwrap_or(from)))?;
        }
        Ok(checked)
    }

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
                let found = partition_mut(topics, element.topic(), element.partition());
                if let Some(state) = found {
                    state.start = Some(start);
                    state.stored = stored;
                }
            });
        }
        Ok(())
    }
}

/// Assigns every partition with a start offset to librdkafka, except paused ones.
pub(super) fn assign_ready(
    consumer: &BaseConsumer<IngestContext>,
    shared: &IngestState,
) -> KafkaResult<()> {
    shared.with_pause(|pause, topics| {
        let mut ready = TopicPartitionList::new();
        for topic in topics.iter() {
            for (partition, state) in &topic.partitions {
                if let Some(start) = state.start.filter(|_| state.can_be_assigned(*pause)) {
                    let start = Offset::Offset(start);
                    ready.add_partition_offset(&topic.name, *partition, start)?;
                }
            }
        }
        if ready.count() == 0 {
            return Ok(());
        }
        consumer.incremental_assign(&ready)?;
        for topic in topics {
            for state in topic.partitions.values_mut() {
                state.assigned |= state.start.is_some() && state.can_be_assigned(*pause);
            }
        }
        Ok(())
    })
}

/// First interval between lookups; doubles up to the maximum.
const INTERVAL_MIN: Duration = Duration::from_millis(50);
/// Interval while brokers do not respond; maximum delay until recovery is noticed.
const INTERVAL_LOST: Duration = Duration::from_millis(500);
/// Interval in normal operation; maximum delay until a new topic or partition is noticed.
const INTERVAL_MAX: Duration = Duration::from_secs(2);
