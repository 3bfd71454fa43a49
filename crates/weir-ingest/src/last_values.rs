//! The last records of every item, with or without subscribers, in bounded memory, so that the
//! first subscriber gets current values at once.
//!
//! Records are stored as raw bytes, so an item without subscribers costs a copy and no extraction
//! (docs/decisions/0017). Snapshots (`item.snapshot.enabled.mode`) may need several records of an
//! item.

use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::HashMap;
use lru_slab::LruSlab;
use weir_mapping::RecordView;

use crate::class_name::single_names;
use crate::item_records::{ItemRecords, RowOf, StoredRecords};
use crate::stored_record::RecordSource;

/// Memory overhead per item in bytes, in addition to its name and records.
const ENTRY_BYTES: usize = 192;

/// Records by item name; the least recently updated items are evicted.
#[derive(Debug)]
pub(crate) struct LastValueStore {
    scope: StoredRecords,
    bytes_max: usize,
    pub(crate) bytes: usize,
    entries: LruSlab<LastValueEntry>,
    by_name: HashMap<Arc<str>, u32>,
    topics: Vec<Box<str>>,
    start: Instant,
    /// Number of records stored so far.
    stored: u64,
    /// Number of items evicted so far.
    pub(crate) evicted: u64,
}

#[derive(Debug, Default)]
struct LastValueEntry {
    name: Arc<str>,
    /// Seconds from the start of the store to the last record.
    updated_s: u32,
    records: ItemRecords,
}

impl LastValueEntry {
    fn bytes(&self) -> usize {
        ENTRY_BYTES + self.name.len() + self.records.bytes()
    }
}

impl LastValueStore {
    pub(crate) fn new(scope: StoredRecords, bytes_max: usize, start: Instant) -> Self {
        Self {
            scope,
            bytes_max,
            bytes: 0,
            entries: LruSlab::new(),
            by_name: HashMap::default(),
            topics: Vec::new(),
            start,
            stored: 0,
            evicted: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() as usize
    }

    /// Returns `true` if a record is the current state of its item.
    pub(crate) fn has_states(&self) -> bool {
        self.scope == StoredRecords::Last
    }

    /// Stores a record of an item; `row` is the row that it changes.
    pub(crate) fn put(
        &mut self,
        name: &str,
        record: &RecordView<'_>,
        row: Option<RowOf<'_>>,
        now: Instant,
    ) {
        let source = RecordSource {
            order: self.stored,
            topic: self.topic(record.topic),
        };
        self.stored += 1;
        let updated_s = self.seconds(now);
        let slot = match self.by_name.get(name) {
            Some(slot) => *slot,
            None => self.insert(name),
        };
        let entry = self.entries.get_mut(slot);
        self.bytes -= entry.bytes();
        entry.records.put(source, record, self.scope, row);
        entry.updated_s = updated_s;
        let is_empty = entry.records.is_empty();
        self.bytes += entry.bytes();
        if is_empty {
            self.remove(slot);
        }
        while self.bytes > self.bytes_max {
            let Some(oldest) = self.entries.lru() else {
                break;
            };
            self.remove(oldest);
            self.evicted += 1;
        }
    }

    /// Discards items without records for more than `max_idle`, and returns their names.
    pub(crate) fn expire(&mut self, max_idle: Duration, now: Instant) -> Vec<Arc<str>> {
        let now_s = u64::from(self.seconds(now));
        let mut expired = Vec::new();
        while let Some(oldest) = self.entries.lru() {
            let updated_s = u64::from(self.entries.peek(oldest).updated_s);
            if updated_s + max_idle.as_secs() >= now_s {
                break;
            }
            expired.extend(self.remove(oldest));
        }
        expired
    }

    /// Passes an item's last record to `reader`.
    pub(crate) fn with<T>(
        &self,
        name: &str,
        reader: impl FnOnce(&RecordView<'_>) -> T,
    ) -> Option<T> {
        let last = self
            .entries_of(name)
            .filter_map(|one| one.records.iter().last());
        let (_, last) = last.max_by_key(|(order, _)| *order)?;
        Some(last.read(&self.topics, reader))
    }

    /// Returns `true` if records of an item are stored.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.entries_of(name).next().is_some()
    }

    /// Returns the entries that have the records of an item: several for a class of several values.
    fn entries_of(&self, name: &str) -> impl Iterator<Item = &LastValueEntry> {
        let slots = single_names(name).filter_map(|name| self.by_name.get(&*name));
        slots.map(|slot| self.entries.peek(*slot))
    }

    /// Passes an item's records to `reader`, oldest first.
    pub(crate) fn each(&self, name: &str, mut reader: impl FnMut(&RecordView<'_>)) {
        let mut entries = self.entries_of(name);
        let first = entries.next().into_iter();
        let mut records: Vec<_> = first.flat_map(|one| one.records.iter()).collect();
        let count = records.len();
        records.extend(entries.flat_map(|one| one.records.iter()));
        if records.len() > count {
            records.sort_unstable_by_key(|(order, _)| *order);
        }
        let most = match self.scope {
            StoredRecords::Recent(most) => most.max(1),
            StoredRecords::Last | StoredRecords::Rows => usize::MAX,
        };
        let older = records.len().saturating_sub(most);
        for (_, record) in &records[older..] {
            record.read(&self.topics, &mut reader);
        }
    }

    fn seconds(&self, now: Instant) -> u32 {
        let seconds = now.saturating_duration_since(self.start).as_secs();
        u32::try_from(seconds).unwrap_or(u32::MAX)
    }

    /// Returns the index of a topic; a connection reads only a few.
    fn topic(&mut self, name: &str) -> u32 {
        let known = self.topics.iter().position(|topic| **topic == *name);
        known.unwrap_or_else(|| {
            self.topics.push(name.into());
            self.topics.len() - 1
        }) as u32
    }

    fn insert(&mut self, name: &str) -> u32 {
        let name: Arc<str> = name.into();
        let entry = LastValueEntry {
            name: Arc::clone(&name),
            updated_s: 0,
            records: ItemRecords::new(self.scope),
        };
        self.bytes += entry.bytes();
        let slot = self.entries.insert(entry);
        self.by_name.insert(name, slot);
        slot
    }

    fn remove(&mut self, slot: u32) -> Option<Arc<str>> {
        let entry = self.entries.remove(slot);
        self.bytes -= entry.bytes();
        self.by_name.remove(&entry.name).map(|_| entry.name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn record<'a>(value: &'a [u8], headers: &'a [(&'a str, Option<&'a [u8]>)]) -> RecordView<'a> {
        RecordView {
            topic: "topic",
            partition: 3,
            offset: 4,
            timestamp_ms: 5,
            key: Some(b"key"),
            value: (!value.is_empty()).then_some(value),
            headers,
        }
    }

    fn store(scope: StoredRecords, bytes_max: usize) -> LastValueStore {
        LastValueStore::new(scope, bytes_max, Instant::now())
    }

    fn put(last: &mut LastValueStore, name: &str, record: &RecordView<'_>) {
        last.put(name, record, None, Instant::now());
    }

    fn values(last: &LastValueStore, name: &str) -> Vec<String> {
        let mut values = Vec::new();
        last.each(name, |record| {
            let value = record.value.unwrap_or_default();
            values.push(String::from_utf8_lossy(value).into_owned());
        });
        values
    }

    #[test]
    fn stored_record_is_returned_unchanged() {
        let mut last = store(StoredRecords::Last, 10_000);
        let headers = [("a", Some(&b"1"[..])), ("", None), ("b", Some(b""))];
        put(&mut last, "item", &record(b"first", &[]));
        put(&mut last, "item", &record(b"value", &headers));
        put(&mut last, "deleted", &record(b"", &[]));
        let shown = |name| last.with(name, |view| format!("{view:?}"));
        assert_eq!(
            shown("item"),
            Some(format!("{:?}", record(b"value", &headers)))
        );
        assert_eq!(shown("deleted"), Some(format!("{:?}", record(b"", &[]))));
        assert_eq!(shown("other"), None);
        assert_eq!(last.len(), 2);
    }

    proptest! {
        /// Memory stays within its bound for any sequence of records, and the latest are stored.
        #[test]
        fn least_recently_updated_are_evicted_first(
            puts in proptest::collection::vec((0u8..20, 1usize..600), 1..200),
        ) {
            let mut last = store(StoredRecords::Last, 3_000);
            let mut model: BTreeMap<u8, (usize, usize)> = BTreeMap::new();
            for (at, (name, len)) in puts.into_iter().enumerate() {
                put(&mut last, &name.to_string(), &record(&vec![name; len], &[]));
                model.insert(name, (at, len));
                prop_assert!(last.bytes <= 3_000);
            }
            let len_of = |name: &u8| {
                last.with(&name.to_string(), |view| view.value.map(<[u8]>::len))
            };
            let mut by_age: Vec<_> = model.iter().collect();
            by_age.sort_by_key(|(_, (at, _))| std::cmp::Reverse(*at));
            let held = by_age.iter().take_while(|(name, _)| len_of(name).is_some()).count();
            prop_assert_eq!(held, last.len());
            prop_assert!(held >= 1 && last.evicted as usize >= model.len() - held);
            for (name, (_, len)) in by_age.into_iter().take(held) {
                prop_assert_eq!(len_of(name), Some(Some(*len)));
            }
        }
    }

    #[test]
    fn recent_records_are_limited_and_ordered() {
        let mut last = store(StoredRecords::Recent(3), 10_000);
        for value in ["1", "2", "3", "4", "5"] {
            put(&mut last, "item", &record(value.as_bytes(), &[]));
        }
        assert_eq!(values(&last, "item"), ["3", "4", "5"]);
        assert!(values(&last, "other").is_empty());
        assert!(!last.has_states());
    }

    #[test]
    fn rows_are_replaced_and_deleted() {
        let mut last = store(StoredRecords::Rows, 10_000);
        let mut change = |key, command, value: &str| {
            let record = record(value.as_bytes(), &[]);
            last.put("item", &record, Some((key, command)), Instant::now());
            values(&last, "item")
        };
        use weir_mapping::RowCommand::{Add, Delete};
        change("a", Add, "a1");
        change("b", Add, "b1");
        assert_eq!(change("a", Add, "a2"), ["a2", "b1"]);
        assert_eq!(change("x", Delete, ""), ["a2", "b1"]);
        assert_eq!(change("a", Delete, ""), ["b1"]);
        assert_eq!(change("a", Add, "a3"), ["b1", "a3"]);
        change("b", Delete, "");
        assert!(change("a", Delete, "").is_empty());
        assert_eq!(
            (last.len(), last.bytes),
            (0, 0),
            "an empty table needs no memory"
        );
    }

    #[test]
    fn idle_items_expire() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut last = LastValueStore::new(StoredRecords::Recent(2), 10_000, start);
        for (name, seconds) in [("a", 0), ("b", 1), ("c", 5), ("a", 6)] {
            last.put(name, &record(b"v", &[]), None, at(seconds));
        }
        let max_idle = Duration::from_secs(3);
        let mut expire = |seconds| -> Vec<String> {
            let names = last.expire(max_idle, at(seconds)).into_iter();
            names.map(|name| name.to_string()).collect()
        };
        assert!(expire(4).is_empty());
        assert_eq!(expire(5), ["b"]);
        assert!(expire(8).is_empty(), "a record restarts the time");
        assert_eq!(expire(100), ["c", "a"]);
        assert_eq!((last.len(), last.bytes), (0, 0));
    }

    proptest! {
        /// The accounted memory is that of the stored records, for any sequence of changes.
        #[test]
        fn rows_match_a_model(
            puts in proptest::collection::vec((0u8..3, 0u8..6, any::<bool>(), 1usize..80), 1..200),
        ) {
            use weir_mapping::RowCommand::{Delete, Update};
            let mut last = store(StoredRecords::Rows, usize::MAX);
            let mut model: BTreeMap<u8, Vec<(u8, usize)>> = BTreeMap::new();
            for (item, key, deletes, len) in puts {
                let command = if deletes { Delete } else { Update };
                let (text, value) = (key.to_string(), vec![b'v'; len]);
                let row = Some((text.as_str(), command));
                last.put(&item.to_string(), &record(&value, &[]), row, Instant::now());
                let rows = model.entry(item).or_default();
                let known = rows.iter().position(|row| row.0 == key);
                match (known, deletes) {
                    (Some(at), true) => drop(rows.remove(at)),
                    (Some(at), false) => rows[at].1 = len,
                    (None, true) => {}
                    (None, false) => rows.push((key, len)),
                }
            }
            for (item, rows) in &model {
                let stored = values(&last, &item.to_string());
                let lens: Vec<_> = stored.iter().map(String::len).collect();
                let expected: Vec<_> = rows.iter().map(|row| row.1).collect();
                prop_assert_eq!(lens, expected);
            }
            prop_assert_eq!(last.len(), model.values().filter(|rows| !rows.is_empty()).count());
            last.expire(Duration::ZERO, Instant::now() + Duration::from_secs(9));
            prop_assert_eq!(last.bytes, 0);
        }
    }
}
