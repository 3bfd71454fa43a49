//! The same consumers over librdkafka, a client and a thread each: costly to multiply, but code of
//! others, so that what the lean ones say can be checked against it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use weir_kafka::lean::LeanReport;
use weir_kafka::{IngestConfig, KafkaIngest, LentRecord};

use super::lean_consumers::{LeanConsumers, LoopControl};
use super::{ConsumerOptions, TURN};
use crate::clock::Clock;
use crate::delivery::DeliverySummary;
use crate::error::LoadError;
use crate::worker::CoordinatorChannel;

/// Each has some six threads and its own buffers.
const CLIENTS_MAX: usize = 200;
const POLL: Duration = Duration::from_millis(20);
/// Records that share one look at the clock.
const RECORDS_PER_POLL: usize = 16;

/// What cannot be had of these consumers.
pub(super) fn check(options: &ConsumerOptions) -> Result<(), LoadError> {
    let refused = |reason: String| {
        Err(LoadError::Option {
            option: "--client",
            value: "librdkafka".to_owned(),
            reason,
        })
    };
    if options.clients > CLIENTS_MAX {
        return refused(format!(
            "at most {CLIENTS_MAX} --clients: each has threads of its own"
        ));
    }
    if options.groups.is_some() {
        return refused("joins no groups here: use --architecture standalone".to_owned());
    }
    Ok(())
}

/// Consumes as [`super::run`] does.
pub(super) fn consume(
    options: &ConsumerOptions,
    crowd: LeanConsumers,
    link: &CoordinatorChannel,
) -> Result<DeliverySummary, LoadError> {
    let (crowd, stop) = (Mutex::new(crowd), AtomicBool::new(false));
    thread::scope(|scope| {
        let mut readers = Vec::with_capacity(options.clients);
        let mut begun = Ok(());
        for consumer in 0..options.clients {
            let (crowd, stop) = (&crowd, &stop);
            let reader = move || read(options, consumer, crowd, stop);
            let named = thread::Builder::new().name(format!("consume-{consumer}"));
            match named.spawn_scoped(scope, reader) {
                Ok(reader) => readers.push(reader),
                Err(reason) => {
                    begun = Err(no_thread(reason));
                    break;
                }
            }
        }
        // A reader ends by itself only with an error.
        while begun.is_ok() && !readers.iter().any(thread::ScopedJoinHandle::is_finished) {
            if lock(&crowd).turn(link) == LoopControl::Stop {
                break;
            }
            thread::sleep(TURN);
        }
        stop.store(true, Ordering::Relaxed);
        let ended = readers.into_iter().map(|reader| {
            let panicked = || no_thread(io::Error::other("a consumer panicked"));
            reader.join().unwrap_or_else(|_| Err(panicked()))
        });
        // All are waited for, the first error counts.
        ended.fold(begun, Result::and)
    })?;
    let summary = lock(&crowd).summary(&LeanReport::default());
    Ok(summary)
}

/// One consumer: all partitions from their end on.
fn read(
    options: &ConsumerOptions,
    consumer: usize,
    crowd: &Mutex<LeanConsumers>,
    stop: &AtomicBool,
) -> Result<(), LoadError> {
    let clock = Clock::start();
    let mut source = KafkaIngest::start(&IngestConfig {
        bootstrap_servers: options.bootstrap_servers.clone(),
        client_id: "weir-load-consume".to_owned(),
        topics: vec![options.topic.clone()],
        properties: vec![(
            "fetch.wait.max.ms".to_owned(),
            options.max_wait.as_millis().to_string(),
        )],
        ..IngestConfig::default()
    })?;
    let mut reader = source.reader();
    let mut batch: Vec<LentRecord<'_>> = Vec::with_capacity(RECORDS_PER_POLL);
    let (mut ready, mut errors) = (false, 0);
    while !stop.load(Ordering::Relaxed) {
        batch.clear();
        reader.poll(POLL, RECORDS_PER_POLL, &mut batch)?;
        let at_unix_ns = clock.now_unix_ns();
        if batch.is_empty() || !ready {
            let status = reader.status();
            let mut crowd = lock(crowd);
            if status.ready && !ready {
                ready = true;
                crowd.on_ready();
            }
            for text in status.last_error.iter().filter(|_| status.errors > errors) {
                crowd.on_error(text.clone());
            }
            errors = status.errors;
        }
        if batch.is_empty() {
            continue;
        }
        let mut crowd = lock(crowd);
        for lent in &batch {
            // A header whose name is no text is none of ours.
            let record = lent.record(&mut 0);
            let headers = record.headers.iter().copied();
            let bytes = [record.key, record.value].into_iter().flatten();
            crowd.on_bytes(bytes.map(<[u8]>::len).sum());
            let times = (record.timestamp_ms, at_unix_ns);
            crowd.record(consumer, (record.key, record.value), headers, times);
        }
    }
    Ok(())
}

fn no_thread(reason: io::Error) -> LoadError {
    LoadError::System {
        what: "running a consumer's thread",
        reason,
    }
}

fn lock(crowd: &Mutex<LeanConsumers>) -> MutexGuard<'_, LeanConsumers> {
    // Figures that a panic has cut short are not reported: its error ends the run.
    crowd.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_they_cannot_do_is_refused() {
        let mut options = ConsumerOptions::new("127.0.0.1:9092", "t", CLIENTS_MAX + 1);
        let error = check(&options).expect_err("too many").to_string();
        assert_eq!(
            error,
            "--client librdkafka: at most 200 --clients: each has threads of its own"
        );
        options.clients = CLIENTS_MAX;
        assert!(check(&options).is_ok());
        options.groups = Some(super::super::LeanGroups::new("g"));
        assert!(check(&options).is_err());
    }
}
