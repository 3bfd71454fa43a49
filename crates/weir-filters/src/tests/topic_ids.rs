//! Tests of frames with topic ids instead of names.

use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{FetchResponse, ProduceRequest, ProduceResponse};
use kafka_protocol::protocol::Decodable;
use uuid::Uuid;

use super::frames::{HEAD, LOWER, batch, body, framed, values};
use super::*;
use crate::FrameOutput;
use crate::topic_names::tests::metadata;

/// Id of the topic "low", to which the filter of [`LOWER`] applies.
const LOW: u128 = 0x10;
/// Id of the topic "other", to which no filter applies.
const OTHER: u128 = 0x20;
/// Id of a topic whose name the filters do not know.
const UNKNOWN: u128 = 0x30;
const PRODUCE_VERSION: i16 = 13;
// Error codes of Kafka.
const FETCH_SESSION_ID_NOT_FOUND: i16 = 70;
const UNKNOWN_TOPIC_ID: i16 = 100;

/// Returns filters that know the names of two topics.
fn filters_with_names(toml: &str) -> FilterChain {
    let filters = filters(toml);
    let topics = metadata(&[(LOW, "low"), (OTHER, "other")]);
    filters.names.record(&topics, 12).expect("reads");
    filters
}

fn request(topics: &[(u128, &str)]) -> Vec<u8> {
    let topic = |(id, value): &(u128, &str)| {
        let partition = PartitionProduceData::default()
            .with_index(4)
            .with_records(Some(batch(value).into()));
        TopicProduceData::default()
            .with_topic_id(Uuid::from_u128(*id))
            .with_partition_data(vec![partition])
    };
    let request = ProduceRequest::default()
        .with_acks(-1)
        .with_topic_data(topics.iter().map(topic).collect());
    framed(&request, PRODUCE_VERSION)
}

/// Returns topic ids and values of a request.
fn produced(frame: &[u8]) -> Vec<(u128, Vec<String>)> {
    let request = ProduceRequest::decode(&mut body(frame), PRODUCE_VERSION).expect("decodes");
    let topics = request.topic_data.iter();
    let row = |topic: &TopicProduceData| {
        let records = topic.partition_data[0].records.as_deref();
        (topic.topic_id.as_u128(), values(records))
    };
    topics.map(row).collect()
}

/// Returns topic ids and error codes of a response.
fn errors(mut bytes: Bytes) -> Vec<(u128, i16)> {
    let response = ProduceResponse::decode(&mut bytes, PRODUCE_VERSION).expect("decodes");
    assert!(bytes.is_empty());
    let row = |topic: &TopicProduceResponse| {
        (
            topic.topic_id.as_u128(),
            topic.partition_responses[0].error_code,
        )
    };
    response.responses.iter().map(row).collect()
}

#[test]
fn filters_select_produced_topics_by_the_names_of_their_ids() {
    let mut frame = request(&[(LOW, "ABC"), (OTHER, "ABC"), (UNKNOWN, "ABC")]);
    let mut buffers = FilterBuffers::default();
    let result = filters_with_names(LOWER)
        .produce(&mut frame, HEAD.len(), PRODUCE_VERSION, &mut buffers)
        .expect("reads");
    assert_eq!(result.output, FrameOutput::Rebuilt);
    let expected = [
        (LOW, vec!["abc".to_owned()]),
        (OTHER, vec!["ABC".to_owned()]),
    ];
    assert_eq!(produced(buffers.frame()), expected);

    // A topic without a known name is rejected, because filters may apply to it.
    let rejected = result.rejected.expect("one");
    let accepted = |id| {
        TopicProduceResponse::default()
            .with_topic_id(Uuid::from_u128(id))
            .with_partition_responses(vec![PartitionProduceResponse::default()])
    };
    let response = ProduceResponse::default().with_responses(vec![accepted(LOW), accepted(OTHER)]);
    let response = body(&framed(&response, PRODUCE_VERSION));
    let merged = rejected.merge(PRODUCE_VERSION, &response).expect("reads");
    assert_eq!(
        errors(merged.into()),
        [(LOW, 0), (OTHER, 0), (UNKNOWN, UNKNOWN_TOPIC_ID)]
    );
    let without_broker = rejected.response(PRODUCE_VERSION);
    assert_eq!(errors(without_broker.into()), [(UNKNOWN, UNKNOWN_TOPIC_ID)]);
}

fn fetched(topics: &[(u128, Option<&str>)], version: i16) -> Vec<u8> {
    let topic = |(id, value): &(u128, Option<&str>)| {
        let records = value.map(batch).unwrap_or_default();
        let partition = PartitionData::default().with_records(Some(records.into()));
        FetchableTopicResponse::default()
            .with_topic_id(Uuid::from_u128(*id))
            .with_partitions(vec![partition])
    };
    let response = FetchResponse::default()
        .with_session_id(7)
        .with_responses(topics.iter().map(topic).collect());
    framed(&response, version)
}

/// Returns the response after the filters.
fn filter_response(mut frame: Vec<u8>, version: i16) -> FetchResponse {
    let mut buffers = FilterBuffers::default();
    let result = filters_with_names(LOWER).fetch(&mut frame, HEAD.len(), version, &mut buffers);
    let frame = match result.expect("reads").output {
        FrameOutput::InPlace => &frame,
        FrameOutput::Rebuilt => buffers.frame(),
        FrameOutput::Nothing => panic!("responses are never dropped"),
    };
    let mut bytes = body(frame);
    let response = FetchResponse::decode(&mut bytes, version).expect("decodes");
    assert!(bytes.is_empty());
    response
}

#[test]
fn filters_select_fetched_topics_by_the_names_of_their_ids() {
    for version in 13..=18 {
        let topics = [(LOW, Some("ABC")), (OTHER, Some("ABC")), (UNKNOWN, None)];
        let response = filter_response(fetched(&topics, version), version);
        assert_eq!((response.error_code, response.session_id), (0, 7));
        let records = response.responses.iter();
        let records = records.map(|topic| values(topic.partitions[0].records.as_deref()));
        let expected = [vec!["abc".to_owned()], vec!["ABC".to_owned()], vec![]];
        assert_eq!(records.collect::<Vec<_>>(), expected, "version {version}");
    }
}

#[test]
fn records_of_unknown_topics_end_the_fetch_session() {
    for version in 13..=18 {
        let topics = [(LOW, Some("ABC")), (UNKNOWN, Some("ABC"))];
        let response = filter_response(fetched(&topics, version), version);
        assert_eq!(
            (response.error_code, response.session_id),
            (FETCH_SESSION_ID_NOT_FOUND, 0)
        );
        assert!(response.responses.is_empty());
    }
}
