//! Size of a run directory: a comparison of three libraries in 49 cells with 20 repetitions stays
//! below 5 MB, and its reports show what they would show with the uncompressed results.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::json;
use weir_bench::Finished;
use weir_bench::libraries::pack;
use weir_report::{RunData, render_html, render_markdown, render_table, write_all};
use weir_stats::run::{
    Distribution, Libraries, LibraryCell, LibraryDriver, LibrarySample, LibrarySetting, Run, SCHEMA,
};

const DRIVERS: [&str; 3] = ["java", "librdkafka", "dotnet-confluent"];
const REPETITIONS: u32 = 20;
const MEGABYTE: u64 = 1_000_000;
const DRAWS_MAX: u64 = 4000;

#[test]
fn directory_of_a_comparison_stays_below_five_megabytes() {
    let dir = tempfile::tempdir().unwrap();
    let full = run();
    write_raw_files(dir.path(), &full);
    let samples = full.libraries.iter().flat_map(|it| &it.samples);
    let all = samples.flat_map(|sample| [&sample.latency, &sample.pacing]);
    let sizes: Vec<usize> = all.flatten().map(|it| it.pairs.len()).collect();
    let mean = sizes.iter().sum::<usize>() / sizes.len();
    assert!(
        (550..750).contains(&mean),
        "{mean} pairs; measured runs have 560 to 640"
    );
    let before = size(dir.path());
    let mut packed = full.clone();
    pack(dir.path(), &mut packed).unwrap();
    let finished = Finished {
        dir: dir.path().to_owned(),
        run: packed,
    };
    finished.write().unwrap();
    write_all(dir.path()).unwrap();
    let (all, run_file) = (size(dir.path()), file_size(&dir.path().join("run.json")));
    assert!(
        before > 10 * MEGABYTE,
        "raw files of {before} bytes are not realistic"
    );
    assert!(all < 5 * MEGABYTE, "{all} bytes: {}", sizes_of(dir.path()));
    assert!(run_file < 3 * MEGABYTE, "run.json has {run_file} bytes");

    let read = RunData::read(dir.path()).unwrap();
    assert_eq!(read.run.warnings, Vec::<String>::new());
    assert_eq!(read.run, full, "all values are there");
    assert_eq!(
        render_html(&read),
        render_html(&RunData::without_logs(full.clone()))
    );
    // Without the file, only the charts of distributions are missing.
    fs::remove_file(dir.path().join("libraries.jsonl.gz")).unwrap();
    let thin = RunData::read(dir.path()).unwrap();
    let (mut thin, mut all) = (thin.run, full);
    assert_eq!(thin.warnings.len(), 1, "{:?}", thin.warnings);
    thin.warnings.clear();
    assert_eq!(
        render_table(&thin, 120, false),
        render_table(&all, 120, false)
    );
    thin.libraries.as_mut().unwrap().distributions_file = None;
    assert_eq!(render_markdown(&thin), render_markdown(&all));
    all.libraries.as_mut().unwrap().samples.clear();
    assert_ne!(render_markdown(&thin), render_markdown(&all));
}

fn sizes_of(dir: &Path) -> String {
    let entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let sizes = entries.map(|path| match path.is_dir() {
        true => sizes_of(&path),
        false => format!("{} {}", path.display(), file_size(&path)),
    });
    sizes.collect::<Vec<_>>().join("\n")
}

fn file_size(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

fn size(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let sizes = entries.map(|path| match path.is_dir() {
        true => size(&path),
        false => file_size(&path),
    });
    sizes.sum()
}

/// Returns a run of 49 cells: the bursts of warm producers and assigned consumers without the 1 GB
/// cell, and round trips.
fn run() -> Run {
    let mut cells = Vec::new();
    let sizes = [10, 100, 1_000, 10_000, 100_000];
    for records in [10, 100, 1_000, 10_000] {
        for bytes in sizes
            .into_iter()
            .filter(|bytes| bytes * records < 1_000_000_000)
        {
            cells.push(cell("produce", "warm", bytes, records, None));
            cells.push(cell("consume", "assign", bytes, records, None));
        }
    }
    for bytes in [10, 100, 1_000] {
        cells.push(cell("roundtrip", "burst", bytes, 10_000, None));
    }
    for bytes in [10, 1_000] {
        for rate in [1_000.0, 5_000.0, 10_000.0, 50_000.0] {
            cells.push(cell(
                "roundtrip",
                "open",
                bytes,
                (rate * 2.0) as u64,
                Some(rate),
            ));
        }
    }
    assert_eq!(cells.len(), 49);
    let drivers: Vec<LibraryDriver> = DRIVERS.map(driver).into();
    let mut dice = StdRng::seed_from_u64(7);
    let mut samples = Vec::new();
    for cell in &cells {
        for repetition in 0..REPETITIONS {
            for (turn, driver) in (0..).zip(DRIVERS) {
                samples.push(sample(cell, driver, repetition, turn, &mut dice));
            }
        }
    }
    assert_eq!(samples.len(), 2940);
    let libraries = Libraries {
        profile: "fair".to_owned(),
        drivers,
        cells,
        samples,
        distributions_file: None,
        aa_test: false,
    };
    Run {
        schema: SCHEMA.to_owned(),
        plan: "client-libraries".to_owned(),
        title: "Comparison of Kafka client libraries".to_owned(),
        verdict: weir_stats::libraries::verdict(&libraries),
        libraries: Some(libraries),
        ..Run::default()
    }
}

fn driver(name: &str) -> LibraryDriver {
    let setting = |name: &str| LibrarySetting {
        name: name.to_owned(),
        requested: Some("1000000".to_owned()),
        effective: Some("1000000".to_owned()),
        supported: true,
    };
    LibraryDriver {
        name: name.to_owned(),
        library: name.to_owned(),
        library_version: "4.3.1".to_owned(),
        runtime: "17.0.15+6, -Xms4g -Xmx4g".to_owned(),
        capabilities: vec!["produce.warm".to_owned()],
        settings: ["acks", "linger_ms", "batch_bytes", "queue_bytes"]
            .map(setting)
            .into(),
        warm_up_rounds: 6,
        warm_up_settled: true,
        ..LibraryDriver::default()
    }
}

fn cell(
    operation: &str,
    mode: &str,
    value_bytes: u64,
    records: u64,
    rate_per_s: Option<f64>,
) -> LibraryCell {
    let load = match rate_per_s {
        Some(rate) => format!("@{rate}"),
        None => format!("x{records}"),
    };
    LibraryCell {
        name: format!("{operation}.{mode}/{value_bytes}{load}"),
        operation: operation.to_owned(),
        mode: mode.to_owned(),
        value_bytes,
        records,
        rate_per_s,
        repetitions: REPETITIONS,
        skipped: None,
    }
}

fn sample(
    cell: &LibraryCell,
    driver: &str,
    repetition: u32,
    turn: u32,
    dice: &mut StdRng,
) -> LibrarySample {
    let work_us = (cell.records as f64).mul_add(1.7, 400.0) * dice.random_range(0.8..1.6);
    let us = |share: f64| Some((work_us * share * 1e3).round() / 1e3);
    let mut sample = LibrarySample {
        cell: cell.name.clone(),
        driver: driver.to_owned(),
        repetition,
        turn,
        offset_s: dice.random_range(0.0..2000.0),
        other_processes_share: Some(dice.random_range(0.0..0.2)),
        cpu_us: work_us * 0.7,
        records: cell.records,
        bytes: cell.records * (cell.value_bytes + 8),
        peak_rss_kb: Some(dice.random_range(40_000..900_000)),
        threads: Some(dice.random_range(8..40)),
        heap_kb: Some(dice.random_range(4_000..90_000)),
        ..LibrarySample::default()
    };
    match cell.operation.as_str() {
        "produce" => (sample.send_us, sample.delivered_us) = (us(0.6), us(1.0)),
        "consume" => {
            (sample.join_us, sample.first_us) = (us(0.2), us(0.5));
            (sample.drain_us, sample.legacy_us) = (us(0.4), us(0.9));
            sample.drain_cpu_us = us(0.3);
        }
        _ => {
            (sample.send_us, sample.delivered_us) = (us(0.9), us(1.0));
            sample.roundtrip_us = us(1.1);
            sample.latency = Some(distribution(cell.records, 2_500.0, 0.6, dice));
            let rate = cell.rate_per_s;
            sample.achieved_per_s = rate;
            sample.pacing = rate.map(|_| distribution(cell.records, 70.0, 0.9, dice));
        }
    }
    sample
}

/// Returns times around a typical one, spread as latencies are, with three significant digits.
fn distribution(records: u64, typical_us: f64, spread: f64, dice: &mut StdRng) -> Distribution {
    let mut pairs = std::collections::BTreeMap::<u64, u64>::new();
    let (mut sum_us, mut min_us, mut max_us) = (0, u64::MAX, 0);
    // More draws than a share of the records would not add values.
    let draws = records.min(DRAWS_MAX);
    let weight = records / draws;
    for _ in 0..draws {
        // The sum of uniform numbers is nearly normal.
        let normal: f64 = (0..6).map(|_| dice.random_range(-1.0..1.0)).sum::<f64>() / 1.5;
        let us = (typical_us * (normal * spread).exp()) as u64;
        let mut unit = 1;
        while us / unit >= 1000 {
            unit *= 10;
        }
        *pairs.entry((us + unit / 2) / unit * unit).or_default() += weight;
        sum_us += us * weight;
        min_us = min_us.min(us);
        max_us = max_us.max(us);
    }
    Distribution {
        count: draws * weight,
        sum_us,
        min_us,
        max_us,
        pairs: pairs.into_iter().collect(),
    }
}

/// Writes the samples and the transcripts as a run does.
fn write_raw_files(dir: &Path, run: &Run) {
    fs::create_dir(dir.join("drivers")).unwrap();
    let samples = &run.libraries.as_ref().unwrap().samples;
    let mut file = fs::File::create(dir.join("libraries.jsonl")).unwrap();
    for sample in samples {
        writeln!(file, "{}", serde_json::to_string(sample).unwrap()).unwrap();
    }
    for driver in DRIVERS {
        let path = dir.join("drivers").join(format!("{driver}.jsonl"));
        let mut file = fs::File::create(path).unwrap();
        let own = samples.iter().filter(|sample| sample.driver == driver);
        for (id, sample) in (1..).zip(own) {
            let (topic, id) = (format!("testTopic-{}-{id}", sample.cell), id * 3);
            let (operation, _) = sample.cell.split_once('.').unwrap();
            for line in [
                format!(r#"> {{"id":{id},"timeout_ms":60000,"op":"gc"}}"#),
                format!(r#"< {{"id":{id},"ok":true}}"#),
                format!(
                    "> {}",
                    json!({"id": id + 1, "op": operation, "topic": topic,
                    "len": sample.bytes / sample.records, "count": sample.records, "seed": 1,
                    "timeout_ms": 61_234, "state": "warm", "per_record": false})
                ),
                format!(
                    "< {}",
                    json!({"id": id + 1, "ok": true, "marks": {"t0": sample.offset_s,
                    "t1": sample.send_us, "t2": sample.delivered_us}, "cpu_us": sample.cpu_us,
                    "acked": sample.records, "failed": 0, "errors": [],
                    "latency": sample.latency, "pacing": sample.pacing})
                ),
                format!(r#"> {{"id":{},"timeout_ms":60000,"op":"stats"}}"#, id + 2),
                format!(
                    "< {}",
                    json!({"id": id + 2, "ok": true, "rss_kb": sample.peak_rss_kb,
                    "threads": sample.threads, "heap_kb": sample.heap_kb})
                ),
            ] {
                // As the benchmarking tool does.
                let line = &line.as_bytes()[..line.len().min(2048)];
                file.write_all(line).unwrap();
                file.write_all(b"\n").unwrap();
            }
        }
    }
}
