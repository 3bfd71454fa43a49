//! Samples topics and writes a configuration that fits their records.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::anyhow;
use weir_kafka::look_back::look_back;
use weir_kafka::peek::PeekError;
use weir_load::kafka::KafkaArgs;
use weir_mapping::{KeyForm, TopicSample, ValueForm};

use crate::exit::{Exit, Failure};

/// Newest records of a topic that are read, over all partitions.
const RECORDS: u64 = 200;
const TIMEOUT: Duration = Duration::from_secs(15);
/// Fields that the example of a command names.
const EXAMPLE_FIELDS: usize = 4;

/// Reads the newest records of each topic.
pub(super) fn sample(kafka: &KafkaArgs, topics: &[String]) -> Result<Vec<TopicSample>, Failure> {
    let settings = kafka.settings()?;
    let samples = topics.iter().map(|topic| {
        let mut sample = TopicSample::new(topic);
        let read = look_back((&settings, topic, None), RECORDS, TIMEOUT, &mut |record| {
            sample.add(record.key.as_deref(), record.value.as_deref());
            false
        });
        match read {
            Ok(_) | Err(PeekError::NoRecord(_)) => check(sample),
            Err(error) => {
                let exit = match error {
                    PeekError::Kafka(_) | PeekError::Refused(_) => Exit::Unreachable,
                    _ => Exit::Usage,
                };
                let brokers = &settings.bootstrap_servers;
                Err(Failure::new(
                    exit,
                    anyhow!("--topic \"{topic}\" of {brokers}: {error}"),
                ))
            }
        }
    });
    samples.collect()
}

/// Rejects records that need a schema: without it, clients would get bytes.
fn check(sample: TopicSample) -> Result<TopicSample, Failure> {
    match sample.values() {
        ValueForm::Framed { schema } => Err(Failure::usage(format!(
            "--topic \"{}\": the records need schema {schema} of a schema registry; write \
             gateway.toml with record.value.evaluator.type and schema.registry.url \
             (docs/connector.md, Schemas) and run it with --config",
            sample.topic()
        ))),
        _ => Ok(sample),
    }
}

/// Returns the connections of the topics for `gateway.toml`. The first is the default of clients,
/// others have the names of their topics.
pub(super) fn connections(samples: &[TopicSample], servers: &str) -> String {
    let sections = samples
        .iter()
        .enumerate()
        .map(|(index, sample)| sample.connection(connection_name(index, sample), servers));
    sections.collect::<Vec<_>>().join("\n")
}

fn connection_name(index: usize, sample: &TopicSample) -> &str {
    match index {
        0 => "DEFAULT",
        _ => sample.topic(),
    }
}

/// Returns the names of the fields of each connection.
pub(super) fn example_fields(samples: &[TopicSample]) -> BTreeMap<String, Vec<String>> {
    let each = samples.iter().enumerate().map(|(index, sample)| {
        let fields = sample.field_names().into_iter().map(str::to_owned);
        (connection_name(index, sample).to_owned(), fields.collect())
    });
    each.collect()
}

/// Returns one sentence about a sample.
pub(super) fn describe(sample: &TopicSample) -> String {
    let keys = match sample.keys() {
        KeyForm::None => "no keys for item names",
        KeyForm::Text => "text keys",
        KeyForm::Integer => "keys of 4 bytes, read as INTEGER",
        KeyForm::Long => "keys of 8 bytes, read as LONG",
    };
    let values = match sample.values() {
        ValueForm::Json => format!("JSON objects with {} fields", sample.fields().len()),
        ValueForm::Binary => "binary values, delivered as text with \u{fffd}".to_owned(),
        ValueForm::Text | ValueForm::Framed { .. } => "values delivered as text".to_owned(),
    };
    match sample.records() {
        0 => format!(
            "topic {} is empty: values are delivered as text; run this again when it has records",
            sample.topic()
        ),
        count => {
            let mut text = format!(
                "topic {}: {keys}, {values} ({count} records read)",
                sample.topic()
            );
            if sample.unnameable() > 0 {
                text += &format!(
                    "; {} keys have a comma or blank and reach only item {}",
                    sample.unnameable(),
                    sample.items().pop().unwrap_or_default()
                );
            }
            text
        }
    }
}

/// Returns a command that shows values of a topic; `index` is its position. The gateway listens at
/// the default address or at `listen`.
pub(super) fn tail_command(
    sample: &TopicSample,
    index: usize,
    listen: Option<SocketAddr>,
) -> String {
    let items = sample.items();
    let mut fields = sample.field_names();
    fields.truncate(EXAMPLE_FIELDS);
    let mut command = "weir gateway tail".to_owned();
    if let Some(listen) = listen {
        command += &format!(" --url ws://{listen}");
    }
    command += &format!(" {}", shell_word(items.first().map_or("", String::as_str)));
    if index > 0 {
        command += &format!(" --data-adapter {}", shell_word(sample.topic()));
    }
    command + " --fields " + &shell_word(&fields.join(" "))
}

fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}
