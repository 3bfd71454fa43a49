//! JSON values: the kinds `json` (timestamp, filler, key and a number), `json-members` (objects of
//! configurable size, of which a share changes from one record of a key to the next), and
//! [`People`].

use super::person::People;
use super::random::{JsonText, TextPool, push, push_number};

/// Characters of the filler of the kind `json`; the configured size does not apply.
const FILLER_LEN: usize = 512;

/// Shape of the objects of the kind `json-members`.
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

#[derive(Debug, Clone)]
pub(super) struct JsonValues {
    pub(super) text: JsonText,
    pub(super) form: JsonForm,
}

#[derive(Debug, Clone)]
pub(super) enum JsonForm {
    Small,
    Members(MemberObjects),
    People(People),
}

impl JsonValues {
    /// Creates the next value of key number `index`.
    pub(super) fn make(&mut self, index: usize, key: &str, due_unix_ns: u64) {
        let mut value = std::mem::take(&mut self.text.value);
        value.clear();
        match &mut self.form {
            JsonForm::Small => push_small(&mut value, &mut self.text, key, due_unix_ns),
            JsonForm::Members(objects) => {
                objects.push(&mut value, &mut self.text, (index, key), due_unix_ns);
            }
            JsonForm::People(people) => people.push(&mut value, &mut self.text, index, due_unix_ns),
        }
        self.text.value = value;
    }

    pub(super) fn value(&self) -> &[u8] {
        &self.text.value
    }
}

fn push_small(out: &mut Vec<u8>, text: &mut JsonText, key: &str, due_unix_ns: u64) {
    let at = text.pool.draw(FILLER_LEN);
    let number = text.pool.draw_number();
    push(out, &[b"{\"timestamp\":\""]);
    text.push_time(out, due_unix_ns);
    let filler = text.pool.piece(at, FILLER_LEN);
    push(out, &[b"\",\"fstValue\":\"", filler, b"\",\"sndValue\":\""]);
    // Keys are names of the pool, which need no escaping.
    push(out, &[key.as_bytes(), b"\",\"intNum\":"]);
    push_number(out, number);
    out.push(b'}');
}

#[derive(Debug, Clone)]
pub(super) struct MemberObjects {
    spec: MembersSpec,
    /// Start of each member's text in the pool, by key.
    texts: Vec<Vec<usize>>,
    /// Fraction of a member that is still to change.
    due: f64,
    /// Member that changes next; all change in turn.
    next: usize,
}

impl MemberObjects {
    pub(super) fn new(spec: MembersSpec, keys: usize, pool: &mut TextPool) -> Self {
        let mut draw = |_| pool.draw(spec.characters as usize);
        let mut object = |_| (0..spec.members).map(&mut draw).collect();
        Self {
            spec,
            texts: (0..keys.max(1)).map(&mut object).collect(),
            due: 0.0,
            next: 0,
        }
    }

    fn push(
        &mut self,
        out: &mut Vec<u8>,
        text: &mut JsonText,
        (index, key): (usize, &str),
        due_unix_ns: u64,
    ) {
        self.change(index, &mut text.pool);
        push(out, &[b"{\"timestamp\":\""]);
        text.push_time(out, due_unix_ns);
        // Keys are names of the pool, or a given key.
        let key = serde_json::Value::from(key).to_string();
        push(out, &[b"\",\"key\":", key.as_bytes()]);
        for (number, at) in self.texts[index].iter().enumerate() {
            let piece = text.pool.piece(*at, self.spec.characters as usize);
            let mut digits = itoa::Buffer::new();
            let number = digits.format(number).as_bytes();
            push(out, &[b",\"m", number, b"\":\"", piece, b"\""]);
        }
        out.push(b'}');
    }

    /// Replaces the share `change_ratio` of the members, on average over all records.
    fn change(&mut self, index: usize, pool: &mut TextPool) {
        let texts = &mut self.texts[index];
        self.due += self.spec.change_ratio * texts.len() as f64;
        while self.due >= 1.0 {
            self.due -= 1.0;
            let at = self.next % texts.len();
            texts[at] = pool.draw(self.spec.characters as usize);
            self.next = at + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value};

    use super::*;
    use crate::local_time::LocalTime;

    fn members(change_ratio: f64) -> JsonValues {
        let spec = MembersSpec {
            change_ratio,
            ..MembersSpec::default()
        };
        let mut text = JsonText::new(7, LocalTime::utc(), false);
        let form = JsonForm::Members(MemberObjects::new(spec, 2, &mut text.pool));
        JsonValues { text, form }
    }

    fn object(members: &mut JsonValues, key: usize) -> Map<String, Value> {
        members.make(key, "Fig \"1\"", 7_000_000);
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
