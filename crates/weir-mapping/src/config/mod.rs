//! Parses `adapters.xml`, or parameters of another file, into checked connections.

mod connection;
mod expand;
mod foreign;
mod note;
mod parameter_table;
mod parameters;
mod routing;
mod source;
mod suggest;
mod types;
mod xml;

use std::borrow::Cow;

pub use connection::{
    ConnectionConfig, ConsumeFrom, ErrorStrategy, OrderStrategy, RejectedConnection, Threads,
};
pub use expand::expand;
pub use note::{Note, ParameterOutcome, ParameterStatus, ReferencedFile, Severity};
pub use source::{ConfigSource, Parameter, ParseOptions};

use crate::error::{ConfigError, Problem};
use xml::{Class, RawFile, RawProvider};

/// Parameter of the metadata provider that names the connector's logging configuration.
const LOGGING_PATH: &str = "logging.configuration.path";

const METADATA_CLASS: &str = "com.lightstreamer.kafka.adapters.pub.KafkaConnectorMetadataAdapter";
const DATA_CLASS: &str = "com.lightstreamer.kafka.adapters.KafkaConnectorDataAdapter";
const LEGACY_METADATA_CLASS: &str =
    "com.lightstreamer.kafka_connector.adapters.ConnectorMetadataAdapter";
const LEGACY_DATA_CLASS: &str = "com.lightstreamer.kafka_connector.adapters.ConnectorDataAdapter";

/// Name of a data provider without a name.
const DEFAULT_CONNECTION: &str = "DEFAULT";

/// A checked `adapters.xml`.
#[derive(Debug)]
pub struct AdaptersFile {
    /// Name of the adapter set, which clients give as `LS_adapter_set`.
    pub set_id: String,
    /// `logging.configuration.path`, which names a file that is not read.
    pub logging_path: Option<Parameter>,
    /// Connections in file order, disabled ones included.
    pub connections: Vec<ConnectionConfig>,
    /// Findings for the operator.
    pub notes: Vec<Note>,
}

impl AdaptersFile {
    /// Parses an `adapters.xml`; `env` returns the value of `$env.NAME`.
    ///
    /// No files are opened. The caller checks that `logging_path` and the files of the connections
    /// exist.
    ///
    /// # Errors
    /// The first error in the file.
    pub fn parse(
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
            // A file without a name of the adapter set has an error.
            set_id: report.set_id.unwrap_or_default(),
            logging_path: report.logging_path,
            connections: report.connections.into_iter().flatten().collect(),
            notes: report.notes,
        })
    }
}

/// Result of checking an `adapters.xml`, valid or not.
#[derive(Debug, Default)]
pub struct ConfigReport {
    /// Name of the adapter set, if it could be read.
    pub set_id: Option<String>,
    /// `logging.configuration.path`, which names a file.
    pub logging_path: Option<Parameter>,
    /// Connections in file order.
    pub connections: Vec<Result<ConnectionConfig, Box<RejectedConnection>>>,
    /// Findings for the operator.
    pub notes: Vec<Note>,
    /// All errors in the order found, those of the connections included.
    pub errors: Vec<ConfigError>,
}

impl ConfigReport {
    /// Parses a file as [`AdaptersFile::parse`] does, but continues after errors.
    pub fn of(
        file_name: &str,
        xml: &str,
        env: &dyn Fn(&str) -> Option<String>,
        options: ParseOptions,
    ) -> Self {
        let source = ConfigSource {
            file: file_name,
            options,
        };
        let mut report = Self::default();
        let (notes, errors) = (&mut report.notes, &mut report.errors);
        if let Some(raw) = RawFile::parse(&source, xml, env, notes, errors) {
            report.read(&source, raw);
        }
        report
    }

    fn read(&mut self, source: &ConfigSource<'_>, raw: RawFile) {
        self.set_id = raw.set_id;
        if let Err(error) = self.read_metadata(source, raw.metadata) {
            self.errors.push(error);
        }
        for provider in raw.data {
            if let Err(error) = self.read_connection(source, provider) {
                self.errors.push(error);
            }
        }
        if self.connections.is_empty() && self.errors.is_empty() {
            let problem = Problem::MissingPart {
                what: "a <data_provider> of the Kafka connector".into(),
                remedy: "add one for each Kafka connection",
            };
            self.errors.push(source.error(None, None, problem));
        }
    }

    /// Reads the metadata provider; only its logging path and class are used.
    fn read_metadata(
        &mut self,
        source: &ConfigSource<'_>,
        provider: Option<RawProvider>,
    ) -> Result<(), ConfigError> {
        let Some(provider) = provider else {
            let remedy = "add it with its adapter_class and logging.configuration.path";
            let what = "<metadata_provider>".to_owned();
            let problem = Problem::MissingPart { what, remedy };
            return warn_or_reject(source, None, problem, &mut self.notes);
        };
        if let Err(error) = check_class(source, &provider, None, &mut self.notes) {
            self.errors.push(error);
        }
        let unresolved = provider.unresolved.values.into_iter();
        self.errors
            .extend(unresolved.map(|rejected| rejected.error));
        let (is_path, others): (Vec<_>, Vec<_>) = provider
            .parameters
            .into_iter()
            .partition(|parameter| parameter.name == LOGGING_PATH);
        for parameter in others {
            let text = format!(
                "parameter [{}] of the metadata provider is ignored: there is no Java subclass \
                 to read it",
                parameter.name
            );
            self.notes
                .push(source.note(Severity::Info, parameter.line, None, text));
        }
        let parameter = LOGGING_PATH.to_owned();
        let Some(path) = is_path.into_iter().next_back() else {
            if provider.unresolved.has_names {
                return Ok(());
            }
            let remedy = "name a log4j properties file";
            let problem = Problem::MissingParameter { parameter, remedy };
            return warn_or_reject(source, Some(provider.line), problem, &mut self.notes);
        };
        if crate::text::is_blank(&path.value) {
            let problem = Problem::BadValue {
                parameter,
                value: path.value,
                expected: "the path of a file".to_owned(),
            };
            return Err(source.error(path.line, None, problem));
        }
        self.logging_path = Some(path);
        Ok(())
    }

    fn read_connection(
        &mut self,
        source: &ConfigSource<'_>,
        provider: RawProvider,
    ) -> Result<(), ConfigError> {
        let name = provider.name.as_deref().unwrap_or(DEFAULT_CONNECTION);
        if !check_class(source, &provider, Some(name), &mut self.notes)? {
            return Ok(());
        }
        let is_taken = |connection: &Result<ConnectionConfig, Box<RejectedConnection>>| {
            let other = connection.as_ref().map_or_else(|r| &r.name, |c| &c.name);
            other == name
        };
        if self.connections.iter().any(is_taken) {
            let problem = Problem::DuplicateConnection(name.to_owned());
            return Err(source.error(Some(provider.line), None, problem));
        }
        let line = Some(provider.line);
        let connection = ConnectionConfig::check_parameters(
            name,
            provider.parameters,
            provider.unresolved,
            source,
            line,
            &mut self.notes,
        );
        if let Err(rejected) = &connection {
            self.errors.push(rejected.first.clone());
            self.errors.extend(rejected.more.iter().cloned());
        }
        self.connections.push(connection);
        Ok(())
    }
}

fn warn_or_reject(
    source: &ConfigSource<'_>,
    line: Option<u32>,
    problem: Problem,
    notes: &mut Vec<Note>,
) -> Result<(), ConfigError> {
    if source.options.strict {
        return Err(source.error(line, None, problem));
    }
    notes.push(source.note(Severity::Warning, line, None, problem.to_string()));
    Ok(())
}

/// Checks the adapter class. Returns `false` for a data provider of another adapter.
fn check_class(
    source: &ConfigSource<'_>,
    provider: &RawProvider,
    connection: Option<&str>,
    notes: &mut Vec<Note>,
) -> Result<bool, ConfigError> {
    let is_data = connection.is_some();
    let (current, legacy) = if is_data {
        (DATA_CLASS, LEGACY_DATA_CLASS)
    } else {
        (METADATA_CLASS, LEGACY_METADATA_CLASS)
    };
    let (class, line) = match &provider.class {
        Class::Named { name, line } => (name, line),
        Class::Unresolved => return Ok(true),
        Class::Missing => {
            let what = "element <adapter_class>".to_owned();
            let remedy = "write the connector's class";
            let problem = Problem::MissingPart { what, remedy };
            return Err(source.error(Some(provider.line), connection, problem));
        }
    };
    if class == current {
        return Ok(true);
    }
    if source.options.strict {
        let problem = Problem::ForeignClass {
            class: class.clone(),
            expected: current,
        };
        return Err(source.error(Some(*line), connection, problem));
    }
    let is_legacy = class == legacy;
    let text: Cow<'_, str> = if is_legacy {
        format!("adapter class \"{class}\" is a name from before 1.0; write \"{current}\"").into()
    } else if is_data {
        format!(
            "adapter class \"{class}\" is not the Kafka connector's \"{current}\": this data \
             provider is ignored"
        )
        .into()
    } else {
        format!(
            "adapter class \"{class}\" is not the Kafka connector's \"{current}\": its \
             additions have no effect"
        )
        .into()
    };
    notes.push(source.note(
        Severity::Warning,
        Some(*line),
        connection,
        text.into_owned(),
    ));
    Ok(is_legacy || !is_data)
}

#[cfg(test)]
mod tests;
