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
use weir_wire::fetch;
use weir_wire::header::write_request;
use weir_wire::lean_fetch::{self, FetchQuery};
use weir_wire::list_offsets::{self, PartitionOffset};

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
            Err(error) => {
                shared.on_error(consumer, &error);
                backoff.wait(&error).await;
            }
        }
        shared.cluster.refresh(seen).await;
    }
    shared.release_fetcher(consumer, broker);
}

/// Fetches over one connection until no partition is left or an error occurs.
async fn serve<S: LeanSink>(
    shared: &LeanState<S>,
    consumer: usize,
    broker: i32,
    backoff: &mut Backoff,
) -> Result<(), LeanError> {
    if led_partitions(shared, consumer, broker).is_empty() {
        return Ok(());
    }
    let mut fetcher = LeaderFetcher::open(shared, consumer, broker).await?;
    while fetcher.update_partitions() {
        match fetcher.step().await {
            Ok(()) => backoff.reset(),
            Err(error) => {
                shared.count(|report| report.disconnects += 1);
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Returns the partitions of a consumer that a broker leads.
fn led_partitions<S: LeanSink>(shared: &LeanState<S>, consumer: usize, broker: i32) -> Vec<i32> {
    let mut partitions = shared.cluster.led_by(broker, shared.partitions.get());
    partitions.retain(|partition| shared.owns(consumer, *partition));
    partitions
}

/// Connection of a consumer to the leader of some of its partitions.
struct LeaderFetcher<'a, S> {
    shared: &'a LeanState<S>,
    consumer: usize,
    broker: i32,
    connection: BrokerConnection,
    max_wait: Duration,
    partitions: Vec<i32>,
    /// Versions of the metadata and of the assignment from which `partitions` was computed.
    versions: Option<(u64, u64)>,
}

impl<'a, S: LeanSink> LeaderFetcher<'a, S> {
    async fn open(
        shared: &'a LeanState<S>,
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
            shared,
            consumer,
            broker,
            connection: BrokerConnection::open(shared, consumer, &address, frame_bytes_max).await?,
            max_wait: Duration::from_millis(config.max_wait_ms.unsigned_abs().into()),
            partitions: Vec::new(),
            versions: None,
        })
    }

    /// Updates the partitions after a change of metadata or assignment. Returns `false` if none is
    /// left.
    fn update_partitions(&mut self) -> bool {
        let (shared, consumer) = (self.shared, self.consumer);
        let now = Some((
            shared.cluster.version(),
            shared.assignment_version(consumer),
        ));
        if self.versions != now {
            self.partitions = led_partitions(shared, consumer, self.broker);
            self.versions = now;
        }
        !self.partitions.is_empty()
    }

    /// Looks up the start offsets of partitions without a position; if there are none, fetches
    /// once.
    async fn step(&mut self) -> Result<(), LeanError> {
        let unknown = |it: &&i32| self.shared.position(self.consumer, **it).is_none();
        let new: Vec<i32> = self.partitions.iter().filter(unknown).copied().collect();
        if new.is_empty() {
            self.shared.until_reading().await;
            return self.fetch().await;
        }
        let start = match self.shared.config.from_oldest {
            true => list_offsets::EARLIEST,
            false => list_offsets::LATEST,
        };
        for (partition, offset) in self.offsets(&new, start).await? {
            self.shared.set_start(self.consumer, partition, offset);
        }
        Ok(())
    }

    /// Returns the offset of each partition at a timestamp or special value of ListOffsets.
    async fn offsets(
        &mut self,
        partitions: &[i32],
        timestamp: i64,
    ) -> Result<Vec<(i32, i64)>, LeanError> {
        let config = &self.shared.config;
        let body = list_offsets::request(&config.topic, partitions, timestamp);
        let write = |out: &mut BytesMut, id| {
            write_request(out, list_offsets::VERSION, id, &config.client_id, &body)
        };
        let mut response = Vec::new();
        let read = |body: &[u8]| {
            response = list_offsets::read(body)?;
            Ok(())
        };
        let exchange = (self.connection).exchange(self.shared, self.max_wait, write, read);
        exchange.await?;
        let offset = |row: PartitionOffset| match row.error {
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

    /// Sends one fetch and delivers its records.
    async fn fetch(&mut self) -> Result<(), LeanError> {
        let (shared, consumer) = (self.shared, self.consumer);
        let config = &shared.config;
        let query = FetchQuery {
            client_id: &config.client_id,
            topic: &config.topic,
            max_wait_ms: config.max_wait_ms,
            min_bytes: config.min_bytes,
            max_bytes: config.fetch_max_bytes,
            committed_only: shared.committed_only,
        };
        let from = |partition: &i32| {
            let position = shared.position(consumer, *partition);
            (*partition, position.unwrap_or(0))
        };
        let write = |out: &mut BytesMut, id| {
            lean_fetch::write(out, id, &query, self.partitions.iter().map(from))
        };
        let (mut out_of_range, mut failure) = (Vec::new(), None);
        let assignment = shared.assignment_version(consumer);
        self.connection
            .exchange(shared, self.max_wait, write, |body| {
                let head = fetch::read::<LeanError>(fetch::VERSION, body, |fetched| {
                    // The assignment of this request has ended; another member may own the
                    // partition now.
                    if shared.assignment_version(consumer) != assignment {
                        return Ok(());
                    }
                    match fetched.error {
                        0 => return shared.deliver(consumer, &fetched),
                        OFFSET_OUT_OF_RANGE => out_of_range.push(fetched.partition),
                        // Usually another broker is the leader now; the connection is then closed
                        // and the metadata requested again.
                        code => failure = Some((fetched.partition, code)),
                    }
                    Ok(())
                })?;
                if head.error != 0 {
                    failure = Some((-1, head.error));
                }
                Ok(())
            })
            .await?;
        shared.count(|report| report.fetches += 1);
        if !out_of_range.is_empty() {
            self.reset(&out_of_range).await?;
        }
        match failure {
            None => Ok(()),
            Some((partition, code)) => Err(kafka_error("fetch", &config.topic, partition, code)),
        }
    }

    /// Replaces positions that are out of range: by the oldest offset if it is higher, because
    /// retention has removed the records, else by the end of the partition.
    async fn reset(&mut self, partitions: &[i32]) -> Result<(), LeanError> {
        let (shared, topic) = (self.shared, &self.shared.config.topic);
        let (first, end) = (list_offsets::EARLIEST, list_offsets::LATEST);
        let oldest = self.offsets(partitions, first).await?;
        let newest = self.offsets(partitions, end).await?;
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

fn kafka_error(what: &str, topic: &str, partition: i32, code: i16) -> LeanError {
    LeanError::Kafka {
        what: format!("{what} of \"{topic}\" partition {partition}"),
        code,
    }
}

const OFFSET_OUT_OF_RANGE: i16 = 1;
/// Bytes by which a response may exceed the fetch limit, since a single batch may be larger.
const FRAME_SLACK_BYTES: usize = 32 << 20;
