//! The threads of one Kafka connection: one polls, keeps positions and stores offsets; the records
//! are mapped here or, with `record.consume.with.num.threads`, by a crew of workers.

mod commit_schedule;
mod interest_inbox;
mod last_values;
mod late;
mod resume;
mod shard_senders;
mod skips;
mod status;
mod worker;
mod worker_pool;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use weir_kafka::{
    IngestConfig, KafkaIngest, KafkaReader, LentRecord, Offsets, PauseScope, SourceError, StartFrom,
};
use weir_mapping::ConsumeFrom;
use weir_net::MailboxSender;

use self::commit_schedule::CommitSchedule;
use self::resume::{Release, ResumeGate};
use self::shard_senders::ShardSenders;
use self::worker::Mapper;
use self::worker_pool::Mappers;
use crate::connection::KafkaConnection;
use crate::shard::ShardEvent;

pub(crate) use self::interest_inbox::InterestInbox;

/// Longest wait for records, so that stopping and status reports are not late.
const POLL_TIMEOUT: Duration = Duration::from_millis(100);
/// Records taken from one poll.
const POLL_RECORDS: usize = 500;
/// How often the connection's state is looked at.
const STATUS_PERIOD: Duration = Duration::from_millis(250);
/// How long the last offsets may take to be stored.
const LAST_COMMIT_TIMEOUT: Duration = Duration::from_secs(5);

/// One connection's ingest, to be run on its own thread.
pub(crate) struct Ingest {
    connection: Arc<KafkaConnection>,
    /// The connection's position in the configuration.
    number: u16,
    stop: Arc<AtomicBool>,
    senders: ShardSenders,
    /// What the last records of all items may take; 0: they are not kept.
    last_bytes: usize,
    resume_delay: Duration,
}

impl Ingest {
    /// `number` is the connection's position in the configuration.
    pub(crate) fn new(
        connection: Arc<KafkaConnection>,
        number: u16,
        shards: Vec<MailboxSender<ShardEvent>>,
        stop: Arc<AtomicBool>,
        last_bytes: usize,
        resume_delay: Duration,
    ) -> Self {
        let senders = ShardSenders::new(shards, Arc::clone(&stop));
        Self {
            connection,
            number,
            stop,
            senders,
            last_bytes,
            resume_delay,
        }
    }

    /// Runs until the stop flag is set or the client library refuses to go on. `posted` is dropped
    /// when no more updates will be posted.
    pub(crate) fn run(self, posted: Sender<()>) {
        let name = &self.connection.config.name;
        match self.consume(posted) {
            Ok(()) => tracing::info!(connection = %name, "ingest stopped"),
            Err(error) => {
                tracing::error!(connection = %name, %error, "ingest failed; no more updates");
                self.connection.state.report(false, Some(error.to_string()));
            }
        }
        for worker in &self.connection.workers {
            worker.interests.close();
        }
    }

    fn consume(&self, posted: Sender<()>) -> Result<(), SourceError> {
        let mut config = ingest_config(&self.connection.config);
        let mut delay = self.resume_delay;
        if self.last_bytes > 0 {
            // What is not read cannot be known.
            config.hold = PauseScope::Nothing;
        }
        if self.last_bytes > 0 || config.group_id.is_none() {
            delay = Duration::ZERO;
        }
        let mut progress = IngestProgress {
            gate: ResumeGate::new(delay),
            held: config.hold == PauseScope::All,
            late_until: None,
            schedule: CommitSchedule::new(Instant::now()),
            looked_at: Instant::now(),
        };
        let mut source = KafkaIngest::start(&config)?;
        let mut mappers = self.mappers();
        while self.read(&mut source, &mut mappers, &mut progress)? == IngestEnd::Renewal {
            source.renew()?;
        }
        drop(mappers);
        drop(posted);
        let mut reader = source.reader();
        if self.connection.demand.was_ever_subscribed() {
            let positions = reader.positions();
            reader.commit(&positions)?;
            if !reader.await_commits(LAST_COMMIT_TIMEOUT) {
                let name = &self.connection.config.name;
                tracing::warn!(connection = %name, "the last offsets are not known to be stored");
            }
        }
        status::report(&self.connection, &reader);
        Ok(())
    }

    fn mappers(&self) -> Vec<Mapper> {
        let count = self.connection.workers.len();
        let share = self.last_bytes.div_ceil(count);
        let mapper = |index| {
            let connection = Arc::clone(&self.connection);
            Mapper::new(connection, self.number, index, self.senders.clone(), share)
        };
        (0..count).map(mapper).collect()
    }

    /// Reads until the stop flag is set or the source must be renewed. All records are mapped when
    /// it returns.
    fn read(
        &self,
        source: &mut KafkaIngest,
        mappers: &mut [Mapper],
        progress: &mut IngestProgress,
    ) -> Result<IngestEnd, SourceError> {
        let mut reader = source.reader();
        std::thread::scope(|scope| {
            let order = self.connection.config.order_strategy;
            let reading = PollState {
                ingest: self,
                progress,
                mappers: Mappers::start(scope, mappers, order)?,
                checkpoint: None,
            };
            reading.run(&mut reader)
        })
    }
}

/// Why reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IngestEnd {
    Stop,
    Renewal,
}

/// What outlasts a renewal of the source.
#[derive(Debug)]
struct IngestProgress {
    gate: ResumeGate,
    /// Nobody subscribes: reading waits where the last subscriber left it.
    paused: bool,
    /// Until then subscriptions count as late.
    late_until: Option<Instant>,
    schedule: CommitSchedule,
    looked_at: Instant,
}

/// The polling thread's state.
struct PollState<'s, 'a> {
    ingest: &'s Ingest,
    progress: &'s mut IngestProgress,
    mappers: Mappers<'s, 'a>,
    /// Positions to be stored once the records before them are posted.
    checkpoint: Option<(Offsets, worker_pool::InFlightBatches)>,
}

impl<'a> PollState<'_, 'a> {
    fn run(mut self, reader: &mut KafkaReader<'a>) -> Result<IngestEnd, SourceError> {
        let mut batch: Vec<LentRecord<'a>> = Vec::with_capacity(POLL_RECORDS);
        let connection = &self.ingest.connection;
        status::report(connection, reader);
        while !self.ingest.stop.load(Ordering::Relaxed) {
            if reader.needs_renewal() {
                return Ok(IngestEnd::Renewal);
            }
            if self.progress.paused && connection.demand.is_none() {
                reader.serve()?;
                // Without records: items that are wanted no more are forgotten.
                self.mappers.map(&mut batch);
                connection.demand.wait(POLL_TIMEOUT);
            } else {
                self.poll_once(reader, &mut batch)?;
            }
            self.commit(reader)?;
            if self.progress.looked_at.elapsed() >= STATUS_PERIOD {
                self.progress.looked_at = Instant::now();
                status::report(connection, reader);
                self.end_late_window();
            }
        }
        Ok(IngestEnd::Stop)
    }

    fn poll_once(
        &mut self,
        reader: &mut KafkaReader<'a>,
        batch: &mut Vec<LentRecord<'a>>,
    ) -> Result<(), SourceError> {
        let demand = &self.ingest.connection.demand;
        if !demand.is_none() {
            self.release(reader)?;
        }
        reader.poll(POLL_TIMEOUT, POLL_RECORDS, batch)?;
        if self.ingest.last_bytes == 0 && demand.is_none() && demand.was_ever_subscribed() {
            // The last subscriber left. What it has not seen is kept for the next one, beginning
            // with what was polled after its last word.
            reader.hold(batch)?;
            self.progress.gate.on_pause();
            self.progress.paused = true;
            batch.clear();
        }
        self.progress.schedule.count(batch.len());
        self.mappers.map(batch);
        Ok(())
    }

    /// Lets reading begin or go on as far as subscriptions and the resume delay allow.
    fn release(&mut self, reader: &mut KafkaReader<'a>) -> Result<(), SourceError> {
        let (now, connection) = (Instant::now(), &self.ingest.connection);
        match self.progress.gate.subscribed(now) {
            Some(Release::New) => reader.go_on_with_new()?,
            Some(Release::Resumed) => {
                if reader.resumes() {
                    self.progress.late_until = Some(now + late::WINDOW);
                    connection.late.begin();
                }
                reader.go_on()?;
            }
            Some(Release::All) => reader.go_on()?,
            None => {}
        }
        self.progress.paused = false;
        Ok(())
    }

    fn end_late_window(&mut self) {
        let late_until = &mut self.progress.late_until;
        if late_until.take_if(|end| Instant::now() >= *end).is_some() {
            self.ingest.connection.late.end();
        }
    }

    fn commit(&mut self, reader: &mut KafkaReader<'a>) -> Result<(), SourceError> {
        let connection = &self.ingest.connection;
        if connection.config.group_id.is_none() || !connection.demand.was_ever_subscribed() {
            return Ok(());
        }
        if let Some((offsets, pending)) = self.checkpoint.take() {
            if pending.is_done() {
                return reader.commit(&offsets);
            }
            self.checkpoint = Some((offsets, pending));
        } else if self.progress.schedule.is_due(Instant::now()) {
            self.checkpoint = Some((reader.positions(), self.mappers.pending()));
        }
        Ok(())
    }
}

fn ingest_config(config: &weir_mapping::ConnectionConfig) -> IngestConfig {
    let (from, hold) = match (config.consume_from, &config.group_id) {
        // The whole topic is owed to the first subscriber, so reading starts with it.
        (ConsumeFrom::Earliest, _) => (StartFrom::Earliest, PauseScope::All),
        (ConsumeFrom::Latest, Some(_)) => (StartFrom::Latest, PauseScope::Stored),
        (ConsumeFrom::Latest, None) => (StartFrom::Latest, PauseScope::Nothing),
    };
    IngestConfig {
        bootstrap_servers: config.bootstrap(),
        client_id: format!("weir-gateway-{}", config.name),
        group_id: config.group_id.clone(),
        topics: config.mapping.topics().map(str::to_owned).collect(),
        from,
        hold,
        properties: Vec::new(),
    }
}
