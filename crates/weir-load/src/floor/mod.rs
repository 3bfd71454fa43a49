//! The floor: the least a server must do to hand a topic's records to its clients.
//!
//! It reads the topic like the gateway does and writes one ready-made frame, the same bytes the
//! gateway would send, to every socket of the record's key. No mapping, no sessions, no state per
//! client but the socket; what it costs is what any server costs at least. Fields that did not change
//! are left out as the gateway leaves them out. A client says which key
//! it wants in one line (`*`: all), is answered `OK`, and gets frames from then on.

mod frame;
mod listener;
mod subscribers;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use weir_kafka::{IngestConfig, KafkaIngest, RecordSource as _, StartFrom};

use crate::clients::{DiffChoice, raise_descriptors};
use crate::clock::Clock;
use crate::error::LoadError;
use crate::topic;
use crate::worker::CoordinatorChannel;
use crate::worker::protocol::{
    FloorSummary, Summary, WorkerCommand, WorkerEvent, WorkerProgress, WorkerRole,
};
use frame::{FrameBuilder, Values};
use listener::{FloorListener, FloorSubscriber};
use subscribers::Subscribers;

/// Where the floor listens and what it reads.
#[derive(Debug, Clone)]
pub struct FloorOptions {
    /// Address to listen on; port 0 picks a free one, told when ready.
    pub listen: SocketAddr,
    /// Comma-separated `host:port` list.
    pub bootstrap_servers: String,
    /// Topic to read, from its end on.
    pub topic: String,
    /// Fields of a frame: `key`, `value`, `ts`, `partition`, `offset`, `weir` (the stamp); any other
    /// name is a member of the value, which has to be JSON then.
    pub fields: Vec<String>,
    /// Diffs that changed values are sent as.
    pub diffs: DiffChoice,
}

/// Serves until told to stop; returns what was reported last.
///
/// # Errors
/// [`LoadError`] if the floor could not begin or the topic can no longer be read; the link has not
/// been told.
pub fn run(options: &FloorOptions, link: &CoordinatorChannel) -> Result<FloorSummary, LoadError> {
    link.events.hello(WorkerRole::Floor);
    raise_descriptors(u64::MAX).map_err(|reason| LoadError::System {
        what: "raising the limit of file descriptors",
        reason,
    })?;
    let door = FloorListener::open(options.listen)?;
    let ingest = start_ingest(options)?;
    let frames = FrameBuilder::new(&options.fields, options.diffs);
    let summary = Floor::new(ingest, &door, link, frames).serve()?;
    link.events.send(&WorkerEvent::Final {
        summary: Summary::Floor(summary.clone()),
    });
    Ok(summary)
}

fn start_ingest(options: &FloorOptions) -> Result<KafkaIngest, LoadError> {
    topic::require(&options.bootstrap_servers, &options.topic)?;
    let config = IngestConfig {
        bootstrap_servers: options.bootstrap_servers.clone(),
        client_id: "weir-load-floor".to_owned(),
        group_id: None,
        topics: vec![options.topic.clone()],
        from: StartFrom::Latest,
        ..IngestConfig::default()
    };
    Ok(KafkaIngest::start(&config)?)
}

/// The one loop: records in, writes out, newcomers between.
struct Floor<'a> {
    ingest: KafkaIngest,
    door: &'a FloorListener,
    link: &'a CoordinatorChannel,
    frames: FrameBuilder,
    values: Values,
    hall: Subscribers,
    records_read: u64,
    clock: Clock,
    next_report: Instant,
    stop_unix_ns: u64,
    stopping: bool,
}

impl<'a> Floor<'a> {
    fn new(
        ingest: KafkaIngest,
        door: &'a FloorListener,
        link: &'a CoordinatorChannel,
        frames: FrameBuilder,
    ) -> Self {
        Self {
            ingest,
            door,
            link,
            frames,
            values: Values::default(),
            hall: Subscribers::default(),
            records_read: 0,
            clock: Clock::start(),
            next_report: Instant::now() + REPORT_EVERY,
            stop_unix_ns: u64::MAX,
            stopping: false,
        }
    }

    fn serve(mut self) -> Result<FloorSummary, LoadError> {
        while !self.stopping && !self.ingest.status().ready {
            self.turn()?;
        }
        if !self.stopping {
            self.link.events.send(&WorkerEvent::Ready {
                connections: 0,
                port: Some(self.door.port()),
            });
        }
        while !self.stopping {
            self.turn()?;
        }
        self.report();
        Ok(self.summary())
    }

    fn turn(&mut self) -> Result<(), LoadError> {
        let Self {
            ingest,
            frames,
            values,
            hall,
            ..
        } = self;
        let read = ingest.poll(POLL, RECORDS_PER_TURN_MAX, &mut |record| {
            frames.read(&record, values);
            hall.send(record.key.unwrap_or_default(), values, frames);
        })?;
        self.records_read += read as u64;
        admit(self.door.guests(), &mut self.hall);
        self.take_commands();
        let now = Instant::now();
        if now >= self.next_report {
            self.next_report = now + REPORT_EVERY;
            self.report();
            self.stopping |= self.clock.unix_ns(now) >= self.stop_unix_ns;
        }
        Ok(())
    }

    fn take_commands(&mut self) {
        loop {
            match self.link.commands.try_recv() {
                Ok(WorkerCommand::Start(schedule)) => self.stop_unix_ns = schedule.stop_unix_ns,
                Ok(WorkerCommand::Ledger { .. }) => {}
                Ok(WorkerCommand::Stop) | Err(TryRecvError::Disconnected) => {
                    self.stopping = true;
                    return;
                }
                Err(TryRecvError::Empty) => return,
            }
        }
    }

    fn report(&self) {
        let summary = self.summary();
        let counters = [
            ("records_read", summary.records_read),
            ("frames_sent", summary.frames_sent),
            ("bytes_sent", summary.bytes_sent),
            ("sockets", self.hall.sockets() as u64),
            ("accepted", summary.accepted),
            ("closed_would_block", summary.closed_would_block),
            ("closed_other", summary.closed_other),
        ];
        let counters: BTreeMap<_, _> = counters.map(|(name, n)| (name.to_owned(), n)).into();
        self.link
            .events
            .send(&WorkerEvent::Progress(WorkerProgress {
                unix_ns: self.clock.now_unix_ns(),
                counters,
                p50_us: None,
                p99_us: None,
            }));
    }

    fn summary(&self) -> FloorSummary {
        FloorSummary {
            records_read: self.records_read,
            ..self.hall.summary()
        }
    }
}

/// Lets everybody in who has said a key.
fn admit(guests: &Receiver<FloorSubscriber>, hall: &mut Subscribers) {
    for guest in guests.try_iter() {
        hall.enter(guest);
    }
}

const REPORT_EVERY: Duration = Duration::from_secs(1);
/// Without records, newcomers and commands wait for at most this long. Not shorter: the Kafka client
/// spins through the last millisecond of each wait that ends without a record, which at 5 ms took
/// an eighth of a core.
const POLL: Duration = Duration::from_millis(100);
const RECORDS_PER_TURN_MAX: usize = 1000;
