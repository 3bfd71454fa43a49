//! The list of cases. Each runs against every SDK; an `Err` is its failure.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::command;
use super::diffs;
use super::event_pages;
use super::events::{DriverConfig, Subscription};
use super::identity;
use super::messages;
use super::modes;
use super::pacing;
use super::pages;
use super::report_page;
use super::sdk::is_old;
use super::secure;
use super::site_page;
use super::test_env::{Case, any_port};
use super::transports;

/// The function of a case.
pub(crate) type Run = fn(&Case<'_>) -> Result<()>;

/// Slow cases come first; they mostly wait.
const CASES: [(&str, Run); 55] = [
    (BROKER_RESTART, modes::broker_restart),
    ("modes_gateway_restart", modes::gateway_restart),
    ("killed", killed),
    ("identity_outage", identity::outage),
    ("identity_expiry", identity::expiry),
    ("recovery_defaults", transports::recovery_defaults),
    ("recovery_ws_streaming", transports::recovery_ws_streaming),
    ("recovery_ws_polling", transports::recovery_ws_polling),
    (
        "recovery_http_streaming",
        transports::recovery_http_streaming,
    ),
    ("recovery_http_polling", transports::recovery_http_polling),
    ("idle_probe", idle_probe),
    ("restart_drain", restart_drain),
    ("raw_many", raw_many),
    ("raw_live", raw_live),
    ("raw_nulls", raw_nulls),
    ("unsubscribe", unsubscribe),
    ("two_subscriptions", two_subscriptions),
    ("unknown_adapter_set", unknown_adapter_set),
    ("unknown_data_adapter", unknown_data_adapter),
    ("bad_item", bad_item),
    ("unmatched_item", unmatched_item),
    ("unmapped_field", unmapped_field),
    ("message_refused", messages::refused),
    ("message_delivered", messages::delivered),
    ("sdk_disconnect", sdk_disconnect),
    ("merge_live", modes::merge_live),
    ("merge_snapshot", modes::merge_snapshot),
    ("merge_nulls", modes::merge_nulls),
    ("distinct_live", modes::distinct_live),
    ("two_gateways", modes::two_gateways),
    ("ws_streaming", transports::ws_streaming),
    ("ws_polling", transports::ws_polling),
    ("http_streaming", transports::http_streaming),
    ("http_polling", transports::http_polling),
    ("content_length", transports::content_length),
    ("transport_changed", transports::transport_changed),
    ("compressed", transports::compressed),
    ("frequency", pacing::frequency),
    ("bandwidth", pacing::bandwidth),
    ("buffer_size", pacing::buffer_size),
    ("overflow", pacing::overflow),
    ("command_live", command::live),
    ("command_auto", command::auto),
    ("command_mode_refused", command::mode_refused),
    ("command_two_levels", command::two_levels),
    ("command_recovery", command::recovery),
    ("json_patch", diffs::json_patch),
    ("tlcp_diff", diffs::tlcp_diff),
    ("tls", secure::tls),
    ("extra_headers", secure::extra_headers),
    ("origins", secure::origins),
    ("identity_password", identity::password),
    ("identity_header", identity::header),
    ("identity_cookie", identity::cookie),
    ("identity_revocation", identity::revocation),
];

/// Cases about Weir's own pages, which run only with the browser SDK.
const PAGES: [(&str, Run); 9] = [
    ("site", site_page::site),
    ("example_page", pages::example),
    ("event_pages", event_pages::events),
    ("init_page", pages::init),
    ("dashboard", pages::dashboard),
    ("proxy_dashboard", pages::proxy_dashboard),
    ("try_page", pages::try_page),
    ("report", report_page::report),
    ("report_libraries", report_page::libraries),
];

/// Cases of old releases: the core, and the differences between protocol versions.
const OF_OLD: [&str; 15] = [
    "recovery_ws_streaming",
    "restart_drain",
    "raw_live",
    "unsubscribe",
    "unmatched_item",
    "message_refused",
    "message_delivered",
    "merge_live",
    "distinct_live",
    "ws_streaming",
    "http_streaming",
    "http_polling",
    "command_live",
    "json_patch",
    "tlcp_diff",
];

/// Returns the cases of an SDK in the order of their start.
pub(crate) fn of(sdk: &str) -> impl Iterator<Item = (&'static str, Run)> {
    let pages: &[_] = if sdk == "web" { &PAGES } else { &[] };
    let old = is_old(sdk);
    let all = CASES.iter().chain(pages).copied();
    all.filter(move |(name, _)| !old || OF_OLD.contains(name))
}

/// The case that waits for the other SDKs.
pub(crate) const BROKER_RESTART: &str = "modes_broker_restart";
const STREAMING: &str = "CONNECTED:WS-STREAMING";
pub(crate) const RECOVERY: &str = "DISCONNECTED:TRYING-RECOVERY";
const RETRY: &str = "DISCONNECTED:WILL-RETRY";
const DISCONNECTED: &str = "DISCONNECTED";
/// Shortest keepalive that the gateway accepts. Failures are detected earlier with it: the Python
/// SDK detects a lost WebSocket only 5 s after the keepalive.
pub(crate) const KEEPALIVE_MS: u32 = 1000;
/// With the 5 s keepalive of the gateway, an SDK reports a stalled connection after 7 s without
/// data.
const IDLE: Duration = Duration::from_millis(8500);

/// Values arrive unmodified and in order, repeated values as unchanged.
fn raw_live(case: &Case<'_>) -> Result<()> {
    const VALUES: [&str; 9] = [
        "plain",
        "plain",
        "|%#$^",
        "^P[1]|$|#",
        "one,two",
        "line one\r\nline two\n\ttab",
        "\u{1F355} \u{00FC}\u{4E16} a\u{0308} + &=",
        "",
        "",
    ];
    let client = case.client(vec![case.raw(&["a", "b"])])?;
    client.status(STREAMING)?;
    client.subscribed(&[0])?;
    for value in VALUES {
        case.send("a", Some(value))?;
        case.send("b", Some(&format!("b {value}")))?;
    }
    case.flush()?;
    let updates = client.updates(2 * VALUES.len())?;
    for (number, pair) in updates.chunks(2).enumerate() {
        let same = number > 0 && VALUES[number] == VALUES[number - 1];
        let changed: &[&str] = match (number, same) {
            (0, _) => &["key", "value"],
            (_, true) => &[],
            (_, false) => &["value"],
        };
        let expected = [
            ("a", VALUES[number].to_owned()),
            ("b", format!("b {}", VALUES[number])),
        ];
        for (place, (update, (name, value))) in pair.iter().zip(expected).enumerate() {
            ensure!(
                update.item == case.item(name)
                    && update.pos == place + 1
                    && update.value("key") == Some(&case.key(name))
                    && update.value("value") == Some(&value)
                    && update.changed == changed
                    && !update.snapshot,
                "number {number} of {name}, wanted {value:?} with {changed:?} changed: {update:?}"
            );
        }
    }
    // No updates remain in between.
    case.produce("b", "end")?;
    client.value(0, "end")
}

/// A missing key and a missing value are null, an empty one is empty.
fn raw_nulls(case: &Case<'_>) -> Result<()> {
    const RECORDS: [(Option<&str>, Option<&str>); 6] = [
        (None, Some("no key")),
        (Some("key"), None),
        (Some("key"), Some("")),
        (Some(""), None),
        (None, None),
        (Some("key"), Some("value")),
    ];
    let whole = Subscription {
        data_adapter: "Whole".to_owned(),
        items: vec!["whole".to_owned()],
        ..case.raw(&[])
    };
    let client = case.client(vec![whole, case.raw(&["a"])])?;
    client.subscribed(&[0, 1])?;
    for (key, value) in RECORDS {
        case.send_whole(key, value)?;
    }
    case.flush()?;
    for (update, (key, value)) in client.updates(RECORDS.len())?.iter().zip(RECORDS) {
        ensure!(
            update.value("key") == key && update.value("value") == value,
            "wanted {key:?} and {value:?}: {update:?}"
        );
    }
    case.send("a", None)?;
    case.flush()?;
    let update = &client.updates(1)?[0];
    ensure!(
        update.sub == 1 && update.value("value").is_none(),
        "wanted a null value: {update:?}"
    );
    Ok(())
}

/// Many records at the same time arrive once and in order.
fn raw_many(case: &Case<'_>) -> Result<()> {
    const RECORDS: usize = 2000;
    let client = case.client(vec![case.raw(&["a"])])?;
    client.subscribed(&[0])?;
    for number in 0..RECORDS {
        case.send("a", Some(&number.to_string()))?;
    }
    case.flush()?;
    for (number, update) in client.updates(RECORDS)?.iter().enumerate() {
        ensure!(
            update.value("value") == Some(&number.to_string()),
            "wanted {number}: {update:?}"
        );
    }
    Ok(())
}

/// An ended subscription receives no updates; another one continues.
fn unsubscribe(case: &Case<'_>) -> Result<()> {
    let mut client = case.client(vec![case.raw(&["a"]), case.raw(&["b"])])?;
    client.subscribed(&[0, 1])?;
    case.produce("a", "before")?;
    client.value(0, "before")?;
    client.unsubscribe(0)?;
    client.unsubscribed()?;
    case.produce("a", "after")?;
    case.produce("b", "fence")?;
    client.value(1, "fence")
}

/// Two subscriptions to two adapters, sent in one batch: each receives its own updates.
fn two_subscriptions(case: &Case<'_>) -> Result<()> {
    let narrow = Subscription {
        fields: vec!["value"],
        ..case.raw(&["b"])
    };
    let client = case.client(vec![case.raw(&["a", "b"]), narrow])?;
    client.subscribed(&[0, 1])?;
    case.produce("a", "for one")?;
    client.value(0, "for one")?;
    case.produce("b", "for both")?;
    let mut subs = Vec::new();
    for update in client.updates(2)? {
        ensure!(update.value("value") == Some("for both"), "{update:?}");
        subs.push((update.sub, update.pos, update.values.len()));
    }
    subs.sort_unstable();
    ensure!(
        subs == [(0, 2, 2), (1, 1, 1)],
        "subscription, place, fields: {subs:?}"
    );
    Ok(())
}

/// An unknown adapter set yields code 2, and the SDK does not retry.
fn unknown_adapter_set(case: &Case<'_>) -> Result<()> {
    let subscriptions = vec![case.raw(&["a"])];
    let client = case.client_of(DriverConfig {
        adapter_set: "Unknown",
        ..DriverConfig::new(case.shared().address(), subscriptions)
    })?;
    let code = client.server_error()?;
    ensure!(code == 2, "code {code}, wanted 2");
    Ok(())
}

/// An unknown data adapter yields code 17 for this subscription only.
fn unknown_data_adapter(case: &Case<'_>) -> Result<()> {
    let unknown = Subscription {
        data_adapter: "Unknown".to_owned(),
        ..case.raw(&["a"])
    };
    refused(case, unknown, 17)
}

/// An invalid item name yields code 21 for this subscription only.
fn bad_item(case: &Case<'_>) -> Result<()> {
    let bad = Subscription {
        items: vec!["ltest-[key=".to_owned()],
        ..case.raw(&[])
    };
    refused(case, bad, 21)
}

fn refused(case: &Case<'_>, subscription: Subscription, wanted: i32) -> Result<()> {
    let client = case.client(vec![subscription])?;
    let code = client.subscription_error(0)?;
    ensure!(code == wanted, "code {code}, wanted {wanted}");
    Ok(())
}

/// An item that no record can match is refused; others are not affected.
fn unmatched_item(case: &Case<'_>) -> Result<()> {
    let unknown = Subscription {
        items: vec!["elsewhere-[key=a]".to_owned()],
        ..case.raw(&[])
    };
    refused_in_batch(case, unknown, 21)
}

/// A field that is not mapped is refused; others are not affected.
fn unmapped_field(case: &Case<'_>) -> Result<()> {
    let misspelt = Subscription {
        fields: vec!["value", "valeu"],
        ..case.raw(&["a"])
    };
    refused_in_batch(case, misspelt, 23)
}

/// One subscription of a batch is refused; the other one continues.
fn refused_in_batch(case: &Case<'_>, bad: Subscription, wanted: i32) -> Result<()> {
    let mut client = case.client(vec![bad])?;
    let code = client.subscription_error(0)?;
    ensure!(code == wanted, "code {code}, wanted {wanted}");
    client.subscribe(&case.raw(&["a"]))?;
    client.subscribed(&[1])?;
    case.produce("a", "one")?;
    client.value(1, "one")
}

/// A graceful shutdown of the gateway: the SDK reconnects and subscribes again.
fn restart_drain(case: &Case<'_>) -> Result<()> {
    let gateway = case.gateway(any_port())?;
    let address = gateway.address();
    let client = case.client_of(DriverConfig::new(address, vec![case.raw(&["a"])]))?;
    client.subscribed(&[0])?;
    case.produce("a", "before")?;
    client.value(0, "before")?;
    let status = gateway.terminate()?;
    ensure!(status.success(), "after SIGTERM: {status}");
    let _gateway = case.gateway(address)?;
    let statuses = client.fresh_session()?;
    ensure!(
        statuses.iter().any(|s| s == RETRY) && !statuses.iter().any(|s| s == RECOVERY),
        "END,48 asks for a new session without recovery: {statuses:?}"
    );
    case.produce("a", "after")?;
    client.value(0, "after")
}

/// The gateway is killed: the SDK tries to recover, its session does not exist, it creates a new
/// one.
fn killed(case: &Case<'_>) -> Result<()> {
    let gateway = case.gateway(any_port())?;
    let address = gateway.address();
    let client = case.client_of(DriverConfig {
        keepalive_ms: Some(KEEPALIVE_MS),
        ..DriverConfig::new(address, vec![case.raw(&["a"])])
    })?;
    client.subscribed(&[0])?;
    gateway.kill()?;
    let _gateway = case.gateway(address)?;
    recovers(case, &client)
}

fn recovers(case: &Case<'_>, client: &super::driver::Driver) -> Result<()> {
    let statuses = client.fresh_session()?;
    ensure!(
        statuses.iter().any(|s| s == RECOVERY),
        "no recovery was tried: {statuses:?}"
    );
    case.produce("a", "after")?;
    client.value(0, "after")
}

/// A connection without updates is kept alive, without status changes in the SDK.
fn idle_probe(case: &Case<'_>) -> Result<()> {
    let client = case.client(vec![case.raw(&["a"])])?;
    client.status(STREAMING)?;
    client.subscribed(&[0])?;
    client.nothing_for(IDLE)?;
    case.produce("a", "awake")?;
    client.value(0, "awake")
}

/// A client that disconnects cleanly leaves no session in the gateway.
fn sdk_disconnect(case: &Case<'_>) -> Result<()> {
    let gateway = case.gateway(any_port())?;
    let mut client =
        case.client_of(DriverConfig::new(gateway.address(), vec![case.raw(&["a"])]))?;
    client.subscribed(&[0])?;
    gateway.wait_metric("weir_gateway_sessions", 1)?;
    gateway.wait_metric("weir_gateway_routed_items", 1)?;
    client.disconnect()?;
    client.status(DISCONNECTED)?;
    client.unsubscribed()?;
    gateway.wait_metric("weir_gateway_sessions", 0)?;
    gateway.wait_metric("weir_gateway_connections", 0)?;
    gateway.wait_metric("weir_gateway_routed_items", 0)
}
