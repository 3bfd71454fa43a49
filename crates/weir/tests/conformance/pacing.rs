//! Cases about how much a client wants: frequency of a subscription, bandwidth of a session.

use anyhow::{Result, ensure};

use super::driver::Driver;
use super::events::{DriverConfig, Event, Subscription};
use super::modes::in_mode;
use super::world::Case;

/// Records written faster than anybody wants them.
const RECORDS: usize = 200;

/// A limit merges what comes meanwhile, and can be changed while subscribed; nothing is stale.
pub(crate) fn frequency(case: &Case<'_>) -> Result<()> {
    let limited = Subscription {
        max_frequency: Some("0.5"),
        ..in_mode(case, "MERGE", "a")
    };
    let mut client = case.client(vec![limited])?;
    client.subscribed(&[0])?;
    real_frequency(&client, "0.5")?;
    burst(case, &client)?;
    client.frequency(0, "unlimited")?;
    real_frequency(&client, "unlimited")?;
    live(case, &client)?;
    client.frequency(0, "2.5")?;
    real_frequency(&client, "2.5")?;
    burst(case, &client)
}

/// The same for all that a session gets.
pub(crate) fn bandwidth(case: &Case<'_>) -> Result<()> {
    let subscriptions = vec![in_mode(case, "MERGE", "a")];
    let config = DriverConfig::new(case.shared().address(), subscriptions);
    let mut client = case.client_of(config.option("RequestedMaxBandwidth", "4"))?;
    real_bandwidth(&client, "4")?;
    client.subscribed(&[0])?;
    burst(case, &client)?;
    client.option("RequestedMaxBandwidth", "unlimited")?;
    real_bandwidth(&client, "unlimited")?;
    live(case, &client)
}

/// Writes many records at once and waits for the last: fewer come, and none older than one before.
fn burst(case: &Case<'_>, client: &Driver) -> Result<()> {
    for number in 1..=RECORDS {
        case.send("a", Some(&number.to_string()))?;
    }
    case.flush()?;
    let (mut last, mut updates) = (0, 0);
    while last < RECORDS {
        let update = &client.updates(1)?[0];
        let number: usize = update.value("value").unwrap_or_default().parse()?;
        ensure!(number > last, "after {last}: {update:?}");
        last = number;
        updates += 1;
    }
    ensure!(updates < RECORDS, "the limit merged nothing");
    Ok(())
}

/// Without a limit every record comes at once.
fn live(case: &Case<'_>, client: &Driver) -> Result<()> {
    for value in ["one", "two", "three"] {
        case.produce("a", value)?;
        client.value(0, value)?;
    }
    Ok(())
}

fn real_frequency(client: &Driver, wanted: &str) -> Result<()> {
    let real = client.wait("frequency", |event| match event {
        Event::RealMaxFrequency { sub: 0, value } => Some(value.clone()),
        _ => None,
    })?;
    same("frequency", real, wanted)
}

fn real_bandwidth(client: &Driver, wanted: &str) -> Result<()> {
    let real = client.wait("bandwidth", |event| match event {
        Event::RealMaxBandwidth { value } => Some(value.clone()),
        _ => None,
    })?;
    same("bandwidth", real, wanted)
}

/// The same word, or the same number.
fn same(what: &str, real: Option<String>, wanted: &str) -> Result<()> {
    let real = real.unwrap_or_default();
    let equal = match (real.parse::<f64>(), wanted.parse::<f64>()) {
        (Ok(real), Ok(wanted)) => (real - wanted).abs() < 1e-6,
        _ => real == wanted,
    };
    ensure!(equal, "{what} {real}, wanted {wanted}");
    Ok(())
}
