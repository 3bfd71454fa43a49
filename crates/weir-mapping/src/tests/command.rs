//! The two command modes that the connector's parameters select.

use std::sync::Arc;

use super::common::AdaptersFile;
use crate::{CommandMode, FieldValue, FieldValues, Mapping, ParseOptions, RecordView};

/// Returns the mapping of a connection with JSON values and additional parameters.
fn parse(extra: &[(&str, &str)]) -> Result<Arc<Mapping>, String> {
    let extra: String = extra
        .iter()
        .map(|(name, value)| format!("<param name=\"{name}\">{value}</param>"))
        .collect();
    let xml = format!(
        r#"<adapters_conf id="Set"><metadata_provider>
<adapter_class>com.lightstreamer.kafka.adapters.pub.KafkaConnectorMetadataAdapter</adapter_class>
<param name="logging.configuration.path">l</param></metadata_provider>
<data_provider name="C">
<adapter_class>com.lightstreamer.kafka.adapters.KafkaConnectorDataAdapter</adapter_class>
<param name="bootstrap.servers">nowhere:9092</param>
<param name="record.value.evaluator.type">JSON</param>
<param name="map.topic.to">item</param>{extra}</data_provider></adapters_conf>"#
    );
    let parsed = AdaptersFile::parse("a.xml", &xml, &|_: &str| None, ParseOptions::default());
    let mut file = parsed.map_err(|error| error.to_string())?;
    Ok(file.connections.remove(0).mapping)
}

fn values(mapping: &Mapping, key: Option<&str>, value: Option<&str>) -> Vec<Option<String>> {
    let record = RecordView {
        topic: "topic",
        partition: 0,
        offset: 0,
        timestamp_ms: 0,
        key: key.map(str::as_bytes),
        value: value.map(str::as_bytes),
        headers: &[],
    };
    let mut values = FieldValues::new();
    let read = mapping.field_values(&record, &mapping.all_fields(), &mut values);
    read.expect("extracted values");
    let text = |value: FieldValue<'_>| match value {
        FieldValue::Skipped => Some("(skipped)".to_owned()),
        other => other.text().map(str::to_owned),
    };
    values.iter().map(text).collect()
}

fn present<const N: usize>(texts: [&str; N]) -> Vec<Option<String>> {
    texts.map(|text| Some(text.to_owned())).to_vec()
}

const EVALUATE: (&str, &str) = ("fields.evaluate.as.command.enable", "true");
const AUTO: (&str, &str) = ("fields.auto.command.mode.enable", "true");
const KEY: (&str, &str) = ("field.key", "#{KEY}");
const PRICE: (&str, &str) = ("field.price", "#{VALUE.price}");

#[test]
fn auto_command_mode_adds_and_deletes_rows() {
    let mapping = parse(&[AUTO, KEY, PRICE]).expect("valid parameters");
    assert_eq!(mapping.command_mode(), CommandMode::Auto);
    assert_eq!(mapping.command_fields(), Some((0, 2)));
    let price = Some(r#"{"price":7}"#);
    assert_eq!(
        values(&mapping, Some("k"), price),
        present(["k", "7", "ADD"])
    );
    let deleted = present(["k", "(skipped)", "DELETE"]);
    assert_eq!(values(&mapping, Some("k"), None), deleted);
    assert_eq!(
        values(&mapping, Some("k"), Some("")),
        deleted,
        "JSON without bytes is null"
    );
}

#[test]
fn auto_command_mode_overrides_mapped_command() {
    let command = ("field.command", "#{VALUE.command}");
    let mapping = parse(&[EVALUATE, AUTO, command, KEY]).expect("valid parameters");
    assert_eq!(
        mapping.command_mode(),
        CommandMode::Auto,
        "auto mode takes precedence"
    );
    assert_eq!(mapping.command_fields(), Some((1, 0)));
    let value = Some(r#"{"command":"DELETE"}"#);
    assert_eq!(values(&mapping, Some("k"), value), present(["ADD", "k"]));
}

#[test]
fn evaluated_commands_are_unchanged() {
    let command = ("field.command", "#{VALUE.command}");
    let mapping = parse(&[EVALUATE, KEY, command]).expect("valid parameters");
    assert_eq!(mapping.command_mode(), CommandMode::Evaluated);
    let value = Some(r#"{"command":"EOS"}"#);
    assert_eq!(
        values(&mapping, Some("snapshot"), value),
        present(["snapshot", "EOS"])
    );
}

#[test]
fn command_modes_need_their_fields() {
    let threads = ("record.consume.with.num.threads", "4");
    for (parameters, expected) in [
        (&[AUTO, PRICE][..], "missing required parameter [field.key]"),
        (&[EVALUATE, PRICE], "missing required parameter [field.key]"),
        (
            &[EVALUATE, KEY],
            "missing required parameter [field.command]",
        ),
        (
            &[EVALUATE, KEY, ("field.command", "#{VALUE.c}"), threads],
            "needs exactly one consumer thread",
        ),
    ] {
        let error = parse(parameters).expect_err("invalid parameters");
        assert!(error.contains(expected), "{error}");
    }
    assert!(
        parse(&[AUTO, KEY, threads]).is_ok(),
        "auto command mode allows any number of threads"
    );
    let off = ("fields.auto.command.mode.enable", "false");
    let mapping = parse(&[off, PRICE]).expect("valid parameters");
    assert_eq!(
        (mapping.command_mode(), mapping.command_fields()),
        (CommandMode::AsMapped, None)
    );
}
