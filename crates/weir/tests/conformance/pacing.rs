//! Cases about limits requested by clients: frequency of a subscription, bandwidth of a session.

use anyhow::{Result, ensure};

use super::driver::Driver;
use super::events::{DriverConfig, SdkEvent, Subscription, Update};
use super::modes::in_mode;
use super::test_env::{Case, any_port};

/// Number of records written faster than the frequency limits allow.
const RECORDS: usize = 200;

/// A frequency limit conflates updates and can be changed while subscribed; the last value is
/// current.
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

/// The same with a bandwidth limit of the session.
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

/// A buffer of three delivers the last three updates of an item, an unlimited buffer all.
pub(crate) fn buffer_size(case: &Case<'_>) -> Result<()> {
    const KEPT: usize = 3;
    let limited = |buffer| Subscription {
        max_frequency: Some("0.1"),
        buffer: Some(buffer),
        ..in_mode(case, "DISTINCT", "a")
    };
    let subscriptions = vec![limited("3"), limited("unlimited"), case.raw(&["a"])];
    let mut client = case.client(subscriptions)?;
    client.subscribed(&[0, 1, 2])?;
    send(case, "")?;
    let mut numbers = [const { Vec::new() }; 3];
    // The client without limits shows that the gateway has read all records.
    while numbers[2].len() < RECORDS {
        note(&client, &mut numbers)?;
    }
    client.frequency(0, "unlimited")?;
    client.frequency(1, "unlimited")?;
    while numbers[0].last() != Some(&RECORDS) || numbers[1].len() < RECORDS {
        note(&client, &mut numbers)?;
    }
    let all: Vec<usize> = (1..=RECORDS).collect();
    ensure!(numbers[1] == all && numbers[2] == all, "{numbers:?}");
    let few = &numbers[0];
    ensure!(
        few.ends_with(&all[RECORDS - KEPT..]) && few.len() < RECORDS && few.is_sorted(),
        "{few:?}"
    );
    Ok(())
}

/// Records one update of a subscription whose values start with numbers.
fn note(client: &Driver, numbers: &mut [Vec<usize>]) -> Result<()> {
    let update = &client.updates(1)?[0];
    numbers[update.sub].push(number(update)?);
    Ok(())
}

fn number(update: &Update) -> Result<usize> {
    let value = update.value("value").unwrap_or_default();
    let digits = value.trim_end_matches('x');
    Ok(digits.parse()?)
}

/// A lagging client of unfiltered updates receives the number and position of lost updates.
pub(crate) fn overflow(case: &Case<'_>) -> Result<()> {
    let gateway = case.gateway_with(any_port(), "[limits]\nqueue_bytes = 16384\n")?;
    let unfiltered = |mode| Subscription {
        max_frequency: Some("unfiltered"),
        ..in_mode(case, mode, "a")
    };
    let subscriptions = vec![
        case.raw(&["a"]),
        unfiltered("MERGE"),
        unfiltered("DISTINCT"),
    ];
    let config = DriverConfig::new(gateway.address(), subscriptions);
    let mut client = case.client_of(config.option("RequestedMaxBandwidth", "1"))?;
    client.subscribed(&[0, 1, 2])?;
    send(case, &"x".repeat(500))?;
    gateway.wait_counted("weir_gateway_updates_lost_total")?;
    client.option("RequestedMaxBandwidth", "unlimited")?;
    let (mut last, mut lost) = ([0; 3], [0; 3]);
    while last
        .iter()
        .zip(&lost)
        .any(|(last, lost)| last + lost < RECORDS)
    {
        let (sub, found) = client.wait("update or loss", |event| match event {
            SdkEvent::Update(update) => Some((update.sub, Ok(number(update)))),
            SdkEvent::Lost { sub, n, .. } => Some((*sub, Err(*n))),
            _ => None,
        })?;
        match found {
            Ok(number) => {
                let wanted = last[sub] + lost[sub] + 1;
                let number = number?;
                ensure!(number == wanted, "{number} of {sub}, wanted {wanted}");
                (last[sub], lost[sub]) = (number, 0);
            }
            Err(n) => lost[sub] += n,
        }
    }
    // They receive all updates again.
    case.produce("a", "9999")?;
    for update in client.updates(3)? {
        ensure!(number(&update)? == 9999, "{update:?}");
    }
    Ok(())
}

/// Writes numbered records without pause.
fn send(case: &Case<'_>, end: &str) -> Result<()> {
    for number in 1..=RECORDS {
        case.send("a", Some(&format!("{number}{end}")))?;
    }
    case.flush()
}

/// Writes many records and waits for the last one: fewer updates arrive, in order.
fn burst(case: &Case<'_>, client: &Driver) -> Result<()> {
    send(case, "")?;
    let (mut last, mut updates) = (0, 0);
    while last < RECORDS {
        let update = &client.updates(1)?[0];
        let number = number(update)?;
        ensure!(number > last, "after {last}: {update:?}");
        last = number;
        updates += 1;
    }
    ensure!(updates < RECORDS, "the limit merged nothing");
    Ok(())
}

/// Without a limit, every record is sent immediately.
fn live(case: &Case<'_>, client: &Driver) -> Result<()> {
    for value in ["one", "two", "three"] {
        case.produce("a", value)?;
        client.value(0, value)?;
    }
    Ok(())
}

fn real_frequency(client: &Driver, wanted: &str) -> Result<()> {
    let real = client.wait("frequency", |event| match event {
        SdkEvent::RealMaxFrequency { sub: 0, value } => Some(value.clone()),
        _ => None,
    })?;
    same("frequency", real, wanted)
}

fn real_bandwidth(client: &Driver, wanted: &str) -> Result<()> {
    let real = client.wait("bandwidth", |event| match event {
        SdkEvent::RealMaxBandwidth { value } => Some(value.clone()),
        _ => None,
    })?;
    same("bandwidth", real, wanted)
}

/// Returns `true` for the same word or the same number.
fn same(what: &str, real: Option<String>, wanted: &str) -> Result<()> {
    let real = real.unwrap_or_default();
    let equal = match (real.parse::<f64>(), wanted.parse::<f64>()) {
        (Ok(real), Ok(wanted)) => (real - wanted).abs() < 1e-6,
        _ => real == wanted,
    };
    ensure!(equal, "{what} {real}, wanted {wanted}");
    Ok(())
}
