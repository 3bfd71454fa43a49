//! A copy of a record, as raw bytes.

use smallvec::SmallVec;
use weir_mapping::RecordView;

type RecordHeader<'a> = (&'a str, Option<&'a [u8]>);

/// Origin of a record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordSource {
    /// Number of the storing.
    pub(crate) order: u64,
    /// Number of the topic.
    pub(crate) topic: u32,
}

/// A record that owns its bytes; its topic is a number.
#[derive(Debug, Default)]
pub(crate) struct StoredRecord {
    /// Number of the storing, which orders the records of several items.
    order: u64,
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

impl StoredRecord {
    pub(crate) fn of(source: RecordSource, record: &RecordView<'_>) -> Self {
        let mut stored = Self::default();
        stored.fill(source, record);
        stored
    }

    /// Returns the number of the storing.
    pub(crate) fn order(&self) -> u64 {
        self.order
    }

    /// Returns the number of allocated bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.data.capacity()
    }

    /// Replaces the record; its memory is reused.
    pub(crate) fn fill(&mut self, source: RecordSource, record: &RecordView<'_>) {
        (self.order, self.topic) = (source.order, source.topic);
        self.partition = record.partition;
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

    /// Passes the record to `reader`; `topics` has the name of its topic.
    pub(crate) fn read<T>(
        &self,
        topics: &[Box<str>],
        reader: impl FnOnce(&RecordView<'_>) -> T,
    ) -> T {
        let mut data = self.data.as_slice();
        let key = self.key.map(|len| cut(&mut data, len));
        let value = self.value.map(|len| cut(&mut data, len));
        let mut headers: SmallVec<[RecordHeader<'_>; 4]> = SmallVec::new();
        for (name, value) in &self.headers {
            // The bytes came from a str.
            let name = std::str::from_utf8(cut(&mut data, *name)).unwrap_or_default();
            headers.push((name, value.map(|len| cut(&mut data, len))));
        }
        reader(&RecordView {
            topic: topics.get(self.topic as usize).map_or("", |name| name),
            partition: self.partition,
            offset: self.offset,
            timestamp_ms: self.timestamp_ms,
            key,
            value,
            headers: &headers,
        })
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
