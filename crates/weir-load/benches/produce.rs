//! Benchmarks creating and sending records: `cargo bench -p weir-load`.
//!
//! The first part prints nanoseconds per created record for each kind: best of several repetitions,
//! one thread. If `WEIR_E2E_BOOTSTRAP` names a broker, the second part compares the whole producer
//! at full speed with librdkafka alone, which sends the same bytes repeatedly, with and without
//! idempotence. It prints records per second, CPU time of the process per record, and the share of
//! the sending thread. The rest is librdkafka's, mostly its waiting: an idempotent producer polls
//! continuously for the response to a partition's batch, so its cost depends on the time.

// A benchmark prints its results.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use weir_kafka::{Admin, KafkaSettings, Producer, ProducerConfig, SendError};
use weir_load::clock::Clock;
use weir_load::kafka::KafkaArgs;
use weir_load::local_time::LocalTime;
use weir_load::pacer::Rate;
use weir_load::payload::{MembersSpec, PayloadGenerator, PayloadKind, PayloadSpec};
use weir_load::producer::{self, ProducerOptions};
use weir_load::stamp::Stamp;
use weir_load::worker::protocol::{Schedule, WorkerCommand};
use weir_load::worker::{CoordinatorChannel, EventSender};

const REPETITIONS: usize = 7;
const RECORDS_PER_REPETITION: u64 = 100_000;
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

fn main() {
    println!(
        "{:<16}{:>10}{:>12}{:>14}",
        "kind", "key bytes", "value bytes", "ns per record"
    );
    for &kind in PayloadKind::ALL {
        bench_creation(kind);
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
        (PayloadKind::Json, 300_000),
        (PayloadKind::Avro, 300_000),
        (PayloadKind::Protobuf, 300_000),
        (PayloadKind::JsonExtended, 200_000),
        (PayloadKind::Complex, 200_000),
        (PayloadKind::JsonKeyX, 30_000),
    ] {
        for idempotent in [true, false] {
            bench_sending(&bootstrap, kind, records, idempotent);
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
        record: None,
        extended: false,
        seed: 1,
        marked: false,
    };
    PayloadGenerator::new(&spec, LocalTime::system()).expect("payloads")
}

fn stamp(due_unix_ns: u64) -> Stamp {
    Stamp {
        due_unix_ns,
        producer: 0,
        seq: due_unix_ns % 1_000_000,
        sent_unix_ns: Some(due_unix_ns),
    }
}

fn bench_creation(kind: PayloadKind) {
    let mut payloads = payloads(kind);
    let names = payloads.names().len() as u64;
    let due = Clock::start().now_unix_ns();
    let mut best = f64::INFINITY;
    for _ in 0..REPETITIONS {
        let start = Instant::now();
        for record in 0..RECORDS_PER_REPETITION {
            let name = (record % names) as usize;
            payloads.make(name, &stamp(due + record * 10_000));
            black_box((payloads.key(name), payloads.value()));
        }
        let ns = start.elapsed().as_nanos() as f64 / RECORDS_PER_REPETITION as f64;
        best = best.min(ns);
    }
    payloads.make(0, &stamp(due));
    let key = payloads.key(0).map_or(0, <[u8]>::len);
    println!(
        "{:<16}{key:>10}{:>12}{best:>14.0}",
        kind.name(),
        payloads.value().len()
    );
}

fn bench_sending(bootstrap: &str, kind: PayloadKind, records: u64, idempotent: bool) {
    let admin = Admin::connect(&KafkaSettings::plaintext(bootstrap), TEST_TIMEOUT)
        .expect("broker connection");
    let topic = format!("bench-{kind}-{idempotent}-{}", std::process::id());
    admin
        .create_topic(&topic, 4, 1, &[])
        .expect("created topic");
    let (mut alone, mut ours) = (Vec::new(), Vec::new());
    // Alternating, so that both run under the same conditions.
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
    admin.delete_topic(&topic).expect("deleted topic");
}

/// Result of one run.
struct Sent {
    per_s: f64,
    /// CPU time of the process per record, in microseconds.
    cpu_us: f64,
    /// Part of it in this thread.
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

/// Sends the same record repeatedly, as fast as the library accepts it.
fn send_alone(bootstrap: &str, topic: &str, kind: PayloadKind, records: u64, idempotent: bool) {
    let config = ProducerConfig {
        kafka: KafkaSettings::plaintext(bootstrap).with_property("partitioner", "murmur2_random"),
        idempotent,
        linger_ms: 1.0,
        ..ProducerConfig::default()
    };
    let producer = Producer::start(&config, Box::new(|_| ())).expect("started producer");
    let mut payloads = payloads(kind);
    payloads.make(0, &stamp(Clock::start().now_unix_ns()));
    for record in 0..records {
        let (key, value) = (payloads.key(0), payloads.value());
        loop {
            match producer.send(topic, None, key, Some(value), &[], None, record) {
                Ok(()) => break,
                Err(SendError::QueueFull) => std::thread::sleep(Duration::from_micros(500)),
                Err(SendError::Fatal(reason)) => panic!("send failed: {reason}"),
            }
        }
    }
    assert_eq!(producer.flush(TEST_TIMEOUT), 0, "all acknowledged");
}

/// Sends records that are all due at once.
fn send_with_producer(
    bootstrap: &str,
    topic: &str,
    kind: PayloadKind,
    records: u64,
    idempotent: bool,
) {
    let options = ProducerOptions {
        kafka: KafkaArgs::of_servers(bootstrap),
        topic: topic.to_owned(),
        rate: Some(Rate::per_second(100_000_000.0).expect("the highest rate")),
        kind,
        count: Some(records),
        no_idempotence: !idempotent,
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
    commands.send(start).expect("queued command");
    let summary = producer::run(&options, &link).expect("summary");
    assert_eq!(summary.acked, records, "all acknowledged");
}
