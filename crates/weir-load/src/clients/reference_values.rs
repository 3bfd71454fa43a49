//! Whether values that came as diffs are those that clients without diffs got.

use std::collections::VecDeque;
use std::hash::BuildHasher as _;

use foldhash::{HashMap, HashMapExt as _};
use weir_tlcp::diff::apply_json_patch;

use crate::keys::KeyId;
use crate::stamp::Stamp;

/// Records remembered; clients of one process are never so far apart.
const RECORDS_MAX: usize = 16_384;

/// What the first client that got a record read. Of every key one client asks for whole values, so
/// that not all can be wrong in the same way.
#[derive(Debug)]
pub(super) struct ReferenceValues {
    hasher: foldhash::fast::RandomState,
    seen: HashMap<Record, u64>,
    order: VecDeque<Record>,
    /// Values that were compared with another client's.
    pub(super) compared: u64,
}

/// A record by its stamp.
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

    /// Whether these values are those that another client has got of the record, if one has.
    ///
    /// JSON texts are compared without white space, which a patch does not keep.
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
    fn other_values_of_a_record_are_noticed() {
        let key = KeyTable::default().id(b"Apple").unwrap();
        let stamp = |seq| Stamp {
            due_unix_ns: 5,
            producer: 1,
            seq,
            sent_unix_ns: None,
        };
        let mut witness = ReferenceValues::new();
        let mut agrees =
            |seq, value| witness.agrees(key, &stamp(seq), [Some(value), None].into_iter());
        assert!(agrees(0, r#"{"a": 1}"#) && agrees(0, r#"{"a":1}"#));
        assert!(!agrees(0, r#"{"a":2}"#));
        assert!(agrees(1, "text") && !agrees(1, "text "));
        (2..2 + RECORDS_MAX as u64).for_each(|seq| assert!(agrees(seq, "x")));
        // Forgotten, and learned anew.
        assert!(agrees(0, "new"));
        assert_eq!(witness.compared, 3);
    }
}
