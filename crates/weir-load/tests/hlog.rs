//! Reads interval logs with HdrHistogram's own log processor, without changes.

use std::sync::atomic::AtomicBool;

use weir_lab::{KAFKA_VERSION, KafkaTools};
use weir_stats::{Histogram, hlog};

const SECOND_NS: u64 = 1_000_000_000;
const BASE_UNIX_NS: u64 = 1_700_000_000 * SECOND_NS;

/// Returns a log of ten seconds of two unrelated stages, and each stage merged.
fn log() -> (String, [(&'static str, Histogram); 2]) {
    let mut writer =
        hlog::IntervalLogWriter::new(Vec::new(), BASE_UNIX_NS, &["a cell", "in nanoseconds"])
            .unwrap();
    let mut merged = [
        ("response", Histogram::new()),
        ("publish_ack", Histogram::new()),
    ];
    for second in 0..10_u64 {
        let from = BASE_UNIX_NS + second * SECOND_NS;
        for (stage, (tag, all)) in (1_u64..).zip(&mut merged) {
            let mut interval = Histogram::new();
            for step in 1..=500_u64 {
                // From microseconds to some seconds.
                interval.record_n(stage * step * step * (17_000 + second), 1 + step % 3);
            }
            writer
                .write(tag, from, from + SECOND_NS, &interval)
                .unwrap();
            all.merge(&interval);
        }
    }
    (String::from_utf8(writer.into_inner()).unwrap(), merged)
}

/// Returns the rows of the processor's percentile table: value in nanoseconds, cumulative count.
fn processed(tools: &KafkaTools, path: &std::path::Path, tag: &str) -> Vec<(f64, u64)> {
    let mut command = tools.command("org.HdrHistogram.HistogramLogProcessor");
    command
        .arg("-i")
        .arg(path)
        .args(["-tag", tag, "-csv", "-outputValueUnitRatio", "1"]);
    let output = command.output().unwrap();
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    assert!(output.status.success(), "{stdout}{stderr}");
    let row = |line: &str| {
        let mut cells = line.split(',');
        let value = cells.next()?.parse().ok()?;
        Some((value, cells.nth(1)?.parse().ok()?))
    };
    stdout.lines().filter_map(row).collect()
}

#[test]
fn upstream_reader_opens_interval_logs() {
    let stop = AtomicBool::new(false);
    let tools = KafkaTools::find(KAFKA_VERSION, &mut |_| {}, &stop).unwrap();
    let (text, merged) = log();
    let path = std::env::temp_dir().join(format!("weir-upstream-{}.hlog", std::process::id()));
    std::fs::write(&path, text).unwrap();
    for (tag, histogram) in &merged {
        let rows = processed(&tools, &path, tag);
        assert!(rows.len() > 20, "{tag}: {rows:?}");
        assert_eq!(rows.last().unwrap().1, histogram.count(), "{tag}");
        for (value_ns, count) in rows {
            let buckets = histogram
                .buckets()
                .filter(|(upper, _)| *upper as f64 <= value_ns + 0.5);
            let ours: u64 = buckets.map(|(_, count)| count).sum();
            assert_eq!(ours, count, "{tag}: values up to {value_ns} ns");
        }
    }
    std::fs::remove_file(path).unwrap();
}
