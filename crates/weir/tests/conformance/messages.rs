//! Client messages: without a rule the gateway rejects them, and with one they become records. The
//! application receives each outcome.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use weir_kafka::KafkaSettings;
use weir_kafka::peek::{OwnedRecord, sample};

use super::cases::KEEPALIVE_MS;
use super::driver::Driver;
use super::events::{DriverConfig, SdkEvent};
use super::identity::{self, LONG_S};
use super::test_env::{Case, LOOK, TEST_TIMEOUT, any_port};

const TRANSPORTS: [&str; 2] = ["WS-STREAMING", "HTTP-STREAMING"];
/// Sequence of messages that a rule covers.
const SEQUENCE: &str = "orders_1";
/// Messages of a client in that sequence.
const ORDERED: usize = 20;
/// Longest message that the rules cover.
const BYTES_MAX: usize = 600;

/// Messages are rejected with code 0 and a text, over WebSocket and HTTP, with and without a
/// sequence. A message without a listener causes no error.
pub(crate) fn refused(case: &Case<'_>) -> Result<()> {
    for transport in TRANSPORTS {
        let mut config = DriverConfig::new(case.shared().address(), vec![case.raw(&["a"])]);
        config.transport = Some(transport);
        config.keepalive_ms = Some(KEEPALIVE_MS);
        let mut client = case.client_of(config)?;
        client.subscribed(&[0])?;
        client.message("no listener", None, false)?;
        for (text, sequence) in [
            ("|%#$^ \u{FC}", None),
            ("two", Some("orders")),
            ("three", None),
        ] {
            client.message(text, sequence, true)?;
            let denied = ("denied", Some((0, "this gateway takes no messages")));
            has_outcome(&client, text, denied).context(transport)?;
        }
        case.produce("a", transport)?;
        client.value(0, transport)?;
    }
    Ok(())
}

/// Waits for the next outcome of a message and compares it, with its code and text if it is denied.
fn has_outcome(
    client: &Driver,
    text: &str,
    (outcome, reason): (&str, Option<(i32, &str)>),
) -> Result<()> {
    let found = client.wait("outcome of a message", |event| match event {
        SdkEvent::Message { .. } => Some(event.clone()),
        _ => None,
    })?;
    let wanted = SdkEvent::Message {
        text: text.to_owned(),
        outcome: outcome.to_owned(),
        code: reason.map(|(code, _)| code),
        message: reason.map(|(_, message)| message.to_owned()),
    };
    ensure!(found == wanted, "{found:?}, expected {wanted:?}");
    Ok(())
}

/// Messages of a client with a token, over WebSocket and HTTP: the broker stores them with the
/// client's identity and in the order of their sequence. One that no rule covers or that is too
/// long is denied, one that the broker rejects is an error. The audit log has all outcomes.
pub(crate) fn delivered(case: &Case<'_>) -> Result<()> {
    let issuer = identity::new_issuer()?;
    let orders = case.create_topic("orders", &[])?;
    let small = case.create_topic("small", &[("max.message.bytes", "300")])?;
    let audit = case.dir().join("audit.log");
    let mut settings = identity::settings(&issuer, "password");
    settings += &format!("[audit]\npath = {:?}\n", audit.display().to_string());
    for (name, topic, sequences) in [
        ("orders", &orders, r#"["orders*", "UNORDERED_MESSAGES"]"#),
        ("small", &small, r#"["small"]"#),
    ] {
        settings += &format!(
            "[[message]]\nname = \"{name}\"\nsequences = {sequences}\nconnection = \
             \"QuickStart\"\ntopic = \"{topic}\"\nkey = \"{{claims.sub}}\"\n\
             max_bytes = {BYTES_MAX}\nrate_per_session = 1000.0\n"
        );
    }
    let gateway = case.gateway_with(any_port(), &settings)?;
    let token = identity::token(case, &issuer, "anna", LONG_S)?;
    for transport in TRANSPORTS {
        let config = DriverConfig {
            transport: Some(transport),
            password: Some(token.clone()),
            ..DriverConfig::new(gateway.address(), vec![case.raw(&["a"])])
        };
        let mut client = case.client_of(config)?;
        client.subscribed(&[0])?;
        send_all(&mut client, transport).context(transport)?;
    }
    let sessions = are_stored(case, &orders, issuer.url())?;
    are_audited(&audit, issuer.url(), &sessions)
}

/// Returns the text of an ordered message.
fn ordered(transport: &str, number: usize) -> String {
    format!("{transport} |%#$^ \u{FC} {number}")
}

/// Sends messages with all outcomes.
fn send_all(client: &mut Driver, transport: &str) -> Result<()> {
    for number in 0..ORDERED {
        client.message(&ordered(transport, number), Some(SEQUENCE), true)?;
    }
    for number in 0..ORDERED {
        has_outcome(client, &ordered(transport, number), ("processed", None))?;
    }
    let longest = "x".repeat(BYTES_MAX);
    let too_long = "x".repeat(BYTES_MAX + 1);
    let uncovered = "this gateway takes no messages";
    for (text, sequence, outcome) in [
        (transport, None, ("processed", None)),
        ("uncovered", Some("other"), ("denied", Some((0, uncovered)))),
        (
            &too_long,
            Some(SEQUENCE),
            ("denied", Some((-3, "Message too long"))),
        ),
        // The topic has a lower limit.
        (&longest, Some("small"), ("error", None)),
    ] {
        client.message(text, sequence, true)?;
        has_outcome(client, text, outcome)?;
    }
    Ok(())
}

/// Checks the records of all clients. Returns the handles of their sessions.
fn are_stored(case: &Case<'_>, topic: &str, issuer: &str) -> Result<Vec<String>> {
    let kafka = KafkaSettings::plaintext(case.bootstrap());
    // One more than there may be.
    let count = TRANSPORTS.len() * (ORDERED + 1);
    let mut records = sample(&kafka, topic, count + 1, 1 << 20, TEST_TIMEOUT)?;
    records.sort_by_key(|record| record.offset);
    ensure!(records.len() == count, "{} records", records.len());
    let mut sessions = Vec::new();
    for (records, transport) in records.chunks(ORDERED + 1).zip(TRANSPORTS) {
        let session = header(&records[0], "weir-session").context("a session")?;
        for (number, record) in records.iter().enumerate() {
            let is_ordered = number < ORDERED;
            let value = match is_ordered {
                true => ordered(transport, number),
                false => transport.to_owned(),
            };
            let prog = (number + 1).to_string();
            ensure!(
                record.key.as_deref() == Some(b"anna")
                    && record.value.as_deref() == Some(value.as_bytes())
                    && header(record, "weir-user") == Some("anna")
                    && header(record, "weir-issuer") == Some(issuer)
                    && header(record, "weir-session") == Some(session)
                    && header(record, "weir-sequence") == is_ordered.then_some(SEQUENCE)
                    && (!is_ordered || header(record, "weir-prog") == Some(&prog)),
                "wanted {value} of {session}: {record:?}"
            );
        }
        sessions.push(session.to_owned());
    }
    ensure!(sessions[0] != sessions[1], "one handle of two sessions");
    Ok(sessions)
}

fn header<'a>(record: &'a OwnedRecord, name: &str) -> Option<&'a str> {
    let mut headers = record.headers.iter();
    let (_, value) = headers.find(|(header, _)| header == name)?;
    std::str::from_utf8(value.as_deref()?).ok()
}

/// Checks that the audit log has each outcome with its cause, and no text of a message.
fn are_audited(audit: &Path, issuer: &str, sessions: &[String]) -> Result<()> {
    let allowed = json!(["allow", "orders", null, null]);
    let failed = [
        json!(["deny", null, "no_rule", 0]),
        json!(["deny", "orders", "too_long", -3]),
        json!(["error", "small", "refused", 34]),
    ];
    let count = sessions.len() * (ORDERED + 1 + failed.len());
    let deadline = Instant::now() + TEST_TIMEOUT;
    let (log, records) = loop {
        let log = fs::read_to_string(audit).unwrap_or_default();
        let records: Result<Vec<Value>, _> = log.lines().map(serde_json::from_str).collect();
        // The last line may be incomplete.
        let mut records = records.unwrap_or_default();
        records.retain(|record| record["event"] == "message");
        if records.len() >= count {
            break (log, records);
        }
        ensure!(
            Instant::now() < deadline,
            "{count} outcomes expected: {log}"
        );
        thread::sleep(LOOK);
    };
    for session in sessions {
        let mut wanted = vec![allowed.clone(); ORDERED + 1];
        wanted.extend(failed.iter().cloned());
        let own = records
            .iter()
            .filter(|record| record["session"] == **session);
        let found: Vec<_> = own
            .map(|record| json!(["outcome", "rule", "reason", "code"].map(|name| &record[name])))
            .collect();
        ensure!(found == wanted, "{found:?}, expected {wanted:?}");
    }
    for record in &records {
        ensure!(
            record["user"] == "anna" && record["issuer"] == issuer,
            "{record}"
        );
    }
    ensure!(
        !log.contains("|%#$^") && !log.contains("xxx"),
        "texts: {log}"
    );
    Ok(())
}
