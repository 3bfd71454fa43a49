//! Loads of several topics, in transactions, without a rate, and with a backlog.

use std::time::Duration;

use weir_kafka::Admin;
use weir_load::clock::Clock;
use weir_load::consumer::{self, ConsumerOptions, LeanGroups};
use weir_load::delivery::DeliverySummary;
use weir_load::pacer::Rate;
use weir_load::producer::{self, ProducerOptions};
use weir_load::topic::{self, NewTopicArgs};
use weir_load::worker::protocol::{ProduceSummary, Schedule, WorkerCommand};

use crate::{MS, TEST_TIMEOUT, TestWorker, cluster, immediate_schedule, options, produce};

/// Runs consumers and producers with the same schedule, once both are ready. Returns both results.
fn run(
    consume: ConsumerOptions,
    produce_options: ProducerOptions,
) -> (DeliverySummary, ProduceSummary) {
    let clients = consume.clients as u64;
    let consumers = TestWorker::start(move |link| consumer::run(&consume, link));
    assert_eq!(consumers.ready().0, clients);
    let producers = TestWorker::start(move |link| producer::run(&produce_options, link));
    producers.ready();
    // Consumers handle commands every 20 ms, and records that arrive before do not count.
    let start_unix_ns = Clock::start().now_unix_ns() + 1_000 * MS;
    let schedule = Schedule {
        start_unix_ns,
        measure_from_unix_ns: start_unix_ns,
        ..immediate_schedule()
    };
    consumers.command(WorkerCommand::Start(schedule));
    producers.command(WorkerCommand::Start(schedule));
    let produced = producers.finish().1.expect("summary");
    consumers.command(WorkerCommand::Ledger {
        entries: produced.ledger.clone(),
    });
    let (_, summary) = consumers.finish();
    let summary = summary.expect("summary");
    let counts = summary.counts;
    assert_eq!(
        (counts.lost, counts.duplicated, counts.reordered),
        (0, 0, 0)
    );
    assert!(summary.errors.is_empty(), "{:?}", summary.errors);
    (summary, produced)
}

#[test]
fn groups_of_several_topics_receive_the_records_of_theirs() {
    let name = crate::topic(1);
    let worker = ProducerOptions {
        topics: 3,
        producers: 5,
        count: Some(0),
        new_topic: NewTopicArgs {
            create_topic: Some(4),
            replication_factor: Some(1),
            configs: vec!["retention.ms=12345678".parse().expect("an entry")],
        },
        ..options(&name, 1_000.0)
    };
    let (_, created) = produce(worker.clone(), immediate_schedule());
    assert_eq!(created.sent, 0);
    let admin = Admin::connect(&cluster(), TEST_TIMEOUT).expect("broker connection");
    for topic in topic::names(&name, 3) {
        assert!(admin.topic_exists(&topic).expect("metadata"), "{topic}");
    }
    let consume = ConsumerOptions {
        topics: 3,
        groups: Some(LeanGroups {
            members: 2,
            ..LeanGroups::new(&format!("{name}-group-"))
        }),
        ..ConsumerOptions::new(&cluster(), &name, 12)
    };
    let produce_options = ProducerOptions {
        count: Some(600),
        ..worker
    };
    let (summary, produced) = run(consume, produce_options);
    assert_eq!((summary.clients, produced.acked), (6, 600));
    // Two groups for each topic.
    assert_eq!(summary.counts.deliveries_in_window, 2 * 600);
    // Of five producers, two write to topics 0 and 1 each, and one to topic 2.
    let least = summary.client_deliveries.min().expect("deliveries");
    assert_eq!((least, summary.client_deliveries.max()), (120, Some(240)));
}

#[test]
fn fewer_consumers_than_topics_are_rejected() {
    let name = crate::topic(1);
    let admin = Admin::connect(&cluster(), TEST_TIMEOUT).expect("broker connection");
    for topic in topic::names(&name, 3) {
        admin
            .create_topic(&topic, 1, 1, &[])
            .expect("created topic");
    }
    let consume = ConsumerOptions {
        topics: 3,
        ..ConsumerOptions::new(&cluster(), &name, 2)
    };
    let (_, result) = TestWorker::start(move |link| consumer::run(&consume, link)).finish();
    let error = result.expect_err("two consumers").to_string();
    assert!(error.starts_with("--topics 3: "), "{error}");
}

#[test]
fn consumers_of_committed_records_receive_all_transactions() {
    let name = crate::topic(4);
    let kafka = cluster().with_property("isolation.level", "read_committed");
    let produce_options = ProducerOptions {
        transaction_duration: Some(Duration::from_millis(100)),
        count: Some(500),
        ..options(&name, 1_000.0)
    };
    let consume = ConsumerOptions::new(&kafka, &name, 3);
    let (summary, produced) = run(consume, produce_options);
    assert_eq!(summary.counts.deliveries_in_window, 3 * 500);
    let transactions = produced.transactions.expect("transactions");
    assert_eq!(transactions.failed, 0);
    assert!(
        (2..=6).contains(&transactions.committed),
        "{transactions:?}"
    );
    assert_eq!(transactions.commit.count, transactions.committed);
    assert!(transactions.commit.p50_ns > 0);
}

#[test]
fn paused_consumers_drain_their_backlog() {
    let name = crate::topic(3);
    let groups = Some(LeanGroups::new(&format!("{name}-group-")));
    for groups in [None, groups] {
        let consume = ConsumerOptions {
            groups,
            backlog: Some(Duration::from_secs(1)),
            ..ConsumerOptions::new(&cluster(), &name, 2)
        };
        let produce_options = ProducerOptions {
            count: Some(1_400),
            ..options(&name, 1_000.0)
        };
        let (summary, _) = run(consume, produce_options);
        assert_eq!(summary.counts.deliveries_in_window, 2 * 1_400);
        let backlog = summary.backlog.expect("a backlog");
        assert_eq!(backlog.records, 2 * 1_000);
        assert!(backlog.drain_ns > 0, "{backlog:?}");
        let p99_us = summary.client_p99_us.max().expect("latencies");
        assert!(
            p99_us > 800_000,
            "the pause is part of the response time: {p99_us} us"
        );
    }
}

#[test]
fn records_without_a_rate_are_due_when_they_are_sent() {
    let name = crate::topic(1);
    let produce_options = ProducerOptions {
        rate: Some(Rate::UNLIMITED),
        count: Some(150_000),
        no_idempotence: true,
        ..options(&name, 1.0)
    };
    let (_, produced) = produce(produce_options, immediate_schedule());
    assert_eq!((produced.due, produced.acked), (150_000, 150_000));
    assert_eq!(
        (produced.due_in_window, produced.target_rate_millis),
        (150_000, 0)
    );
    assert!(
        produced.schedule_lag.p99_ns < 10_000_000,
        "{:?}",
        produced.schedule_lag
    );
}

#[test]
fn producer_ends_when_another_takes_its_transactional_id() {
    let name = crate::topic(1);
    let first = ProducerOptions {
        transaction_duration: Some(Duration::from_millis(50)),
        transactional_id: Some(format!("{name}-id")),
        ..options(&name, 200.0)
    };
    let second = ProducerOptions {
        count: Some(1),
        ..first.clone()
    };
    let worker = TestWorker::start(move |link| producer::run(&first, link));
    worker.ready();
    worker.command(WorkerCommand::Start(immediate_schedule()));
    let (_, produced) = produce(second, immediate_schedule());
    assert_eq!(produced.transactions.expect("transactions").committed, 1);
    let (_, fenced) = worker.finish();
    let fenced = fenced.expect("summary");
    let errors: Vec<&String> = fenced.errors.keys().collect();
    assert!(
        errors.iter().any(|it| it.contains("transaction")),
        "{errors:?}"
    );
}
