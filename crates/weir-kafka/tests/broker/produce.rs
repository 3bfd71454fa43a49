//! Producer: delivery of records, tokens of delivery reports, rejected records.

use std::time::Duration;

use weir_kafka::{Acks, SendError, StartFrom};

use crate::support::{TEST_TIMEOUT, broker, numbered, read, values};

#[test]
fn keys_headers_and_null_values_round_trip() {
    let broker = broker();
    let topic = broker.topic("round-trip", 1);
    let sender = broker.producer();
    let headers: [(&str, &[u8]); 3] = [("a", b"1"), ("empty", b""), ("a", &[0xff, 0x00])];
    let part = Some(0);
    sender
        .producer
        .send(
            &topic,
            part,
            Some(b"k"),
            Some(b"v"),
            &headers,
            Some(1_234_567),
            7,
        )
        .expect("queued");
    sender
        .producer
        .send(&topic, part, Some(b""), None, &[], None, 8)
        .expect("queued");
    sender
        .producer
        .send(&topic, part, None, Some(b""), &[], None, 9)
        .expect("queued");
    assert_eq!(sender.producer.flush(TEST_TIMEOUT), 0);
    for (token, offset) in [(7, 0), (8, 1), (9, 2)] {
        let delivery = sender
            .deliveries
            .recv_timeout(TEST_TIMEOUT)
            .expect("reported");
        assert_eq!((delivery.token, delivery.result), (token, Ok((0, offset))));
    }

    let mut source = broker.ingest(&[&topic], StartFrom::Earliest);
    let records = read(&mut source, 3);
    let first = &records[0];
    assert_eq!(first.topic, topic);
    assert_eq!(
        (first.partition, first.offset, first.timestamp_ms),
        (0, 0, 1_234_567)
    );
    assert_eq!(first.key.as_deref(), Some(&b"k"[..]));
    assert_eq!(first.value.as_deref(), Some(&b"v"[..]));
    let expected = headers.map(|(name, value)| (name.to_owned(), Some(value.to_vec())));
    assert_eq!(first.headers, expected);
    assert_eq!((&records[1].key, &records[1].value), (&Some(vec![]), &None));
    assert!(records[1].timestamp_ms > 1_600_000_000_000);
    assert_eq!((&records[2].key, &records[2].value), (&None, &Some(vec![])));
}

#[test]
fn compressed_records_round_trip() {
    let broker = broker();
    let topic = broker.topic("compressed", 1);
    let mut expected = Vec::new();
    for codec in ["gzip", "snappy", "lz4", "zstd"] {
        let batch = numbered(codec, 50);
        broker
            .producer_with(codec, Acks::Leader)
            .store(&topic, 0, &batch);
        expected.extend(batch);
    }
    let mut source = broker.ingest(&[&topic], StartFrom::Earliest);
    assert_eq!(values(&read(&mut source, expected.len())), expected);
}

#[test]
fn every_acks_level_reports_each_record_once() {
    let broker = broker();
    let topic = broker.topic("acks", 1);
    for acks in [Acks::None, Acks::Leader, Acks::All] {
        broker
            .producer_with("none", acks)
            .store(&topic, 0, &numbered("v", 20));
    }
    let mut source = broker.ingest(&[&topic], StartFrom::Earliest);
    assert_eq!(read(&mut source, 60).len(), 60);
}

#[test]
fn partitions_waits_for_metadata_and_reports_missing_topic() {
    let broker = broker();
    let topic = broker.topic("known", 3);
    let sender = broker.producer();
    assert_eq!(sender.producer.partitions(&topic, TEST_TIMEOUT), Ok(3));
    let error = sender
        .producer
        .partitions("no-such-topic", Duration::from_secs(5));
    let text = error.expect_err("missing topic").to_string();
    assert!(text.contains("\"no-such-topic\""), "{text}");
}

#[test]
fn oversized_record_is_rejected_at_once() {
    let broker = broker();
    let topic = broker.topic("rejected", 1);
    let sender = broker.producer();
    let large = vec![0_u8; 5 << 20];
    let rejected = sender
        .producer
        .send(&topic, Some(0), None, Some(&large), &[], None, 1);
    assert!(matches!(rejected, Err(SendError::Fatal(_))), "{rejected:?}");
    assert_eq!(sender.producer.in_flight(), 0);
}
