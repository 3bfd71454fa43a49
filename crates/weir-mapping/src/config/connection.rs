//! Checked configuration of one Kafka connection.

use super::note::{Note, ParameterStatus, ReferencedFile};
use super::parameter_table::{AUTO_COMMAND, EVALUATE_COMMAND, FIELD, JSON_CHECK, MAP, MAP_SUFFIX};
use super::parameters::{ConnectionParameters, ParameterError};
use super::routing;
use super::source::{ConfigSource, Parameter};
use super::types::text_list;
use crate::command::{COMMAND_FIELD, CommandMode, KEY_FIELD};
use crate::error::{ConfigError, Problem};
use crate::evaluator::{Evaluator, Separators};
use crate::json::JsonCheck;
use crate::mapping::{FieldOptions, Mapping};
use crate::payload::PartConfig;
use crate::record_part::KeyAndValue;
use crate::selector::Compiler;
use crate::text::is_blank;

/// Start position in partitions without a committed offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConsumeFrom {
    /// End of the partition.
    #[default]
    Latest,
    /// Beginning of the partition.
    Earliest,
}

/// Handling of records that cannot be extracted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ErrorStrategy {
    /// Skip the record.
    #[default]
    IgnoreAndContinue,
    /// Close the connection and unsubscribe all its items.
    ForceUnsubscription,
}

/// Records that keep their order when several threads process them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OrderStrategy {
    /// Records of the same partition.
    #[default]
    ByPartition,
    /// Records with the same key.
    ByKey,
    /// None.
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
    /// Parameters whose values contain such a variable; they are also among the written parameters.
    pub(super) values: Vec<ParameterError>,
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
    /// Topics, item templates and fields, compiled.
    pub mapping: Mapping,
    /// Outcome of each parameter, in file order.
    pub parameters: Vec<ParameterStatus>,
    /// Files named by parameters, for the caller to check.
    pub files: Vec<ReferencedFile>,
}

impl ConnectionConfig {
    /// Checks the parameters of one connection; `line` is its line in the file.
    ///
    /// Variables in values must have been expanded, see [`super::expand()`].
    ///
    /// # Errors
    /// The first error.
    pub fn from_parameters(
        name: &str,
        written: impl IntoIterator<Item = Parameter>,
        source: &ConfigSource<'_>,
        line: Option<u32>,
        notes: &mut Vec<Note>,
    ) -> Result<Self, ConfigError> {
        let checked = Self::collect_errors(name, written, source, line, notes);
        checked.map_err(|rejected| rejected.first)
    }

    /// Checks parameters as [`Self::from_parameters`] does, but reports all errors.
    pub fn collect_errors(
        name: &str,
        written: impl IntoIterator<Item = Parameter>,
        source: &ConfigSource<'_>,
        line: Option<u32>,
        notes: &mut Vec<Note>,
    ) -> Result<Self, Box<RejectedConnection>> {
        Self::check_parameters(name, written, Unresolved::default(), source, line, notes)
    }

    /// Checks parameters as [`Self::collect_errors`] does, where some variables are undefined.
    pub(super) fn check_parameters(
        name: &str,
        written: impl IntoIterator<Item = Parameter>,
        unresolved: Unresolved,
        source: &ConfigSource<'_>,
        line: Option<u32>,
        notes: &mut Vec<Note>,
    ) -> Result<Self, Box<RejectedConnection>> {
        let mut rejected = unresolved.values;
        let parameters = ConnectionParameters::read(source, name, written, notes, &mut rejected);
        let missing = match unresolved.has_names {
            true => Vec::new(),
            false => missing(name, &parameters),
        };
        let missing = missing.into_iter();
        let mut missing = missing.map(|problem| source.error(line, Some(name), problem));
        let compiler = || Compiler::new(part_configs(&parameters), json_check(&parameters));
        let mapping = routing::compile(
            &parameters,
            compiler(),
            compiler(),
            FieldOptions {
                skip_failed: parameters.boolean("fields.skip.failed.mapping.enable", false),
                map_non_scalar: parameters.boolean("fields.map.non.scalar.values.enable", false),
            },
            command_mode(&parameters),
            notes,
            &mut rejected,
        );
        let mut errors = rejected.iter().map(|rejected| rejected.error.clone());
        if let Some(first) = errors.next().or_else(|| missing.next()) {
            let more = errors.chain(missing).collect();
            return Err(Box::new(RejectedConnection {
                name: name.to_owned(),
                first,
                more,
                parameters: parameters.into_statuses(&rejected),
            }));
        }
        Ok(Self {
            name: name.to_owned(),
            enabled: parameters.boolean("enable", true),
            bootstrap_servers: bootstrap(&parameters),
            group_id: parameters.get("group.id").map(str::to_owned),
            consume_from: consume_from(&parameters),
            threads: threads(&parameters),
            order_strategy: order_strategy(&parameters),
            error_strategy: error_strategy(&parameters),
            mapping,
            files: parameters.files(),
            parameters: parameters.into_statuses(&[]),
        })
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
    /// First error.
    pub first: ConfigError,
    /// Further errors.
    pub more: Vec<ConfigError>,
    /// Outcome of each parameter, in file order.
    pub parameters: Vec<ParameterStatus>,
}

const BOOTSTRAP: &str = "bootstrap.servers";

fn bootstrap(parameters: &ConnectionParameters<'_>) -> Vec<String> {
    let list = parameters.get(BOOTSTRAP).and_then(text_list);
    list.into_iter().flatten().map(str::to_owned).collect()
}

/// Returns a problem for each missing mandatory parameter.
fn missing(name: &str, parameters: &ConnectionParameters<'_>) -> Vec<Problem> {
    let mut missing = Vec::new();
    if is_blank(name) {
        missing.push(Problem::MissingPart {
            what: "name of the connection".to_owned(),
            remedy: "write the name that clients give as data adapter",
        });
    }
    if parameters.get(BOOTSTRAP).is_none() {
        missing.push(Problem::MissingParameter {
            parameter: BOOTSTRAP.to_owned(),
            remedy: "write host:port of at least one broker",
        });
    }
    if parameters.matching(MAP, MAP_SUFFIX).next().is_none() {
        missing.push(Problem::MissingAny {
            parameter: "map.<...>.to",
            remedy: "name the items a topic is delivered as",
        });
    }
    if parameters.matching(FIELD, "").next().is_none() {
        missing.push(Problem::MissingAny {
            parameter: "field.<...>",
            remedy: "name a field and its expression, such as field.value = #{VALUE}",
        });
    }
    missing.extend(missing_for_command(parameters));
    missing
}

/// Returns the problems with parameters that the command mode needs.
fn missing_for_command(parameters: &ConnectionParameters<'_>) -> Vec<Problem> {
    let (needed, remedy): (&[&str], _) = match command_mode(parameters) {
        CommandMode::AsMapped => return Vec::new(),
        CommandMode::Auto => (&[KEY_FIELD], "auto command mode needs a key field"),
        CommandMode::Evaluated => (
            &[KEY_FIELD, COMMAND_FIELD],
            "command mode needs a key field and a command field",
        ),
    };
    let has = |name: &str| {
        parameters
            .matching(FIELD, "")
            .any(|(field, _)| field == name)
    };
    let lacking = needed.iter().filter(|name| !has(name));
    let mut missing: Vec<Problem> = lacking
        .map(|name| Problem::MissingParameter {
            parameter: format!("{FIELD}.{name}"),
            remedy,
        })
        .collect();
    if needed.len() > 1 && threads(parameters) != Threads::Count(1) {
        missing.push(Problem::ThreadsOfCommand);
    }
    missing
}

/// Returns the command mode. If both parameters are true, auto command mode takes precedence.
fn command_mode(parameters: &ConnectionParameters<'_>) -> CommandMode {
    if parameters.boolean(AUTO_COMMAND, false) {
        CommandMode::Auto
    } else if parameters.boolean(EVALUATE_COMMAND, false) {
        CommandMode::Evaluated
    } else {
        CommandMode::AsMapped
    }
}

fn part_configs(parameters: &ConnectionParameters<'_>) -> KeyAndValue<PartConfig> {
    let config = |part: &str| {
        let get = |name: &str| parameters.get(&format!("record.{part}.evaluator.{name}"));
        let char =
            |name: &str, default| get(name).and_then(|c| c.chars().next()).unwrap_or(default);
        let separators = Separators::default();
        PartConfig {
            // An unknown or unsupported type is an error already. JSON replaces it here, so that
            // paths into the payload cause no further errors.
            evaluator: get("type").map_or_else(Evaluator::default, |name| {
                Evaluator::from_name(name).unwrap_or(Evaluator::Json)
            }),
            separators: Separators {
                pairs: char("kvp.pairs.separator", separators.pairs),
                key_value: char("kvp.key-value.separator", separators.key_value),
            },
        }
    };
    KeyAndValue {
        key: config("key"),
        value: config("value"),
    }
}

fn json_check(parameters: &ConnectionParameters<'_>) -> JsonCheck {
    match parameters.get(JSON_CHECK) {
        Some("WHOLE") => JsonCheck::Whole,
        _ => JsonCheck::Needed,
    }
}

fn consume_from(parameters: &ConnectionParameters<'_>) -> ConsumeFrom {
    match parameters.get("record.consume.from") {
        Some("EARLIEST") => ConsumeFrom::Earliest,
        _ => ConsumeFrom::Latest,
    }
}

fn threads(parameters: &ConnectionParameters<'_>) -> Threads {
    let number = parameters.int("record.consume.with.num.threads", 1);
    u32::try_from(number).map_or(Threads::Processors, Threads::Count)
}

fn order_strategy(parameters: &ConnectionParameters<'_>) -> OrderStrategy {
    match parameters.get("record.consume.with.order.strategy") {
        Some("ORDER_BY_KEY") => OrderStrategy::ByKey,
        Some("UNORDERED") => OrderStrategy::Unordered,
        _ => OrderStrategy::ByPartition,
    }
}

fn error_strategy(parameters: &ConnectionParameters<'_>) -> ErrorStrategy {
    match parameters.get("record.extraction.error.strategy") {
        Some("FORCE_UNSUBSCRIPTION") => ErrorStrategy::ForceUnsubscription,
        _ => ErrorStrategy::IgnoreAndContinue,
    }
}
