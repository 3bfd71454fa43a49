//! Checks of the records that a driver writes and reads.

use super::cluster::{Pair, Stored, key, value};
use super::outcome::{CheckResult, require};
use super::session::{CheckSession, burst};
use crate::{AssignmentMode, Consume, CopyTopic, Delivered, ProduceCommand, ProducerState, WarmUp};

pub(super) fn warm_up(session: &mut CheckSession<'_>) -> CheckResult {
    let request = WarmUp(burst(&session.topic("warm-up")?, 100, 1000, 3));
    let cost = session.run_configured(&request)?;
    require!(
        cost.produce_cpu_us_per_record > 0.0,
        "produce_cpu_us_per_record above 0",
        "{}",
        cost.produce_cpu_us_per_record
    );
    // Again, with the records of the first one in the topic.
    session.run_configured(&request)?;
    let found = session.cluster.read(&request.0.topic)?;
    let (primers, records): (Vec<Stored>, Vec<Stored>) =
        found.into_iter().partition(Stored::is_primer);
    require!(
        records.len() == 2000 && (1..=2).contains(&primers.len()),
        "2000 records and 1 or 2 primers in the topic after two warm-ups",
        "{} records and {} primers",
        records.len(),
        primers.len()
    );
    Ok(())
}

pub(super) fn produce(session: &mut CheckSession<'_>, state: ProducerState) -> CheckResult {
    let capability = state.capability();
    session.need(capability)?;
    let topic = session.topic(capability)?;
    // The second command uses the same producer; a large value does not fit into a batch with
    // others.
    for (seed, len, count) in [(SEED_MAX, 100, 25), (7, 300_000, 4)] {
        let request = ProduceCommand {
            burst: burst(&topic, len, count, seed),
            state,
            per_record: seed == 7,
        };
        let response = session.run_configured(&request)?;
        delivered(count, &response.delivered)?;
        require!(
            response.cpu_us > 0.0 || state != ProducerState::Cold,
            "cpu_us above 0 with a new producer",
            "cpu_us {}",
            response.cpu_us
        );
    }
    let found = session.cluster.read(&topic)?;
    let expected = (0..25).map(|ordinal| (ordinal, value(SEED_MAX, 100)));
    let expected = expected.chain((0..4).map(|ordinal| (ordinal, value(7, 300_000))));
    stored(found, expected.collect(), state == ProducerState::Warm)
}

/// Checks that all records were acknowledged.
pub(super) fn delivered(count: u64, found: &Delivered) -> CheckResult {
    let reason = found.errors.first().map_or("", String::as_str);
    require!(
        (found.acked, found.failed) == (count, 0),
        format!("acked {count}, failed 0"),
        "acked {}, failed {} {reason}",
        found.acked,
        found.failed
    );
    Ok(())
}

/// Checks the records of a topic: keys, values and primers.
fn stored(found: Vec<Stored>, expected: Vec<(i64, Vec<u8>)>, is_warm: bool) -> CheckResult {
    let offsets = found.iter().map(|record| record.offset);
    require!(
        offsets.eq(0..found.len() as i64),
        "consecutive offsets from 0",
        "other offsets: the driver used transactions, or another partition"
    );
    let starts = found.first().is_some_and(Stored::is_primer);
    let (primers, records): (Vec<Stored>, Vec<Stored>) =
        found.into_iter().partition(Stored::is_primer);
    let primers_max = if is_warm { 2 } else { 0 };
    require!(
        starts == is_warm && primers.len() <= primers_max,
        match is_warm {
            true => "a primer as first record of the topic, and at most one for each command",
            false => "no primer",
        },
        "{} primers, the first record {} a primer",
        primers.len(),
        if starts { "is" } else { "is not" }
    );
    require!(
        records.len() == expected.len(),
        format!("{} records in the topic", expected.len()),
        "{}",
        records.len()
    );
    for (place, (record, (ordinal, value))) in records.iter().zip(expected).enumerate() {
        let (key, size) = (record.number(), record.value.as_ref().map(Vec::len));
        let expected = format!(
            "record {place} with key {ordinal} and {} bytes",
            value.len()
        );
        require!(
            key == Some(ordinal) && size == Some(value.len()),
            expected,
            "key {key:?}, bytes of the value {size:?}"
        );
        require!(
            record.value.as_ref() == Some(&value),
            format!("the value of the seed in record {place}"),
            "another value"
        );
    }
    Ok(())
}

pub(super) fn consume(session: &mut CheckSession<'_>, via: AssignmentMode) -> CheckResult {
    session.need(via.capability())?;
    let topic = session.topic(via.capability())?;
    session.cluster.write(&topic, &with_primers())?;
    let request = Consume {
        burst: burst(&topic, 50, 20, 5),
        via,
        verify: true,
        commit: via == AssignmentMode::Group,
    };
    // A part of the topic, with another seed that is not compared.
    let part = Consume {
        burst: burst(&topic, 50, 7, 6),
        verify: false,
        commit: false,
        ..request.clone()
    };
    for request in [request, part] {
        let (response, count) = (session.run_configured(&request)?, request.burst.count);
        require!(
            (response.got, response.bytes, response.bad) == (count, count * 58, 0),
            format!("got {count}, bytes {}, bad 0", count * 58),
            "got {}, bytes {}, bad {}",
            response.got,
            response.bytes,
            response.bad
        );
    }
    Ok(())
}

/// Returns 20 records of 50 bytes and seed 5, with two primers.
fn with_primers() -> Vec<Pair> {
    let primer = || (key(-1), Some(vec![0]));
    let record = |ordinal| (key(ordinal), Some(value(5, 50)));
    let mut records: Vec<Pair> = vec![primer()];
    records.extend((0..10).map(record));
    records.push(primer());
    records.extend((10..20).map(record));
    records
}

/// Checks a copied topic twice. The second command uses the same producer, and reads one wrong
/// record.
pub(super) fn copy(session: &mut CheckSession<'_>, via: AssignmentMode) -> CheckResult {
    session.need(via.copy_capability())?;
    let mut records = with_primers();
    for bad in [0, 1] {
        let (topic, to) = (session.topic("original")?, session.topic("copy")?);
        session.cluster.write(&topic, &records)?;
        let request = CopyTopic {
            burst: burst(&topic, 50, 20, 5),
            to: to.clone(),
            via,
        };
        let response = session.run_configured(&request)?;
        require!(
            (response.got, response.bytes, response.bad) == (20, 20 * 58, bad),
            format!("got 20, bytes {}, bad {bad}", 20 * 58),
            "got {}, bytes {}, bad {}",
            response.got,
            response.bytes,
            response.bad
        );
        delivered(20, &response.delivered)?;
        let originals = records.iter().filter_map(|(key, value)| {
            let number = i64::from_be_bytes(key.as_deref()?.try_into().ok()?);
            Some((number, value.clone()?)).filter(|_| number >= 0)
        });
        stored(session.cluster.read(&to)?, originals.collect(), true)?;
        // The last record gets another number, which is copied as it is.
        if let Some((last, _)) = records.last_mut() {
            *last = key(99);
        }
    }
    Ok(())
}

pub(super) fn verify(session: &mut CheckSession<'_>, via: AssignmentMode) -> CheckResult {
    session.need(via.capability())?;
    let topic = session.topic("verify")?;
    let right = value(5, 50);
    let mut wrong = right.clone();
    wrong[49] ^= 1;
    let records = [
        (key(0), Some(right.clone())),
        (key(2), Some(right.clone())),
        (key(2), Some(wrong)),
        (key(3), Some(value(5, 49))),
        (key(4), None),
        (None, Some(right.clone())),
        (key(6), Some(right)),
    ];
    session.cluster.write(&topic, &records)?;
    for (verify, seed, bad, what) in [
        (true, 5, 5, "with verify, among 7 records with 5 wrong ones"),
        (
            false,
            5,
            4,
            "without verify, among 7 records with 4 of wrong key or length",
        ),
        (true, 6, 7, "with verify and another seed, among 7 records"),
    ] {
        let response = session.run_configured(&Consume {
            burst: burst(&topic, 50, 7, seed),
            via,
            verify,
            commit: false,
        })?;
        require!(
            (response.got, response.bad) == (7, bad),
            format!("bad {bad} {what}"),
            "got {}, bad {}",
            response.got,
            response.bad
        );
    }
    Ok(())
}

/// The largest seed that the numbers of all languages can represent.
const SEED_MAX: u64 = (1 << 53) - 1;
