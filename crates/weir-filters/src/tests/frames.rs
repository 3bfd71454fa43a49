//! Tests of filters on whole frames: output, own responses and unchanged frames.

use std::time::Duration;

use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{FetchResponse, ProduceRequest, ProduceResponse, TopicName};
use kafka_protocol::protocol::{Decodable, Encodable};

use super::*;
use crate::{FrameOutput, fuzz};

/// A placeholder for size and request header.
pub(super) const HEAD: &[u8] = b"\0\0\0\0head";

pub(super) type Rows = [(i32, Vec<u8>)];
pub(super) type Partitions<'a> = &'a [(&'a str, &'a Rows)];

pub(super) fn name(text: &str) -> TopicName {
    TopicName(StrBytes::from_string(text.to_owned()))
}

pub(super) fn framed(message: &impl Encodable, version: i16) -> Vec<u8> {
    let mut out = BytesMut::from(HEAD);
    message.encode(&mut out, version).expect("encodes");
    let size = out.len() as i32 - 4;
    out[..4].copy_from_slice(&size.to_be_bytes());
    out.to_vec()
}

pub(super) fn request(topics: Partitions<'_>, acks: i16, version: i16) -> Vec<u8> {
    let partition = |(index, records): &(i32, Vec<u8>)| {
        PartitionProduceData::default()
            .with_index(*index)
            .with_records(Some(Bytes::copy_from_slice(records)))
    };
    let topic = |(text, rows): &(&str, &Rows)| {
        TopicProduceData::default()
            .with_name(name(text))
            .with_partition_data(rows.iter().map(partition).collect())
    };
    let request = ProduceRequest::default()
        .with_acks(acks)
        .with_topic_data(topics.iter().map(topic).collect());
    framed(&request, version)
}

pub(super) fn fetched(topics: Partitions<'_>, version: i16) -> Vec<u8> {
    let partition = |(index, records): &(i32, Vec<u8>)| {
        PartitionData::default()
            .with_partition_index(*index)
            .with_records(Some(Bytes::copy_from_slice(records)))
    };
    let topic = |(text, rows): &(&str, &Rows)| {
        FetchableTopicResponse::default()
            .with_topic(name(text))
            .with_partitions(rows.iter().map(partition).collect())
    };
    let response = FetchResponse::default().with_responses(topics.iter().map(topic).collect());
    framed(&response, version)
}

/// Returns the body of a frame and checks its size.
pub(super) fn body(frame: &[u8]) -> Bytes {
    let size = i32::from_be_bytes(frame[..4].try_into().unwrap());
    assert_eq!(size as usize, frame.len() - 4);
    assert_eq!(&frame[4..HEAD.len()], &HEAD[4..]);
    Bytes::copy_from_slice(&frame[HEAD.len()..])
}

/// Returns topic, partition and record values of a request.
pub(super) fn produced(frame: &[u8], version: i16) -> Vec<(String, i32, Vec<String>)> {
    let mut bytes = body(frame);
    let request = ProduceRequest::decode(&mut bytes, version).expect("decodes");
    assert!(bytes.is_empty());
    let rows = request.topic_data.iter().flat_map(|topic| {
        let name = topic.name.to_string();
        let row =
            |it: &PartitionProduceData| (name.clone(), it.index, values(it.records.as_deref()));
        topic.partition_data.iter().map(row).collect::<Vec<_>>()
    });
    rows.collect()
}

pub(super) fn values(records: Option<&[u8]>) -> Vec<String> {
    let records = decode(records.unwrap_or_default());
    let text =
        |it: &Record| String::from_utf8_lossy(it.value.as_deref().unwrap_or(b"-")).into_owned();
    records.iter().map(text).collect()
}

/// Returns the partitions of a response.
pub(super) fn responses(frame: &[u8], version: i16) -> Vec<PartitionData> {
    let mut bytes = body(frame);
    let response = FetchResponse::decode(&mut bytes, version).expect("decodes");
    assert!(bytes.is_empty());
    let topics = response.responses.into_iter();
    topics.flat_map(|topic| topic.partitions).collect()
}

pub(super) fn batch(value: &str) -> Vec<u8> {
    encode(&[record_of(Some(value.as_bytes()))], Compression::None)
}

fn row(topic: &str, partition: i32, value: &str) -> (String, i32, Vec<String>) {
    (topic.to_owned(), partition, vec![value.to_owned()])
}

pub(super) const LOWER: &str =
    "[[filter]]\ntype = \"lower-case\"\ntopics = [\"low\"]\non = [\"produce\", \"fetch\"]\n";

#[test]
fn only_selected_topics_are_filtered() {
    for version in [3, 7, 8, 9, 11, 12] {
        let mut buffers = FilterBuffers::default();
        let topics: Partitions<'_> = &[
            ("low", &[(0, batch("ABC")), (1, batch("ÄBC Ⱥ"))]),
            ("other", &[(0, batch("ABC"))]),
        ];
        let mut frame = request(topics, -1, version);
        let result = filters(LOWER)
            .produce(&mut frame, HEAD.len(), version, &mut buffers)
            .unwrap();
        assert_eq!(
            (result.output, result.rejected),
            (FrameOutput::Rebuilt, None)
        );
        let expected = [
            row("low", 0, "abc"),
            row("low", 1, "äbc ⱥ"),
            row("other", 0, "ABC"),
        ];
        assert_eq!(produced(buffers.frame(), version), expected);
        let counts = buffers.take_counts();
        assert_eq!(
            (
                counts.batches,
                counts.batches_edited,
                counts.batches_rebuilt
            ),
            (2, 1, 1)
        );

        let mut frame = request(&topics[1..], -1, version);
        let before = frame.clone();
        let result = filters(LOWER)
            .produce(&mut frame, HEAD.len(), version, &mut buffers)
            .unwrap();
        assert_eq!((result.output, &frame), (FrameOutput::InPlace, &before));
        assert_eq!(buffers.take_counts(), FilterCounts::default());
    }
}

#[test]
fn equal_lengths_are_edited_in_place() {
    let mut buffers = FilterBuffers::default();
    let mut frame = request(&[("low", &[(0, batch("ABC Ä"))])], -1, 9);
    let result = filters(LOWER)
        .produce(&mut frame, HEAD.len(), 9, &mut buffers)
        .unwrap();
    assert_eq!(result.output, FrameOutput::InPlace);
    assert_eq!(produced(&frame, 9), [row("low", 0, "abc ä")]);
}

const STRICT: &str = "[[filter]]\ntype = \"require\"\njson = true\n";

#[test]
fn rejected_partitions_are_removed_and_reported() {
    for version in [3, 7, 8, 9, 12] {
        let mut buffers = FilterBuffers::default();
        let topics: Partitions<'_> = &[
            ("bad", &[(0, batch("x"))]),
            (
                "mixed",
                &[(0, batch("1")), (1, batch("x")), (2, batch("2"))],
            ),
            ("good", &[(5, batch("3"))]),
        ];
        let mut frame = request(topics, 1, version);
        let result = filters(STRICT)
            .produce(&mut frame, HEAD.len(), version, &mut buffers)
            .unwrap();
        assert_eq!(result.output, FrameOutput::Rebuilt);
        let left = [
            row("mixed", 0, "1"),
            row("mixed", 2, "2"),
            row("good", 5, "3"),
        ];
        assert_eq!(produced(buffers.frame(), version), left);
        assert_eq!(buffers.take_counts().partitions_rejected, 2);

        let partition = |index| {
            PartitionProduceResponse::default()
                .with_index(index)
                .with_base_offset(7)
        };
        let topic = |text, rows: &[i32]| {
            TopicProduceResponse::default()
                .with_name(name(text))
                .with_partition_responses(rows.iter().map(|row| partition(*row)).collect())
        };
        let response = ProduceResponse::default()
            .with_responses(vec![topic("mixed", &[0, 2]), topic("good", &[5])])
            .with_throttle_time_ms(3);
        let mut bytes = BytesMut::new();
        response.encode(&mut bytes, version).expect("encodes");
        let merged = result
            .rejected
            .expect("two")
            .merge(version, &bytes)
            .unwrap();
        let mut merged = Bytes::from(merged);
        let response = ProduceResponse::decode(&mut merged, version).expect("decodes");
        assert!(merged.is_empty());
        assert_eq!(response.throttle_time_ms, 3);
        let rows: Vec<_> = response
            .responses
            .iter()
            .flat_map(|topic| {
                let name = topic.name.to_string();
                topic
                    .partition_responses
                    .iter()
                    .map(move |it| (name.clone(), it.index, it.error_code, it.base_offset))
            })
            .collect();
        let row = |name: &str, index, error, offset| (name.to_owned(), index, error, offset);
        assert_eq!(
            rows,
            [
                row("mixed", 0, 0, 7),
                row("mixed", 2, 0, 7),
                row("mixed", 1, 87, -1),
                row("good", 5, 0, 7),
                row("bad", 0, 87, -1),
            ]
        );
        let rejected = &response.responses[0].partition_responses[2];
        if version >= 8 {
            assert_eq!(rejected.record_errors[0].batch_index, 0);
            let text = rejected.record_errors[0]
                .batch_index_error_message
                .as_deref();
            assert!(
                text.is_some_and(|text| text.starts_with("value is not JSON")),
                "{text:?}"
            );
        }
    }
}

#[test]
fn fully_rejected_requests_get_response_from_proxy() {
    for version in [3, 8, 9, 12] {
        let mut buffers = FilterBuffers::default();
        let topics: Partitions<'_> = &[
            ("a", &[(0, batch("x")), (1, batch("y"))]),
            ("b", &[(4, batch("z"))]),
        ];
        let mut frame = request(topics, -1, version);
        let result = filters(STRICT)
            .produce(&mut frame, HEAD.len(), version, &mut buffers)
            .unwrap();
        assert_eq!(result.output, FrameOutput::Nothing);
        let mut response = Bytes::from(result.rejected.expect("all").response(version));
        let response = ProduceResponse::decode(&mut response, version).expect("decodes");
        let counts: Vec<_> = response
            .responses
            .iter()
            .map(|topic| topic.partition_responses.len())
            .collect();
        assert_eq!(counts, [2, 1]);

        let mut frame = request(topics, 0, version);
        let result = filters(STRICT)
            .produce(&mut frame, HEAD.len(), version, &mut buffers)
            .unwrap();
        assert_eq!(
            (result.output, result.rejected),
            (FrameOutput::Nothing, None),
            "acks=0 has no response"
        );
    }
}

#[test]
fn wrong_checksum_is_forwarded_to_broker() {
    let mut bad = batch("ABC");
    *bad.last_mut().unwrap() ^= 1;
    let mut frame = request(&[("low", &[(0, bad)])], -1, 9);
    let before = frame.clone();
    let result = filters(LOWER)
        .produce(&mut frame, HEAD.len(), 9, &mut FilterBuffers::default())
        .unwrap();
    assert_eq!(
        (result.output, frame, result.rejected),
        (FrameOutput::InPlace, before, None)
    );
}

#[test]
fn fetched_batches_are_filtered_except_incomplete_ones() {
    for version in [4, 7, 11, 12] {
        let cut = batch("CUT OFF");
        let records = [batch("ABC"), batch("ŉ"), cut[..cut.len() - 2].to_vec()].concat();
        let topics: Partitions<'_> = &[("up", &[(0, records), (1, Vec::new())])];
        let mut frame = fetched(topics, version);
        let mut buffers = FilterBuffers::default();
        let upper = filters(&table("upper-case", ""));
        let result = upper
            .fetch(&mut frame, HEAD.len(), version, &mut buffers)
            .unwrap();
        assert_eq!(
            (result.output, result.rejected),
            (FrameOutput::Rebuilt, None)
        );
        let mut bytes = body(buffers.frame());
        let response = FetchResponse::decode(&mut bytes, version).expect("decodes");
        let found = response.responses[0].partitions[0].records.clone().unwrap();
        let whole = found.len() - (cut.len() - 2);
        assert_eq!(values(Some(&found[..whole])), ["ABC", "ʼN"]);
        assert_eq!(found[whole..], cut[..cut.len() - 2]);
    }
}

#[test]
fn undecodable_batches_are_withheld_from_consumers() {
    let mut bad = batch("ABC");
    *bad.last_mut().unwrap() ^= 1;
    let mut old = batch("ABC");
    old[16] = 1;
    for version in [4, 11, 12] {
        let good = [batch("A"), batch("Ⱥ")].concat();
        let topics: Partitions<'_> = &[(
            "low",
            &[
                (0, bad.clone()),
                (1, good.clone()),
                (2, [good, old.clone()].concat()),
            ],
        )];
        let mut frame = fetched(topics, version);
        let mut buffers = FilterBuffers::default();
        let result = filters(LOWER)
            .fetch(&mut frame, HEAD.len(), version, &mut buffers)
            .unwrap();
        assert_eq!(result.output, FrameOutput::Rebuilt);
        let mut bytes = body(buffers.frame());
        let response = FetchResponse::decode(&mut bytes, version).expect("decodes");
        let rows: Vec<_> = response.responses[0]
            .partitions
            .iter()
            .map(|it| (it.error_code, values(it.records.as_deref())))
            .collect();
        assert_eq!(
            rows,
            [
                (2, vec![]),
                (0, vec!["a".to_owned(), "ⱥ".to_owned()]),
                (0, vec!["a".to_owned(), "ⱥ".to_owned()])
            ]
        );
        let counts = buffers.take_counts();
        assert_eq!((counts.partitions_withheld, counts.partitions_cut), (1, 1));
    }
}

#[test]
fn old_formats_are_rejected_only_for_filtered_topics() {
    let mut old = batch("ABC");
    old[16] = 1;
    for (topic, pass) in [
        ("low", FrameOutput::Nothing),
        ("other", FrameOutput::InPlace),
    ] {
        let mut frame = request(&[(topic, &[(0, old.clone())])], -1, 3);
        let result = filters(LOWER)
            .produce(&mut frame, HEAD.len(), 3, &mut FilterBuffers::default())
            .unwrap();
        assert_eq!(result.output, pass);
        let Some(rejected) = result.rejected else {
            continue;
        };
        let mut response = Bytes::from(rejected.response(3));
        let response = ProduceResponse::decode(&mut response, 3).expect("decodes");
        assert_eq!(response.responses[0].partition_responses[0].error_code, 43);
    }
}

#[test]
fn delays_hold_frames_without_decoding() {
    let delay = filters(
        "[[filter]]\ntype = \"delay\"\ntopics = [\"slow\"]\ndelay_ms = 30\n\
         [[filter]]\ntype = \"delay\"\ntopics = [\"s*\"]\ndelay_ms = 12\n",
    );
    let mut buffers = FilterBuffers::default();
    for (topic, delay_ms) in [("slow", 42), ("swift", 12), ("other", 0)] {
        let mut frame = request(&[(topic, &[(0, b"not a batch".to_vec())])], -1, 9);
        let result = delay
            .produce(&mut frame, HEAD.len(), 9, &mut buffers)
            .unwrap();
        assert_eq!(
            (result.output, result.delay),
            (FrameOutput::InPlace, Duration::from_millis(delay_ms))
        );
    }
}

#[test]
fn unsupported_versions_and_broken_frames_are_errors() {
    let mut buffers = FilterBuffers::default();
    let mut frame = request(&[("low", &[(0, batch("A"))])], -1, 9);
    assert!(
        filters(LOWER)
            .produce(&mut frame, HEAD.len(), 13, &mut buffers)
            .is_err()
    );
    assert!(
        filters(LOWER)
            .produce(&mut frame, 10_000, 9, &mut buffers)
            .is_err()
    );
    frame.pop();
    assert!(
        filters(LOWER)
            .produce(&mut frame, HEAD.len(), 9, &mut buffers)
            .is_err()
    );
}

type FrameTopic = (String, Vec<(i32, Vec<u8>)>);

fn topics() -> impl Strategy<Value = Vec<FrameTopic>> {
    let records =
        (prop::collection::vec(batch_records(), 0..3), 0_usize..5).prop_map(|(runs, codec)| {
            runs.iter()
                .flat_map(|run| encode(run, COMPRESSIONS[codec]))
                .collect()
        });
    let rows = prop::collection::vec((0_i32..9, records), 0..3);
    let name = prop_oneof![
        Just("up-a".to_owned()),
        Just("strict".to_owned()),
        "[a-z]{1,4}"
    ];
    prop::collection::vec((name, rows), 0..3)
}

proptest! {
    /// Runs the fuzz targets with valid frames and with frames that have a few changed bytes.
    #[test]
    fn frames_never_panic(
        topics in topics(), version in 4_u8..13,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let topics: Vec<(&str, &Rows)> =
            topics.iter().map(|(name, rows)| (name.as_str(), &rows[..])).collect();
        let mut produce_frame = request(&topics, -1, version.into());
        let mut fetch_frame = fetched(&topics, version.into());
        for frame in [&mut produce_frame, &mut fetch_frame] {
            for (at, value) in &edits {
                let at = at.index(frame.len());
                frame[at] = *value;
            }
            frame[HEAD.len() - 1] = version;
        }
        fuzz::produce(&produce_frame[HEAD.len() - 1..]);
        fuzz::fetch(&fetch_frame[HEAD.len() - 1..]);
    }

    #[test]
    fn frames_of_other_topics_are_unchanged(topics in topics(), version in 4_i16..13) {
        let rows: Vec<(&str, &Rows)> =
            topics.iter().map(|(name, rows)| (name.as_str(), &rows[..])).collect();
        let other = filters(
            "[[filter]]\ntype = \"upper-case\"\ntopics = [\"NONE\"]\n\
             on = [\"produce\", \"fetch\"]\n",
        );
        let mut buffers = FilterBuffers::default();
        let mut frame = request(&rows, -1, version);
        let before = frame.clone();
        let result = other.produce(&mut frame, HEAD.len(), version, &mut buffers)?;
        prop_assert_eq!(result.output, FrameOutput::InPlace);
        prop_assert_eq!(&frame, &before);
        let mut frame = fetched(&rows, version);
        let before = frame.clone();
        let result = other.fetch(&mut frame, HEAD.len(), version, &mut buffers)?;
        prop_assert_eq!(result.output, FrameOutput::InPlace);
        prop_assert_eq!(&frame, &before);
    }
}

const PRODUCE_SEEDS: [&[u8]; 2] = [
    include_bytes!("../../../../fuzz/seeds/proxy_produce/1"),
    include_bytes!("../../../../fuzz/seeds/proxy_produce/2"),
];
const FETCH_SEEDS: [&[u8]; 2] = [
    include_bytes!("../../../../fuzz/seeds/proxy_fetch/1"),
    include_bytes!("../../../../fuzz/seeds/proxy_fetch/2"),
];

#[test]
fn seeds_are_valid_frames() {
    for seed in PRODUCE_SEEDS {
        fuzz::produce(seed);
        let request = ProduceRequest::decode(&mut Bytes::from_static(&seed[1..]), seed[0].into());
        assert_eq!(request.expect("decodes").topic_data.len(), 3);
    }
    for seed in FETCH_SEEDS {
        fuzz::fetch(seed);
        let response = FetchResponse::decode(&mut Bytes::from_static(&seed[1..]), seed[0].into());
        assert_eq!(response.expect("decodes").responses.len(), 2);
    }
}
