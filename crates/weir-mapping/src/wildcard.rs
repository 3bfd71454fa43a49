//! The parameter `field.*`: discovers fields in each record.

use std::fmt::Write as _;
use std::sync::Arc;

use weir_formats::expression::PathStep;
use weir_formats::json::{MemberSink, NodeId};
use weir_formats::selector_value::SelectorValue;

use crate::dynamic_fields::{DynamicField, DynamicFields};
use crate::error::{ExtractionError, ExtractionReason, ExtractionTarget};
use crate::evaluator::{Separators, pairs};
use crate::field_set::FieldSet;
use crate::field_values::FieldValues;
use crate::headers::{HeaderNode, find_header, header_values};
use crate::payload::{PayloadReader, append_pairs, decode, payload};
use crate::record_part::RecordPart;
use crate::record_view::RecordView;

/// Name of the parameter, without `field.`.
pub(crate) const WILDCARD: &str = "*";

/// Node whose members become fields.
#[derive(Debug, Clone)]
pub(crate) enum MembersSelector {
    Document {
        part: RecordPart,
        node: NodeId,
        /// Name of the node, for elements of arrays.
        name: Arc<str>,
    },
    Pairs(RecordPart, Box<[PathStep]>, Separators),
    Headers(Box<[PathStep]>),
    /// A scalar, which has no members.
    Scalar,
}

impl MembersSelector {
    /// Returns the node of a document that has to be wanted before [`Self::members`] is called.
    pub(crate) fn document_node(&self) -> Option<(RecordPart, NodeId)> {
        match self {
            Self::Document { part, node, .. } => Some((*part, *node)),
            _ => None,
        }
    }

    /// Passes each member of the selected node to `emit`.
    pub(crate) fn members(
        &self,
        record: &RecordView<'_>,
        payloads: &mut PayloadReader,
        emit: &mut MemberSink<'_>,
    ) -> Result<(), ExtractionReason> {
        match self {
            Self::Document { part, node, name } => {
                payloads.document_members((*part, *node, name), record, emit)
            }
            Self::Pairs(part, steps, separators) => {
                pair_members(payload(record, *part), steps, *separators, emit)
            }
            Self::Headers(steps) => header_members(steps, record, emit),
            Self::Scalar => Ok(()),
        }
    }
}

fn pair_members(
    bytes: Option<&[u8]>,
    steps: &[PathStep],
    separators: Separators,
    emit: &mut MemberSink<'_>,
) -> Result<(), ExtractionReason> {
    if !steps.is_empty() {
        // A value has no members, but it must exist.
        return append_pairs(bytes, steps, separators, true, &mut String::new()).map(drop);
    }
    let text = bytes.map(decode).unwrap_or_default();
    for (key, value) in pairs(&text, separators) {
        emit(key, SelectorValue::Text, value);
    }
    Ok(())
}

fn header_members(
    steps: &[PathStep],
    record: &RecordView<'_>,
    emit: &mut MemberSink<'_>,
) -> Result<(), ExtractionReason> {
    let mut indexed = String::new();
    let mut emit_one = |key: &str, position: Option<usize>, value: Option<&[u8]>| {
        let mut name = key;
        if let Some(position) = position {
            indexed.clear();
            // Writing to a String cannot fail.
            let _ = write!(indexed, "{key}[{position}]");
            name = &indexed;
        }
        let kind = value.map_or(SelectorValue::Null, |_| SelectorValue::Text);
        emit(name, kind, &decode(value.unwrap_or_default()));
    };
    match find_header(steps, record)? {
        HeaderNode::Single(_) => {}
        HeaderNode::Repeated(key) => {
            for (position, value) in header_values(record.headers, key).enumerate() {
                emit_one(key, Some(position), value);
            }
        }
        HeaderNode::All => {
            for (at, (key, value)) in record.headers.iter().enumerate() {
                let before = header_values(&record.headers[..at], key).count();
                let is_repeated = header_values(record.headers, key).nth(1).is_some();
                emit_one(key, is_repeated.then_some(before), *value);
            }
        }
    }
    Ok(())
}

/// Returns the name of the node that a path selects: elements of an array are named after it.
pub(crate) fn node_name(root: &str, steps: &[PathStep]) -> Arc<str> {
    match steps.last() {
        None => root.into(),
        Some(PathStep::Member(name)) => Arc::clone(name),
        Some(PathStep::Index { index, container }) => format!("{container}[{index}]").into(),
    }
}

/// Compiled `field.*` of a connection.
#[derive(Debug)]
pub(crate) struct Wildcard {
    pub(crate) expression: Arc<str>,
    pub(crate) selector: MembersSelector,
    pub(crate) fields: DynamicFields,
    /// Fields with a meaning in mode COMMAND, which always have an index.
    pub(crate) _reserved: Vec<Arc<DynamicField>>,
}

impl Wildcard {
    /// Writes the wanted fields from `first` on; those that are not in the record stay skipped.
    pub(crate) fn extract(
        &self,
        record: &RecordView<'_>,
        wanted: &FieldSet,
        out: &mut FieldValues,
    ) -> Result<(), ExtractionReason> {
        let slots = self.fields.slots();
        let (payloads, values) = out.split();
        let mut has_room = true;
        let mut set = |name: &str, kind: SelectorValue, text: &str| {
            let Some(slot) = slots.get(name) else { return };
            if !wanted.contains(slot.index) || !slot.note_seen() {
                return;
            }
            match kind {
                SelectorValue::Null => values.set_null(slot.index),
                SelectorValue::Text => has_room &= values.push_text(slot.index, text),
            }
        };
        self.selector.members(record, payloads, &mut set)?;
        match has_room {
            true => Ok(()),
            false => Err(ExtractionReason::TooLarge),
        }
    }

    pub(crate) fn error(&self, reason: ExtractionReason) -> ExtractionError {
        ExtractionError {
            target: ExtractionTarget::Field(WILDCARD.into()),
            expression: Arc::clone(&self.expression),
            reason,
        }
    }
}
