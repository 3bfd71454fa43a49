//! Topic ids in Fetch requests, and Metadata messages that translate them to names.

use super::WireError;
use super::cluster::{TopicId, topic_id};
use super::layout::{ROWS_MAX, put_uvarint};
use super::reader::WireReader;

/// Version of Metadata in requests by topic id.
pub const METADATA_VERSION: i16 = 12;
/// First version of Metadata whose responses contain topic ids.
pub const METADATA_VERSION_MIN: i16 = 10;

/// Appends the topic ids in the body of a Fetch request of version 13 or later to `ids`.
pub fn fetch_request(body: &[u8], version: i16, ids: &mut Vec<TopicId>) -> Result<(), WireError> {
    let mut reader = WireReader::new(body);
    if version < 15 {
        reader.i32("replica id")?;
    }
    // Waiting time, sizes, isolation level and session.
    reader.bytes(4 + 4 + 4 + 1 + 4 + 4, "fields of a fetch request")?;
    let topics = reader.compact_count(18, "topics")?;
    if topics > ROWS_MAX {
        return Err(WireError::Length {
            what: "topics",
            value: topics as i64,
        });
    }
    for _ in 0..topics {
        ids.push(topic_id(&mut reader)?);
        for _ in 0..reader.compact_count(33, "partitions")? {
            reader.bytes(4 + 4 + 8 + 4 + 8 + 4, "partition")?;
            reader.skip_tags("partition tags")?;
        }
        reader.skip_tags("topic tags")?;
    }
    Ok(())
}

/// Appends a Metadata request by topic ids to `out`, with size prefix and without client id.
pub fn put_metadata_request(out: &mut Vec<u8>, correlation_id: i32, ids: &[TopicId]) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    for number in [METADATA_KEY, METADATA_VERSION] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    out.extend_from_slice(&correlation_id.to_be_bytes());
    out.extend_from_slice(&(-1_i16).to_be_bytes());
    put_uvarint(out, 0);
    // Invariant: the ids come from frames, whose size has 31 bits.
    put_uvarint(out, u32::try_from(ids.len() + 1).unwrap_or(u32::MAX));
    for id in ids {
        out.extend_from_slice(&id.to_be_bytes());
        // No name, no tagged fields.
        out.extend_from_slice(&[0, 0]);
    }
    // No creation of topics, no authorized operations, no tagged fields.
    out.extend_from_slice(&[0, 0, 0]);
    let size = i32::try_from(out.len() - start - 4).unwrap_or(i32::MAX);
    out[start..start + 4].copy_from_slice(&size.to_be_bytes());
}

/// Calls `sink` for each topic with an id and a name in the body of a Metadata response of version
/// 10 or later.
pub fn metadata_response<'a>(
    body: &'a [u8],
    version: i16,
    mut sink: impl FnMut(TopicId, &'a str),
) -> Result<(), WireError> {
    let mut reader = WireReader::new(body);
    reader.i32("throttle time")?;
    for _ in 0..reader.compact_count(11, "brokers")? {
        reader.i32("node id")?;
        reader.compact_bytes("host")?;
        reader.i32("port")?;
        reader.compact_bytes("rack")?;
        reader.skip_tags("broker tags")?;
    }
    reader.compact_bytes("cluster id")?;
    reader.i32("controller id")?;
    for _ in 0..reader.compact_count(26, "topics")? {
        let error = reader.i16("topic error")?;
        let name = match version {
            ..12 => Some(reader.compact_string("topic name")?),
            _ => reader.compact_nullable_string("topic name")?,
        };
        let id = topic_id(&mut reader)?;
        reader.i8("is internal")?;
        for _ in 0..reader.compact_count(18, "partitions")? {
            reader.bytes(2 + 4 + 4 + 4, "partition")?;
            for what in ["replicas", "in-sync replicas", "offline replicas"] {
                let count = reader.compact_count(4, what)?;
                reader.bytes(4 * count, what)?;
            }
            reader.skip_tags("partition tags")?;
        }
        reader.i32("authorized operations")?;
        reader.skip_tags("topic tags")?;
        if let Some(name) = name.filter(|_| error == 0 && id != 0) {
            sink(id, name);
        }
    }
    Ok(())
}

const METADATA_KEY: i16 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::{Bytes, BytesMut};
    use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
    use kafka_protocol::messages::metadata_response::{
        MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    };
    use kafka_protocol::messages::{
        BrokerId, FetchRequest, MetadataRequest, MetadataResponse, RequestHeader, TopicName,
    };
    use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
    use proptest::prelude::*;

    fn encoded(message: &impl Encodable, version: i16) -> Vec<u8> {
        let mut out = BytesMut::new();
        message.encode(&mut out, version).expect("encodes");
        out.to_vec()
    }

    fn text(text: &str) -> StrBytes {
        StrBytes::from_string(text.to_owned())
    }

    fn wire_id(id: TopicId) -> uuid::Uuid {
        uuid::Uuid::from_u128(id)
    }

    fn fetch(ids: &[TopicId], version: i16) -> Vec<u8> {
        let partition = FetchPartition::default().with_partition(3);
        let topic = |id: &TopicId| {
            FetchTopic::default()
                .with_topic_id(wire_id(*id))
                .with_partitions(vec![partition.clone(); 2])
        };
        let forgotten = ForgottenTopic::default()
            .with_topic_id(wire_id(77))
            .with_partitions(vec![1]);
        let message = FetchRequest::default()
            .with_topics(ids.iter().map(topic).collect())
            .with_forgotten_topics_data(vec![forgotten])
            .with_rack_id(text("rack"));
        encoded(&message, version)
    }

    fn metadata(topics: &[(i16, Option<&str>, TopicId)], version: i16) -> Vec<u8> {
        let broker = MetadataResponseBroker::default()
            .with_node_id(BrokerId(1))
            .with_host(text("kafka"))
            .with_rack(Some(text("rack")));
        let partition = MetadataResponsePartition::default()
            .with_replica_nodes(vec![BrokerId(1), BrokerId(2)])
            .with_isr_nodes(vec![BrokerId(1)])
            .with_offline_replicas(vec![BrokerId(2)]);
        let topic = |(error, name, id): &(i16, Option<&str>, TopicId)| {
            MetadataResponseTopic::default()
                .with_error_code(*error)
                .with_name(name.map(|name| TopicName(text(name))))
                .with_topic_id(wire_id(*id))
                .with_partitions(vec![partition.clone(); 2])
        };
        let message = MetadataResponse::default()
            .with_brokers(vec![broker; 2])
            .with_cluster_id(Some(text("cluster")))
            .with_topics(topics.iter().map(topic).collect());
        encoded(&message, version)
    }

    #[test]
    fn ids_of_fetch_requests_are_found() {
        for version in 13..=18 {
            for ids in [&[][..], &[5], &[1, 2, TopicId::MAX]] {
                let mut found = Vec::new();
                let body = fetch(ids, version);
                fetch_request(&body, version, &mut found).expect("reads");
                assert_eq!(found, ids);
            }
        }
    }

    #[test]
    fn topics_of_metadata_have_id_and_name() {
        for version in METADATA_VERSION_MIN..=13 {
            let unnamed = if version < 12 { Some("x") } else { None };
            let topics = [
                (0, Some("a"), 5),
                (3, Some("missing"), 6),
                (0, Some("no id"), 0),
                (100, unnamed, 8),
                (0, Some("b"), 9),
            ];
            let body = metadata(&topics, version);
            let mut found = Vec::new();
            metadata_response(&body, version, |id, name| found.push((id, name))).expect("reads");
            assert_eq!(found, [(5, "a"), (9, "b")], "version {version}");
        }
    }

    #[test]
    fn requests_by_id_are_valid() {
        let mut out = vec![9];
        put_metadata_request(&mut out, 42, &[7, TopicId::MAX]);
        let size = i32::from_be_bytes(out[1..5].try_into().expect("four"));
        assert_eq!(size as usize, out.len() - 5);
        let mut bytes = Bytes::copy_from_slice(&out[5..]);
        let header = RequestHeader::decode(&mut bytes, 2).expect("a header");
        assert_eq!((header.request_api_key, header.correlation_id), (3, 42));
        let version = header.request_api_version;
        let read = MetadataRequest::decode(&mut bytes, version).expect("a request");
        assert!(bytes.is_empty() && !read.allow_auto_topic_creation);
        let topics = read.topics.expect("topics").into_iter();
        let found: Vec<_> = topics.map(|topic| (topic.name, topic.topic_id)).collect();
        assert_eq!(found, [(None, wire_id(7)), (None, wire_id(TopicId::MAX))]);
    }

    proptest! {
        #[test]
        fn truncated_or_random_bytes_never_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            version in 10_i16..19,
            cut in any::<prop::sample::Index>(),
        ) {
            let mut ids = Vec::new();
            let _ = fetch_request(&bytes, version, &mut ids);
            prop_assert!(ids.capacity() <= 64);
            let _ = metadata_response(&bytes, version, |_, _| ());
            let whole = metadata(&[(0, Some("a"), 5)], 12);
            // The last three bytes are tagged fields behind the topics.
            let cut = cut.index(whole.len() - 3);
            prop_assert!(metadata_response(&whole[..cut], 12, |_, _| ()).is_err());
        }
    }
}
