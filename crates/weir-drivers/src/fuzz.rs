//! The fuzz body of what drivers say: whatever it is, never a panic, never a long text for people,
//! and no figure is believed that contradicts itself or what was asked.

use std::time::Duration;

use serde::de::DeserializeOwned;

use super::check::{self, CommandObservation};
use super::protocol::{
    AssignmentMode, Configured, Consume, Consumed, DriverLine, ProduceCommand, Produced,
    ProducerState, ReportedDistribution, RoundTrip, RoundTripped, Stats, Steady, SteadyDone,
    SteadySecond, TopicEnd, WarmUp, WarmedUp, parse_line, read_answer,
};

/// Reads the lines of a driver up to its answer. The first byte says to which command.
pub fn answer(data: &[u8]) {
    let [command, said @ ..] = data else {
        return;
    };
    let mut told = Vec::new();
    for line in said.split(|byte| *byte == b'\n') {
        match parse_line(line, ID) {
            Err(text) | Ok(DriverLine::Answer(Err(text))) => return assert_short(&text),
            Ok(DriverLine::Second(second)) => told.push(second),
            Ok(DriverLine::Answer(Ok(answer))) => return check(*command, answer, &told),
        }
    }
}

fn check(command: u8, answer: serde_json::Value, told: &[SteadySecond]) {
    match command % 7 {
        0 => {
            let asked = produce();
            believed(
                answer,
                |it: &Produced| check::produced(&asked, it, &SEEN),
                |it| {
                    assert!(it.marks.t0 <= it.marks.t1 && it.marks.t0 <= it.marks.t2);
                    assert_eq!(it.acked + it.failed, RECORDS);
                },
            );
        }
        1 => {
            let asked = consume();
            believed(
                answer,
                |it: &Consumed| check::consumed(&asked, it, &SEEN),
                |it| {
                    assert!(it.marks.s0 <= it.marks.s3);
                    assert_eq!(it.got, RECORDS);
                },
            );
        }
        2 => {
            let asked = round_trip();
            let verdict = |it: &RoundTripped| check::round_tripped(&asked, it, &SEEN);
            believed(answer, verdict, |it| {
                assert!(it.got <= RECORDS);
                assert_within(&it.latency);
                assert_within(&it.pacing);
            });
        }
        3 => {
            let asked = steady();
            let verdict = |it: &SteadyDone| check::steady(&asked, it, told, &SEEN);
            believed(answer, verdict, |it| {
                assert_eq!(told.len() as u64, asked.seconds);
                it.latency.iter().chain(&it.pacing).for_each(assert_within);
            });
        }
        4 => {
            let asked = warm_up();
            believed(
                answer,
                |it: &WarmedUp| check::warmed_up(&asked, it, &SEEN),
                |_| (),
            );
        }
        5 => believed(answer, |_: &Configured| Ok(()), |_| ()),
        _ => believed(answer, |_: &Stats| Ok(()), |_| ()),
    }
}

/// What `holds` of an answer that has passed its check.
fn believed<T: DeserializeOwned>(
    answer: serde_json::Value,
    verdict: impl FnOnce(&T) -> Result<(), String>,
    holds: impl FnOnce(&T),
) {
    match read_answer::<T>(answer) {
        Err(text) => assert_short(&text),
        Ok(answer) => match verdict(&answer) {
            Err(text) => assert_short(&text),
            Ok(()) => holds(&answer),
        },
    }
}

fn assert_short(text: &str) {
    assert!(text.chars().count() <= 1000, "{text}");
}

/// No latency is longer than its command, or is counted that never was.
fn assert_within(found: &ReportedDistribution) {
    assert!(found.count <= RECORDS);
    assert!(found.max_us < 2 * SEEN.wall.as_micros() as u64, "{found:?}");
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
const SEEN: CommandObservation = CommandObservation {
    wall: Duration::from_millis(100),
    cpu_us: Some(50_000.0),
    cores: 2.0,
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    /// The seeds of the fuzz target, which have to reach what comes behind reading.
    const SEEDS: [&[u8]; 3] = [
        include_bytes!("../../../fuzz/seeds/driver_output/produced"),
        include_bytes!("../../../fuzz/seeds/driver_output/roundtripped"),
        include_bytes!("../../../fuzz/seeds/driver_output/steady"),
    ];

    proptest! {
        #[test]
        fn nothing_a_driver_says_is_too_odd(
            seed in 0..SEEDS.len(),
            place in any::<prop::sample::Index>(),
            put in "[0-9\"{}\\[\\],:.e-]{0,12}",
            gone in 0..12_usize,
        ) {
            let mut said = SEEDS[seed].to_vec();
            super::answer(&said);
            let at = place.index(said.len());
            let end = (at + gone).min(said.len());
            said.splice(at..end, put.into_bytes());
            super::answer(&said);
        }
    }
}
