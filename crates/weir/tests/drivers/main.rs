//! Checks that all drivers of client libraries implement `docs/drivers.md`: one scripted session
//! with each, in parallel, with one real broker. `WEIR_DRIVERS` selects drivers, for example
//! `java,franz-go`, or `mine=./my-driver --fast` for a driver that is not built in.

mod raw;
mod session;
#[path = "../support/mod.rs"]
mod support;
mod test_env;

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::thread;

use support::TestBroker;
use test_env::TestEnv;
use weir_drivers::{DriverFailure, DriverProgram, KNOWN};
use weir_lab::LabError;

#[test]
fn drivers_follow_the_protocol() {
    let wanted = std::env::var("WEIR_DRIVERS").unwrap_or_else(|_| all());
    let programs: Vec<DriverProgram> = wanted.split(',').filter_map(program).collect();
    assert!(!programs.is_empty(), "none of {wanted} is there");
    let broker = TestBroker::start();
    let env = TestEnv::new(&broker);
    let failed: Vec<&str> = thread::scope(|scope| {
        let sessions = programs.iter().map(|program| {
            let env = &env;
            let name = program.name.as_str();
            let session = move || {
                let passes = || {
                    session::passes(env, program);
                    raw::passes(env, program);
                };
                catch_unwind(AssertUnwindSafe(passes))
                    .is_err()
                    .then_some(name)
            };
            // The name of the thread identifies the driver in panics.
            let named = thread::Builder::new().name(name.to_owned());
            named.spawn_scoped(scope, session).expect("a thread")
        });
        let sessions: Vec<_> = sessions.collect();
        let outcomes = sessions
            .into_iter()
            .map(|session| session.join().expect("caught"));
        outcomes.flatten().collect()
    });
    assert!(
        failed.is_empty(),
        "these drivers failed, see above: {failed:?}"
    );
}

/// Returns the names of all tested drivers, separated by commas.
fn all() -> String {
    let known = KNOWN.iter().filter(|known| known.is_tested);
    let names = known.map(|known| known.name);
    ["librdkafka"]
        .into_iter()
        .chain(names)
        .collect::<Vec<_>>()
        .join(",")
}

/// Returns a driver, built if necessary. Without Go, which this project does not install, the Go
/// driver is skipped.
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
