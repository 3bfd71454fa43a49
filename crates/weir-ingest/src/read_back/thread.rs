//! The thread that reads records of a Kafka connection again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_kafka::ranges::{RangeError, RangeReader};
use weir_net::limited;

use super::batch::ReadBackBatch;
use super::pace::ReadPace;
use crate::connection::KafkaConnection;
use crate::item_event::ItemEvent;
use crate::missed::{ReadBackOutcome, ReadBackRequest, ReadBackResult, ResetReason};
use crate::shard_senders::ShardSenders;

/// Wait for requests before the stop flag is checked.
const WAIT: Duration = Duration::from_millis(100);
/// Time without requests after which the connections to brokers are closed.
const IDLE: Duration = Duration::from_secs(30);
/// Maximum time that a request waits for its turn.
const QUEUED_MAX: Duration = Duration::from_secs(10);
/// Maximum time of reading for one group of requests.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct ReadBackThread<E> {
    connection: Arc<KafkaConnection>,
    senders: ShardSenders<E>,
    stop: Arc<AtomicBool>,
    reader: Option<RangeReader>,
    pace: ReadPace,
}

impl<E: From<ItemEvent>> ReadBackThread<E> {
    pub(crate) fn new(
        connection: Arc<KafkaConnection>,
        senders: ShardSenders<E>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        let rate = connection.read_back.limits.records_per_second;
        Self {
            pace: ReadPace::new(rate, Instant::now()),
            connection,
            senders,
            stop,
            reader: None,
        }
    }

    /// Serves requests until the stop flag is set.
    pub(crate) fn run(mut self) {
        let mut used = Instant::now();
        while !self.is_stopped() {
            let requests = self.connection.read_back.take(WAIT);
            if !requests.is_empty() {
                self.serve(requests);
                used = Instant::now();
            } else if used.elapsed() >= IDLE {
                self.reader = None;
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn serve(&mut self, requests: Vec<ReadBackRequest>) {
        let wanted = requests
            .into_iter()
            .filter(|one| !one.is_cancelled.load(Ordering::Relaxed));
        let is_late = |one: &ReadBackRequest| one.since.elapsed() > QUEUED_MAX;
        let (late, requests): (Vec<_>, Vec<_>) = wanted.partition(is_late);
        for request in &late {
            self.post(request, Err(ResetReason::Busy));
        }
        if requests.is_empty() {
            return;
        }
        let connection = Arc::clone(&self.connection);
        let mut batch = ReadBackBatch::new(&connection, requests);
        if let Err(error) = self.read(&mut batch) {
            let name = &connection.config.name;
            limited!(
                warn, "read back", connection = %name, %error,
                "missed records not read, clients get snapshots"
            );
            batch.fail_all(ResetReason::Unavailable);
            self.reader = None;
        }
        for (request, outcome) in batch.finish() {
            if request.is_cancelled.load(Ordering::Relaxed) {
                continue;
            }
            // Delivering costs as much as reading.
            let records = outcome.as_ref().map_or(0, |records| records.len());
            let wait = self.pace.take(records, Instant::now());
            self.wait(wait);
            self.post(&request, outcome);
        }
    }

    fn read(&mut self, batch: &mut ReadBackBatch<'_>) -> Result<(), RangeError> {
        let connection = Arc::clone(&self.connection);
        let deadline = Instant::now() + READ_TIMEOUT;
        let (counters, stop) = (&connection.read_back, Arc::clone(&self.stop));
        while let Some(range) = batch.next_range() {
            let reader = match &self.reader {
                Some(reader) => reader,
                None => self.reader.insert(open(&connection)?),
            };
            counters.reads.fetch_add(1, Ordering::Relaxed);
            let pace = &mut self.pace;
            let read = batch.read(reader, range, deadline, &mut || {
                counters.records.fetch_add(1, Ordering::Relaxed);
                let wait = pace.take(1, Instant::now());
                if wait > Duration::ZERO {
                    std::thread::park_timeout(wait.min(WAIT));
                }
                !stop.load(Ordering::Relaxed)
            });
            match read {
                Ok(()) => {}
                Err(RangeError::Deleted { first, .. }) => batch.fail_before(range, first),
                // Their clients have left, the gateway stops, or memory is short.
                Err(RangeError::Stopped) => batch.fail_all(ResetReason::Busy),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits, in steps, until the rate allows more.
    fn wait(&self, wait: Duration) {
        let end = Instant::now() + wait;
        while !self.is_stopped() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::park_timeout(left.min(WAIT));
        }
    }

    fn post(&self, request: &ReadBackRequest, outcome: ReadBackOutcome) {
        let result = ReadBackResult {
            token: request.token,
            outcome,
        };
        let event = ItemEvent::ReadBack(Box::new(result));
        let counters = &self.connection.workers[0].counters;
        self.senders.send(request.shard, event, counters);
    }
}

fn open(connection: &KafkaConnection) -> Result<RangeReader, RangeError> {
    let cluster = &connection.cluster;
    let client_id = format!("weir-read-back-{}", connection.config.name);
    RangeReader::new(&cluster.kafka, &cluster.producer_settings(), &client_id)
}
