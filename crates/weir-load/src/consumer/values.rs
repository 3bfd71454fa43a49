//! Options that describe values in which consumers find a time.

use clap::Args;

use super::latency_source::LatencySource;
use crate::error::{LoadError, Result};
use crate::value_schema::{DocumentReader, SchemaArgs, ValueSchema};

/// Schema and frames of the values of a topic.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct ValueArgs {
    /// Schema of the values, with `--latency-from avro:FIELD` or `protobuf:FIELD`.
    #[command(flatten)]
    pub schema: SchemaArgs,
    /// Skip the frame of a schema registry at the start of values
    ///
    /// With --latency-from json:MEMBER, avro:FIELD or protobuf:FIELD. All values must have the
    /// schema given here, whatever schema they name.
    #[arg(long)]
    pub framed: bool,
}

impl ValueArgs {
    /// Returns the reader of the field of a source; `None` if no schema describes the values.
    pub(super) fn reader(&self, source: &LatencySource) -> Result<Option<DocumentReader>> {
        let (LatencySource::Avro(field) | LatencySource::Protobuf(field)) = source else {
            self.reject_unused(source)?;
            return Ok(None);
        };
        let Some(format) = source.schema_format() else {
            return Ok(None);
        };
        let schema = ValueSchema::new(&self.schema, format)?;
        DocumentReader::new(&schema, field, self.framed).map(Some)
    }

    fn reject_unused(&self, source: &LatencySource) -> Result<()> {
        if let Some(path) = &self.schema.schema {
            let reason = "values are not read with a schema; use --latency-from avro:FIELD or \
                 protobuf:FIELD";
            return Err(LoadError::option("--schema", &path.display(), reason));
        }
        match (self.framed, source) {
            (true, LatencySource::Header | LatencySource::Text) => {
                let reason = "--framed has no effect; use json:MEMBER, avro:FIELD or \
                     protobuf:FIELD";
                Err(LoadError::option("--latency-from", source, reason))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_options_are_rejected() {
        let reader = |source: &str, values: &ValueArgs| {
            let source: LatencySource = source.parse().expect("a source");
            values.reader(&source).map(|reader| reader.is_some())
        };
        let none = ValueArgs::default();
        let framed = ValueArgs {
            framed: true,
            ..ValueArgs::default()
        };
        let schema = ValueArgs {
            schema: SchemaArgs {
                schema: Some("a.avsc".into()),
                message: None,
            },
            framed: false,
        };
        for (source, values, expected) in [
            ("header", &none, Ok(false)),
            ("avro:weir", &none, Ok(true)),
            ("protobuf:weir", &framed, Ok(true)),
            ("json:weir", &framed, Ok(false)),
            (
                "text",
                &framed,
                Err("--latency-from text: --framed has no effect"),
            ),
            (
                "json:weir",
                &schema,
                Err("--schema a.avsc: values are not read"),
            ),
            (
                "avro:weir",
                &schema,
                Err("--schema a.avsc: cannot read the file"),
            ),
            ("avro:a[", &none, Err("--latency-from a[: ")),
        ] {
            match (reader(source, values), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{source}"),
                (Err(error), Err(expected)) => {
                    assert!(error.to_string().starts_with(expected), "{error}");
                }
                (found, _) => panic!("{source}: {found:?}"),
            }
        }
    }
}
