//! Files of a sweep in the formats of Apache Kafka's performance tools.

use std::fs;
use std::path::Path;

use weir_stats::Histogram;
use weir_stats::perf::{CONSUMER_HEADER, ConsumerPerf, MIB, ProducerPerf, SweepFile};
use weir_stats::run::Cell;

use super::super::child::ProcessRole;
use super::super::collect::{Collected, LatencySpan};
use super::context::SweepContext;
use super::figures;
use crate::BenchError;
use crate::experiment::turns::CellResult;
use weir_load::local_time::LocalTime;
use weir_load::worker::protocol::ScanSummary;

/// Appends the cell's results in the format of `kafka-producer-perf-test`. Repetition 0 is the
/// warm-up and is not written.
pub(super) fn write_producer(
    context: SweepContext<'_>,
    cell: &Cell,
    collected: &Collected,
    (record_size, target_per_s): (u64, u64),
) -> CellResult {
    if cell.repetition == 0 {
        return Ok(());
    }
    let seconds = &collected.publish_acks;
    // Each machine reports every second.
    let machines = collected.shares(ProcessRole::Produce).len().max(1);
    let mut text = String::new();
    for chunk in seconds.chunks(INTERVAL_S * machines) {
        text.push_str(&interval(chunk, (machines, record_size)).to_string());
        text.push('\n');
    }
    let records = seconds.iter().map(|second| second.histogram.count()).sum();
    text.push_str(&figures::producer_line(cell, records).to_string());
    text.push('\n');
    let file = SweepFile::Producer {
        record_size_bytes: record_size,
        target_per_s: Some(target_per_s),
    };
    Ok(append(&context.run.run_dir.path.join(file.name()), &text)?)
}

/// Returns one line of the producer tool for several seconds of all machines.
fn interval(seconds: &[LatencySpan], (machines, record_size): (usize, u64)) -> ProducerPerf {
    let mut all = Histogram::new();
    let mut span_ns = 0;
    for second in seconds {
        all.merge(&second.histogram);
        span_ns += second.until_unix_ns.saturating_sub(second.from_unix_ns);
    }
    let per_s = all.count() as f64 * 1e9 * machines as f64 / (span_ns as f64).max(1.0);
    ProducerPerf {
        records: all.count(),
        records_per_s: per_s,
        mib_per_s: per_s * record_size as f64 / MIB,
        latency_mean_ms: all.mean_ns().unwrap_or(0.0) / 1e6,
        latency_max_ms: all.max_ns().unwrap_or(0) as f64 / 1e6,
        tail: None,
    }
}

/// Appends the cell's results in the format of `kafka-consumer-perf-test` and returns them.
pub(super) fn write_consumer(
    context: SweepContext<'_>,
    scan: &ScanSummary,
    fetch_size_bytes: u64,
) -> Result<ConsumerPerf, BenchError> {
    let row = consumer_row(scan);
    let name = SweepFile::Consumer { fetch_size_bytes }.name();
    let path = context.run.run_dir.path.join(name);
    let text = match path.exists() {
        false => format!("{CONSUMER_HEADER}\n{row}\n"),
        true => format!("{row}\n"),
    };
    append(&path, &text)?;
    Ok(row)
}

/// Returns the results in the format of Apache Kafka's consumer tool.
pub fn consumer_row(scan: &ScanSummary) -> ConsumerPerf {
    let mut local = LocalTime::system();
    let mut timestamp = |unix_ns: u64| {
        let text = String::from_utf8_lossy(&local.format(unix_ns)).into_owned();
        // The tool separates the milliseconds by a colon.
        text.replace('.', ":")
    };
    let end_unix_ns = scan.started_unix_ns + scan.elapsed_ns;
    let ms = |ns: u64| ns as f64 / 1e6;
    ConsumerPerf::of(
        (timestamp(scan.started_unix_ns), timestamp(end_unix_ns)),
        (scan.messages, scan.bytes),
        ms(scan.elapsed_ns),
        ms(scan.rebalance_ns),
    )
}

pub(super) fn append(path: &Path, text: &str) -> Result<(), BenchError> {
    use std::io::Write as _;
    let mut options = fs::OpenOptions::new();
    let opened = options.create(true).append(true).open(path);
    let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| BenchError::file(path, error))
}

/// Returns the sorted names of the files in `dir` that have the format of one of the tools.
pub(super) fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names
        .filter(|name| SweepFile::of_name(name).is_some())
        .collect();
    names.sort_unstable();
    names
}

/// Copies output files of the tools to `dir` and returns their cells.
pub(crate) fn import(files: &[std::path::PathBuf], dir: &Path) -> Result<Vec<Cell>, BenchError> {
    let mut cells: Vec<Cell> = Vec::new();
    for path in files {
        let text = fs::read_to_string(path).map_err(|error| BenchError::read(path, error))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        for mut cell in figures::imported(SweepFile::of_name(&name), &text, 1) {
            // Files with the same name, or without parameters in their name, are repetitions.
            while cells.iter().any(|other| other.id() == cell.id()) {
                cell.repetition += 1;
            }
            cell.notes.push(format!("from {name}"));
            let mut to = dir.join(&*name);
            if to.exists() {
                to = dir.join(format!("{}-{name}", cells.len() + 1));
            }
            fs::write(&to, &text).map_err(|error| BenchError::file(&to, error))?;
            cells.push(cell);
        }
    }
    Ok(cells)
}

/// Seconds that one line of the producer tool covers.
const INTERVAL_S: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scan_summary_formats_as_tool_row() {
        let scan = ScanSummary {
            started_unix_ns: 1_763_700_000_000_000_000,
            rebalance_ns: 500_000_000,
            elapsed_ns: 2_500_000_000,
            messages: 100_000,
            bytes: 100_000_000,
            ..ScanSummary::default()
        };
        let row = consumer_row(&scan);
        assert!(
            row.to_string().ends_with(
                ", 95.3674, 38.1470, 100000, 40000.0000, 500, 2000, 47.6837, 50000.0000"
            )
        );
        assert_eq!(row.start.len(), "2026-11-21 10:00:00:000".len());
        assert_eq!(row.start.matches(':').count(), 3);
    }

    #[test]
    fn seconds_are_summed_into_one_line() {
        let mut histogram = Histogram::new();
        histogram.record_n(2_000_000, 1000);
        let second = |from_unix_ns| LatencySpan {
            from_unix_ns,
            until_unix_ns: from_unix_ns + 1_000_000_000,
            histogram: histogram.clone(),
        };
        let seconds = [second(0), second(1_000_000_000)];
        let line = interval(&seconds, (1, 1_048_576)).to_string();
        assert_eq!(
            line,
            "2000 records sent, 1000.0 records/sec (1000.00 MB/sec), 2.0 ms avg latency, \
             2.0 ms max latency."
        );
    }
}
