//! Names of a sweep's cells and their results, from any source.

use std::collections::BTreeMap;

use weir_stats::compare::aa_variants;
use weir_stats::knee::LoadPoint;
use weir_stats::perf::{ConsumerPerf, MIB, PerfTail, ProducerPerf, SweepFile};
use weir_stats::run::{Cell, CellStatus, LatencySummary, STAGE_PUBLISH_ACK, STAGE_SCHEDULE_LAG};

use super::context::{Measurer, SweepCell};
use super::plan::SweepPlan;
use crate::verdict;

// Architectures of Weir's cells, and of cells by Apache Kafka's tools.
pub(crate) const PRODUCER: &str = "producer";
pub(crate) const CONSUMER: &str = "consumer";
pub(crate) const KAFKA_PRODUCER: &str = "kafka_producer";
pub(crate) const KAFKA_CONSUMER: &str = "kafka_consumer";

// Parameters and figures.
pub(crate) const RECORD_SIZE: &str = "record_size_bytes";
pub(crate) const TARGET: &str = "target_per_s";
pub(crate) const FETCH_SIZE: &str = "fetch_size_bytes";
pub(crate) const RECORDS_PER_S: &str = "records_per_s";
pub(crate) const SPEED: &str = "mib_per_s";
pub(crate) const LATENCY_MEAN: &str = "latency_mean_ms";
pub(crate) const LATENCY_MAX: &str = "latency_max_ms";
pub(crate) const RESPONSE_MEAN: &str = "response_mean_ms";
pub(crate) const FETCH_RATE: &str = "fetch_rate_mib_per_s";

pub(super) fn empty_cell(
    plan: &SweepPlan,
    (job, by): (SweepCell, Measurer),
    repetition: u64,
) -> Cell {
    let is_weir = by != Measurer::Kafka;
    let [first, again] = aa_variants(None);
    let variant = match by {
        Measurer::Weir => Some(first).filter(|_| plan.aa_test),
        Measurer::WeirAgain => Some(again),
        Measurer::Kafka => None,
    };
    let cell = match job {
        SweepCell::Produce { size, target } => {
            let architecture = if is_weir { PRODUCER } else { KAFKA_PRODUCER };
            let parameters = vec![(RECORD_SIZE, size as f64), (TARGET, target as f64)];
            Cell {
                warm_up_s: plan.warm_up.as_secs_f64(),
                hold_s: plan.hold.as_secs_f64(),
                offered_records_per_s: target as f64,
                ..bare_cell(architecture, parameters, repetition)
            }
        }
        SweepCell::Consume { fetch_size } => {
            let architecture = if is_weir { CONSUMER } else { KAFKA_CONSUMER };
            bare_cell(
                architecture,
                vec![(FETCH_SIZE, fetch_size as f64)],
                repetition,
            )
        }
    };
    Cell { variant, ..cell }
}

fn bare_cell(architecture: &str, parameters: Vec<(&str, f64)>, repetition: u64) -> Cell {
    Cell {
        architecture: architecture.to_owned(),
        clients: 1,
        parameters: owned(parameters),
        repetition,
        ..Cell::default()
    }
}

/// Returns one line about a completed cell of a sweep.
pub(super) fn line(measured: &Cell) -> String {
    let figure = |name: &str| measured.figures.get(name).copied();
    let line = match (figure(RECORDS_PER_S), figure(FETCH_RATE)) {
        _ if !measured.is_valid() => return verdict::cell(measured),
        (Some(per_s), _) => format!(
            "{per_s:.0} records/s, {:.2} MB/s, mean {:.1} ms, max {:.1} ms",
            figure(SPEED).unwrap_or(0.0),
            figure(LATENCY_MEAN).unwrap_or(0.0),
            figure(LATENCY_MAX).unwrap_or(0.0),
        ),
        (None, Some(rate)) => format!(
            "{rate:.1} MB/s, {:.0} records/s, partitions after {:.0} ms",
            figure("fetch_messages_per_s").unwrap_or(0.0),
            figure("rebalance_ms").unwrap_or(0.0),
        ),
        (None, None) => "no results".to_owned(),
    };
    match &measured.not_sustained {
        Some(reason) => format!("{line}; not sustained: {reason}"),
        None => line,
    }
}

fn owned(values: Vec<(&str, f64)>) -> BTreeMap<String, f64> {
    let values = values.into_iter();
    values
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Sets the results of the published charts from the stages of Weir's producer.
pub(super) fn of_producer(cell: &mut Cell, per_s: f64, wire_bytes_per_s: Option<f64>) {
    let size = cell.parameters.get(RECORD_SIZE).copied().unwrap_or(0.0);
    let ack = cell.latency.get(STAGE_PUBLISH_ACK);
    let ms = |us: Option<f64>| us.map(|us| us / 1e3);
    let figures = [
        (RECORDS_PER_S, Some(per_s)),
        (SPEED, Some(per_s * size / MIB)),
        (LATENCY_MEAN, ms(ack.and_then(|ack| ack.mean_us))),
        (LATENCY_MAX, ms(ack.and_then(|ack| ack.max_us))),
        (RESPONSE_MEAN, ms(cell.response().and_then(|it| it.mean_us))),
        ("wire_mib_per_s", wire_bytes_per_s.map(|bytes| bytes / MIB)),
    ];
    let present = figures
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    cell.figures.extend(owned(present.collect()));
}

/// Sets whether the broker sustained the rate. A producer behind schedule without a full queue
/// makes the cell invalid.
pub(super) fn evaluate_producer(
    cell: &mut Cell,
    plan: &SweepPlan,
    (queue_full, failed): (u64, u64),
) {
    let achieved = cell.achieved_records_per_s.unwrap_or(0.0);
    let due = cell.offered_records_per_s;
    let lag_ms = cell.latency.get(STAGE_SCHEDULE_LAG);
    let lag_ms = lag_ms.and_then(|lag| lag.p99_us).map_or(0.0, |us| us / 1e3);
    let limit = plan.validity.schedule_lag_p99_ms;
    if lag_ms > limit && queue_full == 0 {
        let text = format!("generator behind schedule: p99 {lag_ms:.1} ms, limit {limit} ms");
        cell.status = CellStatus::Invalid {
            reasons: vec![text],
        };
    }
    cell.not_sustained = if failed > 0 {
        Some(format!("{failed} records failed"))
    } else {
        (achieved < due * ACHIEVED_SHARE_MIN)
            .then(|| format!("the broker accepted {achieved:.0} of {due} records/s"))
    };
}

/// Returns the results as the last line of Kafka's tool.
pub(super) fn producer_line(cell: &Cell, records: u64) -> ProducerPerf {
    let figure = |name: &str| cell.figures.get(name).copied().unwrap_or(0.0);
    let ack = cell.latency.get(STAGE_PUBLISH_ACK);
    let ms = |of: fn(&LatencySummary) -> Option<f64>| {
        let us = ack.and_then(|ack| of(ack).or(ack.max_us));
        (us.unwrap_or(0.0) / 1e3) as u64
    };
    ProducerPerf {
        records,
        records_per_s: figure(RECORDS_PER_S),
        mib_per_s: figure(SPEED),
        latency_mean_ms: figure(LATENCY_MEAN),
        latency_max_ms: figure(LATENCY_MAX),
        // With too few records for a percentile, the largest value stands for it.
        tail: Some(PerfTail {
            p50_ms: ms(|ack| ack.p50_us),
            p95_ms: ms(|ack| ack.p95_us),
            p99_ms: ms(|ack| ack.p99_us),
            p999_ms: ms(|ack| ack.p999_us),
        }),
    }
}

/// Sets the results from a producer's last line.
pub(super) fn of_producer_line(cell: &mut Cell, line: &ProducerPerf) {
    cell.achieved_records_per_s = Some(line.records_per_s);
    let us = |of: fn(PerfTail) -> u64| Some(of(line.tail?) as f64 * 1e3);
    let summary = LatencySummary {
        count: line.records,
        mean_us: Some(line.latency_mean_ms * 1e3),
        max_us: Some(line.latency_max_ms * 1e3),
        p50_us: us(|tail| tail.p50_ms),
        p95_us: us(|tail| tail.p95_ms),
        p99_us: us(|tail| tail.p99_ms),
        p999_us: us(|tail| tail.p999_ms),
        resolution_us: 1000.0,
        ..LatencySummary::default()
    };
    cell.latency.insert(STAGE_PUBLISH_ACK.to_owned(), summary);
    cell.figures.extend(line_figures(line));
}

pub(crate) fn line_figures(line: &ProducerPerf) -> BTreeMap<String, f64> {
    owned(vec![
        (RECORDS_PER_S, line.records_per_s),
        (SPEED, line.mib_per_s),
        (LATENCY_MEAN, line.latency_mean_ms),
        (LATENCY_MAX, line.latency_max_ms),
    ])
}

/// Sets the results from a consumer's row.
pub(super) fn of_consumer(cell: &mut Cell, row: &ConsumerPerf) {
    cell.figures.extend(owned(vec![
        ("data_mib", row.data_mib),
        ("rate_mib_per_s", row.mib_per_s),
        ("messages", row.messages as f64),
        ("messages_per_s", row.messages_per_s),
        ("rebalance_ms", row.rebalance_ms as f64),
        ("fetch_ms", row.fetch_ms as f64),
        (FETCH_RATE, row.fetch_mib_per_s),
        ("fetch_messages_per_s", row.fetch_messages_per_s),
    ]));
}

/// Returns a point of the throughput-latency curve, with the response time if known.
pub(super) fn load_point(cell: &Cell) -> Option<LoadPoint> {
    let figure = |name: &str| cell.figures.get(name).copied();
    Some(LoadPoint {
        offered_per_s: cell.parameters.get(TARGET).copied()?,
        achieved_per_s: figure(RECORDS_PER_S)?,
        latency_ms: figure(RESPONSE_MEAN).or_else(|| figure(LATENCY_MEAN))?,
    })
}

/// Returns the cells of a file written by other scripts.
pub(crate) fn imported(file: Option<SweepFile>, text: &str, number: u64) -> Vec<Cell> {
    let mut parameters = Vec::new();
    let mut offered = 0.0;
    match file {
        Some(SweepFile::Producer {
            record_size_bytes,
            target_per_s,
        }) => {
            parameters.push((RECORD_SIZE, record_size_bytes as f64));
            if let Some(target) = target_per_s {
                parameters.push((TARGET, target as f64));
                offered = target as f64;
            }
        }
        Some(SweepFile::Consumer { fetch_size_bytes }) => {
            parameters.push((FETCH_SIZE, fetch_size_bytes as f64));
        }
        None => {}
    }
    let empty = |architecture: &str, repetition| Cell {
        offered_records_per_s: offered,
        ..bare_cell(architecture, parameters.clone(), repetition)
    };
    let report = weir_stats::perf::parse_producer(text);
    // Interrupted runs have no last line; the last interval is used instead.
    let line = report.total.or_else(|| report.intervals.last().copied());
    if let Some(line) = line {
        let mut cell = empty(PRODUCER, number);
        of_producer_line(&mut cell, &line);
        if report.total.is_none() {
            let note = "no summary line: results are those of the last five seconds";
            cell.notes.push(note.to_owned());
        }
        if file.is_none() && line.records_per_s > 0.0 {
            let size = (line.mib_per_s * MIB / line.records_per_s).round();
            cell.parameters.insert(RECORD_SIZE.to_owned(), size);
        }
        if offered > 0.0 && line.records_per_s < offered * ACHIEVED_SHARE_MIN {
            let achieved = line.records_per_s;
            let reason = format!("{achieved:.0} of {offered} records/s");
            cell.not_sustained = Some(reason);
        }
        return vec![cell];
    }
    let rows = weir_stats::perf::parse_consumer(text);
    let rows = rows.iter().zip(number..);
    rows.map(|(row, number)| {
        let mut cell = empty(CONSUMER, number);
        of_consumer(&mut cell, row);
        cell
    })
    .collect()
}

const ACHIEVED_SHARE_MIN: f64 = 0.95;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::AnyPlan;

    const LINE: &str = "10000 records sent, 4000.000000 records/sec (3.81 MB/sec), \
                        3.92 ms avg latency, 592.00 ms max latency, \
                        0 ms 50th, 1 ms 95th, 116 ms 99th, 534 ms 99.9th.";

    #[test]
    fn imported_lines_have_chart_results() {
        let file = SweepFile::of_name("test-producer-1000-5000.txt");
        let cells = imported(file, LINE, 1);
        let cell = &cells[0];
        assert_eq!(
            cell.id(),
            "producer-1-record_size_bytes_1000-target_per_s_5000-1"
        );
        assert_eq!(cell.figures[RECORDS_PER_S], 4000.0);
        assert_eq!(cell.figures[LATENCY_MAX], 592.0);
        assert!(cell.is_valid() && !cell.is_sustained());
        let point = load_point(cell).unwrap();
        assert_eq!((point.offered_per_s, point.latency_ms), (5000.0, 3.92));
        let unnamed = imported(None, LINE, 2);
        assert_eq!(unnamed[0].parameters[RECORD_SIZE], 999.0);
        assert!(imported(None, "nothing", 1).is_empty());
    }

    #[test]
    fn aa_test_has_two_identical_variants() {
        let Some(Ok(AnyPlan::Sweep(plan))) = AnyPlan::built_in("broker-sweep") else {
            panic!("broker-sweep is a sweep");
        };
        let job = SweepCell::Consume { fetch_size: 1000 };
        let variant = |plan: &SweepPlan, by| empty_cell(plan, (job, by), 1).variant;
        assert_eq!(variant(&plan, Measurer::Weir), None);
        let plan = plan.aa_test();
        assert!(!plan.sweep.kafka_tools);
        let both = [Measurer::Weir, Measurer::WeirAgain].map(|by| variant(&plan, by));
        assert_eq!(both, aa_variants(None).map(Some));
    }

    #[test]
    fn written_line_parses_to_same_results() {
        let Some(Ok(AnyPlan::Sweep(plan))) = AnyPlan::built_in("broker-sweep") else {
            panic!("broker-sweep is a sweep");
        };
        let job = SweepCell::Produce {
            size: 1000,
            target: 5000,
        };
        let mut cell = empty_cell(&plan, (job, Measurer::Weir), 1);
        let ack = LatencySummary {
            mean_us: Some(2500.0),
            p50_us: Some(2000.0),
            max_us: Some(9000.0),
            ..LatencySummary::default()
        };
        cell.latency.insert(STAGE_PUBLISH_ACK.to_owned(), ack);
        of_producer(&mut cell, 4800.0, None);
        let line = producer_line(&cell, 48_000).to_string();
        let read = imported(None, &line, 1);
        assert_eq!(read[0].figures[RECORDS_PER_S], 4800.0);
        assert_eq!(read[0].latency[STAGE_PUBLISH_ACK].p50_us, Some(2000.0));
        assert_eq!(read[0].latency[STAGE_PUBLISH_ACK].p99_us, Some(9000.0));
        cell.achieved_records_per_s = Some(4800.0);
        evaluate_producer(&mut cell, &plan, (0, 0));
        assert!(cell.is_sustained());
        cell.achieved_records_per_s = Some(4700.0);
        evaluate_producer(&mut cell, &plan, (0, 0));
        assert_eq!(
            cell.not_sustained.as_deref(),
            Some("the broker accepted 4700 of 5000 records/s")
        );
    }
}
