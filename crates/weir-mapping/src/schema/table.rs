//! Table of the registered schemas of a connection, shared between threads.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use strum::{Display, EnumString};
use thiserror::Error;
use weir_formats::avro::AvroSchema;
use weir_formats::protobuf::{ProtobufMessage, ProtobufSchema};

use super::id::{SchemaId, SchemaKey};
use super::json_schema::JsonSchema;

/// Maximum number of ids, so that producers cannot fill the memory with unknown ones.
const IDS_MAX: usize = 10_000;

/// Language of a schema, as registries name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Display, EnumString)]
#[strum(serialize_all = "UPPERCASE")]
pub enum SchemaKind {
    /// Avro, if a registry names no kind.
    #[default]
    Avro,
    /// Protobuf, as the text of a `.proto` file.
    Protobuf,
    /// JSON Schema.
    Json,
}

/// A schema that another one refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaReference {
    /// Name in the referring schema: a type, or the path of an import.
    pub name: String,
    /// Text of the schema.
    pub text: String,
}

/// A parsed schema.
#[derive(Debug, Clone)]
pub struct Schema(pub(crate) ParsedSchema);

#[derive(Debug, Clone)]
pub(crate) enum ParsedSchema {
    Avro(Arc<AvroSchema>),
    Protobuf(Arc<ProtobufSchema>),
    /// A message type of a descriptor file.
    Message(Arc<ProtobufMessage>),
    Json(Arc<JsonSchema>),
}

/// Reason why a text is not a schema.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct SchemaError(pub(crate) String);

impl Schema {
    /// Parses a schema. References come before the schemas that refer to them.
    ///
    /// # Errors
    /// The text is not a valid schema of its kind.
    pub fn parse(
        kind: SchemaKind,
        text: &str,
        references: &[SchemaReference],
    ) -> Result<Self, SchemaError> {
        let error = |reason: &dyn std::fmt::Display| {
            SchemaError(format!("the {kind} schema cannot be used: {reason}"))
        };
        let parsed = match kind {
            SchemaKind::Avro => {
                let texts: Vec<_> = references.iter().map(|one| one.text.clone()).collect();
                let schema = AvroSchema::parse(text, &texts).map_err(|e| error(&e))?;
                ParsedSchema::Avro(Arc::new(schema))
            }
            SchemaKind::Protobuf => {
                let imports = references.iter();
                let imports = imports.map(|one| (one.name.clone(), one.text.clone()));
                let imports: Vec<_> = imports.collect();
                let schema = ProtobufSchema::parse_proto(text, &imports).map_err(|e| error(&e))?;
                ParsedSchema::Protobuf(Arc::new(schema))
            }
            SchemaKind::Json => {
                ParsedSchema::Json(Arc::new(JsonSchema::parse(text).map_err(|e| error(&e))?))
            }
        };
        Ok(Self(parsed))
    }

    /// Parses the schema of a file: the text of an Avro or JSON schema, or a Protobuf descriptor
    /// set with the name of a message type.
    pub(crate) fn from_file(
        kind: SchemaKind,
        bytes: &[u8],
        message_type: Option<&str>,
    ) -> Result<Self, SchemaError> {
        if kind != SchemaKind::Protobuf {
            let text = std::str::from_utf8(bytes);
            let text = text.map_err(|_| SchemaError(format!("the {kind} schema is not UTF-8")))?;
            return Self::parse(kind, text, &[]);
        }
        let schema = ProtobufSchema::from_descriptor_set(bytes).map_err(|error| {
            SchemaError(format!(
                "the file is not a Protobuf descriptor set: {error}; make it with protoc \
                 --descriptor_set_out=FILE --include_imports"
            ))
        })?;
        let name = message_type.unwrap_or_default();
        let message = schema
            .message(name)
            .ok_or_else(|| SchemaError(format!("message type [{name}] not found in the schema")))?;
        Ok(Self(ParsedSchema::Message(message)))
    }

    /// Returns the language of the schema.
    pub fn kind(&self) -> SchemaKind {
        match self.0 {
            ParsedSchema::Avro(_) => SchemaKind::Avro,
            ParsedSchema::Protobuf(_) | ParsedSchema::Message(_) => SchemaKind::Protobuf,
            ParsedSchema::Json(_) => SchemaKind::Json,
        }
    }
}

/// Knowledge about an id.
#[derive(Debug, Clone)]
pub enum SchemaState {
    /// The registered schema. It never changes.
    Known(Schema),
    /// The registry did not return a usable schema, with the reason.
    Failed(Arc<str>),
}

/// Registered schemas by id. Readers copy what they need and look again only if
/// [`Self::generation`] has changed, so reading is cheap.
#[derive(Debug, Default)]
pub struct SchemaTable {
    generation: AtomicU64,
    schemas: RwLock<HashMap<SchemaId, SchemaState>>,
}

impl SchemaTable {
    /// Sets the state of an id. Returns `false` if the table is full.
    pub fn put(&self, id: SchemaId, state: SchemaState) -> bool {
        let mut schemas = self.schemas.write().unwrap_or_else(PoisonError::into_inner);
        if schemas.len() >= IDS_MAX && !schemas.contains_key(&id) {
            return false;
        }
        schemas.insert(id, state);
        self.generation.fetch_add(1, Ordering::Release);
        true
    }

    /// Removes a failed id, so that it is looked up again. Known schemas stay.
    pub fn forget_failure(&self, id: &SchemaId) {
        let mut schemas = self.schemas.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(SchemaState::Failed(_)) = schemas.get(id) {
            schemas.remove(id);
            self.generation.fetch_add(1, Ordering::Release);
        }
    }

    /// Returns the state of an id; `None` if it has not been looked up.
    pub fn get(&self, id: &SchemaId) -> Option<SchemaState> {
        let schemas = self.schemas.read().unwrap_or_else(PoisonError::into_inner);
        match schemas.get(id) {
            None if schemas.len() >= IDS_MAX => {
                let reason = format!("more than {IDS_MAX} schema ids are in use");
                Some(SchemaState::Failed(reason.into()))
            }
            found => found.cloned(),
        }
    }

    /// Returns a number that changes with every change of the table.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn get_key(&self, key: SchemaKey<'_>) -> Option<SchemaState> {
        self.get(&key.to_id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_forgotten_and_ids_bounded() {
        let table = SchemaTable::default();
        let failed = || SchemaState::Failed("down".into());
        assert!(table.put(SchemaId::Number(1), failed()));
        let before = table.generation();
        table.forget_failure(&SchemaId::Number(2));
        assert_eq!(table.generation(), before);
        table.forget_failure(&SchemaId::Number(1));
        assert!(table.get(&SchemaId::Number(1)).is_none());
        assert!(table.generation() > before);
        for number in 0..IDS_MAX as i32 {
            assert!(table.put(SchemaId::Number(number), failed()));
        }
        assert!(!table.put(SchemaId::Number(-1), failed()));
        let state = table.get(&SchemaId::Number(-1));
        assert!(matches!(state, Some(SchemaState::Failed(reason)) if reason.contains("10000")));
    }

    #[test]
    fn kinds_have_names_of_registries() {
        for (name, kind) in [
            ("AVRO", SchemaKind::Avro),
            ("PROTOBUF", SchemaKind::Protobuf),
            ("JSON", SchemaKind::Json),
        ] {
            assert_eq!(name.parse(), Ok(kind));
            assert_eq!(kind.to_string(), name);
        }
    }
}
