//! Records of the measured window that producers reported as acknowledged.

use crate::keys::{KeyId, KeyTable};
use crate::worker::protocol::LedgerEntry;

/// Acknowledged records of the measured window, by key and producer.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    entries: Vec<WindowRecords>,
}

/// Acknowledged records of one key and producer that were due in the measured window.
#[derive(Debug, Clone)]
pub(super) struct WindowRecords {
    pub(super) key: KeyId,
    /// Its missing numbers are ascending, unique and in range.
    pub(super) entry: LedgerEntry,
}

/// Records due to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Expected {
    /// All keys.
    All,
    /// One key, for a client of one item.
    Key(KeyId),
    /// One of several topics.
    Topic {
        /// Its number.
        number: u32,
        /// Number of topics, at least 1. Producer `p` writes to topic `p mod of`.
        of: u32,
    },
}

impl Ledger {
    /// Creates a ledger from the entries of all producers. `keys` must be the table of the clients.
    /// Keys that do not fit the table are skipped: no client can have a checker for them.
    pub fn new(entries: &[LedgerEntry], keys: &mut KeyTable) -> Self {
        let entries = entries.iter();
        let records = entries.filter_map(|entry| WindowRecords::new(entry, keys));
        let mut entries: Vec<_> = records.collect();
        entries.sort_by_key(|records| (records.key, records.entry.producer));
        Self { entries }
    }

    /// Returns the number of records due to a client with this expectation.
    pub fn records(&self, expected: Expected) -> u64 {
        let entries = self.expected(expected);
        entries.map(|entry| entry.count_in(0, u64::MAX)).sum()
    }

    pub(super) fn expected(&self, expected: Expected) -> impl Iterator<Item = &WindowRecords> {
        let of_key = match expected {
            Expected::All | Expected::Topic { .. } => &self.entries[..],
            Expected::Key(key) => {
                let from = self.entries.partition_point(|entry| entry.key < key);
                let until = self.entries.partition_point(|entry| entry.key <= key);
                &self.entries[from..until]
            }
        };
        of_key.iter().filter(move |records| match expected {
            Expected::Topic { number, of } => records.entry.producer % of == number,
            Expected::All | Expected::Key(_) => true,
        })
    }
}

impl WindowRecords {
    fn new(entry: &LedgerEntry, keys: &mut KeyTable) -> Option<Self> {
        let mut entry = entry.clone();
        let range = entry.first_seq..=entry.last_seq;
        entry.missing.retain(|seq| range.contains(seq));
        entry.missing.sort_unstable();
        entry.missing.dedup();
        let key = keys.id(entry.key.as_bytes())?;
        Some(Self { key, entry })
    }

    /// Returns the number of acknowledged records with `from <= seq < until` (`u64::MAX`: no end).
    pub(super) fn count_in(&self, from: u64, until: u64) -> u64 {
        let from = from.max(self.entry.first_seq);
        let until = until.min(self.entry.last_seq.saturating_add(1));
        if from >= until {
            return 0;
        }
        let missing_below = |end| self.entry.missing.partition_point(|&seq| seq < end) as u64;
        until - from - (missing_below(until) - missing_below(from))
    }
}
