//! A mapping worker: determines a record's items, skips records without subscribers, extracts the
//! needed fields once, and posts the update to the interested shards.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use smallvec::SmallVec;
use weir_fanout::{Interest, ItemInterest, PartitionLayout};
use weir_kafka::{BorrowedRecord, Record};
use weir_mapping::{
    ErrorStrategy, ExtractionError, FieldSet, FieldValues, FrozenValues, ItemNames, RecordView,
};

use weir_net::limited;
use weir_net::otlp::unix_ns;

use crate::class_name::{ClassName, single_names};
use crate::connection::KafkaConnection;
use crate::counters::{WorkerCounters, add};
use crate::item_event::{ItemEvent, PositionedUpdate, TracedUpdate};
use crate::item_records::StoreConfig;
use crate::last_values::LastValueStore;
use crate::late::PassedRecords;
use crate::record_classes::RecordClasses;
use crate::routing::{CachedValues, Route, RoutingTable};
use crate::shard_senders::ShardSenders;
use crate::skips::Skips;
use crate::snapshot::SnapshotMapping;
use crate::traces::RecordTraces;

/// Minimum number of withdrawn items removed per iteration; more if many are pending.
const WITHDRAWN_PER_ITERATION: usize = 1_000;

/// Number of undecodable records in a row after which an error is logged, because the configured
/// evaluator types are probably wrong.
const UNDECODABLE_MAX: u64 = 100;

/// A worker's own routing table and buffers; workers share nothing.
pub(crate) struct Mapper<E> {
    connection: Arc<KafkaConnection>,
    /// Number of the connection.
    number: u16,
    /// Index of this worker within the connection.
    index: usize,
    senders: ShardSenders<E>,
    table: RoutingTable,
    /// Item names of the current record.
    names: ItemNames,
    /// Field values of the current record.
    values: FieldValues,
    /// Items to be removed in slices, because shards have withdrawn their interest.
    withdrawn: VecDeque<Interest>,
    last: Option<LastValueStore>,
    /// Present if the last records are snapshots.
    snapshot: Option<SnapshotMapping>,
    /// Records that were read before a subscription to their items; present for a limited time
    /// after a restart from stored offsets.
    passed: Option<PassedRecords>,
    /// Present if item rules distinguish records of an item.
    classes: Option<RecordClasses>,
    skips: Skips,
    /// The partitions of the connection, for subscribers that need positions.
    layout: Option<Arc<PartitionLayout>>,
    layout_generation: u32,
    /// Present if records are traced.
    traces: Option<RecordTraces>,
    /// Time of the current batch.
    now: Instant,
}

impl<E> Drop for Mapper<E> {
    fn drop(&mut self) {
        self.skips.finish(&self.connection.config.name);
    }
}

impl<E: From<ItemEvent>> Mapper<E> {
    /// Creates a worker; if there is memory for it, it stores the last records of every item.
    pub(crate) fn new(
        connection: Arc<KafkaConnection>,
        number: u16,
        index: usize,
        senders: ShardSenders<E>,
        store: StoreConfig,
    ) -> Self {
        let now = Instant::now();
        let new = || LastValueStore::new(store.scope, store.bytes, now);
        Self {
            snapshot: SnapshotMapping::of(&connection.config),
            classes: RecordClasses::of(&connection),
            connection,
            number,
            index,
            senders,
            table: RoutingTable::default(),
            names: ItemNames::default(),
            values: FieldValues::default(),
            withdrawn: VecDeque::new(),
            last: (store.bytes > 0).then(new),
            passed: None,
            skips: Skips::new(now),
            layout: None,
            layout_generation: 0,
            traces: None,
            now,
        }
    }

    /// Sets the tracing of sampled records.
    pub(crate) fn traced(mut self, traces: Option<RecordTraces>) -> Self {
        self.traces = traces;
        self
    }

    fn counters(&self) -> &WorkerCounters {
        &self.connection.workers[self.index].counters
    }

    /// Applies pending interests. Must be called after records were polled and before they are
    /// mapped, so that records written after a client's `SUBOK` find its interest.
    pub(crate) fn apply_interests(&mut self) {
        let now = Instant::now();
        self.now = now;
        self.expire_snapshots();
        self.skips.sum_up(&self.connection.config.name, now);
        self.update_late_window(now);
        self.update_layout();
        let connection = Arc::clone(&self.connection);
        connection.workers[self.index].interests.take(|interest| {
            if interest.subscribed().is_none() {
                return self.withdrawn.push_back(interest);
            }
            self.count_passed(&interest);
            self.send_backfill(&interest);
            for mut event in self.table.backfill_events(&interest) {
                if let (Some(snapshot), Some(last)) = (&self.snapshot, &self.last) {
                    let extraction = (&*connection.config.mapping, &mut self.values);
                    snapshot.add_stored(last, &mut event, &interest, extraction);
                }
                self.senders.send(interest.shard, event, self.counters());
            }
            self.table.apply(interest);
        });
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.update_fields(&connection.config.mapping);
        }
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

    fn update_layout(&mut self) {
        let generation = self.connection.positions.generation();
        if generation != self.layout_generation {
            self.layout_generation = generation;
            self.layout = self.connection.positions.layout();
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
            let counts = single_names(&interest.name).map(|name| passed.get(&name));
            add(&self.counters().late_records, counts.sum());
        }
    }

    /// Removes some of the withdrawn items; all at once would delay records. Shards drop updates
    /// for items that are not removed yet.
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
        let Some(ItemInterest { item, fields, .. }) = interest.subscribed() else {
            return;
        };
        let route = self.table.route(&interest.name);
        let routed = route.and_then(|route| route.cached(fields));
        let known = routed.or_else(|| self.read_last(&interest.name, fields));
        if let Some((update, fields)) = known {
            let item = *item;
            let event = ItemEvent::Backfill {
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
        let last = self.last.as_ref().filter(|last| last.has_states())?;
        let is_read = last.with(name, read)?;
        is_read.then(|| (Arc::new(self.values.freeze()), Arc::new(fields.clone())))
    }

    pub(crate) fn on_record(&mut self, record: &BorrowedRecord<'_>) {
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
        if let Some(classes) = &mut self.classes {
            let all = self.last.is_some() || self.passed.is_some();
            classes.find(&view, &self.names, (mapping, &self.table), all);
        }
        if self.snapshot.is_some() {
            return self.on_snapshot_record(record, &view);
        }
        if let Some(last) = &mut self.last {
            let now = self.now;
            let names = stored_names(&self.names, self.classes.as_ref());
            names.for_each(|name| last.put(name, &view, None, now));
        }
        if let Some(passed) = &mut self.passed {
            let names = stored_names(&self.names, self.classes.as_ref());
            names.for_each(|name| passed.note(name));
        }
        let routes = routes(&self.table, &self.names, self.classes.as_ref());
        let Some(fields) = field_union(&routes) else {
            add(&counters.unrouted, 1);
            return;
        };
        if let Err(error) = mapping.field_values(&view, &fields, &mut self.values) {
            drop(routes);
            return self.on_extraction_error(record, &error);
        }
        if self.skips.note_decoded() {
            counters.undecodable_in_a_row.store(0, Ordering::Relaxed);
        }
        let update = Arc::new(self.values.freeze());
        self.post(&routes, &update, &fields, &view);
    }

    /// Maps a record of a connection that stores snapshots. All its fields are extracted, with or
    /// without subscribers, so that a record that cannot be extracted replaces no other one.
    fn on_snapshot_record(&mut self, record: &Record<'_>, view: &RecordView<'_>) {
        let connection = Arc::clone(&self.connection);
        let (Some(snapshot), Some(last)) = (&self.snapshot, &mut self.last) else {
            return;
        };
        if self.names.is_empty() {
            return add(&self.counters().unrouted, 1);
        }
        let (mapping, fields) = (&connection.config.mapping, Arc::clone(snapshot.fields()));
        if let Err(error) = mapping.field_values(view, &fields, &mut self.values) {
            return self.on_extraction_error(record, &error);
        }
        if self.skips.note_decoded() {
            let in_a_row = &connection.workers[self.index].counters.undecodable_in_a_row;
            in_a_row.store(0, Ordering::Relaxed);
        }
        let names = stored_names(&self.names, self.classes.as_ref());
        snapshot.put(last, names, view, &self.values, self.now);
        let routes = routes(&self.table, &self.names, self.classes.as_ref());
        if routes.is_empty() {
            return add(&self.counters().unrouted, 1);
        }
        let update = Arc::new(self.values.freeze());
        self.post(&routes, &update, &fields, view);
    }

    /// Discards the snapshots of idle items, and clears them for their subscribers.
    fn expire_snapshots(&mut self) {
        let (Some(snapshot), Some(last)) = (&mut self.snapshot, &mut self.last) else {
            return;
        };
        let expired = snapshot.expire(last, &self.connection.config.name, self.now);
        let ended = ended_snapshots(&expired, &self.table, last);
        add(&self.counters().snapshots_expired, expired.len() as u64);
        for name in ended {
            let Some(route) = self.table.route_mut(&name) else {
                continue;
            };
            route.forget_values();
            let items = route.targets.iter();
            let items: SmallVec<[_; 2]> = items
                .map(|target| (target.shard, target.interest.item))
                .collect();
            for (shard, item) in items {
                self.senders
                    .send(shard, ItemEvent::Clear(item), self.counters());
            }
        }
    }

    /// Posts the update of a record to the interested shards of its routes. `fields` are the fields
    /// that were extracted from the record.
    fn post(
        &self,
        routes: &[&Route],
        update: &Arc<FrozenValues>,
        fields: &Arc<FieldSet>,
        record: &RecordView<'_>,
    ) {
        let (counters, record_ms) = (self.counters(), record.timestamp_ms);
        let traces = self.traces.as_ref();
        let trace = traces.and_then(|traces| traces.begin(record, self.now));
        if self.senders.shards.len() > 1 {
            // Another shard may subscribe to the item later.
            for route in routes {
                route.store(update, fields, record_ms);
            }
        }
        for target in routes.iter().flat_map(|route| &route.targets) {
            let (item, update, fields) =
                (target.interest.item, Arc::clone(update), Arc::clone(fields));
            let event = match &trace {
                None => ItemEvent::Update {
                    item,
                    update,
                    fields,
                    record_ms,
                },
                Some(trace) => ItemEvent::Traced(Box::new(TracedUpdate {
                    item,
                    update,
                    fields,
                    record_ms,
                    trace: Arc::clone(trace),
                    posted_ns: unix_ns(),
                })),
            };
            let event = match target.interest.positions {
                true => self.with_position(event, record),
                false => event,
            };
            add(&counters.updates, 1);
            self.senders.send(target.shard, event, counters);
        }
    }

    /// Adds the position of a record to its update, if the partitions are known.
    fn with_position(&self, update: ItemEvent, record: &RecordView<'_>) -> ItemEvent {
        let layout = self.layout.as_ref();
        let position =
            layout.and_then(|one| one.place(record.topic, record.partition, record.offset));
        match position {
            None => update,
            Some(position) => ItemEvent::Positioned(Box::new(PositionedUpdate {
                connection: self.number,
                position,
                update,
            })),
        }
    }

    fn on_extraction_error(&mut self, record: &Record<'_>, error: &ExtractionError) {
        let counters = &self.connection.workers[self.index].counters;
        let config = &self.connection.config;
        let kind = error.kind();
        add(&counters.failed[kind as usize], 1);
        if error.is_deserialization() {
            add(&counters.undecodable, 1);
            let in_a_row = self.skips.note_undecodable();
            counters
                .undecodable_in_a_row
                .store(in_a_row, Ordering::Relaxed);
            if in_a_row == UNDECODABLE_MAX {
                limited!(
                    error, "undecodable records", connection = %config.name,
                    topic = record.topic, records = in_a_row, cause = %error,
                    "no record can be decoded, check the evaluator types"
                );
            }
        }
        if self.skips.note(record, error) {
            tracing::warn!(
                connection = %config.name, topic = record.topic, partition = record.partition,
                offset = record.offset, reason = kind.label(), cause = %error, "record skipped"
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
                let event = ItemEvent::ForceUnsubscribe { connection };
                self.senders.send(shard as u16, event, counters);
            }
        }
    }
}

/// Returns the names with which a record is stored: of its items, and of its classes.
fn stored_names<'a>(
    names: &'a ItemNames,
    classes: Option<&'a RecordClasses>,
) -> impl Iterator<Item = &'a str> {
    let classes = classes.into_iter().flat_map(RecordClasses::stored);
    names.iter().chain(classes)
}

/// Returns the routes of a record: of its items, and of its classes.
pub(crate) fn routes<'a>(
    table: &'a RoutingTable,
    names: &ItemNames,
    classes: Option<&RecordClasses>,
) -> SmallVec<[&'a Route; 4]> {
    let classes = classes.into_iter().flat_map(RecordClasses::routed);
    let names = names.iter().chain(classes);
    names.filter_map(|name| table.route(name)).collect()
}

/// Returns the items whose snapshots end because their stored records have expired: items with the
/// name of an expired record, and classes that have no other stored record.
fn ended_snapshots(
    expired: &[Arc<str>],
    table: &RoutingTable,
    last: &LastValueStore,
) -> Vec<Arc<str>> {
    let mut ended = Vec::new();
    for name in expired {
        let Some(class) = ClassName::parse(name) else {
            ended.push(Arc::clone(name));
            continue;
        };
        let classes = table.classes(class.item);
        let classes = classes.map_or(&[][..], |own| own.of_value(class.filter, class.values));
        for name in classes {
            if !last.has(name) && !ended.contains(name) {
                ended.push(Arc::clone(name));
            }
        }
    }
    ended
}

/// Returns the union of the fields of all routes; `None` without routes.
pub(crate) fn field_union(routes: &[&Route]) -> Option<Arc<FieldSet>> {
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
