//! Cases about diffs: SDKs must reconstruct the same values.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::events::Subscription;
use super::modes::in_mode;
use super::test_env::Case;

/// A subscription in mode MERGE to a connection with diffs.
fn to(case: &Case<'_>, adapter: &str) -> Subscription {
    Subscription {
        data_adapter: adapter.to_owned(),
        ..in_mode(case, "MERGE", "a")
    }
}

/// JSON documents with small changes: equal as JSON, most of them sent as a patch.
pub(crate) fn json_patch(case: &Case<'_>) -> Result<()> {
    const RECORDS: usize = 40;
    let client = case.extended_client(vec![to(case, "Patches")])?;
    client.subscribed(&[0])?;
    let mut document = json!({
        "name": "one ~ two / three \u{1F355} \u{65E5}\u{672C}",
        "numbers": [1, 2, 3],
        "rest": "x".repeat(300),
        "inner": { "a/b": 1, "c~d": [null, true, ""] },
    });
    let mut patched = 0;
    for number in 0..RECORDS {
        match number % 5 {
            0 => document["numbers"] = json!([number, 2, 3, number]),
            1 => document["inner"]["a/b"] = json!(format!("| # $ ^ % {number}\r\n")),
            2 => document["inner"]["c~d"] = json!([null, { "new": number }]),
            3 => document[format!("member {number}")] = json!(true),
            _ => document["inner"] = json!({ "a/b": number, "c~d": [number] }),
        }
        case.produce("a", &document.to_string())?;
        let update = &client.updates(1)?[0];
        let value: Value = serde_json::from_str(update.value("value").unwrap_or_default())?;
        ensure!(value == document, "wanted {document}: {update:?}");
        patched += usize::from(update.patched == ["value"]);
    }
    ensure!(patched > RECORDS / 2, "{patched} of {RECORDS} as a patch");
    // Values that are not JSON, null or very different are sent whole.
    for value in [Some("no JSON"), None, Some("{}"), Some("")] {
        case.send("a", value)?;
        case.flush()?;
        let update = &client.updates(1)?[0];
        ensure!(
            update.value("value") == value && update.patched.is_empty(),
            "wanted {value:?} whole: {update:?}"
        );
    }
    Ok(())
}

/// Texts with small changes: equal in every character, some of them sent as a diff.
pub(crate) fn tlcp_diff(case: &Case<'_>) -> Result<()> {
    const RECORDS: usize = 60;
    let client = case.extended_client(vec![to(case, "Texts")])?;
    client.subscribed(&[0])?;
    let mut text: Vec<char> = "|one%two^three#four$five,\u{65E5}\u{672C}\r\n"
        .repeat(40)
        .chars()
        .collect();
    for number in 0..RECORDS {
        let length = text.len();
        match number % 4 {
            0 => text[length / 3..length / 3 + 2].copy_from_slice(&['\u{E9}', '%']),
            1 => drop(text.splice(length / 2..length / 2, format!("new {number}").chars())),
            2 => drop(text.drain(length / 4..length / 4 + 3)),
            _ => text.rotate_left(7),
        }
        // A character beyond the basic plane forbids a diff.
        let end = if number % 10 == 9 { "\u{1F355}" } else { "" };
        let value = text.iter().collect::<String>() + end;
        case.produce("a", &value)?;
        let update = &client.updates(1)?[0];
        ensure!(
            update.value("value") == Some(&value),
            "number {number}, wanted {value:?}: {update:?}"
        );
    }
    let diffs = case
        .extended()
        .metric("weir_gateway_diffs_tlcp_diff_total")?;
    ensure!(diffs > 0, "every value came whole");
    Ok(())
}
