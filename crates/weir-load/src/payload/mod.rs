//! Keys and values of records, as the published generator creates them.
//!
//! Random text is generated once. Creating a record costs some copies, its numbers and its
//! timestamp.

mod bytes;
mod choice;
mod json;
mod person;
mod random;
mod replay;
mod text;

use std::sync::Arc;

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

pub use choice::{KeyChoice, KeyDistribution, UnknownDistribution};
pub use json::MembersSpec;
pub use random::MARK;
pub use replay::{ReplayError, ReplayFormat, ReplayRecord, ReplaySource, UnknownReplayFormat};

use crate::keys::{FIRST_NAMES, FRUITS, extended_key, names_of};
use crate::local_time::LocalTime;
use bytes::ByteValues;
use json::{JsonForm, JsonValues, MemberObjects};
use person::{People, PersonForm};
use random::JsonText;
use replay::Replay;
use text::TextValues;

/// Kind of record, named as in the published generator.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Display, EnumString, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "kebab-case")]
#[strum(parse_err_fn = UnknownPayloadKind::new, parse_err_ty = UnknownPayloadKind)]
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
    #[strum(serialize = "verycomplex")]
    VeryComplex,
    /// Like `VeryComplex`, with an object as key that has an array of 1024 names.
    #[strum(serialize = "jsonkeyx")]
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
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Returns the name in options, plans and results.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns `true` if records have a key.
    pub fn has_key(self) -> bool {
        !matches!(self, Self::Base | Self::Random | Self::Replay)
    }

    /// Returns `true` if values are objects with a generated timestamp member.
    pub(crate) fn has_timestamp(self) -> bool {
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

impl UnknownPayloadKind {
    fn new(name: &str) -> Self {
        Self(name.to_owned())
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
    Replay(Replay),
    Text { values: TextValues, keyed: bool },
    Json(Box<JsonValues>),
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
        // The choice of keys uses the seed itself; the negation gives another sequence.
        let seed = !spec.seed;
        let json = |form: &dyn Fn(&mut JsonText) -> JsonForm| {
            let mut text = JsonText::new(seed, local.clone(), spec.marked);
            let form = form(&mut text);
            ValueForm::Json(Box::new(JsonValues { text, form }))
        };
        let people =
            |form| json(&|text| JsonForm::People(People::new(form, &names, &mut text.pool)));
        let form = match spec.kind {
            // Without records there is nothing to replay.
            PayloadKind::Random | PayloadKind::Replay => {
                ValueForm::Bytes(ByteValues::new(spec.size, spec.entropy, seed))
            }
            PayloadKind::Base | PayloadKind::Keyed => ValueForm::Text {
                keyed: spec.kind == PayloadKind::Keyed,
                values: TextValues::new(spec.size, seed, local.clone()),
            },
            PayloadKind::JsonMembers => json(&|text| {
                let objects = MemberObjects::new(spec.members, names.len(), &mut text.pool);
                JsonForm::Members(objects)
            }),
            PayloadKind::Json | PayloadKind::JsonExtended => json(&|_| JsonForm::Small),
            PayloadKind::Complex => people(PersonForm::Complex),
            PayloadKind::VeryComplex => people(PersonForm::VeryComplex),
            PayloadKind::JsonKeyX => people(PersonForm::JsonKey),
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
            ValueForm::Text { values, .. } => {
                values.value(due_unix_ns, producer);
            }
            ValueForm::Json(values) => values.make(name, &self.names[name], due_unix_ns),
        }
    }

    /// Returns the key of the last record, which has the name number `name`.
    pub fn key(&self, name: usize) -> Option<&[u8]> {
        match &self.form {
            ValueForm::Replay(records) => records.last().key.as_deref(),
            ValueForm::Bytes(_) | ValueForm::Text { keyed: false, .. } => None,
            ValueForm::Json(values) => match &values.form {
                JsonForm::People(people) => Some(people.key(name)),
                JsonForm::Small | JsonForm::Members(_) => Some(self.names[name].as_bytes()),
            },
            ValueForm::Text { .. } => Some(self.names[name].as_bytes()),
        }
    }

    /// Returns the value of the last record.
    pub fn value(&self) -> &[u8] {
        match &self.form {
            ValueForm::Bytes(values) => values.value(),
            ValueForm::Replay(records) => &records.last().value,
            ValueForm::Text { values, .. } => values.last(),
            ValueForm::Json(values) => values.value(),
        }
    }
}

#[cfg(test)]
mod tests;
