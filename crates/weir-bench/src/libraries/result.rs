//! Computes notes, limits, outcome and verdict of a run from its samples.

use std::collections::BTreeMap;

use weir_stats::libraries;
use weir_stats::run::{
    Libraries, LibraryDriver, LibrarySample, Machine, Placement, Run, RunFile, RunOutcome, SCHEMA,
    SettingGroup, ThresholdResult,
};
use weir_stats::utc;

use super::super::{BenchOptions, environment};
use super::cpu_affinity::Cores;
use super::grid::LibraryCellSpec;
use super::journal::{CONFIGURATION, DRIVERS, SAMPLES};
use super::operation::DriverOperation;
use super::plan::LibrariesPlan;
use super::profile::Profile;
use super::runner::RunEnd;

/// Facts about a run other than its samples.
pub(super) struct RunFacts<'a> {
    pub(super) plan: &'a LibrariesPlan,
    pub(super) options: &'a BenchOptions,
    pub(super) bootstrap: &'a str,
    pub(super) kafka_version: Option<String>,
    pub(super) cores: Option<Cores>,
    pub(super) is_resumed: bool,
    /// Machine facts from before any process was started.
    pub(super) machine: Machine,
    pub(super) started_s: u64,
    pub(super) finished_s: u64,
}

/// Returns the run without its outcome.
pub(super) fn run(
    facts: &RunFacts<'_>,
    cells: &[LibraryCellSpec],
    drivers: Vec<LibraryDriver>,
    samples: Vec<LibrarySample>,
) -> Run {
    let plan = facts.plan;
    let weir_version = env!("CARGO_PKG_VERSION").to_owned();
    let mut versions = BTreeMap::from([("weir".to_owned(), weir_version.clone())]);
    versions.extend(
        facts
            .kafka_version
            .clone()
            .map(|it| ("kafka".to_owned(), it)),
    );
    let running = drivers.iter().filter(|driver| !driver.library.is_empty());
    versions.extend(running.map(|driver| {
        let version = format!("{} {}", driver.library, driver.library_version);
        (driver.name.clone(), version)
    }));
    let notes = notes(facts, cells, &drivers);
    let warnings = warnings(&drivers, &samples);
    Run {
        schema: SCHEMA.to_owned(),
        plan: plan.name.clone(),
        title: plan.title.clone(),
        question: plan.question.clone(),
        started_utc: utc::rfc3339(facts.started_s),
        finished_utc: utc::rfc3339(facts.finished_s),
        command_line: facts.options.command_line.clone(),
        weir_version,
        outcome: RunOutcome::Passed,
        verdict: String::new(),
        thresholds: Vec::new(),
        machine: facts.machine.clone(),
        placement: placement(&drivers),
        clock: environment::clock(),
        versions,
        settings: settings(facts),
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
            cells: cells.iter().map(LibraryCellSpec::to_library_cell).collect(),
            samples,
            aa_test: plan.null_test,
        }),
    }
}

fn placement(drivers: &[LibraryDriver]) -> Vec<Placement> {
    let placement = |role: &str, description: String| Placement {
        role: role.to_owned(),
        host: "this machine".to_owned(),
        processes: 1,
        description,
    };
    let broker = placement(
        "broker",
        "Apache Kafka, topics of one partition and one replica".to_owned(),
    );
    let drivers = drivers.iter().map(|driver| {
        placement(
            &driver.name,
            format!("driver of {}, running for the whole run", driver.library),
        )
    });
    std::iter::once(broker).chain(drivers).collect()
}

fn settings(facts: &RunFacts<'_>) -> Vec<SettingGroup> {
    let plan = facts.plan;
    let of_plan = plan.identity().into_iter();
    let load = of_plan.fold(SettingGroup::new("plan"), |group, (name, value)| {
        group.with(name, value)
    });
    let load = load
        .with("disk_cap_bytes", plan.disk_cap)
        .with("command_timeout_s", plan.command_timeout.as_secs_f64())
        .with("bootstrap.servers", facts.bootstrap);
    let list = |cores: &[usize]| {
        let cores: Vec<String> = cores.iter().map(usize::to_string).collect();
        cores.join(" ")
    };
    let mut processes = SettingGroup::new("processes").with("optimized", !cfg!(debug_assertions));
    if let Some(average) = environment::load_average() {
        processes = processes.with("load_average_after", average);
    }
    if let Some(cores) = &facts.cores {
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
        file(SAMPLES, "one line per repetition and driver, as measured"),
        file(CONFIGURATION, "values that must not change for --resume"),
        file(
            &format!("{DRIVERS}/"),
            "commands and output of each driver, and its standard error",
        ),
    ]
}

/// Returns notes that are needed to interpret the results.
fn notes(
    facts: &RunFacts<'_>,
    cells: &[LibraryCellSpec],
    drivers: &[LibraryDriver],
) -> Vec<String> {
    let mut notes = Vec::new();
    if facts.cores.is_none() {
        notes.push(format!(
            "broker, drivers and this program share {} cores: CPU time per record is more reliable \
             than wall-clock time",
            environment::cores()
        ));
    }
    if facts.plan.profile == Profile::Legacy {
        legacy_notes(&mut notes, cells, drivers);
    }
    for driver in drivers.iter().filter(|driver| !driver.binding.is_empty()) {
        notes.push(format!(
            "{} is measured through {}: its results include the cost of the binding",
            driver.name, driver.binding
        ));
    }
    if !drivers
        .iter()
        .any(|driver| driver.name.starts_with("dotnet"))
    {
        let text = "no library ran on .NET: the published comparison includes calls through JNI, \
                    whose cost is not part of the Java client's results here";
        notes.push(text.to_owned());
    }
    for driver in drivers
        .iter()
        .filter(|driver| !driver.capabilities.is_empty())
    {
        let mut missing: Vec<String> = cells
            .iter()
            .map(|cell| cell.mode.capability(&driver.name))
            .filter(|capability| !driver.capabilities.contains(capability))
            .collect();
        missing.dedup();
        if !missing.is_empty() {
            missing.sort_unstable();
            missing.dedup();
            notes.push(format!(
                "{} does not support {}",
                driver.name,
                missing.join(", ")
            ));
        }
    }
    if facts.plan.acks == 0 {
        let text = "acks 0: a record counts as delivered when it is in a socket buffer; the record \
                    count of the broker was checked afterwards";
        notes.push(text.to_owned());
    }
    if facts.is_resumed {
        let text = "measured in more than one session, each with new drivers and, unless \
                    --bootstrap was given, a new broker";
        notes.push(text.to_owned());
    }
    if facts.options.bootstrap.is_some() {
        let text = "the broker was not started by this run: its configuration is not known";
        notes.push(text.to_owned());
    }
    notes
}

fn legacy_notes(notes: &mut Vec<String>, cells: &[LibraryCellSpec], drivers: &[LibraryDriver]) {
    let text = "profile legacy: settings and order of the published comparison, including start-up \
                effects; ratios do not show the speed of the libraries \
                (docs/client-libraries.md)";
    notes.push(text.to_owned());
    let below = |cell: &&LibraryCellSpec| {
        cell.operation() == DriverOperation::Consume
            && cell.value_bytes * cell.records < FETCH_MIN_BYTES
    };
    if cells.iter().any(|cell| below(&cell)) {
        let text = "consume cells below 100,000 bytes measure fetch.min.bytes: the broker delays \
                    such a fetch by the 500 ms of fetch.max.wait.ms for every library; a new group \
                    of librdkafka waits another 100 ms before it requests its offsets, so the \
                    ratio is (500 + a) / (600 + b), about 85 %";
        notes.push(text.to_owned());
    }
    for driver in drivers.iter().filter(|driver| !driver.library.is_empty()) {
        use weir_drivers::ProducerState;
        let start = match Profile::legacy_state(&driver.name) {
            ProducerState::Metadata => {
                "knows the topic before its clock starts, like the published Java program"
            }
            _ => {
                "starts its clock with a new producer without metadata, like the published \
                 librdkafka program"
            }
        };
        notes.push(format!("{}: {start}", driver.name));
    }
}

/// Returns warnings about conditions that affect the results.
fn warnings(drivers: &[LibraryDriver], samples: &[LibrarySample]) -> Vec<String> {
    let mut warnings = Vec::new();
    for driver in drivers {
        let measured = samples
            .iter()
            .filter(|sample| sample.driver == driver.name)
            .count();
        if let Some(reason) = &driver.failed {
            warnings.push(match measured {
                0 => format!("{} took no part: {reason}", driver.name),
                _ => format!(
                    "{} was given up after {measured} repetitions: {reason}",
                    driver.name
                ),
            });
        } else if !driver.is_warm_up_complete() {
            warnings.push(format!(
                "{}: CPU time per record was not steady after {} warm-up rounds",
                driver.name, driver.warm_up_rounds
            ));
        }
    }
    warnings
}

/// Sets limits, outcome and verdict.
pub(super) fn conclude(run: &mut Run, ended: &Result<(), RunEnd>) {
    let Some(found) = &mut run.libraries else {
        return;
    };
    if let Err(end) = ended {
        let reason = match end {
            RunEnd::Interrupted => "interrupted".to_owned(),
            RunEnd::Instrument(reason) => reason.clone(),
            RunEnd::Files(error) => error.to_string(),
        };
        for cell in &mut found.cells {
            let has_run = found.samples.iter().any(|sample| sample.cell == cell.name);
            if !has_run && cell.skipped.is_none() {
                cell.skipped = Some(reason.clone());
            }
        }
        if !matches!(end, RunEnd::Interrupted) {
            run.warnings.push(format!("the run ended early: {reason}"));
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
        false => "No cell was measured.".to_owned(),
    };
    run.verdict = match ended {
        Err(RunEnd::Interrupted) => {
            format!("Interrupted; results until then. {verdict}")
        }
        Err(RunEnd::Instrument(_) | RunEnd::Files(_)) => format!("Ended early. {verdict}"),
        Ok(()) => verdict,
    };
}

/// Returns the limit of an A/A test: at most few significant differences.
fn null_limit(found: &Libraries) -> Option<ThresholdResult> {
    if !found.aa_test {
        return None;
    }
    let headline = libraries::aa_test(found).headline;
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

/// Minimum share. 95 % intervals miss in one of 20 cells on average.
const NULL_SHARE: f64 = 0.9;
/// `fetch.min.bytes` of the legacy profile.
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
        let plan = plan.with(overrides, "test").unwrap();
        let cells = grid::cells(&plan).unwrap();
        let options = BenchOptions {
            out: PathBuf::new(),
            bootstrap: None,
            exe: PathBuf::new(),
            command_line: Vec::new(),
        };
        let facts = RunFacts {
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
        let drivers = vec![driver("a", None), driver("b", Some("timed out"))];
        let mut run = run(&facts, &cells, drivers, samples);
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
    fn failed_driver_gives_a_warning_only() {
        let run = concluded(one_cell(), &[("a", 100.0), ("b", 200.0)], Ok(()));
        assert_eq!(run.outcome, RunOutcome::Passed);
        assert_eq!(
            run.warnings,
            ["b was given up after 8 repetitions: timed out"]
        );
        assert!(run.verdict.contains('b'), "{}", run.verdict);
        let notes = run.notes.join("\n");
        assert!(
            notes.contains("JNI") && notes.contains("a does not support consume.assign"),
            "{notes}"
        );
        // The run survives serialization.
        assert_eq!(Run::from_json(&run.to_json()).unwrap(), run);
    }

    #[test]
    fn unreached_cells_have_a_reason() {
        let run = concluded(one_cell(), &[("a", 100.0)], Err(RunEnd::Interrupted));
        assert_eq!(run.outcome, RunOutcome::Interrupted);
        let cells = &run.libraries.as_ref().unwrap().cells;
        assert_eq!(cells[0].skipped, None);
        assert_eq!(cells[1].skipped.as_deref(), Some("interrupted"));
        assert!(run.verdict.starts_with("Interrupted"), "{}", run.verdict);
        let nothing = concluded(one_cell(), &[], Ok(()));
        assert_eq!(nothing.outcome, RunOutcome::Invalid);
        let failed = concluded(
            one_cell(),
            &[("a", 1.0)],
            Err(RunEnd::Instrument("broker down".to_owned())),
        );
        assert_eq!(failed.outcome, RunOutcome::Invalid);
        assert!(failed.warnings.last().unwrap().contains("broker down"));
    }

    #[test]
    fn differing_drivers_fail_the_aa_test() {
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
    fn legacy_profile_explains_its_ratios() {
        let legacy = LibrariesOverrides {
            profile: Some(Profile::Legacy),
            cells: Some(vec!["*/10x10".to_owned()]),
            ..LibrariesOverrides::default()
        };
        let run = concluded(legacy, &[("a", 100.0)], Ok(()));
        let notes = run.notes.join("\n");
        for word in ["fetch.min.bytes", "about 85 %", "a: starts its clock"] {
            assert!(notes.contains(word), "{notes}");
        }
    }
}
