//! What `weir gateway explain` writes: for people, or JSON.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use weir_kafka::peek::OwnedRecord;
use weir_mapping::{ErrorStrategy, Extracted, ExtractionError, SourceOutcome};

use super::explain::{ItemExplanation, LookedBack, RecordExplanation};
use super::table::{TextTable, cut};

/// Characters of a key or value that are shown.
const SHOWN: usize = 160;

/// Writes the record and what each connection makes of it.
pub(super) fn print(
    record: &OwnedRecord,
    looked_back: Option<&LookedBack>,
    answers: &[RecordExplanation<'_>],
) {
    if let Some(found) = looked_back {
        let (read, item) = (found.read, &found.item);
        match found.reached {
            true => println!("{read} records read: this is the newest that reaches {item}"),
            false => println!(
                "{read} records read, none of which reaches {item}: this is the newest of all{}",
                if found.is_whole {
                    ""
                } else {
                    "; --look-back reads more"
                }
            ),
        }
    }
    print_record(record);
    for answer in answers {
        println!("\nconnection {}", answer.connection.name);
        print_answer(record, answer);
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
            cut(name, SHOWN),
            shown(value.as_deref())
        );
    }
}

/// Bytes in one line without control characters: a text, or bytes as escapes with their number.
fn shown(bytes: Option<&[u8]>) -> String {
    let Some(bytes) = bytes else {
        return "null".to_owned();
    };
    match std::str::from_utf8(bytes) {
        Ok(text) if text.contains('\0') => binary(bytes),
        Ok(text) if text.chars().count() <= SHOWN => cut(text, usize::MAX),
        Ok(text) => format!("{} ({} bytes)", cut(text, SHOWN), bytes.len()),
        Err(_) => binary(bytes),
    }
}

/// The first bytes, those that are no printable ASCII as `\xHH`, as the evaluator BYTES has them.
fn binary(bytes: &[u8]) -> String {
    let escape = |byte: &u8| match byte {
        b' '..=b'~' => char::from(*byte).to_string(),
        byte => format!("\\x{byte:02X}"),
    };
    let kept: String = bytes.iter().take(SHOWN / 4).map(escape).collect();
    let more = if bytes.len() > SHOWN / 4 { "…" } else { "" };
    format!("{kept}{more} ({} bytes, binary)", bytes.len())
}

fn print_answer(record: &OwnedRecord, answer: &RecordExplanation<'_>) {
    let explanation = &answer.explanation;
    if !answer.connection.enabled {
        println!("  disabled: every subscription is refused");
    }
    if explanation.sources.is_empty() {
        let topics: Vec<_> = answer.connection.mapping.topics().collect();
        println!(
            "  topic {} is not mapped; mapped are: {}",
            record.topic,
            topics.join(", ")
        );
    } else {
        println!("  items");
        let mut table = TextTable::new(&[("from", 20), ("mapped as", 60), ("item", 0)]);
        for source in &explanation.sources {
            table.row(vec![
                origin(source),
                source.text.clone(),
                source
                    .item
                    .clone()
                    .unwrap_or_else(|reason| format!("none: {reason}")),
            ]);
        }
        table.print("    ");
        println!("  fields");
        let mut table = TextTable::new(&[("field", 30), ("by", 40), ("value", 0)]);
        for field in &explanation.fields {
            table.row(vec![
                field.name.to_string(),
                field.expression.to_string(),
                value_text(field),
            ]);
        }
        table.print("    ");
    }
    if let Some(item) = &answer.item {
        print_item(answer, item);
    }
    println!("  {}", verdict(answer));
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

fn print_item(answer: &RecordExplanation<'_>, item: &ItemExplanation) {
    println!("  item {}", item.item);
    if !item.is_admitted {
        println!(
            "    no template or simple item of a mapped topic has this prefix and these parameters: \
             whoever subscribes gets nothing"
        );
    }
    for source in &answer.explanation.sources {
        match source.matches(&item.item) {
            Ok(()) => println!("    {}: matches", origin(source)),
            Err(why) => println!(
                "    {}: {}",
                origin(source),
                cut(&why.to_string(), 2 * SHOWN)
            ),
        }
    }
}

/// One line that says what becomes of the record.
fn verdict(answer: &RecordExplanation<'_>) -> String {
    let explanation = &answer.explanation;
    let strategy = match answer.connection.error_strategy {
        ErrorStrategy::IgnoreAndContinue => "the record is skipped",
        ErrorStrategy::ForceUnsubscription => "every item of the connection is unsubscribed",
    };
    let failed = |error: &ExtractionError| format!("not delivered, {strategy}: {error}");
    let items = match &explanation.items {
        Err(error) => return failed(error),
        Ok(items) => items,
    };
    if items.is_empty() {
        return "not delivered: the record belongs to no item".to_owned();
    }
    if let Some(error) = &explanation.fields_error {
        return failed(error);
    }
    match &answer.item {
        _ if !answer.connection.enabled => "not delivered: the connection is disabled".to_owned(),
        Some(item) if !item.is_reached => format!("not delivered to {}", item.item),
        Some(item) => format!("delivered to {}", item.item),
        None => format!("delivered to the subscribers of {}", items.join(", ")),
    }
}

/// The same as data.
pub(super) fn to_json(
    record: &OwnedRecord,
    looked_back: Option<&LookedBack>,
    answers: &[RecordExplanation<'_>],
) -> Value {
    // In the form that a record file has.
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
        "connections": answers.iter().map(answer_json).collect::<Vec<_>>(),
    })
}

fn answer_json(answer: &RecordExplanation<'_>) -> Value {
    let explanation = &answer.explanation;
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
        "name": answer.connection.name,
        "delivered": answer.is_delivered(),
        "verdict": verdict(answer),
        "items": explanation.items.as_deref().unwrap_or_default(),
        "sources": sources.collect::<Vec<_>>(),
        "fields": explanation.fields.iter().map(extracted_json).collect::<Vec<_>>(),
        "error": error.map(|error| json!({
            "text": error.to_string(),
            "deserialization": error.is_deserialization(),
        })),
        "item": answer.item.as_ref().map(|item| item_json(answer, item)),
    })
}

fn item_json(answer: &RecordExplanation<'_>, item: &ItemExplanation) -> Value {
    let reasons = answer.explanation.sources.iter().map(|source| {
        json!({
            "template": source.template.as_deref(),
            "mapped_as": source.text,
            "mismatch": source.matches(&item.item).err().map(|why| why.to_string()),
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
