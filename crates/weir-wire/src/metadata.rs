//! Metadata version 7: brokers, and partition leaders of one topic.

use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{MetadataRequest, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::WireError;
use super::reader::WireReader;

/// Latest version without compact encodings; supported by all brokers since Kafka 2.1.
pub const VERSION: i16 = 7;

/// Brokers and one topic, as reported by one broker.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs)] // other fields are named as in the protocol
pub struct Metadata {
    pub brokers: Vec<BrokerAddress>,
    /// Node id of the controller, -1 for none.
    pub controller_id: i32,
    /// The requested topic, if it is in the response.
    pub topic: Option<TopicMetadata>,
}

impl Metadata {
    /// Returns the controller, to which changes of topics are sent.
    pub fn controller(&self) -> Option<&BrokerAddress> {
        let mut brokers = self.brokers.iter();
        brokers.find(|broker| broker.id == self.controller_id)
    }
}

/// One broker's address.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // other fields are named as in the protocol
pub struct BrokerAddress {
    pub id: i32,
    pub host: String,
    pub port: u16,
}

/// One topic, as reported by a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // other fields are named as in the protocol
pub struct TopicMetadata {
    pub error: i16,
    pub name: String,
    pub partitions: Vec<PartitionMetadata>,
}

/// One partition's leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // other fields are named as in the protocol
pub struct PartitionMetadata {
    pub partition: i32,
    /// Node id of the leader, -1 for none.
    pub leader: i32,
}

/// Returns a request for topics that does not create them.
pub fn request<'a>(topics: impl IntoIterator<Item = &'a str>) -> MetadataRequest {
    let topic = |name: &str| {
        let name = TopicName(StrBytes::from_string(name.to_owned()));
        MetadataRequestTopic::default().with_name(Some(name))
    };
    MetadataRequest::default()
        .with_allow_auto_topic_creation(false)
        .with_topics(Some(topics.into_iter().map(topic).collect()))
}

/// Reads the body of a response; other topics than `topic` are ignored.
pub fn read(body: &[u8], topic: &str) -> Result<Metadata, WireError> {
    let mut reader = WireReader::new(body);
    reader.i32("throttle time")?;
    let mut metadata = Metadata::default();
    for _ in 0..reader.count(12, "brokers")? {
        metadata.brokers.push(read_broker(&mut reader)?);
    }
    reader.nullable_string("cluster id")?;
    metadata.controller_id = reader.i32("controller id")?;
    for _ in 0..reader.count(9, "topics")? {
        let found = read_topic(&mut reader)?;
        if found.name == topic {
            metadata.topic = Some(found);
        }
    }
    Ok(metadata)
}

fn read_broker(reader: &mut WireReader<'_>) -> Result<BrokerAddress, WireError> {
    let id = reader.i32("node id")?;
    let host = reader.string("host")?.to_owned();
    let port = reader.i32("port")?;
    let port = u16::try_from(port).map_err(|_| WireError::Length {
        what: "port",
        value: i64::from(port),
    })?;
    reader.nullable_string("rack")?;
    Ok(BrokerAddress { id, host, port })
}

fn read_topic(reader: &mut WireReader<'_>) -> Result<TopicMetadata, WireError> {
    let error = reader.i16("topic error")?;
    let name = reader.string("topic name")?.to_owned();
    reader.i8("is internal")?;
    let mut partitions = Vec::new();
    for _ in 0..reader.count(26, "partitions")? {
        reader.i16("partition error")?;
        let partition = reader.i32("partition")?;
        let leader = reader.i32("leader")?;
        reader.i32("leader epoch")?;
        partitions.push(PartitionMetadata { partition, leader });
        for what in ["replicas", "in-sync replicas", "offline replicas"] {
            let nodes = reader.count(4, what)?;
            reader.bytes(4 * nodes, what)?;
        }
    }
    Ok(TopicMetadata {
        error,
        name,
        partitions,
    })
}

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

    fn encoded(leaders: &[i32], hosts: &[String]) -> BytesMut {
        let text = |text: &str| StrBytes::from_string(text.to_owned());
        let broker = |(index, host): (usize, &String)| {
            MetadataResponseBroker::default()
                .with_node_id(BrokerId(index as i32))
                .with_host(text(host))
                .with_port(9092)
        };
        let partition = |(index, leader): (usize, &i32)| {
            MetadataResponsePartition::default()
                .with_partition_index(index as i32)
                .with_leader_id(BrokerId(*leader))
                .with_leader_epoch(3)
                .with_replica_nodes(vec![BrokerId(1), BrokerId(2)])
                .with_isr_nodes(vec![BrokerId(1)])
        };
        let topic = |name: &str| {
            MetadataResponseTopic::default()
                .with_name(Some(TopicName(text(name))))
                .with_partitions(leaders.iter().enumerate().map(partition).collect())
        };
        let response = MetadataResponse::default()
            .with_brokers(hosts.iter().enumerate().map(broker).collect())
            .with_cluster_id(Some(text("cluster")))
            .with_controller_id(BrokerId(1))
            .with_topics(vec![topic("other"), topic("mine")]);
        let mut out = BytesMut::new();
        response.encode(&mut out, VERSION).expect("encodes");
        out
    }

    proptest! {
        #[test]
        fn encoded_response_round_trips(
            leaders in prop::collection::vec(-1_i32..5, 0..6),
            hosts in prop::collection::vec("[a-z.]{1,12}", 0..4),
        ) {
            let bytes = encoded(&leaders, &hosts);
            let read = read(&bytes, "mine")?;
            let found: Vec<_> = read.brokers.iter().map(|broker| broker.host.clone()).collect();
            prop_assert_eq!(&found, &hosts);
            let controller = read.controller().map(|broker| broker.id);
            prop_assert_eq!(controller, (hosts.len() > 1).then_some(1));
            let topic = read.topic.expect("requested topic");
            let found: Vec<_> = topic.partitions.iter().map(|found| found.leader).collect();
            prop_assert_eq!(found, leaders);
        }

        #[test]
        fn truncated_or_random_bytes_never_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0_usize..120,
        ) {
            let _ = read(&bytes, "t");
            let whole = encoded(&[1, 2], &["h".to_owned()]);
            if cut < whole.len() {
                prop_assert!(read(&whole[..cut], "mine").is_err());
            }
        }
    }

    #[test]
    fn request_contains_topic_without_creating_it() {
        let request = request(["mine"]);
        assert!(!request.allow_auto_topic_creation);
        let topics = request.topics.expect("one topic");
        assert_eq!(topics[0].name.as_ref().expect("name").as_str(), "mine");
    }
}
