//! OffsetForLeaderEpoch version 3: the end of a leader epoch, by which a consumer detects that
//! records it has read were truncated.

use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::{BrokerId, OffsetForLeaderEpochRequest, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::WireError;
use super::reader::WireReader;

/// Latest version without compact encodings; Kafka 4 supports it.
pub const VERSION: i16 = 3;

/// Partition to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // other fields are named as in the protocol
pub struct EpochQuery<'a> {
    pub topic: &'a str,
    pub partition: i32,
    /// Epoch of the leader, as the client knows it.
    pub leader_epoch: i32,
    /// Epoch of the last record read.
    pub epoch: i32,
}

/// End of the requested epoch in one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // other fields are named as in the protocol
pub struct EpochEnd<'a> {
    pub topic: &'a str,
    pub partition: i32,
    /// Kafka error code, 0 for none.
    pub error: i16,
    /// Largest epoch of the log that is not above the requested one; -1 for none.
    pub epoch: i32,
    /// Offset after the last record of that epoch; -1 if it is not known.
    pub end_offset: i64,
}

/// Returns a request. Partitions of a topic need not be next to each other.
pub fn request(queries: &[EpochQuery<'_>]) -> OffsetForLeaderEpochRequest {
    let mut topics: Vec<OffsetForLeaderTopic> = Vec::new();
    for query in queries {
        let partition = OffsetForLeaderPartition::default()
            .with_partition(query.partition)
            .with_current_leader_epoch(query.leader_epoch)
            .with_leader_epoch(query.epoch);
        let known = topics
            .iter_mut()
            .find(|topic| *topic.topic.0 == *query.topic);
        match known {
            Some(topic) => topic.partitions.push(partition),
            None => {
                let name = TopicName(StrBytes::from_string(query.topic.to_owned()));
                let topic = OffsetForLeaderTopic::default().with_topic(name);
                topics.push(topic.with_partitions(vec![partition]));
            }
        }
    }
    OffsetForLeaderEpochRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_topics(topics)
}

/// Reads the body of a response and calls `sink` for each partition.
pub fn read<'a>(body: &'a [u8], mut sink: impl FnMut(EpochEnd<'a>)) -> Result<(), WireError> {
    let mut reader = WireReader::new(body);
    reader.i32("throttle time")?;
    for _ in 0..reader.count(6, "topics")? {
        let topic = reader.string("topic name")?;
        for _ in 0..reader.count(18, "partitions")? {
            let error = reader.i16("partition error")?;
            let partition = reader.i32("partition")?;
            let epoch = reader.i32("leader epoch")?;
            let end_offset = reader.i64("end offset")?;
            sink(EpochEnd {
                topic,
                partition,
                error,
                epoch,
                end_offset,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use kafka_protocol::messages::OffsetForLeaderEpochResponse;
    use kafka_protocol::messages::offset_for_leader_epoch_response::{
        EpochEndOffset, OffsetForLeaderTopicResult,
    };
    use kafka_protocol::protocol::Encodable;
    use proptest::prelude::*;

    #[test]
    fn partitions_are_grouped_by_topic() {
        let query = |topic, partition| EpochQuery {
            topic,
            partition,
            leader_epoch: 5,
            epoch: 4,
        };
        let request = request(&[query("a", 0), query("b", 1), query("a", 2)]);
        assert_eq!(request.topics.len(), 2);
        let first = &request.topics[0];
        let partitions: Vec<_> = first.partitions.iter().map(|it| it.partition).collect();
        assert_eq!((first.topic.0.as_str(), partitions), ("a", vec![0, 2]));
        let mut bytes = BytesMut::new();
        request.encode(&mut bytes, VERSION).expect("encodes");
    }

    proptest! {
        #[test]
        fn encoded_response_round_trips(
            rows in prop::collection::vec((any::<i16>(), any::<i32>(), any::<i64>()), 0..6),
            noise in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let partition = |(error, epoch, end): &(i16, i32, i64)| {
                EpochEndOffset::default()
                    .with_error_code(*error)
                    .with_partition(7)
                    .with_leader_epoch(*epoch)
                    .with_end_offset(*end)
            };
            let topic = OffsetForLeaderTopicResult::default()
                .with_topic(TopicName(StrBytes::from_static_str("t")))
                .with_partitions(rows.iter().map(partition).collect());
            let response = OffsetForLeaderEpochResponse::default().with_topics(vec![topic]);
            let mut bytes = BytesMut::new();
            response.encode(&mut bytes, VERSION).expect("encodes");
            let mut found = Vec::new();
            read(&bytes, |row| found.push((row.error, row.epoch, row.end_offset)))?;
            prop_assert_eq!(found, rows);
            let _ = read(&noise, |_| ());
        }
    }
}
