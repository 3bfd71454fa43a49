//! From samples to a run: notes for the reader, limits, outcome and the sentence in front.

use std::collections::BTreeMap;

use weir_stats::libraries;
use weir_stats::run::{
    Libraries, LibraryDriver, LibrarySample, Machine, Placement, Run, RunFile, RunOutcome, SCHEMA,
    SettingGroup, ThresholdResult,
};
use weir_stats::utc;

use super::super::{BenchOptions, environment};
use super::grid::{DriverOperation, LibraryCellSpec};
use super::journal::{CONFIGURATION, SAMPLES};
use super::pin::Cores;
use super::plan::LibrariesPlan;
use super::profile::Profile;
use super::runner::RunEnd;
use super::start::DRIVERS;

/// What is known of a run besides its samples.
pub(super) struct RunFacts<'a> {
    pub(super) plan: &'a LibrariesPlan,
    pub(super) options: &'a BenchOptions,
    pub(super) bootstrap: &'a str,
    pub(super) kafka_version: Option<String>,
    pub(super) cores: Option<Cores>,
    pub(super) is_resumed: bool,
    /// As it was before anything was started.
    pub(super) machine: Machine,
    pub(super) started_s: u64,
    pub(super) finished_s: u64,
}

/// The run but for its outcome.
pub(super) fn run(
    known: &RunFacts<'_>,
    cells: &[LibraryCellSpec],
    drivers: Vec<LibraryDriver>,
    samples: Vec<LibrarySample>,
) -> Run {
    let plan = known.plan;
    let weir_version = env!("CARGO_PKG_VERSION").to_owned();
    let mut versions = BTreeMap::from([("weir".to_owned(), weir_version.clone())]);
    versions.extend(
        known
            .kafka_version
            .clone()
            .map(|it| ("kafka".to_owned(), it)),
    );
    let running = drivers.iter().filter(|driver| !driver.library.is_empty());
    versions.extend(running.map(|driver| {
        let version = format!("{} {}", driver.library, driver.library_version);
        (driver.name.clone(), version)
    }));
    let notes = notes(known, cells, &drivers);
    let warnings = warnings(&drivers, &samples);
    Run {
        schema: SCHEMA.to_owned(),
        plan: plan.name.clone(),
        title: plan.title.clone(),
        question: plan.question.clone(),
        started_utc: utc::rfc3339(known.started_s),
        finished_utc: utc::rfc3339(known.finished_s),
        command_line: known.options.command_line.clone(),
        weir_version,
        outcome: RunOutcome::Passed,
        verdict: String::new(),
        thresholds: Vec::new(),
        machine: known.machine.clone(),
        placement: placement(&drivers),
        clock: environment::clock(),
        versions,
        settings: settings(known),
        cells: Vec::new(),
        reference: None,
        notes,
        warnings,
        files: files(),
        derived: Vec::new(),
        comparisons: Vec::new(),
        find_max: None,
        libraries: Some(Libraries {
            profile: plan.profile.name().to_owned(),
            drivers,
            cells: cells.iter().map(LibraryCellSpec::to_run).collect(),
            samples,
            null_test: plan.null_test,
        }),
    }
}

fn placement(drivers: &[LibraryDriver]) -> Vec<Placement> {
    let part = |role: &str, description: String| Placement {
        role: role.to_owned(),
        host: "this machine".to_owned(),
        processes: 1,
        description,
    };
    let broker = part(
        "broker",
        "Apache Kafka, topics of one partition and one replica".to_owned(),
    );
    let drivers = drivers.iter().map(|driver| {
        part(
            &driver.name,
            format!("a driver of {}, kept for the whole run", driver.library),
        )
    });
    std::iter::once(broker).chain(drivers).collect()
}

fn settings(known: &RunFacts<'_>) -> Vec<SettingGroup> {
    let plan = known.plan;
    let of_plan = plan.identity().into_iter();
    let load = of_plan.fold(SettingGroup::new("plan"), |group, (name, value)| {
        group.with(name, value)
    });
    let load = load
        .with("disk_cap_bytes", plan.disk_cap)
        .with("command_timeout_s", plan.command_timeout.as_secs_f64())
        .with("bootstrap.servers", known.bootstrap);
    let list = |cores: &[usize]| {
        let cores: Vec<String> = cores.iter().map(usize::to_string).collect();
        cores.join(" ")
    };
    let mut processes = SettingGroup::new("processes").with("optimized", !cfg!(debug_assertions));
    if let Some(average) = environment::load_average() {
        processes = processes.with("load_average_after", average);
    }
    if let Some(cores) = &known.cores {
        processes = processes
            .with("broker_cores", list(&cores.broker))
            .with("driver_cores", list(&cores.drivers))
            .with("own_cores", list(&cores.own));
    }
    vec![load, processes]
}

fn files() -> Vec<RunFile> {
    let file = |path: &str, description: &str| RunFile {
        path: path.to_owned(),
        description: description.to_owned(),
    };
    vec![
        file(
            SAMPLES,
            "every repetition of every driver, a line each, as it was measured",
        ),
        file(CONFIGURATION, "what has to be the same for --resume"),
        file(
            &format!("{DRIVERS}/"),
            "what was said to each driver and by it, and its standard error",
        ),
    ]
}

/// What a reader has to know to read the figures.
fn notes(
    known: &RunFacts<'_>,
    cells: &[LibraryCellSpec],
    drivers: &[LibraryDriver],
) -> Vec<String> {
    let mut notes = Vec::new();
    if known.cores.is_none() {
        notes.push(format!(
            "broker, drivers and this program share {} cores: trust processor time per record more than wall time",
            environment::cores()
        ));
    }
    if known.plan.profile == Profile::Legacy {
        legacy_notes(&mut notes, cells, drivers);
    }
    for driver in drivers.iter().filter(|driver| !driver.binding.is_empty()) {
        notes.push(format!(
            "{} is measured through {}: what the binding costs is in its figures",
            driver.name, driver.binding
        ));
    }
    if !drivers
        .iter()
        .any(|driver| driver.name.starts_with("dotnet"))
    {
        let text = "no library ran on .NET: calls through JNI, which the published comparison counts, cannot be \
                    measured without it, and what they cost there is not in figures of the Java client here";
        notes.push(text.to_owned());
    }
    for driver in drivers
        .iter()
        .filter(|driver| !driver.capabilities.is_empty())
    {
        let mut missing: Vec<String> = cells
            .iter()
            .map(|cell| cell.mode.needs(&driver.name))
            .filter(|need| !driver.capabilities.contains(need))
            .collect();
        missing.dedup();
        if !missing.is_empty() {
            missing.sort_unstable();
            missing.dedup();
            notes.push(format!("{} cannot do {}", driver.name, missing.join(", ")));
        }
    }
    if known.plan.acks == 0 {
        let text = "acks 0: a record counts as delivered when its bytes are in a socket's buffer; whether the \
                    broker has it was asked afterwards";
        notes.push(text.to_owned());
    }
    if known.is_resumed {
        let text = "measured in more than one sitting, each with drivers and, unless given, a broker of its own";
        notes.push(text.to_owned());
    }
    if known.options.bootstrap.is_some() {
        notes
            .push("the broker was not started for this run: its settings are not known".to_owned());
    }
    notes
}

fn legacy_notes(notes: &mut Vec<String>, cells: &[LibraryCellSpec], drivers: &[LibraryDriver]) {
    let text = "profile legacy: the published comparison's settings and order, start-up effects included; ratios \
                are not those of the libraries' speed (docs/client-libraries.md)";
    notes.push(text.to_owned());
    let below = |cell: &&LibraryCellSpec| {
        cell.work() == DriverOperation::Consume && cell.value_bytes * cell.records < FETCH_MIN_BYTES
    };
    if cells.iter().any(|cell| below(&cell)) {
        let text = "consume cells of less than 100,000 bytes measure fetch.min.bytes: the broker holds such a fetch for \
                    the 500 ms of fetch.max.wait.ms, whichever library asks; a new group of librdkafka waits 100 ms \
                    more before it asks where to begin, so that (500 + a) / (600 + b) comes out, near 85 %";
        notes.push(text.to_owned());
    }
    for driver in drivers.iter().filter(|driver| !driver.library.is_empty()) {
        use weir_drivers::ProducerState;
        let start = match Profile::legacy_state(&driver.name) {
            ProducerState::Metadata => {
                "knows the topic before its clock starts, as the published Java side did"
            }
            _ => {
                "starts its clock with a new producer that knows nothing, as the published librdkafka side did"
            }
        };
        notes.push(format!("{}: {start}", driver.name));
    }
}

/// What may spoil the figures.
fn warnings(drivers: &[LibraryDriver], samples: &[LibrarySample]) -> Vec<String> {
    let mut warnings = Vec::new();
    for driver in drivers {
        let measured = samples
            .iter()
            .filter(|sample| sample.driver == driver.name)
            .count();
        if let Some(why) = &driver.failed {
            warnings.push(match measured {
                0 => format!("{} took no part: {why}", driver.name),
                _ => format!(
                    "{} was given up after {measured} repetitions: {why}",
                    driver.name
                ),
            });
        } else if !driver.is_warm_as_asked() {
            warnings.push(format!(
                "{}: its cost had not settled after {} rounds of warm-up",
                driver.name, driver.warm_up_rounds
            ));
        }
    }
    warnings
}

/// Limits, outcome and verdict.
pub(super) fn conclude(run: &mut Run, ended: &Result<(), RunEnd>) {
    let Some(found) = &mut run.libraries else {
        return;
    };
    if let Err(end) = ended {
        let why = match end {
            RunEnd::Interrupted => "interrupted".to_owned(),
            RunEnd::Instrument(why) => why.clone(),
            RunEnd::Files(error) => error.to_string(),
        };
        for cell in &mut found.cells {
            let has_run = found.samples.iter().any(|sample| sample.cell == cell.name);
            if !has_run && cell.skipped.is_none() {
                cell.skipped = Some(why.clone());
            }
        }
        if !matches!(end, RunEnd::Interrupted) {
            run.warnings.push(format!("the run ended early: {why}"));
        }
    }
    run.thresholds.extend(null_limit(found));
    let has_figures = found.samples.iter().any(|sample| sample.invalid.is_empty());
    run.outcome = match ended {
        Err(RunEnd::Interrupted) => RunOutcome::Interrupted,
        Err(_) => RunOutcome::Invalid,
        Ok(()) if !has_figures => RunOutcome::Invalid,
        Ok(()) if run.thresholds.iter().any(|it| !it.passed) => RunOutcome::ThresholdFailed,
        Ok(()) => RunOutcome::Passed,
    };
    let verdict = match has_figures {
        true => libraries::verdict(found),
        false => "Nothing was measured.".to_owned(),
    };
    run.verdict = match ended {
        Err(RunEnd::Interrupted) => {
            format!("Interrupted; what was measured until then stands. {verdict}")
        }
        Err(RunEnd::Instrument(_) | RunEnd::Files(_)) => format!("Ended early. {verdict}"),
        Ok(()) => verdict,
    };
}

/// Of a library against itself hardly any difference may be shown.
fn null_limit(found: &Libraries) -> Option<ThresholdResult> {
    if !found.null_test {
        return None;
    }
    let headline = libraries::null_test(found).headline;
    let actual = headline.share();
    Some(ThresholdResult {
        expression: format!("share of intervals that contain 100 % >= {NULL_SHARE}"),
        scope: format!("{} cells of one library against itself", headline.intervals),
        actual,
        limit: NULL_SHARE,
        unit: "share".to_owned(),
        passed: actual.is_some_and(|share| share >= NULL_SHARE),
    })
}

/// Intervals of 95 % miss in one of 20 cells; with some luck in two.
const NULL_SHARE: f64 = 0.9;
/// Of the legacy profile.
const FETCH_MIN_BYTES: u64 = 100_000;

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::grid;
    use super::super::plan::LibrariesOverrides;
    use super::*;

    fn driver(name: &str, failed: Option<&str>) -> LibraryDriver {
        LibraryDriver {
            name: name.to_owned(),
            library: name.to_owned(),
            library_version: "1".to_owned(),
            binding: String::new(),
            runtime: String::new(),
            capabilities: vec!["produce.warm".to_owned()],
            settings: Vec::new(),
            warm_up_rounds: 4,
            warm_up_settled: true,
            failed: failed.map(str::to_owned),
        }
    }

    fn concluded(
        overrides: LibrariesOverrides,
        values: &[(&str, f64)],
        ended: Result<(), RunEnd>,
    ) -> Run {
        let plan = LibrariesPlan::built_in().unwrap();
        let plan = plan.with(&overrides, "test").unwrap();
        let cells = grid::cells(&plan).unwrap();
        let options = BenchOptions {
            out: PathBuf::new(),
            bootstrap: None,
            exe: PathBuf::new(),
            command_line: Vec::new(),
        };
        let known = RunFacts {
            plan: &plan,
            options: &options,
            bootstrap: "127.0.0.1:1",
            kafka_version: None,
            cores: None,
            is_resumed: false,
            machine: Machine::default(),
            started_s: 0,
            finished_s: 60,
        };
        let samples = (0..8).flat_map(|repetition| {
            let cell = cells[0].name();
            values.iter().map(move |(name, us)| LibrarySample {
                cell: cell.clone(),
                driver: (*name).to_owned(),
                repetition,
                delivered_us: Some(us * (1.0 + f64::from(repetition) / 100.0)),
                ..LibrarySample::default()
            })
        });
        let samples = samples.collect();
        let drivers = vec![driver("a", None), driver("b", Some("hung"))];
        let mut run = run(&known, &cells, drivers, samples);
        conclude(&mut run, &ended);
        run
    }

    fn one_cell() -> LibrariesOverrides {
        LibrariesOverrides {
            cells: Some(vec![
                "produce.warm/10x10".to_owned(),
                "consume.assign/10x10".to_owned(),
            ]),
            ..LibrariesOverrides::default()
        }
    }

    #[test]
    fn a_driver_that_failed_is_named_and_the_run_counts() {
        let run = concluded(one_cell(), &[("a", 100.0), ("b", 200.0)], Ok(()));
        assert_eq!(run.outcome, RunOutcome::Passed);
        assert_eq!(run.warnings, ["b was given up after 8 repetitions: hung"]);
        assert!(run.verdict.contains('b'), "{}", run.verdict);
        let notes = run.notes.join("\n");
        assert!(
            notes.contains("JNI") && notes.contains("a cannot do consume.assign"),
            "{notes}"
        );
        // What is written is read again.
        assert_eq!(Run::from_json(&run.to_json()).unwrap(), run);
    }

    #[test]
    fn what_was_not_reached_says_why() {
        let run = concluded(one_cell(), &[("a", 100.0)], Err(RunEnd::Interrupted));
        assert_eq!(run.outcome, RunOutcome::Interrupted);
        let cells = &run.libraries.as_ref().unwrap().cells;
        assert_eq!(cells[0].skipped, None);
        assert_eq!(cells[1].skipped.as_deref(), Some("interrupted"));
        assert!(run.verdict.starts_with("Interrupted"), "{}", run.verdict);
        let nothing = concluded(one_cell(), &[], Ok(()));
        assert_eq!(nothing.outcome, RunOutcome::Invalid);
        let broken = concluded(
            one_cell(),
            &[("a", 1.0)],
            Err(RunEnd::Instrument("gone".to_owned())),
        );
        assert_eq!(broken.outcome, RunOutcome::Invalid);
        assert!(broken.warnings.last().unwrap().contains("gone"));
    }

    #[test]
    fn a_library_that_differs_from_itself_fails_the_null_test() {
        let null_test = || LibrariesOverrides {
            null_test: Some(true),
            ..one_cell()
        };
        let differs = concluded(null_test(), &[("a", 100.0), ("b", 200.0)], Ok(()));
        assert_eq!(differs.outcome, RunOutcome::ThresholdFailed);
        let same = concluded(null_test(), &[("a", 100.0), ("b", 100.0)], Ok(()));
        assert_eq!(same.outcome, RunOutcome::Passed, "{:?}", same.thresholds);
    }

    #[test]
    fn the_legacy_profile_explains_its_ratios() {
        let legacy = LibrariesOverrides {
            profile: Some(Profile::Legacy),
            cells: Some(vec!["*/10x10".to_owned()]),
            ..LibrariesOverrides::default()
        };
        let run = concluded(legacy, &[("a", 100.0)], Ok(()));
        let notes = run.notes.join("\n");
        for word in ["fetch.min.bytes", "near 85 %", "a: starts its clock"] {
            assert!(notes.contains(word), "{notes}");
        }
    }
}
