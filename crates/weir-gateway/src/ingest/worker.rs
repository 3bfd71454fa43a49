//! A mapping worker: determines a record's items, skips records without subscribers, extracts the
//! needed fields once, and posts the update to the interested shards.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use weir_kafka::{LentRecord, Record};
use weir_mapping::{ErrorStrategy, ExtractionError, FieldSet, FieldValues, ItemNames, RecordView};
use weir_net::{MailboxSender, PostError};

use super::last_values::LastValueStore;
use super::late::PassedRecords;
use super::skips::Skips;
use crate::connection::KafkaConnection;
use crate::counters::{WorkerCounters, add};
use crate::interest::{Interest, ItemInterest};
use crate::routing::{CachedValues, Route, RoutingTable};
use crate::shard::ShardEvent;

/// Withdrawn items removed before the next records; more if many are pending.
const WITHDRAWN_PER_ITERATION: usize = 1_000;

/// Maximum wait for a full inbox before the stop flag is checked.
const POST_TIMEOUT: Duration = Duration::from_millis(100);
/// Maximum number of waits for full inboxes after the stop, so that a stalled shard does not block
/// the shutdown.
const LATE_MAX: u32 = 20;

/// A worker's own routing table and buffers; workers share nothing.
pub(super) struct Mapper {
    connection: Arc<KafkaConnection>,
    number: u16,
    index: usize,
    senders: ShardSenders,
    table: RoutingTable,
    names: ItemNames,
    values: FieldValues,
    /// Items to be removed in slices, because shards have withdrawn their interest.
    withdrawn: VecDeque<Interest>,
    last: Option<LastValueStore>,
    passed: Option<PassedRecords>,
    skips: Skips,
}

impl Drop for Mapper {
    fn drop(&mut self) {
        self.skips.finish(&self.connection.config.name);
    }
}

impl Mapper {
    /// Creates a worker; with `last_bytes` above 0 it stores the last record of every item.
    pub(super) fn new(
        connection: Arc<KafkaConnection>,
        number: u16,
        index: usize,
        senders: ShardSenders,
        last_bytes: usize,
    ) -> Self {
        Self {
            connection,
            number,
            index,
            senders,
            table: RoutingTable::default(),
            names: ItemNames::default(),
            values: FieldValues::default(),
            withdrawn: VecDeque::new(),
            last: (last_bytes > 0).then(|| LastValueStore::new(last_bytes)),
            passed: None,
            skips: Skips::new(Instant::now()),
        }
    }

    fn counters(&self) -> &WorkerCounters {
        &self.connection.workers[self.index].counters
    }

    /// Applies pending interests. Must be called after records were polled and before they are
    /// mapped, so that records written after a client's `SUBOK` find its interest.
    pub(super) fn apply_interests(&mut self) {
        let now = Instant::now();
        self.skips.sum_up(&self.connection.config.name, now);
        self.update_late_window(now);
        let connection = Arc::clone(&self.connection);
        connection.workers[self.index].interests.take(|interest| {
            if interest.wanted().is_none() {
                return self.withdrawn.push_back(interest);
            }
            self.count_passed(&interest);
            self.send_backfill(&interest);
            for event in self.table.backfill_events(&interest) {
                self.senders.send(interest.shard, event, self.counters());
            }
            self.table.apply(interest);
        });
        self.forget_withdrawn();
        let counters = self.counters();
        let items = self.table.len() as u64;
        counters.items.store(items, Ordering::Relaxed);
        if let Some(last) = &self.last {
            for (counter, value) in [
                (&counters.last_values, last.len() as u64),
                (&counters.last_value_bytes, last.bytes as u64),
                (&counters.last_values_evicted, last.evicted),
            ] {
                counter.store(value, Ordering::Relaxed);
            }
        }
    }

    fn update_late_window(&mut self, now: Instant) {
        let is_late = self.connection.late.is_open();
        match &self.passed {
            None if is_late => self.passed = Some(PassedRecords::new(now)),
            Some(passed) if !is_late || passed.has_ended(now) => self.passed = None,
            None | Some(_) => {}
        }
    }

    /// Counts the records of an item that were read before a shard's interest in it.
    fn count_passed(&self, interest: &Interest) {
        let Some(passed) = &self.passed else { return };
        let route = self.table.route(&interest.name);
        let targets = route.map_or(&[][..], |route| &route.targets);
        if targets.iter().all(|target| target.shard != interest.shard) {
            add(&self.counters().late_records, passed.get(&interest.name));
        }
    }

    /// Removes some of the withdrawn items. Records are delayed meanwhile, and shards drop updates
    /// for such items.
    fn forget_withdrawn(&mut self) {
        let count = (self.withdrawn.len() / 8).max(WITHDRAWN_PER_ITERATION);
        let count = count.min(self.withdrawn.len());
        for interest in self.withdrawn.drain(..count) {
            self.table.apply(interest);
        }
        if self.withdrawn.is_empty() {
            self.withdrawn = VecDeque::new();
        }
    }

    /// Sends the current values to a shard with a new interest in an item or in more of its fields.
    fn send_backfill(&mut self, interest: &Interest) {
        let Some(ItemInterest { item, fields, .. }) = interest.wanted() else {
            return;
        };
        let route = self.table.route(&interest.name);
        let routed = route.and_then(|route| route.cached(fields));
        let known = routed.or_else(|| self.read_last(&interest.name, fields));
        if let Some((update, fields)) = known {
            let item = *item;
            let event = ShardEvent::Backfill {
                item,
                update,
                fields,
            };
            self.senders.send(interest.shard, event, self.counters());
        }
    }

    fn read_last(&mut self, name: &str, fields: &FieldSet) -> Option<CachedValues> {
        let (mapping, values) = (&self.connection.config.mapping, &mut self.values);
        let read = |record: &RecordView<'_>| mapping.field_values(record, fields, values).is_ok();
        let is_read = self.last.as_ref()?.with(name, read)?;
        is_read.then(|| (Arc::new(self.values.freeze()), Arc::new(fields.clone())))
    }

    pub(super) fn on_record(&mut self, record: &LentRecord<'_>) {
        let mut headers_skipped = 0;
        let record = &record.record(&mut headers_skipped);
        let counters = &self.connection.workers[self.index].counters;
        let mapping = &self.connection.config.mapping;
        add(&counters.records, 1);
        let bytes = record.value.map_or(0, <[u8]>::len);
        add(&counters.record_bytes, bytes as u64);
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
        if let Some(last) = &mut self.last {
            self.names.iter().for_each(|name| last.put(name, &view));
        }
        if let Some(passed) = &mut self.passed {
            self.names.iter().for_each(|name| passed.note(name));
        }
        let names = self.names.iter();
        let routes: SmallVec<[&Route; 4]> =
            names.filter_map(|name| self.table.route(name)).collect();
        let Some(fields) = wanted(&routes) else {
            add(&counters.unrouted, 1);
            return;
        };
        if let Err(error) = mapping.field_values(&view, &fields, &mut self.values) {
            drop(routes);
            return self.on_extraction_error(record, &error);
        }
        let update = Arc::new(self.values.freeze());
        if self.senders.shards.len() > 1 {
            // Another shard may subscribe to the item later.
            for route in &routes {
                route.store(&update, &fields, record.timestamp_ms);
            }
        }
        for target in routes.iter().flat_map(|route| &route.targets) {
            let event = ShardEvent::Update {
                item: target.interest.item,
                update: Arc::clone(&update),
                fields: Arc::clone(&fields),
                record_ms: record.timestamp_ms,
            };
            add(&counters.updates, 1);
            self.senders.send(target.shard, event, counters);
        }
    }

    fn on_extraction_error(&mut self, record: &Record<'_>, error: &ExtractionError) {
        let counters = &self.connection.workers[self.index].counters;
        let config = &self.connection.config;
        add(&counters.failed, 1);
        if error.is_deserialization() {
            add(&counters.undecodable, 1);
        }
        if self.skips.note(record, error) {
            tracing::warn!(
                connection = %config.name, topic = record.topic, partition = record.partition,
                offset = record.offset, cause = %error, "record skipped"
            );
        }
        if config.error_strategy == ErrorStrategy::ForceUnsubscription {
            tracing::warn!(
                connection = %config.name, topic = record.topic, partition = record.partition,
                offset = record.offset, %error,
                "unsubscribed all items because of record.extraction.error.strategy"
            );
            let connection = self.number;
            for shard in 0..self.senders.shards.len() {
                let event = ShardEvent::ForceUnsubscribe { connection };
                self.senders.send(shard as u16, event, counters);
            }
        }
    }
}

#[derive(Clone)]
pub(super) struct ShardSenders {
    shards: Vec<MailboxSender<ShardEvent>>,
    stop: Arc<AtomicBool>,
    late: Arc<AtomicU32>,
}

impl ShardSenders {
    pub(super) fn new(shards: Vec<MailboxSender<ShardEvent>>, stop: Arc<AtomicBool>) -> Self {
        Self {
            shards,
            stop,
            late: Arc::default(),
        }
    }

    /// Sends an event and waits while the shard's inbox is full, so a slow shard slows reading from
    /// Kafka. Events are dropped, and counted, only after the stop.
    pub(super) fn send(&self, shard: u16, event: ShardEvent, counters: &WorkerCounters) {
        let Some(sender) = self.shards.get(usize::from(shard)) else {
            return;
        };
        let mut event = event;
        loop {
            match sender.post(event, POST_TIMEOUT) {
                Ok(()) | Err(PostError::Disconnected(_)) => return,
                Err(PostError::Timeout(back)) => {
                    add(&counters.shard_waits, 1);
                    if self.is_too_late() {
                        return add(&counters.undelivered, 1);
                    }
                    event = back;
                }
            }
        }
    }

    fn is_too_late(&self) -> bool {
        if !self.stop.load(Ordering::Relaxed) {
            return false;
        }
        let late = self.late.fetch_add(1, Ordering::Relaxed);
        if late == LATE_MAX {
            tracing::warn!("event loop stalled, dropped pending updates");
        }
        late >= LATE_MAX
    }
}

/// Returns the union of the fields of all routes; `None` without routes.
fn wanted(routes: &[&Route]) -> Option<Arc<FieldSet>> {
    let (first, others) = routes.split_first()?;
    if others.is_empty() {
        return Some(Arc::clone(&first.fields));
    }
    let mut fields = FieldSet::clone(&first.fields);
    for route in others {
        fields.union_with(&route.fields);
    }
    Some(Arc::new(fields))
}
