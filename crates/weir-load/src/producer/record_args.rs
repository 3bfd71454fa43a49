//! Options of values with a schema, and the frames for a schema registry.

use std::path::PathBuf;

use clap::Args;

use crate::error::{LoadError, Result};
use crate::payload::{FieldNames, PayloadKind, RecordSpec, TimeUnit};
use crate::registry::{self, RegistryArgs};
use crate::value_schema::{RecordFormat, SchemaArgs, ValueSchema, frame};

/// Options of values with a schema: the kinds avro, protobuf and json2.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct RecordArgs {
    /// Schema of the values.
    #[command(flatten)]
    pub schema: SchemaArgs,
    /// Field for the due time [default: timestamp, if suitable]
    ///
    /// A string gets TIMESTAMP, a 64-bit integer the Unix time. A nullable field is not null.
    #[arg(long, value_name = "FIELD")]
    pub time_field: Option<String>,
    /// Unit of a due time that is a number: ns, us or ms
    ///
    /// The default is that of an Avro logical type, else ns.
    #[arg(long, value_name = "UNIT")]
    pub time_unit: Option<TimeUnit>,
    /// Field for the stamp, a string [default: weir, if suitable]
    ///
    /// The stamp consists of due time, producer, sequence number and send time.
    #[arg(long, value_name = "FIELD")]
    pub stamp_field: Option<String>,
    /// Field for the key of the record, a string [default: sndValue, if suitable]
    #[arg(long, value_name = "FIELD")]
    pub key_field: Option<String>,
    /// Registry at which the schema is registered under TOPIC-value; frames the values.
    #[command(flatten)]
    pub registry: RegistryArgs,
    /// Frame the values for a schema registry with this id, without connecting to one
    #[arg(long, value_name = "ID", conflicts_with = "registry",
          value_parser = clap::value_parser!(i32).range(0..))]
    pub schema_id: Option<i32>,
}

impl RecordArgs {
    /// Returns the values of a kind; `None` if they have no schema.
    ///
    /// # Errors
    /// An option does not fit the kind or the schema.
    pub(super) fn spec(
        &self,
        (kind, marked): (PayloadKind, bool),
        size: Option<usize>,
    ) -> Result<Option<RecordSpec>> {
        let Some(format) = kind.record_format() else {
            return self.reject_all(kind);
        };
        if format == RecordFormat::Json {
            let fields = [
                ("--time-field", self.time_field.clone()),
                ("--stamp-field", self.stamp_field.clone()),
                ("--key-field", self.key_field.clone()),
                ("--time-unit", self.time_unit.map(|unit| unit.to_string())),
            ];
            if let Some((option, Some(value))) = fields.iter().find(|(_, value)| value.is_some()) {
                let reason = "objects of kind json2 have fixed members; use avro or protobuf";
                return Err(LoadError::option(option, value, reason));
            }
        }
        let names = FieldNames {
            time: self.time_field.clone(),
            unit: self.time_unit,
            stamp: self.stamp_field.clone(),
            key: self.key_field.clone(),
        };
        let schema = ValueSchema::new(&self.schema, format)?;
        let spec = RecordSpec::new(schema, &names, size)?;
        if marked && !spec.has_time_text() {
            let reason = "values have no timestamp as text that could be marked; name one with \
                 --time-field";
            return Err(LoadError::option("--mark with --kind", &kind, reason));
        }
        if let (Some(url), Err(reason)) = (&self.registry.registry, spec.schema().text.as_ref()) {
            let reason = format!("the schema cannot be registered: {reason}");
            return Err(LoadError::option("--registry", url, reason));
        }
        Ok(Some(spec))
    }

    /// Registers the schema if needed. Returns the description with the frame of each value.
    ///
    /// # Errors
    /// The registry does not accept the schema.
    pub(super) fn framed(&self, spec: RecordSpec, topic: &str) -> Result<RecordSpec> {
        let id = match (self.schema_id, &self.registry.registry) {
            (Some(id), _) => id,
            (None, Some(_)) => {
                let text = spec.schema().text.as_deref().unwrap_or_default();
                let name = spec.schema().format().registry_name();
                let subject = format!("{topic}-value");
                registry::register(&self.registry, &subject, name, text)?
            }
            (None, None) => return Ok(spec),
        };
        let frame = frame(spec.schema(), id)?;
        Ok(spec.with_frame(frame))
    }

    /// Rejects every option, for kinds without a schema.
    fn reject_all(&self, kind: PayloadKind) -> Result<Option<RecordSpec>> {
        let path = |path: &Option<PathBuf>| path.is_some();
        let given = [
            ("--schema", path(&self.schema.schema)),
            ("--message", self.schema.message.is_some()),
            ("--time-field", self.time_field.is_some()),
            ("--time-unit", self.time_unit.is_some()),
            ("--stamp-field", self.stamp_field.is_some()),
            ("--key-field", self.key_field.is_some()),
            ("--registry", self.registry.registry.is_some()),
            ("--registry-config", path(&self.registry.registry_config)),
            ("--schema-id", self.schema_id.is_some()),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            None => Ok(None),
            Some((option, _)) => Err(LoadError::option(
                "--kind",
                &kind,
                format!("{option} needs values with a schema; use --kind avro, protobuf or json2"),
            )),
        }
    }
}

#[cfg(test)]
mod tests;
