//! Synthetic comparisons of client libraries.

use std::collections::BTreeMap;

use weir_stats::run::{
    Distribution, Libraries, LibraryCell, LibraryDriver, LibrarySample, LibrarySetting, Run,
};

use super::{Dice, NASTY, sample};

const PAYLOADS: [u64; 5] = [10, 100, 1_000, 10_000, 100_000];
const BURSTS: [u64; 4] = [10, 100, 1_000, 10_000];

/// Returns Java and librdkafka as the published program compares them, with its waits.
pub fn legacy() -> Run {
    let mut drivers = vec![
        driver("java", "Apache Kafka Java client", ""),
        driver("librdkafka", "librdkafka", "rdkafka 0.39"),
    ];
    for driver in &mut drivers {
        (driver.warm_up_rounds, driver.warm_up_settled) = (0, false);
    }
    let mut cells = Vec::new();
    for records in BURSTS {
        for bytes in PAYLOADS {
            cells.push(cell("produce", "legacy", bytes, records, None, 20));
            cells.push(cell("consume", "group", bytes, records, None, 20));
        }
    }
    for bytes in PAYLOADS {
        cells.push(cell("roundtrip", "burst", bytes, 10_000, None, 20));
    }
    if let Some(cell) = cells
        .iter_mut()
        .find(|cell| cell.name == "consume.group/100000x10000")
    {
        cell.skipped = Some(format!(
            "20 repetitions of 1 GB are more than the disk may hold {NASTY}"
        ));
    }
    run("legacy", drivers, cells)
}

/// Returns three warmed-up libraries, one failed build and an open loop, with hostile texts.
pub fn fair() -> Run {
    let mut drivers = vec![
        driver("java", "Apache Kafka Java client", ""),
        driver("librdkafka", "librdkafka", "rdkafka 0.39"),
        driver("franz-go", "franz-go", ""),
        driver("kafkajs", "kafkajs", ""),
    ];
    drivers[3].failed = Some(format!("no npm on this machine {NASTY}"));
    drivers[3].settings.clear();
    drivers[2].warm_up_settled = false;
    let mut cells = Vec::new();
    for records in BURSTS {
        for bytes in PAYLOADS {
            let repetitions = if bytes * records == 1_000_000_000 {
                3
            } else {
                7
            };
            for mode in ["cold", "metadata", "warm"] {
                cells.push(cell("produce", mode, bytes, records, None, repetitions));
            }
            for mode in ["group", "assign"] {
                cells.push(cell("consume", mode, bytes, records, None, repetitions));
            }
        }
    }
    for bytes in [100, 1_000] {
        cells.push(cell("copy", "assign", bytes, 10_000, None, 7));
    }
    for bytes in [100, 1_000] {
        cells.push(cell("roundtrip", "burst", bytes, 10_000, None, 7));
        for rate in [1_000.0, 5_000.0, 10_000.0] {
            cells.push(cell("roundtrip", "open", bytes, 10_000, Some(rate), 7));
        }
    }
    run("fair", drivers, cells)
}

/// Returns one library as two drivers.
pub fn aa_test() -> Run {
    let drivers = vec![
        driver("librdkafka", "librdkafka", "rdkafka 0.39"),
        driver("librdkafka-again", "librdkafka", "rdkafka 0.39"),
    ];
    let cells = PAYLOADS.map(|bytes| cell("produce", "warm", bytes, 100, None, 10));
    let mut run = run("fair", drivers, cells.into());
    if let Some(libraries) = &mut run.libraries {
        libraries.aa_test = true;
    }
    run
}

fn run(profile: &str, drivers: Vec<LibraryDriver>, cells: Vec<LibraryCell>) -> Run {
    let mut libraries = Libraries {
        profile: profile.into(),
        drivers,
        cells,
        samples: Vec::new(),
        distributions_file: None,
        aa_test: false,
    };
    libraries.samples = samples(&libraries);
    let verdict = weir_stats::libraries::verdict(&libraries);
    Run {
        plan: "client-libraries".into(),
        title: "Client libraries: produce, consume and roundtrip".into(),
        question: "Which client library produces, consumes and answers faster, and at what cost?"
            .into(),
        verdict,
        thresholds: Vec::new(),
        outcome: weir_stats::run::RunOutcome::Complete,
        warnings: Vec::new(),
        cells: Vec::new(),
        reference: None,
        libraries: Some(libraries),
        ..sample().run
    }
}

fn driver(name: &str, library: &str, binding: &str) -> LibraryDriver {
    let setting = |name: &str, asked: &str, effective: Option<&str>| LibrarySetting {
        name: name.into(),
        requested: Some(asked.into()),
        effective: effective.map(Into::into),
        supported: effective.is_some(),
    };
    let is_java = name == "java";
    LibraryDriver {
        name: name.into(),
        library: library.into(),
        library_version: "4.1.0".into(),
        binding: binding.into(),
        runtime: if is_java {
            "OpenJDK 17.0.13".into()
        } else {
            String::new()
        },
        capabilities: vec!["produce.warm".into()],
        settings: vec![
            setting("linger_ms", "5", Some("5")),
            setting(
                "max_in_flight",
                "5",
                Some(if name == "franz-go" { "1" } else { "5" }),
            ),
            setting("batch_records", "0", (!is_java).then_some("1000000")),
        ],
        warm_up_rounds: 6,
        warm_up_settled: true,
        failed: None,
        optional: false,
    }
}

fn cell(
    work: &str,
    mode: &str,
    value_bytes: u64,
    records: u64,
    rate_per_s: Option<f64>,
    repetitions: u32,
) -> LibraryCell {
    let place = match rate_per_s {
        Some(rate) => format!("{value_bytes}@{rate}"),
        None => format!("{value_bytes}x{records}"),
    };
    LibraryCell {
        name: format!("{work}.{mode}/{place}"),
        operation: work.into(),
        mode: mode.into(),
        value_bytes,
        records,
        rate_per_s,
        repetitions,
        skipped: None,
    }
}

fn samples(libraries: &Libraries) -> Vec<LibrarySample> {
    let mut dice = Dice(0x1234_5678_9abc_def1);
    let mut samples = Vec::new();
    for cell in libraries.cells.iter().filter(|cell| cell.skipped.is_none()) {
        for repetition in 0..cell.repetitions {
            for driver in libraries
                .drivers
                .iter()
                .filter(|driver| driver.failed.is_none())
            {
                let is_legacy = libraries.profile == "legacy";
                samples.push(one(cell, driver, repetition, is_legacy, &mut dice));
            }
        }
    }
    if let Some(last) = samples.last_mut() {
        last.marks = vec!["pacing p99 2.1 ms is not below 1 ms".into()];
    }
    samples
}

fn one(
    cell: &LibraryCell,
    driver: &LibraryDriver,
    repetition: u32,
    is_legacy: bool,
    dice: &mut Dice,
) -> LibrarySample {
    let bytes = (cell.value_bytes * cell.records) as f64;
    let (per_record_us, start_us) = match driver.library.as_str() {
        "librdkafka" => (1.1, 104_000.0),
        "franz-go" => (1.6, 3_000.0),
        _ => (2.2, 9_000.0),
    };
    let mut spread = || (0..6).map(|_| dice.roll()).sum::<f64>() / 3.0;
    let work_us = (cell.records as f64 * per_record_us + bytes * 0.004 + 400.0) * spread();
    let wait_us = if is_legacy && bytes < 100_000.0 {
        500_000.0
    } else {
        0.0
    };
    let first_us = start_us * (0.98 + 0.04 * spread()) + wait_us;
    let noisy = repetition == 4 && cell.value_bytes == 1_000;
    let mut sample = LibrarySample {
        cell: cell.name.clone(),
        driver: driver.name.clone(),
        repetition,
        other_processes_share: Some(if noisy { 0.2 } else { 0.01 }),
        noisy,
        cpu_us: work_us * 0.8,
        records: cell.records,
        bytes: bytes as u64,
        wire_bytes: Some(bytes as u64 + 20 * cell.records),
        peak_rss_kb: Some(
            if driver.name == "java" {
                410_000
            } else {
                32_000
            } + bytes as u64 / 4_000,
        ),
        threads: Some(if driver.name == "java" { 38 } else { 9 }),
        heap_kb: (driver.name == "java").then_some(120_000),
        ..LibrarySample::default()
    };
    if cell.name == "produce.warm/100x1000" && repetition == 5 && driver.name == "librdkafka" {
        sample.invalid = vec![format!("3 of 1000 records failed: {NASTY}")];
    }
    match cell.operation.as_str() {
        "produce" => {
            sample.send_us = Some(work_us * 0.6);
            sample.delivered_us = Some(work_us);
        }
        "consume" => {
            sample.join_us = Some(3_000.0);
            sample.first_us = Some(first_us);
            sample.drain_us = Some(work_us);
            sample.legacy_us = Some(first_us + work_us);
            sample.drain_cpu_us = Some(work_us * 0.5);
        }
        "copy" => {
            sample.join_us = Some(3_000.0);
            sample.first_us = Some(first_us);
            sample.copied_us = Some(work_us);
            sample.drain_cpu_us = Some(work_us * 0.5);
        }
        _ => {
            sample.roundtrip_us = Some(work_us * 2.0);
            sample.latency = Some(distribution(dice, work_us / 8.0, cell.records));
            sample.pacing = cell
                .rate_per_s
                .map(|_| distribution(dice, 80.0, cell.records));
        }
    }
    sample
}

fn distribution(dice: &mut Dice, typical_us: f64, records: u64) -> Distribution {
    let mut pairs = BTreeMap::<u64, u64>::new();
    let draws = records.min(150);
    let (mut sum_us, weight) = (0, records / draws);
    for _ in 0..draws {
        let us = dice.latency_ns(typical_us) / 1_000;
        let digits = 10_u64.pow((us.max(1) as f64).log10() as u32).max(100) / 100;
        let us = us / digits * digits;
        *pairs.entry(us).or_default() += weight;
        sum_us += us * weight;
    }
    Distribution {
        count: weight * draws,
        sum_us,
        min_us: pairs.keys().next().copied().unwrap_or(0),
        max_us: pairs.keys().last().copied().unwrap_or(0),
        pairs: pairs.into_iter().collect(),
    }
}
