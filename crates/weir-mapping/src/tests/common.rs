//! Mappings built from parameters, and records for them.

use std::sync::Arc;

use crate::{
    ConfigError, ConfigReport, ConfigSource, ConnectionConfig, ExtractionError, FieldValue,
    FieldValues, Mapping, Note, Parameter, ParseOptions, RecordView,
};

/// An `adapters.xml` without errors.
#[derive(Debug)]
pub(crate) struct AdaptersFile {
    pub(crate) set_id: String,
    pub(crate) logging_path: Option<Parameter>,
    pub(crate) connections: Vec<ConnectionConfig>,
    pub(crate) notes: Vec<Note>,
}

impl AdaptersFile {
    /// Parses a file. Returns the first error.
    pub(crate) fn parse(
        file_name: &str,
        xml: &str,
        env: &dyn Fn(&str) -> Option<String>,
        options: ParseOptions,
    ) -> Result<Self, ConfigError> {
        let report = ConfigReport::of(file_name, xml, env, options);
        if let Some(error) = report.errors.into_iter().next() {
            return Err(error);
        }
        Ok(Self {
            set_id: report.set_id.expect("a name"),
            logging_path: report.logging_path,
            connections: report.connections.into_iter().flatten().collect(),
            notes: report.notes,
        })
    }
}

/// Returns a mapping of topic `T` with these parameters, bootstrap servers and a simple item.
pub(crate) fn mapping(parameters: &[(&str, &str)]) -> Arc<Mapping> {
    let source = ConfigSource {
        file: "test",
        options: ParseOptions::default(),
    };
    let all = [("bootstrap.servers", "h:1"), ("map.T.to", "all")];
    let all = all.iter().chain(parameters).map(|(name, value)| Parameter {
        name: (*name).to_owned(),
        value: (*value).to_owned(),
        line: None,
    });
    ConnectionConfig::from_parameters("C", all, &source, None, &mut Vec::new())
        .expect("valid parameters")
        .mapping
}

/// Returns a record of topic `T`.
pub(crate) fn record<'a>(key: Option<&'a [u8]>, value: Option<&'a [u8]>) -> RecordView<'a> {
    RecordView {
        topic: "T",
        partition: 0,
        offset: 0,
        timestamp_ms: 0,
        key,
        value,
        headers: &[],
    }
}

/// Returns the values of all fields of a mapping; the outer `None` is a skipped field.
pub(crate) fn values(
    mapping: &Mapping,
    record: &RecordView<'_>,
) -> Result<Vec<Option<Option<String>>>, ExtractionError> {
    let mut values = FieldValues::new();
    mapping.field_values(record, &mapping.all_fields(), &mut values)?;
    let owned = |value| match value {
        FieldValue::Text(text) => Some(Some(text.to_owned())),
        FieldValue::Null => Some(None),
        FieldValue::Skipped => None,
    };
    Ok(values.iter().map(owned).collect())
}
