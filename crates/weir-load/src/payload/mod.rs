//! Keys and values of records, as the published generator creates them.
//!
//! Random text is generated once. Creating a record costs some copies, its numbers and its
//! timestamp.

mod bytes;
mod choice;
mod json;
mod person;
mod random;
mod records;
mod replay;
mod text;

use std::sync::Arc;

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

pub use choice::{KeyChoice, KeyDistribution, UnknownDistribution};
pub use json::MembersSpec;
pub use random::MARK;
#[cfg(any(test, fuzzing))]
pub(crate) use records::record_schema;
pub use records::{FieldNames, RecordSpec, TimeUnit, UnknownTimeUnit};
pub use replay::{ReplayError, ReplayFormat, ReplayRecord, ReplaySource, UnknownReplayFormat};

use crate::error::{LoadError, Result};
use crate::keys::{FIRST_NAMES, FRUITS, extended_key, names_of};
use crate::local_time::LocalTime;
use crate::stamp::Stamp;
use crate::value_schema::RecordFormat;
use bytes::ByteValues;
use json::{JsonForm, JsonValues, MemberObjects};
use person::{People, PersonForm};
use random::JsonText;
use records::RecordValues;
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
    /// Like `Json`, with the stamp as a member.
    Json2,
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
    /// Avro record of a schema, with one of 40 keys.
    Avro,
    /// Protobuf message of a schema, with one of 40 keys.
    Protobuf,
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

    /// Returns `true` if values can have a generated timestamp member.
    pub(crate) fn has_timestamp(self) -> bool {
        !matches!(self, Self::Base | Self::Keyed | Self::Random | Self::Replay)
    }

    /// Returns `true` if values have a configurable size; others are objects of fixed shape.
    pub fn has_size(self) -> bool {
        !self.has_timestamp() && self != Self::Replay || self.record_format().is_some()
    }

    /// Returns the language of values that have a schema.
    pub fn record_format(self) -> Option<RecordFormat> {
        match self {
            Self::Avro => Some(RecordFormat::Avro),
            Self::Protobuf => Some(RecordFormat::Protobuf),
            Self::Json2 => Some(RecordFormat::Json),
            _ => None,
        }
    }
}

/// Error for an unknown kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown kind \"{0}\": use base, keyed, json, json-extended, json2, complex, verycomplex, \
         jsonkeyx, json-members, avro, protobuf, replay or random"
)]
pub struct UnknownPayloadKind(String);

impl UnknownPayloadKind {
    fn new(name: &str) -> Self {
        Self(name.to_owned())
    }
}

/// Description of the records of a run.
#[derive(Debug, Clone)]
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
    /// Values of the kinds with a schema; `None`: those of the built-in schema.
    pub record: Option<RecordSpec>,
    /// Keys have 500 characters, in the kinds with a schema.
    pub extended: bool,
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
    Record(Box<RecordValues>),
}

impl PayloadGenerator {
    /// Creates a generator with everything that is constant over all records.
    ///
    /// # Errors
    /// No value of the schema has the size.
    pub fn new(spec: &PayloadSpec, local: LocalTime) -> Result<Self> {
        if spec.kind == PayloadKind::Replay && !spec.replay.is_empty() {
            let (replay, names) = Replay::new(Arc::clone(&spec.replay));
            return Ok(Self {
                form: ValueForm::Replay(replay),
                names,
            });
        }
        let names = names(spec);
        // The choice of keys uses the seed itself; the negation gives another sequence.
        let seed = !spec.seed;
        let json = |form: &dyn Fn(&mut JsonText) -> JsonForm| {
            let mut text = JsonText::new(seed, local.clone(), spec.marked);
            let form = form(&mut text);
            ValueForm::Json(Box::new(JsonValues { text, form }))
        };
        let people =
            |form| json(&|text| JsonForm::People(People::new(form, &names, &mut text.pool)));
        let record = |format| {
            let built_in = || RecordSpec::built_in(format, None);
            let record = spec.record.clone().unwrap_or_else(built_in);
            let values = RecordValues::new(&record, &names, (seed, spec.marked), local.clone())?;
            Ok::<_, LoadError>(ValueForm::Record(Box::new(values)))
        };
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
            PayloadKind::Json2 => record(RecordFormat::Json)?,
            PayloadKind::Avro => record(RecordFormat::Avro)?,
            PayloadKind::Protobuf => record(RecordFormat::Protobuf)?,
        };
        Ok(Self { form, names })
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

    /// Creates the next record, with a stamp, for the name number `name`.
    pub fn make(&mut self, name: usize, stamp: &Stamp) {
        let (due_unix_ns, producer) = (stamp.due_unix_ns, stamp.producer);
        match &mut self.form {
            ValueForm::Bytes(values) => values.make(),
            ValueForm::Replay(records) => records.make(),
            ValueForm::Text { values, .. } => {
                values.value(due_unix_ns, producer);
            }
            ValueForm::Json(values) => values.make(name, &self.names[name], due_unix_ns),
            ValueForm::Record(values) => values.make(name, stamp),
        }
    }

    /// Replaces the stamp in the last record, if its value contains one.
    pub(crate) fn stamp_again(&mut self, name: usize, stamp: &Stamp) {
        if let ValueForm::Record(values) = &mut self.form {
            values.fill(name, stamp);
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
            ValueForm::Text { .. } | ValueForm::Record(_) => Some(self.names[name].as_bytes()),
        }
    }

    /// Returns the value of the last record.
    pub fn value(&self) -> &[u8] {
        match &self.form {
            ValueForm::Bytes(values) => values.value(),
            ValueForm::Replay(records) => &records.last().value,
            ValueForm::Text { values, .. } => values.last(),
            ValueForm::Json(values) => values.value(),
            ValueForm::Record(values) => values.value(),
        }
    }
}

/// Returns the names of the record sequences.
fn names(spec: &PayloadSpec) -> Vec<String> {
    let fruits = || names_of(&FRUITS, spec.keys);
    let extended = || fruits().iter().map(|name| extended_key(name)).collect();
    let mut names = match spec.kind {
        PayloadKind::Base | PayloadKind::Random | PayloadKind::Replay => vec![String::new()],
        PayloadKind::Avro | PayloadKind::Protobuf | PayloadKind::Json2 if spec.extended => {
            extended()
        }
        PayloadKind::Keyed
        | PayloadKind::Json
        | PayloadKind::Json2
        | PayloadKind::JsonMembers
        | PayloadKind::Avro
        | PayloadKind::Protobuf => fruits(),
        PayloadKind::JsonExtended => extended(),
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
    names
}

#[cfg(test)]
mod tests;
