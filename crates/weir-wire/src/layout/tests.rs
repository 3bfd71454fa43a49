//! The layouts, compared with the encoder of `kafka-protocol` in every version, and with invalid
//! bytes.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::fetch_response::{
    AbortedTransaction, FetchableTopicResponse, PartitionData,
};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::{
    BatchIndexAndErrorMessage, PartitionProduceResponse, TopicProduceResponse,
};
use kafka_protocol::messages::{
    FetchResponse, ProduceRequest, ProduceResponse, TopicName, TransactionalId,
};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use proptest::prelude::*;

use super::*;
use crate::byte_edits::ByteEdits;

type PartitionRow = (i32, Option<Vec<u8>>);
type TopicRow = (String, Vec<PartitionRow>);

fn topics() -> impl Strategy<Value = Vec<TopicRow>> {
    let records = prop::option::of(prop::collection::vec(any::<u8>(), 0..200));
    let rows = prop::collection::vec((any::<i32>(), records), 0..4);
    prop::collection::vec(("[a-zé.]{1,9}", rows), 0..4)
}

fn name(text: &str) -> TopicName {
    TopicName(StrBytes::from_string(text.to_owned()))
}

/// Returns the id that stands for a name.
fn id(text: &str) -> uuid::Uuid {
    let mut bytes = [b' '; 16];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    uuid::Uuid::from_bytes(bytes)
}

/// Returns what a message of `version` contains for a topic: its name, or the text of its id.
fn key(text: &str, version: i16) -> String {
    match version {
        ..13 => text.to_owned(),
        _ => String::from_utf8(id(text).as_bytes().to_vec()).expect("a name and spaces"),
    }
}

fn encoded(message: &impl Encodable, version: i16) -> Vec<u8> {
    let mut out = BytesMut::new();
    message.encode(&mut out, version).expect("encodes");
    out.to_vec()
}

/// Returns the names, partitions and records that a layout refers to.
fn seen(bytes: &[u8], layout: &MessageLayout) -> Vec<TopicRow> {
    let topic = |topic: &TopicSpan| {
        let name = std::str::from_utf8(&bytes[topic.topic.clone()]).expect("checked");
        let rows = layout.partitions[topic.partitions.clone()].iter();
        let rows = rows.map(|row| (row.index, Some(bytes[row.records.clone()].to_vec())));
        (name.to_owned(), rows.collect())
    };
    layout.topics.iter().map(topic).collect()
}

fn without_nulls(topics: &[TopicRow], version: i16) -> Vec<TopicRow> {
    let row = |(index, records): &PartitionRow| (*index, Some(records.clone().unwrap_or_default()));
    let topic = |(name, rows): &TopicRow| (key(name, version), rows.iter().map(row).collect());
    topics.iter().map(topic).collect()
}

fn request(topics: &[TopicRow], version: i16) -> Vec<u8> {
    let partition = |(index, records): &PartitionRow| {
        PartitionProduceData::default()
            .with_index(*index)
            .with_records(records.as_ref().map(|bytes| Bytes::copy_from_slice(bytes)))
    };
    let topic = |(text, rows): &TopicRow| {
        let topic = match version {
            ..13 => TopicProduceData::default().with_name(name(text)),
            _ => TopicProduceData::default().with_topic_id(id(text)),
        };
        topic.with_partition_data(rows.iter().map(partition).collect())
    };
    let id = (version >= 3).then(|| TransactionalId(StrBytes::from_static_str("tx")));
    let request = ProduceRequest::default()
        .with_transactional_id(id)
        .with_acks(-1)
        .with_topic_data(topics.iter().map(topic).collect());
    encoded(&request, version)
}

fn fetch_response_bytes(topics: &[TopicRow], version: i16) -> Vec<u8> {
    let partition = |(index, records): &PartitionRow| {
        let aborted = (version >= 4).then(|| vec![AbortedTransaction::default(); 2]);
        let mut row = PartitionData::default()
            .with_partition_index(*index)
            .with_error_code(7)
            .with_aborted_transactions(aborted)
            .with_records(records.as_ref().map(|bytes| Bytes::copy_from_slice(bytes)));
        if version >= 12 {
            // A tagged field.
            row.current_leader.leader_id = 5.into();
        }
        row
    };
    let topic = |(text, rows): &TopicRow| {
        let topic = match version {
            ..13 => FetchableTopicResponse::default().with_topic(name(text)),
            _ => FetchableTopicResponse::default().with_topic_id(id(text)),
        };
        topic.with_partitions(rows.iter().map(partition).collect())
    };
    let response = FetchResponse::default().with_responses(topics.iter().map(topic).collect());
    encoded(&response, version)
}

fn produce_response_bytes(topics: &[TopicRow], version: i16) -> Vec<u8> {
    let partition = |(index, records): &PartitionRow| {
        let errors = records
            .iter()
            .map(|bytes| BatchIndexAndErrorMessage::default().with_batch_index(bytes.len() as i32));
        let mut row = PartitionProduceResponse::default()
            .with_index(*index)
            .with_error_code(7);
        if version >= 8 {
            row.record_errors = errors.collect();
            row.error_message = Some(StrBytes::from_static_str("why"));
        }
        if version >= 10 {
            row.current_leader.leader_id = 5.into();
        }
        row
    };
    let topic = |(text, rows): &TopicRow| {
        let topic = match version {
            ..13 => TopicProduceResponse::default().with_name(name(text)),
            _ => TopicProduceResponse::default().with_topic_id(id(text)),
        };
        topic.with_partition_responses(rows.iter().map(partition).collect())
    };
    let response = ProduceResponse::default()
        .with_responses(topics.iter().map(topic).collect())
        .with_throttle_time_ms(if version >= 1 { 9 } else { 0 });
    encoded(&response, version)
}

proptest! {
    #[test]
    fn layouts_match_encoded_messages(
        topics in topics(), version in 3_i16..14, fetch_version in 4_i16..19,
        cut in any::<prop::sample::Index>(),
    ) {
        let mut layout = MessageLayout::default();
        let bytes = request(&topics, version);
        produce(&bytes, version, &mut layout)?;
        prop_assert_eq!(layout.acks, -1);
        prop_assert_eq!(seen(&bytes, &layout), without_nulls(&topics, version));
        prop_assert!(produce(&bytes[..cut.index(bytes.len())], version, &mut layout).is_err());

        let bytes = fetch_response_bytes(&topics, fetch_version);
        fetch(&bytes, fetch_version, &mut layout)?;
        prop_assert_eq!(seen(&bytes, &layout), without_nulls(&topics, fetch_version));
        for row in &layout.partitions {
            prop_assert_eq!(&bytes[row.error_at..row.error_at + 2], &[0, 7]);
        }
        prop_assert!(fetch(&bytes[..cut.index(bytes.len())], fetch_version, &mut layout).is_err());

        let bytes = produce_response_bytes(&topics, version);
        produce_response(&bytes, version, &mut layout)?;
        let rows = topics.iter().flat_map(|(_, rows)| rows.iter().map(|row| row.0));
        let rows: Vec<_> = rows.collect();
        let found: Vec<_> = layout.partitions.iter().map(|row| row.index).collect();
        prop_assert_eq!(found, rows);
        for row in &layout.partitions {
            prop_assert_eq!(&bytes[row.error_at..row.error_at + 2], &[0, 7]);
        }
    }

    #[test]
    fn inserted_errors_are_decodable(
        topics in topics(), version in 3_i16..14, errors in 0_usize..3,
    ) {
        let records: Vec<_> = (0..errors).map(|at| (at as i32, format!("no {at}"))).collect();
        let row = PartitionError { partition: 4, error: 87, message: "bad", records: &records };
        let bytes = produce_response_bytes(&topics, version);
        let mut layout = MessageLayout::default();
        produce_response(&bytes, version, &mut layout)?;
        let flexible = produce_is_flexible(version);
        let mut edits = ByteEdits::default();
        for topic in &layout.topics {
            let count = topic.partitions.len() + 1;
            edits.replace(topic.partition_count.clone(), |out| put_length(out, flexible, count));
            let end = topic.partitions_end;
            edits.replace(end..end, |out| put_partition_error(out, version, &row));
        }
        let count = layout.topics.len() + 1;
        edits.replace(layout.topic_count.clone(), |out| put_length(out, flexible, count));
        let end = layout.topics_end;
        let rows = [row.clone(), row.clone()];
        let name = key("new", version);
        edits.replace(end..end, |out| put_topic_errors(out, version, name.as_bytes(), &rows));
        let mut out = Vec::new();
        edits.apply(&bytes, &mut out);
        let mut bytes = Bytes::from(out);
        let read = ProduceResponse::decode(&mut bytes, version).expect("decodes");
        prop_assert!(bytes.is_empty());
        prop_assert_eq!(read.responses.len(), topics.len() + 1);
        for (topic, (_, rows)) in read.responses.iter().zip(&topics) {
            prop_assert_eq!(topic.partition_responses.len(), rows.len() + 1);
        }
        let last = &read.responses[topics.len()].partition_responses[1];
        prop_assert_eq!((last.index, last.error_code, last.base_offset), (4, 87, -1));
        let expected = if version >= 8 { errors } else { 0 };
        prop_assert_eq!(last.record_errors.len(), expected);
    }

    #[test]
    fn random_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200), version in 0_i16..19,
    ) {
        let mut layout = MessageLayout::default();
        let _ = produce(&bytes, version, &mut layout);
        let _ = fetch(&bytes, version, &mut layout);
        let _ = produce_response(&bytes, version, &mut layout);
    }
}

#[test]
fn counts_over_remaining_bytes_allocate_nothing() {
    let mut body = vec![0xff, 0xff]; // no transactional id
    body.extend_from_slice(&[0, 1, 0, 0, 0, 9]);
    body.extend_from_slice(&i32::MAX.to_be_bytes());
    let mut layout = MessageLayout::default();
    let error = produce(&body, 3, &mut layout).expect_err("too many topics");
    assert!(
        matches!(error, WireError::Length { what: "topics", .. }),
        "{error}"
    );
    assert_eq!(layout.topics.capacity(), 0);
}
