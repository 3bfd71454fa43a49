//! Imports the output of Apache Kafka's performance tools as a run, so that it gets the same
//! reports.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::{BenchError, BenchOptions, Finished, sweep};
use crate::experiment::RunDir;
use crate::experiment::run_dir::{bare_run, file};
use weir_load::kafka::ClientProperties;

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
    let stop = AtomicBool::new(false);
    let options = BenchOptions {
        out: out.to_owned(),
        bootstrap: None,
        client: ClientProperties::default(),
        exe: PathBuf::new(),
        machines: None,
        command_line: command_line.to_vec(),
    };
    let run_dir = RunDir::create("import", &options, &stop)?;
    let cells = sweep::import(files, &run_dir.path)?;
    if cells.is_empty() {
        // The directory is empty.
        let _ = std::fs::remove_dir(&run_dir.path);
        let files: Vec<String> = files
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        return Err(BenchError::NothingToImport(files.join(", ")));
    }
    let about = [
        "import",
        "Results of Apache Kafka's performance tools",
        "What did kafka-producer-perf-test and kafka-consumer-perf-test measure?",
    ];
    let mut run = bare_run(about, command_line, run_dir.started_unix_ns);
    run.clock.bound_ns = 0;
    run.derived = sweep::derived(&cells);
    run.cells = cells;
    let text = "imported: the tools measure from the actual send, not from the due time, and the \
                machine they ran on is not known";
    run.notes.push(text.to_owned());
    let names = files.iter().filter_map(|path| path.file_name());
    run.files = names
        .map(|name| file(name.to_string_lossy(), "as imported"))
        .collect();
    run.verdict = sweep::verdict(&run);
    let finished = Finished::new(run_dir.path, run);
    finished.write()?;
    Ok(finished)
}
