//! Extracts values from record keys and values with the evaluators of a connection.

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::{ExtractionReason, PayloadError};
use crate::evaluator::{Evaluator, Separators, append_kvp, append_text, kvp_value};
use crate::expression::{ParentKind, PathStep};
use crate::field_set::FieldSet;
use crate::json::{JsonCheck, JsonError, JsonReader, Missing, NodeId, PathTree};
use crate::record_part::{KeyAndValue, RecordPart};
use crate::record_view::RecordView;
use crate::selector_value::SelectorValue;

/// Evaluator configuration of keys or of values.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PartConfig {
    pub(crate) evaluator: Evaluator,
    pub(crate) separators: Separators,
}

/// JSON paths of a connection's templates or fields.
pub(crate) type PathTrees = KeyAndValue<Arc<PathTree>>;

/// Paths that the next records are read for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WantedPaths {
    /// Paths of the templates of a topic, given by its position.
    Topic(usize),
    /// Paths of fields.
    Fields(FieldSet),
}

/// Reader of record payloads, with memory that is reused between records.
#[derive(Debug, Clone, Default)]
pub(crate) struct PayloadReader {
    readers: KeyAndValue<PartReader>,
    paths: Option<PathTrees>,
    wanted: Option<WantedPaths>,
}

#[derive(Debug, Clone, Default)]
struct PartReader {
    json: JsonReader,
    /// Result of reading the current payload, `None` before it is read.
    outcome: Option<Result<(), JsonError>>,
}

impl PayloadReader {
    /// Starts the next record. Returns `true` if the caller must call [`Self::want`] because the
    /// wanted paths or the path trees differ from those of the previous record.
    pub(crate) fn next_record(
        &mut self,
        paths: &PathTrees,
        is_same: impl Fn(&WantedPaths) -> bool,
    ) -> bool {
        self.readers.key.outcome = None;
        self.readers.value.outcome = None;
        let same_paths = self.paths.as_ref().is_some_and(|old| {
            Arc::ptr_eq(&old.key, &paths.key) && Arc::ptr_eq(&old.value, &paths.value)
        });
        !(same_paths && self.wanted.as_ref().is_some_and(is_same))
    }

    /// Sets the wanted nodes of this and the following records.
    pub(crate) fn want(
        &mut self,
        paths: &PathTrees,
        wanted: WantedPaths,
        nodes: impl Iterator<Item = (RecordPart, NodeId)> + Clone,
    ) {
        for part in [RecordPart::Key, RecordPart::Value] {
            let of_part = nodes.clone().filter(|(p, _)| *p == part);
            let reader = &mut self.readers.of_mut(part).json;
            reader.select(paths.of(part), of_part.map(|(_, node)| node));
        }
        self.paths = Some(paths.clone());
        self.wanted = Some(wanted);
    }

    /// Appends the value of a wanted node of a JSON payload.
    pub(crate) fn append_json(
        &mut self,
        part: RecordPart,
        node: NodeId,
        extent: JsonCheck,
        record: &RecordView<'_>,
        complex: bool,
        out: &mut String,
    ) -> Result<SelectorValue, ExtractionReason> {
        // A JSON payload without bytes is null.
        let bytes = payload(record, part).unwrap_or_default();
        let error = |json: JsonError| PayloadError {
            part,
            evaluator: Evaluator::Json,
            problem: json.into(),
        };
        let reader = self.readers.of_mut(part);
        let json = &mut reader.json;
        let outcome = *reader
            .outcome
            .get_or_insert_with(|| json.read(bytes, extent));
        outcome.map_err(error)?;
        reader
            .json
            .append(node, bytes, complex, out)
            .map_err(|missing| match missing {
                Missing::Reason(reason) => reason,
                Missing::Json(json) => error(json).into(),
            })
    }
}

/// Returns the bytes of the key or value.
pub(crate) fn payload<'a>(record: &RecordView<'a>, part: RecordPart) -> Option<&'a [u8]> {
    match part {
        RecordPart::Key => record.key,
        RecordPart::Value => record.value,
    }
}

/// Appends a payload that is one value.
pub(crate) fn append_scalar(
    part: RecordPart,
    evaluator: Evaluator,
    record: &RecordView<'_>,
    out: &mut String,
) -> Result<SelectorValue, ExtractionReason> {
    let Some(bytes) = payload(record, part) else {
        return Ok(SelectorValue::Null);
    };
    let appended = evaluator.append(bytes, out);
    appended.map_err(|problem| PayloadError {
        part,
        evaluator,
        problem,
    })?;
    Ok(SelectorValue::Text)
}

/// Appends the value that a path selects in key-value pairs.
pub(crate) fn append_pairs(
    bytes: Option<&[u8]>,
    steps: &[PathStep],
    separators: Separators,
    complex: bool,
    out: &mut String,
) -> Result<SelectorValue, ExtractionReason> {
    let text = bytes.map(decode).unwrap_or_default();
    let parent = match crate::text::is_blank(&text) {
        true => ParentKind::Null,
        false => ParentKind::Object,
    };
    let Some((step, below)) = steps.split_first() else {
        if parent == ParentKind::Null {
            return Ok(SelectorValue::Null);
        }
        if !complex {
            return Err(ExtractionReason::NotScalar);
        }
        append_kvp(&text, separators, out);
        return Ok(SelectorValue::Text);
    };
    let value = match step {
        PathStep::Member(key) => kvp_value(&text, key, separators),
        PathStep::Index { .. } => None,
    };
    let value = value.ok_or_else(|| step.missing(parent))?;
    if let Some(step) = below.first() {
        return Err(step.missing(ParentKind::Scalar));
    }
    out.push_str(value);
    Ok(SelectorValue::Text)
}

fn decode(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => {
            let mut text = String::new();
            append_text(bytes, &mut text);
            text.into()
        }
    }
}
