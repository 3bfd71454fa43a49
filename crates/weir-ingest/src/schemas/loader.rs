//! Puts fetched schemas into the table that extraction reads.

use std::sync::Arc;

use weir_kafka::registry::{RegisteredSchema, RegistryId, SchemaSink, UnusableSchema};
use weir_mapping::{Schema, SchemaId, SchemaKind, SchemaReference, SchemaState, SchemaTable};

/// Parses schemas and puts them into a table.
#[derive(Debug)]
pub(crate) struct SchemaLoader {
    table: Arc<SchemaTable>,
}

impl SchemaLoader {
    pub(crate) fn new(table: Arc<SchemaTable>) -> Self {
        Self { table }
    }
}

impl SchemaSink for SchemaLoader {
    fn found(&self, id: &RegistryId, schema: &RegisteredSchema) -> Result<(), UnusableSchema> {
        let schema = parse(schema)?;
        match self.table.put(schema_id(id), SchemaState::Known(schema)) {
            true => Ok(()),
            false => Err(UnusableSchema("too many schemas".to_owned())),
        }
    }

    fn failed(&self, id: &RegistryId, reason: &str) {
        // A full table reports all unknown ids as failed.
        self.table
            .put(schema_id(id), SchemaState::Failed(reason.into()));
    }

    fn expired(&self, id: &RegistryId) {
        self.table.forget_failure(&schema_id(id));
    }
}

fn parse(schema: &RegisteredSchema) -> Result<Schema, UnusableSchema> {
    let kind = schema.kind.parse::<SchemaKind>();
    let unknown = || UnusableSchema(format!("unknown schema type \"{}\"", schema.kind));
    let kind = kind.map_err(|_| unknown())?;
    let references = schema.references.iter().map(|reference| SchemaReference {
        name: reference.name.clone(),
        text: reference.text.clone(),
    });
    let references: Vec<_> = references.collect();
    let parsed = Schema::parse(kind, &schema.text, &references);
    parsed.map_err(|error| UnusableSchema(error.to_string()))
}

pub(crate) fn registry_id(id: &SchemaId) -> RegistryId {
    match id {
        SchemaId::Number(number) => RegistryId::Number(*number),
        SchemaId::Guid(_) => RegistryId::Guid(id.to_string().into()),
        SchemaId::Name(name) => RegistryId::Name(Arc::clone(name)),
    }
}

fn schema_id(id: &RegistryId) -> SchemaId {
    match id {
        RegistryId::Number(number) => SchemaId::Number(*number),
        RegistryId::Guid(text) => {
            let digits: String = text.chars().filter(|c| *c != '-').collect();
            // The text was written by `registry_id`.
            SchemaId::Guid(u128::from_str_radix(&digits, 16).unwrap_or_default())
        }
        RegistryId::Name(name) => SchemaId::Name(Arc::clone(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(kind: &str, text: &str) -> RegisteredSchema {
        RegisteredSchema {
            kind: kind.to_owned(),
            text: text.to_owned(),
            references: Vec::new(),
        }
    }

    #[test]
    fn ids_survive_conversion() {
        let ids = [
            SchemaId::Number(-5),
            SchemaId::Guid(0x0123_4567_89ab_cdef_0000_0000_0000_0001),
            SchemaId::Name("0fa1".into()),
        ];
        for id in ids {
            assert_eq!(schema_id(&registry_id(&id)), id);
        }
    }

    #[test]
    fn schemas_are_parsed_or_named() {
        let table = Arc::new(SchemaTable::default());
        let loader = SchemaLoader::new(Arc::clone(&table));
        let (id, key) = (RegistryId::Number(1), SchemaId::Number(1));
        let found = loader.found(&id, &schema("XML", "<a/>"));
        let unknown = UnusableSchema("unknown schema type \"XML\"".to_owned());
        assert_eq!(found, Err(unknown));
        let error = loader.found(&id, &schema("AVRO", "{")).unwrap_err();
        assert!(error.0.contains("AVRO"), "{error}");
        assert!(table.get(&key).is_none());
        loader.failed(&id, "down");
        assert!(matches!(table.get(&key), Some(SchemaState::Failed(_))));
        loader.expired(&id);
        assert!(table.get(&key).is_none());
        assert_eq!(loader.found(&id, &schema("AVRO", "\"int\"")), Ok(()));
        loader.expired(&id);
        assert!(matches!(table.get(&key), Some(SchemaState::Known(_))));
    }
}
