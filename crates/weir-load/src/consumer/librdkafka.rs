//! Consumers that use librdkafka, with one client and one thread each. They need more resources
//! than the lean consumers, but their code is independent and validates the results of those.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use weir_kafka::lean::{LeanCommand, LeanReport};
use weir_kafka::{BorrowedRecord, IngestConfig, KafkaIngest};

use super::lean_consumers::{LeanConsumers, POLL_INTERVAL};
use super::options::ConsumerOptions;
use crate::clock::Clock;
use crate::delivery::{DeliverySummary, count_error};
use crate::error::{LoadError, Result};
use crate::worker::CoordinatorChannel;

/// Each client has about six threads and its own buffers.
const CLIENTS_MAX: usize = 200;
const POLL: Duration = Duration::from_millis(20);
/// Maximum number of records with the same arrival time.
const RECORDS_PER_POLL: usize = 16;

/// Checks that librdkafka consumers support the options.
pub(super) fn check(options: &ConsumerOptions) -> Result<()> {
    let reason = match options.groups {
        _ if options.clients > CLIENTS_MAX => {
            format!("at most {CLIENTS_MAX} --consumers: each has its own threads")
        }
        _ if options.topics > 1 || options.backlog.is_some() => {
            "--topics and --backlog are not supported: use --client-library lean".to_owned()
        }
        Some(_) => "consumer groups are not supported: use --architecture standalone".to_owned(),
        None => return Ok(()),
    };
    Err(LoadError::option("--client-library", &"librdkafka", reason))
}

pub(super) fn consume(
    options: &ConsumerOptions,
    consumers: LeanConsumers,
    link: &CoordinatorChannel,
) -> Result<DeliverySummary> {
    let (consumers, stop) = (Mutex::new(consumers), AtomicBool::new(false));
    thread::scope(|scope| {
        let mut readers = Vec::with_capacity(options.clients);
        let mut started = Ok(());
        for consumer in 0..options.clients {
            let (consumers, stop) = (&consumers, &stop);
            let reader = move || read(options, consumer, consumers, stop);
            let named = thread::Builder::new().name(format!("consume-{consumer}"));
            match named.spawn_scoped(scope, reader) {
                Ok(reader) => readers.push(reader),
                Err(reason) => {
                    started = Err(no_thread(reason));
                    break;
                }
            }
        }
        // A reader ends on its own only with an error.
        while started.is_ok() && !readers.iter().any(thread::ScopedJoinHandle::is_finished) {
            if lock(&consumers).poll(link) == LeanCommand::Stop {
                break;
            }
            thread::sleep(POLL_INTERVAL);
        }
        stop.store(true, Ordering::Relaxed);
        let ended = readers.into_iter().map(|reader| {
            let panicked = || no_thread(io::Error::other("a consumer panicked"));
            reader.join().unwrap_or_else(|_| Err(panicked()))
        });
        // Waits for all readers; the first error counts.
        ended.fold(started, Result::and)
    })?;
    let summary = lock(&consumers).summary(&LeanReport::default());
    Ok(summary)
}

/// Runs one consumer, which reads all partitions from their end.
fn read(
    options: &ConsumerOptions,
    consumer: usize,
    consumers: &Mutex<LeanConsumers>,
    stop: &AtomicBool,
) -> Result<()> {
    let clock = Clock::start();
    let max_wait_ms = options.max_wait.as_millis();
    let mut source = KafkaIngest::start(&IngestConfig {
        kafka: options
            .kafka
            .clone()
            .with_default_property("fetch.wait.max.ms", max_wait_ms),
        client_id: "weir-load-consume".to_owned(),
        topics: vec![options.topic.clone()],
        ..IngestConfig::default()
    })?;
    let mut reader = source.reader();
    let mut batch: Vec<BorrowedRecord<'_>> = Vec::with_capacity(RECORDS_PER_POLL);
    let (mut ready, mut errors) = (false, 0);
    while !stop.load(Ordering::Relaxed) {
        batch.clear();
        reader.poll(POLL, RECORDS_PER_POLL, &mut batch)?;
        let at_unix_ns = clock.now_unix_ns();
        if batch.is_empty() || !ready {
            let status = reader.status();
            let mut consumers = lock(consumers);
            if status.ready && !ready {
                ready = true;
                consumers.ready += 1;
            }
            for text in status.last_error.iter().filter(|_| status.errors > errors) {
                count_error(&mut consumers.errors, text);
            }
            errors = status.errors;
        }
        if batch.is_empty() {
            continue;
        }
        let mut consumers = lock(consumers);
        for lent in &batch {
            // Headers whose name is not UTF-8 are skipped.
            let record = lent.record(&mut 0);
            let headers = record.headers.iter().copied();
            let bytes = [record.key, record.value].into_iter().flatten();
            consumers.bytes_received += bytes.map(<[u8]>::len).sum::<usize>() as u64;
            let times = (record.timestamp_ms, at_unix_ns);
            consumers.record(consumer, (record.key, record.value), headers, times);
        }
    }
    Ok(())
}

fn no_thread(reason: io::Error) -> LoadError {
    LoadError::System("running a consumer's thread", reason)
}

fn lock(consumers: &Mutex<LeanConsumers>) -> MutexGuard<'_, LeanConsumers> {
    // After a panic the run ends with an error, so inconsistent counters are not reported.
    consumers.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_options_are_rejected() {
        let kafka = weir_kafka::KafkaSettings::plaintext("127.0.0.1:9092");
        let mut options = ConsumerOptions::new(&kafka, "t", CLIENTS_MAX + 1);
        let error = check(&options).expect_err("too many").to_string();
        assert_eq!(
            error,
            "--client-library librdkafka: at most 200 --consumers: each has its own threads"
        );
        options.clients = CLIENTS_MAX;
        assert!(check(&options).is_ok());
        options.groups = Some(super::super::LeanGroups::new("g"));
        assert!(check(&options).is_err());
    }
}
