//! Batch of requests to read records again: the offset ranges to read, and the records of each
//! item.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use foldhash::{HashMap, HashMapExt};
use weir_fanout::{Interest, InterestChange, ItemInterest, ItemKey, MissedUpdate, RecordPosition};
use weir_kafka::Record;
use weir_kafka::ranges::{PartitionRange, RangeError, RangeReader};
use weir_mapping::{FieldSet, FieldValues, ItemNames, RecordView};

use crate::connection::KafkaConnection;
use crate::missed::{MissedRecord, ReadBackOutcome, ReadBackRequest, ResetReason};
use crate::record_classes::RecordClasses;
use crate::routing::RoutingTable;
use crate::schemas::fetch_missing;
use crate::worker::{field_union, routes};

/// Maximum size of the values of all records of a batch.
const BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes counted for a record in addition to its values.
const RECORD_BYTES: usize = 128;
/// Number of records between checks whether any client still waits.
const CHECK_INTERVAL: u64 = 256;

/// Range of offsets of a partition, from `from` up to but excluding `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BatchRange {
    /// Index of the partition in the layout.
    partition: u32,
    from: i64,
    to: i64,
}

/// Requests that are served together, so that records that several of them need are read once.
pub(super) struct ReadBackBatch<'c> {
    connection: &'c KafkaConnection,
    /// Requests, with the index of their item, and the reason if they have failed.
    requests: Vec<(ReadBackRequest, usize, Option<ResetReason>)>,
    /// Records of each item.
    records: Vec<Vec<MissedRecord>>,
    /// Routes to the items of the requests: the slot of an item is its index.
    table: RoutingTable,
    names: ItemNames,
    values: FieldValues,
    classes: Option<RecordClasses>,
    bytes: usize,
    /// Index of the next partition to read.
    next_partition: u32,
}

impl<'c> ReadBackBatch<'c> {
    pub(super) fn new(connection: &'c KafkaConnection, requests: Vec<ReadBackRequest>) -> Self {
        let mut items: HashMap<Arc<str>, (usize, FieldSet)> = HashMap::new();
        let mut indexed = Vec::with_capacity(requests.len());
        for request in requests {
            let next = items.len();
            let item = items.entry(Arc::clone(&request.item));
            let (index, fields) = item.or_insert_with(|| (next, FieldSet::empty()));
            fields.union_with(&request.fields);
            indexed.push((request, *index, None));
        }
        let mut table = RoutingTable::default();
        let count = items.len();
        for (name, (index, fields)) in items {
            let item = ItemKey {
                slot: index as u32,
                epoch: 0,
            };
            table.apply(Interest {
                name,
                shard: 0,
                change: InterestChange::Subscribe(ItemInterest {
                    item,
                    fields,
                    rows: None,
                    history: None,
                    positions: false,
                }),
            });
        }
        Self {
            connection,
            requests: indexed,
            records: vec![Vec::new(); count],
            table,
            names: ItemNames::default(),
            values: FieldValues::default(),
            classes: RecordClasses::of(connection),
            bytes: 0,
            next_partition: 0,
        }
    }

    /// Returns the next range that a request needs. After [`Self::fail_before`], it is of the same
    /// partition as before.
    pub(super) fn next_range(&mut self) -> Option<BatchRange> {
        let partitions = self.requests.first()?.0.layout.partitions() as u32;
        while self.next_partition < partitions {
            let partition = self.next_partition;
            self.next_partition += 1;
            let at = partition as usize;
            let pending = self.requests.iter().filter(|(.., failed)| failed.is_none());
            let ranges = pending.map(|(one, ..)| (one.from[at], one.to[at]));
            let ranges = ranges.filter(|(from, to)| from < to);
            let merge = |(from, to): (i64, i64), (first, end)| (from.min(first), to.max(end));
            if let Some((from, to)) = ranges.reduce(merge) {
                return Some(BatchRange {
                    partition,
                    from,
                    to,
                });
            }
        }
        None
    }

    /// Reads a range. Calls `on_record` for each record. Stops if it returns `false`, if no client
    /// waits, or if the values are larger than [`BYTES_MAX`].
    pub(super) fn read(
        &mut self,
        reader: &RangeReader,
        range: BatchRange,
        deadline: Instant,
        on_record: &mut dyn FnMut() -> bool,
    ) -> Result<(), RangeError> {
        let layout = match self.requests.first() {
            Some((request, ..)) => Arc::clone(&request.layout),
            None => return Ok(()),
        };
        let Some((topic, partition)) = layout.partition(range.partition) else {
            return Ok(());
        };
        let partition_range = PartitionRange {
            topic,
            partition,
            from: range.from,
            to: range.to,
        };
        let mut count = 0;
        reader.read(partition_range, deadline, &mut |record| {
            count += 1;
            let position = RecordPosition {
                generation: layout.generation(),
                partition: range.partition,
                offset: record.offset,
            };
            self.map(record, position);
            let is_check = count % CHECK_INTERVAL == 0;
            let is_wanted = !is_check || self.is_wanted();
            on_record() && is_wanted && self.bytes <= BYTES_MAX
        })
    }

    /// Returns `true` if a client still waits for a request that has not failed.
    fn is_wanted(&self) -> bool {
        let mut pending = self.requests.iter().filter(|(.., failed)| failed.is_none());
        pending.any(|(one, ..)| !one.is_cancelled.load(Ordering::Relaxed))
    }

    /// Adds a record to its items, with the values that a worker would send to the shards. Skips
    /// records whose extraction fails.
    fn map(&mut self, record: &Record<'_>, position: RecordPosition) {
        let config = &self.connection.config;
        let mapping = &config.mapping;
        let view = RecordView {
            topic: record.topic,
            partition: record.partition,
            offset: record.offset,
            timestamp_ms: record.timestamp_ms,
            key: record.key,
            value: record.value,
            headers: &record.headers,
        };
        if let Some(registry) = &self.connection.registry {
            if mapping.needs_registry() {
                fetch_missing(registry, mapping, config.schemas(), &view);
            }
        }
        if mapping.item_names(&view, &mut self.names).is_err() {
            return;
        }
        if let Some(classes) = &mut self.classes {
            classes.find(&view, &self.names, (mapping, &self.table), false);
        }
        let routes = routes(&self.table, &self.names, self.classes.as_ref());
        let Some(fields) = field_union(&routes) else {
            return;
        };
        if mapping
            .field_values(&view, &fields, &mut self.values)
            .is_err()
        {
            return;
        }
        let values = Arc::new(self.values.freeze());
        self.bytes += values.text_bytes() + RECORD_BYTES;
        for target in routes.iter().flat_map(|route| &route.targets) {
            let (values, fields) = (Arc::clone(&values), Arc::clone(&fields));
            let update = MissedUpdate { values, fields };
            self.records[target.interest.item.slot as usize]
                .push(MissedRecord { position, update });
        }
    }

    /// Fails the requests that need records of the range's partition before offset `first`, and
    /// schedules the partition to be read again for the others.
    pub(super) fn fail_before(&mut self, range: BatchRange, first: i64) {
        let at = range.partition as usize;
        for (request, _, failed) in &mut self.requests {
            let is_deleted = request.from[at] < request.to[at] && request.from[at] < first;
            // The second condition prevents that the same range is read forever.
            if is_deleted || first <= range.from {
                failed.get_or_insert(ResetReason::DeletedRecords);
            }
        }
        for records in &mut self.records {
            records.retain(|one| one.position.partition != range.partition);
        }
        self.next_partition = range.partition;
    }

    /// Fails all requests that have not failed yet.
    pub(super) fn fail_all(&mut self, reason: ResetReason) {
        for (.., failed) in &mut self.requests {
            failed.get_or_insert(reason);
        }
    }

    /// Returns all requests with their outcomes.
    pub(super) fn finish(self) -> impl Iterator<Item = (ReadBackRequest, ReadBackOutcome)> {
        let records = self.records.into_iter();
        let records: Vec<Arc<[MissedRecord]>> = records.map(Into::into).collect();
        self.requests
            .into_iter()
            .map(move |(request, item, failed)| {
                let outcome = match failed {
                    None => Ok(Arc::clone(&records[item])),
                    Some(reason) => Err(reason),
                };
                (request, outcome)
            })
    }
}
