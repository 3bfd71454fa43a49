//! Imports the output of Apache Kafka's performance tools as a run, so that it gets the same
//! reports.

use std::path::{Path, PathBuf};

use weir_stats::run::{ClockInfo, ClockMode, Machine, Run, RunFile, RunOutcome, SCHEMA};
use weir_stats::utc;

use super::{BenchError, Finished, SECOND_NS, run_dir, sweep, write_run};
use weir_load::clock::Clock as WallClock;

/// Creates a run directory below `out` from the output of `kafka-producer-perf-test` and
/// `kafka-consumer-perf-test`. Record size, rate and fetch size come from file names such as
/// `test-producer-1000-5000.txt` and `test-consumer-30000.txt`.
///
/// # Errors
/// [`BenchError`] if a file cannot be read, no file has output of the tools, or the run directory
/// cannot be written.
pub fn import(
    files: &[PathBuf],
    out: &Path,
    command_line: &[String],
) -> Result<Finished, BenchError> {
    let now_s = WallClock::start().now_unix_ns() / SECOND_NS;
    let dir = run_dir(out, now_s, "import")?;
    let cells = sweep::import(files, &dir)?;
    if cells.is_empty() {
        // The directory is empty.
        let _ = std::fs::remove_dir(&dir);
        let files: Vec<String> = files
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        let files = files.join(", ");
        return Err(BenchError::NothingToImport { files });
    }
    let weir_version = env!("CARGO_PKG_VERSION").to_owned();
    let names = files.iter().filter_map(|path| path.file_name());
    let mut run = Run {
        schema: SCHEMA.to_owned(),
        plan: "import".to_owned(),
        title: "Results of Apache Kafka's performance tools".to_owned(),
        question: "What did kafka-producer-perf-test and kafka-consumer-perf-test measure?"
            .to_owned(),
        started_utc: utc::rfc3339(now_s),
        finished_utc: utc::rfc3339(now_s),
        command_line: command_line.to_vec(),
        weir_version: weir_version.clone(),
        outcome: RunOutcome::Passed,
        verdict: String::new(),
        thresholds: Vec::new(),
        machine: Machine::default(),
        placement: Vec::new(),
        clock: ClockInfo {
            mode: ClockMode::SameHost,
            bound_ns: 0,
        },
        versions: [("weir".to_owned(), weir_version)].into(),
        settings: Vec::new(),
        derived: sweep::derived(&cells),
        cells,
        comparisons: Vec::new(),
        find_max: None,
        libraries: None,
        reference: None,
        notes: vec![
            "imported: the tools measure from the actual send, not from the due time, and the \
             machine they ran on is not known"
                .to_owned(),
        ],
        warnings: Vec::new(),
        files: names
            .map(|name| RunFile {
                path: name.to_string_lossy().into_owned(),
                description: "as imported".to_owned(),
            })
            .collect(),
    };
    run.verdict = sweep::verdict(&run);
    write_run(&dir, &run)?;
    Ok(Finished { dir, run })
}
