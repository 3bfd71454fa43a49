//! ListOffsets: the first or the end offset of partitions. Version 1 for one topic; version 5 for
//! several topics, with leader epochs and isolation level.

use kafka_protocol::messages::list_offsets_request::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use kafka_protocol::messages::{BrokerId, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::WireError;
use super::reader::WireReader;

/// Oldest version that Kafka 4 supports; it returns one offset per partition, which is sufficient.
pub const VERSION: i16 = 1;
/// Latest version without compact encodings.
pub const EPOCH_VERSION: i16 = 5;
/// Timestamp that requests the end offset.
pub const LATEST: i64 = -1;
/// Timestamp that requests the first offset.
pub const EARLIEST: i64 = -2;

/// Response for one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // other fields are named as in the protocol
pub struct PartitionOffset {
    pub partition: i32,
    pub error: i16,
    /// The offset, -1 if there is none.
    pub offset: i64,
}

/// Returns a request for the offsets that `timestamp` stands for.
pub fn request(topic: &str, partitions: &[i32], timestamp: i64) -> ListOffsetsRequest {
    let partition = |index: &i32| {
        ListOffsetsPartition::default()
            .with_partition_index(*index)
            .with_timestamp(timestamp)
    };
    let topic = ListOffsetsTopic::default()
        .with_name(TopicName(StrBytes::from_string(topic.to_owned())))
        .with_partitions(partitions.iter().map(partition).collect());
    ListOffsetsRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_topics(vec![topic])
}

/// Reads the body of a response.
pub fn read(body: &[u8]) -> Result<Vec<PartitionOffset>, WireError> {
    let mut reader = WireReader::new(body);
    let mut offsets = Vec::new();
    for _ in 0..reader.count(6, "topics")? {
        reader.string("topic name")?;
        for _ in 0..reader.count(22, "partitions")? {
            let partition = reader.i32("partition")?;
            let error = reader.i16("partition error")?;
            reader.i64("timestamp")?;
            let offset = reader.i64("offset")?;
            offsets.push(PartitionOffset {
                partition,
                error,
                offset,
            });
        }
    }
    Ok(offsets)
}

/// Returns a request of [`EPOCH_VERSION`] for rows of topic, partition and leader epoch. With
/// `committed_only`, the end offset is the last stable offset.
pub fn request_with_epochs<'a>(
    rows: impl Iterator<Item = (&'a str, i32, i32)>,
    timestamp: i64,
    committed_only: bool,
) -> ListOffsetsRequest {
    let mut topics: Vec<ListOffsetsTopic> = Vec::new();
    for (name, partition, epoch) in rows {
        let partition = ListOffsetsPartition::default()
            .with_partition_index(partition)
            .with_current_leader_epoch(epoch)
            .with_timestamp(timestamp);
        match topics.iter_mut().find(|topic| *topic.name.0 == *name) {
            Some(topic) => topic.partitions.push(partition),
            None => {
                let name = TopicName(StrBytes::from_string(name.to_owned()));
                let topic = ListOffsetsTopic::default().with_name(name);
                topics.push(topic.with_partitions(vec![partition]));
            }
        }
    }
    ListOffsetsRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_isolation_level(i8::from(committed_only))
        .with_topics(topics)
}

/// Reads the body of a response of [`EPOCH_VERSION`] and calls `sink` for each partition.
pub fn read_with_epochs<'a>(
    body: &'a [u8],
    mut sink: impl FnMut(&'a str, PartitionOffset),
) -> Result<(), WireError> {
    let mut reader = WireReader::new(body);
    reader.i32("throttle time")?;
    for _ in 0..reader.count(6, "topics")? {
        let topic = reader.string("topic name")?;
        for _ in 0..reader.count(26, "partitions")? {
            let partition = reader.i32("partition")?;
            let error = reader.i16("partition error")?;
            reader.i64("timestamp")?;
            let offset = reader.i64("offset")?;
            reader.i32("leader epoch")?;
            sink(
                topic,
                PartitionOffset {
                    partition,
                    error,
                    offset,
                },
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use kafka_protocol::messages::ListOffsetsResponse;
    use kafka_protocol::messages::list_offsets_response::{
        ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
    };
    use kafka_protocol::protocol::Encodable;
    use proptest::prelude::*;

    #[test]
    fn rows_are_grouped_by_topic() {
        let rows = [("a", 0, 5), ("b", 1, 6), ("a", 2, 7)];
        let request = request_with_epochs(rows.into_iter(), LATEST, true);
        assert_eq!((request.isolation_level, request.topics.len()), (1, 2));
        let first = &request.topics[0];
        let found = first.partitions.iter();
        let found: Vec<_> = found
            .map(|it| (it.partition_index, it.current_leader_epoch, it.timestamp))
            .collect();
        assert_eq!(found, [(0, 5, LATEST), (2, 7, LATEST)]);
        let mut bytes = BytesMut::new();
        request.encode(&mut bytes, EPOCH_VERSION).expect("encodes");
    }

    proptest! {
        #[test]
        fn encoded_response_round_trips(
            rows in prop::collection::vec((any::<i32>(), any::<i16>(), any::<i64>()), 0..6),
            noise in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let partition = |(partition, error, offset): &(i32, i16, i64)| {
                ListOffsetsPartitionResponse::default()
                    .with_partition_index(*partition)
                    .with_error_code(*error)
                    .with_offset(*offset)
            };
            let topic = ListOffsetsTopicResponse::default()
                .with_name(TopicName(StrBytes::from_static_str("t")))
                .with_partitions(rows.iter().map(partition).collect());
            let response = ListOffsetsResponse::default().with_topics(vec![topic]);
            let mut bytes = BytesMut::new();
            response.encode(&mut bytes, VERSION).expect("encodes");
            let found = read(&bytes)?;
            let found = found.iter().map(|row| (row.partition, row.error, row.offset));
            let found: Vec<_> = found.collect();
            prop_assert_eq!(&found, &rows);
            let _ = read(&noise);

            let mut bytes = BytesMut::new();
            response.encode(&mut bytes, EPOCH_VERSION).expect("encodes");
            let mut found = Vec::new();
            read_with_epochs(&bytes, |topic, row| {
                assert_eq!(topic, "t");
                found.push((row.partition, row.error, row.offset));
            })?;
            prop_assert_eq!(&found, &rows);
            let _ = read_with_epochs(&noise, |_, _| ());
        }
    }
}
