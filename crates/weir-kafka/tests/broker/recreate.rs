//! Topics that are deleted and created again while a source reads them.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use weir_kafka::{KafkaIngest, Producer, ProducerConfig, ReaderKind, StartFrom};

use crate::support::{
    CopiedRecord, TEST_TIMEOUT, TestBroker, broker, lab, numbered, per_reader, poll_until, read,
    until_ready,
};

per_reader! {
    recreated_topic_with_lower_leader_epoch_is_read
    recreated_longer_topic_is_read_from_beginning
    recreated_topic_under_load_is_read_soon
}

/// Maximum time until records of a recreated topic are read.
const RESUME_TIMEOUT: Duration = Duration::from_secs(10);

fn recreate(broker: &TestBroker, topic: &str) {
    let admin = broker.admin();
    admin.delete_topic(topic).expect("deleted");
    let deadline = Instant::now() + TEST_TIMEOUT;
    while let Err(error) = admin.create_topic(topic, 1, 1, &[]) {
        assert!(Instant::now() < deadline, "{error}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Reads until offset 0 and `count` more records of the latest topic were delivered.
fn read_new(source: &mut KafkaIngest, count: usize) -> Vec<CopiedRecord> {
    let start = Instant::now();
    let mut seen: Vec<CopiedRecord> = Vec::new();
    poll_until(source, &mut seen, "new records", |_, seen| {
        let first = seen.iter().rposition(|record| record.offset == 0);
        first.is_some_and(|first| seen.len() - first > count)
    });
    assert!(start.elapsed() < RESUME_TIMEOUT, "{:?}", start.elapsed());
    let first = seen.iter().rposition(|record| record.offset == 0);
    seen.split_off(first.unwrap_or_default())
}

/// A broker restart increments the leader epoch of a partition; a new topic starts with a lower
/// one.
fn recreated_topic_with_lower_leader_epoch_is_read(reader: ReaderKind) {
    let mut lab = lab(1);
    let broker = TestBroker {
        bootstrap: lab.bootstrap(),
        reader,
    };
    let topic = broker.topic("epoch", 1);
    let other = broker.topic("other", 1);
    let mut source = broker.ingest(&[&topic, &other], StartFrom::Latest);
    until_ready(&mut source);
    lab.stop_broker(1).expect("stops");
    poll_until(&mut source, &mut Vec::new(), "loss", |source, _| {
        !source.status().ready
    });
    lab.start_broker(1, &AtomicBool::new(false))
        .expect("starts");
    until_ready(&mut source);
    broker.producer().store(&topic, 0, &numbered("old", 10));
    broker.producer().store(&other, 0, &numbered("kept", 5));
    assert_eq!(read(&mut source, 15).len(), 15);
    for _ in 0..2 {
        recreate(&broker, &topic);
        broker.producer().store(&topic, 0, &numbered("new", 20));
        let seen = read_new(&mut source, 19);
        assert!(seen.iter().map(|record| record.offset).eq(0..20));
    }
    broker.producer().store(&other, 0, &numbered("after", 1));
    let seen = read(&mut source, 1);
    assert_eq!((seen[0].text(), seen[0].offset), ("after0".to_owned(), 5));
}

/// Records written before the replacement is detected extend beyond the old position.
fn recreated_longer_topic_is_read_from_beginning(reader: ReaderKind) {
    let broker = broker().read_with(reader);
    let topic = broker.topic("outgrown", 1);
    let mut source = broker.ingest(&[&topic], StartFrom::Latest);
    until_ready(&mut source);
    broker.producer().store(&topic, 0, &numbered("old", 10));
    assert_eq!(read(&mut source, 10).len(), 10);
    recreate(&broker, &topic);
    broker.producer().store(&topic, 0, &numbered("new", 200));
    let seen = read_new(&mut source, 199);
    assert!(seen.iter().map(|record| record.offset).eq(0..200));
}

fn recreated_topic_under_load_is_read_soon(reader: ReaderKind) {
    let broker = broker().read_with(reader);
    let topic = broker.topic("recreated", 1);
    let mut source = broker.ingest(&[&topic], StartFrom::Latest);
    until_ready(&mut source);
    let config = ProducerConfig {
        kafka: broker.kafka(),
        ..ProducerConfig::default()
    };
    let producer = Producer::start(&config, Box::new(|_| {})).expect("valid configuration");
    let (stop, stopped) = mpsc::channel::<()>();
    let name = topic.as_str();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let pause = Duration::from_micros(500);
            while stopped.recv_timeout(pause) == Err(mpsc::RecvTimeoutError::Timeout) {
                // Errors are expected while the topic does not exist.
                let _ = producer.send(name, Some(0), None, Some(b"v"), &[], None, 0);
            }
        });
        read(&mut source, 500);
        for _ in 0..6 {
            recreate(&broker, &topic);
            let seen = read_new(&mut source, 500);
            let count = seen.len() as i64;
            assert!(seen.iter().map(|record| record.offset).eq(0..count));
        }
        drop(stop);
    });
}
