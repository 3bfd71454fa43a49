//! The threads of one Kafka connection. One thread polls, tracks positions and commits offsets. It
//! maps the records itself or, with `record.consume.with.num.threads`, passes them to workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use serde::Deserialize;
use weir_kafka::{
    BorrowedRecord, KafkaIngest, KafkaReader, Offsets, PartitionLag, PauseScope, SourceError,
};
use weir_net::MailboxSender;
use weir_net::otlp::TraceSource;

use crate::cluster::ingest_config;
use crate::commit_schedule::CommitSchedule;
use crate::connection::KafkaConnection;
use crate::counters::UNKNOWN;
use crate::item_event::ItemEvent;
use crate::item_records::StoreConfig;
use crate::position_reports::PositionReporter;
use crate::read_back::ReadBackThread;
use crate::refusal_log::RefusalLog;
use crate::resume::{ReadRelease, ResumeGate};
use crate::schema_wait::SchemaWaits;
use crate::shard_senders::ShardSenders;
use crate::topic_rates::TopicRates;
use crate::traces::RecordTraces;
use crate::worker::Mapper;
use crate::worker_pool::{InFlightBatches, Mappers};

/// Maximum wait for records, which bounds the delay of stop and status reports.
const POLL_TIMEOUT: Duration = Duration::from_millis(100);
const STATUS_PERIOD: Duration = Duration::from_millis(250);
const LAST_COMMIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Records that are written while no item of a connection is subscribed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum IdleRecords {
    /// Reading pauses, and resumes with these records (default).
    #[default]
    Keep,
    /// They are read and discarded, so that the next subscriber gets new records only.
    Skip,
}

/// The threads of one connection, which post to shards whose events are of type `E`.
pub struct Ingest<E> {
    /// The connection.
    pub connection: Arc<KafkaConnection>,
    /// Index of the connection in the configuration.
    pub number: u16,
    /// Set to end the threads.
    pub stop: Arc<AtomicBool>,
    /// Inboxes of the shards.
    pub shards: Vec<MailboxSender<E>>,
    /// Storage of records for later subscribers.
    pub store: StoreConfig,
    /// Source of traces; `None`: no record is traced.
    pub traces: Option<TraceSource>,
    /// Treatment of records while no item is subscribed, after the first subscription.
    pub idle: IdleRecords,
    /// Wait after the first subscription before reading resumes at stored offsets.
    pub resume_delay: Duration,
}

impl<E: From<ItemEvent> + Send + 'static> Ingest<E> {
    /// Runs until the stop flag is set or the client library fails. `posted` is dropped after the
    /// last update was posted.
    pub fn run(self, posted: Sender<()>) {
        let name = &self.connection.config.name;
        match self.consume(posted) {
            Ok(()) => tracing::info!(connection = %name, "ingest stopped"),
            Err(error) => {
                tracing::error!(connection = %name, %error, "ingest failed, no more updates");
                self.connection.state.report(false, Some(error.to_string()));
            }
        }
        for worker in &self.connection.workers {
            worker.interests.close();
        }
    }

    fn consume(&self, posted: Sender<()>) -> Result<(), SourceError> {
        let mut config = ingest_config(&self.connection.config, &self.connection.cluster);
        let mut delay = self.resume_delay;
        if self.store.is_on() {
            config.pause = PauseScope::Nothing;
        }
        if self.store.is_on() || config.group_id.is_none() {
            delay = Duration::ZERO;
        }
        let mut progress = IngestProgress {
            gate: ResumeGate::new(delay),
            paused: config.pause == PauseScope::All,
            late_until: None,
            schedule: CommitSchedule::new(Instant::now()),
            looked_at: Instant::now(),
            schemas: SchemaWaits::start(&self.connection)?,
            refusals: RefusalLog::default(),
            topics: TopicRates::new(),
            positions: PositionReporter::new(Instant::now()),
            read_back: None,
        };
        self.log_reader();
        let mut source = KafkaIngest::start(&config)?;
        let mut mappers = self.mappers();
        while self.read(&mut source, &mut mappers, &mut progress)? {
            source.renew()?;
        }
        drop(mappers);
        drop(posted);
        let mut reader = source.reader();
        if self.connection.subscribed_items.was_ever_subscribed() {
            let positions = reader.positions();
            reader.commit(&positions)?;
            if !reader.await_commits(LAST_COMMIT_TIMEOUT) {
                let name = &self.connection.config.name;
                tracing::warn!(connection = %name, "last commit not confirmed");
            }
        }
        report(&self.connection, &reader, &mut progress);
        Ok(())
    }

    fn log_reader(&self) {
        let (name, selected) = (
            &self.connection.config.name,
            &self.connection.cluster.reader,
        );
        let reader = selected.kind;
        match &selected.reason {
            None => tracing::info!(connection = %name, %reader, "reading from Kafka"),
            Some(setting) => {
                let only = "reading from Kafka; the lean client lacks the setting";
                tracing::info!(connection = %name, %reader, %setting, "{only}");
            }
        }
    }

    fn mappers(&self) -> Vec<Mapper<E>> {
        let count = self.connection.workers.len();
        let store = StoreConfig {
            bytes: self.store.bytes.div_ceil(count),
            ..self.store
        };
        let senders = ShardSenders::new(self.shards.clone(), Arc::clone(&self.stop));
        let mapper = |index| {
            let connection = Arc::clone(&self.connection);
            let traces = self.traces.as_ref().map(|source| RecordTraces {
                sampler: source.sampler(),
                connection: connection.config.name.clone(),
            });
            Mapper::new(connection, self.number, index, senders.clone(), store).traced(traces)
        };
        (0..count).map(mapper).collect()
    }

    /// Reads until the stop flag is set, or until the source must be replaced; then it returns
    /// `true`. All records are mapped when it returns.
    fn read(
        &self,
        source: &mut KafkaIngest,
        mappers: &mut [Mapper<E>],
        progress: &mut IngestProgress,
    ) -> Result<bool, SourceError> {
        let order = self.connection.config.order_strategy;
        let mut reader = source.reader();
        std::thread::scope(|scope| {
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

/// State that survives a replacement of the source.
struct IngestProgress {
    gate: ResumeGate,
    /// `true` while reading is paused at the last position because there are no subscribers.
    paused: bool,
    /// End of the time in which subscriptions count as late.
    late_until: Option<Instant>,
    schedule: CommitSchedule,
    looked_at: Instant,
    /// Partitions that wait for schemas, if records name them.
    schemas: Option<SchemaWaits>,
    refusals: RefusalLog,
    topics: TopicRates,
    positions: PositionReporter,
    /// The thread that reads records again, after its first request.
    read_back: Option<JoinHandle<()>>,
}

struct PollState<'s, 'a, E> {
    ingest: &'s Ingest<E>,
    progress: &'s mut IngestProgress,
    mappers: Mappers<'s, 'a, E>,
    /// Positions to be committed after the records before them have been posted.
    checkpoint: Option<(Offsets, InFlightBatches)>,
}

impl<'a, E: From<ItemEvent> + Send + 'static> PollState<'_, 'a, E> {
    fn run(mut self, reader: &mut KafkaReader<'a>) -> Result<bool, SourceError> {
        let connection = &self.ingest.connection;
        let poll_records = connection.cluster.poll_records;
        let mut batch: Vec<BorrowedRecord<'a>> = Vec::with_capacity(poll_records);
        report(connection, reader, self.progress);
        while !self.ingest.stop.load(Ordering::Relaxed) {
            if reader.needs_renewal() {
                return Ok(true);
            }
            let requested = connection.positions.requested();
            if self.progress.paused && connection.subscribed_items.is_none() {
                reader.run_callbacks()?;
                // Without records, this only removes withdrawn items.
                self.mappers.map(&mut batch);
                connection.subscribed_items.wait(POLL_TIMEOUT);
            } else {
                self.poll_once(reader, &mut batch)?;
            }
            self.commit(reader)?;
            self.report_positions(reader, requested);
            self.start_read_back()?;
            if self.progress.looked_at.elapsed() >= STATUS_PERIOD {
                self.progress.looked_at = Instant::now();
                report(connection, reader, self.progress);
                self.end_late_window();
            }
        }
        Ok(false)
    }

    fn poll_once(
        &mut self,
        reader: &mut KafkaReader<'a>,
        batch: &mut Vec<BorrowedRecord<'a>>,
    ) -> Result<(), SourceError> {
        let subscribed_items = &self.ingest.connection.subscribed_items;
        let poll_records = self.ingest.connection.cluster.poll_records;
        if !subscribed_items.is_none() {
            self.resume(reader)?;
        }
        let mut timeout = POLL_TIMEOUT;
        if let Some(schemas) = &mut self.progress.schemas {
            schemas.resume_found(&self.ingest.connection, reader)?;
            if schemas.is_any() {
                timeout = crate::schema_wait::POLL_TIMEOUT;
            }
        }
        reader.poll(timeout, poll_records, batch)?;
        if !self.ingest.store.is_on()
            && self.ingest.idle == IdleRecords::Keep
            && subscribed_items.is_none()
            && subscribed_items.was_ever_subscribed()
        {
            // The last subscriber has left. Unseen records stay for the next subscriber, starting
            // with those polled after the unsubscription.
            reader.pause(batch)?;
            self.progress.gate.on_pause();
            self.progress.paused = true;
            batch.clear();
        }
        if let Some(schemas) = &mut self.progress.schemas {
            schemas.pause_missing(&self.ingest.connection, reader, batch)?;
        }
        self.progress.schedule.count(batch.len());
        self.mappers.map(batch);
        Ok(())
    }

    fn resume(&mut self, reader: &mut KafkaReader<'a>) -> Result<(), SourceError> {
        let (now, connection) = (Instant::now(), &self.ingest.connection);
        match self.progress.gate.subscribed(now) {
            Some(ReadRelease::New) => reader.resume_new()?,
            Some(ReadRelease::Resumed) => {
                if reader.has_committed_offsets() {
                    self.progress.late_until = Some(now + crate::late::WINDOW);
                    connection.late.set_open(true);
                }
                reader.resume()?;
            }
            Some(ReadRelease::All) => reader.resume()?,
            None => {}
        }
        self.progress.paused = false;
        Ok(())
    }

    /// Posts the positions that shards have requested.
    fn report_positions(&mut self, reader: &KafkaReader<'a>, requested: u64) {
        let (ingest, mappers) = (self.ingest, &self.mappers);
        let of = (&*ingest.connection, ingest.number);
        let in_flight = || mappers.pending();
        let report = (self.progress.positions).report(of, reader, requested, in_flight);
        if let Some(report) = report.map(Arc::new) {
            let senders = ShardSenders::new(ingest.shards.clone(), Arc::clone(&ingest.stop));
            let counters = &ingest.connection.workers[0].counters;
            for shard in 0..ingest.shards.len() {
                let event = ItemEvent::Positions(Arc::clone(&report));
                senders.send(shard as u16, event, counters);
            }
        }
    }

    /// Starts the thread that reads records again, with the first request.
    fn start_read_back(&mut self) -> Result<(), SourceError> {
        let ingest = self.ingest;
        if self.progress.read_back.is_some() || !ingest.connection.read_back.is_waiting() {
            return Ok(());
        }
        let senders = ShardSenders::new(ingest.shards.clone(), Arc::clone(&ingest.stop));
        let connection = Arc::clone(&ingest.connection);
        let reader = ReadBackThread::new(connection, senders, Arc::clone(&ingest.stop));
        let thread = std::thread::Builder::new().name("read-back".to_owned());
        let thread = thread.spawn(move || reader.run());
        let thread = thread.map_err(|error| SourceError::Thread {
            reason: error.to_string(),
        })?;
        self.progress.read_back = Some(thread);
        Ok(())
    }

    fn end_late_window(&mut self) {
        let late_until = &mut self.progress.late_until;
        if late_until.take_if(|end| Instant::now() >= *end).is_some() {
            self.ingest.connection.late.set_open(false);
        }
    }

    fn commit(&mut self, reader: &mut KafkaReader<'a>) -> Result<(), SourceError> {
        let connection = &self.ingest.connection;
        if connection.config.group_id.is_none()
            || !connection.subscribed_items.was_ever_subscribed()
        {
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

/// Copies the source's state for administration, and logs changes of readiness.
fn report(connection: &KafkaConnection, reader: &KafkaReader<'_>, progress: &mut IngestProgress) {
    let (status, now) = (reader.status(), Instant::now());
    let refusals = &mut progress.refusals;
    refusals.report(&connection.config.name, &status, now);
    let state = &connection.state;
    let (lag, is_known) = reader.lag();
    if let Some(topics) = progress.topics.update(&lag, now) {
        state.set_topics(topics);
    }
    let records = lag.iter().filter_map(PartitionLag::records).sum();
    let records = if is_known { records } else { UNKNOWN };
    for (counter, value) in [
        (&state.lag, records),
        (&state.source_errors, status.errors),
        (&state.login_failures, status.login_failures),
        (&state.tls_failures, status.tls_failures),
        (&state.resets, status.resets),
        (&state.truncations, status.truncations),
        (&state.throttled, status.throttled),
        (
            &state.throttle_us,
            u64::try_from(status.throttle_time.as_micros()).unwrap_or(u64::MAX),
        ),
        (&state.on_followers, status.on_followers as u64),
        (&state.commits, status.commits),
        (&state.commit_errors, status.commit_errors),
    ] {
        counter.store(value, Ordering::Relaxed);
    }
    if status.ready != state.ready() {
        let name = &connection.config.name;
        match (status.ready, &status.problem) {
            (true, _) => tracing::info!(connection = %name, "connection became ready"),
            (false, Some(error)) => {
                tracing::warn!(connection = %name, %error, "connection became unready");
            }
            (false, None) => tracing::warn!(connection = %name, "connection became unready"),
        }
    }
    state.report(status.ready, status.problem);
}
