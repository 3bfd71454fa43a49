//! Cases about transports: all modes over each transport, changes of transport, lost connections.

use std::ops::Range;

use anyhow::{Context as _, Result, ensure};

use super::cases::{KEEPALIVE_MS, RECOVERY};
use super::driver::Driver;
use super::events::{DriverConfig, SdkEvent, Subscription, Update};
use super::modes::{MERGE, VALUES, all_modes};
use super::proxy::Proxy;
use super::test_env::{Case, TEST_TIMEOUT, any_port};

/// Number of records in cases with many records.
const RECORDS: usize = 600;
/// Configuration of a gateway that keeps a session until its client has found out that its
/// connection is lost, also between two polls. On a busy machine this may take longer than by
/// default.
const LONG_RECOVERY: &str = "[limits]\nrecovery_ms = 120000\nunbound_timeout_ms = 120000\n";

pub(crate) fn ws_streaming(case: &Case<'_>) -> Result<()> {
    over(case, "WS-STREAMING")
}

pub(crate) fn ws_polling(case: &Case<'_>) -> Result<()> {
    over(case, "WS-POLLING")
}

pub(crate) fn http_streaming(case: &Case<'_>) -> Result<()> {
    over(case, "HTTP-STREAMING")
}

pub(crate) fn http_polling(case: &Case<'_>) -> Result<()> {
    over(case, "HTTP-POLLING")
}

fn forced(case: &Case<'_>, transport: &'static str) -> DriverConfig {
    DriverConfig {
        transport: Some(transport),
        ..DriverConfig::new(case.shared().address(), all_modes(case))
    }
}

/// All modes in one session: exact values, repeated ones in modes that send them.
fn over(case: &Case<'_>, transport: &'static str) -> Result<()> {
    let client = case.client_of(forced(case, transport))?;
    client.status(&format!("CONNECTED:{transport}"))?;
    client.subscribed(&[0, 1, 2])?;
    let mut last = None;
    for value in VALUES {
        case.send("a", value)?;
        case.flush()?;
        let repeated = last == Some(value);
        let subs: &[usize] = if repeated { &[0, 2] } else { &[0, 1, 2] };
        let mut seen = Vec::new();
        for update in client.updates(subs.len())? {
            ensure!(
                update.value("value") == value
                    && update.value("key") == Some(&case.key("a"))
                    && update.snapshot == (update.sub == MERGE && last.is_none())
                    && update.changed.is_empty() == repeated,
                "wanted {value:?}: {update:?}"
            );
            seen.push(update.sub);
        }
        seen.sort_unstable();
        ensure!(seen == subs, "subscriptions {seen:?}, wanted {subs:?}");
        last = Some(value);
    }
    Ok(())
}

/// A full streaming response is followed by another one, without loss between them.
pub(crate) fn content_length(case: &Case<'_>) -> Result<()> {
    let config = forced(case, "HTTP-STREAMING").option("ContentLength", 4000);
    let client = case.client_of(config)?;
    client.subscribed(&[0, 1, 2])?;
    send(case, 0..RECORDS)?;
    Sequence::default().until(&client, RECORDS)
}

/// SDKs that negotiate compression receive compressed messages with exact values, long and short.
pub(crate) fn compressed(case: &Case<'_>) -> Result<()> {
    const VALUES: usize = 24;
    let gateway = case.extended();
    let sent = "weir_gateway_compressed_sent_total";
    let before = gateway.metric(sent)?;
    let raw = Subscription {
        data_adapter: "Texts".to_owned(),
        ..case.raw(&["a"])
    };
    let client = case.extended_client(vec![raw])?;
    client.subscribed(&[0])?;
    for number in 0..VALUES {
        let value = match number % 4 {
            0 => format!("{number} over and over and ").repeat(100 * (number + 1)),
            1 => number.to_string(),
            2 => format!("{number} \u{1F355} \u{65E5}\u{672C} ").repeat(30),
            _ => (0..600u32)
                .map(|n| char::from(b' ' + (n * (n + number as u32) % 95) as u8))
                .collect(),
        };
        case.produce("a", &value)?;
        let update = &client.updates(1)?[0];
        ensure!(
            update.value("value") == Some(&value),
            "number {number}, wanted {value:?}: {update:?}"
        );
    }
    let sent = gateway.metric(sent)? - before;
    let received = gateway.metric("weir_gateway_compressed_received_total")?;
    let (asks, sends) = case.compresses();
    ensure!(
        (sent >= VALUES as u64 / 2) == asks && (sent > 0) == asks,
        "{sent} compressed messages sent"
    );
    ensure!(
        (received > 0) == sends,
        "{received} compressed messages received"
    );
    Ok(())
}

/// The application changes the transport during updates.
pub(crate) fn transport_changed(case: &Case<'_>) -> Result<()> {
    let mut client = case.client_of(forced(case, "WS-STREAMING"))?;
    client.subscribed(&[0, 1, 2])?;
    let mut sequence = Sequence::default();
    let others = [
        "HTTP-STREAMING",
        "HTTP-POLLING",
        "WS-POLLING",
        "WS-STREAMING",
    ];
    let part = RECORDS / others.len();
    for (number, transport) in others.into_iter().enumerate() {
        client.option("ForcedTransport", transport)?;
        send(case, number * part..(number + 1) * part)?;
        sequence.until_status(&client, &format!("CONNECTED:{transport}"))?;
        sequence.until(&client, (number + 1) * part)?;
    }
    Ok(())
}

pub(crate) fn recovery_ws_streaming(case: &Case<'_>) -> Result<()> {
    recovery(case, "WS-STREAMING", Some(KEEPALIVE_MS), 2)
}

pub(crate) fn recovery_ws_polling(case: &Case<'_>) -> Result<()> {
    recovery(case, "WS-POLLING", Some(KEEPALIVE_MS), 2)
}

pub(crate) fn recovery_http_streaming(case: &Case<'_>) -> Result<()> {
    recovery(case, "HTTP-STREAMING", Some(KEEPALIVE_MS), 2)
}

/// With default settings the Python SDK needs 10 s to detect the lost connection.
pub(crate) fn recovery_defaults(case: &Case<'_>) -> Result<()> {
    recovery(case, "WS-STREAMING", None, 1)
}

/// Connections are closed during updates: the session continues without lost or repeated updates.
fn recovery(
    case: &Case<'_>,
    transport: &'static str,
    keepalive_ms: Option<u32>,
    cuts: usize,
) -> Result<()> {
    let gateway = case.gateway_with(any_port(), LONG_RECOVERY)?;
    let proxy = Proxy::start(gateway.address())?;
    let client = case.client_of(through(&proxy, case, transport, keepalive_ms))?;
    client.subscribed(&[0, 1, 2])?;
    let mut sequence = Sequence::default();
    let part = RECORDS / (cuts + 1);
    for number in 0..cuts {
        let end = (number + 1) * part;
        send(case, number * part..end - part / 2)?;
        sequence.until(&client, number * part + part / 4)?;
        // On a busy machine, a client may have lost its connection before.
        sequence.until_connected(&client)?;
        proxy.cut()?;
        send(case, end - part / 2..end)?;
        sequence.until_status(&client, RECOVERY)?;
        sequence.until(&client, end)?;
    }
    send(case, cuts * part..RECORDS)?;
    sequence.until(&client, RECORDS)
}

/// A poll is closed while it waits, and updates follow immediately. Some SDKs report a lost poll,
/// the HTTP library of others repeats it. No update is lost or repeated.
pub(crate) fn recovery_http_polling(case: &Case<'_>) -> Result<()> {
    const CUTS: usize = 2;
    // A separate gateway, because its metric shows when its only session has a poll.
    let gateway = case.gateway_with(any_port(), LONG_RECOVERY)?;
    let proxy = Proxy::start(gateway.address())?;
    let client = case.client_of(through(&proxy, case, "HTTP-POLLING", None))?;
    client.subscribed(&[0, 1, 2])?;
    let mut sequence = Sequence::default();
    let part = RECORDS / (CUTS + 1);
    for number in 0..CUTS {
        send(case, number * part..(number + 1) * part)?;
        sequence.until(&client, (number + 1) * part)?;
        gateway.wait_metric("weir_gateway_unbound_sessions", 0)?;
        proxy.cut()?;
    }
    send(case, CUTS * part..RECORDS)?;
    sequence.until(&client, RECORDS)
}

fn through(
    proxy: &Proxy,
    case: &Case<'_>,
    transport: &'static str,
    keepalive_ms: Option<u32>,
) -> DriverConfig {
    let mut config = DriverConfig {
        keepalive_ms,
        ..forced(case, transport)
    };
    config.server = format!("http://{}", proxy.address());
    match transport {
        // The Python SDK detects a lost poll only 4 s after this time, and the gateway waits 10 s.
        "WS-POLLING" => config.option("IdleTimeout", 1000),
        _ => config,
    }
}

/// Sends records with these numbers as values.
fn send(case: &Case<'_>, numbers: Range<usize>) -> Result<()> {
    for number in numbers {
        case.send("a", Some(&number.to_string()))?;
    }
    case.flush()
}

/// Progress of a client with a subscription in each mode: the next expected record of each.
#[derive(Debug, Default)]
struct Sequence {
    next: [usize; 3],
    /// The last status, if it is another one than at the start.
    status: Option<String>,
}

impl Sequence {
    /// Receives updates until all modes have reached `end`. RAW and DISTINCT receive every record
    /// once and in order, MERGE may skip some. Only status events may occur in between.
    fn until(&mut self, client: &Driver, end: usize) -> Result<()> {
        while self.next.iter().any(|next| *next < end) {
            self.next(client)?;
        }
        Ok(())
    }

    /// Receives updates until the status is this one.
    fn until_status(&mut self, client: &Driver, wanted: &str) -> Result<()> {
        while self.next(client)?.as_deref() != Some(wanted) {}
        Ok(())
    }

    /// Receives updates until the client is connected, as it is without any status.
    fn until_connected(&mut self, client: &Driver) -> Result<()> {
        let is_connected = |status: &String| status.starts_with("CONNECTED:");
        while !self.status.as_ref().is_none_or(is_connected) {
            self.next(client)?;
        }
        Ok(())
    }

    fn next(&mut self, client: &Driver) -> Result<Option<String>> {
        let event = client.next_within(TEST_TIMEOUT)?;
        let event = event.with_context(|| format!("nothing came after {self:?}"))?;
        let status = self.take(event)?;
        if status.is_some() {
            self.status.clone_from(&status);
        }
        Ok(status)
    }

    /// Counts an update; returns a status.
    fn take(&mut self, event: SdkEvent) -> Result<Option<String>> {
        match event {
            SdkEvent::Status { status } => return Ok(Some(status)),
            SdkEvent::Update(update) => self.count(&update)?,
            event => ensure!(event.is_detail(), "among updates: {event:?}"),
        }
        Ok(None)
    }

    fn count(&mut self, update: &Update) -> Result<()> {
        let number: usize = update.value("value").unwrap_or_default().parse()?;
        let next = &mut self.next[update.sub];
        let skips = update.sub == MERGE && number > *next;
        ensure!(number == *next || skips, "wanted {next}: {update:?}");
        *next = number + 1;
        Ok(())
    }
}
