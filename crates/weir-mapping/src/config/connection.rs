//! Checked configuration of one Kafka connection.

use std::sync::Arc;

use strum::EnumString;
use weir_formats::white_space::is_blank;

use super::cluster::{self, ClusterProperties};
use super::note::{Note, ParameterStatus};
use super::parameter_table::{
    AUTO_COMMAND, EVALUATE_COMMAND, FIELD, FIELD_WILDCARD, MAP, MAP_SUFFIX,
};
use super::parameters::ConnectionParameters;
use super::routing;
use super::schemas::{self, RegistryConfig, SchemaFile};
use super::snapshot::{self, SnapshotConfig, SnapshotMode};
use super::source::{ConfigSource, Findings, Parameter};
use super::types::text_list;
use crate::command::{COMMAND_FIELD, CommandMode, KEY_FIELD};
use crate::error::{ConfigError, Problem};
use crate::mapping::Mapping;
use crate::schema::SchemaTable;

/// Start position in partitions without a committed offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, EnumString)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum ConsumeFrom {
    /// End of the partition.
    #[default]
    Latest,
    /// Beginning of the partition.
    Earliest,
}

/// Handling of records that cannot be extracted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, EnumString)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorStrategy {
    /// Skip the record.
    #[default]
    IgnoreAndContinue,
    /// Close the connection and unsubscribe all its items.
    ForceUnsubscription,
}

/// Records that keep their order when several threads process them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, EnumString)]
pub enum OrderStrategy {
    /// Records of the same partition.
    #[default]
    #[strum(serialize = "ORDER_BY_PARTITION")]
    ByPartition,
    /// Records with the same key.
    #[strum(serialize = "ORDER_BY_KEY")]
    ByKey,
    /// None.
    #[strum(serialize = "UNORDERED")]
    Unordered,
}

/// Number of threads that process records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// One per processor.
    Processors,
    /// Fixed number, at least 1.
    Count(u32),
}

/// Parts of a connection that contain undefined variables.
#[derive(Debug, Default)]
pub(super) struct Unresolved {
    /// Errors of parameters with such a value; they are also among the written parameters.
    pub(super) values: Vec<ConfigError>,
    /// A parameter name contains such a variable, so missing parameters cannot be detected.
    pub(super) has_names: bool,
}

/// One Kafka connection: a `data_provider`, or a `[connection.NAME]` table.
///
/// `parameters` lists those that have no field here, with the reason why they have no effect.
#[derive(Debug)]
pub struct ConnectionConfig {
    /// Name that clients give as `LS_data_adapter`.
    pub name: String,
    /// Default true; if false, subscriptions are refused with code -1.
    pub enabled: bool,
    /// `host:port` of each bootstrap server, at least one.
    pub bootstrap_servers: Vec<String>,
    /// Consumer group, if given.
    pub group_id: Option<String>,
    /// Default latest.
    pub consume_from: ConsumeFrom,
    /// As written, default 1; this version processes records with one thread.
    pub threads: Threads,
    /// As written, default by partition; with one thread every order is kept.
    pub order_strategy: OrderStrategy,
    /// Default ignore and continue.
    pub error_strategy: ErrorStrategy,
    /// Snapshots that are stored without subscribers. Then topics are read from their beginning,
    /// without a group, by one thread, and records that cannot be extracted are skipped.
    pub snapshots: Option<SnapshotConfig>,
    /// Topics, item templates and fields, compiled.
    pub mapping: Arc<Mapping>,
    /// Files named by parameters, relative ones resolved against the directory of the
    /// configuration file. The caller checks that they exist, as the connector does at start.
    pub files: Vec<Parameter>,
    /// Schema files, to be loaded before the first record.
    pub schema_files: Vec<SchemaFile>,
    cluster: ClusterProperties,
    registry: Option<RegistryConfig>,
    schemas: Arc<SchemaTable>,
    /// Outcome of each parameter, in file order.
    pub parameters: Vec<ParameterStatus>,
}

impl ConnectionConfig {
    /// Checks the parameters of one connection; `line` is its line in the file.
    ///
    /// Variables in values must have been expanded. All errors are returned.
    pub fn from_parameters(
        name: &str,
        written: impl IntoIterator<Item = Parameter>,
        source: &ConfigSource<'_>,
        line: Option<u32>,
        notes: &mut Vec<Note>,
    ) -> Result<Self, Box<RejectedConnection>> {
        Self::check_parameters(name, written, Unresolved::default(), source, line, notes)
    }

    /// Checks parameters as [`Self::from_parameters`] does, where some variables are undefined.
    pub(super) fn check_parameters(
        name: &str,
        written: impl IntoIterator<Item = Parameter>,
        unresolved: Unresolved,
        source: &ConfigSource<'_>,
        line: Option<u32>,
        notes: &mut Vec<Note>,
    ) -> Result<Self, Box<RejectedConnection>> {
        let mut errors = unresolved.values;
        let findings = &mut Findings {
            source,
            connection: Some(name),
            notes,
            errors: &mut errors,
        };
        let parameters = ConnectionParameters::read(written, findings);
        let mode = command_mode(&parameters);
        snapshot::warn_of_replaced(&parameters, findings);
        let table = Arc::default();
        let parts = routing::parts(&parameters, &table);
        let mapping = routing::compile(&parameters, &parts, mode, findings);
        if !unresolved.has_names {
            let missing = missing(name, &parameters, mode).into_iter();
            let missing = missing.chain(cluster::missing(&parameters));
            let missing = missing.chain(snapshot::key_problem(&parameters));
            for problem in missing.chain(schemas::missing(&parameters)) {
                findings.reject(line, problem);
            }
        }
        let name = name.to_owned();
        if !errors.is_empty() {
            return Err(Box::new(RejectedConnection {
                name,
                parameters: parameters.into_statuses(&errors),
                errors,
            }));
        }
        let servers = parameters.get(BOOTSTRAP).and_then(text_list);
        let servers = servers.into_iter().flatten().map(str::to_owned);
        let connection = Self {
            name,
            enabled: parameters.parsed("enable").unwrap_or(true),
            bootstrap_servers: servers.collect(),
            group_id: parameters.get("group.id").map(str::to_owned),
            consume_from: parameters.parsed("record.consume.from").unwrap_or_default(),
            threads: threads(&parameters),
            order_strategy: parameters.parsed(ORDER_STRATEGY).unwrap_or_default(),
            error_strategy: parameters.parsed(ERROR_STRATEGY).unwrap_or_default(),
            mapping: Arc::new(mapping),
            files: cluster::files(&parameters, source.file),
            cluster: ClusterProperties::of(&parameters, source.file),
            schema_files: schemas::files(&parameters, &parts, source.file),
            registry: RegistryConfig::of(&parameters, source.file),
            schemas: table,
            snapshots: SnapshotConfig::of(&parameters),
            parameters: parameters.into_statuses(&[]),
        };
        Ok(match connection.snapshots {
            Some(_) => connection.with_snapshots(),
            None => connection,
        })
    }

    /// Replaces the parameters that snapshots determine.
    fn with_snapshots(self) -> Self {
        Self {
            group_id: None,
            consume_from: ConsumeFrom::Earliest,
            threads: Threads::Count(1),
            error_strategy: ErrorStrategy::IgnoreAndContinue,
            ..self
        }
    }

    /// Returns the properties of the Kafka client, under the names of Kafka's Java clients.
    ///
    /// `bootstrap.servers` and `group.id` are not among them. Files are resolved against the
    /// directory of the configuration file. Passwords are in plain text.
    pub fn kafka_properties(&self) -> Vec<(String, String)> {
        self.cluster.to_vec()
    }

    /// Returns the schema registry if keys or values use one.
    pub fn registry(&self) -> Option<&RegistryConfig> {
        self.registry.as_ref()
    }

    /// Returns the table of registered schemas, which the owner of the connection fills.
    pub fn schemas(&self) -> &Arc<SchemaTable> {
        &self.schemas
    }

    /// Returns all bootstrap servers as a comma-separated list, as Kafka clients take them.
    pub fn bootstrap(&self) -> String {
        self.bootstrap_servers.join(",")
    }
}

/// A connection that cannot start, with all its errors.
#[derive(Debug)]
pub struct RejectedConnection {
    /// Name that clients would give as `LS_data_adapter`.
    pub name: String,
    /// All errors, at least one.
    pub errors: Vec<ConfigError>,
    /// Outcome of each parameter, in file order.
    pub parameters: Vec<ParameterStatus>,
}

const BOOTSTRAP: &str = "bootstrap.servers";
const ORDER_STRATEGY: &str = "record.consume.with.order.strategy";
const ERROR_STRATEGY: &str = "record.extraction.error.strategy";

/// Returns a problem for each missing mandatory parameter.
fn missing(name: &str, parameters: &ConnectionParameters, mode: CommandMode) -> Vec<Problem> {
    let mut missing = Vec::new();
    if is_blank(name) {
        let remedy = "write the name that clients give as data adapter";
        missing.push(Problem::missing_part("name of the connection", remedy));
    }
    if parameters.get(BOOTSTRAP).is_none() {
        let remedy = "write host:port of at least one broker";
        missing.push(Problem::missing_parameter(BOOTSTRAP, remedy));
    }
    let any_of = |form: &str, remedy: &str| {
        Problem(format!("specify at least one parameter [{form}]; {remedy}"))
    };
    if parameters.matching(MAP, MAP_SUFFIX).next().is_none() {
        let remedy = "name the items a topic is delivered as";
        missing.push(any_of("map.<...>.to", remedy));
    }
    let has_wildcard = parameters.get(FIELD_WILDCARD).is_some();
    if !has_wildcard && parameters.matching(FIELD, "").next().is_none() {
        let remedy = "name a field and its expression, such as field.value = #{VALUE}";
        missing.push(any_of("field.<...>", remedy));
    }
    let (needed, remedy): (&[&str], _) = match mode {
        CommandMode::AsMapped => (&[], ""),
        // Snapshots have their own check.
        CommandMode::Auto if SnapshotConfig::of(parameters).is_some() => (&[], ""),
        CommandMode::Auto => (&[KEY_FIELD], "auto command mode needs a key field"),
        CommandMode::Evaluated => (
            &[KEY_FIELD, COMMAND_FIELD],
            "command mode needs a key field and a command field",
        ),
    };
    for name in needed {
        if parameters
            .matching(FIELD, "")
            .all(|(field, _)| field != *name)
        {
            missing.push(Problem::missing_parameter(
                &format!("{FIELD}.{name}"),
                remedy,
            ));
        }
    }
    if mode == CommandMode::Evaluated && threads(parameters) != Threads::Count(1) {
        // Records would lose their order.
        missing.push(Problem(format!(
            "[{EVALUATE_COMMAND}] = \"true\" needs exactly one consumer thread; remove \
             [record.consume.with.num.threads] or write 1"
        )));
    }
    missing
}

/// Returns the command mode. If both parameters are true, auto command mode takes precedence.
/// Snapshots replace both.
fn command_mode(parameters: &ConnectionParameters) -> CommandMode {
    if let Some(snapshots) = SnapshotConfig::of(parameters) {
        return match snapshots.mode {
            SnapshotMode::Command => CommandMode::Auto,
            SnapshotMode::Merge | SnapshotMode::Distinct => CommandMode::AsMapped,
        };
    }
    let is_on = |name| parameters.parsed(name).unwrap_or(false);
    match (is_on(AUTO_COMMAND), is_on(EVALUATE_COMMAND)) {
        (true, _) => CommandMode::Auto,
        (false, true) => CommandMode::Evaluated,
        (false, false) => CommandMode::AsMapped,
    }
}

fn threads(parameters: &ConnectionParameters) -> Threads {
    let number: i32 = parameters
        .parsed("record.consume.with.num.threads")
        .unwrap_or(1);
    u32::try_from(number).map_or(Threads::Processors, Threads::Count)
}
