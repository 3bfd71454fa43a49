//! Values of the kind `json-members`: JSON objects of configurable size. A share of the members
//! changes from one record of a key to the next.

use super::text_pool::TextPool;
use super::timestamp_text::TimestampText;

/// Shape of the objects.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MembersSpec {
    /// Number of members in addition to `timestamp` and `key`.
    pub members: u32,
    /// Characters of each member.
    pub characters: u32,
    /// Share of the members that differ from the previous record of the same key.
    pub change_ratio: f64,
}

impl Default for MembersSpec {
    /// Returns a shape of some 700 bytes, of which a tenth changes.
    fn default() -> Self {
        Self {
            members: 20,
            characters: 24,
            change_ratio: 0.1,
        }
    }
}

/// Objects of all keys.
#[derive(Debug, Clone)]
pub(super) struct MemberObjects {
    spec: MembersSpec,
    pool: TextPool,
    stamp: TimestampText,
    /// Start of each member's text in the pool, by key.
    texts: Vec<Vec<usize>>,
    /// Fraction of a member that is still to change.
    due: f64,
    /// Member that changes next; all change in turn.
    next: usize,
    value: Vec<u8>,
}

impl MemberObjects {
    pub(super) fn new(spec: MembersSpec, keys: usize, seed: u64, stamp: TimestampText) -> Self {
        let mut pool = TextPool::new(seed);
        let mut object = || {
            (0..spec.members)
                .map(|_| pool.draw(spec.characters as usize))
                .collect()
        };
        let texts = (0..keys.max(1)).map(|_| object()).collect();
        Self {
            spec,
            pool,
            stamp,
            texts,
            due: 0.0,
            next: 0,
            value: Vec::new(),
        }
    }

    pub(super) fn make(&mut self, (index, key): (usize, &str), due_unix_ns: u64) {
        self.change(index);
        let (texts, value) = (&self.texts[index], &mut self.value);
        value.clear();
        value.extend_from_slice(b"{\"timestamp\":\"");
        self.stamp.push(value, due_unix_ns);
        // Keys are names of the pool, or a given key.
        value.extend_from_slice(b"\",\"key\":");
        value.extend_from_slice(serde_json::Value::from(key).to_string().as_bytes());
        for (number, at) in texts.iter().enumerate() {
            value.extend_from_slice(b",\"m");
            value.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            value.extend_from_slice(b"\":\"");
            value.extend_from_slice(self.pool.piece(*at, self.spec.characters as usize));
            value.push(b'"');
        }
        value.push(b'}');
    }

    /// Replaces the share `change_ratio` of the members, on average over all records.
    fn change(&mut self, index: usize) {
        let texts = &mut self.texts[index];
        self.due += self.spec.change_ratio * texts.len() as f64;
        while self.due >= 1.0 {
            self.due -= 1.0;
            let at = self.next % texts.len();
            texts[at] = self.pool.draw(self.spec.characters as usize);
            self.next = at + 1;
        }
    }

    pub(super) fn value(&self) -> &[u8] {
        &self.value
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value};

    use super::*;
    use crate::local_time::LocalTime;

    fn members(change_ratio: f64) -> MemberObjects {
        let spec = MembersSpec {
            change_ratio,
            ..MembersSpec::default()
        };
        let stamp = TimestampText {
            local: LocalTime::utc(),
            marked: false,
        };
        MemberObjects::new(spec, 2, 7, stamp)
    }

    fn object(members: &mut MemberObjects, key: usize) -> Map<String, Value> {
        members.make((key, "Fig \"1\""), 7_000_000);
        serde_json::from_slice(members.value()).expect("an object")
    }

    #[test]
    fn share_of_changed_members_is_change_ratio() {
        for (ratio, expected) in [(0.0, 0), (0.1, 200), (0.025, 50), (1.0, 2000)] {
            let mut members = members(ratio);
            let mut before = object(&mut members, 0);
            let mut changed = 0;
            for _ in 0..100 {
                let now = object(&mut members, 0);
                changed += now
                    .iter()
                    .filter(|(name, value)| before[*name] != **value)
                    .count();
                before = now;
            }
            assert!(changed.abs_diff(expected) <= 1, "{ratio}: {changed}");
        }
    }

    #[test]
    fn each_key_has_its_own_object() {
        let mut members = members(0.0);
        let (first, second) = (object(&mut members, 0), object(&mut members, 1));
        assert_ne!(first["m0"], second["m0"]);
        assert_eq!(first["key"], "Fig \"1\"");
        assert_eq!(first["timestamp"], "1970-01-01 00:00:00.007");
        assert_eq!(first.len(), 22);
    }
}
