//! A synthetic run with every kind of content, for the tests of all formats.

#![allow(dead_code, unreachable_pub, reason = "shared by several test programs")]

pub mod agreement;
pub mod libraries;
pub mod page;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use weir_stats::run::{
    Cell, CellStatus, ClockInfo, ClockMode, Confidence, ConfidenceLevel, DeliveryTotals, Fairness,
    LatencySummary, Machine, Placement, ReferenceFigures, ReferenceRow, RoleUsage, Run, RunFile,
    RunOutcome, SCHEMA, STAGE_PUBLISH_ACK, STAGE_RESPONSE, STAGE_SCHEDULE_LAG, SdkProbe,
    SeriesPoint, SettingGroup, ThresholdResult, ThresholdStatus,
};
use weir_stats::{Histogram, NegativeCount, hlog};

/// A topic name with markup and escape sequences of every format.
pub const NASTY: &str = "<script>alert('x')</script>|`$(rm)`\"&\u{1b}[31m\nhttp://evil.example/";

const HOLD_S: u64 = 12;
const BASE_UNIX_NS: u64 = 1_795_268_320_000_000_000;
const LEVELS: [u64; 3] = [1_000, 4_000, 10_000];

/// The run and its raw histograms by cell id.
#[derive(Clone)]
pub struct Sample {
    pub run: Run,
    logs: BTreeMap<String, Vec<(String, Vec<Histogram>)>>,
}

/// A pseudo-random number generator with a fixed seed; values from 0 to 1.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a long-tailed latency around `typical_us`.
    fn latency_ns(&mut self, typical_us: f64) -> u64 {
        let normal: f64 = (0..6).map(|_| self.roll()).sum::<f64>() - 3.0;
        let tail = if self.roll() < 0.01 {
            1.0 + 6.0 * self.roll()
        } else {
            1.0
        };
        (typical_us * 1e3 * (normal * 0.55).exp() * tail) as u64
    }
}

/// Returns three architectures at three levels in two repetitions, with one invalid and one skipped
/// cell and hostile names.
pub fn sample() -> Sample {
    // Created once: thousands of records in unoptimised histograms take time.
    static SAMPLE: OnceLock<Sample> = OnceLock::new();
    SAMPLE.get_or_init(make).clone()
}

fn make() -> Sample {
    let mut logs = BTreeMap::new();
    let mut cells = Vec::new();
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for repetition in 1..=2 {
        for clients in LEVELS {
            for architecture in ["floor", "gateway", "standalone"] {
                cells.push(cell(
                    architecture,
                    clients,
                    repetition,
                    &mut dice,
                    &mut logs,
                ));
            }
        }
    }
    Sample {
        run: run(cells),
        logs,
    }
}

impl Sample {
    /// Writes `run.json` and the interval logs like the benchmark runner.
    pub fn write(&self, dir: &Path) {
        fs::create_dir_all(dir).unwrap();
        for (id, stages) in &self.logs {
            let file = fs::File::create(dir.join(format!("{id}.hlog"))).unwrap();
            let mut writer =
                hlog::IntervalLogWriter::new(file, BASE_UNIX_NS, &["weir", id]).unwrap();
            for (tag, seconds) in stages {
                for (second, histogram) in seconds.iter().enumerate() {
                    let from_ns = BASE_UNIX_NS + second as u64 * 1_000_000_000;
                    writer
                        .write(tag, from_ns, from_ns + 1_000_000_000, histogram)
                        .unwrap();
                }
            }
        }
        fs::write(dir.join("run.json"), self.run.to_json()).unwrap();
    }
}

fn cell(
    architecture: &str,
    clients: u64,
    repetition: u64,
    dice: &mut Dice,
    logs: &mut BTreeMap<String, Vec<(String, Vec<Histogram>)>>,
) -> Cell {
    let mut cell = Cell {
        architecture: architecture.into(),
        clients,
        repetition,
        warm_up_s: 5.0,
        hold_s: HOLD_S as f64,
        offered_records_per_s: 100.0,
        record_bytes_mean: Some(1_041.0),
        ..Cell::default()
    };
    if architecture == "standalone" && clients == 10_000 {
        cell.status = CellStatus::Skipped {
            reason: "after the invalid level 4000".into(),
        };
        return cell;
    }
    if architecture == "standalone" && clients == 4_000 {
        let reason = format!("generator lag p99 812 ms exceeds 50 ms on topic {NASTY}");
        cell.status = CellStatus::Invalid {
            reasons: vec![reason],
        };
    }
    if architecture == "gateway" && clients == 10_000 {
        cell.not_sustained = Some("mean response 1200 ms, limit 1000 ms".into());
        cell.saturated_role = Some("gateway".into());
        cell.saturation_reason = Some("thread shard-0 had 97 % of a core".into());
    }
    let load = clients as f64 / 1_000.0;
    let (typical_us, cpu_us) = match architecture {
        "floor" => (900.0 + 160.0 * load, 3.1 + 0.02 * load),
        "gateway" => (1_000.0 + 190.0 * load, 3.6 + 0.03 * load),
        _ => (4_000.0 + 9_000.0 * load * load, 41.0 + 2.0 * load),
    };
    let cpu_us = cpu_us * (0.97 + 0.06 * dice.roll());
    measure(&mut cell, typical_us, dice, logs);
    roles(&mut cell, cpu_us);
    cell
}

fn measure(
    cell: &mut Cell,
    typical_us: f64,
    dice: &mut Dice,
    logs: &mut BTreeMap<String, Vec<(String, Vec<Histogram>)>>,
) {
    let per_second = (cell.clients as f64 * 2.5) as u64;
    let (mut all, mut seconds, mut lags) = (Histogram::new(), Vec::new(), Vec::new());
    for second in 0..HOLD_S {
        let mut histogram = Histogram::new();
        let swell = if second == 7 {
            2.4
        } else {
            1.0 + 0.1 * dice.roll()
        };
        for _ in 0..400 {
            histogram.record_n(dice.latency_ns(typical_us * swell), per_second / 400);
        }
        let mut lag = Histogram::new();
        (0..100).for_each(|_| lag.record_ns(dice.latency_ns(45.0)));
        let us = |value_ns: Option<u64>| value_ns.map(|ns| ns as f64 / 1e3);
        cell.series.push(SeriesPoint {
            t_s: (second + 1) as f64,
            offered_per_s: Some(100.0),
            achieved_per_s: Some(100.0),
            delivered_per_s: Some(histogram.count() as f64),
            p50_us: us(histogram.percentile_ns(50.0)),
            p99_us: us(histogram.percentile_ns(99.0)),
            lag_p99_us: us(lag.percentile_ns(99.0)),
            cpu_cores: BTreeMap::from([
                ("broker".into(), 0.05 + 0.02 * dice.roll()),
                (cell.architecture.clone(), 0.1 * swell + 0.05 * dice.roll()),
            ]),
            backlog: Some(0),
        });
        all.merge(&histogram);
        seconds.push(histogram);
        lags.push(lag);
    }
    let mut lag = Histogram::new();
    lags.iter().for_each(|second| lag.merge(second));
    let summary = |histogram| LatencySummary::of(histogram, NegativeCount::default(), 0.001);
    cell.latency.insert(STAGE_RESPONSE.into(), summary(&all));
    cell.latency
        .insert(STAGE_SCHEDULE_LAG.into(), summary(&lag));
    cell.latency.insert(STAGE_PUBLISH_ACK.into(), summary(&lag));
    deliveries(cell, &all, typical_us);
    cell.hlog_file = Some(format!("{}.hlog", cell.id()));
    logs.insert(
        cell.id(),
        vec![
            (STAGE_RESPONSE.into(), seconds),
            (STAGE_SCHEDULE_LAG.into(), lags),
        ],
    );
}

fn deliveries(cell: &mut Cell, all: &Histogram, typical_us: f64) {
    let lost = if cell.architecture == "standalone" {
        cell.clients / 300
    } else {
        0
    };
    let delivered = all.count();
    cell.achieved_records_per_s = Some(100.0);
    cell.delivery = Some(DeliveryTotals {
        expected: delivered + lost,
        delivered,
        lost,
        delivered_per_s: Some(delivered as f64 / HOLD_S as f64),
        received_bytes: delivered * 1_090,
        received_mbit_per_s: Some(delivered as f64 * 1_090.0 * 8.0 / 1e6 / HOLD_S as f64),
        errors: if lost > 0 {
            BTreeMap::from([(NASTY.into(), lost)])
        } else {
            BTreeMap::new()
        },
        ..DeliveryTotals::default()
    });
    cell.fairness = Some(Fairness {
        clients: cell.clients,
        client_p99_min_us: Some(typical_us * 1.4),
        client_p99_p50_us: Some(typical_us * 2.6),
        client_p99_p90_us: Some(typical_us * 3.4),
        client_p99_max_us: Some(typical_us * 6.1),
        deliveries_min: 30,
        deliveries_max: 30,
    });
    if cell.architecture == "gateway" {
        cell.probe = Some(SdkProbe {
            sdk: "lightstreamer-client-node".into(),
            version: "9.2.0".into(),
            updates: 30,
            latency: Some(LatencySummary {
                max_us: Some(4_120.0),
                ..LatencySummary::default()
            }),
            status_changes: vec!["CONNECTING".into(), "CONNECTED:WS-STREAMING".into()],
            ok: cell.repetition == 1,
            ..SdkProbe::default()
        });
    }
}

fn roles(cell: &mut Cell, cpu_us: f64) {
    let delivered = cell
        .delivery
        .as_ref()
        .map_or(0, |delivery| delivery.delivered);
    let mut add = |role: &str, cpu_us: f64, per_client_bytes: Option<f64>| {
        cell.roles.push(RoleUsage {
            role: role.into(),
            processes: 1,
            cpu_us_total: (cpu_us * delivered as f64) as u64,
            cpu_cores_mean: Some(cpu_us * delivered as f64 / 1e6 / HOLD_S as f64),
            cpu_us_per_delivered: Some(cpu_us),
            rss_start_bytes: Some(31_000_000),
            rss_max_bytes: Some(31_000_000 + (per_client_bytes.unwrap_or(9e3) * 1e4) as u64),
            user_memory_per_client_bytes: per_client_bytes,
            threads_max: Some(4),
            busiest_thread: Some(format!("{role}-0")),
            busiest_thread_cores: Some(0.25),
            context_switches_voluntary: Some(12_345),
            context_switches_involuntary: Some(678),
            network_rx_bytes: Some(2_000_000),
            network_tx_bytes: Some(delivered * 1_090),
            network_source: "counted by the process".into(),
            ..RoleUsage::default()
        });
    };
    match cell.architecture.as_str() {
        "standalone" => add("broker", cpu_us, Some(21_400.0)),
        "gateway" => {
            add("broker", 0.31, None);
            add("gateway", cpu_us, Some(1_720.0));
        }
        _ => {
            add("broker", 0.30, None);
            add("floor", cpu_us, Some(640.0));
        }
    }
    add("clients", 2.2, None);
    add("produce", 0.02, None);
}

fn run(cells: Vec<Cell>) -> Run {
    Run {
        schema: SCHEMA.into(),
        plan: "keyed".into(),
        title: "40 keys to many clients: gateway and plain consumers".into(),
        question:
            "How many clients can follow 40 keys at 100 records/s on this machine, how late are \
                   they, and what does each architecture cost?"
                .into(),
        started_utc: weir_stats::utc::rfc3339(BASE_UNIX_NS / 1_000_000_000),
        finished_utc: weir_stats::utc::rfc3339(BASE_UNIX_NS / 1_000_000_000 + 900),
        command_line: ["weir", "bench", "run", "keyed", "--topic", NASTY]
            .map(Into::into)
            .into(),
        weir_version: "0.1.0".into(),
        outcome: RunOutcome::ThresholdFailed,
        confidence: Confidence {
            level: ConfidenceLevel::Indicative,
            reasons: vec!["2 repetitions".into()],
        },
        answer: String::new(),
        headline: None,
        aa_test: None,
        verdict:
            "At 10,000 clients the gateway delivers every record with p99 12 ms and 1.17 × the \
                  floor’s CPU; plain consumers lost records from 1,000 clients on."
                .into(),
        thresholds: vec![
            threshold(
                "gateway.cpu_us_per_delivered / floor.cpu_us_per_delivered <= 1.35",
                1.17,
                1.35,
            ),
            threshold("standalone.lost <= 0", 3.0, 0.0),
        ],
        machine: Machine {
            cpu_model: "AMD EPYC 7R13 Processor".into(),
            cpu_cores: 2,
            memory_bytes: 8_250_000_000,
            kernel: "6.1.0-28-amd64".into(),
            os: "Debian GNU/Linux 12 (bookworm)".into(),
            ..Machine::default()
        },
        placement: placement(),
        clock: ClockInfo {
            mode: ClockMode::SameHost,
            bound_ns: 0,
        },
        versions: [
            ("kafka", "4.3.1"),
            ("java", "17.0.13"),
            ("librdkafka", "2.12.1"),
        ]
        .map(|(name, version)| (name.into(), version.into()))
        .into(),
        settings: vec![
            SettingGroup::new("producer")
                .with("acks", "all")
                .with("linger.ms", 0),
            SettingGroup::new("topic")
                .with("name", NASTY)
                .with("partitions", 1),
            SettingGroup::new("workload")
                .with("keys", 40)
                .with("payload_bytes", 1024),
        ],
        cells,
        comparisons: vec![],
        find_max: None,
        libraries: None,
        derived: Vec::new(),
        reference: Some(reference()),
        notes: vec![
            "all roles share one machine: figures compare architectures, not hardware".into(),
        ],
        warnings: vec![format!("unknown parameter {NASTY}; remove it")],
        files: vec![RunFile {
            path: "run.json".into(),
            description: "this run".into(),
        }],
    }
}

fn threshold(expression: &str, actual: f64, limit: f64) -> ThresholdResult {
    ThresholdResult {
        expression: expression.into(),
        scope: "10,000 clients".into(),
        actual: Some(actual),
        limit,
        unit: if limit > 0.0 {
            "×".into()
        } else {
            "records".into()
        },
        status: ThresholdStatus::of(actual <= limit),
        reason: None,
    }
}

fn placement() -> Vec<Placement> {
    let roles = [
        ("produce", 1, ""),
        ("broker", 1, "KRaft, one node"),
        ("gateway", 1, ""),
        ("floor", 1, ""),
        ("clients", 2, "simulated TLCP sessions"),
        ("consume", 2, "assigned partitions, no group"),
    ];
    roles
        .map(|(role, processes, description)| Placement {
            role: role.into(),
            host: "this machine".into(),
            processes,
            description: description.into(),
        })
        .into()
}

fn reference() -> ReferenceFigures {
    let row = |series: &str, clients, mean: Option<u64>| ReferenceRow {
        series: series.into(),
        architecture: Some("standalone".into()),
        clients,
        latency_mean_ms: mean,
        latency_stddev_ms: mean.map(|mean| mean / 2),
        throughput_bit_per_s: mean.map(|_| clients * 900_000),
        sustained: mean.is_some(),
        ..ReferenceRow::default()
    };
    ReferenceFigures {
        source: "Published load test of the connector, scenario 2".into(),
        hardware: "AWS EC2, one instance per role".into(),
        note: "Means only; the latency runs from the actual send".into(),
        rows: vec![
            row("standalone consumers", 1_000, Some(6)),
            row("standalone consumers", 32_000, None),
        ],
    }
}
