//! librdkafka as the client of ingest.

use std::sync::Arc;

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::metadata::MetadataTopic;
use rdkafka::{Offset, TopicPartitionList};

use super::client::{self, IngestContext};
use super::config::{IngestConfig, REQUEST_TIMEOUT};
use super::error::SourceError;
use super::offsets::Offsets;
use super::partition_client::{
    ClusterView, Committed, FoundOffset, OffsetAt, PartitionClient, RequestError, TopicPartition,
    TopicView,
};
use super::state::IngestState;

pub(super) struct LibrdkafkaClient(BaseConsumer<IngestContext>);

impl LibrdkafkaClient {
    /// Returns an error if [`new`](Self::new) would reject the configuration.
    pub(super) fn check(config: &IngestConfig) -> Result<(), SourceError> {
        client::client_config(config)?.create_native_config()?;
        Ok(())
    }

    pub(super) fn new(
        config: &IngestConfig,
        shared: &Arc<IngestState>,
    ) -> Result<Self, SourceError> {
        client::consumer(config, shared).map(Self)
    }

    /// Returns the consumer, from which records are polled.
    pub(super) fn consumer(&self) -> &BaseConsumer<IngestContext> {
        &self.0
    }

    fn request(
        &self,
        partitions: &[TopicPartition],
        at: OffsetAt,
    ) -> KafkaResult<Vec<FoundOffset>> {
        let logical = match at {
            OffsetAt::Beginning => Offset::Beginning,
            OffsetAt::End => Offset::End,
        };
        let mut list = TopicPartitionList::new();
        for (topic, partition) in partitions {
            list.add_partition_offset(topic, *partition, logical)?;
        }
        let found = self.0.offsets_for_times(list, REQUEST_TIMEOUT)?;
        let elements = found.elements();
        let rows = elements.iter().map(|element| {
            let offset = match (element.error(), element.offset()) {
                (Err(error), _) => Err(RequestError::of(error)),
                (Ok(()), Offset::Offset(offset)) => Ok(offset),
                (Ok(()), _) => Err(RequestError::new("the leader returned no offset")),
            };
            ((element.topic().to_owned(), element.partition()), offset)
        });
        Ok(rows.collect())
    }
}

impl PartitionClient for LibrdkafkaClient {
    fn cluster(&self, topic: Option<&str>) -> Result<ClusterView, RequestError> {
        let metadata = self.0.fetch_metadata(topic, REQUEST_TIMEOUT);
        let metadata = metadata.map_err(RequestError::of)?;
        let brokers = metadata.brokers().iter().filter_map(|broker| {
            let port = u16::try_from(broker.port()).ok()?;
            Some((broker.host().to_owned(), port))
        });
        Ok(ClusterView {
            brokers: brokers.collect(),
            topics: metadata.topics().iter().map(view).collect(),
        })
    }

    fn has_topic_ids(&self) -> bool {
        false
    }

    fn replaced(&self) -> Vec<String> {
        Vec::new()
    }

    /// A partition without a leader fails a request for several partitions, so after a failure each
    /// is requested alone.
    fn offsets(&self, partitions: &[TopicPartition], at: OffsetAt) -> Vec<FoundOffset> {
        if partitions.is_empty() {
            return Vec::new();
        }
        match self.request(partitions, at) {
            Ok(found) => found,
            Err(error) if partitions.len() == 1 => {
                vec![(partitions[0].clone(), Err(RequestError::of(error)))]
            }
            Err(_) => {
                let each = partitions.chunks(1);
                each.flat_map(|one| self.offsets(one, at)).collect()
            }
        }
    }

    fn committed(&self, partitions: &[TopicPartition]) -> Result<Vec<Committed>, RequestError> {
        let mut list = TopicPartitionList::new();
        for (topic, partition) in partitions {
            list.add_partition(topic, *partition);
        }
        let found = self.0.committed_offsets(list, REQUEST_TIMEOUT);
        let found = found.map_err(RequestError::of)?;
        let elements = found.elements();
        let rows = elements.iter().map(|element| {
            let offset = match element.offset() {
                Offset::Offset(offset) => Some(offset),
                _ => None,
            };
            ((element.topic().to_owned(), element.partition()), offset)
        });
        Ok(rows.collect())
    }

    fn commit(&self, offsets: &Offsets) -> Result<(), RequestError> {
        let mut list = TopicPartitionList::new();
        for (topic, partition, offset) in offsets.iter() {
            let added = list.add_partition_offset(topic, partition, Offset::Offset(offset));
            added.map_err(RequestError::of)?;
        }
        let committed = self.0.commit(&list, CommitMode::Sync);
        committed.map_err(RequestError::of)
    }

    fn assign(&self, starts: &[(TopicPartition, i64)]) -> Result<(), SourceError> {
        let mut list = TopicPartitionList::new();
        for ((topic, partition), start) in starts {
            list.add_partition_offset(topic, *partition, Offset::Offset(*start))?;
        }
        Ok(self.0.incremental_assign(&list)?)
    }

    fn unassign(&self, partitions: &[TopicPartition]) -> Result<(), SourceError> {
        let mut list = TopicPartitionList::new();
        for (topic, partition) in partitions {
            list.add_partition(topic, *partition);
        }
        Ok(self.0.incremental_unassign(&list)?)
    }
}

fn view(topic: &MetadataTopic) -> TopicView {
    let partitions = match topic.error().map(RDKafkaErrorCode::from) {
        None => Ok(Some(
            i32::try_from(topic.partitions().len()).unwrap_or(i32::MAX),
        )),
        Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
            Ok(None)
        }
        Some(code) => Err(RequestError::of(KafkaError::MetadataFetch(code))),
    };
    TopicView {
        name: topic.name().to_owned(),
        id: 0,
        partitions,
    }
}
