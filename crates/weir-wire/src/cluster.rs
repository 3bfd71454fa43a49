//! Metadata versions 7 and 10: brokers, topics with their ids, partitions with leaders and epochs.
//! Version 10 has topic ids and compact encodings; version 7 is for brokers before Kafka 2.8.

use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{MetadataRequest, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::WireError;
use super::metadata::BrokerAddress;
use super::reader::WireReader;

/// Version with topic ids.
pub const VERSION: i16 = 10;
/// Version for older brokers.
pub const OLD_VERSION: i16 = 7;

/// Topic id; 0 is none.
pub type TopicId = u128;

/// Brokers and topics, as reported by one broker.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs)] // other fields are named as in the protocol
pub struct ClusterMetadata {
    pub brokers: Vec<BrokerAddress>,
    pub topics: Vec<TopicMetadata>,
}

/// One topic.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // other fields are named as in the protocol
pub struct TopicMetadata {
    /// Kafka error code, 0 for none.
    pub error: i16,
    pub name: String,
    pub id: TopicId,
    pub partitions: Vec<PartitionLeader>,
}

/// Leader of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // other fields are named as in the protocol
pub struct PartitionLeader {
    pub partition: i32,
    /// Node id, -1 for none.
    pub leader: i32,
    /// Leader epoch, -1 if the broker has none.
    pub epoch: i32,
}

/// Returns a request for some topics, or for all of them, that creates none.
pub fn request(topics: Option<&[&str]>) -> MetadataRequest {
    let topic = |name: &&str| {
        let name = TopicName(StrBytes::from_string((*name).to_owned()));
        MetadataRequestTopic::default().with_name(Some(name))
    };
    MetadataRequest::default()
        .with_allow_auto_topic_creation(false)
        .with_topics(topics.map(|topics| topics.iter().map(topic).collect()))
}

/// Reads the body of a response of `version`.
pub fn read(version: i16, body: &[u8]) -> Result<ClusterMetadata, WireError> {
    let mut fields = Fields {
        reader: WireReader::new(body),
        flexible: version >= FLEXIBLE_VERSION,
    };
    fields.reader.i32("throttle time")?;
    let mut metadata = ClusterMetadata::default();
    for _ in 0..fields.count(11, "brokers")? {
        metadata.brokers.push(fields.broker()?);
    }
    fields.nullable_string("cluster id")?;
    fields.reader.i32("controller id")?;
    for _ in 0..fields.count(6, "topics")? {
        metadata.topics.push(fields.topic()?);
    }
    // The operations that the client may use and the tagged fields are not needed.
    Ok(metadata)
}

/// Fields that differ between flexible and other versions.
struct Fields<'a> {
    reader: WireReader<'a>,
    flexible: bool,
}

impl<'a> Fields<'a> {
    fn count(&mut self, bytes_min: usize, what: &'static str) -> Result<usize, WireError> {
        match self.flexible {
            true => self.reader.compact_count(bytes_min, what),
            false => self.reader.count(bytes_min, what),
        }
    }

    fn nullable_string(&mut self, what: &'static str) -> Result<Option<&'a str>, WireError> {
        match self.flexible {
            true => self.reader.compact_nullable_string(what),
            false => self.reader.nullable_string(what),
        }
    }

    fn string(&mut self, what: &'static str) -> Result<&'a str, WireError> {
        let text = self.nullable_string(what)?;
        text.ok_or(WireError::Length { what, value: -1 })
    }

    fn tags(&mut self) -> Result<(), WireError> {
        match self.flexible {
            true => self.reader.skip_tags("tagged fields"),
            false => Ok(()),
        }
    }

    fn broker(&mut self) -> Result<BrokerAddress, WireError> {
        let id = self.reader.i32("node id")?;
        let host = self.string("host")?.to_owned();
        let port = self.reader.i32("port")?;
        let port = u16::try_from(port).map_err(|_| WireError::Length {
            what: "port",
            value: i64::from(port),
        })?;
        self.nullable_string("rack")?;
        self.tags()?;
        Ok(BrokerAddress { id, host, port })
    }

    fn topic(&mut self) -> Result<TopicMetadata, WireError> {
        let error = self.reader.i16("topic error")?;
        let name = self.string("topic name")?.to_owned();
        let id = match self.flexible {
            true => topic_id(&mut self.reader)?,
            false => 0,
        };
        self.reader.i8("is internal")?;
        let mut partitions = Vec::new();
        for _ in 0..self.count(17, "partitions")? {
            partitions.push(self.partition()?);
        }
        if self.flexible {
            self.reader.i32("authorized operations")?;
        }
        self.tags()?;
        Ok(TopicMetadata {
            error,
            name,
            id,
            partitions,
        })
    }

    fn partition(&mut self) -> Result<PartitionLeader, WireError> {
        self.reader.i16("partition error")?;
        let partition = self.reader.i32("partition")?;
        let leader = self.reader.i32("leader")?;
        let epoch = self.reader.i32("leader epoch")?;
        for what in ["replicas", "in-sync replicas", "offline replicas"] {
            let nodes = self.count(4, what)?;
            self.reader.bytes(4 * nodes, what)?;
        }
        self.tags()?;
        Ok(PartitionLeader {
            partition,
            leader,
            epoch,
        })
    }
}

/// Reads a topic id.
pub fn topic_id(reader: &mut WireReader<'_>) -> Result<TopicId, WireError> {
    let bytes = reader.bytes(16, "topic id")?;
    Ok(bytes
        .iter()
        .fold(0, |id, byte| id << 8 | TopicId::from(*byte)))
}

const FLEXIBLE_VERSION: i16 = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use kafka_protocol::messages::BrokerId;
    use kafka_protocol::messages::metadata_response::{
        MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    };
    use kafka_protocol::protocol::Encodable;
    use proptest::prelude::*;

    fn text(text: &str) -> StrBytes {
        StrBytes::from_string(text.to_owned())
    }

    fn encoded(version: i16, id: TopicId, leaders: &[(i32, i32)]) -> BytesMut {
        let broker = MetadataResponseBroker::default()
            .with_node_id(BrokerId(3))
            .with_host(text("host"))
            .with_port(9092);
        let partition = |(index, (leader, epoch)): (usize, &(i32, i32))| {
            MetadataResponsePartition::default()
                .with_partition_index(index as i32)
                .with_leader_id(BrokerId(*leader))
                .with_leader_epoch(*epoch)
                .with_replica_nodes(vec![BrokerId(1), BrokerId(2)])
                .with_isr_nodes(vec![BrokerId(1)])
        };
        let topic = |name: &str| {
            let mut topic = MetadataResponseTopic::default()
                .with_name(Some(TopicName(text(name))))
                .with_partitions(leaders.iter().enumerate().map(partition).collect());
            if version >= VERSION {
                topic.topic_id = format!("{id:032x}").parse().expect("an id");
            }
            topic
        };
        let response = MetadataResponse::default()
            .with_brokers(vec![broker])
            .with_cluster_id(Some(text("cluster")))
            .with_topics(vec![topic("one"), topic("two")]);
        let mut out = BytesMut::new();
        response.encode(&mut out, version).expect("encodes");
        out
    }

    proptest! {
        #[test]
        fn encoded_response_round_trips(
            is_old in any::<bool>(), id in any::<TopicId>(), cut in 0_usize..300,
            leaders in prop::collection::vec((-1_i32..5, -1_i32..9), 0..6),
        ) {
            let version = if is_old { OLD_VERSION } else { VERSION };
            let bytes = encoded(version, id, &leaders);
            let found = read(version, &bytes)?;
            prop_assert_eq!(found.brokers.len(), 1);
            prop_assert_eq!(&found.brokers[0].host, "host");
            prop_assert_eq!(found.topics.len(), 2);
            prop_assert_eq!(&found.topics[1].name, "two");
            prop_assert_eq!(found.topics[1].id, if is_old { 0 } else { id });
            let rows: Vec<_> = found.topics[0].partitions.iter()
                .map(|row| (row.leader, row.epoch)).collect();
            prop_assert_eq!(rows, leaders);
            if cut + 8 < bytes.len() {
                prop_assert!(read(version, &bytes[..cut]).is_err());
            }
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(VERSION, &bytes);
            let _ = read(OLD_VERSION, &bytes);
        }
    }
}
