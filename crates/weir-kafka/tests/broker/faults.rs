//! Stopped and restarted brokers, moved leaders.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;

use tokio::sync::watch;
use weir_kafka::lean::{self, LeanCommand, LeanConfig, LeanError, LeanRecord, LeanSink};
use weir_kafka::{Admin, KafkaSettings, ReaderKind, StartFrom};

use crate::cluster::cluster;
use crate::support::{
    TEST_TIMEOUT, TestBroker, lab, numbered, per_reader, poll_until, read, until_ready, values,
};

per_reader! {
    broker_restart_loses_no_records
    consumers_follow_moved_leaders
}

/// Reports ready consumers to the test thread and records positions.
struct EventLog {
    missing: usize,
    ready: mpsc::Sender<()>,
    seen: Vec<Vec<(i32, i64)>>,
    expected: usize,
    stop: watch::Sender<LeanCommand>,
}

impl LeanSink for EventLog {
    fn on_ready(&mut self, _: usize) {
        self.missing -= 1;
        if self.missing == 0 {
            self.ready.send(()).expect("test waits");
        }
    }

    fn on_record(&mut self, consumer: usize, record: &LeanRecord<'_>) {
        self.seen[consumer].push((record.partition, record.offset));
        if self.seen.iter().all(|seen| seen.len() == self.expected) {
            self.stop.send_replace(LeanCommand::Stop);
        }
    }

    fn on_error(&mut self, _: usize, _: &LeanError) {}

    fn on_bytes(&mut self, _: usize, _: usize) {}
}

/// Runs lean consumers of three partitions while `disturb` stores `per_partition` records in each.
/// The result of `disturb` is dropped after all records were read.
fn consume_during<T: Send + 'static>(
    bootstrap: &str,
    topic: &str,
    per_partition: usize,
    disturb: impl FnOnce() -> T + Send + 'static,
) -> (lean::LeanReport, T) {
    const CONSUMERS: usize = 10;
    let (stop, stopped) = watch::channel(LeanCommand::Read);
    let (ready, is_ready) = mpsc::channel();
    let sink = Rc::new(RefCell::new(EventLog {
        missing: CONSUMERS,
        ready,
        seen: vec![Vec::new(); CONSUMERS],
        expected: 3 * per_partition,
        stop,
    }));
    let disturb = std::thread::spawn(move || {
        is_ready.recv_timeout(TEST_TIMEOUT).expect("all ready");
        disturb()
    });
    let config = LeanConfig {
        kafka: KafkaSettings::plaintext(bootstrap),
        topic: topic.to_owned(),
        consumers: CONSUMERS,
        ..LeanConfig::default()
    };
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().expect("runtime");
    let work = lean::run(config, Rc::clone(&sink), stopped);
    let outcome = runtime.block_on(async { tokio::time::timeout(2 * TEST_TIMEOUT, work).await });
    let disturbed = disturb.join().expect("produced");
    let report = outcome.expect("complete before the timeout").expect("ran");
    for seen in &sink.borrow().seen {
        for partition in 0..3 {
            let offsets = seen.iter().filter(|it| it.0 == partition).map(|it| it.1);
            assert!(offsets.eq(0..per_partition as i64), "{seen:?}");
        }
    }
    (report, disturbed)
}

fn broker_restart_loses_no_records(reader: ReaderKind) {
    let mut lab = lab(1);
    let bootstrap = lab.bootstrap();
    let broker = TestBroker {
        bootstrap: bootstrap.clone(),
        reader,
    };
    let topic = broker.topic("restart", 3);
    let mut source = broker.ingest(&[&topic], StartFrom::Latest);
    until_ready(&mut source);
    let name = topic.clone();
    let (report, (lab, mut seen)) = consume_during(&bootstrap, &topic, 10, move || {
        let store = |prefix: &str| {
            let sender = broker.producer();
            (0..3).for_each(|partition| sender.store(&name, partition, &numbered(prefix, 5)));
        };
        store("before");
        let mut seen = read(&mut source, 15);
        lab.stop_broker(1).expect("stops");
        poll_until(&mut source, &mut seen, "loss noticed", |source, _| {
            !source.status().ready
        });
        assert!(source.status().last_error.is_some());

        let started = lab.start_broker(1, &AtomicBool::new(false));
        started.expect("starts");
        store("after");
        poll_until(&mut source, &mut seen, "recovery", |source, seen| {
            source.status().ready && seen.len() >= 30
        });
        (lab, seen)
    });
    drop(lab);
    seen.sort_by_key(|record| (record.partition, record.offset));
    assert_eq!(values(&seen), before_and_after());
    assert!(report.disconnects >= 10, "{report:?}");
    assert!(report.connections >= 20, "{report:?}");
}

/// Values in three partitions at the end.
fn before_and_after() -> Vec<String> {
    let one = [numbered("before", 5), numbered("after", 5)].concat();
    [one.as_slice(); 3].concat()
}

fn consumers_follow_moved_leaders(reader: ReaderKind) {
    let mut lab = cluster();
    let broker = TestBroker {
        bootstrap: lab.bootstrap(),
        reader,
    };
    let admin = Admin::connect(&broker.kafka(), TEST_TIMEOUT).expect("broker responds");
    let topic = crate::support::unique("moved");
    let config = [("min.insync.replicas", "1")];
    admin.create_topic(&topic, 3, 3, &config).expect("created");
    assert_eq!(admin.broker_ids().map(|ids| ids.len()), Ok(3));
    let mut source = broker.ingest(&[&topic], StartFrom::Latest);
    until_ready(&mut source);

    let (bootstrap, name) = (broker.bootstrap.clone(), topic.clone());
    consume_during(&bootstrap, &topic, 10, move || {
        let sender = broker.producer();
        let store = |prefix: &str| {
            (0..3).for_each(|partition| sender.store(&name, partition, &numbered(prefix, 5)));
        };
        store("before");
        // The partitions that broker 1 leads move to the others.
        lab.stop(1);
        store("after");
        lab
    });
    let mut seen = read(&mut source, 30);
    seen.sort_by_key(|record| (record.partition, record.offset));
    assert_eq!(values(&seen), before_and_after());
}
