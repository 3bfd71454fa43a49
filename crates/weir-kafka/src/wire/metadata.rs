//! Metadata version 7: brokers, and partition leaders of one topic.

use bytes::BytesMut;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{ApiKey, MetadataRequest, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::header::write_request;
use super::reader::WireReader;
use super::{EncodeError, WireError};

/// Latest version without compact encodings; supported by all brokers since Kafka 2.1.
pub const VERSION: i16 = 7;

/// Brokers and one topic, as reported by one broker.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metadata {
    /// All brokers.
    pub brokers: Vec<BrokerAddress>,
    /// The requested topic, if it is in the response.
    pub topic: Option<TopicMetadata>,
}

/// One broker's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerAddress {
    /// Node id.
    pub id: i32,
    /// Advertised host.
    pub host: String,
    /// Advertised port.
    pub port: u16,
}

/// One topic, as reported by a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicMetadata {
    /// Kafka error code, 0 for none.
    pub error: i16,
    /// Topic name.
    pub name: String,
    /// Partitions in the order of the response.
    pub partitions: Vec<PartitionMetadata>,
}

/// One partition's leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionMetadata {
    /// Kafka error code, 0 for none.
    pub error: i16,
    /// Partition number.
    pub partition: i32,
    /// Node id of the leader, -1 for none.
    pub leader: i32,
    /// Leader epoch, -1 if unknown.
    pub leader_epoch: i32,
}

/// Appends a request for `topic` that does not create the topic.
pub fn write(
    out: &mut BytesMut,
    correlation_id: i32,
    client_id: &str,
    topic: &str,
) -> Result<(), EncodeError> {
    let name = TopicName(StrBytes::from_string(topic.to_owned()));
    let body = MetadataRequest::default()
        .with_allow_auto_topic_creation(false)
        .with_topics(Some(vec![
            MetadataRequestTopic::default().with_name(Some(name)),
        ]));
    let api = ApiKey::Metadata;
    write_request(out, api, VERSION, correlation_id, client_id, &body)
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
    reader.i32("controller id")?;
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
        partitions.push(PartitionMetadata {
            error: reader.i16("partition error")?,
            partition: reader.i32("partition")?,
            leader: reader.i32("leader")?,
            leader_epoch: reader.i32("leader epoch")?,
        });
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
    use kafka_protocol::messages::metadata_response::{
        MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    };
    use kafka_protocol::messages::{BrokerId, RequestHeader};
    use kafka_protocol::protocol::{Decodable, Encodable};
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
            prop_assert_eq!(found, hosts);
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
        let mut out = BytesMut::new();
        write(&mut out, 5, "me", "mine").expect("encodes");
        let mut bytes = out.freeze().slice(4..);
        RequestHeader::decode(&mut bytes, 1).expect("header");
        let request = MetadataRequest::decode(&mut bytes, VERSION).expect("body");
        assert!(!request.allow_auto_topic_creation);
        let topics = request.topics.expect("one topic");
        assert_eq!(topics[0].name.as_ref().expect("name").as_str(), "mine");
    }
}
