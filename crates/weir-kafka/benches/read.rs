//! CPU cost of reading a topic with each client of ingest, which only counts. The clients
//! alternate in one run. `WEIR_E2E_BOOTSTRAP` names a broker; its topic `NAME` has at least
//! `RECORDS` records.
//!
//! `cargo bench -p weir-kafka --bench read -- NAME [RECORDS] [REPETITIONS]`

#![allow(clippy::print_stdout, reason = "a benchmark program prints its result")]

use std::time::{Duration, Instant};

use weir_kafka::{BorrowedRecord, IngestConfig, KafkaIngest, KafkaSettings, ReaderKind, StartFrom};

const POLL: Duration = Duration::from_millis(50);
const RECORDS_PER_POLL: usize = 500;
const TIMEOUT: Duration = Duration::from_secs(300);
/// Ticks of `/proc/self/stat` per second, on all architectures that Weir runs on.
const TICKS_PER_S: f64 = 100.0;

fn main() {
    let bootstrap = std::env::var("WEIR_E2E_BOOTSTRAP").expect("WEIR_E2E_BOOTSTRAP names a broker");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let topic = arguments.iter().find(|it| !it.starts_with("--"));
    let topic = topic.expect("the name of a topic");
    let mut numbers = arguments.iter().filter_map(|it| it.parse::<usize>().ok());
    let records = numbers.next().unwrap_or(200_000);
    for _ in 0..numbers.next().unwrap_or(3) {
        for reader in [ReaderKind::Librdkafka, ReaderKind::Lean] {
            let (cpu, wall) = (cpu_s(), Instant::now());
            let bytes = drain(&bootstrap, topic, records, reader);
            let cpu_us = (cpu_s() - cpu) * 1e6 / records as f64;
            let wall_s = wall.elapsed().as_secs_f64();
            println!("{reader:?}: {cpu_us:.3} us CPU per record, {wall_s:.1} s, {bytes} bytes");
        }
    }
}

fn drain(bootstrap: &str, topic: &str, records: usize, reader: ReaderKind) -> usize {
    let mut source = KafkaIngest::start(&IngestConfig {
        kafka: KafkaSettings::plaintext(bootstrap),
        client_id: "read".to_owned(),
        topics: vec![topic.to_owned()],
        from: StartFrom::Earliest,
        reader,
        ..IngestConfig::default()
    })
    .expect("a valid configuration");
    let deadline = Instant::now() + TIMEOUT;
    let mut polled = source.reader();
    let mut batch: Vec<BorrowedRecord<'_>> = Vec::with_capacity(RECORDS_PER_POLL);
    let (mut count, mut bytes) = (0, 0);
    while count < records {
        assert!(
            Instant::now() < deadline,
            "{count} records, {:?}",
            polled.status()
        );
        batch.clear();
        let taken = polled.poll(POLL, RECORDS_PER_POLL, &mut batch);
        count += taken.expect("poll succeeds");
        let values = batch.iter().map(BorrowedRecord::without_headers);
        bytes += values
            .map(|it| it.value.map_or(0, <[u8]>::len))
            .sum::<usize>();
    }
    bytes
}

/// Returns the CPU time of this process in seconds.
fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields = stat.rsplit(')').next().expect("a name in parentheses");
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks = ticks.filter_map(|it| it.parse::<f64>().ok());
    ticks.sum::<f64>() / TICKS_PER_S
}
