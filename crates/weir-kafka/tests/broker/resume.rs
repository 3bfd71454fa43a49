//! Pausing and resuming, offsets stored under a group id, and topics that are deleted and created
//! again.

use std::time::{Duration, Instant};

use weir_kafka::{
    BorrowedRecord, IngestConfig, KafkaIngest, KafkaReader, PauseScope, ReaderKind, StartFrom,
};

use crate::support::{
    TEST_TIMEOUT, TestBroker, broker, numbered, per_reader, read, unique, until_ready, values,
};

per_reader! {
    paused_records_are_delivered_once_in_order
    lent_records_are_readable_on_other_threads
    group_resumes_at_stored_offsets
    topic_created_after_deletion_is_read_from_beginning
    topic_replaced_at_once_is_read_from_beginning
}

fn source(
    broker: &TestBroker,
    topic: &str,
    from: StartFrom,
    pause: PauseScope,
    group: &str,
) -> KafkaIngest {
    let config = IngestConfig {
        kafka: broker.kafka(),
        client_id: "test".to_owned(),
        group_id: (!group.is_empty()).then(|| group.to_owned()),
        topics: vec![topic.to_owned()],
        from,
        pause,
        reader: broker.reader,
        ..IngestConfig::default()
    };
    let mut source = KafkaIngest::start(&config).expect("valid configuration");
    wait(&mut source, "ready", |source| source.status().ready);
    source
}

/// Waits without reading records.
fn wait(source: &mut KafkaIngest, what: &str, done: impl Fn(&KafkaIngest) -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !done(source) {
        assert!(
            Instant::now() < deadline,
            "no {what}: {:?}",
            source.status()
        );
        source.reader().run_callbacks().expect("poll succeeds");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn lent<'a>(reader: &mut KafkaReader<'a>, count: usize) -> Vec<BorrowedRecord<'a>> {
    let deadline = Instant::now() + TEST_TIMEOUT;
    let mut records = Vec::new();
    while records.len() < count {
        assert!(Instant::now() < deadline, "only {} records", records.len());
        let wait = Duration::from_millis(20);
        reader
            .poll(wait, count, &mut records)
            .expect("poll succeeds");
    }
    records
}

fn texts(records: &[BorrowedRecord<'_>]) -> Vec<String> {
    let text = |record: &BorrowedRecord<'_>| {
        let record = record.without_headers();
        String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned()
    };
    records.iter().map(text).collect()
}

fn paused_records_are_delivered_once_in_order(reader: ReaderKind) {
    let broker = broker().read_with(reader);
    let topic = broker.topic("paused", 1);
    let sent = numbered("v", 40);
    let sender = broker.producer();
    let mut source = source(&broker, &topic, StartFrom::Latest, PauseScope::Nothing, "");
    let mut reader = source.reader();
    sender.store(&topic, 0, &sent[..20]);
    let first = lent(&mut reader, 20);
    // The last five records were polled before the pause.
    reader.pause(&first[15..]).expect("pauses");
    sender.store(&topic, 0, &sent[20..30]);
    reader.run_callbacks().expect("poll succeeds");
    reader.resume().expect("resumes");
    let again = lent(&mut reader, 15);
    assert_eq!(texts(&again), sent[15..30]);
    reader.pause(&[]).expect("pauses");
    reader.resume().expect("resumes");
    sender.store(&topic, 0, &sent[30..]);
    assert_eq!(texts(&lent(&mut reader, 10)), sent[30..]);
    assert_eq!(reader.status().resets, 0);
}

fn lent_records_are_readable_on_other_threads(reader: ReaderKind) {
    let broker = broker().read_with(reader);
    let topic = broker.topic("lent", 1);
    let sent = numbered("v", 2000);
    broker.producer().store(&topic, 0, &sent);
    let mut source = source(
        &broker,
        &topic,
        StartFrom::Earliest,
        PauseScope::Nothing,
        "",
    );
    let mut reader = source.reader();
    let mut seen = Vec::new();
    std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::sync_channel::<Vec<BorrowedRecord<'_>>>(2);
        let other = scope.spawn(move || {
            let batches = receiver.iter();
            batches.flat_map(|batch| texts(&batch)).collect::<Vec<_>>()
        });
        for _ in 0..20 {
            sender
                .send(lent(&mut reader, 100))
                .expect("receiver is alive");
        }
        drop(sender);
        seen = other.join().expect("no panic");
    });
    assert_eq!(seen[..2000], sent);
}

fn group_resumes_at_stored_offsets(reader: ReaderKind) {
    let broker = broker().read_with(reader);
    for (from, expected) in [
        (StartFrom::Latest, &["c", "d"][..]),
        (StartFrom::Earliest, &["a", "b", "c", "d"]),
    ] {
        let topic = broker.topic("group", 1);
        let group = unique("group");
        let text = |names: &[&str]| names.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
        let sender = broker.producer();
        sender.store(&topic, 0, &text(&["a", "b"]));
        let mut first = source(&broker, &topic, from, PauseScope::Committed, &group);
        let mut reader = first.reader();
        sender.store(&topic, 0, &text(&["c", "d"]));
        assert_eq!(texts(&lent(&mut reader, expected.len())), expected);
        let mut positions = reader.positions();
        positions.set(&topic, 0, 3);
        reader.commit(&positions).expect("sent");
        assert!(reader.await_commits(TEST_TIMEOUT), "{:?}", reader.status());
        reader.commit(&positions).expect("nothing new to store");
        assert_eq!(
            (reader.status().commits, reader.status().commit_errors),
            (1, 0)
        );
        drop(first);

        sender.store(&topic, 0, &text(&["e"]));
        let mut again = source(&broker, &topic, from, PauseScope::Committed, &group);
        let mut reader = again.reader();
        let mut early = Vec::new();
        let wait = Duration::from_millis(300);
        reader.poll(wait, 10, &mut early).expect("poll succeeds");
        assert_eq!(texts(&early), [""; 0], "paused until resumed");
        reader.resume().expect("resumes");
        assert_eq!(texts(&lent(&mut reader, 2)), ["d", "e"]);
    }
}

fn topic_created_after_deletion_is_read_from_beginning(reader: ReaderKind) {
    let broker = broker().read_with(reader);
    let topic = broker.topic("recreated", 1);
    let sender = broker.producer();
    let mut source = broker.ingest(&[&topic], StartFrom::Latest);
    until_ready(&mut source);
    sender.store(&topic, 0, &numbered("old", 20));
    assert_eq!(read(&mut source, 20).len(), 20);
    let admin = broker.admin();
    admin.delete_topic(&topic).expect("deleted");
    let mut seen = Vec::new();
    crate::support::poll_until(&mut source, &mut seen, "deletion", |source, _| {
        !source.status().topics[0].exists
    });
    assert!(!source.status().ready, "a topic is missing");
    admin.create_topic(&topic, 1, 1, &[]).expect("created");
    broker.producer().store(&topic, 0, &numbered("new", 30));
    assert_eq!(values(&read(&mut source, 30)), numbered("new", 30));
}

fn topic_replaced_at_once_is_read_from_beginning(reader: ReaderKind) {
    let broker = broker().read_with(reader);
    let topic = broker.topic("replaced", 1);
    let sender = broker.producer();
    let mut source = broker.ingest(&[&topic], StartFrom::Latest);
    until_ready(&mut source);
    sender.store(&topic, 0, &numbered("old", 20));
    assert_eq!(read(&mut source, 20).len(), 20);
    let admin = broker.admin();
    admin.delete_topic(&topic).expect("deleted");
    let deadline = Instant::now() + TEST_TIMEOUT;
    while admin.create_topic(&topic, 1, 1, &[]).is_err() {
        assert!(Instant::now() < deadline, "the old topic still exists");
        std::thread::sleep(Duration::from_millis(10));
    }
    broker.producer().store(&topic, 0, &numbered("new", 5));
    assert_eq!(values(&read(&mut source, 5)), numbered("new", 5));
}
