//! Fuzz target for the output of drivers. Any output must neither panic nor give long error texts,
//! and no accepted result may contradict itself or the command.

use std::time::Duration;

use super::check::{CommandObservation, DriverRequest, GetStats};
use super::error::DriverFailure;
use super::protocol::{
    AssignmentMode, Burst, ClientSettings, Configure, Consume, CopyTopic, DriverLine,
    ProduceCommand, ProducerState, RoundTrip, Steady, SteadySecond, TopicEnd, WarmUp, parse_line,
    parse_response,
};
use weir_stats::run::Distribution;

/// Parses the lines of a driver up to its response. The first byte selects the command.
pub fn response(data: &[u8]) {
    let [command, output @ ..] = data else {
        return;
    };
    let mut seconds = Vec::new();
    for line in output.split(|byte| *byte == b'\n') {
        match parse_line(line, ID) {
            Err(error) => return assert_short(&error),
            Ok(DriverLine::Failed(text)) => {
                return assert_short(&DriverFailure::CommandFailed(text));
            }
            Ok(DriverLine::Second(second)) => seconds.push(second),
            Ok(DriverLine::Response(response)) => return check(*command, response, &seconds),
        }
    }
}

fn check(command: u8, response: serde_json::Value, seconds: &[SteadySecond]) {
    let burst = || Burst {
        topic: String::new(),
        len: 10,
        count: RECORDS,
        seed: 1,
    };
    match command % 8 {
        0 => {
            let requested = ProduceCommand {
                burst: burst(),
                state: ProducerState::Warm,
                per_record: true,
            };
            check_accepted(&requested, response, seconds, |it| {
                assert!(it.marks.t0 <= it.marks.t1 && it.marks.t0 <= it.marks.t2);
                assert_eq!(it.delivered.acked + it.delivered.failed, RECORDS);
            });
        }
        1 => {
            let requested = Consume {
                burst: burst(),
                via: AssignmentMode::Assign,
                verify: true,
                commit: false,
            };
            check_accepted(&requested, response, seconds, |it| {
                assert!(it.marks.s0 <= it.marks.s3);
                assert_eq!(it.got, RECORDS);
            });
        }
        2 => {
            let requested = RoundTrip {
                burst: burst(),
                rate: 100.0,
            };
            check_accepted(&requested, response, seconds, |it| {
                assert!(it.got <= RECORDS);
                assert_within(&it.latency);
                assert_within(&it.pacing);
            });
        }
        3 => {
            let requested = Steady {
                topic: String::new(),
                len: 10,
                seed: 1,
                role: TopicEnd::Produce,
                rate: 1.0,
                seconds: 2,
            };
            check_accepted(&requested, response, seconds, |it| {
                assert_eq!(seconds.len() as u64, requested.seconds);
                it.latency.iter().chain(&it.pacing).for_each(assert_within);
            });
        }
        4 => check_accepted(&WarmUp(burst()), response, seconds, |_| ()),
        5 => {
            let requested = Configure {
                bootstrap: String::new(),
                client_file: None,
                profile: String::new(),
                settings: ClientSettings::new(),
            };
            check_accepted(&requested, response, seconds, |_| ());
        }
        6 => {
            let requested = CopyTopic {
                burst: burst(),
                to: String::new(),
                via: AssignmentMode::Assign,
            };
            check_accepted(&requested, response, seconds, |it| {
                assert!(it.marks.s0 <= it.marks.t1 && it.marks.s2 <= it.marks.t2);
                assert_eq!(
                    (it.got, it.delivered.acked + it.delivered.failed),
                    (RECORDS, RECORDS)
                );
            });
        }
        _ => check_accepted(&GetStats {}, response, seconds, |_| ()),
    }
}

/// Asserts `holds` for a response that has passed its check.
fn check_accepted<R: DriverRequest>(
    requested: &R,
    response: serde_json::Value,
    seconds: &[SteadySecond],
    holds: impl FnOnce(&R::Response),
) {
    let seen = CommandObservation {
        wall: WALL,
        cpu_us: Some(50_000.0),
        cores: 2.0,
        seconds,
    };
    let response = parse_response::<R::Response>(response);
    match response.and_then(|it| requested.check(&it, &seen).map(|()| it)) {
        Err(error) => assert_short(&error),
        Ok(response) => holds(&response),
    }
}

fn assert_short(error: &DriverFailure) {
    let text = error.to_string();
    assert!(text.chars().count() <= 1000, "{text}");
}

/// Asserts that no latency exceeds its command and that no value is counted in excess.
fn assert_within(found: &Distribution) {
    assert!(found.count <= RECORDS);
    assert!(found.max_us < 2 * WALL.as_micros() as u64, "{found:?}");
}

const ID: u64 = 7;
const RECORDS: u64 = 3;
const WALL: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    /// Seeds of the fuzz target, which must get past parsing.
    const SEEDS: [&[u8]; 4] = [
        include_bytes!("../../../fuzz/seeds/driver_output/copied"),
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
            super::response(&output);
            let at = position.index(output.len());
            let end = (at + removed).min(output.len());
            output.splice(at..end, inserted.into_bytes());
            super::response(&output);
        }
    }
}
