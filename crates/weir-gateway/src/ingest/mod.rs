//! The threads of one Kafka connection. One thread polls, tracks positions and commits offsets. It
//! maps the records itself or, with `record.consume.with.num.threads`, passes them to workers.

mod commit_schedule;
mod interest_inbox;
mod last_values;
mod late;
mod resume;
mod skips;
mod worker;
mod worker_pool;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use weir_kafka::{
    IngestConfig, KafkaIngest, KafkaReader, LentRecord, Offsets, PartitionLag, PauseScope,
    SourceError, StartFrom,
};
use weir_mapping::ConsumeFrom;
use weir_net::MailboxSender;

use self::commit_schedule::CommitSchedule;
use self::resume::{ReadRelease, ResumeGate};
use self::worker::{Mapper, ShardSenders};
use self::worker_pool::Mappers;
use crate::connection::KafkaConnection;
use crate::counters::UNKNOWN;
use crate::shard::ShardEvent;

pub(crate) use self::interest_inbox::InterestInbox;

/// Maximum wait for records, which bounds the delay of stop and status reports.
const POLL_TIMEOUT: Duration = Duration::from_millis(100);
const POLL_RECORDS: usize = 500;
const STATUS_PERIOD: Duration = Duration::from_millis(250);
const LAST_COMMIT_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct Ingest {
    pub(crate) connection: Arc<KafkaConnection>,
    /// Index of the connection in the configuration.
    pub(crate) number: u16,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) shards: Vec<MailboxSender<ShardEvent>>,
    /// Maximum memory for last records in bytes; 0 disables them.
    pub(crate) last_bytes: usize,
    pub(crate) resume_delay: Duration,
}

impl Ingest {
    /// Runs until the stop flag is set or the client library fails. `posted` is dropped after the
    /// last update was posted.
    pub(crate) fn run(self, posted: Sender<()>) {
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
        let mut config = ingest_config(&self.connection.config);
        let mut delay = self.resume_delay;
        if self.last_bytes > 0 {
            // Unread records are unknown.
            config.pause = PauseScope::Nothing;
        }
        if self.last_bytes > 0 || config.group_id.is_none() {
            delay = Duration::ZERO;
        }
        let mut progress = IngestProgress {
            gate: ResumeGate::new(delay),
            paused: config.pause == PauseScope::All,
            late_until: None,
            schedule: CommitSchedule::new(Instant::now()),
            looked_at: Instant::now(),
        };
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
        report(&self.connection, &reader);
        Ok(())
    }

    fn mappers(&self) -> Vec<Mapper> {
        let count = self.connection.workers.len();
        let share = self.last_bytes.div_ceil(count);
        let senders = ShardSenders::new(self.shards.clone(), Arc::clone(&self.stop));
        let mapper = |index| {
            let connection = Arc::clone(&self.connection);
            Mapper::new(connection, self.number, index, senders.clone(), share)
        };
        (0..count).map(mapper).collect()
    }

    /// Reads until the stop flag is set, or until the source must be replaced; then it returns
    /// `true`. All records are mapped when it returns.
    fn read(
        &self,
        source: &mut KafkaIngest,
        mappers: &mut [Mapper],
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
#[derive(Debug)]
struct IngestProgress {
    gate: ResumeGate,
    /// `true` while reading is paused at the last position because there are no subscribers.
    paused: bool,
    /// End of the time in which subscriptions count as late.
    late_until: Option<Instant>,
    schedule: CommitSchedule,
    looked_at: Instant,
}

struct PollState<'s, 'a> {
    ingest: &'s Ingest,
    progress: &'s mut IngestProgress,
    mappers: Mappers<'s, 'a>,
    /// Positions to be committed after the records before them have been posted.
    checkpoint: Option<(Offsets, worker_pool::InFlightBatches)>,
}

impl<'a> PollState<'_, 'a> {
    fn run(mut self, reader: &mut KafkaReader<'a>) -> Result<bool, SourceError> {
        let mut batch: Vec<LentRecord<'a>> = Vec::with_capacity(POLL_RECORDS);
        let connection = &self.ingest.connection;
        report(connection, reader);
        while !self.ingest.stop.load(Ordering::Relaxed) {
            if reader.needs_renewal() {
                return Ok(true);
            }
            if self.progress.paused && connection.subscribed_items.is_none() {
                reader.run_callbacks()?;
                // Without records, this only removes withdrawn items.
                self.mappers.map(&mut batch);
                connection.subscribed_items.wait(POLL_TIMEOUT);
            } else {
                self.poll_once(reader, &mut batch)?;
            }
            self.commit(reader)?;
            if self.progress.looked_at.elapsed() >= STATUS_PERIOD {
                self.progress.looked_at = Instant::now();
                report(connection, reader);
                self.end_late_window();
            }
        }
        Ok(false)
    }

    fn poll_once(
        &mut self,
        reader: &mut KafkaReader<'a>,
        batch: &mut Vec<LentRecord<'a>>,
    ) -> Result<(), SourceError> {
        let subscribed_items = &self.ingest.connection.subscribed_items;
        if !subscribed_items.is_none() {
            self.release(reader)?;
        }
        reader.poll(POLL_TIMEOUT, POLL_RECORDS, batch)?;
        if self.ingest.last_bytes == 0
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
        self.progress.schedule.count(batch.len());
        self.mappers.map(batch);
        Ok(())
    }

    fn release(&mut self, reader: &mut KafkaReader<'a>) -> Result<(), SourceError> {
        let (now, connection) = (Instant::now(), &self.ingest.connection);
        match self.progress.gate.subscribed(now) {
            Some(ReadRelease::New) => reader.resume_new()?,
            Some(ReadRelease::Resumed) => {
                if reader.has_stored_positions() {
                    self.progress.late_until = Some(now + late::WINDOW);
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

fn ingest_config(config: &weir_mapping::ConnectionConfig) -> IngestConfig {
    let (from, hold) = match (config.consume_from, &config.group_id) {
        // The first subscriber must get the whole topic, so reading starts with it.
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
        pause: hold,
        properties: Vec::new(),
    }
}

/// Copies the source's state for administration, and logs changes of readiness.
fn report(connection: &KafkaConnection, reader: &KafkaReader<'_>) {
    let status = reader.status();
    let state = &connection.state;
    let (lag, is_known) = reader.lag();
    let records = lag.iter().filter_map(PartitionLag::records).sum();
    let records = if is_known { records } else { UNKNOWN };
    for (counter, value) in [
        (&state.lag, records),
        (&state.source_errors, status.errors),
        (&state.resets, status.resets),
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
