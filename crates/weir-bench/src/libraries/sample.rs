//! From a driver's answer to a sample: marks become durations, and what makes them not count is named.

use weir_drivers::{Consumed, Produced, RoundTripped};
use weir_stats::run::{Distribution, LibrarySample};

use super::grid::LibraryCellSpec;

/// Enters what producing gave.
pub(super) fn produced(sample: &mut LibrarySample, cell: &LibraryCellSpec, told: &Produced) {
    let marks = told.marks;
    sample.send_us = Some(us(marks.t0, marks.t1));
    sample.delivered_us = Some(us(marks.t0, marks.t2));
    sample.create_us = told.create_us;
    sample.send_calls_us = told.send_us;
    sample.cpu_us = told.cpu_us;
    sample.records = told.acked;
    sample.bytes = bytes(cell, told.acked);
    failures(sample, told.failed, &told.errors);
}

/// Enters what consuming gave.
pub(super) fn consumed(sample: &mut LibrarySample, told: &Consumed) {
    let marks = told.marks;
    sample.join_us = Some(us(marks.s0, marks.s1));
    sample.first_us = Some(us(marks.s1, marks.s2));
    sample.drain_us = Some(us(marks.s2, marks.s3));
    sample.legacy_us = Some(us(marks.s1, marks.s4.unwrap_or(marks.s3)));
    sample.commit_us = marks.s4.map(|s4| us(marks.s3, s4));
    sample.cpu_us = told.cpu_us;
    sample.drain_cpu_us = Some(told.drain_cpu_us);
    sample.records = told.got;
    sample.bytes = told.bytes;
    sample.failed = told.bad;
    if told.bad > 0 {
        sample.invalid.push(format!(
            "{} of {} records were not those that were written",
            told.bad, told.got
        ));
    }
}

/// Enters what going there and back gave.
pub(super) fn round_tripped(
    sample: &mut LibrarySample,
    cell: &LibraryCellSpec,
    told: &RoundTripped,
) {
    let marks = told.marks;
    sample.send_us = Some(us(marks.t0, marks.t1));
    sample.delivered_us = Some(us(marks.t0, marks.t2));
    sample.roundtrip_us = Some(us(marks.t0, marks.r1));
    sample.cpu_us = told.cpu_us;
    sample.records = told.got;
    sample.bytes = bytes(cell, told.got);
    sample.latency = Some(distribution(&told.latency));
    failures(sample, told.failed, &told.errors);
    if told.got != told.acked {
        sample.invalid.push(format!(
            "{} records were acknowledged, {} came back",
            told.acked, told.got
        ));
    }
    if let Some(rate) = cell.rate_per_s {
        let pacing = distribution(&told.pacing);
        open_loop(sample, cell.records, rate, &pacing);
        sample.pacing = Some(pacing);
    }
}

/// Whether the load was the one that was asked for. What was not held is marked and counts.
fn open_loop(sample: &mut LibrarySample, records: u64, rate: u64, pacing: &Distribution) {
    let sent_us = sample.send_us.unwrap_or(0.0);
    // The first record is due when the clock starts.
    let achieved = (sent_us > 0.0).then(|| (records.saturating_sub(1)) as f64 * 1e6 / sent_us);
    sample.achieved_per_s = achieved;
    if let Some(achieved) = achieved.filter(|it| records > 1 && *it < rate as f64 * ACHIEVED_SHARE)
    {
        let text = format!("{achieved:.0} of {rate} records/s were sent");
        sample.marks.push(text);
    }
    if let Some(late_us) = pacing.percentile_us(99.0).filter(|us| *us >= PACING_P99_US) {
        let text = format!("sends were late: p99 of {:.1} ms", late_us as f64 / 1e3);
        sample.marks.push(text);
    }
}

fn failures(sample: &mut LibrarySample, failed: u64, errors: &[String]) {
    sample.failed = failed;
    if failed > 0 {
        let why = errors.first().map_or("no reason given", String::as_str);
        sample
            .invalid
            .push(format!("{failed} records were not delivered: {why}"));
    }
}

/// What the broker has, beside what a driver says that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordCount {
    /// Records the driver counts as delivered.
    pub(super) acked: u64,
    /// Records the driver counts as failed; the broker may have them all the same.
    pub(super) failed: u64,
    /// One, where the driver had to send one before the clock.
    pub(super) primers: u64,
    /// End of the topic's partition.
    pub(super) end: u64,
}

/// What to make of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CountCheck {
    /// It is so.
    True,
    /// The figures do not count, and nobody has said anything false.
    Invalid(String),
    /// What the driver says is not so.
    Lied(String),
}

impl RecordCount {
    /// `acks` 0 means that nobody has promised anything; with retries a record may come twice.
    pub(super) fn check(self, acks: i64, may_retry: bool) -> CountCheck {
        let least = self.acked + self.primers;
        let most = least + self.failed;
        let said = format!(
            "{} records acknowledged{}, but the topic has {}",
            self.acked,
            if self.primers > 0 {
                " after a primer"
            } else {
                ""
            },
            self.end
        );
        match self.end {
            end if end < least && acks == 0 => {
                CountCheck::Invalid(format!("{} records were lost with acks 0", least - end))
            }
            end if end < least => CountCheck::Lied(said),
            end if end > most && may_retry => {
                CountCheck::Invalid(format!("{} records came twice", end - most))
            }
            end if end > most => CountCheck::Lied(said),
            _ => CountCheck::True,
        }
    }
}

fn us(from_ns: u64, until_ns: u64) -> f64 {
    until_ns.saturating_sub(from_ns) as f64 / 1e3
}

fn bytes(cell: &LibraryCellSpec, records: u64) -> u64 {
    // Keys have 8.
    records.saturating_mul(cell.value_bytes + 8)
}

fn distribution(told: &weir_drivers::ReportedDistribution) -> Distribution {
    Distribution {
        count: told.count,
        sum_us: told.sum_us,
        min_us: told.min_us,
        max_us: told.max_us,
        pairs: told.pairs.clone(),
    }
}

/// Of the rate.
const ACHIEVED_SHARE: f64 = 0.99;
const PACING_P99_US: u64 = 1000;

#[cfg(test)]
mod tests {
    use weir_drivers::{ConsumeMarks, ProduceMarks, RoundTripMarks};

    use super::super::grid::StartMode;
    use super::*;

    fn spec(mode: StartMode, rate_per_s: Option<u64>) -> LibraryCellSpec {
        LibraryCellSpec {
            mode,
            value_bytes: 100,
            records: 1000,
            rate_per_s,
            repetitions: 1,
            skipped: None,
        }
    }

    #[test]
    fn marks_become_durations() {
        let mut sample = LibrarySample::default();
        let told = Produced {
            marks: ProduceMarks {
                t0: 1_000,
                t1: 2_500_000,
                t2: 9_001_000,
            },
            cpu_us: 77.0,
            acked: 990,
            failed: 10,
            errors: vec!["queue full".to_owned()],
            create_us: None,
            send_us: None,
        };
        produced(&mut sample, &spec(StartMode::Warm, None), &told);
        assert_eq!(
            (sample.send_us, sample.delivered_us),
            (Some(2499.0), Some(9000.0))
        );
        assert_eq!((sample.records, sample.bytes), (990, 990 * 108));
        assert_eq!(
            sample.invalid,
            ["10 records were not delivered: queue full"]
        );

        let mut sample = LibrarySample::default();
        let mut told = Consumed {
            marks: ConsumeMarks {
                s0: 0,
                s1: 1_000_000,
                s2: 3_000_000,
                s3: 7_000_000,
                s4: None,
            },
            cpu_us: 5.0,
            drain_cpu_us: 4.0,
            got: 1000,
            bytes: 108_000,
            bad: 0,
        };
        consumed(&mut sample, &told);
        assert_eq!(
            (
                sample.join_us,
                sample.first_us,
                sample.drain_us,
                sample.legacy_us,
                sample.commit_us
            ),
            (Some(1e3), Some(2e3), Some(4e3), Some(6e3), None)
        );
        assert!(sample.invalid.is_empty());
        told.marks.s4 = Some(10_000_000);
        told.bad = 2;
        consumed(&mut sample, &told);
        assert_eq!((sample.legacy_us, sample.commit_us), (Some(9e3), Some(3e3)));
        assert_eq!(sample.invalid.len(), 1);
    }

    fn open(sent_ns: u64, late_us: u64) -> LibrarySample {
        let told = RoundTripped {
            marks: RoundTripMarks {
                t0: 0,
                t1: sent_ns,
                t2: sent_ns,
                r1: sent_ns,
            },
            cpu_us: 1.0,
            acked: 1000,
            failed: 0,
            errors: Vec::new(),
            got: 1000,
            latency: weir_drivers::ReportedDistribution::default(),
            pacing: weir_drivers::ReportedDistribution {
                count: 1000,
                pairs: vec![(50, 900), (late_us, 100)],
                ..weir_drivers::ReportedDistribution::default()
            },
        };
        let mut sample = LibrarySample::default();
        round_tripped(&mut sample, &spec(StartMode::Open, Some(500)), &told);
        sample
    }

    #[test]
    fn an_open_loop_that_was_not_held_is_marked_and_counts() {
        let held = open(1_998_000_000, 999);
        assert!(held.marks.is_empty() && held.invalid.is_empty(), "{held:?}");
        assert_eq!(held.achieved_per_s, Some(500.0));
        let slow = open(2_100_000_000, 999);
        assert_eq!(slow.marks, ["476 of 500 records/s were sent"]);
        let late = open(1_998_000_000, 1500);
        assert_eq!(late.marks, ["sends were late: p99 of 1.5 ms"]);
        assert!(late.invalid.is_empty());
    }

    #[test]
    fn who_counts_what_the_broker_does_not_have_has_lied() {
        let count = |acked, failed, primers, end| RecordCount {
            acked,
            failed,
            primers,
            end,
        };
        let check = |count: RecordCount| count.check(1, false);
        assert_eq!(check(count(100, 0, 0, 100)), CountCheck::True);
        assert_eq!(check(count(100, 0, 1, 101)), CountCheck::True);
        // Given up by the library, written all the same.
        assert_eq!(check(count(90, 10, 0, 95)), CountCheck::True);
        assert_eq!(
            check(count(100, 0, 1, 100)),
            CountCheck::Lied(
                "100 records acknowledged after a primer, but the topic has 100".to_owned()
            )
        );
        assert!(matches!(check(count(100, 0, 0, 0)), CountCheck::Lied(_)));
        assert!(matches!(check(count(100, 0, 0, 101)), CountCheck::Lied(_)));
        assert!(matches!(
            count(100, 0, 0, 101).check(1, true),
            CountCheck::Invalid(_)
        ));
        assert!(matches!(
            count(100, 0, 0, 99).check(0, false),
            CountCheck::Invalid(_)
        ));
    }
}
