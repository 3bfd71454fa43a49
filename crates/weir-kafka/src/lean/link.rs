//! One consumer's connection to one broker: positions, then fetch after fetch.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::net::{TcpSocket, TcpStream};

use super::pace::Backoff;
use super::state::Shared;
use super::{LeanError, LeanSink};
use crate::wire::fetch::{self, FetchQuery, FetchedPartition};
use crate::wire::frame::FrameReader;
use crate::wire::header::read_response_v0;
use crate::wire::{EncodeError, list_offsets};

/// Keeps the connection alive until the broker leads nothing that the consumer reads.
pub(super) async fn run<S: LeanSink>(shared: Rc<Shared<S>>, consumer: usize, broker: i32) {
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
    shared.release_link(consumer, broker);
}

async fn serve<S: LeanSink>(
    shared: &Shared<S>,
    consumer: usize,
    broker: i32,
    backoff: &mut Backoff,
) -> Result<(), LeanError> {
    let mut led = Led::of(shared, broker);
    if led.partitions.is_empty() {
        return Ok(());
    }
    let mut link = Link::open(shared, consumer, broker).await?;
    let outcome = loop {
        led.update(shared, broker);
        if led.partitions.is_empty() {
            break Ok(());
        }
        match link.turn(shared, &led.partitions).await {
            Ok(()) => backoff.reset(),
            Err(error) => break Err(error),
        }
    };
    shared.count(|report| report.disconnects += 1);
    outcome
}

/// Partitions led by a broker as of one view of the cluster.
struct Led {
    partitions: Vec<i32>,
    version: u64,
}

impl Led {
    fn of<S: LeanSink>(shared: &Shared<S>, broker: i32) -> Self {
        Self {
            partitions: shared.cluster.led_by(broker, shared.partitions.get()),
            version: shared.cluster.version(),
        }
    }

    fn update<S: LeanSink>(&mut self, shared: &Shared<S>, broker: i32) {
        if self.version != shared.cluster.version() {
            *self = Self::of(shared, broker);
        }
    }
}

struct Link {
    stream: TcpStream,
    frames: FrameReader,
    consumer: usize,
    correlation_id: i32,
    address: SocketAddr,
}

impl Link {
    async fn open<S: LeanSink>(
        shared: &Shared<S>,
        consumer: usize,
        broker: i32,
    ) -> Result<Self, LeanError> {
        let Some(address) = shared.cluster.address(broker) else {
            return Err(LeanError::Connection {
                address: format!("broker {broker}"),
                reason: "its address is not known".to_owned(),
            });
        };
        shared.pacer.turn().await;
        let sources = &shared.config.source_addresses;
        let source = sources.get(consumer % sources.len().max(1)).copied();
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, connect(address, source));
        let stream = match connecting.await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(lost(address, &error)),
            Err(_) => return Err(lost(address, &"no connection in time")),
        };
        shared.count(|report| report.connections += 1);
        let fetch_bytes = usize::try_from(shared.config.fetch_max_bytes).unwrap_or(0);
        Ok(Self {
            stream,
            frames: FrameReader::new(fetch_bytes + FRAME_SLACK_BYTES),
            consumer,
            correlation_id: 0,
            address,
        })
    }

    /// Positions what has none yet, then fetches once.
    async fn turn<S: LeanSink>(
        &mut self,
        shared: &Shared<S>,
        partitions: &[i32],
    ) -> Result<(), LeanError> {
        let known = |partition: &&i32| shared.position(self.consumer, **partition).is_some();
        if partitions.iter().all(|partition| known(&partition)) {
            return self.fetch(shared, partitions).await;
        }
        let new: Vec<i32> = partitions.iter().filter(|it| !known(it)).copied().collect();
        let offsets = self.offsets(shared, &new, list_offsets::LATEST).await?;
        for (partition, offset) in offsets {
            shared.set_position(self.consumer, partition, offset);
        }
        Ok(())
    }

    async fn offsets<S: LeanSink>(
        &mut self,
        shared: &Shared<S>,
        partitions: &[i32],
        timestamp: i64,
    ) -> Result<Vec<(i32, i64)>, LeanError> {
        let config = &shared.config;
        let write = |out: &mut BytesMut, id| {
            let (client, topic) = (&config.client_id, &config.topic);
            list_offsets::write(out, id, client, topic, partitions, timestamp)
        };
        let mut answer = Vec::new();
        self.exchange(shared, write, |body| {
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
        shared: &Shared<S>,
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
        self.exchange(shared, write, |body| {
            let code = fetch::read::<LeanError>(body, |fetched| {
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
        shared: &Shared<S>,
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

    /// Sends one request and reads its answer.
    async fn exchange<S: LeanSink>(
        &mut self,
        shared: &Shared<S>,
        write: impl FnOnce(&mut BytesMut, i32) -> Result<(), EncodeError>,
        mut read: impl FnMut(&[u8]) -> Result<(), LeanError>,
    ) -> Result<(), LeanError> {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        let unsent = {
            let mut out = shared.write_buffer.borrow_mut();
            out.clear();
            write(&mut out, self.correlation_id)?;
            match self.stream.try_write(&out) {
                Ok(sent) if sent == out.len() => Vec::new(),
                Ok(sent) => out[sent..].to_vec(),
                Err(error) if would_block(&error) => out.to_vec(),
                Err(error) => return Err(lost(self.address, &error)),
            }
        };
        if !unsent.is_empty() {
            self.send_rest(&unsent).await?;
        }
        let wait = Duration::from_millis(shared.config.max_wait_ms.unsigned_abs().into());
        let answer = self.receive(shared, &mut read);
        match tokio::time::timeout(wait + ANSWER_TIMEOUT, answer).await {
            Ok(outcome) => outcome,
            Err(_) => Err(lost(self.address, &"no answer in time")),
        }
    }

    async fn send_rest(&self, mut bytes: &[u8]) -> Result<(), LeanError> {
        while !bytes.is_empty() {
            let ready = self.stream.writable().await;
            ready.map_err(|error| lost(self.address, &error))?;
            match self.stream.try_write(bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if would_block(&error) => {}
                Err(error) => return Err(lost(self.address, &error)),
            }
        }
        Ok(())
    }

    async fn receive<S: LeanSink>(
        &mut self,
        shared: &Shared<S>,
        read: &mut impl FnMut(&[u8]) -> Result<(), LeanError>,
    ) -> Result<(), LeanError> {
        let expected = self.correlation_id;
        let address = self.address;
        loop {
            let ready = self.stream.readable().await;
            ready.map_err(|error| lost(address, &error))?;
            let mut buffer = shared.read_buffer.borrow_mut();
            let count = match self.stream.try_read(&mut buffer) {
                Ok(0) => return Err(lost(address, &"closed by the broker")),
                Ok(count) => count,
                Err(error) if would_block(&error) => continue,
                Err(error) => return Err(lost(address, &error)),
            };
            shared.on_bytes(self.consumer, count);
            let mut answered = false;
            self.frames.feed(&buffer[..count], |frame| {
                let (id, body) = read_response_v0(frame)?;
                if id != expected || answered {
                    return Err(lost(address, &"an answer that was not asked for"));
                }
                answered = true;
                read(body)
            })?;
            if answered {
                return Ok(());
            }
        }
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

async fn connect(address: SocketAddr, source: Option<IpAddr>) -> std::io::Result<TcpStream> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    if let Some(source) = source {
        socket.bind(SocketAddr::new(source, 0))?;
    }
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn would_block(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::WouldBlock
}

fn lost(address: SocketAddr, reason: &dyn ToString) -> LeanError {
    LeanError::Connection {
        address: address.to_string(),
        reason: reason.to_string(),
    }
}

fn kafka(what: &str, topic: &str, partition: i32, code: i16) -> LeanError {
    LeanError::Kafka {
        what: format!("{what} of \"{topic}\" partition {partition}"),
        code,
    }
}

const OFFSET_OUT_OF_RANGE: i16 = 1;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Beyond the time a broker may hold a fetch.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// A single batch may exceed the fetch limit.
const FRAME_SLACK_BYTES: usize = 32 << 20;
