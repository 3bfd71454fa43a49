//! Fuzz target for the output of drivers. Any output must neither panic nor give long error texts,
//! and no accepted result may contradict itself or the command.

use std::time::Duration;

use serde::de::DeserializeOwned;

use super::check::{self, CommandObservation};
use super::protocol::{
    AssignmentMode, Configured, Consume, Consumed, DriverLine, ProduceCommand, Produced,
    ProducerState, ReportedDistribution, RoundTrip, RoundTripped, Stats, Steady, SteadyDone,
    SteadySecond, TopicEnd, WarmUp, WarmedUp, parse_line, parse_response,
};

/// Parses the lines of a driver up to its response. The first byte selects the command.
pub fn answer(data: &[u8]) {
    let [command, output @ ..] = data else {
        return;
    };
    let mut seconds = Vec::new();
    for line in output.split(|byte| *byte == b'\n') {
        match parse_line(line, ID) {
            Err(text) | Ok(DriverLine::Response(Err(text))) => return assert_short(&text),
            Ok(DriverLine::Second(second)) => seconds.push(second),
            Ok(DriverLine::Response(Ok(response))) => return check(*command, response, &seconds),
        }
    }
}

fn check(command: u8, response: serde_json::Value, seconds: &[SteadySecond]) {
    match command % 7 {
        0 => {
            let requested = produce();
            check_accepted(
                response,
                |it: &Produced| check::produced(&requested, it, &OBSERVATION),
                |it| {
                    assert!(it.marks.t0 <= it.marks.t1 && it.marks.t0 <= it.marks.t2);
                    assert_eq!(it.acked + it.failed, RECORDS);
                },
            );
        }
        1 => {
            let requested = consume();
            check_accepted(
                response,
                |it: &Consumed| check::consumed(&requested, it, &OBSERVATION),
                |it| {
                    assert!(it.marks.s0 <= it.marks.s3);
                    assert_eq!(it.got, RECORDS);
                },
            );
        }
        2 => {
            let requested = round_trip();
            let check = |it: &RoundTripped| check::round_tripped(&requested, it, &OBSERVATION);
            check_accepted(response, check, |it| {
                assert!(it.got <= RECORDS);
                assert_within(&it.latency);
                assert_within(&it.pacing);
            });
        }
        3 => {
            let requested = steady();
            let check = |it: &SteadyDone| check::steady(&requested, it, seconds, &OBSERVATION);
            check_accepted(response, check, |it| {
                assert_eq!(seconds.len() as u64, requested.seconds);
                it.latency.iter().chain(&it.pacing).for_each(assert_within);
            });
        }
        4 => {
            let requested = warm_up();
            check_accepted(
                response,
                |it: &WarmedUp| check::warmed_up(&requested, it, &OBSERVATION),
                |_| (),
            );
        }
        5 => check_accepted(response, |_: &Configured| Ok(()), |_| ()),
        _ => check_accepted(response, |_: &Stats| Ok(()), |_| ()),
    }
}

/// Asserts `holds` for a response that has passed its check.
fn check_accepted<T: DeserializeOwned>(
    response: serde_json::Value,
    check: impl FnOnce(&T) -> Result<(), String>,
    holds: impl FnOnce(&T),
) {
    match parse_response::<T>(response) {
        Err(text) => assert_short(&text),
        Ok(response) => match check(&response) {
            Err(text) => assert_short(&text),
            Ok(()) => holds(&response),
        },
    }
}

fn assert_short(text: &str) {
    assert!(text.chars().count() <= 1000, "{text}");
}

/// Asserts that no latency exceeds its command and that no value is counted in excess.
fn assert_within(found: &ReportedDistribution) {
    assert!(found.count <= RECORDS);
    assert!(
        found.max_us < 2 * OBSERVATION.wall.as_micros() as u64,
        "{found:?}"
    );
}

fn produce() -> ProduceCommand {
    ProduceCommand {
        topic: String::new(),
        len: BYTES,
        count: RECORDS,
        seed: 1,
        state: ProducerState::Warm,
        per_record: true,
    }
}

fn consume() -> Consume {
    Consume {
        topic: String::new(),
        len: BYTES,
        count: RECORDS,
        seed: 1,
        via: AssignmentMode::Assign,
        verify: true,
        commit: false,
    }
}

fn round_trip() -> RoundTrip {
    RoundTrip {
        topic: String::new(),
        len: BYTES,
        count: RECORDS,
        rate: 100.0,
        seed: 1,
    }
}

fn steady() -> Steady {
    Steady {
        topic: String::new(),
        len: BYTES,
        seed: 1,
        role: TopicEnd::Produce,
        rate: 1.0,
        seconds: 2,
    }
}

fn warm_up() -> WarmUp {
    WarmUp {
        topic: String::new(),
        len: BYTES,
        count: RECORDS,
        seed: 1,
    }
}

const ID: u64 = 7;
const BYTES: u64 = 10;
const RECORDS: u64 = 3;
const OBSERVATION: CommandObservation = CommandObservation {
    wall: Duration::from_millis(100),
    cpu_us: Some(50_000.0),
    cores: 2.0,
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    /// Seeds of the fuzz target, which must get past parsing.
    const SEEDS: [&[u8]; 3] = [
        include_bytes!("../../../fuzz/seeds/driver_output/produced"),
        include_bytes!("../../../fuzz/seeds/driver_output/roundtripped"),
        include_bytes!("../../../fuzz/seeds/driver_output/steady"),
    ];

    proptest! {
        #[test]
        fn arbitrary_driver_output_never_panics(
            seed in 0..SEEDS.len(),
            position in any::<prop::sample::Index>(),
            inserted in "[0-9\"{}\\[\\],:.e-]{0,12}",
            removed in 0..12_usize,
        ) {
            let mut output = SEEDS[seed].to_vec();
            super::answer(&output);
            let at = position.index(output.len());
            let end = (at + removed).min(output.len());
            output.splice(at..end, inserted.into_bytes());
            super::answer(&output);
        }
    }
}
