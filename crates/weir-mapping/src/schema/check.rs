//! Finds schemas that a record needs and the table does not have.

use super::cache::{SchemaCache, SchemaProblem};
use super::format::DocumentFormat;
use super::frame::read_frame;
use super::id::SchemaId;
use crate::record_part::{KeyAndValue, RecordPart};
use crate::record_view::RecordView;

/// Schemas that the last checked records had, so that most checks compare a few bytes.
#[derive(Debug, Clone, Default)]
pub struct KnownSchemas {
    caches: KeyAndValue<SchemaCache>,
}

impl KnownSchemas {
    /// Returns the id if the key or value needs a schema that has not been looked up. A malformed
    /// frame needs none: extraction reports it.
    pub(crate) fn missing(
        &mut self,
        format: &DocumentFormat,
        part: RecordPart,
        record: &RecordView<'_>,
    ) -> Option<SchemaId> {
        let (framing, table) = format.registered()?;
        let payload = match part {
            RecordPart::Key => record.key?,
            RecordPart::Value => record.value?,
        };
        if payload.is_empty() && format.is_null_if_empty() {
            return None;
        }
        let frame = read_frame(framing, part, record).ok()?;
        match self.caches.of_mut(part).get(table, format.kind, &frame) {
            Err(SchemaProblem::Pending(id)) => Some(id),
            Ok(_) | Err(SchemaProblem::Unusable(_)) => None,
        }
    }
}
