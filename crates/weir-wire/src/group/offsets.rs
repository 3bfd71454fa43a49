//! OffsetCommit and OffsetFetch, for one topic or for several.

use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::{OffsetCommitRequest, OffsetFetchRequest, TopicName};

use super::{MemberIdentity, VersionedRequest, text};
use crate::WireError;
use crate::reader::WireReader;

const COMMIT_VERSION: i16 = 7;
const FETCH_VERSION: i16 = 5;

/// Returns a request to commit `positions`: partitions, each with the next offset to read.
pub fn commit(
    identity: MemberIdentity<'_>,
    topic: &str,
    positions: &[(i32, i64)],
) -> VersionedRequest<OffsetCommitRequest> {
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
        .with_group_id(identity.group_id())
        .with_generation_id_or_member_epoch(identity.generation)
        .with_member_id(text(identity.member))
        .with_topics(vec![topic]);
    (COMMIT_VERSION, body)
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

/// Returns a request for the committed offsets of these partitions.
pub fn fetch(
    identity: MemberIdentity<'_>,
    topic: &str,
    partitions: &[i32],
) -> VersionedRequest<OffsetFetchRequest> {
    let topic = OffsetFetchRequestTopic::default()
        .with_name(TopicName(text(topic)))
        .with_partition_indexes(partitions.to_vec());
    let body = OffsetFetchRequest::default()
        .with_group_id(identity.group_id())
        .with_topics(Some(vec![topic]));
    (FETCH_VERSION, body)
}

/// Committed offsets of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommittedOffsets {
    /// Error code of the response, otherwise that of the last partition with one; 0 for none.
    pub error: i16,
    /// Partition and offset; `None` if the partition has no committed offset.
    pub positions: Vec<(i32, Option<i64>)>,
}

/// Reads the body of a fetch response.
pub fn read_fetch(body: &[u8]) -> Result<CommittedOffsets, WireError> {
    let mut positions = Vec::new();
    let error = read_fetch_all(body, |_, partition, offset| {
        positions.push((partition, offset))
    })?;
    Ok(CommittedOffsets { error, positions })
}

/// Returns a request to commit rows of topic, partition and next offset. Rows of a topic must be
/// next to each other.
pub fn commit_all<'a>(
    identity: MemberIdentity<'_>,
    rows: impl Iterator<Item = (&'a str, i32, i64)>,
) -> VersionedRequest<OffsetCommitRequest> {
    let mut body = OffsetCommitRequest::default()
        .with_group_id(identity.group_id())
        .with_generation_id_or_member_epoch(identity.generation)
        .with_member_id(text(identity.member));
    for (topic, partition, offset) in rows {
        let row = OffsetCommitRequestPartition::default()
            .with_partition_index(partition)
            .with_committed_offset(offset)
            .with_committed_leader_epoch(-1)
            .with_committed_metadata(Some(text("")));
        match body.topics.last_mut().filter(|last| *last.name.0 == *topic) {
            Some(last) => last.partitions.push(row),
            None => body.topics.push(
                OffsetCommitRequestTopic::default()
                    .with_name(TopicName(text(topic)))
                    .with_partitions(vec![row]),
            ),
        }
    }
    (COMMIT_VERSION, body)
}

/// Returns a request for the committed offsets of rows of topic and partition. Rows of a topic must
/// be next to each other.
pub fn fetch_all<'a>(
    identity: MemberIdentity<'_>,
    rows: impl Iterator<Item = (&'a str, i32)>,
) -> VersionedRequest<OffsetFetchRequest> {
    let mut topics: Vec<OffsetFetchRequestTopic> = Vec::new();
    for (topic, partition) in rows {
        match topics.last_mut().filter(|last| *last.name.0 == *topic) {
            Some(last) => last.partition_indexes.push(partition),
            None => topics.push(
                OffsetFetchRequestTopic::default()
                    .with_name(TopicName(text(topic)))
                    .with_partition_indexes(vec![partition]),
            ),
        }
    }
    let body = OffsetFetchRequest::default()
        .with_group_id(identity.group_id())
        .with_topics(Some(topics));
    (FETCH_VERSION, body)
}

/// Reads committed offsets and calls `sink` with topic, partition and offset; `None` if there is
/// no offset. Returns the last error code, 0 for none.
pub fn read_fetch_all<'a>(
    body: &'a [u8],
    mut sink: impl FnMut(&'a str, i32, Option<i64>),
) -> Result<i16, WireError> {
    let mut reader = WireReader::new(body);
    reader.i32("throttle time")?;
    let mut error = 0;
    for _ in 0..reader.count(6, "topics")? {
        let topic = reader.string("topic name")?;
        for _ in 0..reader.count(20, "partitions")? {
            let partition = reader.i32("partition")?;
            let offset = reader.i64("offset")?;
            reader.i32("leader epoch")?;
            reader.nullable_string("metadata")?;
            let partition_error = reader.i16("partition error")?;
            if partition_error != 0 {
                error = partition_error;
            }
            sink(topic, partition, (offset >= 0).then_some(offset));
        }
    }
    let group_error = reader.i16("error")?;
    Ok(if group_error != 0 { group_error } else { error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use kafka_protocol::messages::offset_commit_response::{
        OffsetCommitResponsePartition, OffsetCommitResponseTopic,
    };
    use kafka_protocol::messages::offset_fetch_response::{
        OffsetFetchResponsePartition, OffsetFetchResponseTopic,
    };
    use kafka_protocol::messages::{OffsetCommitResponse, OffsetFetchResponse};
    use kafka_protocol::protocol::Encodable;
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
    fn rows_are_grouped_by_topic() {
        let identity = MemberIdentity {
            group: "g",
            member: "",
            generation: -1,
        };
        let rows = [("a", 0, 10), ("a", 1, 11), ("b", 0, 12)];
        let (version, commit) = commit_all(identity, rows.into_iter());
        let found: Vec<_> = commit.topics.iter().map(|it| it.partitions.len()).collect();
        assert_eq!(found, [2, 1]);
        assert_eq!(commit.topics[1].partitions[0].committed_offset, 12);
        let mut out = BytesMut::new();
        commit.encode(&mut out, version).expect("encodes");
        let rows = rows
            .into_iter()
            .map(|(topic, partition, _)| (topic, partition));
        let (version, fetch) = fetch_all(identity, rows);
        fetch.encode(&mut out, version).expect("encodes");
        let topics = fetch.topics.expect("topics");
        assert_eq!(topics[0].partition_indexes, [0, 1]);
    }

    #[test]
    fn commit_contains_generation_and_positions() {
        let identity = MemberIdentity {
            group: "g",
            member: "m",
            generation: 3,
        };
        let mut out = BytesMut::new();
        let (_, commit) = commit(identity, "t", &[(0, 10), (2, 5)]);
        commit.encode(&mut out, COMMIT_VERSION).expect("encodes");
        assert_eq!(commit.generation_id_or_member_epoch, 3);
        let partitions = &commit.topics[0].partitions;
        let found: Vec<_> = partitions
            .iter()
            .map(|it| (it.partition_index, it.committed_offset))
            .collect();
        assert_eq!(found, [(0, 10), (2, 5)]);
    }
}
