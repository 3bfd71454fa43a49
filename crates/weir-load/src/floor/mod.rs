//! Baseline server: the minimum work of a server that sends a topic's records to its clients.
//!
//! It reads the topic like the gateway and writes one pre-encoded frame, with the same bytes as the
//! gateway, to every socket of the record's key. It has no mapping, no sessions, and no state per
//! client except the socket, so its cost is a lower bound for any server. Like the gateway, it
//! omits unchanged fields. A client sends its key in one line (`*`: all keys), receives `OK`, and
//! then gets frames.

mod frame;
mod listener;
mod subscribers;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clap::Args;
use weir_kafka::{IngestConfig, KafkaIngest, StartFrom};

use crate::clients::{DiffChoice, raise_descriptors};
use crate::clock::Clock;
use crate::error::{LoadError, Result};
use crate::kafka::KafkaArgs;
use crate::topic;
use crate::worker::CoordinatorChannel;
use crate::worker::protocol::{FloorSummary, Summary, WorkerCommand, WorkerRole};
use frame::{FrameBuilder, Values};
use listener::FloorListener;
use subscribers::Subscribers;

/// Options of the baseline server.
#[derive(Debug, Clone, Args)]
pub struct FloorOptions {
    /// Address to listen on; port 0 selects a free port, which is printed
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// Cluster to read from.
    #[command(flatten)]
    pub kafka: KafkaArgs,
    /// Topic to read, starting at its end
    #[arg(long, value_name = "NAME")]
    pub topic: String,
    /// Fields of a frame, in order
    ///
    /// key, value, ts, partition, offset, weir (the stamp), or members of a JSON value.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "key,value,ts,partition,offset,weir"
    )]
    pub fields: Vec<String>,
    /// Diff formats for changed values: none, json-patch, tlcp-diff
    #[arg(long, value_name = "FORMATS", value_parser = DiffChoice::parse, default_value = "none")]
    pub diffs: DiffChoice,
}

/// Serves until it is stopped. Returns the final summary.
///
/// # Errors
/// [`LoadError`] if the server did not start or the topic can no longer be read; `link` gets no
/// event about it.
pub fn run(options: &FloorOptions, link: &CoordinatorChannel) -> Result<FloorSummary> {
    link.events.hello(WorkerRole::Floor);
    raise_descriptors(u64::MAX)
        .map_err(|reason| LoadError::System("raising the limit of file descriptors", reason))?;
    let listener = FloorListener::open(options.listen)?;
    let ingest = start_ingest(options)?;
    let frames = FrameBuilder::new(&options.fields, options.diffs);
    let floor = Floor {
        ingest,
        listener: &listener,
        link,
        frames,
        values: Values::default(),
        subscribers: Subscribers::default(),
        clock: Clock::start(),
        next_report: Instant::now() + REPORT_INTERVAL,
        stop_unix_ns: u64::MAX,
        stopping: false,
    };
    let summary = floor.serve()?;
    link.events.finish(Summary::Floor(summary.clone()));
    Ok(summary)
}

fn start_ingest(options: &FloorOptions) -> Result<KafkaIngest> {
    let kafka = options.kafka.settings()?;
    topic::ensure(&kafka, std::slice::from_ref(&options.topic), None)?;
    let config = IngestConfig {
        kafka,
        client_id: "weir-load-floor".to_owned(),
        group_id: None,
        topics: vec![options.topic.clone()],
        from: StartFrom::Latest,
        ..IngestConfig::default()
    };
    Ok(KafkaIngest::start(&config)?)
}

/// Event loop: reads records, writes frames and adds new subscribers.
struct Floor<'a> {
    ingest: KafkaIngest,
    listener: &'a FloorListener,
    link: &'a CoordinatorChannel,
    frames: FrameBuilder,
    values: Values,
    subscribers: Subscribers,
    clock: Clock,
    next_report: Instant,
    stop_unix_ns: u64,
    stopping: bool,
}

impl Floor<'_> {
    fn serve(mut self) -> Result<FloorSummary> {
        while !self.stopping && !self.ingest.status().ready {
            self.iterate()?;
        }
        if !self.stopping {
            self.link.events.ready(0, Some(self.listener.port));
        }
        while !self.stopping {
            self.iterate()?;
        }
        self.report();
        Ok(self.subscribers.counts)
    }

    fn iterate(&mut self) -> Result<()> {
        let (frames, values) = (&mut self.frames, &mut self.values);
        let (ingest, subscribers) = (&mut self.ingest, &mut self.subscribers);
        let read = ingest.poll(POLL_TIMEOUT, RECORDS_PER_ITERATION_MAX, &mut |record| {
            frames.read(&record, values);
            subscribers.send(record.key.unwrap_or_default(), values, frames);
        })?;
        subscribers.counts.records_read += read as u64;
        self.listener
            .subscribers
            .try_iter()
            .for_each(|it| subscribers.add(it));
        self.stopping |= self.link.take_commands(|command| {
            if let WorkerCommand::Start(schedule) = command {
                self.stop_unix_ns = schedule.stop_unix_ns;
            }
        });
        let now = Instant::now();
        if now >= self.next_report {
            self.next_report = now + REPORT_INTERVAL;
            self.report();
            self.stopping |= self.clock.unix_ns(now) >= self.stop_unix_ns;
        }
        Ok(())
    }

    fn report(&self) {
        let summary = &self.subscribers.counts;
        let counters = [
            ("records_read", summary.records_read),
            ("frames_sent", summary.frames_sent),
            ("bytes_sent", summary.bytes_sent),
            ("sockets", self.subscribers.sockets()),
            ("accepted", summary.accepted),
            ("closed_would_block", summary.closed_would_block),
            ("closed_other", summary.closed_other),
        ];
        let now_unix_ns = self.clock.now_unix_ns();
        self.link
            .events
            .progress(now_unix_ns, &counters, None, false);
    }
}

const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum delay of new subscribers and commands when no records arrive. Not shorter, because the
/// Kafka client spins during the last millisecond of a wait without a record. At 5 ms this took an
/// eighth of a core.
const POLL_TIMEOUT: Duration = Duration::from_millis(100);
const RECORDS_PER_ITERATION_MAX: usize = 1000;
