//! OffsetCommit and OffsetFetch for one topic.

use bytes::BytesMut;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::{
    ApiKey, GroupId, OffsetCommitRequest, OffsetFetchRequest, TopicName,
};

use super::super::header::write_request;
use super::super::reader::WireReader;
use super::super::{EncodeError, WireError};
use super::{MemberIdentity, text};

const COMMIT_VERSION: i16 = 7;
const FETCH_VERSION: i16 = 5;

/// Appends a request to commit positions (partition and next offset).
pub fn write_commit(
    out: &mut BytesMut,
    correlation_id: i32,
    identity: MemberIdentity<'_>,
    topic: &str,
    positions: &[(i32, i64)],
) -> Result<(), EncodeError> {
    let partition = |(partition, offset): &(i32, i64)| {
        OffsetCommitRequestPartition::default()
            .with_partition_index(*partition)
            .with_committed_offset(*offset)
            .with_committed_leader_epoch(-1)
            .with_committed_metadata(Some(text("")))
    };
    let topic = OffsetCommitRequestTopic::default()
        .with_name(TopicName(text(topic)))
        .with_partitions(positions.iter().map(partition).collect());
    let body = OffsetCommitRequest::default()
        .with_group_id(GroupId(text(identity.group)))
        .with_generation_id_or_member_epoch(identity.generation)
        .with_member_id(text(identity.member))
        .with_topics(vec![topic]);
    let api = ApiKey::OffsetCommit;
    write_request(
        out,
        api,
        COMMIT_VERSION,
        correlation_id,
        identity.client_id,
        &body,
    )
}

/// Reads the body of a commit response. Returns partitions and their error codes.
pub fn read_commit(body: &[u8]) -> Result<Vec<(i32, i16)>, WireError> {
    let mut reader = WireReader::new(body);
    reader.i32("throttle time")?;
    let mut codes = Vec::new();
    for _ in 0..reader.count(6, "topics")? {
        reader.string("topic name")?;
        for _ in 0..reader.count(6, "partitions")? {
            let partition = reader.i32("partition")?;
            codes.push((partition, reader.i16("partition error")?));
        }
    }
    Ok(codes)
}

/// Appends a request for the committed offsets of `partitions`.
pub fn write_fetch(
    out: &mut BytesMut,
    correlation_id: i32,
    identity: MemberIdentity<'_>,
    topic: &str,
    partitions: &[i32],
) -> Result<(), EncodeError> {
    let topic = OffsetFetchRequestTopic::default()
        .with_name(TopicName(text(topic)))
        .with_partition_indexes(partitions.to_vec());
    let body = OffsetFetchRequest::default()
        .with_group_id(GroupId(text(identity.group)))
        .with_topics(Some(vec![topic]));
    let (api, version) = (ApiKey::OffsetFetch, FETCH_VERSION);
    write_request(out, api, version, correlation_id, identity.client_id, &body)
}

/// Committed offsets of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommittedOffsets {
    /// Kafka error code of the response or of a partition, 0 for none.
    pub error: i16,
    /// Partition and offset; `None` if the partition has no committed offset.
    pub positions: Vec<(i32, Option<i64>)>,
}

/// Reads the body of a response with committed offsets.
pub fn read_fetch(body: &[u8]) -> Result<CommittedOffsets, WireError> {
    let mut reader = WireReader::new(body);
    reader.i32("throttle time")?;
    let mut committed = CommittedOffsets::default();
    for _ in 0..reader.count(6, "topics")? {
        reader.string("topic name")?;
        for _ in 0..reader.count(20, "partitions")? {
            let partition = reader.i32("partition")?;
            let offset = reader.i64("offset")?;
            reader.i32("leader epoch")?;
            reader.nullable_string("metadata")?;
            let error = reader.i16("partition error")?;
            if error != 0 {
                committed.error = error;
            }
            committed
                .positions
                .push((partition, (offset >= 0).then_some(offset)));
        }
    }
    let error = reader.i16("error")?;
    if error != 0 {
        committed.error = error;
    }
    Ok(committed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::offset_commit_response::{
        OffsetCommitResponsePartition, OffsetCommitResponseTopic,
    };
    use kafka_protocol::messages::offset_fetch_response::{
        OffsetFetchResponsePartition, OffsetFetchResponseTopic,
    };
    use kafka_protocol::messages::{OffsetCommitResponse, OffsetFetchResponse, RequestHeader};
    use kafka_protocol::protocol::{Decodable, Encodable};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn encoded_responses_round_trip(
            rows in prop::collection::vec((any::<i32>(), any::<i16>(), -1_i64..99), 0..6),
            group_error in any::<i16>(),
            noise in prop::collection::vec(any::<u8>(), 0..99),
        ) {
            let partition = |(partition, error, _): &(i32, i16, i64)| {
                OffsetCommitResponsePartition::default()
                    .with_partition_index(*partition)
                    .with_error_code(*error)
            };
            let topic = OffsetCommitResponseTopic::default()
                .with_name(TopicName(text("t")))
                .with_partitions(rows.iter().map(partition).collect());
            let mut bytes = BytesMut::new();
            let response = OffsetCommitResponse::default().with_topics(vec![topic]);
            response.encode(&mut bytes, COMMIT_VERSION).expect("encodes");
            let codes: Vec<_> = rows.iter().map(|row| (row.0, row.1)).collect();
            prop_assert_eq!(read_commit(&bytes)?, codes);

            let partition = |(partition, _, offset): &(i32, i16, i64)| {
                OffsetFetchResponsePartition::default()
                    .with_partition_index(*partition)
                    .with_committed_offset(*offset)
                    .with_metadata(Some(text("")))
            };
            let topic = OffsetFetchResponseTopic::default()
                .with_name(TopicName(text("t")))
                .with_partitions(rows.iter().map(partition).collect());
            let response = OffsetFetchResponse::default()
                .with_error_code(group_error)
                .with_topics(vec![topic]);
            let mut bytes = BytesMut::new();
            response.encode(&mut bytes, FETCH_VERSION).expect("encodes");
            let committed = read_fetch(&bytes)?;
            prop_assert_eq!(committed.error, group_error);
            let offset = |offset: i64| (offset >= 0).then_some(offset);
            let expected: Vec<_> = rows.iter().map(|row| (row.0, offset(row.2))).collect();
            prop_assert_eq!(committed.positions, expected);
            let _ = (read_commit(&noise), read_fetch(&noise));
        }
    }

    #[test]
    fn commit_contains_generation_and_positions() {
        let identity = MemberIdentity {
            client_id: "me",
            group: "g",
            member: "m",
            generation: 3,
        };
        let mut out = BytesMut::new();
        write_commit(&mut out, 1, identity, "t", &[(0, 10), (2, 5)]).expect("encodes");
        let mut bytes = out.freeze().slice(4..);
        RequestHeader::decode(&mut bytes, 1).expect("header");
        let commit = OffsetCommitRequest::decode(&mut bytes, COMMIT_VERSION).expect("body");
        assert_eq!(commit.generation_id_or_member_epoch, 3);
        let partitions = &commit.topics[0].partitions;
        let found: Vec<_> = partitions
            .iter()
            .map(|it| (it.partition_index, it.committed_offset))
            .collect();
        assert_eq!(found, [(0, 10), (2, 5)]);
    }
}
