//! One worker: name a record's items, drop what nobody wants, extract the wanted fields once, post
//! the update to the shards that want it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use weir_kafka::{LentRecord, Record};
use weir_mapping::{ErrorStrategy, ExtractionError, FieldSet, FieldValues, ItemNames, RecordView};

use super::post::Post;
use crate::connection::{Connection, Worker, add};
use crate::routing::{Route, RoutingTable};
use crate::shard::ShardMail;

/// Everything a worker owns: its own routing table and buffers, so that workers share nothing.
pub(super) struct Mapper {
    connection: Arc<Connection>,
    /// The connection's position in the configuration.
    number: u16,
    /// The worker's position in the connection.
    index: usize,
    post: Post,
    table: RoutingTable,
    names: ItemNames,
    values: FieldValues,
}

impl Mapper {
    pub(super) fn new(connection: Arc<Connection>, number: u16, index: usize, post: Post) -> Self {
        Self {
            connection,
            number,
            index,
            post,
            table: RoutingTable::new(),
            names: ItemNames::default(),
            values: FieldValues::default(),
        }
    }

    /// To be called when records have been taken from Kafka and before they are mapped: a record
    /// written after a client got its `SUBOK` then finds the wish that its shard left before.
    pub(super) fn read_wishes(&mut self) {
        let Worker { wishes, counters } = &self.connection.workers[self.index];
        wishes.take(|wish| self.table.apply(wish));
        let items = self.table.len() as u64;
        counters.items.store(items, Ordering::Relaxed);
    }

    pub(super) fn on_record(&mut self, record: &LentRecord<'_>) {
        let mut headers_skipped = 0;
        let record = &record.record(&mut headers_skipped);
        let counters = &self.connection.workers[self.index].counters;
        let mapping = &self.connection.config.mapping;
        add(&counters.records, 1);
        add(
            &counters.record_bytes,
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
        if let Err(error) = mapping.item_names(&view, &mut self.names) {
            return self.on_extraction_error(record, &error);
        }
        if self.names.unnameable() > 0 {
            add(&counters.unnameable, self.names.unnameable() as u64);
        }
        let names = self.names.iter();
        let routes: SmallVec<[&Route; 4]> =
            names.filter_map(|name| self.table.route(name)).collect();
        let Some(fields) = wanted(&routes) else {
            add(&counters.unrouted, 1);
            return;
        };
        if let Err(error) = mapping.field_values(&view, &fields, &mut self.values) {
            return self.on_extraction_error(record, &error);
        }
        let update = Arc::new(self.values.freeze());
        for target in routes.iter().flat_map(|route| route.targets()) {
            let mail = ShardMail::Update {
                item: target.item,
                update: Arc::clone(&update),
                fields: Arc::clone(&fields),
            };
            add(&counters.updates, 1);
            self.post.send(target.shard, mail, counters);
        }
    }

    fn on_extraction_error(&self, record: &Record<'_>, error: &ExtractionError) {
        let Worker { counters, .. } = &self.connection.workers[self.index];
        let config = &self.connection.config;
        add(&counters.failed, 1);
        if error.is_deserialization() {
            add(&counters.undecodable, 1);
        }
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
            let connection = self.number;
            self.post
                .send_to_all(|| ShardMail::ForceUnsubscribe { connection }, counters);
        }
    }
}

/// The fields that any of the routes wants; `None` if there is no route.
fn wanted(routes: &[&Route]) -> Option<Arc<FieldSet>> {
    let (first, others) = routes.split_first()?;
    if others.is_empty() {
        return Some(Arc::clone(first.fields()));
    }
    let mut fields = FieldSet::clone(first.fields());
    for route in others {
        fields.union_with(route.fields());
    }
    Some(Arc::new(fields))
}
