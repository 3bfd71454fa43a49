//! The threads of one Kafka connection: poll, and hand the records to the workers that map them.

mod post;
mod wish_box;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_kafka::{IngestConfig, KafkaIngest, RecordSource, SourceError, StartFrom};
use weir_mapping::ConsumeFrom;
use weir_net::MailSender;

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

/// One connection's ingest, to be run on its own thread.
pub(crate) struct Ingest {
    connection: Arc<Connection>,
    stop: Arc<AtomicBool>,
    mapper: Mapper,
}

impl Ingest {
    /// `number` is the connection's position in the configuration.
    pub(crate) fn new(
        connection: Arc<Connection>,
        number: u16,
        shards: Vec<MailSender<ShardMail>>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        let post = Post::new(shards, Arc::clone(&stop));
        Self {
            mapper: Mapper::new(Arc::clone(&connection), number, 0, post),
            connection,
            stop,
        }
    }

    /// Runs until the stop flag is set or the client library refuses to go on.
    pub(crate) fn run(mut self) {
        let name = self.connection.config.name.clone();
        match self.consume() {
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

    fn consume(&mut self) -> Result<(), SourceError> {
        if self.connection.config.consume_from == ConsumeFrom::Earliest {
            // The whole topic is owed to the first subscriber, so reading starts with it.
            self.connection.state.report(true, None);
            while self.connection.demand.is_none() {
                if self.stopped() {
                    return Ok(());
                }
                self.connection.demand.wait(POLL);
            }
        }
        let mut source = KafkaIngest::start(&ingest_config(&self.connection.config))?;
        let mut looked_at = Instant::now();
        self.report(&mut source);
        while !self.stopped() {
            let mapper = &mut self.mapper;
            source.poll(POLL, POLL_RECORDS, &mut |record| {
                mapper.read_wishes();
                mapper.on_record(&record);
            })?;
            self.mapper.read_wishes();
            if looked_at.elapsed() >= STATUS_PERIOD {
                looked_at = Instant::now();
                self.report(&mut source);
            }
        }
        Ok(())
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn report(&self, source: &mut KafkaIngest) {
        let status = source.status();
        let state = &self.connection.state;
        let lag: u64 = source
            .lag()
            .iter()
            .filter_map(weir_kafka::PartitionLag::records)
            .sum();
        state.lag.store(lag, Ordering::Relaxed);
        state.source_errors.store(status.errors, Ordering::Relaxed);
        let items = self.mapper.items() as u64;
        state.items.store(items, Ordering::Relaxed);
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

fn ingest_config(config: &weir_mapping::ConnectionConfig) -> IngestConfig {
    IngestConfig {
        bootstrap_servers: config.bootstrap(),
        client_id: format!("weir-gateway-{}", config.name),
        group_id: config.group_id.clone(),
        topics: config.mapping.topics().map(str::to_owned).collect(),
        from: match config.consume_from {
            ConsumeFrom::Latest => StartFrom::Latest,
            ConsumeFrom::Earliest => StartFrom::Earliest,
        },
        properties: Vec::new(),
    }
}
