//! Cases about the guarantees of each mode, also across restarts of gateway and broker.

use anyhow::{Result, ensure};

use super::driver::Driver;
use super::events::{DriverConfig, Subscription, Update};
use super::test_env::{Case, any_port};

/// Successive values of one key: repeated, empty, null, non-Latin, and with special characters of
/// the protocol.
pub(crate) const VALUES: [Option<&str>; 13] = [
    Some("plain"),
    Some("plain"),
    Some("|%#$^"),
    Some(""),
    Some(""),
    None,
    None,
    Some("#"),
    Some("^3"),
    Some("\u{65E5}\u{672C}\u{8A9E} \u{0639}\u{0631}\u{0628}\u{064A} \u{0395}\u{03BB}"),
    Some("\u{1F355}|\u{1F355}"),
    Some("one,two\r\nthree"),
    Some("end"),
];

pub(crate) fn in_mode(case: &Case<'_>, mode: &'static str, name: &str) -> Subscription {
    Subscription {
        mode,
        snapshot: (mode != "RAW").then_some("yes"),
        ..case.raw(&[name])
    }
}

fn changed(update: &Update) -> bool {
    !update.changed.is_empty()
}

/// Only the first update is a snapshot; repeated values are not sent, all others are exact.
pub(crate) fn merge_live(case: &Case<'_>) -> Result<()> {
    let client = case.client(vec![in_mode(case, "MERGE", "a")])?;
    client.subscribed(&[0])?;
    let mut last = None;
    for (number, value) in VALUES.into_iter().enumerate() {
        case.send("a", value)?;
        case.flush()?;
        if last == Some(value) {
            continue;
        }
        let update = &client.updates(1)?[0];
        ensure!(
            update.value("value") == value
                && update.value("key") == Some(&case.key("a"))
                && update.snapshot == (number == 0)
                && changed(update),
            "number {number}, wanted {value:?}: {update:?}"
        );
        last = Some(value);
    }
    Ok(())
}

/// A later subscriber first receives the current values, then the same updates as all others.
pub(crate) fn merge_snapshot(case: &Case<'_>) -> Result<()> {
    let mut client = case.client(vec![in_mode(case, "MERGE", "a")])?;
    client.subscribed(&[0])?;
    case.produce("a", "current")?;
    client.value(0, "current")?;
    client.subscribe(&in_mode(case, "MERGE", "a"))?;
    client.subscribed(&[1])?;
    let snapshot = &client.updates(1)?[0];
    ensure!(
        snapshot.sub == 1 && snapshot.snapshot && snapshot.value("value") == Some("current"),
        "wanted the current value as a snapshot: {snapshot:?}"
    );
    case.produce("a", "next")?;
    let mut subs = Vec::new();
    for update in client.updates(2)? {
        ensure!(
            !update.snapshot && update.value("value") == Some("next"),
            "{update:?}"
        );
        subs.push(update.sub);
    }
    subs.sort_unstable();
    ensure!(subs == [0, 1], "one update each: {subs:?}");
    Ok(())
}

/// A missing key and a missing value are null in mode MERGE too, and an empty one is empty.
pub(crate) fn merge_nulls(case: &Case<'_>) -> Result<()> {
    let whole = Subscription {
        data_adapter: "Whole".to_owned(),
        items: vec!["whole-merge".to_owned()],
        ..in_mode(case, "MERGE", "a")
    };
    let client = case.client(vec![whole])?;
    client.subscribed(&[0])?;
    for (key, value) in [
        (None, Some("v")),
        (Some(""), None),
        (Some("k"), Some("")),
        (None, None),
    ] {
        case.send_to("-merge", key, value)?;
        case.flush()?;
        let update = &client.updates(1)?[0];
        ensure!(
            update.value("key") == key && update.value("value") == value,
            "wanted {key:?} and {value:?}: {update:?}"
        );
    }
    Ok(())
}

/// Every update arrives, including repeated ones. The snapshot of the list is empty.
pub(crate) fn distinct_live(case: &Case<'_>) -> Result<()> {
    let client = case.client(vec![in_mode(case, "DISTINCT", "a")])?;
    client.subscribed(&[0])?;
    for value in VALUES {
        case.send("a", value)?;
    }
    case.flush()?;
    let updates = client.updates(VALUES.len())?;
    for (number, (update, value)) in updates.iter().zip(VALUES).enumerate() {
        let repeated = number > 0 && VALUES[number - 1] == value;
        ensure!(
            update.value("value") == value && !update.snapshot && changed(update) != repeated,
            "number {number}, wanted {value:?}: {update:?}"
        );
    }
    Ok(())
}

/// Index of the MERGE subscription in [`all_modes`].
pub(crate) const MERGE: usize = 1;

/// One subscription in each mode.
pub(crate) fn all_modes(case: &Case<'_>) -> Vec<Subscription> {
    let modes = ["RAW", "MERGE", "DISTINCT"];
    modes.map(|mode| in_mode(case, mode, "a")).to_vec()
}

/// One value for all clients.
fn to_all(client: &Driver, value: &str) -> Result<()> {
    let mut subs = Vec::new();
    for update in client.updates(3)? {
        ensure!(
            update.value("value") == Some(value),
            "wanted {value}: {update:?}"
        );
        subs.push(update.sub);
    }
    subs.sort_unstable();
    ensure!(subs == [0, 1, 2], "one update each: {subs:?}");
    Ok(())
}

/// Subscriptions in all three modes recover when another gateway replaces the first.
pub(crate) fn gateway_restart(case: &Case<'_>) -> Result<()> {
    let gateway = case.gateway(any_port())?;
    let address = gateway.address();
    let client = case.client_of(DriverConfig::new(address, all_modes(case)))?;
    client.subscribed(&[0, 1, 2])?;
    case.produce("a", "before")?;
    to_all(&client, "before")?;
    let status = gateway.terminate()?;
    ensure!(status.success(), "after SIGTERM: {status}");
    let _gateway = case.gateway(address)?;
    client.resubscribed(&[0, 1, 2])?;
    case.produce("a", "after")?;
    to_all(&client, "after")
}

/// A restart of the broker: no records are missing, and clients report nothing else.
pub(crate) fn broker_restart(case: &Case<'_>) -> Result<()> {
    let (seat, bootstrap) = case.restarts().join()?;
    let env = case.env_at(&bootstrap)?;
    let case = env.case("restarted")?;
    let client = case.client(all_modes(&case))?;
    client.subscribed(&[0, 1, 2])?;
    case.produce("a", "before")?;
    to_all(&client, "before")?;
    seat.restart()?;
    case.produce("a", "after")?;
    to_all(&client, "after")
}

/// Two gateways with one configuration: each delivers everything in each mode.
pub(crate) fn two_gateways(case: &Case<'_>) -> Result<()> {
    const RECORDS: usize = 200;
    let gateways = [case.gateway(any_port())?, case.gateway(any_port())?];
    let mut clients = Vec::new();
    for gateway in &gateways {
        let client = case.client_of(DriverConfig::new(gateway.address(), all_modes(case)))?;
        client.subscribed(&[0, 1, 2])?;
        clients.push(client);
    }
    for number in 0..RECORDS {
        case.send("a", Some(&number.to_string()))?;
    }
    case.flush()?;
    for client in &clients {
        let mut next = [0; 3];
        // Clients that are not lagging receive every value in mode MERGE, too.
        for update in client.updates(3 * RECORDS)? {
            let wanted = next[update.sub].to_string();
            ensure!(
                update.value("value") == Some(&wanted),
                "wanted {wanted}: {update:?}"
            );
            next[update.sub] += 1;
        }
        ensure!(next == [RECORDS; 3], "{next:?}");
    }
    Ok(())
}
