//! Fuzz targets, run by `fuzz/` and briefly by the tests.

/// Writes and reads a record of the schema in `data`.
pub fn record_schema(data: &[u8]) {
    crate::payload::record_schema(data);
}
