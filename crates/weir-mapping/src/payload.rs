//! Keys and values of records as the evaluators of a connection read them.

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::{ExtractionReason, PayloadError, PayloadProblem};
use crate::evaluator::{Evaluator, Separators, append_kvp, append_text, kvp_value};
use crate::expression::PathStep;
use crate::field_set::FieldSet;
use crate::json::{JsonCheck, JsonError, JsonReader, Missing, NodeId, PathTree};
use crate::record_part::{KeyAndValue, RecordPart};
use crate::record_view::RecordView;
use crate::selector_value::SelectorValue;

/// How one part of the records of a connection is read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PartConfig {
    pub(crate) evaluator: Evaluator,
    pub(crate) separators: Separators,
}

/// The JSON paths of a connection's templates, or of its fields.
pub(crate) type Plans = KeyAndValue<Arc<PathTree>>;

/// Which selectors the next records are read for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WantedPaths {
    /// Those of the templates of a topic, by its position.
    Topic(usize),
    /// Those of these fields.
    Fields(FieldSet),
}

/// Reusable memory for reading the payloads of one record after the other.
#[derive(Debug, Clone, Default)]
pub(crate) struct PayloadReader {
    readers: KeyAndValue<PartReader>,
    plans: Option<Plans>,
    aim: Option<WantedPaths>,
}

#[derive(Debug, Clone, Default)]
struct PartReader {
    json: JsonReader,
    /// What came of reading the present payload, once it was read.
    outcome: Option<Result<(), JsonError>>,
}

impl PayloadReader {
    /// Turns to the next record. True if the wanted places must be named by [`Self::want`]
    /// because they, or the plans, are not those of the record before.
    pub(crate) fn turn(&mut self, plans: &Plans, is_same: impl Fn(&WantedPaths) -> bool) -> bool {
        self.readers.key.outcome = None;
        self.readers.value.outcome = None;
        let same_plans = self.plans.as_ref().is_some_and(|old| {
            Arc::ptr_eq(&old.key, &plans.key) && Arc::ptr_eq(&old.value, &plans.value)
        });
        !(same_plans && self.aim.as_ref().is_some_and(is_same))
    }

    /// Names the wanted places of this record and of the following ones.
    pub(crate) fn want(
        &mut self,
        plans: &Plans,
        aim: WantedPaths,
        places: impl Iterator<Item = (RecordPart, NodeId)> + Clone,
    ) {
        for part in [RecordPart::Key, RecordPart::Value] {
            let of_part = places.clone().filter(|(p, _)| *p == part);
            let reader = &mut self.readers.of_mut(part).json;
            reader.aim(plans.of(part), of_part.map(|(_, node)| node));
        }
        self.plans = Some(plans.clone());
        self.aim = Some(aim);
    }

    /// Appends what is at a place of a JSON payload, which must be a wanted one.
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
        let error = |error| PayloadError::new(part, Evaluator::Json, PayloadProblem::Json(error));
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

/// The bytes of a part of a record.
pub(crate) fn payload<'a>(record: &RecordView<'a>, part: RecordPart) -> Option<&'a [u8]> {
    match part {
        RecordPart::Key => record.key,
        RecordPart::Value => record.value,
    }
}

/// Appends a payload of one value.
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
    appended.map_err(|problem| PayloadError::new(part, evaluator, problem))?;
    Ok(SelectorValue::Text)
}

/// Appends what a path selects among key-value pairs.
pub(crate) fn append_pairs(
    bytes: Option<&[u8]>,
    steps: &[PathStep],
    separators: Separators,
    complex: bool,
    out: &mut String,
) -> Result<SelectorValue, ExtractionReason> {
    let text = bytes.map(decode).unwrap_or_default();
    let is_null = crate::text::is_blank(&text);
    let name = |name: &str| name.into();
    let value = match steps {
        [] if is_null => return Ok(SelectorValue::Null),
        [] if !complex => return Err(ExtractionReason::NotScalar),
        [] => {
            append_kvp(&text, separators, out);
            return Ok(SelectorValue::Text);
        }
        [PathStep::Member(key), ..] if is_null => {
            return Err(ExtractionReason::NullObject(name(key)));
        }
        [PathStep::Index { index, .. }, ..] if is_null => {
            return Err(ExtractionReason::NullIndex(*index));
        }
        [PathStep::Index { index, .. }, ..] => return Err(ExtractionReason::NotArray(*index)),
        [PathStep::Member(key), ..] => kvp_value(&text, key, separators)
            .ok_or_else(|| ExtractionReason::NotFound(name(key)))?,
    };
    match steps.get(1) {
        None => out.push_str(value),
        Some(PathStep::Member(key)) => return Err(ExtractionReason::ScalarObject(name(key))),
        Some(PathStep::Index { container, .. }) => {
            return Err(ExtractionReason::NotIndexed(name(container)));
        }
    }
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
