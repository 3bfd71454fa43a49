//! Fuzz target of records that name schemas of a registry.

use crate::config::{ConfigSource, ConnectionConfig, Parameter, ParseOptions};
use crate::error::ExtractionReason;
use crate::field_values::FieldValues;
use crate::record_view::RecordView;
use crate::schema::{KnownSchemas, Schema, SchemaId, SchemaKind, SchemaReference, SchemaState};

const AVRO: &str = r#"{"type": "record", "name": "R", "fields": [
    {"name": "a", "type": ["null", "int", "R"]}, {"name": "b", "type": "string"}]}"#;
const PROTOBUF: &str = "syntax = \"proto3\"; import \"t.proto\"; \
    message M { message N { int32 a = 1; } N b = 1; T c = 2; }";
const IMPORT: &str = "syntax = \"proto3\"; message T { repeated string a = 1; }";
const JSON: &str = r#"{"type": "object"}"#;

/// Reads `data` as a value with a schema id, and as the headers that may name a schema. The first
/// byte selects type and provider.
pub fn schema_frames(data: &[u8]) {
    let Some((selector, value)) = data.split_first() else {
        return;
    };
    let evaluator = ["AVRO", "PROTOBUF", "JSON"][usize::from(selector % 3)];
    let is_azure = selector & 0x80 != 0 && evaluator != "PROTOBUF";
    let connection = connection(evaluator, is_azure);
    let name = ["__value_schema_id", "content-type", "schemaId", "other"];
    let header = &value[..value.len().min(usize::from(selector >> 2 & 31))];
    let headers = [(name[usize::from(selector % 4)], Some(header))];
    let record = RecordView {
        topic: "T",
        partition: 0,
        offset: 0,
        timestamp_ms: 0,
        key: None,
        value: Some(value),
        headers: &headers,
    };
    let mapping = &connection.mapping;
    let missing = mapping.missing_schema(&record, &mut KnownSchemas::default());
    let mut values = FieldValues::new();
    let extracted = mapping.field_values(&record, &mapping.all_fields(), &mut values);
    let pending = match extracted {
        Err(error) => match error.reason {
            ExtractionReason::SchemaPending(id) => Some(id),
            _ => None,
        },
        Ok(()) => None,
    };
    // Ingest relies on this: a record without a missing schema never waits.
    assert_eq!(missing, pending);
    mapping.decode(&record);
}

fn connection(evaluator: &str, is_azure: bool) -> ConnectionConfig {
    let provider = if is_azure { "AZURE" } else { "CONFLUENT" };
    let parameters = [
        ("bootstrap.servers", "h:1"),
        ("map.T.to", "i"),
        ("field.a", "#{VALUE.a}"),
        ("field.b", "#{VALUE.b.a}"),
        ("fields.skip.failed.mapping.enable", "true"),
        ("fields.map.non.scalar.values.enable", "true"),
        ("record.value.evaluator.type", evaluator),
        ("record.value.evaluator.schema.registry.enable", "true"),
        ("schema.registry.url", "http://h"),
        ("schema.registry.provider", provider),
        ("schema.registry.azure.tenant.id", "t"),
        ("schema.registry.azure.client.id", "c"),
        ("schema.registry.azure.client.secret", "s"),
    ];
    let parameters = parameters.map(|(name, value)| Parameter {
        name: name.to_owned(),
        value: value.to_owned(),
        line: None,
    });
    let source = ConfigSource {
        file: "fuzz",
        options: ParseOptions::default(),
    };
    let connection =
        ConnectionConfig::from_parameters("C", parameters, &source, None, &mut Vec::new());
    let connection = connection.expect("the parameters are valid");
    let import = SchemaReference {
        name: "t.proto".to_owned(),
        text: IMPORT.to_owned(),
    };
    let schemas = [
        Schema::parse(SchemaKind::Avro, AVRO, &[]),
        Schema::parse(SchemaKind::Protobuf, PROTOBUF, &[import]),
        Schema::parse(SchemaKind::Json, JSON, &[]),
    ];
    let table = connection.schemas();
    for (number, schema) in (0..).zip(schemas) {
        let state = SchemaState::Known(schema.expect("a valid schema"));
        table.put(SchemaId::Number(number), state.clone());
        table.put(SchemaId::Name(number.to_string().into()), state);
    }
    table.put(SchemaId::Number(3), SchemaState::Failed("unknown".into()));
    connection
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn records_with_schema_ids_never_panic(
            selector in any::<u8>(),
            magic in 0u8..3,
            id in 0u8..5,
            body in vec(any::<u8>(), 0..40),
        ) {
            schema_frames(&[&[selector, magic, 0, 0, 0, id][..], &body].concat());
            schema_frames(&body);
        }
    }
}
