//! Converts a driver's result to a sample: timestamps become durations, and problems that
//! invalidate the sample are listed.

use weir_drivers::{
    Burst, Consumed, Copied, CopyTopic, Delivered, ProduceCommand, Produced, RoundTrip,
    RoundTripped,
};
use weir_stats::run::{Distribution, LibrarySample};

use super::profile::KEY_BYTES;

pub(super) fn produced(sample: &mut LibrarySample, request: &ProduceCommand, reported: Produced) {
    let marks = reported.marks;
    sample.send_us = Some(us(marks.t0, marks.t1));
    sample.delivered_us = Some(us(marks.t0, marks.t2));
    sample.create_us = reported.create_us;
    sample.send_calls_us = reported.send_us;
    sample.jni_calls = reported.jni_calls;
    sample.cpu_us = reported.cpu_us;
    let delivered = &reported.delivered;
    records(sample, &request.burst, delivered.acked, delivered);
}

pub(super) fn consumed(sample: &mut LibrarySample, reported: &Consumed) {
    let marks = reported.marks;
    sample.join_us = Some(us(marks.s0, marks.s1));
    sample.first_us = Some(us(marks.s1, marks.s2));
    sample.drain_us = Some(us(marks.s2, marks.s3));
    sample.legacy_us = Some(us(marks.s1, marks.s4.unwrap_or(marks.s3)));
    sample.commit_us = marks.s4.map(|s4| us(marks.s3, s4));
    sample.cpu_us = reported.cpu_us;
    sample.drain_cpu_us = Some(reported.drain_cpu_us);
    sample.jni_calls = reported.jni_calls;
    sample.records = reported.got;
    sample.bytes = reported.bytes;
    sample.failed = reported.bad;
    bad_records(sample, reported.bad, reported.got);
}

pub(super) fn copied(sample: &mut LibrarySample, request: &CopyTopic, reported: &Copied) {
    let marks = reported.marks;
    sample.join_us = Some(us(marks.s0, marks.s1));
    sample.first_us = Some(us(marks.s1, marks.s2));
    sample.copied_us = Some(us(marks.s2, marks.t2));
    sample.cpu_us = reported.cpu_us;
    sample.drain_cpu_us = Some(reported.copy_cpu_us);
    sample.jni_calls = reported.jni_calls;
    let delivered = &reported.delivered;
    records(sample, &request.burst, delivered.acked, delivered);
    bad_records(sample, reported.bad, reported.got);
}

fn bad_records(sample: &mut LibrarySample, bad: u64, got: u64) {
    if bad > 0 {
        let text = format!("{bad} of {got} records differ from those written");
        sample.invalid.push(text);
    }
}

pub(super) fn round_tripped(
    sample: &mut LibrarySample,
    request: &RoundTrip,
    reported: RoundTripped,
) {
    let (marks, got, acked) = (reported.marks, reported.got, reported.delivered.acked);
    sample.send_us = Some(us(marks.t0, marks.t1));
    sample.delivered_us = Some(us(marks.t0, marks.t2));
    sample.roundtrip_us = Some(us(marks.t0, marks.r1));
    sample.cpu_us = reported.cpu_us;
    sample.jni_calls = reported.jni_calls;
    records(sample, &request.burst, got, &reported.delivered);
    sample.latency = Some(reported.latency);
    if got != acked {
        let text = format!("{acked} records were acknowledged, but {got} were received");
        sample.invalid.push(text);
    }
    if request.rate > 0.0 {
        open_loop(sample, request.burst.count, request.rate, &reported.pacing);
        sample.pacing = Some(reported.pacing);
    }
}

/// Marks the sample if the load was not as requested. The sample stays valid.
fn open_loop(sample: &mut LibrarySample, records: u64, rate: f64, pacing: &Distribution) {
    let sent_us = sample.send_us.unwrap_or(0.0);
    // The first record is due when the clock starts.
    let achieved = (sent_us > 0.0).then(|| (records.saturating_sub(1)) as f64 * 1e6 / sent_us);
    sample.achieved_per_s = achieved;
    if let Some(achieved) = achieved.filter(|it| records > 1 && *it < rate * ACHIEVED_SHARE) {
        let text = format!("sent {achieved:.0} of {rate} records/s");
        sample.marks.push(text);
    }
    if let Some(late_us) = pacing.percentile_us(99.0).filter(|us| *us >= PACING_P99_US) {
        let text = format!("schedule lag: p99 {:.1} ms", late_us as f64 / 1e3);
        sample.marks.push(text);
    }
}

/// Sets the number of records, their bytes and those that failed.
fn records(sample: &mut LibrarySample, burst: &Burst, records: u64, delivered: &Delivered) {
    sample.records = records;
    sample.bytes = records.saturating_mul(burst.len + KEY_BYTES);
    sample.failed = delivered.failed;
    if delivered.failed > 0 {
        let reason = delivered
            .errors
            .first()
            .map_or("no reason given", String::as_str);
        let text = format!("{} records were not delivered: {reason}", delivered.failed);
        sample.invalid.push(text);
    }
}

/// Record counts of the driver and of the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordCount {
    /// Records that the driver reports as delivered.
    pub(super) acked: u64,
    /// Records that the driver reports as failed; the broker may have stored them.
    pub(super) failed: u64,
    /// Records that the driver sent before starting the clock, 0 or 1.
    pub(super) primers: u64,
    /// End offset of the topic's partition.
    pub(super) end: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CountCheck {
    Match,
    /// The sample is invalid, but the driver's report is possible.
    Invalid(String),
    /// The driver's report is impossible.
    Mismatch(String),
}

impl RecordCount {
    /// Compares the counts. With `acks` 0, records may be missing; with retries, records may be
    /// duplicated.
    pub(super) fn check(self, acks: i64, may_retry: bool) -> CountCheck {
        let min = self.acked + self.primers;
        let max = min + self.failed;
        let primer = ["", " after a primer"][usize::from(self.primers > 0)];
        let (acked, end) = (self.acked, self.end);
        let mismatch = format!("{acked} records acknowledged{primer}, but the topic has {end}");
        match self.end {
            end if end < min && acks == 0 => {
                CountCheck::Invalid(format!("{} records were lost with acks 0", min - end))
            }
            end if end < min => CountCheck::Mismatch(mismatch),
            end if end > max && may_retry => {
                CountCheck::Invalid(format!("{} records were duplicated", end - max))
            }
            end if end > max => CountCheck::Mismatch(mismatch),
            _ => CountCheck::Match,
        }
    }
}

fn us(from_ns: u64, until_ns: u64) -> f64 {
    until_ns.saturating_sub(from_ns) as f64 / 1e3
}

/// Minimum share of the rate.
const ACHIEVED_SHARE: f64 = 0.99;
const PACING_P99_US: u64 = 1000;

#[cfg(test)]
mod tests {
    use weir_drivers::{AssignmentMode, ConsumeMarks, CopyMarks, ProduceMarks, RoundTripMarks};

    use weir_drivers::ProducerState;

    use super::*;

    fn burst() -> Burst {
        Burst {
            topic: String::new(),
            len: 100,
            count: 1000,
            seed: 1,
        }
    }

    #[test]
    fn timestamps_become_durations() {
        let mut sample = LibrarySample::default();
        let reported = Produced {
            jni_calls: Some(3960),
            marks: ProduceMarks {
                t0: 1_000,
                t1: 2_500_000,
                t2: 9_001_000,
            },
            cpu_us: 77.0,
            delivered: Delivered {
                acked: 990,
                failed: 10,
                errors: vec!["queue full".to_owned()],
            },
            create_us: None,
            send_us: None,
        };
        let request = ProduceCommand {
            burst: burst(),
            state: ProducerState::Warm,
            per_record: false,
        };
        produced(&mut sample, &request, reported);
        assert_eq!(
            (sample.send_us, sample.delivered_us),
            (Some(2499.0), Some(9000.0))
        );
        assert_eq!((sample.records, sample.bytes), (990, 990 * 108));
        assert_eq!(sample.jni_calls, Some(3960));
        assert_eq!(
            sample.invalid,
            ["10 records were not delivered: queue full"]
        );

        let mut sample = LibrarySample::default();
        let mut reported = Consumed {
            jni_calls: None,
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
        consumed(&mut sample, &reported);
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
        reported.marks.s4 = Some(10_000_000);
        reported.bad = 2;
        consumed(&mut sample, &reported);
        assert_eq!((sample.legacy_us, sample.commit_us), (Some(9e3), Some(3e3)));
        assert_eq!(sample.invalid.len(), 1);
    }

    #[test]
    fn copies_have_the_time_from_reading_to_delivery() {
        let mut sample = LibrarySample::default();
        let request = CopyTopic {
            burst: burst(),
            to: String::new(),
            via: AssignmentMode::Assign,
        };
        let mut reported = Copied {
            marks: CopyMarks {
                s0: 0,
                s1: 1_000_000,
                s2: 3_000_000,
                t1: 7_000_000,
                t2: 8_000_000,
            },
            cpu_us: 6.0,
            copy_cpu_us: 5.0,
            got: 1000,
            bytes: 108_000,
            delivered: Delivered {
                acked: 1000,
                ..Delivered::default()
            },
            ..Copied::default()
        };
        copied(&mut sample, &request, &reported);
        assert_eq!((sample.first_us, sample.copied_us), (Some(2e3), Some(5e3)));
        assert_eq!((sample.records, sample.bytes), (1000, 108_000));
        assert!(sample.invalid.is_empty());
        reported.bad = 1;
        reported.delivered.failed = 2;
        copied(&mut sample, &request, &reported);
        assert_eq!(sample.invalid.len(), 2, "{:?}", sample.invalid);
    }

    fn open(sent_ns: u64, late_us: u64) -> LibrarySample {
        let reported = RoundTripped {
            jni_calls: None,
            marks: RoundTripMarks {
                t0: 0,
                t1: sent_ns,
                t2: sent_ns,
                r1: sent_ns,
            },
            cpu_us: 1.0,
            delivered: Delivered {
                acked: 1000,
                ..Delivered::default()
            },
            got: 1000,
            latency: Distribution::default(),
            pacing: Distribution {
                count: 1000,
                pairs: vec![(50, 900), (late_us, 100)],
                ..Distribution::default()
            },
        };
        let mut sample = LibrarySample::default();
        let request = RoundTrip {
            burst: burst(),
            rate: 500.0,
        };
        round_tripped(&mut sample, &request, reported);
        sample
    }

    #[test]
    fn missed_open_loop_rate_is_only_marked() {
        let steady = open(1_998_000_000, 999);
        assert!(
            steady.marks.is_empty() && steady.invalid.is_empty(),
            "{steady:?}"
        );
        assert_eq!(steady.achieved_per_s, Some(500.0));
        let slow = open(2_100_000_000, 999);
        assert_eq!(slow.marks, ["sent 476 of 500 records/s"]);
        let late = open(1_998_000_000, 1500);
        assert_eq!(late.marks, ["schedule lag: p99 1.5 ms"]);
        assert!(late.invalid.is_empty());
    }

    #[test]
    fn acked_records_missing_on_broker_fail_check() {
        let count = |acked, failed, primers, end| RecordCount {
            acked,
            failed,
            primers,
            end,
        };
        let check = |count: RecordCount| count.check(1, false);
        assert_eq!(check(count(100, 0, 0, 100)), CountCheck::Match);
        assert_eq!(check(count(100, 0, 1, 101)), CountCheck::Match);
        // Given up by the library, but written.
        assert_eq!(check(count(90, 10, 0, 95)), CountCheck::Match);
        assert_eq!(
            check(count(100, 0, 1, 100)),
            CountCheck::Mismatch(
                "100 records acknowledged after a primer, but the topic has 100".to_owned()
            )
        );
        assert!(matches!(
            check(count(100, 0, 0, 0)),
            CountCheck::Mismatch(_)
        ));
        assert!(matches!(
            check(count(100, 0, 0, 101)),
            CountCheck::Mismatch(_)
        ));
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
