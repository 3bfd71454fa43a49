use super::*;
use crate::wire::addresses::tests::TestAddressMapper;
use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::fetch_response::{
    AbortedTransaction, FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint, PartitionData,
};
use kafka_protocol::messages::{BrokerId, FetchResponse, ProducerId, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use proptest::prelude::*;

pub(in crate::wire) const NOT_LEADER: i16 = 6;

fn endpoint(id: i32, host: &str) -> NodeEndpoint {
    NodeEndpoint::default()
        .with_node_id(BrokerId(id))
        .with_host(StrBytes::from_string(host.to_owned()))
        .with_port(9092)
        .with_rack(Some(StrBytes::from_static_str("r")))
}

pub(in crate::wire) fn partition(index: i32, error: i16, records: usize) -> PartitionData {
    let aborted = AbortedTransaction::default()
        .with_producer_id(ProducerId(4))
        .with_first_offset(9);
    let leader = LeaderIdAndEpoch::default()
        .with_leader_id(BrokerId(2))
        .with_leader_epoch(5);
    PartitionData::default()
        .with_partition_index(index)
        .with_error_code(error)
        .with_aborted_transactions(Some(vec![aborted; index as usize % 3]))
        .with_records(Some(Bytes::from(vec![0xee; records])))
        .with_current_leader(leader)
}

pub(in crate::wire) fn response(topics: &[Vec<PartitionData>], hosts: &[&str]) -> FetchResponse {
    let topic = |(partitions, id): (&Vec<PartitionData>, u8)| {
        FetchableTopicResponse::default()
            .with_topic_id(uuid::Uuid::from_bytes([id; 16]))
            .with_partitions(partitions.clone())
    };
    let endpoints = (1..).zip(hosts).map(|(id, host)| endpoint(id, host));
    FetchResponse::default()
        .with_session_id(77)
        .with_responses(topics.iter().zip(1..).map(topic).collect())
        .with_node_endpoints(endpoints.collect())
        .with_unknown_tagged_fields([(700, Bytes::from_static(b"kept"))].into())
}

pub(in crate::wire) fn frame(message: &FetchResponse) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    let header = ResponseHeader::default().with_correlation_id(42);
    header.encode(&mut bytes, 1).expect("header");
    message.encode(&mut bytes, VERSION).expect("body");
    let mut frame = (bytes.len() as i32).to_be_bytes().to_vec();
    frame.extend_from_slice(&bytes);
    frame
}

pub(in crate::wire) fn decoded(frame: &[u8]) -> FetchResponse {
    let size = i32::from_be_bytes(frame[..4].try_into().expect("four"));
    assert_eq!(size as usize, frame.len() - 4);
    let mut rest = Bytes::copy_from_slice(&frame[4..]);
    ResponseHeader::decode(&mut rest, 1).expect("header");
    let message = FetchResponse::decode(&mut rest, VERSION).expect("reads back");
    assert!(rest.is_empty());
    message
}

/// Replaces addresses without changing the size. Returns the decoded message.
fn replaced(message: &FetchResponse) -> FetchResponse {
    let mut sent = frame(message);
    let size = sent.len();
    let outcome = replace_in(&mut sent, &mut TestAddressMapper::default());
    assert_eq!(outcome, Ok(!message.node_endpoints.is_empty()));
    assert_eq!(sent.len(), size);
    for endpoint in &message.node_endpoints {
        let host = endpoint.host.as_bytes();
        assert!(!sent.windows(host.len()).any(|part| part == host));
    }
    decoded(&sent)
}

pub(in crate::wire) const VERSION: i16 = 17;

#[test]
fn addresses_are_replaced_within_the_same_size() {
    // The proxy's host name has five bytes.
    for bytes in [5, 7, 8, 20, 150, 255] {
        let host = "k".repeat(bytes);
        let message = response(&[vec![partition(1, NOT_LEADER, 10)]], &[&host, &host]);
        let read = replaced(&message);
        let hosts = read.node_endpoints.iter().map(|it| it.host.as_str());
        assert_eq!(hosts.collect::<Vec<_>>(), ["proxy", "proxy"], "{bytes}");
        let ports = read.node_endpoints.iter().map(|it| it.port);
        assert_eq!(ports.collect::<Vec<_>>(), [19_001, 19_002]);
        assert_eq!(read.responses, message.responses);
        assert!(read.unknown_tagged_fields.contains_key(&700));
    }
}

#[test]
fn addresses_without_space_are_hidden() {
    for host in ["kkk", "kkkkkk"] {
        // A field that fills a single byte does not exist.
        let message = response(&[vec![partition(1, 74, 10)]], &[host]);
        let read = replaced(&message);
        assert!(read.node_endpoints.is_empty());
        assert_eq!(read.responses, message.responses);
        assert!(read.unknown_tagged_fields.contains_key(&700));
    }
}

#[test]
fn responses_without_moved_partitions_end_with_their_last_records() {
    let message = response(&[vec![partition(0, 0, 5), partition(1, 0, 300_000)]], &[]);
    let sent = frame(&message);
    let mut walk = FetchWalk::new(sent.len());
    assert_eq!(
        walk.advance(&sent[..200]),
        Ok(WalkStep::Forward(sent.len()))
    );
    assert!(walk.is_done());
    assert_eq!(walk.records(), 300_000);
}

#[test]
fn announced_sizes_are_neither_trusted_nor_allocated() {
    let sent = frame(&response(&[vec![partition(0, NOT_LEADER, 5)]], &["kafka"]));
    // The number of topics, of partitions, and the size of records, each at its position.
    let topics_at = 4 + 4 + 1 + 10;
    let partitions_at = topics_at + 1 + 16;
    let records_at = partitions_at + 1 + 30 + 1 + 4;
    for at in [topics_at, partitions_at, records_at] {
        let mut forged = sent.clone();
        forged.splice(at..=at, [0xff, 0xff, 0xff, 0xff, 0x0f]);
        let size = forged.len() as i32 - 4;
        forged[..4].copy_from_slice(&size.to_be_bytes());
        let outcome = replace_in(&mut forged, &mut TestAddressMapper::default());
        assert!(
            matches!(outcome, Err(WireError::Truncated { .. })),
            "{at}: {outcome:?}"
        );
    }
    for end in 0..sent.len() {
        let outcome = replace_in(&mut sent[..end].to_vec(), &mut TestAddressMapper::default());
        assert!(outcome.is_err() || end == 0, "{end}");
    }
}

#[test]
fn fields_have_a_limit() {
    let mut head = 1_000_000_i32.to_be_bytes().to_vec();
    // A tagged field of 900,000 bytes in the header.
    head.extend([0, 0, 0, 1, 1, 5, 0xa0, 0xf7, 0x36]);
    let mut walk = FetchWalk::new(1_000_004);
    assert_eq!(walk.advance(&head), Ok(WalkStep::Incomplete(64)));
    head.resize(40_000, 0);
    assert_eq!(
        walk.advance(&head),
        Ok(WalkStep::Incomplete(PART_BYTES_MAX))
    );
    head.resize(PART_BYTES_MAX, 0);
    assert!(matches!(walk.advance(&head), Err(WireError::Length { .. })));
}

/// Returns number, error code and bytes of records of partitions.
fn partitions() -> impl Strategy<Value = (i32, i16, usize)> {
    (
        0_i32..9,
        prop::sample::select(vec![0_i16, 6, 3]),
        0_usize..99,
    )
}

proptest! {
    #[test]
    fn walks_end_where_responses_end(
        topics in prop::collection::vec(prop::collection::vec(partitions(), 0..4), 0..4),
        pieces in prop::collection::vec(1_usize..90, 1..9),
    ) {
        let topics: Vec<Vec<_>> = topics
            .iter()
            .map(|rows| rows.iter().map(|row| partition(row.0, row.1, row.2)).collect())
            .collect();
        let sent = frame(&response(&topics, &["kafka"]));
        let mut walk = FetchWalk::new(sent.len());
        let (mut at, mut pieces) = (0, pieces.iter().cycle());
        let mut arrived = 0;
        while !walk.is_done() {
            match walk.advance(&sent[at.min(arrived)..arrived])? {
                WalkStep::Forward(count) | WalkStep::Tags(count) => at += count,
                WalkStep::Incomplete(wanted) => {
                    prop_assert!(at + wanted > arrived && at + wanted <= sent.len());
                    let piece = pieces.next().map_or(1, |piece| *piece);
                    arrived = (arrived + piece).min(sent.len());
                }
            }
            arrived = arrived.max(at);
        }
        prop_assert_eq!(at, sent.len());
    }

    #[test]
    fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let size = bytes.len();
        let _ = replace_in(&mut bytes, &mut TestAddressMapper::default());
        prop_assert_eq!(bytes.len(), size);
    }
}
