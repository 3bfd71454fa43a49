//! Keys and values of records, as the published generator creates them.
//!
//! Random text is generated once. Creating a record costs some copies, its numbers and its
//! timestamp.

mod bytes;
mod choice;
mod members;
mod person;
mod random;
mod replay;
mod small;
mod text;
mod text_pool;
mod timestamp_text;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

pub use choice::{KeyChoice, KeyDistribution, UnknownDistribution};
pub use members::MembersSpec;
pub use random::Random;
pub use replay::{ReplayError, ReplayFormat, ReplayRecord, ReplaySource};
pub use text::TextValues;
pub use timestamp_text::MARK;

use crate::keys::{FIRST_NAMES, FRUITS, extended_key, names_of};
use crate::local_time::LocalTime;
use bytes::ByteValues;
use members::MemberObjects;
use person::People;
use replay::Replay;
use small::SmallObjects;
use timestamp_text::TimestampText;

/// Kind of record, named as in the published generator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PayloadKind {
    /// Text without a key.
    Base,
    /// Text with one of 40 keys.
    #[default]
    Keyed,
    /// Object of four members, with one of 40 keys.
    Json,
    /// Like `Json`, with keys of 500 characters.
    JsonExtended,
    /// Object of eleven members, of which a text and a number change.
    Complex,
    /// Object of twelve members, of which a short text and a number change.
    VeryComplex,
    /// Like `VeryComplex`, with an object as key that has an array of 1024 names.
    JsonKeyX,
    /// Object of a configurable number of members, of which a share changes, with one of 40 keys.
    JsonMembers,
    /// Records of a file or a topic with their keys and headers, in their order, repeatedly.
    Replay,
    /// Bytes without a key, of configurable size and entropy.
    Random,
}

impl PayloadKind {
    /// All kinds.
    pub const ALL: [Self; 10] = [
        Self::Base,
        Self::Keyed,
        Self::Json,
        Self::JsonExtended,
        Self::Complex,
        Self::VeryComplex,
        Self::JsonKeyX,
        Self::JsonMembers,
        Self::Replay,
        Self::Random,
    ];

    /// Returns the name in options, plans and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Keyed => "keyed",
            Self::Json => "json",
            Self::JsonExtended => "json-extended",
            Self::Complex => "complex",
            Self::VeryComplex => "verycomplex",
            Self::JsonKeyX => "jsonkeyx",
            Self::JsonMembers => "json-members",
            Self::Replay => "replay",
            Self::Random => "random",
        }
    }

    /// Returns `true` if records have a key.
    pub fn has_key(self) -> bool {
        !matches!(self, Self::Base | Self::Random | Self::Replay)
    }

    /// Returns `true` if values are objects with a generated timestamp member.
    pub fn has_timestamp(self) -> bool {
        !self.has_size() && self != Self::Replay
    }

    /// Returns `true` if values are text of a configurable size; others are objects of fixed shape.
    pub fn has_size(self) -> bool {
        matches!(self, Self::Base | Self::Keyed | Self::Random)
    }
}

/// Error for an unknown kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown kind \"{0}\": use base, keyed, json, json-extended, complex, verycomplex, jsonkeyx, \
         json-members, replay or random"
)]
pub struct UnknownPayloadKind(String);

impl FromStr for PayloadKind {
    type Err = UnknownPayloadKind;

    fn from_str(text: &str) -> Result<Self, UnknownPayloadKind> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| UnknownPayloadKind(text.to_owned()))
    }
}

impl fmt::Display for PayloadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Description of the records of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct PayloadSpec {
    /// Kind of the records.
    pub kind: PayloadKind,
    /// Number of random characters, if the kind has a size.
    pub size: usize,
    /// Number of keys, if the kind has keys.
    pub keys: usize,
    /// Additional key; replaces the last key of the pool, unless it is one of them.
    pub key: Option<String>,
    /// Share of random bytes of the kind `random`: values of entropy 1 cannot be compressed.
    pub entropy: f64,
    /// Objects of the kind `json-members`.
    pub members: MembersSpec,
    /// Records of the kind `replay`; at least one.
    pub replay: Arc<[ReplayRecord]>,
    /// Random seed; the same seed gives the same records.
    pub seed: u64,
    /// Starts the timestamp member with [`MARK`].
    pub marked: bool,
}

/// Generator of keys and values.
#[derive(Debug, Clone)]
pub struct PayloadGenerator {
    form: ValueForm,
    names: Vec<String>,
}

#[derive(Debug, Clone)]
enum ValueForm {
    Bytes(ByteValues),
    Members(MemberObjects),
    Replay(Replay),
    Text { values: TextValues, keyed: bool },
    Small(SmallObjects),
    People(Box<People>),
}

impl PayloadGenerator {
    /// Creates a generator with everything that is constant over all records.
    pub fn new(spec: &PayloadSpec, local: LocalTime) -> Self {
        if spec.kind == PayloadKind::Replay && !spec.replay.is_empty() {
            let (replay, names) = Replay::new(Arc::clone(&spec.replay));
            return Self {
                form: ValueForm::Replay(replay),
                names,
            };
        }
        let fruits = || names_of(&FRUITS, spec.keys);
        let mut names = match spec.kind {
            PayloadKind::Base | PayloadKind::Random | PayloadKind::Replay => vec![String::new()],
            PayloadKind::Keyed | PayloadKind::Json | PayloadKind::JsonMembers => fruits(),
            PayloadKind::JsonExtended => fruits().iter().map(|name| extended_key(name)).collect(),
            PayloadKind::Complex | PayloadKind::VeryComplex | PayloadKind::JsonKeyX => {
                names_of(&FIRST_NAMES, spec.keys)
            }
        };
        if let Some(key) = spec
            .key
            .as_ref()
            .filter(|key| spec.kind.has_key() && !names.contains(key))
        {
            names.pop();
            names.push(key.clone());
        }
        let stamp = TimestampText {
            local: local.clone(),
            marked: spec.marked,
        };
        // The choice of keys uses the seed itself; the negation gives another sequence.
        let seed = !spec.seed;
        let form = match spec.kind {
            // Without records there is nothing to replay.
            PayloadKind::Random | PayloadKind::Replay => {
                ValueForm::Bytes(ByteValues::new(spec.size, spec.entropy, seed))
            }
            PayloadKind::Base | PayloadKind::Keyed => ValueForm::Text {
                values: TextValues::new(spec.size, seed, local),
                keyed: spec.kind == PayloadKind::Keyed,
            },
            PayloadKind::JsonMembers => {
                ValueForm::Members(MemberObjects::new(spec.members, names.len(), seed, stamp))
            }
            PayloadKind::Json | PayloadKind::JsonExtended => {
                ValueForm::Small(SmallObjects::new(seed, stamp))
            }
            PayloadKind::Complex => {
                ValueForm::People(Box::new(People::complex(&names, seed, stamp)))
            }
            PayloadKind::VeryComplex => {
                ValueForm::People(Box::new(People::very_complex(&names, seed, stamp)))
            }
            PayloadKind::JsonKeyX => {
                ValueForm::People(Box::new(People::with_json_key(&names, seed, stamp)))
            }
        };
        Self { form, names }
    }

    /// Returns the names of the record sequences, by number: the keys, or the name within a key
    /// that is an object. One empty name for records without a key.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the name of the next record: a drawn one, or that of the replayed record.
    pub(crate) fn next_name(&self, choice: &mut KeyChoice) -> usize {
        match &self.form {
            ValueForm::Replay(records) => records.name(),
            _ => choice.draw(),
        }
    }

    /// Returns the headers of the last record.
    pub(crate) fn headers(&self) -> &[(String, Vec<u8>)] {
        match &self.form {
            ValueForm::Replay(records) => &records.last().headers,
            _ => &[],
        }
    }

    /// Creates the next record, due at `due_unix_ns`, for the name number `name`.
    pub fn make(&mut self, name: usize, due_unix_ns: u64, producer: u32) {
        match &mut self.form {
            ValueForm::Bytes(values) => values.make(),
            ValueForm::Replay(records) => records.make(),
            ValueForm::Members(objects) => objects.make((name, &self.names[name]), due_unix_ns),
            ValueForm::Text { values, .. } => {
                values.value(due_unix_ns, producer);
            }
            ValueForm::Small(objects) => objects.make(&self.names[name], due_unix_ns),
            ValueForm::People(people) => people.make(name, due_unix_ns),
        }
    }

    /// Returns the key of the last record, which has the name number `name`.
    pub fn key(&self, name: usize) -> Option<&[u8]> {
        match &self.form {
            ValueForm::Replay(records) => records.last().key.as_deref(),
            ValueForm::Bytes(_) | ValueForm::Text { keyed: false, .. } => None,
            ValueForm::People(people) => Some(people.key(name)),
            ValueForm::Text { .. } | ValueForm::Small(_) | ValueForm::Members(_) => {
                Some(self.names[name].as_bytes())
            }
        }
    }

    /// Returns the value of the last record.
    pub fn value(&self) -> &[u8] {
        match &self.form {
            ValueForm::Bytes(values) => values.value(),
            ValueForm::Replay(records) => &records.last().value,
            ValueForm::Members(objects) => objects.value(),
            ValueForm::Text { values, .. } => values.last(),
            ValueForm::Small(objects) => objects.value(),
            ValueForm::People(people) => people.value(),
        }
    }
}

#[cfg(test)]
mod tests;
