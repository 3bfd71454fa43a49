//! The thread of one Kafka connection: poll, name the items, drop what nobody wants, extract the
//! fields once, post the update to the shards that want it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use weir_kafka::{IngestConfig, KafkaIngest, Record, RecordSource, SourceError, StartFrom};
use weir_mapping::{ConsumeFrom, ErrorStrategy, FieldValues, ItemNames, RecordView};
use weir_net::{MailSender, PostError};

use crate::connection::{Connection, add};
use crate::routing::{RoutingTable, Wish};
use crate::shard::ShardMail;

/// Longest wait for records, so that stopping and status reports are not late.
const POLL: Duration = Duration::from_millis(100);
/// Records taken from one poll.
const POLL_RECORDS: usize = 500;
/// How often the connection's state is looked at.
const STATUS_PERIOD: Duration = Duration::from_millis(250);
/// How long to wait for a shard's full inbox before looking at the stop flag.
const POST_PATIENCE: Duration = Duration::from_millis(100);

/// Wishes an ingest thread has not read yet; a shard keeps what does not fit.
pub(crate) const WISHES_MAX: usize = 4096;

/// One connection's ingest, to be run on its own thread.
pub(crate) struct Ingest {
    connection: Arc<Connection>,
    wishes: Receiver<Wish>,
    shards: Vec<MailSender<ShardMail>>,
    number: u16,
    stop: Arc<AtomicBool>,
    table: RoutingTable,
    names: ItemNames,
    values: FieldValues,
}

impl Ingest {
    /// `number` is the connection's position in the configuration.
    pub(crate) fn new(
        connection: Arc<Connection>,
        number: u16,
        wishes: Receiver<Wish>,
        shards: Vec<MailSender<ShardMail>>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        Self {
            connection,
            wishes,
            shards,
            number,
            stop,
            table: RoutingTable::new(),
            names: ItemNames::default(),
            values: FieldValues::default(),
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
    }

    fn consume(&mut self) -> Result<(), SourceError> {
        if self.connection.config.consume_from == ConsumeFrom::Earliest {
            // The whole topic is owed to the first subscriber, so reading starts with it.
            self.connection.state.report(true, None);
            while self.table.is_empty() {
                if self.stopped() {
                    return Ok(());
                }
                if let Ok(wish) = self.wishes.recv_timeout(POLL) {
                    self.table.apply(wish);
                }
            }
        }
        let mut source = KafkaIngest::start(&ingest_config(&self.connection.config))?;
        let mut looked_at = Instant::now();
        self.report(&mut source);
        while !self.stopped() {
            source.poll(POLL, POLL_RECORDS, &mut |record| self.on_record(&record))?;
            self.read_wishes();
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
        state
            .items
            .store(self.table.len() as u64, Ordering::Relaxed);
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

    /// Wishes are read before every record: a record written after a client got its SUBOK cannot
    /// overtake the wish that client's shard posted before.
    fn read_wishes(&mut self) {
        while let Ok(wish) = self.wishes.try_recv() {
            self.table.apply(wish);
        }
    }

    fn on_record(&mut self, record: &Record<'_>) {
        self.read_wishes();
        let connection = Arc::clone(&self.connection);
        let state = &connection.state;
        let mapping = &connection.config.mapping;
        add(&state.records, 1);
        add(
            &state.record_bytes,
            record.value.map_or(0, <[u8]>::len) as u64,
        );
        let view = RecordView {
            topic: record.topic,
            partition: record.partition,
            offset: record.offset,
            timestamp_ms: record.timestamp_ms,
            key: record.key,
            value: record.value,
            headers: &record.headers,
        };
        let named = mapping.item_names(&view, &mut self.names);
        if let Err(error) = named {
            return self.on_extraction_error(record, &error);
        }
        if !self
            .names
            .iter()
            .any(|name| !self.table.targets(name).is_empty())
        {
            add(&state.unrouted, 1);
            return;
        }
        if let Err(error) = mapping.field_values(&view, &mapping.all_fields(), &mut self.values) {
            return self.on_extraction_error(record, &error);
        }
        let update = Arc::new(self.values.freeze());
        for name in self.names.iter() {
            for target in self.table.targets(name) {
                let mail = ShardMail::Update {
                    item: target.item,
                    update: Arc::clone(&update),
                };
                add(&state.updates, 1);
                self.post(target.shard, mail);
            }
        }
    }

    fn on_extraction_error(&self, record: &Record<'_>, error: &weir_mapping::ExtractionError) {
        let config = &self.connection.config;
        add(&self.connection.state.failed, 1);
        tracing::debug!(
            connection = %config.name, topic = record.topic, partition = record.partition,
            offset = record.offset, %error, "record skipped"
        );
        if config.error_strategy == ErrorStrategy::ForceUnsubscription {
            tracing::warn!(
                connection = %config.name, topic = record.topic, partition = record.partition,
                offset = record.offset, %error,
                "all items are unsubscribed (record.extraction.error.strategy)"
            );
            for shard in 0..self.shards.len() {
                self.post(
                    shard as u16,
                    ShardMail::ForceUnsubscribe {
                        connection: self.number,
                    },
                );
            }
        }
    }

    /// Waits while the shard's inbox is full: a slow shard slows reading from Kafka, nothing is
    /// dropped on the way.
    fn post(&self, shard: u16, mail: ShardMail) {
        let Some(sender) = self.shards.get(usize::from(shard)) else {
            return;
        };
        let mut mail = mail;
        loop {
            match sender.post(mail, POST_PATIENCE) {
                Ok(()) | Err(PostError::Closed(_)) => return,
                Err(PostError::Full(back)) if !self.stopped() => {
                    add(&self.connection.state.shard_waits, 1);
                    mail = back;
                }
                Err(PostError::Full(_)) => return,
            }
        }
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
