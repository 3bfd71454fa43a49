//! Reads a run directory: `run.json` and the interval logs listed in it, or `run.json.gz` alone.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use flate2::read::GzDecoder;
use weir_stats::hlog::{HlogError, IntervalLogReader};
use weir_stats::run::{Cell, FILE_NAME, LatencySummary, Run, RunError, STAGE_RESPONSE};
use weir_stats::{Histogram, NegativeCount};

use crate::distributions;
use crate::timeline::{Builder, Timeline};

/// Maximum decompressed size of a run file in bytes; a run directory is untrusted.
const RUN_BYTES_MAX: u64 = 256 << 20;

/// A failure to read a run or to write a report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The run file cannot be read.
    #[error("cannot read {path}: {1}; pass a run directory", path = .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// The run file is not valid.
    #[error("cannot use {path}: {1}", path = .0.display())]
    Run(PathBuf, #[source] RunError),
    /// No run directory was given.
    #[error("no run directory given; pass at least one")]
    NoRuns,
    /// More runs were given (first number) than can be shown side by side (second number).
    #[error("{0} runs given, the maximum is {1}")]
    TooMany(usize, usize),
    /// An output file cannot be written.
    #[error("cannot write {path}: {1}", path = .0.display())]
    Write(PathBuf, #[source] io::Error),
}

/// A problem with an interval log, which becomes a warning.
#[derive(Debug, thiserror::Error)]
enum LogError {
    #[error("interval log {0:?} is outside the run directory")]
    Outside(String),
    #[error("cannot read {0}: {1}")]
    Read(String, io::Error),
    #[error("{0} is damaged and was ignored: {1}")]
    Damaged(String, HlogError),
}

/// A run and the raw histograms of its cells.
#[derive(Debug)]
pub struct RunData {
    /// The run. Latency results come from the interval logs; problems with the logs are in its
    /// warnings.
    pub run: Run,
    /// Interval logs by cell id.
    logs: BTreeMap<String, Log>,
}

#[derive(Debug, Default)]
pub(crate) struct Log {
    /// Histograms by stage, merged over all seconds.
    stages: BTreeMap<String, Histogram>,
    response: Timeline,
}

impl RunData {
    /// Reads a run directory. A directory with `run.json.gz` instead of `run.json` is an archived
    /// run: interval logs are not expected, and a warning says that percentile curves are missing.
    pub fn read(dir: &Path) -> Result<Self, ReportError> {
        let plain = dir.join(FILE_NAME);
        let archived = dir.join(format!("{FILE_NAME}.gz"));
        if !plain.exists() && archived.exists() {
            let mut data = Self::without_logs(read_run(archived, decompress)?);
            let warning = "archived run without interval logs: percentile curves are missing";
            data.run.warnings.push(warning.to_owned());
            return Ok(data);
        }
        let mut data = Self::without_logs(read_run(plain, |path| fs::read_to_string(path))?);
        let mut warnings = Vec::new();
        warnings.extend(distributions::read(dir, &mut data.run));
        let mut missing = Vec::new();
        for cell in &mut data.run.cells {
            let Some(name) = cell.hlog_file.clone() else {
                continue;
            };
            match read_log(dir, name) {
                Ok(log) => {
                    use_logged_latency(cell, &log.stages, &mut warnings);
                    data.logs.insert(cell.id(), log);
                }
                Err(LogError::Read(name, error)) if error.kind() == io::ErrorKind::NotFound => {
                    missing.push(name);
                }
                Err(error) => warnings.push(format!("{}: {error}", cell.id())),
            }
        }
        warnings.extend(missing_logs(&missing));
        data.run.warnings.append(&mut warnings);
        Ok(data)
    }

    /// Creates data without interval logs: the report has no percentile curves.
    pub fn without_logs(run: Run) -> Self {
        Self {
            run,
            logs: BTreeMap::new(),
        }
    }

    pub(crate) fn take_log(&mut self, cell: &Cell) -> Option<Log> {
        self.logs.remove(&cell.id())
    }

    pub(crate) fn add(&mut self, cell: Cell, log: Option<Log>) {
        if let Some(log) = log {
            self.logs.insert(cell.id(), log);
        }
        self.run.cells.push(cell);
    }

    /// Returns one stage of one cell, merged over all intervals.
    pub fn histogram(&self, cell: &Cell, stage: &str) -> Option<&Histogram> {
        self.logs.get(&cell.id())?.stages.get(stage)
    }

    pub(crate) fn timeline(&self, cell: &Cell) -> Option<&Timeline> {
        let timeline = &self.logs.get(&cell.id())?.response;
        (!timeline.seconds.is_empty()).then_some(timeline)
    }
}

/// Returns one warning for all missing files: a run that was moved without them has hundreds.
fn missing_logs(names: &[String]) -> Option<String> {
    let (first, others) = names.split_first()?;
    let others = match others.len() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    Some(format!(
        "interval log {first}{others} not found: their percentile curves are missing"
    ))
}

fn read_run(
    path: PathBuf,
    read: impl FnOnce(&PathBuf) -> io::Result<String>,
) -> Result<Run, ReportError> {
    match read(&path) {
        Ok(text) => Run::from_json(&text).map_err(|error| ReportError::Run(path, error)),
        Err(error) => Err(ReportError::Read(path, error)),
    }
}

fn decompress(path: &PathBuf) -> io::Result<String> {
    let mut text = String::new();
    let decoder = GzDecoder::new(fs::File::open(path)?);
    decoder.take(RUN_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > RUN_BYTES_MAX {
        let too_large = format!("more than {} MiB decompressed", RUN_BYTES_MAX >> 20);
        return Err(io::Error::new(io::ErrorKind::InvalidData, too_large));
    }
    Ok(text)
}

fn read_log(dir: &Path, name: String) -> Result<Log, LogError> {
    // Run directories are untrusted.
    let mut parts = Path::new(&name).components();
    if !parts.all(|part| matches!(part, Component::Normal(_))) {
        return Err(LogError::Outside(name));
    }
    let text = match fs::read_to_string(dir.join(&name)) {
        Ok(text) => text,
        Err(error) => return Err(LogError::Read(name, error)),
    };
    let mut log = Log::default();
    let mut response = Builder::default();
    for interval in IntervalLogReader::new(&text) {
        // A partial log would give percentiles of a part of the run.
        let interval = interval.map_err(|error| LogError::Damaged(name.clone(), error))?;
        if interval.tag == STAGE_RESPONSE {
            response.add(interval.start_s, &interval.histogram);
        }
        let stage = log.stages.entry(interval.tag).or_default();
        stage.merge(&interval.histogram);
    }
    log.response = response.finish();
    Ok(log)
}

/// Replaces the latency summaries of `run.json` by those of the interval log. Adds a warning if the
/// number of values differs.
fn use_logged_latency(
    cell: &mut Cell,
    stages: &BTreeMap<String, Histogram>,
    warnings: &mut Vec<String>,
) {
    let id = cell.id();
    for (stage, histogram) in stages {
        let summary = cell.latency.get(stage).cloned().unwrap_or_default();
        if summary.count != 0 && summary.count != histogram.count() {
            warnings.push(format!(
                "{id}: run.json has {} values of {stage}, the interval log has {}; the log is used",
                summary.count,
                histogram.count()
            ));
        }
        let mut raw =
            LatencySummary::of(histogram, NegativeCount::default(), summary.resolution_us);
        raw.negative_count = summary.negative_count;
        cell.latency.insert(stage.clone(), raw);
    }
}
