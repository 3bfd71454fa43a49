//! Every check passes an honest answer, and catches the one thing that is wrong with another.

use std::time::Duration;

use super::super::protocol::{
    AssignmentMode, ConsumeMarks, ProduceMarks, ProducerState, RoundTripMarks,
};
use super::*;

const SEEN: CommandObservation = CommandObservation {
    wall: Duration::from_millis(100),
    cpu_us: Some(50_000.0),
    cores: 2.0,
};

fn caught(verdict: CheckResult, expected: &str) {
    let said = verdict.expect_err(expected);
    assert!(said.contains(expected), "{said}");
}

fn produce() -> (ProduceCommand, Produced) {
    let asked = ProduceCommand {
        topic: "t".to_owned(),
        len: 100,
        count: 10,
        seed: 1,
        state: ProducerState::Warm,
        per_record: true,
    };
    let answer = Produced {
        marks: ProduceMarks {
            t0: 1_000_000,
            t1: 81_000_000,
            t2: 91_000_000,
        },
        cpu_us: 45_000.0,
        acked: 9,
        failed: 1,
        errors: Vec::new(),
        create_us: Some(10_000.0),
        send_us: Some(60_000.0),
    };
    (asked, answer)
}

#[test]
fn produce_is_checked() {
    let (asked, honest) = produce();
    produced(&asked, &honest, &SEEN).unwrap();
    type Change = fn(&mut Produced);
    let lies: [(Change, &str); 10] = [
        (|it| it.marks.t1 = 0, "mark t1 (0) is before t0"),
        (|it| it.marks.t2 = 999_999, "mark t2 (999999) is before t0"),
        (
            |it| it.marks.t2 = 108_000_000,
            "its marks are 107000 us apart",
        ),
        (|it| it.acked = 10, "acked 10 and failed 1 are not the 10"),
        (|it| it.failed = u64::MAX, "are not the 10"),
        (|it| it.cpu_us = 78_000.0, "the system counts 50000"),
        (
            |it| it.cpu_us = 1_000.0,
            "cpu_us is 1000, the system counts 50000",
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
    for (lie, expected) in lies {
        let mut answer = honest.clone();
        lie(&mut answer);
        caught(produced(&asked, &answer, &SEEN), expected);
    }
    let blind = CommandObservation {
        cpu_us: None,
        ..SEEN
    };
    let mut answer = honest.clone();
    answer.cpu_us = 221_000.0;
    let verdict = produced(&asked, &answer, &blind);
    caught(verdict, "all processors together had 200000");
    let unasked = ProduceCommand {
        per_record: false,
        ..asked
    };
    answer = honest;
    answer.send_us = None;
    produced(&unasked, &answer, &SEEN).unwrap();
}

#[test]
fn consume_is_checked() {
    let asked = Consume {
        topic: "t".to_owned(),
        len: 100,
        count: 10,
        seed: 1,
        via: AssignmentMode::Group,
        verify: false,
        commit: true,
    };
    let honest = Consumed {
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
    consumed(&asked, &honest, &SEEN).unwrap();
    type Change = fn(&mut Consumed);
    let lies: [(Change, &str); 9] = [
        (|it| it.marks.s2 = 1, "mark s2 (1) is before s1 (2)"),
        (|it| it.marks.s4 = None, "s4 is missing, commit was true"),
        (|it| it.marks.s4 = Some(79_999_999), "mark s4"),
        (
            |it| it.marks.s4 = Some(200_000_000),
            "its marks are 200000 us apart",
        ),
        (|it| it.got = 9, "got is 9, asked were 10"),
        (|it| it.bytes = 1000, "bytes is 1000"),
        (|it| it.bad = 11, "bad is 11, got only 10"),
        (|it| it.drain_cpu_us = 41_000.0, "drain_cpu_us is 41000"),
        (|it| it.drain_cpu_us = -1.0, "drain_cpu_us is -1"),
    ];
    for (lie, expected) in lies {
        let mut answer = honest.clone();
        lie(&mut answer);
        caught(consumed(&asked, &answer, &SEEN), expected);
    }
    // What is not as it should be is a finding, no lie.
    let mut odd = honest;
    (odd.bad, odd.bytes) = (1, 990);
    consumed(&asked, &odd, &SEEN).unwrap();
}

fn three() -> ReportedDistribution {
    ReportedDistribution {
        count: 3,
        sum_us: 12_345 + 500 + 3,
        min_us: 3,
        max_us: 12_345,
        pairs: vec![(3, 1), (500, 1), (12_300, 1)],
    }
}

#[test]
fn a_roundtrip_is_checked() {
    let asked = RoundTrip {
        topic: "t".to_owned(),
        len: 100,
        count: 3,
        rate: 100.0,
        seed: 1,
    };
    let honest = RoundTripped {
        marks: RoundTripMarks {
            t0: 5,
            t1: 60_000_000,
            t2: 90_000_000,
            r1: 80_000_000,
        },
        cpu_us: 40_000.0,
        acked: 3,
        failed: 0,
        errors: Vec::new(),
        got: 3,
        latency: three(),
        pacing: three(),
    };
    round_tripped(&asked, &honest, &SEEN).unwrap();
    type Change = fn(&mut RoundTripped);
    let lies: [(Change, &str); 7] = [
        (
            |it| {
                it.pacing.pairs[2].0 = 120_000;
                (it.pacing.max_us, it.pacing.sum_us) = (120_000, 120_503);
            },
            "pacing goes up to 120000 us",
        ),
        (|it| it.marks.r1 = 4, "mark r1 (4) is before t0 (5)"),
        (|it| it.marks.r1 = 200_000_000, "us apart"),
        (|it| it.acked = 2, "acked 2 and failed 0"),
        (|it| it.got = 2, "got is 2, acked 3"),
        (
            |it| it.pacing = ReportedDistribution::default(),
            "pacing has 0 values",
        ),
        (
            |it| it.latency.pairs[0].1 = 2,
            "the pairs of latency count 4",
        ),
    ];
    for (lie, expected) in lies {
        let mut answer = honest.clone();
        lie(&mut answer);
        caught(round_tripped(&asked, &answer, &SEEN), expected);
    }
    let burst = RoundTrip { rate: 0.0, ..asked };
    let mut answer = honest.clone();
    answer.pacing = ReportedDistribution::default();
    round_tripped(&burst, &answer, &SEEN).unwrap();
    caught(round_tripped(&burst, &honest, &SEEN), "pacing has 3 values");
}

#[test]
fn a_distribution_agrees_with_itself() {
    distribution("d", &three(), 3).unwrap();
    distribution("d", &ReportedDistribution::default(), 0).unwrap();
    type Change = fn(&mut ReportedDistribution);
    let lies: [(Change, &str); 6] = [
        (|it| it.pairs.swap(0, 1), "do not ascend"),
        (|it| it.pairs[2].0 = 12_345, "more than three digits"),
        (|it| it.max_us = 99_999, "its pairs from 3 to 12300"),
        (|it| it.min_us = 0, "its pairs from 3 to 12300"),
        (|it| it.sum_us = 50_000, "the sum of d"),
        (|it| it.pairs[0].1 = u64::MAX, "the pairs of d count"),
    ];
    for (lie, expected) in lies {
        let mut found = three();
        lie(&mut found);
        caught(distribution("d", &found, 3), expected);
    }
}

#[test]
fn seconds_add_up() {
    let asked = Steady {
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
    let four = ReportedDistribution {
        count: 4,
        sum_us: 40,
        min_us: 10,
        max_us: 10,
        pairs: vec![(10, 4)],
    };
    let honest = SteadyDone {
        records: 4,
        bytes: 72,
        failed: 0,
        cpu_us: 210.0,
        latency: Some(four.clone()),
        pacing: Some(four),
    };
    let told = [second(0), second(1)];
    steady(&asked, &honest, &told, &SEEN).unwrap();
    caught(
        steady(&asked, &honest, &told[..1], &SEEN),
        "it told 1 seconds",
    );
    let twice = [second(0), second(0)];
    caught(
        steady(&asked, &honest, &twice, &SEEN),
        "second 0 came where 1 should",
    );
    type Change = fn(&mut SteadyDone);
    let lies: [(Change, &str); 5] = [
        (|it| it.records = 5, "records is 5, its seconds add up to 4"),
        (|it| it.bytes = 0, "bytes is 0, its seconds add up to 72"),
        (|it| it.failed = 1, "latency has 4 values"),
        (|it| it.pacing = None, "latency and pacing are missing"),
        (|it| it.cpu_us = 1e9, "all processors together"),
    ];
    for (lie, expected) in lies {
        let mut answer = honest.clone();
        lie(&mut answer);
        caught(steady(&asked, &answer, &told, &SEEN), expected);
    }
    let slow = Steady { rate: 0.5, ..asked };
    caught(steady(&slow, &honest, &told, &SEEN), "only 2 were due");
}

#[test]
fn others_are_checked_too() {
    let asked = WarmUp {
        topic: "t".to_owned(),
        len: 10,
        count: 1000,
        seed: 1,
    };
    let mut answer = WarmedUp {
        produce_cpu_us_per_record: 20.0,
        consume_cpu_us_per_record: 30.0,
    };
    warmed_up(&asked, &answer, &SEEN).unwrap();
    answer.consume_cpu_us_per_record = 90.0;
    caught(warmed_up(&asked, &answer, &SEEN), "the system counts 50000");
    let mut said = DriverHello {
        protocol: 1,
        library: "l".to_owned(),
        library_version: "1".to_owned(),
        binding: String::new(),
        runtime: String::new(),
        capabilities: Vec::new(),
    };
    hello(&said).unwrap();
    said.protocol = 2;
    caught(hello(&said), "it speaks protocol 2");
}
