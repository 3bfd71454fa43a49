//! One consumer's connection to one broker: positions, then fetch after fetch.

use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;

use super::connect_pacer::Backoff;
use super::connection::BrokerConnection;
use super::state::LeanState;
use super::{LeanError, LeanSink};
use crate::wire::fetch::{self, FetchQuery, FetchedPartition};
use crate::wire::list_offsets;

/// Keeps the connection alive until the broker leads nothing that the consumer reads.
pub(super) async fn run<S: LeanSink>(shared: Rc<LeanState<S>>, consumer: usize, broker: i32) {
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
    let mut led = Led::of(shared, consumer, broker);
    if led.partitions.is_empty() {
        return Ok(());
    }
    let mut link = LeaderFetcher::open(shared, consumer, broker).await?;
    loop {
        led.update(shared, consumer, broker);
        if led.partitions.is_empty() {
            return Ok(());
        }
        match link.turn(shared, &led.partitions).await {
            Ok(()) => backoff.reset(),
            Err(error) => {
                shared.count(|report| report.disconnects += 1);
                return Err(error);
            }
        }
    }
}

/// Partitions of a consumer led by a broker, as of one view of the cluster and one assignment.
struct Led {
    partitions: Vec<i32>,
    cluster: u64,
    assignment: u64,
}

impl Led {
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
    held: Duration,
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
                reason: "its address is not known".to_owned(),
            });
        };
        let config = &shared.config;
        let fetch_bytes = usize::try_from(config.fetch_max_bytes).unwrap_or(0);
        let frame_bytes_max = fetch_bytes + FRAME_SLACK_BYTES;
        Ok(Self {
            connection: BrokerConnection::open(shared, consumer, address, frame_bytes_max).await?,
            consumer,
            held: Duration::from_millis(config.max_wait_ms.unsigned_abs().into()),
        })
    }

    /// Positions what has none yet, then fetches once.
    async fn turn<S: LeanSink>(
        &mut self,
        shared: &LeanState<S>,
        partitions: &[i32],
    ) -> Result<(), LeanError> {
        let known = |partition: &&i32| shared.position(self.consumer, **partition).is_some();
        if partitions.iter().all(|partition| known(&partition)) {
            return self.fetch(shared, partitions).await;
        }
        let new: Vec<i32> = partitions.iter().filter(|it| !known(it)).copied().collect();
        let begin = match shared.config.from_oldest {
            true => list_offsets::EARLIEST,
            false => list_offsets::LATEST,
        };
        let offsets = self.offsets(shared, &new, begin).await?;
        for (partition, offset) in offsets {
            shared.begin_at(self.consumer, partition, offset);
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
        let mut answer = Vec::new();
        self.connection
            .exchange(shared, self.held, write, |body| {
                answer = list_offsets::read(body)?;
                Ok(())
            })
            .await?;
        let offset = |row: list_offsets::PartitionOffset| match row.error {
            0 => Ok((row.partition, row.offset.max(0))),
            code => Err(kafka("list offsets", &config.topic, row.partition, code)),
        };
        answer.into_iter().map(offset).collect()
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
        let mut failed = Failed::default();
        let assignment = shared.assignment(consumer);
        self.connection
            .exchange(shared, self.held, write, |body| {
                let code = fetch::read::<LeanError>(body, |fetched| {
                    // Asked for by an assignment that is over: another member may have it by now.
                    if shared.assignment(consumer) != assignment {
                        return Ok(());
                    }
                    match fetched.error {
                        0 => return shared.deliver(consumer, &fetched),
                        OFFSET_OUT_OF_RANGE => failed.out_of_range.push(fetched.partition),
                        _ => failed.note(&fetched),
                    }
                    Ok(())
                })?;
                if code != 0 {
                    failed.error = Some(kafka("fetch", &config.topic, -1, code));
                }
                Ok(())
            })
            .await?;
        shared.count(|report| report.fetches += 1);
        if !failed.out_of_range.is_empty() {
            self.reset(shared, &failed.out_of_range).await?;
        }
        failed.error.map_or(Ok(()), Err)
    }

    /// Our position is no longer there: go on at the oldest record if retention removed it, else
    /// at the end.
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
            let error = kafka("fetch", topic, partition, OFFSET_OUT_OF_RANGE);
            shared.on_error(self.consumer, &error);
            let position = shared.position(self.consumer, partition).unwrap_or(0);
            let next = if oldest > position { oldest } else { newest };
            shared.set_position(self.consumer, partition, next);
        }
        Ok(())
    }
}

/// What a fetch answer held besides records.
#[derive(Default)]
struct Failed {
    out_of_range: Vec<i32>,
    error: Option<LeanError>,
}

impl Failed {
    /// A wrong leader, mostly: the link ends, the cluster is asked again.
    fn note(&mut self, fetched: &FetchedPartition<'_>) {
        let FetchedPartition {
            topic,
            partition,
            error,
            ..
        } = *fetched;
        self.error = Some(kafka("fetch", topic, partition, error));
    }
}

fn kafka(what: &str, topic: &str, partition: i32, code: i16) -> LeanError {
    LeanError::Kafka {
        what: format!("{what} of \"{topic}\" partition {partition}"),
        code,
    }
}

const OFFSET_OUT_OF_RANGE: i16 = 1;
/// A single batch may exceed the fetch limit.
const FRAME_SLACK_BYTES: usize = 32 << 20;
