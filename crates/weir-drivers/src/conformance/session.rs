//! Session with the driver under check. Starts, configures and restarts it as the checks need.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use super::cluster::CheckCluster;
use super::outcome::{CheckFailure, CheckResult, ConformanceError};
use crate::{
    Burst, ClientSettings, CommandLimit, Configure, Configured, Driver, DriverError, DriverFailure,
    DriverProgram, DriverRequest,
};

pub(super) struct CheckSession<'a> {
    pub(super) cluster: &'a CheckCluster,
    pub(super) program: &'a DriverProgram,
    /// Directory of the driver's log.
    pub(super) dir: &'a Path,
    pub(super) stop: &'a AtomicBool,
    driver: Option<Driver>,
    is_configured: bool,
}

impl<'a> CheckSession<'a> {
    pub(super) fn new(
        cluster: &'a CheckCluster,
        program: &'a DriverProgram,
        dir: &'a Path,
        stop: &'a AtomicBool,
    ) -> Self {
        Self {
            cluster,
            program,
            dir,
            stop,
            driver: None,
            is_configured: false,
        }
    }

    /// Returns the timeout of a command that must succeed.
    pub(super) fn limit(&self) -> CommandLimit<'a> {
        CommandLimit {
            timeout: COMMAND_TIMEOUT,
            stop: self.stop,
        }
    }

    /// Returns the timeout of a command that cannot succeed.
    pub(super) fn short(&self) -> CommandLimit<'a> {
        CommandLimit {
            timeout: SHORT_TIMEOUT,
            stop: self.stop,
        }
    }

    /// Returns the running driver. Starts one if none runs or the last one was killed.
    pub(super) fn start(&mut self) -> Result<&mut Driver, DriverError> {
        let running = self.driver.take().filter(Driver::is_alive);
        let driver = match running {
            Some(driver) => driver,
            None => {
                self.is_configured = false;
                Driver::start(self.program, self.dir, self.limit())?
            }
        };
        Ok(self.driver.insert(driver))
    }

    /// Returns the running driver; a failed start ends the check.
    pub(super) fn started(&mut self) -> CheckResult<&mut Driver> {
        let started = self.start();
        started.map_err(|error| end_of("the driver starts and responds to hello", &error))
    }

    /// Returns the running driver with the settings of the checks.
    pub(super) fn driver(&mut self) -> CheckResult<&mut Driver> {
        self.started()?;
        if !self.is_configured {
            let request = self.configure();
            self.run(&request)?;
            self.is_configured = true;
        }
        self.started()
    }

    /// Ends the driver with `bye`.
    pub(super) fn bye(&mut self) -> CheckResult {
        self.driver()?;
        match self.driver.take().map(Driver::bye) {
            Some(Err(error)) => Err(end_of(
                "a response to bye, and exit code 0 within 2 s of it",
                &error,
            )),
            _ => Ok(()),
        }
    }

    /// Returns `Err` with the reason if the driver does not have the capability.
    pub(super) fn need(&mut self, capability: &str) -> CheckResult {
        match self.driver()?.can(capability) {
            true => Ok(()),
            false => Err(CheckFailure::Skipped(format!(
                "hello does not list {capability}"
            ))),
        }
    }

    /// Returns `true` if the driver has the capability.
    pub(super) fn can(&mut self, capability: &str) -> CheckResult<bool> {
        Ok(self.driver()?.can(capability))
    }

    /// Executes a command that must succeed, without configuring the driver first.
    pub(super) fn run<R: DriverRequest>(&mut self, request: &R) -> CheckResult<R::Response> {
        let limit = self.limit();
        let response = self.started()?.run(request, limit);
        response.map_err(|error| end_of(&format!("a valid response to {}", R::OP), &error))
    }

    /// Configures the driver if needed, and executes a command that must succeed.
    pub(super) fn run_configured<R: DriverRequest>(
        &mut self,
        request: &R,
    ) -> CheckResult<R::Response> {
        self.driver()?;
        self.run(request)
    }

    /// Executes a command that cannot succeed. Returns its response and its duration.
    pub(super) fn attempt<R: DriverRequest>(
        &mut self,
        request: &R,
    ) -> CheckResult<(Result<R::Response, DriverError>, Duration)> {
        let limit = self.short();
        let driver = self.started()?;
        let began = Instant::now();
        let response = driver.run(request, limit);
        let took = began.elapsed();
        match response {
            Err(error) if matches!(error.reason, DriverFailure::Interrupted) => {
                Err(ConformanceError::Interrupted.into())
            }
            response => Ok((response, took)),
        }
    }

    /// Replaces the settings of the checks until [`driver`](Self::driver) is called.
    pub(super) fn reconfigure(
        &mut self,
        request: &Configure,
    ) -> CheckResult<Result<Configured, DriverError>> {
        let limit = self.limit();
        let driver = self.started()?;
        let configured = driver.run(request, limit);
        self.is_configured = false;
        Ok(configured)
    }

    /// Returns the command with the settings of the checks.
    pub(super) fn configure(&self) -> Configure {
        Configure {
            bootstrap: self.cluster.bootstrap.clone(),
            client_file: self.cluster.client_file.clone(),
            profile: "check".to_owned(),
            settings: settings(),
        }
    }

    /// Creates a topic for the driver and returns its name.
    pub(super) fn topic(&self, purpose: &str) -> CheckResult<String> {
        Ok(self.cluster.topic(&self.program.name, purpose)?)
    }

    pub(super) fn check_stop(&self) -> Result<(), ConformanceError> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(ConformanceError::Interrupted),
            false => Ok(()),
        }
    }
}

/// Returns the failure of a check because of a failed command.
pub(super) fn end_of(expected: &str, error: &DriverError) -> CheckFailure {
    match error.reason {
        DriverFailure::Interrupted => ConformanceError::Interrupted.into(),
        _ => CheckFailure::deviation(expected, format!("{}: {}", error.during, error.reason)),
    }
}

pub(super) fn burst(topic: &str, len: u64, count: u64, seed: u64) -> Burst {
    Burst {
        topic: topic.to_owned(),
        len,
        count,
        seed,
    }
}

/// Returns all settings of the fair comparison.
pub(super) fn settings() -> ClientSettings {
    let settings = json!({
        "acks": 1, "linger_ms": 5, "batch_bytes": 1_000_000, "batch_records": 0, "max_in_flight": 5,
        "retries": 0, "idempotence": false, "compression": "none", "queue_bytes": 64 << 20,
        "queue_records": 100_000, "max_request_bytes": 1 << 20, "send_buffer_bytes": 0,
        "receive_buffer_bytes": 0, "fetch_min_bytes": 1, "fetch_wait_ms": 500,
        "fetch_partition_bytes": 1 << 20, "check_crcs": true, "auto_commit": false,
        "auto_commit_ms": 1000,
    });
    // Invariant: an object is a map of its members.
    serde_json::from_value(settings).unwrap_or_default()
}

/// Timeout of commands that must succeed.
pub(super) const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout of commands that cannot succeed. Drivers must respond within four fifths of it.
pub(super) const SHORT_TIMEOUT: Duration = Duration::from_secs(5);
