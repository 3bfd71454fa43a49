//! A reader's own copy of the schemas that its last records used.

use std::sync::Arc;

use super::compiled::CompiledSchema;
use super::format::{DocumentFormat, DocumentKind, SchemaSource};
use super::frame::{Frame, MessageIndexes};
use super::id::SchemaId;
use super::table::{ParsedSchema, Schema, SchemaError, SchemaState, SchemaTable};
use crate::error::PayloadProblem;

/// Maximum number of schemas; more are looked up again.
const SCHEMAS_MAX: usize = 64;

/// Schemas by id and message type, the last used one first.
#[derive(Debug, Clone, Default)]
pub(crate) struct SchemaCache {
    generation: u64,
    entries: Vec<CachedSchema>,
}

#[derive(Debug, Clone)]
struct CachedSchema {
    id: SchemaId,
    indexes: MessageIndexes,
    schema: Result<CompiledSchema, SchemaProblem>,
}

/// Reason why a payload has no schema.
#[derive(Debug, Clone)]
pub(crate) enum SchemaProblem {
    Pending(SchemaId),
    Unusable(PayloadProblem),
}

impl SchemaCache {
    /// Returns the schema of a frame.
    pub(crate) fn get(
        &mut self,
        table: &SchemaTable,
        kind: DocumentKind,
        frame: &Frame<'_>,
    ) -> Result<&CompiledSchema, SchemaProblem> {
        let generation = table.generation();
        if self.generation != generation {
            self.entries.clear();
            self.generation = generation;
        }
        let is_same = |one: &CachedSchema| frame.id.is(&one.id) && one.indexes == frame.indexes;
        match self.entries.iter().position(is_same) {
            Some(0) => {}
            Some(position) => self.entries.swap(0, position),
            None => {
                let state = table.get_key(frame.id);
                let id = frame.id.to_id();
                let schema = match state {
                    None => return Err(SchemaProblem::Pending(id)),
                    Some(SchemaState::Known(schema)) => compile(&schema, kind, &frame.indexes, &id),
                    Some(SchemaState::Failed(reason)) => Err(PayloadProblem::Schema {
                        id: id.clone(),
                        reason,
                    }),
                };
                if self.entries.len() == SCHEMAS_MAX {
                    self.entries.pop();
                }
                let entry = CachedSchema {
                    id,
                    indexes: frame.indexes.clone(),
                    schema: schema.map_err(SchemaProblem::Unusable),
                };
                self.entries.insert(0, entry);
            }
        }
        self.entries[0].schema.as_ref().map_err(Clone::clone)
    }
}

/// Returns a schema for documents of `kind`.
fn compile(
    schema: &Schema,
    kind: DocumentKind,
    indexes: &[i32],
    id: &SchemaId,
) -> Result<CompiledSchema, PayloadProblem> {
    let unusable = |reason: String| PayloadProblem::Schema {
        id: id.clone(),
        reason: reason.into(),
    };
    match (&schema.0, kind) {
        (ParsedSchema::Protobuf(schema), DocumentKind::Protobuf) => {
            let message = schema.message_at(indexes);
            let message = message.ok_or_else(|| {
                unusable(format!("it has no message with the indexes {indexes:?}"))
            })?;
            Ok(CompiledSchema::Protobuf(message))
        }
        (_, kind) => whole_schema(schema, kind).ok_or_else(|| {
            unusable(format!(
                "it is a schema of {}, not of {kind}",
                schema.kind()
            ))
        }),
    }
}

impl DocumentFormat {
    /// Sets the schema of the file that the configuration names. Later calls have no effect.
    pub(crate) fn set_file_schema(&self, schema: &Schema) -> Result<(), SchemaError> {
        let SchemaSource::File(slot) = &self.schema else {
            return Ok(());
        };
        let compiled = whole_schema(schema, self.kind).ok_or_else(|| {
            SchemaError(format!(
                "it is a schema of {}, not of {}",
                schema.kind(),
                self.kind
            ))
        })?;
        // Another call has set it already.
        let _ = slot.set(compiled);
        Ok(())
    }
}

/// Returns a schema that needs no message indexes.
fn whole_schema(schema: &Schema, kind: DocumentKind) -> Option<CompiledSchema> {
    match (&schema.0, kind) {
        (ParsedSchema::Avro(schema), DocumentKind::Avro) => {
            Some(CompiledSchema::Avro(Arc::clone(schema)))
        }
        (ParsedSchema::Message(message), DocumentKind::Protobuf) => {
            Some(CompiledSchema::Protobuf(Arc::clone(message)))
        }
        (ParsedSchema::Json(schema), DocumentKind::Json) => {
            Some(CompiledSchema::Json(Arc::clone(schema)))
        }
        _ => None,
    }
}
