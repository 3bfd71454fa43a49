//! One consumer's connection to one broker: looks up start offsets, then sends one fetch after
//! another.

use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;

use super::connect_pacer::Backoff;
use super::connection::BrokerConnection;
use super::error::LeanError;
use super::sink::LeanSink;
use super::state::LeanState;
use crate::wire::fetch::{self, FetchQuery, FetchedPartition};
use crate::wire::list_offsets;

/// Starts a fetcher for each leader that has none for this consumer yet.
pub(super) fn start_all<S: LeanSink + 'static>(shared: &Rc<LeanState<S>>, consumer: usize) {
    for leader in shared.cluster.leaders() {
        if shared.claim_fetcher(consumer, leader) {
            let task = run(Rc::clone(shared), consumer, leader);
            tokio::task::spawn_local(task);
        }
    }
}

/// Keeps the connection open until the broker leads no partition that the consumer reads.
async fn run<S: LeanSink>(shared: Rc<LeanState<S>>, consumer: usize, broker: i32) {
    let mut backoff = Backoff::new(consumer);
    loop {
        let seen = shared.cluster.attempts();
        match serve(&shared, consumer, broker, &mut backoff).await {
            Ok(()) => break,
            Err(error) => shared.on_error(consumer, &error),
        }
        backoff.wait().await;
        shared.cluster.refresh(seen).await;
    }
    shared.release_fetcher(consumer, broker);
}

async fn serve<S: LeanSink>(
    shared: &LeanState<S>,
    consumer: usize,
    broker: i32,
    backoff: &mut Backoff,
) -> Result<(), LeanError> {
    let mut led = LedPartitions::of(shared, consumer, broker);
    if led.partitions.is_empty() {
        return Ok(());
    }
    let mut fetcher = LeaderFetcher::open(shared, consumer, broker).await?;
    loop {
        led.update(shared, consumer, broker);
        if led.partitions.is_empty() {
            return Ok(());
        }
        match fetcher.step(shared, &led.partitions).await {
            Ok(()) => backoff.reset(),
            Err(error) => {
                shared.count(|report| report.disconnects += 1);
                return Err(error);
            }
        }
    }
}

/// Partitions of a consumer that a broker leads, for one metadata version and one assignment.
struct LedPartitions {
    partitions: Vec<i32>,
    cluster: u64,
    assignment: u64,
}

impl LedPartitions {
    fn of<S: LeanSink>(shared: &LeanState<S>, consumer: usize, broker: i32) -> Self {
        let mut partitions = shared.cluster.led_by(broker, shared.partitions.get());
        partitions.retain(|partition| shared.owns(consumer, *partition));
        Self {
            partitions,
            cluster: shared.cluster.version(),
            assignment: shared.assignment(consumer),
        }
    }

    fn update<S: LeanSink>(&mut self, shared: &LeanState<S>, consumer: usize, broker: i32) {
        let now = (shared.cluster.version(), shared.assignment(consumer));
        if (self.cluster, self.assignment) != now {
            *self = Self::of(shared, consumer, broker);
        }
    }
}

struct LeaderFetcher {
    connection: BrokerConnection,
    consumer: usize,
    max_wait: Duration,
}

impl LeaderFetcher {
    async fn open<S: LeanSink>(
        shared: &LeanState<S>,
        consumer: usize,
        broker: i32,
    ) -> Result<Self, LeanError> {
        let Some(address) = shared.cluster.address(broker) else {
            return Err(LeanError::Connection {
                address: format!("broker {broker}"),
                reason: "the broker's address is not known".to_owned(),
            });
        };
        let config = &shared.config;
        let fetch_bytes = usize::try_from(config.fetch_max_bytes).unwrap_or(0);
        let frame_bytes_max = fetch_bytes + FRAME_SLACK_BYTES;
        Ok(Self {
            connection: BrokerConnection::open(shared, consumer, address, frame_bytes_max).await?,
            consumer,
            max_wait: Duration::from_millis(config.max_wait_ms.unsigned_abs().into()),
        })
    }

    /// Looks up the start offsets of partitions without a position; if there are none, fetches
    /// once.
    async fn step<S: LeanSink>(
        &mut self,
        shared: &LeanState<S>,
        partitions: &[i32],
    ) -> Result<(), LeanError> {
        let known = |partition: &&i32| shared.position(self.consumer, **partition).is_some();
        if partitions.iter().all(|partition| known(&partition)) {
            return self.fetch(shared, partitions).await;
        }
        let new: Vec<i32> = partitions.iter().filter(|it| !known(it)).copied().collect();
        let start = match shared.config.from_oldest {
            true => list_offsets::EARLIEST,
            false => list_offsets::LATEST,
        };
        let offsets = self.offsets(shared, &new, start).await?;
        for (partition, offset) in offsets {
            shared.set_start(self.consumer, partition, offset);
        }
        Ok(())
    }

    async fn offsets<S: LeanSink>(
        &mut self,
        shared: &LeanState<S>,
        partitions: &[i32],
        timestamp: i64,
    ) -> Result<Vec<(i32, i64)>, LeanError> {
        let config = &shared.config;
        let write = |out: &mut BytesMut, id| {
            let (client, topic) = (&config.client_id, &config.topic);
            list_offsets::write(out, id, client, topic, partitions, timestamp)
        };
        let mut response = Vec::new();
        self.connection
            .exchange(shared, self.max_wait, write, |body| {
                response = list_offsets::read(body)?;
                Ok(())
            })
            .await?;
        let offset = |row: list_offsets::PartitionOffset| match row.error {
            0 => Ok((row.partition, row.offset.max(0))),
            code => Err(kafka_error(
                "list offsets",
                &config.topic,
                row.partition,
                code,
            )),
        };
        response.into_iter().map(offset).collect()
    }

    async fn fetch<S: LeanSink>(
        &mut self,
        shared: &LeanState<S>,
        partitions: &[i32],
    ) -> Result<(), LeanError> {
        let consumer = self.consumer;
        let config = &shared.config;
        let query = FetchQuery {
            client_id: &config.client_id,
            topic: &config.topic,
            max_wait_ms: config.max_wait_ms,
            min_bytes: config.min_bytes,
            max_bytes: config.fetch_max_bytes,
        };
        let from = |partition: &i32| {
            let position = shared.position(consumer, *partition);
            (*partition, position.unwrap_or(0))
        };
        let write =
            |out: &mut BytesMut, id| fetch::write(out, id, &query, partitions.iter().map(from));
        let mut errors = FetchErrors::default();
        let assignment = shared.assignment(consumer);
        self.connection
            .exchange(shared, self.max_wait, write, |body| {
                let code = fetch::read::<LeanError>(body, |fetched| {
                    // The assignment of this request has ended; another member may own the
                    // partition now.
                    if shared.assignment(consumer) != assignment {
                        return Ok(());
                    }
                    match fetched.error {
                        0 => return shared.deliver(consumer, &fetched),
                        OFFSET_OUT_OF_RANGE => errors.out_of_range.push(fetched.partition),
                        _ => errors.note(&fetched),
                    }
                    Ok(())
                })?;
                if code != 0 {
                    errors.error = Some(kafka_error("fetch", &config.topic, -1, code));
                }
                Ok(())
            })
            .await?;
        shared.count(|report| report.fetches += 1);
        if !errors.out_of_range.is_empty() {
            self.reset(shared, &errors.out_of_range).await?;
        }
        errors.error.map_or(Ok(()), Err)
    }

    /// Replaces positions that are out of range: by the oldest offset if retention removed the
    /// records, else by the end of the partition.
    async fn reset<S: LeanSink>(
        &mut self,
        shared: &LeanState<S>,
        partitions: &[i32],
    ) -> Result<(), LeanError> {
        let topic = &shared.config.topic;
        let oldest = self
            .offsets(shared, partitions, list_offsets::EARLIEST)
            .await?;
        let newest = self
            .offsets(shared, partitions, list_offsets::LATEST)
            .await?;
        for ((partition, oldest), (_, newest)) in oldest.into_iter().zip(newest) {
            let error = kafka_error("fetch", topic, partition, OFFSET_OUT_OF_RANGE);
            shared.on_error(self.consumer, &error);
            let position = shared.position(self.consumer, partition).unwrap_or(0);
            let next = if oldest > position { oldest } else { newest };
            shared.set_position(self.consumer, partition, next);
        }
        Ok(())
    }
}

/// Errors of a fetch response.
#[derive(Default)]
struct FetchErrors {
    out_of_range: Vec<i32>,
    error: Option<LeanError>,
}

impl FetchErrors {
    /// Stores the error of a partition. Usually another broker is the leader now; the connection is
    /// then closed and the metadata requested again.
    fn note(&mut self, fetched: &FetchedPartition<'_>) {
        let FetchedPartition {
            topic,
            partition,
            error,
            ..
        } = *fetched;
        self.error = Some(kafka_error("fetch", topic, partition, error));
    }
}

fn kafka_error(what: &str, topic: &str, partition: i32, code: i16) -> LeanError {
    LeanError::Kafka {
        what: format!("{what} of \"{topic}\" partition {partition}"),
        code,
    }
}

const OFFSET_OUT_OF_RANGE: i16 = 1;
/// A single batch may exceed the fetch limit.
const FRAME_SLACK_BYTES: usize = 32 << 20;
