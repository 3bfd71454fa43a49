//! The instrument against scripted targets, whose times are known: everything from the schedule over the workers'
//! lines to the cell of the run file, with instants from a script in place of a clock.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use weir_stats::run::{
    Cell, CellStatus, LatencySummary, Run, RunOutcome, STAGE_RESPONSE, STAGE_SCHEDULE_LAG,
    STAGE_SERVICE,
};
use weir_stats::{CompactHistogram, Histogram, hlog};

use super::child::{ChildEvent, ProcessRole};
use super::collect::Collected;
use super::result::{self, Measured, MeasuredWindow};
use super::usage::CellUsage;
use crate::plan::Plan;
use weir_load::clients::meter::DeliveryRecorder;
use weir_load::delivery::{Conflation, DeliveryChecker, DeliverySummary, Expected, Ledger};
use weir_load::keys::KeyTable;
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

/// A server that takes one record after the other, each for the same time, and does not begin one while it stalls.
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
        let mut begin = arrived.max(self.free_at);
        if (self.stall.0..self.stall.1).contains(&begin) {
            begin = self.stall.1;
        }
        self.free_at = begin + SERVICE;
        self.free_at
    }
}

/// A record on its way: when it was due, when it left, when it reached a client.
#[derive(Debug, Clone, Copy)]
struct TestArrival {
    client: usize,
    at: u64,
    stamp: Stamp,
}

/// All records of the window, each sent when `sent` says.
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

/// One client that gets every record from `target`.
fn served(stamps: &[Stamp], target: &mut ScriptedServer) -> Vec<TestArrival> {
    let arrival = |stamp: &Stamp| TestArrival {
        client: 0,
        at: target.done_at(stamp.sent_unix_ns.unwrap()),
        stamp: *stamp,
    };
    stamps.iter().map(arrival).collect()
}

/// Lines of a worker, kept.
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

/// A process with some of the clients: what it says while `arrivals` come, and its account in the end.
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
            meter.report(&events, next_report, BTreeMap::new());
            next_report += SECOND;
        }
        let stamp = &arrival.stamp;
        let response = meter.record(stamp.due_unix_ns, Some(stamp), arrival.at, Some(&schedule));
        let (checker, latency) = checks.get_mut(&arrival.client).unwrap();
        checker.on_delivery(key, stamp, response.is_some());
        latency.record_ns(response.unwrap_or(0));
    }
    meter.report(&events, next_report, BTreeMap::new());
    let ledger = Ledger::new(ledger, &mut keys);
    let mut summary = DeliverySummary {
        settled: true,
        latency_resolution_ns: 1,
        ..DeliverySummary::default()
    };
    for (checker, latency) in checks.values() {
        let counts = checker.settle(&ledger, Expected::All);
        let p99_us = latency.percentile_us(99.0);
        summary.add_client(&counts, p99_us.map(|us| us * 1000));
    }
    let said = lines.0.lock().unwrap();
    let events = said
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let events = events.map(|line| serde_json::from_slice(line).unwrap());
    (events.collect(), summary)
}

/// The cell that the runner makes of it, with the clients shared out over `workers` processes; and its log.
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
        "weir-proof-{}-{:?}-{workers}.hlog",
        std::process::id(),
        std::thread::current().id()
    ));
    let mut collected = Collected::new(&path, "proof", START).unwrap();
    let mut merged: Option<DeliverySummary> = None;
    for number in 0..workers {
        let share: Vec<usize> = (number..clients).step_by(workers).collect();
        let (events, summary) = worker(arrivals, &share, &ledger);
        for event in events {
            collected.take(ChildEvent::Event(ProcessRole::Clients, event));
        }
        match &mut merged {
            Some(merged) => merged.merge(&summary),
            None => merged = Some(summary),
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
    for (part, event) in [
        (ProcessRole::Produce, lag),
        (ProcessRole::Produce, last(Summary::Produce(produce))),
        (
            ProcessRole::Clients,
            last(Summary::Delivery(merged.unwrap())),
        ),
    ] {
        collected.take(ChildEvent::Event(part, event));
    }
    collected.flush();
    let window = MeasuredWindow {
        start_unix_ns: START,
        from_unix_ns: START,
        until_unix_ns: START + WINDOW_S * SECOND,
        interrupted: false,
    };
    let plan = Plan::built_in("broadcast").unwrap().unwrap();
    let cell = Cell {
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
    let cell = result::build(cell, &window, measured);
    let log = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    (cell, log)
}

/// To the histogram's three digits.
fn is(value_us: Option<f64>, expected_ms: f64) {
    let value_ms = value_us.expect("there are enough values") / 1e3;
    let error = (value_ms / expected_ms - 1.0).abs();
    assert!(error < 1.1e-3, "{value_ms} ms, expected {expected_ms}");
}

/// The percentiles of one server with a stall of 2 s. Record `k` of those that come while it lasts, and while the
/// queue behind it is worked off, is done `2000.5 - k / 2` ms after it was due; all others after half a millisecond.
fn is_analytic(summary: &LatencySummary) {
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
        is(value_us, late(slower));
    }
    is(summary.p50_us, 0.5);
    is(summary.p90_us, 0.5);
    let mean = (4000.0 * (late(0.0) + late(3999.0)) / 2.0 + 56_000.0 * 0.5) / 60_000.0;
    is(summary.mean_us, mean);
}

#[test]
fn percentiles_through_a_stall_are_the_analytic_ones() {
    let stamps = records(|due| due);
    let arrivals = served(
        &stamps,
        &mut ScriptedServer::stalling(10 * SECOND, 2 * SECOND),
    );
    let (cell, log) = measured(&stamps, &arrivals, 1);
    assert!(cell.is_valid(), "{:?}", cell.status);
    is_analytic(&cell.latency[STAGE_RESPONSE]);
    is_analytic(&cell.latency[STAGE_SERVICE]);
    assert_eq!(cell.delivery.as_ref().unwrap().lost, 0);
    assert!(
        cell.noisy
            .iter()
            .any(|span| span.why.contains("stands out")),
        "{:?}",
        cell.noisy
    );
    // What is on disk says the same.
    let (stages, errors) = hlog::merged_by_tag(&log);
    assert!(errors.is_empty(), "{errors:?}");
    let read = LatencySummary::of(&stages["response"], Default::default(), 1e-3);
    assert_eq!(read, cell.latency[STAGE_RESPONSE]);
}

/// The same stall in the generator: the response shows it all the same, the service time does not, and the cell
/// does not count.
#[test]
fn a_generator_that_stalls_is_caught() {
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
        reasons[0].starts_with("generator late: p99 1400.")
            || reasons[0].starts_with("generator late: p99 1399."),
        "{reasons:?}"
    );
    is(cell.latency[STAGE_SCHEDULE_LAG].p99_us, 1400.0);
    is_analytic(&cell.latency[STAGE_RESPONSE]);
    let service = &cell.latency[STAGE_SERVICE];
    is(service.p50_us, 0.5);
    assert!(service.max_us < Some(1_001_000.0), "{:?}", service.max_us);
    let plan = Plan {
        architectures: vec![crate::plan::Architecture::Gateway],
        thresholds: Vec::new(),
        ..Plan::built_in("broadcast").unwrap().unwrap()
    };
    let mut run = run_of(vec![cell]);
    super::conclude(&mut run, &plan, false);
    assert_eq!(
        run.outcome,
        RunOutcome::Invalid,
        "which ends the command with 4"
    );
}

fn run_of(cells: Vec<Cell>) -> Run {
    let empty = serde_json::json!({
        "schema": weir_stats::run::SCHEMA, "plan": "", "title": "", "question": "", "started_utc": "",
        "finished_utc": "", "command_line": [], "weir_version": "", "outcome": "passed", "verdict": "",
        "machine": {"cpu_model": "", "cpu_cores": 1, "memory_bytes": 0, "kernel": "", "os": ""},
        "clock": {"mode": "same_host", "bound_ns": 0},
    });
    Run {
        cells,
        ..Run::from_json(&empty.to_string()).unwrap()
    }
}

/// Five clients; each fault is done to one of them.
fn faulty() -> (Vec<Stamp>, Vec<TestArrival>) {
    let stamps = records(|due| due);
    let mut arrivals = Vec::new();
    for client in 0..5 {
        let arrival = |stamp: &Stamp| TestArrival {
            client,
            // Each client has a time of its own, so that workers differ.
            at: stamp.due_unix_ns + (client as u64 + 1) * MS,
            stamp: *stamp,
        };
        let mut own: Vec<TestArrival> = stamps.iter().map(arrival).collect();
        match client {
            1 => own.retain(|arrival| ![7, 8, 30_000].contains(&arrival.stamp.seq)),
            2 => {
                let twice = [own[100], own[200]];
                own.splice(
                    300..300,
                    twice.map(|arrival| TestArrival {
                        at: own[299].at,
                        ..arrival
                    }),
                );
            }
            3 => {
                let (first, second) = (own[500].stamp, own[501].stamp);
                (own[500].stamp, own[501].stamp) = (second, first);
            }
            // The last one is missing: nothing that came after tells.
            4 => drop(own.pop()),
            _ => {}
        }
        arrivals.extend(own);
    }
    // Stable: what one client gets keeps its order.
    arrivals.sort_by_key(|arrival| arrival.at);
    (stamps, arrivals)
}

#[test]
fn dropped_duplicated_and_reordered_records_are_each_found() {
    let (stamps, arrivals) = faulty();
    let (cell, _) = measured(&stamps, &arrivals, 1);
    assert!(
        cell.is_valid(),
        "faults of the system are results: {:?}",
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
fn many_workers_merge_to_what_one_says() {
    let (stamps, arrivals) = faulty();
    let (one, _) = measured(&stamps, &arrivals, 1);
    for workers in [2, 3, 5] {
        let (merged, _) = measured(&stamps, &arrivals, workers);
        assert_eq!(merged.latency, one.latency, "{workers} workers");
        assert_eq!(merged.delivery, one.delivery, "{workers} workers");
        assert_eq!(merged.fairness, one.fairness, "{workers} workers");
    }
    assert_eq!(one.fairness.unwrap().clients, 5);
}
