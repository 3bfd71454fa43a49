//! `weir gateway explain`: what becomes of one record, and why.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::Args;
use weir_gateway::GatewayConfig;
use weir_gateway::config::CliOverrides;
use weir_kafka::look_back::look_back;
use weir_kafka::peek::{OwnedRecord, PeekError, RecordSelector, peek};
use weir_mapping::{
    CanonicalItem, ConnectionConfig, Explanation, FieldSet, RecordView, split_fields,
};

use super::{GatewayConfigArgs, explain_text, load, record_file};
use crate::exit::{Exit, Failure};

pub(super) const AFTER_HELP: &str = "\
A record file is JSON; every member but \"topic\" may be left out, and \"topic\" too if only one is mapped:
  {
    \"topic\": \"LTest\", \"partition\": 3, \"offset\": 12, \"timestamp\": 1700000000000,
    \"key\": \"Apple\",
    \"value\": {\"json\": {\"price\": 1.5}},
    \"headers\": [[\"origin\", \"till 7\"], [\"raw\", {\"base64\": \"/wA=\"}]]
  }
A key, value or header is a text, null, {\"base64\": \"...\"} or {\"json\": anything}.

Examples:
  weir gateway explain --adapters adapters.xml --record record.json
  weir gateway explain --adapters adapters.xml --topic LTest --last --item 'ltest-[key=Apple]'
  weir gateway explain --adapters adapters.xml --topic LTest --partition 3 --offset 12 --json";

/// What to explain.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    files: GatewayConfigArgs,
    /// The connection (data provider) to ask [default: those that map the record's topic].
    #[arg(long, value_name = "NAME")]
    connection: Option<String>,
    /// Explain the record in this file; - is standard input.
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "topic",
        conflicts_with = "topic"
    )]
    record: Option<PathBuf>,
    /// Explain a record of this topic, read from the connection's brokers.
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
    /// Its partition [default: with --last the one with the newest record].
    #[arg(long, value_name = "P", requires = "topic")]
    partition: Option<i32>,
    /// The first record from this offset on.
    #[arg(long, value_name = "N", requires = "topic", conflicts_with = "last")]
    offset: Option<i64>,
    /// The newest record, with --item the newest that reaches it; the default.
    #[arg(long, requires = "topic")]
    last: bool,
    /// Say whether the record reaches this item, and why not. As a client would write it.
    #[arg(long, value_name = "ITEM")]
    item: Option<String>,
    /// Newest records among which --last looks for one that reaches --item, over all partitions.
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 10_000,
        conflicts_with_all = ["offset", "record"]
    )]
    look_back: u64,
    /// Extract these fields only, as if nobody had subscribed to others; separated by blanks.
    #[arg(long, value_name = "FIELDS")]
    fields: Option<String>,
    /// How long brokers may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 15)]
    timeout: u64,
    /// Write JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// What one connection makes of the record.
pub(super) struct RecordExplanation<'a> {
    pub(super) connection: &'a ConnectionConfig,
    pub(super) explanation: Explanation,
    pub(super) item: Option<ItemExplanation>,
}

/// What looking for a record that reaches an item came to.
pub(super) struct LookedBack {
    pub(super) item: CanonicalItem,
    /// Records read.
    pub(super) read: u64,
    /// Whether one of them reaches the item.
    pub(super) reached: bool,
    /// Whether there are no older ones.
    pub(super) is_whole: bool,
}

/// What one connection makes of the item asked for.
pub(super) struct ItemExplanation {
    /// In canonical form.
    pub(super) item: CanonicalItem,
    /// Whether a client may subscribe to it at all.
    pub(super) is_admitted: bool,
    pub(super) is_reached: bool,
}

impl RecordExplanation<'_> {
    /// True if subscribers get the record.
    pub(super) fn is_delivered(&self) -> bool {
        let items = self.explanation.items.as_ref();
        let reached = match &self.item {
            Some(item) => item.is_reached,
            None => items.is_ok_and(|items| !items.is_empty()),
        };
        self.connection.enabled && reached && self.explanation.fields_error.is_none()
    }
}

/// Explains the record to every connection concerned.
pub(super) fn run(args: &ExplainArgs) -> Result<Exit, Failure> {
    let config = load(&args.files, &CliOverrides::default())?;
    let usage = |error| Failure::new(Exit::Usage, error);
    let item = args.item.as_deref().map(|written| {
        let parsed = CanonicalItem::parse(written);
        parsed.map_err(|error| anyhow!("--item {written}: {error}"))
    });
    let item = item.transpose().map_err(usage)?;
    let (record, looked_back) = match (&args.record, &args.topic) {
        (Some(path), _) => {
            let record = record_file::read(path, only_topic(&config)).map_err(usage)?;
            (record, None)
        }
        (None, Some(topic)) => live(args, &config, topic, item.as_ref())?,
        (None, None) => return Err(usage(anyhow!("give --record FILE or --topic TOPIC"))),
    };
    let connections = connections(&config, args, &record.topic).map_err(usage)?;
    let answers = connections
        .into_iter()
        .map(|connection| answer(connection, &record, item.as_ref(), args.fields.as_deref()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(usage)?;
    if args.json {
        let json = explain_text::to_json(&record, looked_back.as_ref(), &answers);
        println!("{json:#}");
    } else {
        explain_text::print(&record, looked_back.as_ref(), &answers);
    }
    let is_delivered = answers.iter().any(RecordExplanation::is_delivered);
    Ok(if is_delivered {
        Exit::Fine
    } else {
        Exit::Threshold
    })
}

fn only_topic(config: &GatewayConfig) -> Option<&str> {
    let mut topics = config.connections.iter().flat_map(|c| c.mapping.topics());
    let first = topics.next()?;
    topics.all(|topic| topic == first).then_some(first)
}

/// The connection named, or those that map the topic; if none does, all of them to say so.
fn connections<'a>(
    config: &'a GatewayConfig,
    args: &ExplainArgs,
    topic: &str,
) -> anyhow::Result<Vec<&'a ConnectionConfig>> {
    let all = config.connections.iter();
    if let Some(name) = &args.connection {
        let found: Vec<_> = all.clone().filter(|c| c.name == *name).collect();
        if found.is_empty() {
            let names: Vec<_> = all.map(|c| c.name.as_str()).collect();
            bail!(
                "--connection {name}: the connections are {}",
                names.join(", ")
            );
        }
        return Ok(found);
    }
    let mapping: Vec<_> = all.clone().filter(|c| maps(c, topic)).collect();
    Ok(if mapping.is_empty() {
        all.collect()
    } else {
        mapping
    })
}

fn maps(connection: &ConnectionConfig, topic: &str) -> bool {
    connection.mapping.topics().any(|mapped| mapped == topic)
}

/// Reads the record from the brokers of the one connection concerned.
fn live(
    args: &ExplainArgs,
    config: &GatewayConfig,
    topic: &str,
    item: Option<&CanonicalItem>,
) -> Result<(OwnedRecord, Option<LookedBack>), Failure> {
    let usage = |error| Failure::new(Exit::Usage, error);
    let candidates = connections(config, args, topic).map_err(usage)?;
    let mut brokers: Vec<_> = candidates.iter().map(|c| c.bootstrap()).collect();
    brokers.dedup();
    let [brokers] = &brokers[..] else {
        return Err(usage(anyhow!(
            "--topic {topic}: connections with different brokers are concerned; name one with --connection"
        )));
    };
    let timeout = Duration::from_secs(args.timeout);
    let found = match (item, args.offset) {
        (Some(item), None) => {
            let mut reaches = |record: &OwnedRecord| {
                let reaches = |c: &&ConnectionConfig| reaches(c, record, item);
                candidates.iter().any(reaches)
            };
            look_back(
                (brokers, topic, args.partition),
                args.look_back,
                timeout,
                &mut reaches,
            )
            .map(|found| {
                let looked_back = LookedBack {
                    item: item.clone(),
                    read: found.read,
                    reached: found.matches,
                    is_whole: found.is_whole,
                };
                (found.record, Some(looked_back))
            })
        }
        (_, offset) => {
            let pick = offset.map_or(RecordSelector::Last, RecordSelector::Offset);
            let found = peek(brokers, topic, args.partition, pick, timeout);
            found.map(|record| (record, None))
        }
    };
    found.map_err(|error| {
        let exit = match error {
            PeekError::Kafka(_) => Exit::Unreachable,
            _ => Exit::Usage,
        };
        Failure::new(
            exit,
            anyhow!("--topic {topic}: {error} (brokers {brokers})"),
        )
    })
}

/// Returns `true` if a connection delivers a record to an item.
fn reaches(connection: &ConnectionConfig, record: &OwnedRecord, item: &CanonicalItem) -> bool {
    let headers = headers(record);
    let explanation = connection
        .mapping
        .explain(&view(record, &headers), &FieldSet::empty());
    let items = explanation.items.as_ref();
    items.is_ok_and(|items| items.iter().any(|i| i == item.as_str()))
}

fn headers(record: &OwnedRecord) -> Vec<(&str, Option<&[u8]>)> {
    let headers = record.headers.iter();
    let headers = headers.map(|(name, value)| (name.as_str(), value.as_deref()));
    headers.collect()
}

fn view<'a>(record: &'a OwnedRecord, headers: &'a [(&'a str, Option<&'a [u8]>)]) -> RecordView<'a> {
    RecordView {
        topic: &record.topic,
        partition: record.partition,
        offset: record.offset,
        timestamp_ms: record.timestamp_ms,
        key: record.key.as_deref(),
        value: record.value.as_deref(),
        headers,
    }
}

fn answer<'a>(
    connection: &'a ConnectionConfig,
    record: &OwnedRecord,
    item: Option<&CanonicalItem>,
    fields: Option<&str>,
) -> anyhow::Result<RecordExplanation<'a>> {
    let mapping = &connection.mapping;
    let wanted = match fields {
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
    let headers = headers(record);
    let explanation = mapping.explain(&view(record, &headers), &wanted);
    let item = item.map(|item| {
        let items = explanation.items.as_ref();
        ItemExplanation {
            item: item.clone(),
            is_admitted: mapping.admits(item),
            is_reached: items.is_ok_and(|items| items.iter().any(|i| i == item.as_str())),
        }
    });
    Ok(RecordExplanation {
        connection,
        explanation,
        item,
    })
}
