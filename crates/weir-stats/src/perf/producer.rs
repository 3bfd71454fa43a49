//! Output of the producer tool: one line for each five seconds, and one for the whole run.

use std::fmt;

/// One line of `kafka-producer-perf-test`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ProducerPerf {
    /// Records sent.
    pub records: u64,
    /// Records per second.
    pub records_per_s: f64,
    /// MB (2^20 bytes) per second.
    pub mib_per_s: f64,
    /// Mean time from the send to the acknowledgement.
    pub latency_mean_ms: f64,
    /// Maximum of this time.
    pub latency_max_ms: f64,
    /// Percentiles; only in the last line.
    pub tail: Option<PerfTail>,
}

/// Percentiles of the time from the send to the acknowledgement, in whole milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PerfTail {
    /// Median.
    pub p50_ms: u64,
    /// 95th percentile.
    pub p95_ms: u64,
    /// 99th percentile.
    pub p99_ms: u64,
    /// 99.9th percentile.
    pub p999_ms: u64,
}

/// The parsed output of one run of the tool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProducerReport {
    /// Lines for five seconds each.
    pub intervals: Vec<ProducerPerf>,
    /// Last line.
    pub total: Option<ProducerPerf>,
}

impl fmt::Display for ProducerPerf {
    /// Writes the line as the tool prints it, without the line feed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            records,
            records_per_s,
            mib_per_s,
            latency_mean_ms,
            latency_max_ms,
            tail,
        } = self;
        let Some(tail) = tail else {
            return write!(
                f,
                "{records} records sent, {records_per_s:.1} records/sec ({mib_per_s:.2} MB/sec), \
                 {latency_mean_ms:.1} ms avg latency, {latency_max_ms:.1} ms max latency."
            );
        };
        write!(
            f,
            "{records} records sent, {records_per_s:.6} records/sec ({mib_per_s:.2} MB/sec), \
             {latency_mean_ms:.2} ms avg latency, {latency_max_ms:.2} ms max latency, {} ms 50th, \
             {} ms 95th, {} ms 99th, {} ms 99.9th.",
            tail.p50_ms, tail.p95_ms, tail.p99_ms, tail.p999_ms
        )
    }
}

/// Parses the tool's output. Skips other lines and those of a warm-up.
pub fn parse_producer(text: &str) -> ProducerReport {
    let mut report = ProducerReport::default();
    for line in text.lines() {
        match parse_line(line) {
            Some(total) if total.tail.is_some() => report.total = Some(total),
            Some(interval) => report.intervals.push(interval),
            None => {}
        }
    }
    report
}

fn parse_line(line: &str) -> Option<ProducerPerf> {
    let mut parts = line.trim().trim_end_matches('.').split(", ");
    let first = parts.next()?;
    if !first.ends_with("records sent") || first.contains("warmup") {
        return None;
    }
    let mut perf = ProducerPerf {
        records: number(first)?,
        ..ProducerPerf::default()
    };
    let (rate, rest) = parts.next()?.split_once(" records/sec (")?;
    perf.records_per_s = rate.trim().parse().ok()?;
    perf.mib_per_s = number(rest.strip_suffix("MB/sec)")?)?;
    let mut tail = PerfTail::default();
    let mut percentiles = 0;
    for part in parts {
        let (value, what) = part.split_once(" ms ")?;
        match what {
            "avg latency" => perf.latency_mean_ms = number(value)?,
            "max latency" => perf.latency_max_ms = number(value)?,
            percentile => {
                let slot = match percentile {
                    "50th" => &mut tail.p50_ms,
                    "95th" => &mut tail.p95_ms,
                    "99th" => &mut tail.p99_ms,
                    "99.9th" => &mut tail.p999_ms,
                    _ => continue,
                };
                *slot = number(value)?;
                percentiles += 1;
            }
        }
    }
    perf.tail = (percentiles == 4).then_some(tail);
    Some(perf)
}

/// Parses the number at the start of a text.
fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three published lines of a proxy's performance test, and other output.
    const PRINTED: &str = "\
WARNING: something else
339458 records sent, 67891.6 records/sec (66.30 MB/sec), 0.7 ms avg latency, 41.0 ms max latency.
340690 records sent, 68138.0 records/sec (66.54 MB/sec), 0.4 ms avg latency, 8.0 ms max latency.
10000000 records sent, 68342.422876 records/sec (66.74 MB/sec), 3.92 ms avg latency, \
592.00 ms max latency, 0 ms 50th, 1 ms 95th, 116 ms 99th, 534 ms 99.9th.
";

    #[test]
    fn parsed_output_prints_the_same() {
        let report = parse_producer(PRINTED);
        assert_eq!(report.intervals.len(), 2);
        assert_eq!(report.intervals[0].records, 339_458);
        let total = report.total.expect("the last line");
        assert_eq!(total.latency_max_ms, 592.0);
        let tail = total.tail.expect("percentiles");
        assert_eq!((tail.p99_ms, tail.p999_ms), (116, 534));
        let lines: Vec<String> = report
            .intervals
            .iter()
            .chain([&total])
            .map(ToString::to_string)
            .collect();
        assert_eq!(lines, PRINTED.lines().skip(1).collect::<Vec<_>>());
    }

    #[test]
    fn warm_up_is_skipped_and_extra_words_allowed() {
        let text = "100 warmup records sent, 1.0 records/sec (0.10 MB/sec), 1.0 ms avg latency, \
                    2.0 ms max latency.\n\
                    50 steady state records sent, 10.000000 records/sec (0.10 MB/sec), \
                    1.00 ms avg latency, 2.00 ms max latency, 1 ms 50th, 2 ms 95th, \
                    2 ms 99th, 2 ms 99.9th.";
        let report = parse_producer(text);
        assert!(report.intervals.is_empty());
        assert_eq!(report.total.expect("steady state").records, 50);
    }

    #[test]
    fn other_lines_are_skipped() {
        for text in [
            "",
            "records sent",
            "x records sent, y",
            "5 records sent, 1 records/sec (",
            "5 records sent, 1 ms",
        ] {
            assert_eq!(parse_producer(text), ProducerReport::default(), "{text}");
        }
    }
}
