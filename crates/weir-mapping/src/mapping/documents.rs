//! Schemas that a mapping needs for a record, and decoded documents for display.

use weir_formats::json::ROOT;
use weir_formats::selector_value::SelectorValue;

use super::Mapping;
use crate::error::ExtractionReason;
use crate::field_set::FieldSet;
use crate::payload::{PayloadReader, WantedPaths};
use crate::record_part::RecordPart;
use crate::record_view::RecordView;
use crate::schema::{DocumentFormat, FrameError, KnownSchemas, SchemaId, SchemaSource, read_frame};

/// A key or value that is a document, decoded for display.
#[derive(Debug)]
pub struct DecodedDocument {
    /// `key` or `value`.
    pub part: String,
    /// Evaluator: AVRO, PROTOBUF or JSON.
    pub format: String,
    /// Registered schema that the record names, or the reason why it names none.
    pub schema: Option<Result<SchemaId, FrameError>>,
    /// Text of the whole document, `None` for null.
    pub text: Result<Option<String>, ExtractionReason>,
}

impl Mapping {
    /// Returns `true` if records may name schemas of a registry that decoding needs.
    pub fn needs_registry(&self) -> bool {
        let parts = [RecordPart::Key, RecordPart::Value].into_iter();
        let mut formats = parts.filter_map(|part| self.document(part));
        formats.any(|format| format.registered().is_some())
    }

    /// Returns the parts of records, `key` and `value`, whose schemas come from a registry.
    pub fn registered_parts(&self) -> Vec<String> {
        let parts = [RecordPart::Key, RecordPart::Value].into_iter();
        let registered = parts.filter(|part| {
            let format = self.document(*part);
            format.is_some_and(|format| matches!(format.schema, SchemaSource::Registry(..)))
        });
        registered.map(|part| part.to_string()).collect()
    }

    /// Returns the first schema that the record needs and that has not been looked up.
    pub fn missing_schema(
        &self,
        record: &RecordView<'_>,
        known: &mut KnownSchemas,
    ) -> Option<SchemaId> {
        [RecordPart::Key, RecordPart::Value]
            .into_iter()
            .find_map(|part| {
                let format = self.document(part)?;
                known.missing(format, part, record)
            })
    }

    /// Decodes the key and value as far as they are documents with a schema and expressions need
    /// them.
    pub fn decode(&self, record: &RecordView<'_>) -> Vec<DecodedDocument> {
        let parts = [RecordPart::Key, RecordPart::Value].into_iter();
        let decoded = parts.filter_map(|part| {
            let format = self.document(part)?;
            if matches!(format.schema, SchemaSource::None) {
                return None;
            }
            Some(DecodedDocument {
                part: part.to_string(),
                format: format.kind.to_string(),
                schema: schema_id(format, part, record),
                text: self.whole(part, record),
            })
        });
        decoded.collect()
    }

    /// Returns the format of a part that an expression reads as a document.
    fn document(&self, part: RecordPart) -> Option<&DocumentFormat> {
        let filters = self.filters.get();
        let of_filters = || filters?.documents.of(part).as_deref();
        self.documents.of(part).as_deref().or_else(of_filters)
    }

    fn whole(
        &self,
        part: RecordPart,
        record: &RecordView<'_>,
    ) -> Result<Option<String>, ExtractionReason> {
        let mut payloads = PayloadReader::default();
        payloads.next_record(&self.field_paths, |_| false);
        let wanted = WantedPaths::Fields(FieldSet::empty());
        payloads.want(&self.field_paths, wanted, std::iter::once((part, ROOT)));
        let mut text = String::new();
        let value = payloads.append_document(part, ROOT, record, true, &mut text)?;
        Ok((value == SelectorValue::Text).then_some(text))
    }
}

/// Returns the schema that a payload names; `None` without a registry or for a null payload.
fn schema_id(
    format: &DocumentFormat,
    part: RecordPart,
    record: &RecordView<'_>,
) -> Option<Result<SchemaId, FrameError>> {
    let SchemaSource::Registry(framing, _) = &format.schema else {
        return None;
    };
    let payload = match part {
        RecordPart::Key => record.key?,
        RecordPart::Value => record.value?,
    };
    if payload.is_empty() && format.is_null_if_empty() {
        return None;
    }
    let frame = read_frame(*framing, part, record);
    Some(frame.map(|frame| frame.id.to_id()))
}

#[cfg(test)]
impl Mapping {
    /// Returns the format of values, if an expression needs documents.
    pub(crate) fn value_format(&self) -> Option<&DocumentFormat> {
        self.documents.value.as_deref()
    }
}
