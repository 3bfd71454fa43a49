//! The threads of one Kafka connection: one polls, keeps positions and stores offsets; the records
//! are mapped here or, with `record.consume.with.num.threads`, by a crew of workers.

mod crew;
mod last_values;
mod pace;
mod post;
mod wish_box;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use weir_kafka::{
    Hold, IngestConfig, KafkaIngest, LentRecord, Offsets, Reader, SourceError, StartFrom,
};
use weir_mapping::ConsumeFrom;
use weir_net::MailSender;

use self::crew::Crew;
use self::pace::Pace;
use self::post::Post;
use self::worker::Mapper;
use crate::connection::Connection;
use crate::shard::ShardMail;

pub(crate) use self::wish_box::WishBox;

/// Longest wait for records, so that stopping and status reports are not late.
const POLL: Duration = Duration::from_millis(100);
/// Records taken from one poll.
const POLL_RECORDS: usize = 500;
/// How often the connection's state is looked at.
const STATUS_PERIOD: Duration = Duration::from_millis(250);
/// How long the last offsets may take to be stored.
const LAST_COMMIT: Duration = Duration::from_secs(5);

/// One connection's ingest, to be run on its own thread.
pub(crate) struct Ingest {
    connection: Arc<Connection>,
    /// The connection's position in the configuration.
    number: u16,
    stop: Arc<AtomicBool>,
    post: Post,
    /// What the last records of all items may take; 0: they are not kept.
    last_bytes: usize,
}

impl Ingest {
    /// `number` is the connection's position in the configuration.
    pub(crate) fn new(
        connection: Arc<Connection>,
        number: u16,
        shards: Vec<MailSender<ShardMail>>,
        stop: Arc<AtomicBool>,
        last_bytes: usize,
    ) -> Self {
        let post = Post::new(shards, Arc::clone(&stop));
        Self {
            connection,
            number,
            stop,
            post,
            last_bytes,
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
            worker.wishes.close();
        }
    }

    fn consume(&self, posted: Sender<()>) -> Result<(), SourceError> {
        let mut config = ingest_config(&self.connection.config);
        if self.last_bytes > 0 {
            // What is not read cannot be known.
            config.hold = Hold::Nothing;
        }
        let held = config.hold == Hold::All;
        let mut source = KafkaIngest::start(&config)?;
        let mut reader = source.reader();
        let read = std::thread::scope(|scope| {
            let mapper = |index| {
                let connection = Arc::clone(&self.connection);
                let share = self.last_bytes.div_ceil(self.connection.workers.len());
                Mapper::new(connection, self.number, index, self.post.clone(), share)
            };
            let config = &self.connection.config;
            let threads = self.connection.workers.len();
            let crew = Crew::start(scope, threads, config.order_strategy, mapper)?;
            let reading = Reading {
                ingest: self,
                released: false,
                held,
                crew,
                pace: Pace::new(Instant::now()),
                checkpoint: None,
                looked_at: Instant::now(),
            };
            reading.run(&mut reader)
        });
        drop(posted);
        read?;
        if self.connection.demand.has_begun() {
            let positions = reader.positions();
            reader.commit(&positions)?;
            if !reader.await_commits(LAST_COMMIT) {
                let name = &self.connection.config.name;
                tracing::warn!(connection = %name, "the last offsets are not known to be stored");
            }
        }
        self.report(&reader);
        Ok(())
    }

    fn report(&self, reader: &Reader<'_>) {
        let status = reader.status();
        let state = &self.connection.state;
        let lag = reader.lag();
        let lag = lag.iter().filter_map(weir_kafka::PartitionLag::records);
        state.lag.store(lag.sum(), Ordering::Relaxed);
        for (counter, value) in [
            (&state.source_errors, status.errors),
            (&state.resets, status.resets),
            (&state.commits, status.commits),
            (&state.commit_errors, status.commit_errors),
        ] {
            counter.store(value, Ordering::Relaxed);
        }
        if status.ready != state.ready() {
            let name = &self.connection.config.name;
            match (status.ready, &status.last_error) {
                (true, _) => tracing::info!(connection = %name, "connection is ready"),
                (false, Some(error)) => {
                    tracing::warn!(connection = %name, %error, "connection is not ready");
                }
                (false, None) => tracing::warn!(connection = %name, "connection is not ready"),
            }
        }
        state.report(status.ready, status.last_error);
    }
}

/// The polling thread's state.
struct Reading<'s, 'a> {
    ingest: &'s Ingest,
    /// What was held back at the start, such as partitions that resume, is being read.
    released: bool,
    /// Nobody subscribes: reading waits where the last subscriber left it.
    held: bool,
    crew: Crew<'a>,
    pace: Pace,
    /// Positions to be stored once the records before them are posted.
    checkpoint: Option<(Offsets, crew::Pending)>,
    looked_at: Instant,
}

impl<'a> Reading<'_, 'a> {
    fn run(mut self, reader: &mut Reader<'a>) -> Result<(), SourceError> {
        let mut batch: Vec<LentRecord<'a>> = Vec::with_capacity(POLL_RECORDS);
        self.ingest.report(reader);
        while !self.ingest.stop.load(Ordering::Relaxed) {
            let demand = &self.ingest.connection.demand;
            if self.held && demand.is_none() {
                reader.serve();
                // Items that are wanted no more are forgotten.
                self.crew.map(&mut batch);
                demand.wait(POLL);
            } else {
                self.turn(reader, &mut batch)?;
            }
            self.commit(reader)?;
            if self.looked_at.elapsed() >= STATUS_PERIOD {
                self.looked_at = Instant::now();
                self.ingest.report(reader);
            }
        }
        Ok(())
    }

    fn turn(
        &mut self,
        reader: &mut Reader<'a>,
        batch: &mut Vec<LentRecord<'a>>,
    ) -> Result<(), SourceError> {
        let demand = &self.ingest.connection.demand;
        if !demand.is_none() && (self.held || !self.released) {
            (self.released, self.held) = (true, false);
            reader.go_on()?;
        }
        reader.poll(POLL, POLL_RECORDS, batch)?;
        if self.ingest.last_bytes == 0 && demand.is_none() && demand.has_begun() {
            // The last subscriber left. What it has not seen is kept for the next one, beginning
            // with what was polled after its last word.
            reader.hold(batch)?;
            self.held = true;
            batch.clear();
        }
        self.pace.count(batch.len());
        self.crew.map(batch);
        Ok(())
    }

    fn commit(&mut self, reader: &mut Reader<'a>) -> Result<(), SourceError> {
        let connection = &self.ingest.connection;
        if connection.config.group_id.is_none() || !connection.demand.has_begun() {
            return Ok(());
        }
        if let Some((offsets, pending)) = self.checkpoint.take() {
            if pending.is_done() {
                return reader.commit(&offsets);
            }
            self.checkpoint = Some((offsets, pending));
        } else if self.pace.is_due(Instant::now()) {
            self.checkpoint = Some((reader.positions(), self.crew.pending()));
        }
        Ok(())
    }
}

fn ingest_config(config: &weir_mapping::ConnectionConfig) -> IngestConfig {
    let (from, hold) = match (config.consume_from, &config.group_id) {
        // The whole topic is owed to the first subscriber, so reading starts with it.
        (ConsumeFrom::Earliest, _) => (StartFrom::Earliest, Hold::All),
        (ConsumeFrom::Latest, Some(_)) => (StartFrom::Latest, Hold::Stored),
        (ConsumeFrom::Latest, None) => (StartFrom::Latest, Hold::Nothing),
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
