//! Ingest: guarantees of `ready`, start positions, topics and partitions that are added later.

use kafka_protocol::records::Compression;
use weir_kafka::{Acks, KafkaSettings, ReaderKind, StartFrom};

use crate::support::{broker, numbered, per_reader, poll_until, read, unique, until_ready, values};
use crate::wire;

per_reader! {
    latest_delivers_only_records_after_ready
    earliest_delivers_existing_records_in_order
    topic_created_later_is_read_from_beginning
    added_partition_is_read_from_beginning
    several_topics_are_read_by_one_source
    header_with_invalid_utf8_name_is_skipped
    poll_returns_at_most_max_records
    lag_becomes_known_and_reaches_zero
    source_without_broker_reports_error
    records_of_all_codecs_are_read
}

fn latest_delivers_only_records_after_ready(reader: ReaderKind) {
    let broker = broker().read_with(reader);
    let topic = broker.topic("latest", 3);
    let sender = broker.producer();
    for partition in 0..3 {
        sender.store(&topic, partition, &numbered("old", 10));
    }
    let mut source = broker.ingest(&[&topic], StartFrom::Latest);
    assert_eq!(until_ready(&mut source), vec![], "no old records");
    for partition in 0..3 {
        sender.store(&topic, partition, &numbered("new", 10));
    }
    let mut seen = read(&mut source, 30);
    seen.sort_by_key(|record| (record.partition, record.offset));
    for (index, record) in seen.iter().enumerate() {
        assert_eq!(record.text(), format!("new{}", index % 10));
        assert_eq!(record.offset, 10 + (index % 10) as i64);
    }
}

fn earliest_delivers_existing_records_in_order(reader: ReaderKind) {
    let broker = broker().read_with(reader);
    let topic = broker.topic("earliest", 1);
    let sent = numbered("v", 500);
    broker.producer().store(&topic, 0, &sent);
    let mut source = broker.ingest(&[&topic], StartFrom::Earliest);
    let seen = read(&mut source, 500);
    assert_eq!(values(&seen), sent);
    assert!(
        seen.iter()
            .enumerate()
            .all(|(index, it)| it.offset == index as i64)
    );
}

fn topic_created_later_is_read_from_beginning(reader: ReaderKind) {
    let broker = broker().read_with(reader);
    let topic = unique("later");
    let mut source = broker.ingest(&[&topic], StartFrom::Latest);
    let mut seen = Vec::new();
    poll_until(&mut source, &mut seen, "missing topic", |source, _| {
        let problem = source.status().problem;
        problem.is_some_and(|problem| problem.starts_with("missing topic"))
    });
    assert!(!source.status().ready);

    broker
        .admin()
        .create_topic(&topic, 2, 1, &[])
        .expect("created");
    let sent = numbered("v", 20);
    broker.producer().store(&topic, 1, &sent);
    assert_eq!(values(&read(&mut source, 20)), sent);
    let status = source.status();
    assert!(status.topics[0].exists);
    assert_eq!(status.topics[0].partitions, 2);
}

fn added_partition_is_read_from_beginning(reader: ReaderKind) {
    let broker = broker().read_with(reader);
    let topic = broker.topic("grown", 1);
    let sender = broker.producer();
    let mut source = broker.ingest(&[&topic], StartFrom::Latest);
    until_ready(&mut source);
    sender.store(&topic, 0, &numbered("a", 5));

    broker.admin().grow_topic(&topic, 2).expect("grown");
    broker.producer().store(&topic, 1, &numbered("b", 5));
    sender.store(&topic, 0, &numbered("c", 5));
    let mut seen = read(&mut source, 15);
    seen.sort_by_key(|record| (record.partition, record.offset));
    let expected = [numbered("a", 5), numbered("c", 5), numbered("b", 5)].concat();
    assert_eq!(values(&seen), expected);
}

fn several_topics_are_read_by_one_source(reader: ReaderKind) {
    let broker = broker().read_with(reader);
    let (one, two) = (broker.topic("one", 1), broker.topic("two", 2));
    let mut source = broker.ingest(&[&one, &two], StartFrom::Latest);
    until_ready(&mut source);
    let sender = broker.producer();
    sender.store(&one, 0, &numbered("x", 3));
    sender.store(&two, 1, &numbered("y", 3));
    let mut seen = read(&mut source, 6);
    seen.sort_by_key(|record| record.topic != one);
    assert_eq!(values(&seen), [numbered("x", 3), numbered("y", 3)].concat());
}

fn header_with_invalid_utf8_name_is_skipped(reader: ReaderKind) {
    let broker = broker().read_with(reader);
    let topic = broker.topic("names", 1);
    let values = numbered("v", 2);
    let batch = wire::batch(&values, Compression::None);
    let broken = wire::patch(&batch, b"name", b"na\xff\xfe");
    wire::store(&broker.bootstrap, &topic, broken);
    let mut source = broker.ingest(&[&topic], StartFrom::Earliest);
    let seen = read(&mut source, 2);
    assert_eq!(values, crate::support::values(&seen));
    assert_eq!(seen[0].headers, vec![]);
    assert_eq!(seen[1].headers, vec![("name".to_owned(), None)]);
    assert_eq!(source.status().headers_skipped, 1);
}

fn poll_returns_at_most_max_records(reader: ReaderKind) {
    let broker = broker().read_with(reader);
    let topic = broker.topic("max", 1);
    broker.producer().store(&topic, 0, &numbered("v", 100));
    let mut source = broker.ingest(&[&topic], StartFrom::Earliest);
    let (mut total, mut calls) = (0, 0);
    while total < 100 {
        let mut delivered = 0;
        let wait = std::time::Duration::from_secs(20);
        let count = source
            .poll(wait, 30, &mut |_| delivered += 1)
            .expect("poll succeeds");
        assert_eq!(count, delivered);
        assert!(count <= 30);
        total += count;
        calls += 1;
    }
    assert_eq!(total, 100);
    assert!(calls >= 4);
}

fn lag_becomes_known_and_reaches_zero(reader: ReaderKind) {
    let broker = broker().read_with(reader);
    let topic = broker.topic("lag", 1);
    let mut source = broker.ingest(&[&topic], StartFrom::Latest);
    until_ready(&mut source);
    broker.producer().store(&topic, 0, &numbered("v", 10));
    let mut seen = Vec::new();
    poll_until(
        &mut source,
        &mut seen,
        "cached end offset",
        |source, seen| seen.len() == 10 && lag_of(source) == vec![(10, Some(10))],
    );
    assert_eq!(source.lag()[0].records(), Some(0));
}

fn lag_of(source: &mut weir_kafka::KafkaIngest) -> Vec<(i64, Option<i64>)> {
    let lag = source.lag();
    lag.iter()
        .map(|entry| (entry.position, entry.end))
        .collect()
}

fn source_without_broker_reports_error(reader: ReaderKind) {
    let config = weir_kafka::IngestConfig {
        kafka: KafkaSettings::plaintext("127.0.0.1:1"),
        client_id: "test".to_owned(),
        topics: vec!["t".to_owned()],
        reader,
        ..weir_kafka::IngestConfig::default()
    };
    let mut source = weir_kafka::KafkaIngest::start(&config).expect("valid configuration");
    let mut seen = Vec::new();
    poll_until(&mut source, &mut seen, "error", |source, _| {
        source.status().last_error.is_some()
    });
    assert!(!source.status().ready);
    assert!(source.status().errors > 0);
}

fn records_of_all_codecs_are_read(reader: ReaderKind) {
    let broker = broker().read_with(reader);
    let topic = broker.topic("codecs", 1);
    let mut sent = Vec::new();
    for codec in ["gzip", "snappy", "lz4", "zstd", "none"] {
        let values = numbered(codec, 300);
        broker
            .producer_with(codec, Acks::All)
            .store(&topic, 0, &values);
        sent.extend(values);
    }
    let mut source = broker.ingest(&[&topic], StartFrom::Earliest);
    assert_eq!(values(&read(&mut source, sent.len())), sent);
}
