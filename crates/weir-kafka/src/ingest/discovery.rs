//! The thread that finds topics, partitions and start offsets, and assigns them.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};

use super::client::Context;
use super::state::Shared;
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
        let grew = self
            .shared
            .with_topics(|topics| topics[index].looked_up(partitions));
        if grew {
            tracing::info!(topic = name, partitions, "reading topic");
        }
        Ok(())
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
            self.assign(&late)?;
        }
        self.assign_asked(&asked)
    }

    /// Assigns where the leaders say. One partition without a leader fails a common question, so
    /// after a failure each partition is asked for alone.
    fn assign_asked(&self, asked: &TopicPartitionList) -> KafkaResult<()> {
        let outcome = match asked.count() {
            0 => return Ok(()),
            _ => self.start_offsets(asked.clone()),
        };
        match outcome {
            Ok(offsets) => self.assign(&offsets),
            Err(error) if asked.count() == 1 => Err(error),
            Err(_) => {
                let mut result = Ok(());
                for element in asked.elements() {
                    if self.shared.stopping() {
                        break;
                    }
                    let mut one = TopicPartitionList::new();
                    one.add_partition(element.topic(), element.partition());
                    result = self.assign_asked(&one).and(result);
                }
                result
            }
        }
    }

    /// One request per leader for all partitions at once.
    fn start_offsets(&self, mut asked: TopicPartitionList) -> KafkaResult<TopicPartitionList> {
        asked.set_all_offsets(match self.from {
            StartFrom::Latest => Offset::End,
            StartFrom::Earliest => Offset::Beginning,
        })?;
        self.consumer.offsets_for_times(asked, REQUEST_TIMEOUT)
    }

    fn assign(&self, partitions: &TopicPartitionList) -> KafkaResult<()> {
        let mut known = TopicPartitionList::new();
        for element in partitions.elements() {
            match (element.error(), element.offset()) {
                (Ok(()), Offset::Offset(start)) => {
                    known.add_partition_offset(
                        element.topic(),
                        element.partition(),
                        Offset::Offset(start),
                    )?;
                }
                (Err(error), _) => self.shared.note_error(format!(
                    "start offset of \"{}\" partition {}: {error}",
                    element.topic(),
                    element.partition()
                )),
                (Ok(()), _) => {}
            }
        }
        if known.count() == 0 {
            return Ok(());
        }
        self.consumer.incremental_assign(&known)?;
        self.note_started(&known);
        Ok(())
    }

    fn note_started(&self, assigned: &TopicPartitionList) {
        self.shared.with_topics(|topics| {
            for element in assigned.elements() {
                let topic = topics
                    .iter_mut()
                    .find(|topic| topic.name == element.topic());
                let state = topic.and_then(|topic| topic.partitions.get_mut(&element.partition()));
                if let (Some(state), Offset::Offset(start)) = (state, element.offset()) {
                    state.start = Some(start);
                }
            }
        });
    }
}

/// First pause between attempts; doubles up to the maximum.
const INTERVAL_MIN: Duration = Duration::from_millis(50);
/// Pause while brokers do not answer: how late recovery may be noticed.
const INTERVAL_LOST: Duration = Duration::from_millis(500);
/// Pause when all is well: how late a new topic or partition may be noticed.
const INTERVAL_MAX: Duration = Duration::from_secs(2);
/// Bounds how long stopping can take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
