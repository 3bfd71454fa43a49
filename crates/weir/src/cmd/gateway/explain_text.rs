//! Results of `weir gateway explain`, and their output as text or JSON.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use weir_kafka::peek::OwnedRecord;
use weir_mapping::{
    CanonicalItem, ConnectionConfig, DecodedDocument, ErrorStrategy, Explanation, Extracted,
    ExtractionError, SourceOutcome,
};

use super::topic_check::PatternFindings;
use crate::cmd::text_table::{add_row, print_table, truncate};
use weir_report::{TextColumn, TextTable};

/// Maximum number of characters shown of a key, value or header.
const SHOWN_MAX: usize = 160;

pub(super) struct RecordExplanation<'a> {
    pub(super) connection: &'a ConnectionConfig,
    pub(super) explanation: Explanation,
    /// Key and value, if they have schemas.
    pub(super) documents: Vec<DecodedDocument>,
    pub(super) item: Option<ItemExplanation>,
    /// Topics that match the connection's patterns, if brokers were asked.
    pub(super) patterns: Option<PatternFindings>,
}

/// Result of the search for a record that is delivered to an item.
pub(super) struct LookBackResult {
    pub(super) item: CanonicalItem,
    pub(super) read: u64,
    /// `true` if one of them is delivered to the item.
    pub(super) reached: bool,
    /// `true` if the topic has no older records.
    pub(super) is_whole: bool,
}

pub(super) struct ItemExplanation {
    pub(super) item: CanonicalItem,
    /// `true` if clients can subscribe to the item.
    pub(super) is_admitted: bool,
    /// `true` if the record maps to the item.
    pub(super) is_reached: bool,
}

impl RecordExplanation<'_> {
    pub(super) fn is_delivered(&self) -> bool {
        let items = self.explanation.items.as_ref();
        let reached = match &self.item {
            Some(item) => item.is_reached,
            None => items.is_ok_and(|items| !items.is_empty()),
        };
        self.connection.enabled && reached && self.explanation.fields_error.is_none()
    }
}

pub(super) fn print(
    record: &OwnedRecord,
    looked_back: Option<&LookBackResult>,
    explanations: &[RecordExplanation<'_>],
) {
    if let Some(found) = looked_back {
        let (read, item) = (found.read, &found.item);
        match found.reached {
            true => println!("{read} records read; the newest record for {item} is"),
            false => println!(
                "{read} records read, none of them for {item}; the newest record is{}",
                if found.is_whole {
                    ""
                } else {
                    " (use --look-back to read more)"
                }
            ),
        }
    }
    print_record(record);
    for explanation in explanations {
        println!("\nconnection {}", explanation.connection.name);
        print_explanation(record, explanation);
    }
}

fn print_record(record: &OwnedRecord) {
    println!(
        "record {} partition {} offset {} timestamp {}",
        record.topic, record.partition, record.offset, record.timestamp_ms
    );
    println!("  key    {}", shown(record.key.as_deref()));
    println!("  value  {}", shown(record.value.as_deref()));
    for (name, value) in &record.headers {
        println!(
            "  header {} = {}",
            truncate(name, SHOWN_MAX),
            shown(value.as_deref())
        );
    }
}

/// Returns bytes on one line without control characters, as text or as escapes with their number.
fn shown(bytes: Option<&[u8]>) -> String {
    let Some(bytes) = bytes else {
        return "null".to_owned();
    };
    match std::str::from_utf8(bytes) {
        Ok(text) if text.contains('\0') => binary(bytes),
        Ok(text) if text.chars().count() <= SHOWN_MAX => truncate(text, usize::MAX),
        Ok(text) => format!("{} ({} bytes)", truncate(text, SHOWN_MAX), bytes.len()),
        Err(_) => binary(bytes),
    }
}

/// Returns the first bytes like evaluator BYTES, with `\xHH` for bytes that are not printable
/// ASCII.
fn binary(bytes: &[u8]) -> String {
    let escape = |byte: &u8| match byte {
        b' '..=b'~' => char::from(*byte).to_string(),
        byte => format!("\\x{byte:02X}"),
    };
    let start: String = bytes.iter().take(SHOWN_MAX / 4).map(escape).collect();
    let more = if bytes.len() > SHOWN_MAX / 4 {
        "…"
    } else {
        ""
    };
    format!("{start}{more} ({} bytes, binary)", bytes.len())
}

fn print_explanation(record: &OwnedRecord, delivery: &RecordExplanation<'_>) {
    let explanation = &delivery.explanation;
    if !delivery.connection.enabled {
        println!("  disabled: every subscription is refused");
    }
    for document in &delivery.documents {
        println!("  {}", document_text(document));
    }
    print_patterns(record, delivery);
    if explanation.sources.is_empty() {
        let topics: Vec<_> = delivery.connection.mapping.topics().collect();
        println!(
            "  topic {} is not mapped; mapped topics: {}",
            record.topic,
            topics.join(", ")
        );
    } else {
        println!("  items");
        let mut table = TextTable::new(&[
            TextColumn::text("from", 20),
            TextColumn::text("mapped as", 60),
            TextColumn::text("item", usize::MAX),
        ]);
        for source in &explanation.sources {
            let item = match &source.item {
                Ok(item) => item.clone(),
                Err(reason) => format!("none: {reason}"),
            };
            add_row(&mut table, &[&origin(source), &source.text, &item]);
        }
        print_table(&table, "    ");
        println!("  fields");
        let mut table = TextTable::new(&[
            TextColumn::text("field", 30),
            TextColumn::text("expression", 40),
            TextColumn::text("value", usize::MAX),
        ]);
        for field in &explanation.fields {
            add_row(
                &mut table,
                &[&field.name, &field.expression, &value_text(field)],
            );
        }
        print_table(&table, "    ");
    }
    if let Some(item) = &delivery.item {
        print_item(delivery, item);
    }
    println!("  {}", verdict(delivery));
}

/// Prints the patterns that the record's topic matches, and other topics that match them.
fn print_patterns(record: &OwnedRecord, delivery: &RecordExplanation<'_>) {
    let mapping = &delivery.connection.mapping;
    if mapping.has_patterns() {
        let matching: Vec<_> = mapping.patterns_of(&record.topic).collect();
        if !matching.is_empty() {
            println!("  topic {} matches {}", record.topic, matching.join(", "));
        }
    }
    if let Some(patterns) = &delivery.patterns {
        patterns.print_lines();
    }
}

/// Returns the schema and the decoded text of a key or value.
fn document_text(document: &DecodedDocument) -> String {
    let DecodedDocument { part, format, .. } = document;
    let schema = match &document.schema {
        None => String::new(),
        Some(Ok(id)) => format!(", schema {id}"),
        Some(Err(reason)) => format!(", no schema: {reason}"),
    };
    let text = match &document.text {
        Ok(Some(text)) => truncate(text, 4 * SHOWN_MAX),
        Ok(None) => "(null)".to_owned(),
        Err(reason) => format!("error: {reason}"),
    };
    format!("{part} is {format}{schema}: {text}")
}

fn document_json(document: &DecodedDocument) -> Value {
    let schema = document.schema.as_ref();
    json!({
        "part": document.part,
        "format": document.format,
        "schema": schema.and_then(|id| id.as_ref().ok()).map(ToString::to_string),
        "text": document.text.as_ref().ok(),
        "error": document.text.as_ref().err().map(ToString::to_string),
    })
}

fn origin(source: &SourceOutcome) -> String {
    match &source.template {
        Some(name) => format!("template {name}"),
        None => "simple item".to_owned(),
    }
}

fn value_text(field: &Extracted) -> String {
    match &field.outcome {
        Ok(Some(text)) => shown(Some(text.as_bytes())),
        Ok(None) => "(null)".to_owned(),
        Err(reason) => format!("error: {reason}"),
    }
}

fn print_item(delivery: &RecordExplanation<'_>, item: &ItemExplanation) {
    println!("  item {}", item.item);
    if !item.is_admitted {
        println!(
            "    no template or simple item of a mapped topic has this prefix and these \
             parameters; subscribers receive nothing"
        );
    }
    for source in &delivery.explanation.sources {
        match source.matches(&item.item) {
            Ok(()) => println!("    {}: matches", origin(source)),
            Err(mismatch) => println!(
                "    {}: {}",
                origin(source),
                truncate(&mismatch.to_string(), 2 * SHOWN_MAX)
            ),
        }
    }
}

fn verdict(delivery: &RecordExplanation<'_>) -> String {
    let explanation = &delivery.explanation;
    let strategy = match delivery.connection.error_strategy {
        ErrorStrategy::IgnoreAndContinue => "the record is skipped",
        ErrorStrategy::ForceUnsubscription => "every item of the connection is unsubscribed",
    };
    let failed = |error: &ExtractionError| {
        let reason = error.kind().label();
        format!("not delivered, {strategy}: {error} (reason {reason})")
    };
    let items = match &explanation.items {
        Err(error) => return failed(error),
        Ok(items) => items,
    };
    if items.is_empty() {
        return "not delivered: the record maps to no item".to_owned();
    }
    if let Some(error) = &explanation.fields_error {
        return failed(error);
    }
    match &delivery.item {
        _ if !delivery.connection.enabled => "not delivered: the connection is disabled".to_owned(),
        Some(item) if !item.is_reached => format!("not delivered to {}", item.item),
        Some(item) => format!("delivered to {}", item.item),
        None => format!("delivered to the subscribers of {}", items.join(", ")),
    }
}

pub(super) fn to_json(
    record: &OwnedRecord,
    looked_back: Option<&LookBackResult>,
    explanations: &[RecordExplanation<'_>],
) -> Value {
    // The same format as in a record file.
    let text = |bytes: &Option<Vec<u8>>| match bytes.as_deref().map(std::str::from_utf8) {
        None => Value::Null,
        Some(Ok(text)) => text.into(),
        Some(Err(_)) => {
            json!({ "base64": BASE64_STANDARD.encode(bytes.as_deref().unwrap_or_default()) })
        }
    };
    let headers = record
        .headers
        .iter()
        .map(|(name, value)| json!([name, text(value)]));
    json!({
        "looked_back": looked_back.map(|found| json!({
            "records": found.read,
            "reached": found.reached,
        })),
        "record": {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp_ms,
            "key": text(&record.key),
            "value": text(&record.value),
            "headers": headers.collect::<Vec<_>>(),
        },
        "connections": explanations.iter().map(explanation_json).collect::<Vec<_>>(),
    })
}

fn explanation_json(delivery: &RecordExplanation<'_>) -> Value {
    let explanation = &delivery.explanation;
    let error = explanation
        .items
        .as_ref()
        .err()
        .or(explanation.fields_error.as_ref());
    let sources = explanation.sources.iter().map(|source| {
        json!({
            "template": source.template.as_deref(),
            "mapped_as": source.text,
            "parameters": source.parameters.iter().map(extracted_json).collect::<Vec<_>>(),
            "item": source.item.as_ref().ok(),
            "error": source.item.as_ref().err().map(ToString::to_string),
        })
    });
    json!({
        "name": delivery.connection.name,
        "delivered": delivery.is_delivered(),
        "verdict": verdict(delivery),
        "items": explanation.items.as_deref().unwrap_or_default(),
        "documents": delivery.documents.iter().map(document_json).collect::<Vec<_>>(),
        "topic_patterns": delivery.patterns.as_ref().map(PatternFindings::to_json),
        "sources": sources.collect::<Vec<_>>(),
        "fields": explanation.fields.iter().map(extracted_json).collect::<Vec<_>>(),
        "error": error.map(|error| json!({
            "text": error.to_string(),
            "reason": error.kind().label(),
            "deserialization": error.is_deserialization(),
        })),
        "item": delivery.item.as_ref().map(|item| item_json(delivery, item)),
    })
}

fn item_json(delivery: &RecordExplanation<'_>, item: &ItemExplanation) -> Value {
    let reasons = delivery.explanation.sources.iter().map(|source| {
        json!({
            "template": source.template.as_deref(),
            "mapped_as": source.text,
            "mismatch": source.matches(&item.item).err().map(|mismatch| mismatch.to_string()),
        })
    });
    json!({
        "name": item.item.as_str(),
        "admitted": item.is_admitted,
        "reached": item.is_reached,
        "sources": reasons.collect::<Vec<_>>(),
    })
}

fn extracted_json(extracted: &Extracted) -> Value {
    json!({
        "name": &*extracted.name,
        "expression": &*extracted.expression,
        "value": extracted.outcome.as_ref().ok(),
        "error": extracted.outcome.as_ref().err().map(ToString::to_string),
    })
}
