//! Runs cases, several at a time, and prints the results in the format of cargo's harness.

use std::collections::VecDeque;
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow};
use weir_lab::{Lab, LabOptions};

use super::cases::{self, BROKER_RESTART, Run};
use super::expected::Expected;
use super::restarts::Restarts;
use super::sdk::{self, Sdk};
use super::test_env::TestEnv;

/// Number of cases of one SDK that run at the same time. Cases mostly wait.
const AT_ONCE: usize = 2;
/// Number of lines shown of each log of a failed case.
const TAIL_LINES: usize = 40;

/// Result of a case.
struct CaseOutcome {
    name: String,
    failure: Option<String>,
}

/// Results of all cases.
#[derive(Default)]
struct Results {
    outcomes: Vec<CaseOutcome>,
    /// SDKs that cannot run on this machine: number of cases and reason.
    left_out: Vec<(&'static str, usize, String)>,
}

/// Prints the names of all cases.
pub(crate) fn list() {
    for sdk in sdk::NAMES {
        for (case, _) in cases::of(sdk) {
            println!("{case}::{sdk}: test");
        }
    }
}

/// Runs the cases whose names contain one of the words, or all cases without words.
pub(crate) fn run(filters: &[String]) -> ExitCode {
    let started = Instant::now();
    match run_all(filters) {
        Ok(results) => summary(&results, started),
        Err(error) => {
            let outcome = CaseOutcome {
                name: "conformance".to_owned(),
                failure: Some(format!("{error:#}")),
            };
            println!("test {} ... FAILED", outcome.name);
            let results = Results {
                outcomes: vec![outcome],
                ..Results::default()
            };
            summary(&results, started)
        }
    }
}

fn run_all(filters: &[String]) -> Result<Results> {
    let cases: Vec<_> = sdk::NAMES.into_iter().flat_map(cases::of).collect();
    let cases: Vec<_> = cases.into_iter().map(|(name, _)| name).collect();
    let expected = Expected::read(&cases, &sdk::NAMES)?;
    let wanted = |sdk: &str| -> VecDeque<(&'static str, Run)> {
        let named = |case: &str| {
            let name = format!("{case}::{sdk}");
            filters.is_empty() || filters.iter().any(|word| name.contains(word.as_str()))
        };
        cases::of(sdk).filter(|(case, _)| named(case)).collect()
    };
    let plan: Vec<_> = sdk::NAMES
        .into_iter()
        .map(|sdk| (sdk, wanted(sdk)))
        .collect();
    println!(
        "\nrunning {} tests",
        plan.iter().map(|(_, cases)| cases.len()).sum::<usize>()
    );
    let mut results = Results::default();
    let mut able = Vec::new();
    for (sdk, cases) in plan.into_iter().filter(|(_, cases)| !cases.is_empty()) {
        match Sdk::lacks(sdk) {
            None => able.push((sdk, cases)),
            Some(why) => results.left_out.push((sdk, cases.len(), why)),
        }
    }
    print_skipped(&results);
    if able.is_empty() {
        return Ok(results);
    }

    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance");
    let (bootstrap, _lab) = broker()?;
    let outcomes = Mutex::new(Vec::new());
    let restarts = |cases: &VecDeque<(_, _)>| cases.iter().any(|(name, _)| *name == BROKER_RESTART);
    let restarts = able.iter().filter(|(_, cases)| restarts(cases)).count();
    let shared = SdkRuns {
        bootstrap,
        restarts: Arc::new(Restarts::new(restarts)),
        expected,
        outcomes: &outcomes,
    };
    thread::scope(|scope| {
        for (sdk, cases) in able {
            let (shared, dir) = (&shared, root.join(sdk));
            scope.spawn(move || {
                if let Err(error) = run_sdk(sdk, cases, dir.clone(), shared) {
                    let text = format!("{error:#}\n{}", tails(&dir));
                    settle(shared.outcomes, sdk.to_owned(), Some(text), "");
                }
            });
        }
    });
    results.outcomes = outcomes
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    Ok(results)
}

/// Prints the SDKs that were skipped.
fn print_skipped(results: &Results) {
    for (sdk, cases, why) in &results.left_out {
        println!("skipped: conformance {sdk}, {cases} cases: {why}");
    }
}

/// Returns the broker of `WEIR_E2E_BOOTSTRAP`, or starts one for the run.
fn broker() -> Result<(String, Option<Lab>)> {
    if let Ok(bootstrap) = std::env::var("WEIR_E2E_BOOTSTRAP") {
        return Ok((bootstrap, None));
    }
    let stop = AtomicBool::new(false);
    let lab = Lab::up(&LabOptions::default(), &mut |_| {}, &stop).context("no broker")?;
    Ok((lab.bootstrap(), Some(lab)))
}

/// State shared by the SDKs.
struct SdkRuns<'a> {
    bootstrap: String,
    restarts: Arc<Restarts>,
    expected: Expected,
    outcomes: &'a Mutex<Vec<CaseOutcome>>,
}

/// Runs all cases of one SDK.
fn run_sdk(
    name: &'static str,
    cases: VecDeque<(&'static str, Run)>,
    dir: PathBuf,
    shared: &SdkRuns<'_>,
) -> Result<()> {
    // Files of an earlier run would be shown as those of this run.
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir_all(&dir)?;
    let sdk = Arc::new(Sdk::install(name, &dir)?);
    let env = TestEnv::new(&shared.bootstrap, sdk, Arc::clone(&shared.restarts), dir)?
        .extended(&shared.bootstrap)?;
    let cases = Mutex::new(cases);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((case, run)) = next(&cases) {
                    let started = Instant::now();
                    let result = run_case(&env, case, run);
                    let (failure, remark) = shared.expected.judge(case, name, result);
                    let remark = format!("{:.1} s{remark}", started.elapsed().as_secs_f64());
                    settle(shared.outcomes, format!("{case}::{name}"), failure, &remark);
                }
            });
        }
    });
    Ok(())
}

fn next(cases: &Mutex<VecDeque<(&'static str, Run)>>) -> Option<(&'static str, Run)> {
    let mut cases = cases.lock().unwrap_or_else(PoisonError::into_inner);
    cases.pop_front()
}

/// Runs one case. A failure contains the tails of its logs.
fn run_case(env: &TestEnv, name: &'static str, run: Run) -> Result<(), String> {
    let case = env.case(name).map_err(|error| format!("{error:#}"))?;
    // A panic is a failure of this case only.
    let result = panic::catch_unwind(AssertUnwindSafe(|| run(&case)))
        .unwrap_or_else(|_| Err(anyhow!("the case panicked")));
    if result.is_ok() {
        case.release_drivers();
    }
    result.map_err(|error| format!("{error:#}\n{}", tails(case.dir())))
}

fn settle(outcomes: &Mutex<Vec<CaseOutcome>>, name: String, failure: Option<String>, remark: &str) {
    let word = if failure.is_none() { "ok" } else { "FAILED" };
    // Scripts search for the word FAILED at the end of the line.
    match &failure {
        None => println!("test {name} ... {word} ({remark})"),
        Some(_) => println!("test {name} ... {word}"),
    }
    let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
    outcomes.push(CaseOutcome { name, failure });
}

/// Returns the tails of all logs in a directory.
fn tails(dir: &Path) -> String {
    let mut paths: Vec<_> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "log" || e == "jsonl"))
        .collect();
    paths.sort();
    let mut text = String::new();
    for path in paths {
        let log = fs::read(&path).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> = log.lines().collect();
        let from = lines.len().saturating_sub(TAIL_LINES);
        text += &format!("--- {} (from line {})\n", path.display(), from + 1);
        for line in &lines[from..] {
            let end = line
                .char_indices()
                .nth(300)
                .map_or(line.len(), |(at, _)| at);
            text += &format!("{}\n", &line[..end]);
        }
    }
    text
}

fn summary(results: &Results, started: Instant) -> ExitCode {
    let failed: Vec<_> = results
        .outcomes
        .iter()
        .filter(|outcome| outcome.failure.is_some())
        .collect();
    if !failed.is_empty() {
        println!("\nfailures:\n");
        for outcome in &failed {
            let text = outcome.failure.as_deref().unwrap_or_default();
            println!("---- {} stdout ----\n{text}", outcome.name);
        }
        println!("\nfailures:");
        for outcome in &failed {
            println!("    {}", outcome.name);
        }
    }
    println!();
    print_skipped(results);
    println!(
        "test result: {}. {} passed; {} failed; {} ignored; 0 measured; 0 filtered out; \
         finished in {:.2}s\n",
        if failed.is_empty() { "ok" } else { "FAILED" },
        results.outcomes.len() - failed.len(),
        failed.len(),
        results
            .left_out
            .iter()
            .map(|(_, cases, _)| cases)
            .sum::<usize>(),
        started.elapsed().as_secs_f64()
    );
    ExitCode::from(u8::from(!failed.is_empty()))
}
