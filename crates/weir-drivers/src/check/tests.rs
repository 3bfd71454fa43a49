//! Each check accepts a correct response and rejects copies of it with one error each.

use std::time::Duration;

use super::super::protocol::{
    AssignmentMode, Burst, ConsumeMarks, CopyMarks, ProduceMarks, ProducerState, RoundTripMarks,
};
use super::*;

const OBSERVATION: CommandObservation<'static> = CommandObservation {
    wall: Duration::from_millis(100),
    cpu_us: Some(50_000.0),
    cores: 2.0,
    seconds: &[],
};

fn assert_error(result: CheckResult, expected: &str) {
    let error = result.expect_err(expected).to_string();
    assert!(error.contains(expected), "{error}");
}

fn burst(len: u64, count: u64) -> Burst {
    Burst {
        topic: "t".to_owned(),
        len,
        count,
        seed: 1,
    }
}

fn produce() -> (ProduceCommand, Produced) {
    let requested = ProduceCommand {
        burst: burst(100, 10),
        state: ProducerState::Warm,
        per_record: true,
    };
    let response = Produced {
        jni_calls: None,
        marks: ProduceMarks {
            t0: 1_000_000,
            t1: 81_000_000,
            t2: 91_000_000,
        },
        cpu_us: 45_000.0,
        delivered: Delivered {
            acked: 9,
            failed: 1,
            errors: Vec::new(),
        },
        create_us: Some(10_000.0),
        send_us: Some(60_000.0),
    };
    (requested, response)
}

#[test]
fn produce_response_is_checked() {
    let (requested, correct) = produce();
    requested.check(&correct, &OBSERVATION).unwrap();
    type Change = fn(&mut Produced);
    let cases: [(Change, &str); 10] = [
        (|it| it.marks.t1 = 0, "mark t1 (0) is before t0"),
        (|it| it.marks.t2 = 999_999, "mark t2 (999999) is before t0"),
        (
            |it| it.marks.t2 = 108_000_000,
            "the marks are 107000 us apart",
        ),
        (
            |it| it.delivered.acked = 10,
            "acked 10 and failed 1 do not add up to 10",
        ),
        (|it| it.delivered.failed = u64::MAX, "do not add up to 10"),
        (|it| it.cpu_us = 78_000.0, "the system reports 50000"),
        (
            |it| it.cpu_us = 1_000.0,
            "cpu_us is 1000, but the system reports 50000",
        ),
        (|it| it.cpu_us = -1.0, "cpu_us is -1"),
        (
            |it| it.create_us = None,
            "create_us and send_us are missing",
        ),
        (
            |it| it.send_us = Some(80_000.0),
            "create_us + send_us is 90000",
        ),
    ];
    for (change, expected) in cases {
        let mut response = correct.clone();
        change(&mut response);
        assert_error(requested.check(&response, &OBSERVATION), expected);
    }
    let without_cpu = CommandObservation {
        cpu_us: None,
        ..OBSERVATION
    };
    let mut response = correct.clone();
    response.cpu_us = 221_000.0;
    let result = requested.check(&response, &without_cpu);
    assert_error(result, "all cores together had 200000");
    let without_times = ProduceCommand {
        per_record: false,
        ..requested
    };
    response = correct;
    response.send_us = None;
    without_times.check(&response, &OBSERVATION).unwrap();
}

#[test]
fn consume_response_is_checked() {
    let requested = Consume {
        burst: burst(100, 10),
        via: AssignmentMode::Group,
        verify: false,
        commit: true,
    };
    let correct = Consumed {
        jni_calls: None,
        marks: ConsumeMarks {
            s0: 1,
            s1: 2,
            s2: 2,
            s3: 80_000_000,
            s4: Some(90_000_000),
        },
        cpu_us: 40_000.0,
        drain_cpu_us: 39_000.0,
        got: 10,
        bytes: 1080,
        bad: 0,
    };
    requested.check(&correct, &OBSERVATION).unwrap();
    type Change = fn(&mut Consumed);
    let cases: [(Change, &str); 9] = [
        (|it| it.marks.s2 = 1, "mark s2 (1) is before s1 (2)"),
        (
            |it| it.marks.s4 = None,
            "s4 is missing, but commit was true",
        ),
        (|it| it.marks.s4 = Some(79_999_999), "mark s4"),
        (
            |it| it.marks.s4 = Some(200_000_000),
            "the marks are 200000 us apart",
        ),
        (|it| it.got = 9, "got is 9, but 10 records"),
        (|it| it.bytes = 1000, "bytes is 1000"),
        (|it| it.bad = 11, "bad is 11, but got is 10"),
        (|it| it.drain_cpu_us = 41_000.0, "drain_cpu_us is 41000"),
        (|it| it.drain_cpu_us = -1.0, "drain_cpu_us is -1"),
    ];
    for (change, expected) in cases {
        let mut response = correct.clone();
        change(&mut response);
        assert_error(requested.check(&response, &OBSERVATION), expected);
    }
    // Bad records are a result, not an invalid response.
    let mut with_bad_record = correct;
    (with_bad_record.bad, with_bad_record.bytes) = (1, 990);
    requested.check(&with_bad_record, &OBSERVATION).unwrap();
}

#[test]
fn copy_response_is_checked() {
    let requested = CopyTopic {
        burst: burst(100, 10),
        to: "copies".to_owned(),
        via: AssignmentMode::Assign,
    };
    let correct = Copied {
        marks: CopyMarks {
            s0: 1,
            s1: 2,
            s2: 10_000_000,
            t1: 80_000_000,
            t2: 90_000_000,
        },
        cpu_us: 40_000.0,
        copy_cpu_us: 39_000.0,
        got: 10,
        bytes: 1080,
        delivered: Delivered {
            acked: 10,
            ..Delivered::default()
        },
        ..Copied::default()
    };
    requested.check(&correct, &OBSERVATION).unwrap();
    type Change = fn(&mut Copied);
    let cases: [(Change, &str); 8] = [
        (|it| it.marks.s1 = 0, "mark s1 (0) is before s0 (1)"),
        (
            |it| it.marks.t1 = 9_999_999,
            "mark t1 (9999999) is before s2",
        ),
        (
            |it| it.marks.t2 = 9_999_999,
            "mark t2 (9999999) is before s2",
        ),
        (
            |it| it.marks.t1 = 200_000_001,
            "the marks are 200000 us apart",
        ),
        (|it| it.got = 9, "got is 9, but 10 records"),
        (|it| it.bytes = 1000, "bytes is 1000"),
        (|it| it.delivered.acked = 9, "do not add up to 10"),
        (|it| it.copy_cpu_us = 41_000.0, "copy_cpu_us is 41000"),
    ];
    for (change, expected) in cases {
        let mut response = correct.clone();
        change(&mut response);
        assert_error(requested.check(&response, &OBSERVATION), expected);
    }
}

fn three() -> Distribution {
    Distribution {
        count: 3,
        sum_us: 12_345 + 500 + 3,
        min_us: 3,
        max_us: 12_345,
        pairs: vec![(3, 1), (500, 1), (12_300, 1)],
    }
}

#[test]
fn roundtrip_response_is_checked() {
    let requested = RoundTrip {
        burst: burst(100, 3),
        rate: 100.0,
    };
    let correct = RoundTripped {
        jni_calls: None,
        marks: RoundTripMarks {
            t0: 5,
            t1: 60_000_000,
            t2: 90_000_000,
            r1: 80_000_000,
        },
        cpu_us: 40_000.0,
        delivered: Delivered {
            acked: 3,
            failed: 0,
            errors: Vec::new(),
        },
        got: 3,
        latency: three(),
        pacing: three(),
    };
    requested.check(&correct, &OBSERVATION).unwrap();
    type Change = fn(&mut RoundTripped);
    let cases: [(Change, &str); 7] = [
        (
            |it| {
                it.pacing.pairs[2].0 = 120_000;
                (it.pacing.max_us, it.pacing.sum_us) = (120_000, 120_503);
            },
            "pacing goes up to 120000 us",
        ),
        (|it| it.marks.r1 = 4, "mark r1 (4) is before t0 (5)"),
        (|it| it.marks.r1 = 200_000_000, "us apart"),
        (|it| it.delivered.acked = 2, "acked 2 and failed 0"),
        (|it| it.got = 2, "got is 2, but acked is 3"),
        (
            |it| it.pacing = Distribution::default(),
            "pacing has 0 values",
        ),
        (
            |it| it.latency.pairs[0].1 = 2,
            "the pairs of latency have 4",
        ),
    ];
    for (change, expected) in cases {
        let mut response = correct.clone();
        change(&mut response);
        assert_error(requested.check(&response, &OBSERVATION), expected);
    }
    let unpaced = RoundTrip {
        rate: 0.0,
        ..requested
    };
    let mut response = correct.clone();
    response.pacing = Distribution::default();
    unpaced.check(&response, &OBSERVATION).unwrap();
    assert_error(unpaced.check(&correct, &OBSERVATION), "pacing has 3 values");
}

#[test]
fn inconsistent_distribution_is_rejected() {
    check_consistent("d", &three(), 3).unwrap();
    check_consistent("d", &Distribution::default(), 0).unwrap();
    type Change = fn(&mut Distribution);
    let cases: [(Change, &str); 6] = [
        (|it| it.pairs.swap(0, 1), "are not ascending"),
        (
            |it| it.pairs[2].0 = 12_345,
            "more than three significant digits",
        ),
        (|it| it.max_us = 99_999, "its pairs are from 3 to 12300"),
        (|it| it.min_us = 0, "its pairs are from 3 to 12300"),
        (|it| it.sum_us = 50_000, "the sum of d"),
        (|it| it.pairs[0].1 = u64::MAX, "the pairs of d have"),
    ];
    for (change, expected) in cases {
        let mut found = three();
        change(&mut found);
        assert_error(check_consistent("d", &found, 3), expected);
    }
}

#[test]
fn seconds_must_add_up() {
    let requested = Steady {
        topic: "t".to_owned(),
        len: 10,
        seed: 1,
        role: TopicEnd::Produce,
        rate: 2.0,
        seconds: 2,
    };
    let second = |second| SteadySecond {
        second,
        records: 2,
        bytes: 36,
        cpu_us: 100.0,
    };
    let four = Distribution {
        count: 4,
        sum_us: 40,
        min_us: 10,
        max_us: 10,
        pairs: vec![(10, 4)],
    };
    let correct = SteadyDone {
        records: 4,
        bytes: 72,
        failed: 0,
        cpu_us: 210.0,
        latency: Some(four.clone()),
        pacing: Some(four),
    };
    let reported = [second(0), second(1)];
    let check = |requested: &Steady, response: &SteadyDone, seconds: &[SteadySecond]| {
        let observation = CommandObservation {
            seconds,
            ..OBSERVATION
        };
        requested.check(response, &observation)
    };
    check(&requested, &correct, &reported).unwrap();
    assert_error(
        check(&requested, &correct, &reported[..1]),
        "1 seconds were reported",
    );
    let twice = [second(0), second(0)];
    assert_error(
        check(&requested, &correct, &twice),
        "second 0 was reported, expected 1",
    );
    type Change = fn(&mut SteadyDone);
    let cases: [(Change, &str); 5] = [
        (
            |it| it.records = 5,
            "records is 5, but its seconds add up to 4",
        ),
        (
            |it| it.bytes = 0,
            "bytes is 0, but its seconds add up to 72",
        ),
        (|it| it.failed = 1, "latency has 4 values"),
        (|it| it.pacing = None, "latency and pacing are missing"),
        (|it| it.cpu_us = 1e9, "all cores together"),
    ];
    for (change, expected) in cases {
        let mut response = correct.clone();
        change(&mut response);
        assert_error(check(&requested, &response, &reported), expected);
    }
    let slow = Steady {
        rate: 0.5,
        ..requested
    };
    assert_error(check(&slow, &correct, &reported), "but only 2 were due");
}

#[test]
fn warm_up_and_hello_are_checked() {
    let requested = WarmUp(burst(10, 1000));
    let mut response = WarmedUp {
        produce_cpu_us_per_record: 20.0,
        consume_cpu_us_per_record: 30.0,
    };
    requested.check(&response, &OBSERVATION).unwrap();
    response.consume_cpu_us_per_record = 90.0;
    assert_error(
        requested.check(&response, &OBSERVATION),
        "the system reports 50000",
    );
    let mut description = DriverHello {
        protocol: 1,
        library: "l".to_owned(),
        library_version: "1".to_owned(),
        binding: String::new(),
        runtime: String::new(),
        capabilities: Vec::new(),
    };
    let hello = Hello { protocol: PROTOCOL };
    hello.check(&description, &OBSERVATION).unwrap();
    description.protocol = 2;
    assert_error(
        hello.check(&description, &OBSERVATION),
        "driver has protocol 2",
    );
}
