//! Records of the measured window that producers reported as acknowledged.

use crate::keys::{KeyId, KeyTable};
use crate::worker::protocol::LedgerEntry;

/// Acknowledged records of the measured window, by key and producer.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// Sorted by key and producer.
    entries: Vec<WindowRecords>,
}

/// Acknowledged records of one key and producer that were due in the measured window.
#[derive(Debug, Clone)]
pub(super) struct WindowRecords {
    pub(super) key: KeyId,
    pub(super) producer: u32,
    first_seq: u64,
    last_seq: u64,
    missing: Vec<u64>,
    pub(super) last_due_unix_ns: u64,
}

/// Records due to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// All keys.
    All,
    /// One key, for a client of one item.
    Key(KeyId),
}

impl Ledger {
    /// Creates a ledger from the entries of all producers. `keys` must be the table of the clients.
    /// Keys that do not fit the table are skipped: no client can have a checker for them.
    pub fn new(entries: &[LedgerEntry], keys: &mut KeyTable) -> Self {
        let mut entries: Vec<_> = entries
            .iter()
            .filter_map(|entry| WindowRecords::new(entry, keys))
            .collect();
        entries.sort_by_key(|entry| (entry.key, entry.producer));
        Self { entries }
    }

    /// Returns the number of records due to a client with this expectation.
    pub fn records(&self, expected: Expected) -> u64 {
        let entries = self.expected(expected).iter();
        entries.map(|entry| entry.count_in(0, u64::MAX)).sum()
    }

    pub(super) fn expected(&self, expected: Expected) -> &[WindowRecords] {
        match expected {
            Expected::All => &self.entries,
            Expected::Key(key) => {
                let from = self.entries.partition_point(|entry| entry.key < key);
                let until = self.entries.partition_point(|entry| entry.key <= key);
                &self.entries[from..until]
            }
        }
    }
}

impl WindowRecords {
    fn new(entry: &LedgerEntry, keys: &mut KeyTable) -> Option<Self> {
        let mut missing = entry.missing.clone();
        missing.retain(|seq| (entry.first_seq..=entry.last_seq).contains(seq));
        missing.sort_unstable();
        missing.dedup();
        Some(Self {
            key: keys.id(entry.key.as_bytes())?,
            producer: entry.producer,
            first_seq: entry.first_seq,
            last_seq: entry.last_seq,
            missing,
            last_due_unix_ns: entry.last_due_unix_ns,
        })
    }

    /// Returns the number of acknowledged records with `from <= seq < until` (`u64::MAX`: no end).
    pub(super) fn count_in(&self, from: u64, until: u64) -> u64 {
        let from = from.max(self.first_seq);
        let until = until.min(self.last_seq.saturating_add(1));
        if from >= until {
            return 0;
        }
        let missing = self.missing.partition_point(|&seq| seq < until)
            - self.missing.partition_point(|&seq| seq < from);
        until - from - missing as u64
    }
}
