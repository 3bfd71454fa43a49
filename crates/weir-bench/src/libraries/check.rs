//! Checks that a driver follows the protocol, on a broker that is started for it or on an existing
//! cluster.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use weir_drivers::conformance::{self, CheckCluster, DriverCheck};
use weir_lab::LabOptions;

use super::client_file::client_file;
use super::requested::DriverRequest;
use crate::experiment::RunBroker;
use crate::{BenchError, BenchOptions, Observer};

/// Driver and the checks to run.
#[derive(Debug, Clone, Copy)]
pub struct CheckRequest<'a> {
    /// Name of a library, or `NAME=COMMAND`.
    pub driver: &'a str,
    /// Names of checks, where `*` at the end matches anything; none: all checks.
    pub checks: &'a [String],
    /// Directory of the driver's log.
    pub dir: &'a Path,
}

/// Checks a driver and reports each check to `on_check`.
///
/// # Errors
/// The driver cannot be built, a name is unknown, or there is no broker. Deviations of the driver
/// are results.
pub fn check_driver(
    request: CheckRequest<'_>,
    options: &BenchOptions,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
    on_check: &mut dyn FnMut(&DriverCheck),
) -> Result<Vec<DriverCheck>, BenchError> {
    let driver = DriverRequest::parse(request.driver)?;
    conformance::require_names(request.checks)?;
    let program = driver.build(&options.exe, observer, stop)?;
    let broker = RunBroker::start(options, &LabOptions::default(), observer, stop)?;
    let file = client_file(&broker)?;
    let cluster = CheckCluster::connect(broker.kafka.clone(), file)?;
    let (dir, names) = (request.dir, request.checks);
    let checked = conformance::check_driver(&program, &cluster, dir, names, stop, on_check);
    // Topics of a broker that was started for the checks end with it.
    if broker.lab.is_none() {
        if let Err(error) = cluster.delete_topics() {
            tracing::warn!(%error, "topics of the checks were not deleted");
        }
    }
    drop(cluster);
    broker.down()?;
    Ok(checked?)
}
