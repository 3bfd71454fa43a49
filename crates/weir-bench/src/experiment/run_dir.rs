//! The directory of a run: its name, the description of the run, and `run.json`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_stats::run::{
    ClockInfo, ClockMode, Confidence, FILE_NAME, Machine, Placement, ReferenceFigures, Run,
    RunFile, RunOutcome, SCHEMA, ThresholdCounts,
};
use weir_stats::{answer, utc};

use super::{BenchOptions, RunBroker, aa_test};
use crate::{BenchError, environment};
use weir_load::clock::Clock;

/// Completed run: its directory and the content of `run.json`.
#[derive(Debug)]
pub struct Finished {
    /// Run directory.
    pub dir: PathBuf,
    /// Content of `run.json`.
    pub run: Run,
}

impl Finished {
    /// Computes what follows from the results: confidence, answer and headline. Without an A/A test
    /// of its own, the run gets the newest one of its plan next to it.
    pub(crate) fn new(dir: PathBuf, mut run: Run) -> Self {
        run.aa_test = answer::noise_floor(&run).or_else(|| aa_test::newest(&dir, &run));
        run.confidence = Confidence::of(&run);
        run.answer = answer::answer(&run);
        run.headline = answer::headline(&run);
        Self { dir, run }
    }

    /// Writes `run.json` to a temporary file and renames it, so that readers never see a partial
    /// file.
    pub fn write(&self) -> Result<(), BenchError> {
        let (path, partial) = (self.dir.join(FILE_NAME), self.dir.join(".run.json.partial"));
        fs::write(&partial, self.run.to_json())
            .and_then(|()| fs::rename(&partial, &path))
            .map_err(|error| BenchError::file(&path, error))
    }
}

/// Directory and start time of a run that is not complete.
pub(crate) struct RunDir<'a> {
    pub(crate) path: PathBuf,
    pub(crate) options: &'a BenchOptions,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) clock: Clock,
    pub(crate) started_unix_ns: u64,
    /// Set to false if the priority of a cell's producers could not be raised.
    pub(crate) producers_preferred: AtomicBool,
    /// Largest difference of clocks in nanoseconds in the cells so far; 0: one clock.
    pub(crate) clock_bound_ns: AtomicU64,
    /// Machine facts from before any process was started.
    machine: Machine,
}

impl<'a> RunDir<'a> {
    /// Creates the directory `<time>-<plan>`.
    pub(crate) fn create(
        plan: &str,
        options: &'a BenchOptions,
        stop: &'a AtomicBool,
    ) -> Result<Self, BenchError> {
        let clock = Clock::start();
        // Reports show whole seconds.
        let started_unix_ns = clock.now_unix_ns() / SECOND_NS * SECOND_NS;
        let name = format!("{}-{plan}", utc::compact(started_unix_ns / SECOND_NS));
        let dir = options.out.join(name);
        fs::create_dir_all(&dir).map_err(|error| BenchError::file(&dir, error))?;
        Ok(Self {
            clock,
            ..Self::resume(&dir, started_unix_ns, options, stop)
        })
    }

    /// Returns the directory of an interrupted run that started at `started_unix_ns`.
    pub(crate) fn resume(
        dir: &Path,
        started_unix_ns: u64,
        options: &'a BenchOptions,
        stop: &'a AtomicBool,
    ) -> Self {
        Self {
            path: dir.to_owned(),
            options,
            stop,
            clock: Clock::start(),
            started_unix_ns,
            producers_preferred: AtomicBool::new(true),
            clock_bound_ns: AtomicU64::new(0),
            machine: environment::machine(),
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns the reason why no further cell can be valid: an agent was lost.
    pub(crate) fn lost_machine(&self) -> Option<String> {
        self.options.machines.as_ref()?.lost()
    }

    pub(crate) fn elapsed_s(&self) -> f64 {
        let now_unix_ns = self.clock.now_unix_ns();
        now_unix_ns.saturating_sub(self.started_unix_ns) as f64 / 1e9
    }

    pub(crate) fn subdir(&self, name: &str) -> Result<PathBuf, BenchError> {
        let dir = self.path.join(name);
        fs::create_dir_all(&dir).map_err(|error| BenchError::file(&dir, error))?;
        Ok(dir)
    }

    /// Returns the run without results. `about` has the name, the title and the question of its
    /// plan.
    pub(crate) fn describe(
        &self,
        about: [&str; 3],
        reference: Option<&ReferenceFigures>,
        broker: &RunBroker,
    ) -> Run {
        let lab = broker.lab.as_ref();
        let kafka = lab.map(|lab| ("kafka".to_owned(), lab.kafka_version().to_owned()));
        let mut run = bare_run(about, &self.options.command_line, self.started_unix_ns);
        run.machine = self.machine.clone();
        run.clock = environment::clock();
        run.versions.extend(kafka);
        run.reference = reference.cloned();
        run
    }

    /// Stops the broker and writes `run.json`.
    pub(crate) fn finish(self, mut run: Run, broker: RunBroker) -> Result<Finished, BenchError> {
        let bound_ns = self.clock_bound_ns.load(Ordering::Relaxed);
        if bound_ns > 0 {
            run.clock = ClockInfo {
                mode: ClockMode::OffsetEstimate,
                bound_ns,
            };
        }
        run.finished_utc = utc::rfc3339(self.clock.now_unix_ns() / SECOND_NS);
        if let Err(error) = broker.down() {
            let text = format!("the broker did not shut down cleanly: {error}");
            run.warnings.push(text);
        }
        let finished = Finished::new(self.path, run);
        finished.write()?;
        Ok(finished)
    }
}

/// Returns a run without environment and results.
pub(crate) fn bare_run(
    [plan, title, question]: [&str; 3],
    command_line: &[String],
    started_unix_ns: u64,
) -> Run {
    let weir_version = env!("CARGO_PKG_VERSION").to_owned();
    let started_utc = utc::rfc3339(started_unix_ns / SECOND_NS);
    Run {
        schema: SCHEMA.to_owned(),
        plan: plan.to_owned(),
        title: title.to_owned(),
        question: question.to_owned(),
        finished_utc: started_utc.clone(),
        started_utc,
        command_line: command_line.to_vec(),
        versions: [("weir".to_owned(), weir_version.clone())].into(),
        weir_version,
        clock: environment::clock(),
        ..Run::default()
    }
}

/// Returns the outcome of a run with these limits; without results it is invalid.
pub(crate) fn outcome(run: &Run, is_interrupted: bool, has_results: bool) -> RunOutcome {
    match () {
        () if is_interrupted => RunOutcome::Interrupted,
        () if !has_results => RunOutcome::Invalid,
        () if ThresholdCounts::of(&run.thresholds).failed > 0 => RunOutcome::ThresholdFailed,
        () => RunOutcome::Complete,
    }
}

pub(crate) fn placement(role: &str, description: &str) -> Placement {
    Placement {
        role: role.to_owned(),
        host: "this machine".to_owned(),
        processes: 1,
        description: description.to_owned(),
    }
}

pub(crate) fn file(path: impl Into<String>, description: impl Into<String>) -> RunFile {
    RunFile {
        path: path.into(),
        description: description.into(),
    }
}

/// Joins values with spaces, the format of lists in settings.
pub(crate) fn list<T: ToString>(values: &[T]) -> String {
    let values: Vec<String> = values.iter().map(T::to_string).collect();
    values.join(" ")
}

pub(crate) const SECOND_NS: u64 = 1_000_000_000;
