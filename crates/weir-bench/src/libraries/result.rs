//! Computes notes, limits, outcome and verdict of a run from its samples.

use std::collections::BTreeSet;

use weir_stats::libraries;
use weir_stats::run::{
    Libraries, LibraryDriver, LibrarySample, Run, RunOutcome, SettingGroup, ThresholdResult,
    ThresholdStatus,
};

use super::grid::LibraryCellSpec;
use super::journal::{CONFIGURATION, DRIVERS, SAMPLES};
use super::pack::PACKED;
use super::plan::LibrariesPlan;
use super::profile::{DriverOperation, Profile};
use super::run_end::{RunEnd, RunResult};
use crate::experiment::run_dir::{file, list, outcome, placement};
use crate::plan::bars;
use crate::{BenchOptions, environment};
use weir_drivers::cpu_affinity::Cores;

/// Facts about a run other than its samples.
pub(super) struct RunFacts<'a> {
    pub(super) plan: &'a LibrariesPlan,
    pub(super) options: &'a BenchOptions,
    pub(super) cluster: SettingGroup,
    pub(super) cores: Option<Cores>,
    pub(super) is_resumed: bool,
    pub(super) cells: &'a [LibraryCellSpec],
    pub(super) drivers: Vec<LibraryDriver>,
}

/// Adds everything except the outcome to the description of a run.
pub(super) fn run(described: Run, facts: RunFacts<'_>, samples: Vec<LibrarySample>) -> Run {
    let drivers = &facts.drivers;
    let mut run = described;
    let running = drivers.iter().filter(|driver| !driver.library.is_empty());
    run.versions.extend(running.map(LibraryDriver::version));
    let broker = "Apache Kafka, topics of one partition and one replica";
    run.placement.push(placement("broker", broker));
    run.placement.extend(drivers.iter().map(|driver| {
        let text = format!("driver of {}, running for the whole run", driver.library);
        placement(&driver.name, &text)
    }));
    run.settings = settings(&facts);
    run.notes = notes(&facts);
    let warnings = drivers
        .iter()
        .filter_map(|driver| warning(driver, &samples));
    run.warnings.extend(warnings);
    let drivers_dir = "commands and responses of each driver (compressed), and its standard error";
    run.files = vec![
        file(
            format!("{SAMPLES}{PACKED}"),
            "one line per repetition and driver, as measured",
        ),
        file(CONFIGURATION, "values that must not change for --resume"),
        file(format!("{DRIVERS}/"), drivers_dir),
    ];
    run.libraries = Some(Libraries {
        profile: facts.plan.profile.name().to_owned(),
        cells: facts.cells.iter().map(|spec| spec.cell.clone()).collect(),
        samples,
        distributions_file: None,
        aa_test: facts.plan.aa_test,
        drivers: facts.drivers,
    });
    run
}

fn settings(facts: &RunFacts<'_>) -> Vec<SettingGroup> {
    let plan = facts.plan;
    let values = plan.identity().into_iter();
    let load = values.fold(SettingGroup::new("plan"), |group, (name, value)| {
        group.with(name, value)
    });
    let load = load
        .with("disk_cap_bytes", plan.disk_cap)
        .with("command_timeout_s", plan.command_timeout.as_secs_f64());
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
    vec![load, facts.cluster.clone(), processes]
}

fn notes(facts: &RunFacts<'_>) -> Vec<String> {
    let (cells, drivers) = (facts.cells, &facts.drivers);
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
    for driver in drivers.iter().filter(|driver| driver.is_not_run()) {
        let reason = driver.failed.as_deref().unwrap_or_default();
        notes.push(format!("{} was not run here: {reason}", driver.name));
    }
    let missing = drivers.iter().filter_map(|driver| {
        let needed = cells
            .iter()
            .map(|spec| spec.mode.capability(&driver.library));
        let missing = needed.filter(|capability| !driver.capabilities.contains(capability));
        let missing: BTreeSet<String> = missing.collect();
        let is_known = !driver.capabilities.is_empty() && !missing.is_empty();
        let missing = Vec::from_iter(missing).join(", ");
        is_known.then(|| format!("{} does not support {missing}", driver.name))
    });
    let has_jni = drivers.iter().any(|driver| driver.binding.contains("KNet"));
    let mut note = |applies: bool, text: &str| notes.extend(applies.then(|| text.to_owned()));
    note(
        !has_jni,
        "no library crossed from .NET into a Java VM: the published comparison includes calls \
         through JNI, whose cost is not part of the Java client's results here",
    );
    missing.for_each(|text| note(true, &text));
    note(
        facts.plan.acks == 0,
        "acks 0: a record counts as delivered when it is in a socket buffer; the record count of \
         the broker was checked afterwards",
    );
    note(
        facts.is_resumed,
        "measured in more than one session, each with new drivers and, unless --bootstrap was \
         given, a new broker",
    );
    note(
        facts.options.bootstrap.is_some(),
        "the broker was not started by this run: its configuration is not known",
    );
    notes
}

fn legacy_notes(notes: &mut Vec<String>, cells: &[LibraryCellSpec], drivers: &[LibraryDriver]) {
    let text = "profile legacy: settings and order of the published comparison, including start-up \
                effects; ratios do not show the speed of the libraries \
                (docs/client-libraries.md)";
    notes.push(text.to_owned());
    let is_below = |spec: &LibraryCellSpec| {
        spec.operation() == DriverOperation::Consume
            && spec.cell.value_bytes * spec.cell.records < FETCH_MIN_BYTES
    };
    if cells.iter().any(is_below) {
        let text = "consume cells below 100,000 bytes measure fetch.min.bytes: the broker delays \
                    such a fetch by the 500 ms of fetch.max.wait.ms for every library; a new group \
                    of librdkafka waits another 100 ms before it requests its offsets, so the \
                    ratio is (500 + a) / (600 + b), about 85 %";
        notes.push(text.to_owned());
    }
    for driver in drivers.iter().filter(|driver| !driver.library.is_empty()) {
        let start = match Profile::knows_metadata(&driver.library) {
            true => "knows the topic before its clock starts, like the published Java program",
            false => {
                "starts its clock with a new producer without metadata, like the published \
                 librdkafka program"
            }
        };
        notes.push(format!("{}: {start}", driver.name));
    }
}

/// Returns the warning about a driver whose results are incomplete or not steady.
fn warning(driver: &LibraryDriver, samples: &[LibrarySample]) -> Option<String> {
    let (name, rounds) = (&driver.name, driver.warm_up_rounds);
    let measured = samples
        .iter()
        .filter(|sample| sample.driver == *name)
        .count();
    match (&driver.failed, measured) {
        // It is a note.
        (Some(_), _) if driver.is_not_run() => None,
        (Some(reason), 0) => Some(format!("{name} took no part: {reason}")),
        (Some(reason), _) => Some(format!(
            "{name} was given up after {measured} repetitions: {reason}"
        )),
        (None, _) if driver.is_warm_up_complete() => None,
        (None, _) => Some(format!(
            "{name}: CPU time per record was not steady after {rounds} warm-up rounds"
        )),
    }
}

pub(super) fn conclude(run: &mut Run, ended: &RunResult) {
    let Some(found) = &mut run.libraries else {
        return;
    };
    let is_interrupted = matches!(ended, Err(RunEnd::Interrupted));
    let reason = match ended {
        Ok(()) => None,
        Err(RunEnd::Interrupted) => Some("interrupted".to_owned()),
        Err(RunEnd::Tool(reason)) => Some(reason.clone()),
        Err(RunEnd::Files(error)) => Some(error.to_string()),
    };
    if let Some(reason) = &reason {
        for cell in &mut found.cells {
            let has_run = found.samples.iter().any(|sample| sample.cell == cell.name);
            if !has_run && cell.skipped.is_none() {
                cell.skipped = Some(reason.clone());
            }
        }
        if !is_interrupted {
            run.warnings.push(format!("the run ended early: {reason}"));
        }
    }
    run.thresholds.extend(null_limit(found));
    let has_figures = found.samples.iter().any(|sample| sample.invalid.is_empty());
    let verdict = match has_figures {
        true => libraries::verdict(found),
        false => "No cell was measured.".to_owned(),
    };
    run.verdict = match reason {
        Some(_) if is_interrupted => format!("Interrupted; results until then. {verdict}"),
        Some(_) => format!("Ended early. {verdict}"),
        None => verdict,
    };
    let is_complete = libraries::is_complete(found);
    run.outcome = match outcome(run, is_interrupted, has_figures && ended.is_ok()) {
        RunOutcome::Complete | RunOutcome::ThresholdFailed if !is_complete => {
            RunOutcome::Incomplete
        }
        other => other,
    };
}

/// Returns the limit of an A/A test: at most few significant differences.
fn null_limit(found: &Libraries) -> Option<ThresholdResult> {
    let headline = libraries::aa_test(found).headline;
    let (actual, intervals) = (headline.share(), headline.intervals());
    // 95 % intervals miss in one of 20 cells on average.
    let share_min = bars::at_least("libraries-aa-share");
    found.aa_test.then(|| ThresholdResult {
        expression: format!("share of intervals that contain 100 % >= {share_min}"),
        scope: format!("{intervals} cells of one library against itself"),
        actual,
        limit: share_min,
        unit: "share".to_owned(),
        status: actual.map_or(ThresholdStatus::NotChecked, |share| {
            ThresholdStatus::of(share >= share_min)
        }),
        reason: actual
            .is_none()
            .then(|| "no cell has an interval".to_owned()),
    })
}

/// `fetch.min.bytes` of the legacy profile.
const FETCH_MIN_BYTES: u64 = 100_000;

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::grid;
    use super::super::plan::LibrariesOverrides;
    use super::*;
    use crate::experiment::run_dir::bare_run;
    use weir_load::kafka::ClientProperties;

    fn driver(name: &str, failed: Option<&str>) -> LibraryDriver {
        LibraryDriver {
            name: name.to_owned(),
            library: name.to_owned(),
            library_version: "1".to_owned(),
            capabilities: vec!["produce.warm".to_owned()],
            warm_up_rounds: 4,
            warm_up_settled: true,
            failed: failed.map(str::to_owned),
            ..LibraryDriver::default()
        }
    }

    fn concluded(overrides: LibrariesOverrides, values: &[(&str, f64)], ended: RunResult) -> Run {
        let drivers = vec![driver("a", None), driver("b", Some("timed out"))];
        concluded_with(drivers, overrides, values, ended)
    }

    fn concluded_with(
        drivers: Vec<LibraryDriver>,
        overrides: LibrariesOverrides,
        values: &[(&str, f64)],
        ended: RunResult,
    ) -> Run {
        let plan = LibrariesPlan::built_in().unwrap();
        let plan = plan.with(overrides, "test").unwrap();
        let cells = grid::cells(&plan).unwrap();
        let options = BenchOptions {
            out: PathBuf::new(),
            bootstrap: None,
            client: ClientProperties::default(),
            exe: PathBuf::new(),
            machines: None,
            command_line: Vec::new(),
        };
        let facts = RunFacts {
            plan: &plan,
            options: &options,
            cluster: SettingGroup::new("cluster"),
            cores: None,
            is_resumed: false,
            cells: &cells,
            drivers,
        };
        let samples = (0..8).flat_map(|repetition| {
            let cell = cells[0].cell.name.clone();
            values.iter().map(move |(name, us)| LibrarySample {
                cell: cell.clone(),
                driver: (*name).to_owned(),
                repetition,
                delivered_us: Some(us * (1.0 + f64::from(repetition) / 100.0)),
                ..LibrarySample::default()
            })
        });
        let samples = samples.collect();
        let described = bare_run(["client-libraries", "title", "question"], &[], 0);
        let mut run = run(described, facts, samples);
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
        assert_eq!(run.outcome, RunOutcome::Complete);
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
    fn absent_library_makes_the_run_incomplete() {
        let run = concluded(one_cell(), &[("a", 100.0)], Ok(()));
        assert_eq!(run.outcome, RunOutcome::Incomplete);
        let expected = "Nothing was measured except a. Requested, but took no part: b.";
        assert_eq!(run.verdict, expected);
        assert_eq!(run.warnings, ["b took no part: timed out"]);
        let same = LibrariesOverrides {
            aa_test: Some(true),
            ..one_cell()
        };
        let same = concluded(same, &[("a", 100.0)], Ok(()));
        assert_eq!(same.outcome, RunOutcome::Incomplete);
    }

    #[test]
    fn library_of_the_built_in_plan_may_be_missing() {
        let missing = LibraryDriver {
            optional: true,
            library: String::new(),
            ..driver("go", Some("not built: go was not found"))
        };
        let drivers = vec![driver("a", None), driver("b", None), missing];
        let values = [("a", 100.0), ("b", 200.0)];
        let run = concluded_with(drivers, one_cell(), &values, Ok(()));
        assert_eq!(run.outcome, RunOutcome::Complete);
        assert!(run.warnings.is_empty(), "{:?}", run.warnings);
        assert!(
            run.verdict.ends_with("Not run here: go."),
            "{}",
            run.verdict
        );
        let note = "go was not run here: not built: go was not found".to_owned();
        assert!(run.notes.contains(&note), "{:?}", run.notes);
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
            Err(RunEnd::Tool("broker down".to_owned())),
        );
        assert_eq!(failed.outcome, RunOutcome::Invalid);
        assert!(failed.warnings.last().unwrap().contains("broker down"));
    }

    #[test]
    fn differing_drivers_fail_the_aa_test() {
        let aa_test = || LibrariesOverrides {
            aa_test: Some(true),
            ..one_cell()
        };
        let differs = concluded(aa_test(), &[("a", 100.0), ("b", 200.0)], Ok(()));
        assert_eq!(differs.outcome, RunOutcome::ThresholdFailed);
        let same = concluded(aa_test(), &[("a", 100.0), ("b", 100.0)], Ok(()));
        assert_eq!(same.outcome, RunOutcome::Complete, "{:?}", same.thresholds);
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
