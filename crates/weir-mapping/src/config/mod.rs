//! Parses `adapters.xml`, or parameters of another file, into checked connections.

mod cluster;
mod connection;
mod expand;
mod foreign;
mod note;
mod parameter_table;
mod parameters;
mod routing;
mod schemas;
mod snapshot;
mod source;
mod suggest;
mod types;
mod xml;

pub use connection::{
    ConnectionConfig, ConsumeFrom, ErrorStrategy, OrderStrategy, RejectedConnection, Threads,
};
#[cfg(any(test, fuzzing))]
pub(crate) use expand::expand;
pub use note::{Note, ParameterOutcome, ParameterStatus, Severity};
pub use schemas::{RegistryConfig, RegistryLogin, SchemaFile};
pub use snapshot::{SnapshotConfig, SnapshotMode};
pub use source::{ConfigSource, Parameter, ParseOptions};
pub use suggest::nearest;

use crate::error::{ConfigError, Problem};
use source::Findings;
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

/// Result of parsing an `adapters.xml`, valid or not.
#[derive(Debug, Default)]
pub struct ConfigReport {
    /// Name of the adapter set, which clients give as `LS_adapter_set`; always present without
    /// errors.
    pub set_id: Option<String>,
    /// `logging.configuration.path`, which names a file that is not read.
    pub logging_path: Option<Parameter>,
    /// Connections in file order, disabled ones included.
    pub connections: Vec<Result<ConnectionConfig, Box<RejectedConnection>>>,
    /// Findings for the operator.
    pub notes: Vec<Note>,
    /// All errors in the order found, those of the connections included.
    pub errors: Vec<ConfigError>,
}

impl ConfigReport {
    /// Parses an `adapters.xml` and continues after errors; `env` returns the value of `$env.NAME`.
    ///
    /// No files are opened; the caller checks that `logging_path` exists.
    pub fn of(
        file_name: &str,
        xml: &str,
        env: &dyn Fn(&str) -> Option<String>,
        options: ParseOptions,
    ) -> Self {
        let source = &ConfigSource {
            file: file_name,
            options,
        };
        let mut report = Self::default();
        let mut findings = Findings {
            source,
            connection: None,
            notes: &mut report.notes,
            errors: &mut report.errors,
        };
        let Some(raw) = RawFile::parse(xml, env, &mut findings) else {
            return report;
        };
        report.set_id = raw.set_id;
        report.logging_path = logging_path(raw.metadata, &mut findings);
        for provider in raw.data {
            read_connection(provider, &mut report.connections, &mut findings);
        }
        if report.connections.is_empty() && findings.errors.is_empty() {
            let what = "a <data_provider> of the Kafka connector";
            let remedy = "add one for each Kafka connection";
            findings.reject(None, Problem::missing_part(what, remedy));
        }
        report
    }
}

/// Reads the metadata provider; only its class and logging path are used.
fn logging_path(provider: Option<RawProvider>, findings: &mut Findings<'_>) -> Option<Parameter> {
    let Some(provider) = provider else {
        let remedy = "add it with its adapter_class and logging.configuration.path";
        warn_or_reject(
            None,
            Problem::missing_part("<metadata_provider>", remedy),
            findings,
        );
        return None;
    };
    check_class(&provider, findings);
    findings.errors.extend(provider.unresolved.values);
    let mut path = None;
    for parameter in provider.parameters {
        if parameter.name == LOGGING_PATH {
            path = Some(parameter);
            continue;
        }
        let text = format!(
            "parameter [{}] of the metadata provider is ignored: there is no Java subclass to \
             read it",
            parameter.name
        );
        findings.note(Severity::Info, parameter.line, text);
    }
    let Some(path) = path else {
        if !provider.unresolved.has_names {
            let remedy = "name a log4j properties file";
            let problem = Problem::missing_parameter(LOGGING_PATH, remedy);
            warn_or_reject(provider.line, problem, findings);
        }
        return None;
    };
    if weir_formats::white_space::is_blank(&path.value) {
        let expected = "the path of a file";
        let problem = Problem::bad_value(LOGGING_PATH, &path.value, expected);
        findings.reject(path.line, problem);
        return None;
    }
    Some(path)
}

fn read_connection(
    provider: RawProvider,
    connections: &mut Vec<Result<ConnectionConfig, Box<RejectedConnection>>>,
    findings: &mut Findings<'_>,
) {
    let name = provider.name.as_deref().unwrap_or(DEFAULT_CONNECTION);
    if !check_class(&provider, &mut findings.inside(name)) {
        return;
    }
    let line = provider.line;
    let mut names = connections.iter().map(|connection| match connection {
        Ok(connection) => &connection.name,
        Err(rejected) => &rejected.name,
    });
    if names.any(|other| other == name) {
        let problem = format!(
            "a second data_provider is named \"{name}\"; give each connection a unique name"
        );
        return findings.reject(line, Problem(problem));
    }
    let (source, notes) = (findings.source, &mut *findings.notes);
    let (parameters, unresolved) = (provider.parameters, provider.unresolved);
    let connection =
        ConnectionConfig::check_parameters(name, parameters, unresolved, source, line, notes);
    if let Err(rejected) = &connection {
        findings.errors.extend_from_slice(&rejected.errors);
    }
    connections.push(connection);
}

fn warn_or_reject(line: Option<u32>, problem: Problem, findings: &mut Findings<'_>) {
    if findings.is_strict() {
        findings.reject(line, problem);
    } else {
        findings.warn(line, problem.0);
    }
}

/// Checks the adapter class. Returns `false` for a data provider that is not read because its class
/// is wrong.
fn check_class(provider: &RawProvider, findings: &mut Findings<'_>) -> bool {
    let is_data = findings.connection.is_some();
    let (current, legacy) = if is_data {
        (DATA_CLASS, LEGACY_DATA_CLASS)
    } else {
        (METADATA_CLASS, LEGACY_METADATA_CLASS)
    };
    let (class, line) = match &provider.class {
        Class::Named(name, line) => (name, *line),
        Class::Unresolved => return true,
        Class::Missing => {
            let remedy = "write the connector's class";
            let problem = Problem::missing_part("element <adapter_class>", remedy);
            findings.reject(provider.line, problem);
            return false;
        }
    };
    if class == current {
        return true;
    }
    let foreign = format!("adapter class \"{class}\" is not the Kafka connector's \"{current}\"");
    if findings.is_strict() {
        findings.reject(line, Problem(foreign));
        return false;
    }
    let is_legacy = class == legacy;
    let text = if is_legacy {
        format!("adapter class \"{class}\" is a name from before 1.0; write \"{current}\"")
    } else if is_data {
        format!("{foreign}: this data provider is ignored")
    } else {
        format!("{foreign}: its additions have no effect")
    };
    findings.warn(line, text);
    is_legacy || !is_data
}

#[cfg(test)]
mod tests;
