//! Checks of round trips, constant rates and flushes.

use serde_json::json;

use super::cluster::{Pair, Stored, key, value};
use super::outcome::{CheckFailure, CheckResult, require};
use super::records::delivered;
use super::session::{CheckSession, burst, end_of};
use crate::{ProduceCommand, ProducerState, RoundTrip, RoundTripped, Steady, SteadyDone, TopicEnd};

pub(super) fn burst_roundtrip(session: &mut CheckSession<'_>) -> CheckResult {
    session.need("roundtrip.burst")?;
    let request = RoundTrip {
        burst: burst(&session.topic("burst")?, 100, 300, 9),
        rate: 0.0,
    };
    returned(session, &request).map(|_| ())
}

pub(super) fn open_roundtrip(session: &mut CheckSession<'_>) -> CheckResult {
    session.need("roundtrip.open")?;
    let request = RoundTrip {
        burst: burst(&session.topic("open")?, 10, 101, 9),
        rate: 200.0,
    };
    let (response, due) = returned(session, &request)?;
    // The last record is due half a second after the first; records are never sent early.
    let sending_ns = response.marks.t1.saturating_sub(response.marks.t0);
    require!(
        sending_ns >= 500_000_000,
        "at least 500 ms from t0 to t1 for 101 records at 200/s",
        "{} ms",
        sending_ns / 1_000_000
    );
    for (place, due_ns) in (0_i64..).zip(&due) {
        let expected = due[0] + place * 5_000_000;
        require!(
            (due_ns - expected).abs() <= 1000,
            format!("key of record {place}: its due time {expected}"),
            "{due_ns}"
        );
    }
    Ok(())
}

/// Executes a round trip. Returns its response, and the keys of the records.
fn returned(
    session: &mut CheckSession<'_>,
    request: &RoundTrip,
) -> CheckResult<(RoundTripped, Vec<i64>)> {
    let (response, count) = (session.run_configured(request)?, request.burst.count);
    delivered(count, &response.delivered)?;
    require!(
        (response.got, response.latency.count) == (count, count),
        format!("got {count}, and as many latencies"),
        "got {}, {} latencies",
        response.got,
        response.latency.count
    );
    let found = session.cluster.read(&request.burst.topic)?;
    let is_primed = found.first().is_some_and(Stored::is_primer);
    let records = found.get(1..).unwrap_or_default();
    require!(
        is_primed && records.len() as u64 == count,
        format!("a primer and {count} records in the topic"),
        "{} records, the first {} a primer",
        found.len(),
        if is_primed { "is" } else { "is not" }
    );
    let len = usize::try_from(request.burst.len).unwrap_or(0);
    let expected = value(request.burst.seed, len);
    let mut values = records.iter().map(|record| record.value.as_ref());
    require!(
        values.all(|value| value == Some(&expected)),
        "the value of the seed in every record",
        "another value"
    );
    let due: Vec<i64> = records.iter().filter_map(Stored::number).collect();
    require!(
        due.len() == records.len() && due.is_sorted() && due[0] >= 0,
        "times of the driver's clock as keys, ascending",
        "other keys: {:?}",
        &due[..due.len().min(5)]
    );
    Ok((response, due))
}

pub(super) fn steady_produce(session: &mut CheckSession<'_>) -> CheckResult {
    session.need("steady.produce")?;
    let topic = session.topic("steady")?;
    let (done, seconds) = steady(session, &topic, TopicEnd::Produce)?;
    require!(
        (done.records, done.bytes, done.failed, seconds) == (300, 300 * 28, 0, 2),
        "300 records, 8400 bytes, 0 failed, 2 seconds",
        "{} records, {} bytes, {} failed, {seconds} seconds",
        done.records,
        done.bytes,
        done.failed
    );
    let found = session.cluster.read(&topic)?;
    let primers = found.iter().filter(|record| record.is_primer()).count();
    require!(
        found.len() == 301 && primers == 1 && found[0].is_primer(),
        "a primer and 300 records in the topic",
        "{} records, {primers} of them primers",
        found.len()
    );
    Ok(())
}

pub(super) fn steady_consume(session: &mut CheckSession<'_>) -> CheckResult {
    session.need("steady.consume")?;
    let topic = session.topic("steady-read")?;
    let record = |ordinal| (key(ordinal), Some(value(2, 20)));
    let primer = (key(-1), Some(vec![0]));
    let records: Vec<Pair> = [primer].into_iter().chain((0..300).map(record)).collect();
    session.cluster.write(&topic, &records)?;
    let (done, seconds) = steady(session, &topic, TopicEnd::Consume)?;
    require!(
        (done.records, done.bytes, seconds) == (300, 300 * 28, 2),
        "300 records without the primer, 8400 bytes, 2 seconds",
        "{} records, {} bytes, {seconds} seconds",
        done.records,
        done.bytes
    );
    Ok(())
}

fn steady(
    session: &mut CheckSession<'_>,
    topic: &str,
    role: TopicEnd,
) -> CheckResult<(SteadyDone, u32)> {
    let request = Steady {
        topic: topic.to_owned(),
        len: 20,
        seed: 2,
        role,
        rate: 150.0,
        seconds: 2,
    };
    let (limit, mut seconds) = (session.limit(), 0);
    let driver = session.driver()?;
    let done = driver.run_with(&request, limit, &mut |_| seconds += 1);
    let done = done.map_err(|error| end_of("a valid response to steady", &error))?;
    Ok((done, seconds))
}

/// A burst ends long before the linger of its batches: flushing sends them.
pub(super) fn flush(session: &mut CheckSession<'_>) -> CheckResult {
    session.need("produce.warm")?;
    if session.driver()?.hello().library == FLUSH_LINGERS {
        let reason = format!("the flush of {FLUSH_LINGERS} does not end the linger");
        return Err(CheckFailure::Skipped(reason));
    }
    let mut request = session.configure();
    let linger = "linger_ms".to_owned();
    request.settings.insert(linger.clone(), json!(60_000));
    let configured = session.reconfigure(&request)?;
    let configured =
        configured.map_err(|error| end_of("a valid response to linger_ms 60000", &error))?;
    if configured.unsupported.contains(&linger) {
        return Err(CheckFailure::Skipped("linger_ms is unsupported".to_owned()));
    }
    let request = ProduceCommand {
        burst: burst(&session.topic("flush")?, 10, 3, 1),
        state: ProducerState::Warm,
        per_record: false,
    };
    let response = session.run(&request)?;
    delivered(3, &response.delivered)
}

/// Library whose flush waits as long as batches do (decision 0038).
const FLUSH_LINGERS: &str = "aiokafka";
