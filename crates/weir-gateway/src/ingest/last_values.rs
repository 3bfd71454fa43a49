//! The last record of every item, with or without subscribers, in bounded memory, so that the first
//! subscriber gets current values at once.
//!
//! Records are stored as raw bytes, so an item without subscribers costs a copy and no extraction
//! (docs/decisions/0017).

use std::sync::Arc;

use foldhash::HashMap;
use lru_slab::LruSlab;
use smallvec::SmallVec;
use weir_mapping::RecordView;

/// Memory overhead per item in bytes, in addition to its name and record.
const ENTRY_BYTES: usize = 192;

type RecordHeader<'a> = (&'a str, Option<&'a [u8]>);

/// Records by item name; the least recently updated ones are evicted.
#[derive(Debug, Default)]
pub(super) struct LastValueStore {
    bytes_max: usize,
    pub(super) bytes: usize,
    entries: LruSlab<LastValueEntry>,
    by_name: HashMap<Arc<str>, u32>,
    topics: Vec<Box<str>>,
    /// Number of items evicted so far.
    pub(super) evicted: u64,
}

#[derive(Debug, Default)]
struct LastValueEntry {
    name: Arc<str>,
    topic: u32,
    partition: i32,
    offset: i64,
    timestamp_ms: i64,
    /// Key, value, then names and values of the headers, concatenated.
    data: Vec<u8>,
    key: Option<u32>,
    value: Option<u32>,
    headers: SmallVec<[(u32, Option<u32>); 2]>,
}

impl LastValueEntry {
    fn bytes(&self) -> usize {
        ENTRY_BYTES + self.name.len() + self.data.capacity()
    }

    fn fill(&mut self, topic: u32, record: &RecordView<'_>) {
        (self.topic, self.partition) = (topic, record.partition);
        (self.offset, self.timestamp_ms) = (record.offset, record.timestamp_ms);
        self.data.clear();
        self.headers.clear();
        self.key = append(&mut self.data, record.key);
        self.value = append(&mut self.data, record.value);
        for (name, value) in record.headers {
            let name = append(&mut self.data, Some(name.as_bytes())).unwrap_or(0);
            let value = append(&mut self.data, *value);
            self.headers.push((name, value));
        }
        if self.data.capacity() > 2 * self.data.len() + 64 {
            self.data.shrink_to_fit();
        }
    }
}

fn append(data: &mut Vec<u8>, part: Option<&[u8]>) -> Option<u32> {
    let part = part?;
    data.extend_from_slice(part);
    // A record is far smaller than 4 GiB, the limit of brokers.
    u32::try_from(part.len()).ok()
}

fn cut<'a>(data: &mut &'a [u8], len: u32) -> &'a [u8] {
    let (part, rest) = data.split_at((len as usize).min(data.len()));
    *data = rest;
    part
}

impl LastValueStore {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            ..Self::default()
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len() as usize
    }

    pub(super) fn put(&mut self, name: &str, record: &RecordView<'_>) {
        let topic = self.topic(record.topic);
        let slot = match self.by_name.get(name) {
            Some(slot) => *slot,
            None => self.insert(name),
        };
        let entry = self.entries.get_mut(slot);
        self.bytes -= entry.bytes();
        entry.fill(topic, record);
        self.bytes += entry.bytes();
        while self.bytes > self.bytes_max {
            let Some(oldest) = self.entries.lru() else {
                break;
            };
            let entry = self.entries.remove(oldest);
            self.by_name.remove(&entry.name);
            self.bytes -= entry.bytes();
            self.evicted += 1;
        }
    }

    /// Passes an item's last record to `reader`.
    pub(super) fn with<T>(
        &self,
        name: &str,
        reader: impl FnOnce(&RecordView<'_>) -> T,
    ) -> Option<T> {
        let entry = self.entries.peek(*self.by_name.get(name)?);
        let mut data = entry.data.as_slice();
        let key = entry.key.map(|len| cut(&mut data, len));
        let value = entry.value.map(|len| cut(&mut data, len));
        let mut headers: SmallVec<[RecordHeader<'_>; 4]> = SmallVec::new();
        for (name, value) in &entry.headers {
            // The bytes came from a str.
            let name = std::str::from_utf8(cut(&mut data, *name)).unwrap_or_default();
            headers.push((name, value.map(|len| cut(&mut data, len))));
        }
        Some(reader(&RecordView {
            topic: &self.topics[entry.topic as usize],
            partition: entry.partition,
            offset: entry.offset,
            timestamp_ms: entry.timestamp_ms,
            key,
            value,
            headers: &headers,
        }))
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
            ..LastValueEntry::default()
        };
        self.bytes += entry.bytes();
        let slot = self.entries.insert(entry);
        self.by_name.insert(name, slot);
        slot
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

    #[test]
    fn stored_record_is_returned_unchanged() {
        let mut last = LastValueStore::new(10_000);
        let headers = [("a", Some(&b"1"[..])), ("", None), ("b", Some(b""))];
        last.put("item", &record(b"first", &[]));
        last.put("item", &record(b"value", &headers));
        last.put("deleted", &record(b"", &[]));
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
            let mut last = LastValueStore::new(3_000);
            let mut model: BTreeMap<u8, (usize, usize)> = BTreeMap::new();
            for (at, (name, len)) in puts.into_iter().enumerate() {
                last.put(&name.to_string(), &record(&vec![name; len], &[]));
                model.insert(name, (at, len));
                prop_assert!(last.bytes <= 3_000);
            }
            let kept = |name: &u8| last.with(&name.to_string(), |view| view.value.map(<[u8]>::len));
            let mut by_age: Vec<_> = model.iter().collect();
            by_age.sort_by_key(|(_, (at, _))| std::cmp::Reverse(*at));
            let held = by_age.iter().take_while(|(name, _)| kept(name).is_some()).count();
            prop_assert_eq!(held, last.len());
            prop_assert!(held >= 1 && last.evicted as usize >= model.len() - held);
            for (name, (_, len)) in by_age.into_iter().take(held) {
                prop_assert_eq!(kept(name), Some(Some(*len)));
            }
        }
    }
}
