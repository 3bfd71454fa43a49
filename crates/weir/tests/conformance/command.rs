//! Cases about mode COMMAND: tables of rows by key.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use super::cases::{KEEPALIVE_MS, RECOVERY};
use super::driver::Driver;
use super::events::{DriverConfig, SdkEvent, SecondLevel, Subscription, Update};
use super::modes::in_mode;
use super::proxy::Proxy;
use super::test_env::Case;

/// Records with a command for a row, as `(key, command, value)`.
const COMMANDS: &str = "-commands";
/// Records that are rows.
const ROWS: &str = "-rows";

fn commands(case: &Case<'_>) -> Subscription {
    Subscription {
        data_adapter: "Commands".to_owned(),
        mode: "COMMAND",
        items: vec![format!("table-[name={}]", case.key("t"))],
        fields: vec!["key", "command", "value"],
        snapshot: Some("yes"),
        ..case.raw(&[])
    }
}

fn rows(case: &Case<'_>) -> Subscription {
    Subscription {
        data_adapter: "Rows".to_owned(),
        items: vec![format!("rows-[name={}]", case.key("t"))],
        ..commands(case)
    }
}

/// Sends one record of the table of [`commands`].
fn send(case: &Case<'_>, key: &str, command: &str, value: Option<&str>) -> Result<()> {
    let row = serde_json::json!({ "key": key, "command": command, "value": value });
    case.send_to(COMMANDS, Some(&case.key("t")), Some(&row.to_string()))
}

/// Sends one record of the table of [`rows`]. Without a value, the row is deleted.
fn send_row(case: &Case<'_>, row: &str, value: Option<&str>) -> Result<()> {
    let key = serde_json::json!({ "table": case.key("t"), "row": row });
    case.send_to(ROWS, Some(&key.to_string()), value)
}

fn wait_end_of_snapshot(client: &Driver, wanted: usize) -> Result<()> {
    client.wait("end of the snapshot", |event| {
        matches!(event, SdkEvent::EndOfSnapshot { sub, .. } if *sub == wanted).then_some(())
    })
}

/// Waits for updates of one subscription and returns key, command, value and snapshot flag of each.
fn expect(
    client: &Driver,
    sub: usize,
    snapshot: bool,
    wanted: &[(&str, &str, Option<&str>)],
) -> Result<()> {
    let updates = client.updates(wanted.len())?;
    for (update, wanted) in updates.iter().zip(wanted) {
        ensure!(
            update.sub == sub && row(update) == *wanted && update.snapshot == snapshot,
            "wanted {wanted:?}, snapshot {snapshot}: {update:?}"
        );
    }
    Ok(())
}

/// The expected update of a key.
fn row(update: &Update) -> (&str, &str, Option<&str>) {
    let text = |field| update.value(field).unwrap_or_default();
    (text("key"), text("command"), update.value("value"))
}

/// Snapshot, changes, the snapshot of a later client, and clearing of the table.
pub(crate) fn live(case: &Case<'_>) -> Result<()> {
    let mut client = case.extended_client(vec![commands(case)])?;
    client.subscribed(&[0])?;
    send(case, "one", "ADD", Some("1"))?;
    send(case, "two", "ADD", Some("2"))?;
    case.flush()?;
    let added = [("one", "ADD", Some("1")), ("two", "ADD", Some("2"))];
    expect(&client, 0, true, &added)?;
    send(case, "snapshot", "EOS", None)?;
    case.flush()?;
    wait_end_of_snapshot(&client, 0)?;

    for (key, command, value) in [
        ("one", "UPDATE", Some("")),
        ("two", "DELETE", None),
        ("three|", "ADD", Some("#3,\r\n\u{1F355}")),
        ("one", "UPDATE", None),
        ("two", "ADD", Some("again")),
    ] {
        send(case, key, command, value)?;
        case.flush()?;
        expect(&client, 0, false, &[(key, command, value)])?;
    }

    client.subscribe(&commands(case))?;
    client.subscribed(&[1])?;
    let table = [
        ("one", "ADD", None),
        ("three|", "ADD", Some("#3,\r\n\u{1F355}")),
        ("two", "ADD", Some("again")),
    ];
    expect(&client, 1, true, &table)?;
    wait_end_of_snapshot(&client, 1)?;

    send(case, "snapshot", "CS", None)?;
    case.flush()?;
    let mut cleared = Vec::new();
    while cleared.len() < 2 {
        cleared.push(client.wait("cleared table", |event| match event {
            SdkEvent::ClearSnapshot { sub, .. } => Some(*sub),
            _ => None,
        })?);
    }
    cleared.sort_unstable();
    ensure!(cleared == [0, 1], "cleared: {cleared:?}");
    Ok(())
}

/// Values are rows, and tombstones delete them.
pub(crate) fn auto(case: &Case<'_>) -> Result<()> {
    let client = case.extended_client(vec![rows(case)])?;
    client.subscribed(&[0])?;
    wait_end_of_snapshot(&client, 0)?;
    for (key, value, command) in [
        ("one", Some("1"), "ADD"),
        ("one", Some("2"), "UPDATE"),
        ("two", Some(""), "ADD"),
        ("one", None, "DELETE"),
        ("one", Some("3"), "ADD"),
    ] {
        send_row(case, key, value)?;
        case.flush()?;
        expect(&client, 0, false, &[(key, command, value)])?;
    }
    Ok(())
}

/// A table in another mode yields code 24.
pub(crate) fn mode_refused(case: &Case<'_>) -> Result<()> {
    let merge = Subscription {
        mode: "MERGE",
        ..rows(case)
    };
    let client = case.extended_client(vec![merge])?;
    let code = client.subscription_error(0)?;
    ensure!(code == 24, "code {code}, wanted 24");
    Ok(())
}

/// Each key is a separate item, to which the SDK subscribes in mode MERGE.
pub(crate) fn two_levels(case: &Case<'_>) -> Result<()> {
    let table = Subscription {
        fields: vec!["key", "command"],
        second_level: Some(SecondLevel {
            data_adapter: "Texts".to_owned(),
            fields: vec!["value"],
        }),
        ..rows(case)
    };
    let client = case.extended_client(vec![table])?;
    client.subscribed(&[0])?;
    let (a, b) = (case.item("a"), case.item("b"));
    let wanted = |update: &Update, key: &str, value: Option<&str>| {
        ensure!(
            update.value("key") == Some(key) && update.value("value") == value,
            "wanted {key} with {value:?}: {update:?}"
        );
        Ok(())
    };
    for item in [&a, &b] {
        send_row(case, item, Some(""))?;
        case.flush()?;
        wanted(&client.updates(1)?[0], item, None)?;
    }
    // Until the SDK has subscribed to an item, only the latest update is stored.
    for (name, item) in [("a", &a), ("b", &b)] {
        let probe = Subscription {
            data_adapter: "Texts".to_owned(),
            ..in_mode(case, "MERGE", name)
        };
        let keeps = case.extended_client(vec![probe])?;
        keeps.subscribed(&[0])?;
        case.produce(name, "value")?;
        wanted(&client.updates(1)?[0], item, Some("value"))?;
    }
    Ok(())
}

/// After a lost connection the client has the correct table.
pub(crate) fn recovery(case: &Case<'_>) -> Result<()> {
    const CHANGES: usize = 400;
    let proxy = Proxy::start(case.extended().address())?;
    let config = DriverConfig {
        keepalive_ms: Some(KEEPALIVE_MS),
        ..DriverConfig::new(proxy.address(), vec![rows(case)])
    };
    let client = case.client_of(config)?;
    client.subscribed(&[0])?;
    let mut wanted = BTreeMap::new();
    for number in 0..CHANGES {
        let key = format!("k{}", number * 7 % 23);
        let value = (number % 5 != 0).then(|| number.to_string());
        send_row(case, &key, value.as_deref())?;
        match value {
            Some(value) => wanted.insert(key, value),
            None => wanted.remove(&key),
        };
        if number == CHANGES / 2 {
            case.flush()?;
            proxy.cut()?;
        }
    }
    send_row(case, "end", Some("end"))?;
    case.flush()?;
    wanted.insert("end".to_owned(), "end".to_owned());
    let mut table = BTreeMap::new();
    let mut recovered = false;
    while !table.contains_key("end") {
        let update = client.wait("a change of the table", |event| match event {
            SdkEvent::Update(update) => Some(update.clone()),
            SdkEvent::Status { status } => {
                recovered |= status == RECOVERY;
                None
            }
            _ => None,
        })?;
        let (key, command, value) = row(&update);
        match command {
            "DELETE" => table.remove(key),
            _ => table.insert(key.to_owned(), value.unwrap_or_default().to_owned()),
        };
    }
    ensure!(recovered, "no recovery was tried");
    ensure!(table == wanted, "{table:?}, wanted {wanted:?}");
    Ok(())
}
