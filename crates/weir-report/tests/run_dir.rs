//! Run directories: complete, damaged, and with paths that point outside.

mod common;

use std::fs;
use std::io::Write as _;

use common::sample;
use weir_report::{ReportError, RunData, overlay, write_all, write_data};
use weir_stats::run::STAGE_RESPONSE;

#[test]
fn outputs_are_rebuilt_from_run_json_and_logs() {
    let dir = tempfile::tempdir().unwrap();
    sample().write(dir.path());
    let paths = write_all(dir.path()).unwrap();
    let names: Vec<_> = paths
        .iter()
        .map(|path| path.file_name().unwrap().to_owned())
        .collect();
    assert_eq!(
        names,
        [
            "cells.csv",
            "series.csv",
            "latency.svg",
            "throughput.svg",
            "cpu.svg",
            "memory.svg",
            "curve.svg",
            "report.md",
            "report.html"
        ]
    );
    let first: Vec<String> = paths
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    paths.iter().for_each(|path| fs::remove_file(path).unwrap());
    write_all(dir.path()).unwrap();
    let again: Vec<String> = paths
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    assert_eq!(first, again);
    for svg in first[2..7].iter() {
        roxmltree::Document::parse(svg).unwrap();
    }
}

#[test]
fn log_overrides_run_json() {
    let dir = tempfile::tempdir().unwrap();
    let mut sample = sample();
    let summary = sample.run.cells[0].latency.get_mut(STAGE_RESPONSE).unwrap();
    let true_count = summary.count;
    summary.count = 7;
    summary.p50_us = Some(0.1);
    sample.write(dir.path());
    let data = RunData::read(dir.path()).unwrap();
    assert_eq!(data.run.cells[0].response().unwrap().count, true_count);
    assert!(data.run.cells[0].response().unwrap().p50_us > Some(100.0));
    let warning = data.run.warnings.last().unwrap();
    assert!(
        warning.contains("run.json has 7 values of response"),
        "{warning}"
    );
}

#[test]
fn missing_or_damaged_log_is_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let sample = sample();
    sample.write(dir.path());
    fs::remove_file(dir.path().join("gateway-1000-1.hlog")).unwrap();
    fs::write(
        dir.path().join("floor-1000-1.hlog"),
        "Tag=response,0.0,1.0\n",
    )
    .unwrap();
    write_all(dir.path()).unwrap();
    let warnings = RunData::read(dir.path()).unwrap().run.warnings.join("\n");
    assert!(
        warnings.contains("interval log gateway-1000-1.hlog not found"),
        "{warnings}"
    );
    assert!(
        warnings.contains("floor-1000-1.hlog is damaged and was ignored: line 1"),
        "{warnings}"
    );
}

#[test]
fn archived_run_is_read_without_logs() {
    let dir = tempfile::tempdir().unwrap();
    let sample = sample();
    sample.write(dir.path());
    let plain = dir.path().join("run.json");
    let file = fs::File::create(dir.path().join("run.json.gz")).unwrap();
    let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::best());
    encoder.write_all(&fs::read(&plain).unwrap()).unwrap();
    encoder.finish().unwrap();
    fs::remove_file(&plain).unwrap();
    let run = RunData::read(dir.path()).unwrap().run;
    assert_eq!(run.cells.len(), sample.run.cells.len());
    let warning = run.warnings.last().unwrap();
    assert!(warning.contains("without interval logs"), "{warning}");
    assert!(write_all(dir.path()).unwrap().len() > 3);
    fs::write(dir.path().join("run.json.gz"), "not gzip").unwrap();
    let error = RunData::read(dir.path()).unwrap_err();
    assert!(matches!(error, ReportError::Read { .. }), "{error}");
}

#[test]
fn log_outside_run_directory_is_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let mut sample = sample();
    sample.run.cells[0].hlog_file = Some("../secret.hlog".into());
    sample.write(dir.path());
    let warnings = RunData::read(dir.path()).unwrap().run.warnings.join("\n");
    assert!(
        warnings.contains("is outside the run directory"),
        "{warnings}"
    );
}

#[test]
fn directory_without_run_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let error = write_all(dir.path()).unwrap_err();
    assert!(matches!(error, ReportError::Read { .. }));
    assert!(
        error.to_string().ends_with("pass a run directory"),
        "{error}"
    );
    fs::write(dir.path().join("run.json"), "{\"schema\":\"other\"}").unwrap();
    assert!(
        write_all(dir.path())
            .unwrap_err()
            .to_string()
            .contains("has schema \"other\"")
    );
}

/// Writes a run directory with all outputs below the build directory, for manual inspection.
#[test]
fn write_sample_for_inspection() {
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("sample-run");
    sample().write(&dir);
    assert_eq!(write_all(&dir).unwrap().len(), 9);
}

#[test]
fn two_runs_are_combined() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("first"), dir.path().join("second"));
    let mut sample = sample();
    sample.write(&a);
    sample.run.machine.cpu_cores = 64;
    sample.run.outcome = weir_stats::run::RunOutcome::Interrupted;
    sample.write(&b);
    let data = overlay(&[&a, &b]).unwrap();
    assert_eq!(data.run.cells.len(), 2 * sample.run.cells.len());
    let names = |letter: &str| {
        let cells = data.run.cells.iter();
        cells
            .filter(|cell| cell.name() == format!("gateway {letter}"))
            .count()
    };
    assert_eq!((names("A"), names("B")), (6, 6));
    assert_eq!(data.run.outcome, weir_stats::run::RunOutcome::Interrupted);
    let warnings = data.run.warnings.join("\n");
    assert!(
        warnings.contains("B ran on a different machine than A"),
        "{warnings}"
    );
    let out = dir.path().join("both");
    let paths = write_data(&data, &out).unwrap();
    assert_eq!(paths.len(), 9);
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    // Curves of both runs: same colour for the architecture, different stroke for the second.
    for text in [
        "\"gateway A\",\"a1\"",
        "\"gateway B\",\"a1 r1\"",
        "line a1 r1",
    ] {
        assert!(page.contains(text), "{text}");
    }
    let error = overlay(&[]).unwrap_err().to_string();
    assert!(error.contains("pass at least one"), "{error}");
}
