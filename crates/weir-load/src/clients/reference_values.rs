//! Compares values received as diffs with those of clients without diffs.

use std::collections::VecDeque;
use std::hash::BuildHasher as _;

use foldhash::{HashMap, HashMapExt as _};
use weir_tlcp::diff::apply_json_patch;

use crate::keys::KeyId;
use crate::stamp::Stamp;

/// Maximum number of stored records; clients of one process never differ by that many.
const RECORDS_MAX: usize = 16_384;

/// Hashes of the values that the first client received of each record. One client per key requests
/// whole values, so that an error in diffs is always detected.
#[derive(Debug)]
pub(super) struct ReferenceValues {
    hasher: foldhash::fast::RandomState,
    seen: HashMap<Record, u64>,
    order: VecDeque<Record>,
    /// Number of values that were compared with another client's.
    pub(super) compared: u64,
}

type Record = (KeyId, u32, u64);

impl ReferenceValues {
    pub(super) fn new() -> Self {
        Self {
            hasher: foldhash::fast::RandomState::default(),
            seen: HashMap::new(),
            order: VecDeque::new(),
            compared: 0,
        }
    }

    /// Returns `true` if the values equal those that another client received of the record, or if
    /// no client has received it yet.
    ///
    /// JSON texts are compared without whitespace, which a patch does not preserve.
    pub(super) fn agrees<'a>(
        &mut self,
        key: KeyId,
        stamp: &Stamp,
        values: impl Iterator<Item = Option<&'a str>>,
    ) -> bool {
        let compact = |value: &'a str| match value.starts_with(['{', '[']) {
            true => apply_json_patch(value, "[]").unwrap_or_else(|| value.to_owned()),
            false => value.to_owned(),
        };
        let values: Vec<Option<String>> = values.map(|value| value.map(compact)).collect();
        let hash = self.hasher.hash_one(&values);
        let record = (key, stamp.producer, stamp.seq);
        if let Some(seen) = self.seen.get(&record) {
            self.compared += 1;
            return *seen == hash;
        }
        if self.order.len() == RECORDS_MAX {
            let oldest = self.order.pop_front();
            oldest.map(|oldest| self.seen.remove(&oldest));
        }
        self.order.push_back(record);
        self.seen.insert(record, hash);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::KeyTable;

    #[test]
    fn differing_values_of_a_record_are_detected() {
        let key = KeyTable::default().id(b"Apple").unwrap();
        let stamp = |seq| Stamp {
            due_unix_ns: 5,
            producer: 1,
            seq,
            sent_unix_ns: None,
        };
        let mut reference = ReferenceValues::new();
        let mut agrees =
            |seq, value| reference.agrees(key, &stamp(seq), [Some(value), None].into_iter());
        assert!(agrees(0, r#"{"a": 1}"#) && agrees(0, r#"{"a":1}"#));
        assert!(!agrees(0, r#"{"a":2}"#));
        assert!(agrees(1, "text") && !agrees(1, "text "));
        (2..2 + RECORDS_MAX as u64).for_each(|seq| assert!(agrees(seq, "x")));
        // The oldest record was removed and is stored again.
        assert!(agrees(0, "new"));
        assert_eq!(reference.compared, 3);
    }
}
