//! Lean consumers: each receives every record once and in order, with every codec.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

use kafka_protocol::records::Compression;
use tokio::sync::watch;
use weir_kafka::Acks;
use weir_kafka::lean::{
    self, LeanCommand, LeanConfig, LeanError, LeanRecord, LeanReport, LeanSink,
};

use crate::support::{TEST_TIMEOUT, TestBroker, broker, numbered};
use crate::transactions::write_transactions;
use crate::wire;

/// Collects records. Signals when all consumers are ready, and stops the run at `expected` records
/// per consumer.
struct RecordCollector {
    ready: Vec<bool>,
    seen: Vec<Vec<(i32, i64, String)>>,
    headers: usize,
    bytes: usize,
    errors: Vec<String>,
    expected: usize,
    complete: usize,
    all_ready: Option<tokio::sync::oneshot::Sender<()>>,
    stop: watch::Sender<LeanCommand>,
}

impl LeanSink for RecordCollector {
    fn on_ready(&mut self, consumer: usize) {
        assert!(!self.ready[consumer], "reported ready twice");
        self.ready[consumer] = true;
        if self.ready.iter().all(|ready| *ready) {
            let sender = self.all_ready.take().expect("only once");
            sender.send(()).expect("test waits");
        }
    }

    fn on_record(&mut self, consumer: usize, record: &LeanRecord<'_>) {
        let value = String::from_utf8_lossy(record.value.expect("value")).into_owned();
        self.headers += record.headers().flatten().count();
        let seen = &mut self.seen[consumer];
        seen.push((record.partition, record.offset, value));
        if seen.len() == self.expected {
            self.complete += 1;
        }
        if self.complete == self.seen.len() {
            self.stop.send_replace(LeanCommand::Stop);
        }
    }

    fn on_error(&mut self, _: usize, error: &LeanError) {
        self.errors.push(error.to_string());
    }

    fn on_bytes(&mut self, _: usize, n: usize) {
        self.bytes += n;
    }
}

/// Runs consumers. `produce` runs on another thread once all are ready.
fn collect(
    config: LeanConfig,
    expected: usize,
    produce: impl FnOnce() + Send + 'static,
) -> (RecordCollector, LeanReport) {
    let (stop, stopped) = watch::channel(LeanCommand::Read);
    let (all_ready, wait_ready) = tokio::sync::oneshot::channel();
    let sink = Rc::new(RefCell::new(RecordCollector {
        ready: vec![false; config.consumers],
        seen: vec![Vec::new(); config.consumers],
        headers: 0,
        bytes: 0,
        errors: Vec::new(),
        expected,
        complete: 0,
        all_ready: Some(all_ready),
        stop,
    }));
    let produce = std::thread::spawn(move || {
        if wait_ready.blocking_recv().is_ok() {
            produce();
        }
    });
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().expect("runtime");
    let work = lean::run(config, Rc::clone(&sink), stopped);
    let outcome = runtime.block_on(async { tokio::time::timeout(TEST_TIMEOUT, work).await });
    let sink = Rc::into_inner(sink).expect("run is over").into_inner();
    let outcome = outcome.unwrap_or_else(|_| {
        let counts: Vec<_> = sink.seen.iter().map(Vec::len).collect();
        panic!("not complete: {counts:?}, errors {:?}", sink.errors);
    });
    produce.join().expect("produced");
    (sink, outcome.expect("ran"))
}

fn config(broker: &TestBroker, topic: &str, consumers: usize) -> LeanConfig {
    LeanConfig {
        kafka: broker.kafka(),
        topic: topic.to_owned(),
        consumers,
        ..LeanConfig::default()
    }
}

#[test]
fn all_consumers_receive_every_record_in_order() {
    let broker = broker();
    let topic = broker.topic("lean", 2);
    broker.producer().store(&topic, 0, &numbered("old", 7));
    let sender = broker.producer();
    let name = topic.clone();
    let (sink, report) = collect(config(&broker, &topic, 50), 400, move || {
        for round in 0..20 {
            for partition in 0..2 {
                sender.store(&name, partition, &numbered(&format!("{round}-"), 10));
            }
        }
    });
    assert_eq!(sink.errors, Vec::<String>::new());
    for seen in &sink.seen {
        for partition in 0..2 {
            let records: Vec<_> = seen.iter().filter(|it| it.0 == partition).collect();
            let first = if partition == 0 { 7 } else { 0 };
            assert_eq!(records.len(), 200);
            for (index, (_, offset, value)) in records.iter().enumerate() {
                assert_eq!(*offset, first + index as i64);
                assert_eq!(*value, format!("{}-{}", index / 10, index % 10));
            }
        }
    }
    assert_eq!((report.ready, report.connections), (50, 50));
    assert_eq!(report.records, 50 * 400);
    assert_eq!(report.bytes, sink.bytes as u64);
    assert_eq!((report.disconnects, report.errors), (0, 0));
}

#[test]
fn every_codec_is_decompressed() {
    let broker = broker();
    let topic = broker.topic("lean-codecs", 1);
    let codecs = [
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ];
    let librdkafka_codecs = ["gzip", "snappy", "lz4"];
    let mut expected = Vec::new();
    let mut batches = Vec::new();
    for codec in codecs {
        let values = numbered(&format!("{codec:?}"), 40);
        batches.push(wire::batch(&values, codec));
        expected.extend(values);
    }
    for codec in librdkafka_codecs {
        expected.extend(numbered(codec, 40));
    }
    let senders = librdkafka_codecs.map(|codec| (codec, broker.producer_with(codec, Acks::All)));
    let (bootstrap, name) = (broker.bootstrap.clone(), topic.clone());
    let (sink, _) = collect(config(&broker, &topic, 2), expected.len(), move || {
        for batch in batches {
            wire::store(&bootstrap, &name, batch);
        }
        for (codec, sender) in senders {
            sender.store(&name, 0, &numbered(codec, 40));
        }
    });
    for seen in &sink.seen {
        let values: Vec<_> = seen.iter().map(|it| it.2.clone()).collect();
        assert_eq!(values, expected);
    }
    assert_eq!(sink.headers, 2 * codecs.len() * 40);
}

#[test]
fn responses_over_buffer_and_fetch_limit_are_read() {
    let broker = broker();
    let topic = broker.topic("lean-large", 1);
    let sender = broker.producer();
    let values: Vec<_> = (0..12)
        .map(|index| format!("{index}").repeat(400_000))
        .collect();
    let (name, sent) = (topic.clone(), values.clone());
    let config = LeanConfig {
        fetch_max_bytes: 10_000,
        source_addresses: vec![IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2])],
        ..config(&broker, &topic, 3)
    };
    let (sink, _) = collect(config, 12, move || sender.store(&name, 0, &sent));
    for seen in &sink.seen {
        assert!(seen.iter().map(|it| &it.2).eq(values.iter()));
    }
}

#[test]
fn only_committed_records_are_delivered_if_requested() {
    let broker = broker();
    let topic = broker.topic("committed", 1);
    write_transactions(&broker.kafka(), &topic);
    let level = |level| LeanConfig {
        kafka: broker.kafka().with_property("isolation.level", level),
        from_oldest: true,
        ..config(&broker, &topic, 2)
    };
    for (level, values) in [
        (level("read_uncommitted"), vec!["aborted", "committed"]),
        (level("read_committed"), vec!["committed"]),
    ] {
        let (sink, _) = collect(level, values.len(), || ());
        for seen in &sink.seen {
            assert!(seen.iter().map(|it| &it.2).eq(values.iter()), "{seen:?}");
        }
    }
}

/// Collects until it is paused, and again after that.
struct PausingCollector {
    values: Vec<String>,
    commands: watch::Sender<LeanCommand>,
    ready: Option<tokio::sync::oneshot::Sender<()>>,
}

impl LeanSink for PausingCollector {
    fn on_ready(&mut self, _: usize) {
        let sender = self.ready.take().expect("only once");
        sender.send(()).expect("test waits");
    }

    fn on_record(&mut self, _: usize, record: &LeanRecord<'_>) {
        let value = String::from_utf8_lossy(record.value.expect("value"));
        match &*value {
            "before" => drop(self.commands.send_replace(LeanCommand::Pause)),
            "last" => drop(self.commands.send_replace(LeanCommand::Stop)),
            _ => assert_ne!(*self.commands.borrow(), LeanCommand::Pause, "{value}"),
        }
        self.values.push(value.into_owned());
    }

    fn on_error(&mut self, _: usize, error: &LeanError) {
        panic!("{error}");
    }

    fn on_bytes(&mut self, _: usize, _: usize) {}
}

#[test]
fn paused_consumer_reads_nothing_and_misses_nothing() {
    let broker = broker();
    let topic = broker.topic("paused", 1);
    let (commands, receiver) = watch::channel(LeanCommand::Read);
    let (ready, is_ready) = tokio::sync::oneshot::channel();
    let sink = Rc::new(RefCell::new(PausingCollector {
        values: Vec::new(),
        commands: commands.clone(),
        ready: Some(ready),
    }));
    let (sender, name, mut paused) = (broker.producer(), topic.clone(), commands.subscribe());
    let produce = std::thread::spawn(move || {
        is_ready.blocking_recv().expect("a consumer");
        sender.store(&name, 0, &["before".to_owned()]);
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().expect("runtime");
        let is_paused = paused.wait_for(|command| *command == LeanCommand::Pause);
        runtime.block_on(is_paused).expect("paused");
        sender.store(&name, 0, &numbered("backlog", 20));
        commands.send_replace(LeanCommand::Read);
        sender.store(&name, 0, &["last".to_owned()]);
    });
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().expect("runtime");
    let work = lean::run(config(&broker, &topic, 1), Rc::clone(&sink), receiver);
    let outcome = runtime.block_on(async { tokio::time::timeout(TEST_TIMEOUT, work).await });
    outcome.expect("in time").expect("ran");
    produce.join().expect("produced");
    let values = &sink.borrow().values;
    let backlog = numbered("backlog", 20);
    let expected = ["before"]
        .into_iter()
        .chain(backlog.iter().map(|it| &**it))
        .chain(["last"]);
    assert!(values.iter().map(|it| &**it).eq(expected), "{values:?}");
}

#[test]
fn missing_topic_error_names_topic() {
    let broker = broker();
    let (_stop, stopped) = watch::channel(LeanCommand::Read);
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().expect("runtime");
    let (stop, _) = watch::channel(LeanCommand::Read);
    let sink = RecordCollector {
        ready: vec![],
        seen: vec![],
        headers: 0,
        bytes: 0,
        errors: vec![],
        expected: 0,
        complete: 0,
        all_ready: None,
        stop,
    };
    let config = config(&broker, "no-such-topic", 1);
    let error = runtime.block_on(lean::run(config, sink, stopped));
    let text = error.expect_err("missing topic").to_string();
    assert!(
        text.contains("topic \"no-such-topic\" does not exist"),
        "{text}"
    );
}
