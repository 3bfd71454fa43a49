//! The newest A/A test of a plan, among the runs next to a run directory.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use weir_stats::run::{FILE_NAME, Machine, NoiseFloor, Run, SCHEMA};

/// The part of `run.json` that identifies an A/A test. The rest is skipped.
#[derive(Deserialize)]
struct RunEntry {
    schema: String,
    plan: String,
    machine: Machine,
    #[serde(default)]
    aa_test: Option<NoiseFloor>,
    find_max: Option<SearchEntry>,
}

/// The kind of a search. Its noise is not that of other runs of the plan.
#[derive(Deserialize, PartialEq)]
struct SearchEntry {
    variable: String,
    architecture: String,
}

/// Returns the result of the newest A/A test of the same plan on the same machine, with the name of
/// its directory.
pub(super) fn newest(dir: &Path, run: &Run) -> Option<NoiseFloor> {
    let entries = fs::read_dir(dir.parent()?).ok()?;
    let found = entries.filter_map(|entry| of_dir(&entry.ok()?.path(), run));
    found.max_by(|a, b| a.started_utc.cmp(&b.started_utc))
}

fn of_dir(dir: &Path, run: &Run) -> Option<NoiseFloor> {
    let name = dir.file_name()?.to_str()?.to_owned();
    let text = fs::read(dir.join(FILE_NAME)).ok()?;
    let entry: RunEntry = serde_json::from_slice(&text).ok()?;
    let machine = |it: &Machine| (it.cpu_model.clone(), it.cpu_cores);
    let search = run.find_max.as_ref().map(|it| SearchEntry {
        variable: it.variable.clone(),
        architecture: it.architecture.clone(),
    });
    let is_same = entry.schema == SCHEMA
        && entry.plan == run.plan
        && entry.find_max == search
        && machine(&entry.machine) == machine(&run.machine);
    // A copy in another run has the name of the run of the test.
    let floor = entry
        .aa_test
        .filter(|floor| is_same && floor.run.is_none())?;
    Some(NoiseFloor {
        run: Some(name),
        ..floor
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_stats::run::{FindMax, FindMaxOutcome};

    fn write(parent: &Path, name: &str, run: &Run) {
        let dir = parent.join(name);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(FILE_NAME), run.to_json()).unwrap();
    }

    #[test]
    fn newest_test_of_the_plan_is_found() {
        let parent = tempfile::tempdir().unwrap();
        let test = |plan: &str, started_utc: &str, share: f64, cpu_cores: u64| Run {
            schema: SCHEMA.to_owned(),
            plan: plan.to_owned(),
            machine: Machine {
                cpu_cores,
                ..Machine::default()
            },
            aa_test: Some(NoiseFloor {
                share,
                started_utc: started_utc.to_owned(),
                ..NoiseFloor::default()
            }),
            ..Run::default()
        };
        let own = Run {
            aa_test: None,
            ..test("keyed", "", 0.0, 2)
        };
        let dir = parent.path().join("own");
        write(parent.path(), "own", &own);
        assert_eq!(newest(&dir, &own), None);
        write(parent.path(), "a", &test("keyed", "2026-01-01", 0.1, 2));
        write(parent.path(), "b", &test("keyed", "2026-01-02", 0.2, 2));
        write(parent.path(), "c", &test("keyed", "2026-01-03", 0.3, 64));
        write(parent.path(), "d", &test("broadcast", "2026-01-04", 0.4, 2));
        let found = newest(&dir, &own).unwrap();
        assert_eq!((found.share, found.run.as_deref()), (0.2, Some("b")));
        let copy = Run {
            aa_test: Some(NoiseFloor {
                started_utc: "2026-01-09".to_owned(),
                ..found
            }),
            ..own.clone()
        };
        write(parent.path(), "e", &copy);
        assert_eq!(newest(&dir, &own).unwrap().run.as_deref(), Some("b"));
    }

    #[test]
    fn searches_have_tests_of_their_own() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("own");
        let search = |variable: &str, aa_test: Option<f64>| Run {
            schema: SCHEMA.to_owned(),
            plan: "keyed".to_owned(),
            find_max: Some(FindMax {
                variable: variable.to_owned(),
                architecture: "gateway".to_owned(),
                steps: Vec::new(),
                outcome: FindMaxOutcome::Inconclusive {
                    reason: String::new(),
                },
                summary: String::new(),
                again: None,
            }),
            aa_test: aa_test.map(|share| NoiseFloor {
                share,
                ..NoiseFloor::default()
            }),
            ..Run::default()
        };
        let plain = Run {
            find_max: None,
            ..search("", Some(0.1))
        };
        write(parent.path(), "a", &plain);
        let own = search("clients", None);
        assert_eq!(newest(&dir, &own), None);
        write(parent.path(), "b", &search("rate_per_s", Some(0.2)));
        assert_eq!(newest(&dir, &own), None);
        write(parent.path(), "c", &search("clients", Some(0.3)));
        assert_eq!(newest(&dir, &own).map(|it| it.share), Some(0.3));
    }
}
