//! Values of the kinds `avro`, `protobuf` and `json2`.
//!
//! Records with random content are encoded in advance. For each record, one of them is copied, with
//! the due time, the stamp and the key in their places.

mod avro;
mod fields;
mod fit;
#[cfg(any(test, fuzzing))]
mod fuzz;
mod json;
mod protobuf;
mod slots;
mod spec;
#[cfg(test)]
mod tests;
mod writer;

pub use fields::{FieldNames, TimeUnit, UnknownTimeUnit};
#[cfg(any(test, fuzzing))]
pub(crate) use fuzz::record_schema;
pub use spec::RecordSpec;

use self::fields::SlotContent;
use self::fit::Fit;
use self::slots::push_number;
use self::writer::RecordSlot;
use super::random::{MARK, TextPool};
use crate::error::Result;
use crate::local_time::{LocalTime, TEXT_LEN};
use crate::stamp::{Stamp, TEXT_STAMP_LEN_MAX};
use crate::value_schema::RecordFormat;

/// An encoded record without the content of its slots.
#[derive(Debug, Clone)]
struct Template {
    bytes: Box<[u8]>,
    slots: Box<[RecordSlot]>,
}

/// Generator of values.
#[derive(Debug, Clone)]
pub(super) struct RecordValues {
    templates: Vec<Template>,
    current: usize,
    next: usize,
    /// Keys as values contain them, by the numbers of their names.
    keys: Vec<Vec<u8>>,
    local: LocalTime,
    marked: bool,
    value: Vec<u8>,
}

impl RecordValues {
    /// Encodes records; the same seed gives the same ones.
    ///
    /// # Errors
    /// The schema has no values, or none of the size.
    pub(super) fn new(
        spec: &RecordSpec,
        names: &[String],
        (seed, marked): (u64, bool),
        local: LocalTime,
    ) -> Result<Self> {
        Self::with_templates(TEMPLATES, (spec, names), (seed, marked), local)
    }

    /// As [`new`](Self::new), with at most `max` encoded records.
    fn with_templates(
        max: usize,
        (spec, names): (&RecordSpec, &[String]),
        (seed, marked): (u64, bool),
        local: LocalTime,
    ) -> Result<Self> {
        let in_json = |name: &String| {
            let quoted = serde_json::Value::from(name.as_str()).to_string();
            quoted.as_bytes()[1..quoted.len() - 1].to_vec()
        };
        let keys: Vec<Vec<u8>> = match spec.schema().format() {
            RecordFormat::Json => names.iter().map(in_json).collect(),
            _ => names.iter().map(|name| name.clone().into_bytes()).collect(),
        };
        let longest_key = keys.iter().map(Vec::len).max().unwrap_or(0);
        let mut pool = TextPool::new(seed);
        let mut fit = Fit::new(spec, longest_key, marked, &mut pool);
        let mut templates = Vec::new();
        let mut bytes = 0;
        while templates.len() < max && bytes < TEMPLATE_BYTES_MAX {
            let number = templates.len() as u64;
            let (record, slots) = fit.record(seed.wrapping_add(number.wrapping_mul(SEED_STEP)))?;
            let shift = |slot: RecordSlot| RecordSlot {
                at: slot.at + spec.frame().len(),
                ..slot
            };
            let template = Template {
                bytes: [spec.frame(), record.as_slice()].concat().into(),
                slots: slots.into_iter().map(shift).collect(),
            };
            bytes += template.bytes.len().max(1);
            templates.push(template);
        }
        Ok(Self {
            templates,
            current: 0,
            next: 0,
            keys,
            local,
            marked,
            value: Vec::new(),
        })
    }

    /// Creates the next value.
    pub(super) fn make(&mut self, name: usize, stamp: &Stamp) {
        self.current = self.next;
        self.next = (self.next + 1) % self.templates.len();
        self.fill(name, stamp);
    }

    /// Writes the last value again, with another stamp.
    pub(super) fn fill(&mut self, name: usize, stamp: &Stamp) {
        let out = &mut self.value;
        out.clear();
        let Template { bytes, slots } = &self.templates[self.current];
        let mut from = 0;
        for slot in slots {
            out.extend_from_slice(&bytes[from..slot.at]);
            from = slot.at;
            match slot.content {
                SlotContent::TimeText => {
                    let mark = if self.marked { MARK } else { "" };
                    slot.form.push_length(mark.len() + TEXT_LEN, out);
                    out.extend_from_slice(mark.as_bytes());
                    out.extend_from_slice(&self.local.format(stamp.due_unix_ns));
                }
                SlotContent::TimeNumber(form, unit) => {
                    push_number(form, unit.of_ns(stamp.due_unix_ns), out);
                }
                SlotContent::Stamp => {
                    slot.form.push_length(TEXT_STAMP_LEN_MAX, out);
                    stamp.push_padded_text(out);
                }
                SlotContent::Key => {
                    let key = &self.keys[name];
                    slot.form.push_length(key.len(), out);
                    out.extend_from_slice(key);
                }
            }
        }
        out.extend_from_slice(&bytes[from..]);
    }

    pub(super) fn value(&self) -> &[u8] {
        &self.value
    }
}

/// Number of prepared records. A batch has fewer, so a compressor never sees the same record twice.
const TEMPLATES: usize = 4096;
/// Maximum memory of the prepared records, except for the last one.
const TEMPLATE_BYTES_MAX: usize = 16 << 20;
/// Distance between the seeds of two records: odd, so that no seed repeats.
const SEED_STEP: u64 = 0xd134_2543_de82_ef95;
