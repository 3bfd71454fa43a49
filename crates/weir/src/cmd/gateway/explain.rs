//! `weir gateway explain`: explains the delivery of one record.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use clap::Args;
use weir_gateway::GatewayConfig;
use weir_gateway::config::CliOverrides;
use weir_gateway::schemas::fetch_missing;
use weir_kafka::look_back::look_back;
use weir_kafka::peek::{OwnedRecord, PeekError, RecordSelector, peek};
use weir_load::units::parse_duration;
use weir_mapping::{
    CanonicalItem, ConnectionConfig, DecodedDocument, Explanation, FieldSet, RecordView,
    split_fields,
};

use super::config::{GatewayConfigArgs, load};
use super::explain_access::{self, AccessRequest, ExplainAccessArgs};
use super::explain_text::{self, ItemExplanation, LookBackResult, RecordExplanation};
use super::record_file;
use super::topic_check;
use crate::exit::{Exit, Failure, OrExit as _};

pub(super) const AFTER_HELP: &str = "\
A record file is JSON. All members are optional, except \"topic\" if several topics are mapped:
  {
    \"topic\": \"LTest\", \"partition\": 3, \"offset\": 12,
    \"timestamp\": 1700000000000,
    \"key\": \"Apple\",
    \"value\": {\"json\": {\"price\": 1.5}},
    \"headers\": [[\"origin\", \"till 7\"], [\"raw\", {\"base64\": \"/wA=\"}]]
  }
A key, value or header is a string, null, {\"base64\": \"...\"} or {\"json\": anything}.

Examples:
  weir gateway explain --adapters adapters.xml --record record.json
  weir gateway explain --adapters adapters.xml --topic LTest --last \\
    --item 'ltest-[key=Apple]'
  weir gateway explain --adapters adapters.xml --topic LTest --partition 3 \\
    --offset 12 --json
  weir gateway explain --config gateway.toml --token token.jwt \\
    --item 'quote-[symbol=X]'";

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    files: GatewayConfigArgs,
    /// Kafka connection (data provider) [default: all that map the record's topic]
    #[arg(long, value_name = "NAME")]
    connection: Option<String>,
    /// File with the record to explain; - is standard input
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present_any = ["topic", "token", "claims"],
        conflicts_with = "topic"
    )]
    record: Option<PathBuf>,
    /// Topic of the record to explain, read from the brokers of the connection
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
    /// Partition of the record [default: with --last, that of the newest record]
    #[arg(long, value_name = "NUMBER", requires = "topic")]
    partition: Option<i32>,
    /// Offset of the record, or of the next record after it
    #[arg(
        long,
        value_name = "OFFSET",
        requires = "topic",
        conflicts_with = "last"
    )]
    offset: Option<i64>,
    /// Explain the newest record, with --item the newest for that item (default)
    #[arg(long, requires = "topic")]
    last: bool,
    /// Item name, as in a subscription, to explain the delivery for
    ///
    /// Shows whether the record is delivered to this item, and the reasons if it is not.
    #[arg(long, value_name = "ITEM")]
    item: Option<String>,
    /// Number of newest records to search for --item, over all partitions
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 10_000,
        conflicts_with_all = ["offset", "record"]
    )]
    look_back: u64,
    /// Fields to extract, separated by blanks [default: all fields]
    #[arg(long, value_name = "FIELDS")]
    fields: Option<String>,
    /// Longest wait for the brokers
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "15s")]
    timeout: Duration,
    #[command(flatten)]
    access: ExplainAccessArgs,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ExplainArgs) -> Result<Exit, Failure> {
    let config = load(&args.files, &CliOverrides::default())?;
    let item = args.item.as_deref().map(|written| {
        CanonicalItem::parse(written).with_context(|| format!("--item \"{written}\""))
    });
    let item = item.transpose().or_exit(Exit::Usage)?;
    if let (Some(item), true) = (&item, args.access.is_requested()) {
        let request = AccessRequest {
            connection: args.connection.as_deref(),
            item,
            fields: args.fields.as_deref(),
            json: args.json,
        };
        return explain_access::run(&args.access, config, &request);
    }
    let (record, looked_back) = match (&args.record, &args.topic) {
        (Some(path), _) => {
            let record = record_file::read(path, only_topic(&config));
            (record.or_exit(Exit::Usage)?, None)
        }
        (None, Some(topic)) => read_from_topic(args, &config, topic, item.as_ref())?,
        (None, None) => return Err(Failure::usage("--record FILE or --topic TOPIC is required")),
    };
    let connections = connections(&config, args, &record.topic).or_exit(Exit::Usage)?;
    let explanations = connections
        .into_iter()
        .map(|connection| {
            let connection = (&config, connection);
            let explained = explain(connection, &record, item.as_ref(), args.fields.as_deref());
            explained.map(|explained| RecordExplanation {
                // A record from a file may belong to a cluster that cannot be reached.
                patterns: args
                    .topic
                    .as_ref()
                    .and_then(|_| topic_check::of_connection(&config, connection.1, args.timeout)),
                ..explained
            })
        })
        .collect::<Result<Vec<_>, _>>()
        .or_exit(Exit::Usage)?;
    if args.json {
        let json = explain_text::to_json(&record, looked_back.as_ref(), &explanations);
        println!("{json:#}");
    } else {
        explain_text::print(&record, looked_back.as_ref(), &explanations);
    }
    let is_delivered = explanations.iter().any(RecordExplanation::is_delivered);
    Ok(match is_delivered {
        true => Exit::Success,
        false => Exit::Threshold,
    })
}

fn only_topic(config: &GatewayConfig) -> Option<&str> {
    if config.connections.iter().any(|c| c.mapping.has_patterns()) {
        return None;
    }
    let mut topics = config.connections.iter().flat_map(|c| c.mapping.topics());
    let first = topics.next()?;
    topics.all(|topic| topic == first).then_some(first)
}

/// Returns the connection given by `--connection`, or those that map the topic.
///
/// If no connection maps the topic, returns all, so that each reports it.
fn connections<'a>(
    config: &'a GatewayConfig,
    args: &ExplainArgs,
    topic: &str,
) -> anyhow::Result<Vec<&'a ConnectionConfig>> {
    let all = config.connections.iter();
    if let Some(name) = &args.connection {
        let found: Vec<_> = all.clone().filter(|c| c.name == *name).collect();
        let names: Vec<_> = all.map(|c| c.name.as_str()).collect();
        let names = names.join(", ");
        ensure!(
            !found.is_empty(),
            "--connection: unknown connection \"{name}\"; use {names}"
        );
        return Ok(found);
    }
    let maps = |c: &&ConnectionConfig| c.mapping.maps_topic(topic);
    let mapping: Vec<_> = all.clone().filter(maps).collect();
    Ok(match mapping.is_empty() {
        true => all.collect(),
        false => mapping,
    })
}

/// Reads the record from the brokers of the selected connections, which must be the same.
fn read_from_topic(
    args: &ExplainArgs,
    config: &GatewayConfig,
    topic: &str,
    item: Option<&CanonicalItem>,
) -> Result<(OwnedRecord, Option<LookBackResult>), Failure> {
    let candidates = connections(config, args, topic).or_exit(Exit::Usage)?;
    let cluster = |c: &&ConnectionConfig| {
        let mut all = config.connections.iter().zip(&config.clusters);
        all.find(|(one, _)| one.name == c.name)
            .map(|(_, cluster)| &cluster.kafka)
    };
    let mut clusters: Vec<_> = candidates.iter().filter_map(cluster).collect();
    clusters.dedup();
    let [kafka] = &clusters[..] else {
        return Err(Failure::usage(format!(
            "--topic \"{topic}\": several connections with different brokers or settings map it; \
             select one with --connection"
        )));
    };
    let found = match (item, args.offset) {
        (Some(item), None) => {
            let mut reaches = |record: &OwnedRecord| {
                let mut candidates = candidates.iter();
                candidates
                    .any(|c| reaches(&mapped((config, c), record, &FieldSet::empty()).0, item))
            };
            let source = (*kafka, topic, args.partition);
            let found = look_back(source, args.look_back, args.timeout, &mut reaches);
            found.map(|found| {
                let looked_back = LookBackResult {
                    item: item.clone(),
                    read: found.read,
                    reached: found.matches,
                    is_whole: found.is_complete,
                };
                (found.record, Some(looked_back))
            })
        }
        (_, offset) => {
            let selector = offset.map_or(RecordSelector::Last, RecordSelector::Offset);
            let found = peek(kafka, topic, args.partition, selector, args.timeout);
            found.map(|record| (record, None))
        }
    };
    found.map_err(|error| {
        let exit = match error {
            PeekError::Kafka(_) | PeekError::Refused(_) => Exit::Unreachable,
            _ => Exit::Usage,
        };
        let brokers = &kafka.bootstrap_servers;
        let error = anyhow!("--topic \"{topic}\": {error} (brokers {brokers})");
        Failure::new(exit, error)
    })
}

/// Maps a record, with its schemas from the registry of the connection.
fn mapped(
    (config, connection): (&GatewayConfig, &ConnectionConfig),
    record: &OwnedRecord,
    fields: &FieldSet,
) -> (Explanation, Vec<DecodedDocument>) {
    with_view(record, |view| {
        let mapping = &connection.mapping;
        fetch_schemas(config, connection, view);
        (mapping.explain(view, fields), mapping.decode(view))
    })
}

/// Fetches the schemas of a record from the registry of a connection, if it has one.
fn fetch_schemas(config: &GatewayConfig, connection: &ConnectionConfig, view: &RecordView<'_>) {
    let mut registries = config.connections.iter().zip(&config.registries);
    let registry = registries.find(|(one, _)| one.name == connection.name);
    if let Some((_, Some(registry))) = registry {
        fetch_missing(registry, &connection.mapping, connection.schemas(), view);
    }
}

fn with_view<T>(record: &OwnedRecord, read: impl FnOnce(&RecordView<'_>) -> T) -> T {
    let headers = record.headers.iter();
    let headers = headers.map(|(name, value)| (name.as_str(), value.as_deref()));
    let view = RecordView {
        topic: &record.topic,
        partition: record.partition,
        offset: record.offset,
        timestamp_ms: record.timestamp_ms,
        key: record.key.as_deref(),
        value: record.value.as_deref(),
        headers: &headers.collect::<Vec<_>>(),
    };
    read(&view)
}

fn reaches(explanation: &Explanation, item: &CanonicalItem) -> bool {
    let items = explanation.items.as_ref();
    items.is_ok_and(|items| items.iter().any(|i| i == item.as_str()))
}

fn explain<'a>(
    (config, connection): (&GatewayConfig, &'a ConnectionConfig),
    record: &OwnedRecord,
    item: Option<&CanonicalItem>,
    fields: Option<&str>,
) -> anyhow::Result<RecordExplanation<'a>> {
    let mapping = &connection.mapping;
    // Dynamic fields have an index as long as these values exist.
    let dynamic = match fields {
        None => {
            let names = with_view(record, |view| {
                fetch_schemas(config, connection, view);
                mapping.dynamic_names(view)
            });
            mapping.use_dynamic_fields(names.iter().map(AsRef::as_ref))
        }
        Some(names) => mapping.use_dynamic_fields(split_fields(names)),
    };
    let _dynamic = dynamic?;
    let field_set = match fields {
        None => mapping.all_fields(),
        Some(names) => {
            let indexes = split_fields(names).map(|name| {
                mapping.field_index(name).ok_or_else(|| {
                    let connection = &connection.name;
                    anyhow!("--fields: connection \"{connection}\" maps no field \"{name}\"")
                })
            });
            indexes.collect::<Result<FieldSet, _>>()?
        }
    };
    let (explanation, documents) = mapped((config, connection), record, &field_set);
    let item = item.map(|item| ItemExplanation {
        item: item.clone(),
        is_admitted: mapping.admits(item),
        is_reached: reaches(&explanation, item),
    });
    Ok(RecordExplanation {
        connection,
        explanation,
        documents,
        item,
        patterns: None,
    })
}
