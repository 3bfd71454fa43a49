//! Fetches schemas at once, for commands that explain records.

use std::sync::Arc;

use weir_kafka::registry::SchemaSink;
use weir_mapping::{KnownSchemas, Mapping, RecordView, SchemaTable};

use super::loader::{SchemaLoader, registry_id};
use super::settings::ConnectionRegistry;

/// Fetches the schemas that a record needs. A schema that cannot
/// be fetched is in the table with the reason.
pub fn fetch_missing(
    registry: &ConnectionRegistry,
    mapping: &Mapping,
    table: &Arc<SchemaTable>,
    record: &RecordView<'_>,
) {
    let loader = SchemaLoader::new(Arc::clone(table));
    let mut known = KnownSchemas::default();
    // The key and the value name one schema each.
    while let Some(id) = mapping.missing_schema(record, &mut known) {
        let id = registry_id(&id);
        let found = registry
            .client
            .schema(&id)
            .map_err(|error| error.to_string());
        let load = |schema| {
            loader
                .found(&id, &schema)
                .map_err(|error| error.to_string())
        };
        if let Err(reason) = found.and_then(load) {
            loader.failed(&id, &reason);
        }
    }
}
