//! Stored records of one item: the last one, the last ones, or the last one of each row.

use std::collections::{BTreeMap, VecDeque};

use foldhash::HashMap;
use weir_mapping::{RecordView, RowCommand};

use crate::stored_record::{RecordSource, StoredRecord};

/// Memory overhead of a record in [`RecentRecords`] or [`RowRecords`], in bytes.
const RECORD_BYTES: usize = 128;
/// Memory overhead of a row, in addition to its key.
const ROW_BYTES: usize = RECORD_BYTES + 96;

/// Records that are stored of each item.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StoredRecords {
    /// The last record.
    #[default]
    Last,
    /// At most this number of last records.
    Recent(usize),
    /// The last record of each row.
    Rows,
}

/// Storage of the last records of all items of a connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct StoreConfig {
    /// Maximum memory in bytes; 0 stores nothing.
    pub bytes: usize,
    /// Records that are stored of each item.
    pub scope: StoredRecords,
}

impl StoreConfig {
    /// Returns `true` if records are stored. Topics are then read even without subscribers, because
    /// only records that were read can be stored.
    pub fn is_on(self) -> bool {
        self.bytes > 0
    }
}

/// Key of a row, and the effect of a record on it.
pub(crate) type RowOf<'a> = (&'a str, RowCommand);

#[derive(Debug)]
pub(crate) enum ItemRecords {
    Last(StoredRecord),
    Recent(Box<RecentRecords>),
    Rows(Box<RowRecords>),
}

impl Default for ItemRecords {
    fn default() -> Self {
        Self::Last(StoredRecord::default())
    }
}

#[derive(Debug, Default)]
pub(crate) struct RecentRecords {
    /// Oldest first.
    records: VecDeque<StoredRecord>,
    bytes: usize,
}

/// Last record of each row, in the order in which the rows were added.
#[derive(Debug, Default)]
pub(crate) struct RowRecords {
    /// By the number of the first record of the row.
    rows: BTreeMap<u64, StoredRecord>,
    /// Number of the first record of each row, by row key.
    order: HashMap<Box<str>, u64>,
    bytes: usize,
}

impl ItemRecords {
    pub(crate) fn new(scope: StoredRecords) -> Self {
        match scope {
            StoredRecords::Last => Self::default(),
            StoredRecords::Recent(_) => Self::Recent(Box::default()),
            StoredRecords::Rows => Self::Rows(Box::default()),
        }
    }

    /// Returns the memory of the records in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Last(record) => record.bytes(),
            Self::Recent(recent) => recent.bytes,
            Self::Rows(rows) => rows.bytes,
        }
    }

    /// Stores a record; rows are stored only with their key.
    pub(crate) fn put(
        &mut self,
        source: RecordSource,
        record: &RecordView<'_>,
        scope: StoredRecords,
        row: Option<RowOf<'_>>,
    ) {
        match (self, scope) {
            (Self::Last(last), _) => last.fill(source, record),
            (Self::Recent(recent), StoredRecords::Recent(most)) => {
                recent.push(source, record, most.max(1));
            }
            (Self::Rows(rows), _) => {
                if let Some((key, command)) = row {
                    rows.put(key, command, source, record);
                }
            }
            (Self::Recent(_), _) => {}
        }
    }

    /// Returns `true` if nothing is stored.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Last(_) => false,
            Self::Recent(recent) => recent.records.is_empty(),
            Self::Rows(rows) => rows.rows.is_empty(),
        }
    }

    /// Returns the records with their numbers, oldest first; a row has that of its first record.
    pub(crate) fn iter(&self) -> Box<dyn Iterator<Item = (u64, &StoredRecord)> + '_> {
        let numbered = |record| (StoredRecord::order(record), record);
        match self {
            Self::Last(record) => Box::new(std::iter::once(numbered(record))),
            Self::Recent(recent) => Box::new(recent.records.iter().map(numbered)),
            Self::Rows(rows) => Box::new(rows.rows.iter().map(|(order, row)| (*order, row))),
        }
    }
}

impl RecentRecords {
    fn push(&mut self, source: RecordSource, record: &RecordView<'_>, most: usize) {
        // The memory of the oldest record is reused.
        let oldest = match self.records.len() >= most {
            true => self.records.pop_front(),
            false => None,
        };
        self.bytes -= oldest.as_ref().map_or(0, |one| RECORD_BYTES + one.bytes());
        let mut stored = oldest.unwrap_or_default();
        stored.fill(source, record);
        self.bytes += RECORD_BYTES + stored.bytes();
        self.records.push_back(stored);
    }
}

impl RowRecords {
    fn put(
        &mut self,
        key: &str,
        command: RowCommand,
        source: RecordSource,
        record: &RecordView<'_>,
    ) {
        if command == RowCommand::Delete {
            if let Some((key, first)) = self.order.remove_entry(key) {
                let removed = self.rows.remove(&first).map_or(0, |row| row.bytes());
                self.bytes -= ROW_BYTES + key.len() + removed;
            }
            return;
        }
        if let Some(row) = self.order.get(key).and_then(|at| self.rows.get_mut(at)) {
            self.bytes -= row.bytes();
            row.fill(source, record);
            self.bytes += row.bytes();
            return;
        }
        let row = StoredRecord::of(source, record);
        self.bytes += ROW_BYTES + key.len() + row.bytes();
        self.order.insert(key.into(), source.order);
        self.rows.insert(source.order, row);
    }
}
