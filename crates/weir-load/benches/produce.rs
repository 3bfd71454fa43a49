//! What making and sending records costs: `cargo bench -p weir-load`.
//!
//! First nanoseconds per record made, by kind, best of several rounds, one thread. Then, if
//! `WEIR_E2E_BOOTSTRAP` names a broker, the whole producer at full speed beside librdkafka alone, which sends
//! the same bytes again and again, both idempotent and not: records per second, CPU of the process per record,
//! and how much of it is of the thread that sends. The rest is librdkafka's, most of all its waiting: an
//! idempotent one polls without pause for the answer to a partition's batch, so that it costs by time.

// What measures needs a clock and a place to print.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use weir_kafka::{Admin, Producer, ProducerConfig, SendError};
use weir_load::clock::Clock;
use weir_load::local_time::LocalTime;
use weir_load::pacer::Rate;
use weir_load::payload::{MembersSpec, PayloadGenerator, PayloadKind, PayloadSpec};
use weir_load::producer::{self, ProducerOptions};
use weir_load::worker::protocol::{Schedule, WorkerCommand};
use weir_load::worker::{CoordinatorChannel, EventSender};

const ROUNDS: usize = 7;
const RECORDS_PER_ROUND: u64 = 100_000;
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

fn main() {
    println!(
        "{:<16}{:>10}{:>12}{:>14}",
        "kind", "key bytes", "value bytes", "ns per record"
    );
    for kind in PayloadKind::ALL {
        making(kind);
    }
    let Ok(bootstrap) = std::env::var("WEIR_E2E_BOOTSTRAP") else {
        println!("\nsending: set WEIR_E2E_BOOTSTRAP to a broker");
        return;
    };
    println!(
        "\n{:<16}{:<16}{:>34}{:>34}",
        "kind", "", "librdkafka alone", "producer"
    );
    for (kind, records) in [
        (PayloadKind::Base, 300_000),
        (PayloadKind::JsonExtended, 200_000),
        (PayloadKind::Complex, 200_000),
        (PayloadKind::JsonKeyX, 30_000),
    ] {
        for idempotent in [true, false] {
            sending(&bootstrap, kind, records, idempotent);
        }
    }
}

fn payloads(kind: PayloadKind) -> PayloadGenerator {
    let spec = PayloadSpec {
        kind,
        size: 1024,
        keys: 40,
        key: None,
        entropy: 1.0,
        members: MembersSpec {
            members: 20,
            characters: 24,
            change_ratio: 0.1,
        },
        replay: Default::default(),
        seed: 1,
        marked: false,
    };
    PayloadGenerator::new(&spec, LocalTime::system())
}

fn making(kind: PayloadKind) {
    let mut payloads = payloads(kind);
    let names = payloads.names().len() as u64;
    let due = Clock::start().now_unix_ns();
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for record in 0..RECORDS_PER_ROUND {
            let name = (record % names) as usize;
            payloads.make(name, due + record * 10_000, 0);
            black_box((payloads.key(name), payloads.value()));
        }
        let ns = start.elapsed().as_nanos() as f64 / RECORDS_PER_ROUND as f64;
        best = best.min(ns);
    }
    payloads.make(0, due, 0);
    let key = payloads.key(0).map_or(0, <[u8]>::len);
    println!(
        "{:<16}{key:>10}{:>12}{best:>14.0}",
        kind.name(),
        payloads.value().len()
    );
}

fn sending(bootstrap: &str, kind: PayloadKind, records: u64, idempotent: bool) {
    let admin = Admin::connect(bootstrap, TEST_TIMEOUT).expect("a broker that answers");
    let topic = format!("bench-{kind}-{idempotent}-{}", std::process::id());
    admin.create_topic(&topic, 4, 1, &[]).expect("a new topic");
    let (mut alone, mut ours) = (Vec::new(), Vec::new());
    // In turn, so that both see the same machine.
    for _ in 0..3 {
        alone.push(measured(records, || {
            send_alone(bootstrap, &topic, kind, records, idempotent)
        }));
        ours.push(measured(records, || {
            send_with_producer(bootstrap, &topic, kind, records, idempotent)
        }));
    }
    println!(
        "{:<16}{:<16}{:>34}{:>34}",
        kind.name(),
        if idempotent { "idempotent" } else { "not" },
        median(alone),
        median(ours)
    );
    admin.delete_topic(&topic).expect("a topic to delete");
}

/// One run.
struct Sent {
    per_s: f64,
    /// CPU microseconds of the process per record.
    cpu_us: f64,
    /// Of them those of this thread.
    own_us: f64,
}

fn measured(records: u64, work: impl FnOnce()) -> Sent {
    let clocks = [ClockId::ProcessCPUTime, ClockId::ThreadCPUTime];
    let (start, before) = (Instant::now(), clocks.map(cpu));
    work();
    let (elapsed, after) = (start.elapsed(), clocks.map(cpu));
    let records = records as f64;
    let us = |clock: usize| (after[clock] - before[clock]).as_secs_f64() * 1e6 / records;
    Sent {
        per_s: records / elapsed.as_secs_f64(),
        cpu_us: us(0),
        own_us: us(1),
    }
}

fn median(mut runs: Vec<Sent>) -> String {
    runs.sort_by(|a, b| a.per_s.total_cmp(&b.per_s));
    let Sent {
        per_s,
        cpu_us,
        own_us,
    } = runs[runs.len() / 2];
    format!("{per_s:.0}/s {cpu_us:.2} us CPU, own {own_us:.2}")
}

fn cpu(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let nanos = u32::try_from(time.tv_nsec).expect("below a second");
    Duration::new(u64::try_from(time.tv_sec).expect("a positive time"), nanos)
}

/// The same record again and again, as fast as the library takes it.
fn send_alone(bootstrap: &str, topic: &str, kind: PayloadKind, records: u64, idempotent: bool) {
    let config = ProducerConfig {
        bootstrap_servers: bootstrap.to_owned(),
        idempotent,
        linger_ms: 1.0,
        properties: vec![("partitioner".to_owned(), "murmur2_random".to_owned())],
        ..ProducerConfig::default()
    };
    let producer = Producer::start(&config, Box::new(|_| ())).expect("settings that work");
    let mut payloads = payloads(kind);
    payloads.make(0, Clock::start().now_unix_ns(), 0);
    for record in 0..records {
        let (key, value) = (payloads.key(0), payloads.value());
        loop {
            match producer.send(topic, None, key, value, &[], None, record) {
                Ok(()) => break,
                Err(SendError::QueueFull) => std::thread::sleep(Duration::from_micros(500)),
                Err(SendError::Fatal(reason)) => panic!("not sent: {reason}"),
            }
        }
    }
    assert_eq!(producer.flush(TEST_TIMEOUT), 0, "all acknowledged");
}

/// All of them due at once.
fn send_with_producer(
    bootstrap: &str,
    topic: &str,
    kind: PayloadKind,
    records: u64,
    idempotent: bool,
) {
    let options = ProducerOptions {
        bootstrap_servers: bootstrap.to_owned(),
        topic: topic.to_owned(),
        rate: Rate::per_second(100_000_000.0).expect("the highest rate"),
        kind,
        count: Some(records),
        idempotent,
        drain: TEST_TIMEOUT,
        ..ProducerOptions::default()
    };
    let (commands, receiver) = mpsc::sync_channel(1);
    let link = CoordinatorChannel {
        commands: receiver,
        events: EventSender::new(std::io::sink()),
    };
    let now = Clock::start().now_unix_ns();
    let start = WorkerCommand::Start(Schedule {
        start_unix_ns: now,
        measure_from_unix_ns: now,
        measure_until_unix_ns: u64::MAX,
        stop_unix_ns: u64::MAX,
    });
    commands.send(start).expect("room for one");
    let summary = producer::run(&options, &link).expect("a producer that works");
    assert_eq!(summary.acked, records, "all acknowledged");
}
