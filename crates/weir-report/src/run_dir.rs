//! Reads a run directory: `run.json` and the raw interval logs that it names, or `run.json.gz` alone.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use flate2::read::GzDecoder;
use weir_stats::run::{Cell, FILE_NAME, LatencySummary, Run, RunError, STAGE_RESPONSE};
use weir_stats::{Histogram, NegativeCount, hlog};

use crate::timeline::{Builder, Timeline};

/// Decompressed bytes of a run file that are read at most: a run directory may come from anyone.
const RUN_BYTES_MAX: u64 = 256 << 20;

/// Why no report came out.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The run file cannot be read.
    #[error("cannot read {}: {source}; give the folder of a run", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The run file is not one.
    #[error("cannot use {}: {source}", path.display())]
    Run {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: RunError,
    },
    /// No run to show.
    #[error("no run folder given; give one or more")]
    None,
    /// More runs than can be told apart.
    #[error("{count} runs are more than can be told apart; give at most {limit}")]
    TooMany {
        /// How many.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
    /// An output cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A run and the raw histograms of its cells.
#[derive(Debug)]
pub struct RunData {
    /// The run; latency figures are those of the raw histograms, and problems with them are in its warnings.
    pub run: Run,
    /// By cell id.
    logs: BTreeMap<String, Log>,
}

/// What the interval log of a cell holds.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// By stage, all seconds merged.
    stages: BTreeMap<String, Histogram>,
    response: Timeline,
}

impl RunData {
    /// Reads a run directory. If it has `run.json.gz` in place of `run.json`, it is an archived run:
    /// interval logs are not expected, and a warning says that curves are missing.
    ///
    /// # Errors
    /// When the run file is missing, unreadable, or not a run of this version.
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
        for cell in &mut data.run.cells {
            match read_log(dir, cell) {
                Ok(Some(log)) => {
                    use_raw_figures(cell, &log.stages, &mut warnings);
                    data.logs.insert(cell.id(), log);
                }
                Ok(None) => {}
                Err(warning) => warnings.push(warning),
            }
        }
        data.run.warnings.append(&mut warnings);
        Ok(data)
    }

    /// A run without raw histograms: everything but percentile curves.
    pub fn without_logs(run: Run) -> Self {
        Self {
            run,
            logs: BTreeMap::new(),
        }
    }

    /// Takes away what the log of a cell holds.
    pub(crate) fn take_log(&mut self, cell: &Cell) -> Option<Log> {
        self.logs.remove(&cell.id())
    }

    /// Adds a cell, with what its log holds.
    pub(crate) fn add(&mut self, cell: Cell, log: Option<Log>) {
        if let Some(log) = log {
            self.logs.insert(cell.id(), log);
        }
        self.run.cells.push(cell);
    }

    /// One stage of one cell, all intervals merged.
    pub fn histogram(&self, cell: &Cell, stage: &str) -> Option<&Histogram> {
        self.logs.get(&cell.id())?.stages.get(stage)
    }

    /// The response of one cell second by second.
    pub(crate) fn timeline(&self, cell: &Cell) -> Option<&Timeline> {
        let timeline = &self.logs.get(&cell.id())?.response;
        (!timeline.seconds.is_empty()).then_some(timeline)
    }
}

fn read_run(
    path: PathBuf,
    read: impl FnOnce(&PathBuf) -> io::Result<String>,
) -> Result<Run, ReportError> {
    match read(&path) {
        Ok(text) => Run::from_json(&text).map_err(|source| ReportError::Run { path, source }),
        Err(source) => Err(ReportError::Read { path, source }),
    }
}

fn decompress(path: &PathBuf) -> io::Result<String> {
    let mut text = String::new();
    let decoder = GzDecoder::new(fs::File::open(path)?);
    decoder.take(RUN_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

fn read_log(dir: &Path, cell: &Cell) -> Result<Option<Log>, String> {
    let Some(name) = &cell.hlog_file else {
        return Ok(None);
    };
    if !stays_inside(Path::new(name)) {
        return Err(format!(
            "{}: interval log {name:?} lies outside the run folder",
            cell.id()
        ));
    }
    let text = fs::read_to_string(dir.join(name))
        .map_err(|error| format!("{}: cannot read {name}: {error}", cell.id()))?;
    let mut log = Log::default();
    let mut response = Builder::default();
    for interval in hlog::IntervalLogReader::new(&text) {
        // Half a log would give percentiles of half a run.
        let interval = interval
            .map_err(|error| format!("{}: {name} is damaged, not used: {error}", cell.id()))?;
        if interval.tag == STAGE_RESPONSE {
            response.add(interval.start_s, &interval.histogram);
        }
        let stage = log.stages.entry(interval.tag).or_default();
        stage.merge(&interval.histogram);
    }
    log.response = response.finish();
    Ok(Some(log))
}

/// A run folder may come from anyone; its file names must not reach beyond it.
fn stays_inside(path: &Path) -> bool {
    path.components()
        .all(|part| matches!(part, Component::Normal(_)))
}

fn use_raw_figures(
    cell: &mut Cell,
    stages: &BTreeMap<String, Histogram>,
    warnings: &mut Vec<String>,
) {
    let id = cell.id();
    for (stage, histogram) in stages {
        let told = cell.latency.get(stage).cloned().unwrap_or_default();
        if told.count != 0 && told.count != histogram.count() {
            warnings.push(format!(
                "{id}: run.json counts {} values of {stage}, the interval log holds {}; the log is used",
                told.count,
                histogram.count()
            ));
        }
        let mut raw = LatencySummary::of(histogram, NegativeCount::default(), told.resolution_us);
        raw.negative_count = told.negative_count;
        cell.latency.insert(stage.clone(), raw);
    }
}
