//! Checks that all drivers of client libraries implement `docs/drivers.md`: the checks of
//! `weir bench check-driver` with each, in parallel, on one real broker. `WEIR_DRIVERS` selects
//! drivers, for example `java,franz-go`, or `mine=./my-driver --fast` for a driver that is not
//! built in.

#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::thread;

use support::TestBroker;
use weir_drivers::conformance::{CheckCluster, CheckOutcome, DriverCheck, check_driver};
use weir_drivers::{BUNDLED_DRIVERS, DriverFailure, DriverProgram};
use weir_kafka::KafkaSettings;
use weir_lab::LabError;

#[test]
fn drivers_follow_the_protocol() {
    let wanted = std::env::var("WEIR_DRIVERS").unwrap_or_else(|_| all());
    let programs: Vec<DriverProgram> = wanted.split(',').filter_map(program).collect();
    assert!(!programs.is_empty(), "none of {wanted} is there");
    let broker = TestBroker::start();
    let kafka = KafkaSettings::plaintext(&broker.bootstrap);
    let cluster = CheckCluster::connect(kafka, None).expect("the broker responds");
    let deviations: Vec<String> = thread::scope(|scope| {
        let sessions = programs.iter().map(|program| {
            let (cluster, dir) = (&cluster, broker.scratch.path().join(&program.name));
            scope.spawn(move || check(program, cluster, &dir))
        });
        let sessions: Vec<_> = sessions.collect();
        let all = sessions.into_iter();
        all.flat_map(|it| it.join().expect("no panic")).collect()
    });
    assert!(deviations.is_empty(), "{}", deviations.join("\n"));
}

/// Returns the deviations of a driver.
fn check(program: &DriverProgram, cluster: &CheckCluster, dir: &Path) -> Vec<String> {
    fs::create_dir_all(dir).expect("a directory");
    let never = AtomicBool::new(false);
    let mut ran = 0;
    let mut count = |check: &DriverCheck| ran += u32::from(check.outcome == CheckOutcome::Passed);
    let results = check_driver(program, cluster, dir, &[], &never, &mut count);
    let results = results.unwrap_or_else(|error| panic!("{}: {error}", program.name));
    // Every driver has at least the checks without capabilities, and those of producing.
    assert!(ran > 10 || results.iter().any(DriverCheck::is_failed));
    let failed = results.into_iter().filter_map(|check| match check.outcome {
        CheckOutcome::Failed(it) => Some(format!(
            "{}, {}: expected {}; got {}",
            program.name, check.name, it.expected, it.got
        )),
        _ => None,
    });
    failed.collect()
}

/// Returns the names of all tested drivers, separated by commas.
fn all() -> String {
    let known = BUNDLED_DRIVERS.iter().filter(|known| known.is_tested);
    let names = known.map(|known| known.name);
    ["librdkafka"]
        .into_iter()
        .chain(names)
        .collect::<Vec<_>>()
        .join(",")
}

/// Returns a driver, built if necessary. The Go driver is skipped where `scripts/bootstrap` may not
/// install Go.
fn program(name: &str) -> Option<DriverProgram> {
    if name == "librdkafka" {
        return Some(DriverProgram::built_in(Path::new(env!(
            "CARGO_BIN_EXE_weir"
        ))));
    }
    if name.contains('=') {
        return Some(DriverProgram::given(name).expect("NAME=COMMAND"));
    }
    let never = AtomicBool::new(false);
    match DriverProgram::known(name, &mut |_| (), &never) {
        Ok(program) => Some(program),
        Err(error) => {
            let tool = match &error.reason {
                DriverFailure::NotBuilt(cause) => match **cause {
                    LabError::MissingTool { tool, .. } => tool,
                    _ => "",
                },
                _ => "",
            };
            assert!(tool == "go", "{error}");
            // A closed terminal is not a failure.
            let _ = writeln!(std::io::stderr(), "\nskipped: driver {name}: {error}");
            None
        }
    }
}
