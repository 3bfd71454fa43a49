//! Tests of the measurements with scripted servers of known timing. They cover everything from the
//! schedule and the workers' events to the cell in `run.json`, with scripted times instead of a
//! clock.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use weir_stats::run::{
    Cell, CellStatus, LatencySummary, Run, RunOutcome, STAGE_RESPONSE, STAGE_SCHEDULE_LAG,
    STAGE_SERVICE, ShareResult,
};
use weir_stats::{CompactHistogram, Histogram, hlog};

use super::child::{ChildEvent, ProcessRole, RoleInstance};
use super::collect::Collected;
use super::result::{self, Measured, MeasuredWindow};
use super::usage::CellUsage;
use crate::plan::Plan;
use weir_load::delivery::{Conflation, DeliveryChecker, DeliverySummary, Expected, Ledger};
use weir_load::keys::KeyTable;
use weir_load::meter::DeliveryRecorder;
use weir_load::pacer::{Pacer, Rate};
use weir_load::stamp::Stamp;
use weir_load::worker::EventSender;
use weir_load::worker::protocol::{
    LatencyInterval, LatencyTag, LedgerEntry, ProduceSummary, Schedule, Summary, WorkerEvent,
};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
const START: u64 = 1_700_000_000 * SECOND;
const RATE_PER_S: u64 = 1000;
const WINDOW_S: u64 = 60;
const SERVICE: u64 = MS / 2;

/// Server that processes one record at a time, each in the same time, and none while it stalls.
struct ScriptedServer {
    free_at: u64,
    stall: (u64, u64),
}

impl ScriptedServer {
    fn stalling(from: u64, length: u64) -> Self {
        Self {
            free_at: 0,
            stall: (START + from, START + from + length),
        }
    }

    fn done_at(&mut self, arrived: u64) -> u64 {
        let mut start = arrived.max(self.free_at);
        if (self.stall.0..self.stall.1).contains(&start) {
            start = self.stall.1;
        }
        self.free_at = start + SERVICE;
        self.free_at
    }
}

/// Record with its due time, send time and time of arrival at a client.
#[derive(Debug, Clone, Copy)]
struct TestArrival {
    client: usize,
    at: u64,
    stamp: Stamp,
}

/// Returns all records of the window; `sent` maps due time to send time.
fn records(sent: impl Fn(u64) -> u64) -> Vec<Stamp> {
    let pacer = Pacer::new(Rate::per_second(RATE_PER_S as f64).unwrap());
    let stamp = |index: u64| {
        let due_unix_ns = START + pacer.due_ns(index);
        Stamp {
            due_unix_ns,
            producer: 0,
            seq: index,
            sent_unix_ns: Some(sent(due_unix_ns)),
        }
    };
    (0..RATE_PER_S * WINDOW_S).map(stamp).collect()
}

/// Returns the arrivals at one client that receives every record from `target`.
fn served(stamps: &[Stamp], target: &mut ScriptedServer) -> Vec<TestArrival> {
    let arrival = |stamp: &Stamp| TestArrival {
        client: 0,
        at: target.done_at(stamp.sent_unix_ns.unwrap()),
        stamp: *stamp,
    };
    stamps.iter().map(arrival).collect()
}

/// Captured output of a worker.
#[derive(Clone, Default)]
struct ScriptedLines(Arc<Mutex<Vec<u8>>>);

impl Write for ScriptedLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the events and the summary of a worker that simulates `clients`.
fn worker(
    arrivals: &[TestArrival],
    clients: &[usize],
    ledger: &[LedgerEntry],
) -> (Vec<WorkerEvent>, DeliverySummary) {
    let schedule = Schedule {
        start_unix_ns: START,
        measure_from_unix_ns: START,
        measure_until_unix_ns: START + WINDOW_S * SECOND,
        stop_unix_ns: u64::MAX,
    };
    let lines = ScriptedLines::default();
    let events = EventSender::new(lines.clone());
    let mut meter = DeliveryRecorder::new(START);
    let mut keys = KeyTable::default();
    let key = keys.id(b"").unwrap();
    let mut checks: BTreeMap<usize, (DeliveryChecker, CompactHistogram)> = clients
        .iter()
        .map(|client| {
            let checker = DeliveryChecker::new(Conflation::Forbidden);
            (*client, (checker, CompactHistogram::default()))
        })
        .collect();
    let mut next_report = START + SECOND;
    for arrival in arrivals.iter().filter(|a| clients.contains(&a.client)) {
        while arrival.at >= next_report {
            meter.report(&events, next_report, &[]);
            next_report += SECOND;
        }
        let stamp = &arrival.stamp;
        let response = meter.record(stamp.due_unix_ns, Some(stamp), arrival.at, Some(&schedule));
        let (checker, latency) = checks.get_mut(&arrival.client).unwrap();
        checker.on_delivery(key, stamp, response.is_some());
        latency.record_ns(response.unwrap_or(0));
    }
    meter.report(&events, next_report, &[]);
    let ledger = Ledger::new(ledger, &mut keys);
    let mut summary = DeliverySummary {
        settled: true,
        latency_resolution_ns: 1,
        ..DeliverySummary::default()
    };
    for (checker, latency) in checks.values() {
        let counts = checker.settle(&ledger, Expected::All);
        let p99_us = latency.percentile_us(99.0);
        summary.add_client(&counts, p99_us);
    }
    let output = lines.0.lock().unwrap();
    let events = output
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let events = events.map(|line| serde_json::from_slice(line).unwrap());
    (events.collect(), summary)
}

/// Returns the cell with the clients distributed over `workers` processes, and its interval log.
fn measured(stamps: &[Stamp], arrivals: &[TestArrival], workers: usize) -> (Cell, String) {
    let ledger = [LedgerEntry {
        key: String::new(),
        producer: 0,
        first_seq: 0,
        last_seq: stamps.len() as u64 - 1,
        missing: Vec::new(),
        last_due_unix_ns: 0,
    }];
    let clients = arrivals.iter().map(|arrival| arrival.client).max().unwrap() + 1;
    let path = std::env::temp_dir().join(format!(
        "weir-validation-{}-{:?}-{workers}.hlog",
        std::process::id(),
        std::thread::current().id()
    ));
    let mut collected = Collected::new(&path, "validation", START).unwrap();
    if workers > 1 {
        let hosts = (0..workers).map(|number| format!("load-{number}"));
        collected.set_hosts(ProcessRole::Clients, hosts);
    }
    for number in 0..workers {
        let share: Vec<usize> = (number..clients).step_by(workers).collect();
        let (events, summary) = worker(arrivals, &share, &ledger);
        let instance = RoleInstance {
            role: ProcessRole::Clients,
            index: number,
        };
        let summary = Summary::Delivery(summary);
        let last = WorkerEvent::Final { summary };
        for event in events.into_iter().chain([last]) {
            collected.handle(ChildEvent::Event(instance, event));
        }
    }
    let mut lag = Histogram::new();
    for stamp in stamps {
        lag.record_ns(stamp.sent_unix_ns.unwrap() - stamp.due_unix_ns);
    }
    let produce = ProduceSummary {
        sent: stamps.len() as u64,
        acked_in_window: stamps.len() as u64,
        ledger: ledger.to_vec(),
        ..ProduceSummary::default()
    };
    let lag = WorkerEvent::Interval(LatencyInterval {
        from_unix_ns: START,
        until_unix_ns: START + WINDOW_S * SECOND,
        tag: LatencyTag::ScheduleLag,
        histogram: lag.to_base64(),
    });
    let last = |summary| WorkerEvent::Final { summary };
    for (role, event) in [
        (ProcessRole::Produce, lag),
        (ProcessRole::Produce, last(Summary::Produce(produce))),
    ] {
        collected.handle(ChildEvent::Event(role.into(), event));
    }
    collected.flush();
    let window = MeasuredWindow {
        start_unix_ns: START,
        from_unix_ns: START,
        until_unix_ns: START + WINDOW_S * SECOND,
        interrupted: false,
    };
    let plan = crate::plan::tests::built_in("broadcast");
    let mut cell = Cell {
        architecture: "gateway".to_owned(),
        clients: clients as u64,
        ..Cell::default()
    };
    let measured = Measured {
        plan: &plan,
        receiving: ProcessRole::Clients,
        collected: &collected,
        usage: &CellUsage::default(),
    };
    result::build(&mut cell, &window, measured);
    let log = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    (cell, log)
}

/// Compares values within the histogram's resolution of three digits.
fn assert_close(value_us: Option<f64>, expected_ms: f64) {
    let value_ms = value_us.expect("there are enough values") / 1e3;
    let error = (value_ms / expected_ms - 1.0).abs();
    assert!(error < 1.1e-3, "{value_ms} ms, expected {expected_ms}");
}

/// Checks the percentiles of one server with a stall of 2 s. Record `k` of those that arrive during
/// the stall, or while its queue is worked off, completes `2000.5 - k / 2` ms after its due time;
/// all others after half a millisecond.
fn assert_analytic(summary: &LatencySummary) {
    assert_eq!(summary.count, RATE_PER_S * WINDOW_S);
    let late = |rank: f64| 2000.5 - rank / 2.0;
    // Of 60,000 records, the slowest 5 % are 3,000, and so on.
    for (value_us, slower) in [
        (summary.p95_us, 3_000.0),
        (summary.p99_us, 600.0),
        (summary.p999_us, 60.0),
        (summary.p9999_us, 6.0),
        (summary.max_us, 0.0),
    ] {
        assert_close(value_us, late(slower));
    }
    assert_close(summary.p50_us, 0.5);
    assert_close(summary.p90_us, 0.5);
    let mean = (4000.0 * (late(0.0) + late(3999.0)) / 2.0 + 56_000.0 * 0.5) / 60_000.0;
    assert_close(summary.mean_us, mean);
}

#[test]
fn stall_percentiles_match_analytic_values() {
    let stamps = records(|due| due);
    let arrivals = served(
        &stamps,
        &mut ScriptedServer::stalling(10 * SECOND, 2 * SECOND),
    );
    let (cell, log) = measured(&stamps, &arrivals, 1);
    assert!(cell.is_valid(), "{:?}", cell.status);
    assert_analytic(&cell.latency[STAGE_RESPONSE]);
    assert_analytic(&cell.latency[STAGE_SERVICE]);
    assert_eq!(cell.delivery.as_ref().unwrap().lost, 0);
    assert!(
        cell.noisy
            .iter()
            .any(|span| span.reason.contains("is an outlier")),
        "{:?}",
        cell.noisy
    );
    // The interval log contains the same values.
    let mut response = Histogram::new();
    for interval in hlog::IntervalLogReader::new(&log).map(Result::unwrap) {
        if interval.tag == "response" {
            response.merge(&interval.histogram);
        }
    }
    let read = LatencySummary::of(&response, Default::default(), 1e-3);
    assert_eq!(read, cell.latency[STAGE_RESPONSE]);
}

/// The generator stalls: the response time includes the stall, the service time does not, and the
/// cell is invalid.
#[test]
fn generator_stall_invalidates_the_cell() {
    let (from, until) = (START + 10 * SECOND, START + 12 * SECOND);
    let stamps = records(|due| match (from..until).contains(&due) {
        true => until,
        false => due,
    });
    let arrivals = served(&stamps, &mut ScriptedServer::stalling(u64::MAX / 4, 1));
    let (cell, _) = measured(&stamps, &arrivals, 1);
    let CellStatus::Invalid { reasons } = &cell.status else {
        panic!("{:?}", cell.status);
    };
    assert!(
        reasons[0].starts_with("generator behind schedule: p99 1400.")
            || reasons[0].starts_with("generator behind schedule: p99 1399."),
        "{reasons:?}"
    );
    assert_close(cell.latency[STAGE_SCHEDULE_LAG].p99_us, 1400.0);
    assert_analytic(&cell.latency[STAGE_RESPONSE]);
    let service = &cell.latency[STAGE_SERVICE];
    assert_close(service.p50_us, 0.5);
    assert!(service.max_us < Some(1_001_000.0), "{:?}", service.max_us);
    let plan = Plan {
        architectures: vec![crate::plan::Architecture::Gateway],
        thresholds: Vec::new(),
        ..(*crate::plan::tests::built_in("broadcast")).clone()
    };
    let mut run = run_of(vec![cell]);
    super::runner::conclude(&mut run, &plan, false);
    assert_eq!(run.outcome, RunOutcome::Invalid, "exit code 4");
}

fn run_of(cells: Vec<Cell>) -> Run {
    let empty = serde_json::json!({
        "schema": weir_stats::run::SCHEMA, "plan": "", "title": "", "question": "",
        "started_utc": "", "finished_utc": "", "command_line": [], "weir_version": "",
        "outcome": "complete", "verdict": "",
        "confidence": {"level": "conclusive", "reasons": []},
        "machine": {"cpu_model": "", "cpu_cores": 1, "memory_bytes": 0, "kernel": "", "os": ""},
        "clock": {"mode": "same_host", "bound_ns": 0},
    });
    Run {
        cells,
        ..Run::from_json(&empty.to_string()).unwrap()
    }
}

/// Returns records and arrivals of five clients, with a different fault in each of four.
fn faulty() -> (Vec<Stamp>, Vec<TestArrival>) {
    let stamps = records(|due| due);
    let mut arrivals = Vec::new();
    for client in 0..5 {
        let arrival = |stamp: &Stamp| TestArrival {
            client,
            // A different delay per client, so that the workers differ.
            at: stamp.due_unix_ns + (client as u64 + 1) * MS,
            stamp: *stamp,
        };
        let mut own: Vec<TestArrival> = stamps.iter().map(arrival).collect();
        match client {
            1 => own.retain(|arrival| ![7, 8, 30_000].contains(&arrival.stamp.seq)),
            2 => {
                let repeated = [own[100], own[200]];
                own.splice(
                    300..300,
                    repeated.map(|arrival| TestArrival {
                        at: own[299].at,
                        ..arrival
                    }),
                );
            }
            3 => {
                let (first, second) = (own[500].stamp, own[501].stamp);
                (own[500].stamp, own[501].stamp) = (second, first);
            }
            // The last record is missing: no later record reveals the gap.
            4 => drop(own.pop()),
            _ => {}
        }
        arrivals.extend(own);
    }
    // Stable sort: each client's arrivals keep their order.
    arrivals.sort_by_key(|arrival| arrival.at);
    (stamps, arrivals)
}

#[test]
fn lost_duplicated_and_reordered_records_are_counted() {
    let (stamps, arrivals) = faulty();
    let (cell, _) = measured(&stamps, &arrivals, 1);
    assert!(
        cell.is_valid(),
        "faults of the system under test are results: {:?}",
        cell.status
    );
    let delivery = cell.delivery.unwrap();
    assert_eq!(
        (delivery.lost, delivery.duplicated, delivery.reordered),
        (3 + 1, 2, 1)
    );
    assert_eq!(delivery.expected, 5 * RATE_PER_S * WINDOW_S);
    assert_eq!(delivery.delivered, delivery.expected - 4);
    assert_eq!((delivery.conflated, delivery.unchecked), (0, 0));
}

#[test]
fn merged_workers_equal_a_single_worker() {
    let (stamps, arrivals) = faulty();
    let (one, _) = measured(&stamps, &arrivals, 1);
    for workers in [2, 3, 5] {
        let (merged, _) = measured(&stamps, &arrivals, workers);
        assert_eq!(merged.latency, one.latency, "{workers} workers");
        assert_eq!(merged.delivery, one.delivery, "{workers} workers");
        assert_eq!(merged.fairness, one.fairness, "{workers} workers");
        assert_eq!(merged.shares.len(), workers);
        let shares = |of: fn(&ShareResult) -> u64| merged.shares.iter().map(of).sum::<u64>();
        let delivery = merged.delivery.as_ref().unwrap();
        assert_eq!(shares(|it| it.clients), merged.clients);
        assert_eq!(shares(|it| it.delivered), delivery.delivered);
        assert_eq!(shares(|it| it.lost), delivery.lost);
        let response = &merged.latency[STAGE_RESPONSE];
        assert_eq!(shares(|it| it.response.count), response.count);
    }
    assert_eq!(one.fairness.unwrap().clients, 5);
}
