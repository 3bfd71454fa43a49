//! Records of aborted transactions, by isolation level.

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use weir_kafka::{IngestConfig, KafkaIngest, KafkaSettings, ReaderKind, StartFrom};

use crate::support::{TEST_TIMEOUT, broker, per_reader, poll_until, read, unique, values};

per_reader! {
    aborted_records_are_read_unless_only_committed_are_requested
}

/// Writes a record in an aborted transaction, then one in a committed transaction.
pub(crate) fn write_transactions(kafka: &KafkaSettings, topic: &str) {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", &kafka.bootstrap_servers)
        .set("transactional.id", unique("transactions"))
        .create()
        .expect("valid configuration");
    producer
        .init_transactions(TEST_TIMEOUT)
        .expect("a producer id");
    for value in ["aborted", "committed"] {
        producer.begin_transaction().expect("a transaction");
        let record = BaseRecord::<(), str>::to(topic).partition(0).payload(value);
        producer
            .send(record)
            .map_err(|(error, _)| error)
            .expect("queued");
        producer.flush(TEST_TIMEOUT).expect("stored");
        match value {
            "aborted" => producer.abort_transaction(TEST_TIMEOUT).expect("aborted"),
            _ => producer
                .commit_transaction(TEST_TIMEOUT)
                .expect("committed"),
        }
    }
}

fn aborted_records_are_read_unless_only_committed_are_requested(reader: ReaderKind) {
    let broker = broker().read_with(reader);
    let topic = broker.topic("transactions", 1);
    write_transactions(&broker.kafka(), &topic);
    let ingest = |kafka: KafkaSettings| {
        let config = IngestConfig {
            kafka,
            client_id: "test".to_owned(),
            topics: vec![topic.clone()],
            from: StartFrom::Earliest,
            reader,
            ..IngestConfig::default()
        };
        KafkaIngest::start(&config).expect("valid configuration")
    };
    let mut uncommitted = ingest(broker.kafka());
    assert_eq!(values(&read(&mut uncommitted, 2)), ["aborted", "committed"]);
    // Two records and two markers.
    poll_until(&mut uncommitted, &mut Vec::new(), "end", |source, _| {
        let lag = source.lag();
        lag.iter().all(|partition| partition.end == Some(4))
    });

    let committed = broker
        .kafka()
        .with_property("isolation.level", "read_committed");
    assert_eq!(values(&read(&mut ingest(committed), 1)), ["committed"]);
}
