//! Drivers of client libraries: programs that implement the protocol of `docs/drivers.md`.
//!
//! [`DriverProgram`] is a program that can be started and is built first if needed; [`Driver`] is a
//! running one. Responses are checked for consistency: marks, counts and CPU time against
//! observations of the process. The caller interprets the results.

mod build;
mod check;
mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod known;
pub mod librdkafka;
mod process;
mod program;
mod protocol;
mod sources;
mod usage;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use check::CommandObservation;
use process::{DriverProcess, ReadEnd};
use protocol::{DriverLine, parse_line, parse_response};

pub use error::{DriverError, DriverFailure};
pub use known::{BuiltInDriver, KNOWN, known};
pub use program::DriverProgram;
pub use protocol::{
    AssignmentMode, CAPABILITIES, ClientSettings, Configure, Configured, Consume, ConsumeMarks,
    Consumed, DriverCommand, DriverHello, DriverRequestLine, EmptyResponse, PROTOCOL,
    ProduceCommand, ProduceMarks, Produced, ProducerState, ReportedDistribution, RoundTrip,
    RoundTripMarks, RoundTripped, Stats, Steady, SteadyDone, SteadySecond, TopicEnd, WarmUp,
    WarmedUp,
};

/// Timeout and stop flag of a command.
#[derive(Debug, Clone, Copy)]
pub struct CommandLimit<'a> {
    /// Time without a response after which the driver is killed.
    pub timeout: Duration,
    /// Flag that kills the driver when set.
    pub stop: &'a AtomicBool,
}

/// Running driver. It is killed on drop; [`bye`](Self::bye) shuts it down cleanly.
#[derive(Debug)]
pub struct Driver {
    name: String,
    process: DriverProcess,
    hello: DriverHello,
    commands: u64,
    is_alive: bool,
    cores: f64,
}

impl Driver {
    /// Starts a driver and requests its description. Writes its standard error to `<name>.log` in
    /// `dir`, and the lines in both directions to `<name>.jsonl`.
    ///
    /// # Errors
    /// The driver does not start or does not describe itself.
    pub fn start(
        program: &DriverProgram,
        dir: &Path,
        limit: CommandLimit<'_>,
    ) -> Result<Self, DriverError> {
        let process = DriverProcess::start(program, dir).map_err(|reason| DriverError {
            driver: program.name.clone(),
            during: "start".to_owned(),
            reason,
        })?;
        let mut driver = Self {
            name: program.name.clone(),
            process,
            hello: DriverHello {
                protocol: PROTOCOL,
                library: String::new(),
                library_version: String::new(),
                binding: String::new(),
                runtime: String::new(),
                capabilities: Vec::new(),
            },
            commands: 0,
            is_alive: true,
            cores: usage::cores(),
        };
        let command = DriverCommand::Hello { protocol: PROTOCOL };
        let check_hello =
            |hello: &DriverHello, _: &CommandObservation, _: &[SteadySecond]| check::hello(hello);
        driver.hello = driver.execute(command, limit, &mut |_| (), check_hello)?;
        Ok(driver)
    }

    /// Returns the name in this run.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Returns the description that the driver sent.
    #[must_use]
    pub fn hello(&self) -> &DriverHello {
        &self.hello
    }

    /// Returns `true` if the driver has the capability, one of [`CAPABILITIES`].
    #[must_use]
    pub fn can(&self, capability: &str) -> bool {
        self.hello.capabilities.iter().any(|it| it == capability)
    }

    /// Returns `true` if the driver accepts further commands.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.is_alive
    }

    /// Sets the settings of clients created from now on.
    ///
    /// # Errors
    /// See [`DriverFailure`].
    pub fn configure(
        &mut self,
        requested: &Configure,
        limit: CommandLimit<'_>,
    ) -> Result<Configured, DriverError> {
        let command = DriverCommand::Configure(requested.clone());
        self.execute(
            command,
            limit,
            &mut |_| (),
            |response: &Configured, _, _| {
                let requested = requested.settings.keys();
                let mut missing = requested.filter(|name| !response.effective.contains_key(*name));
                match missing.next() {
                    None => Ok(()),
                    Some(name) => Err(format!("effective has no value of {name}")),
                }
            },
        )
    }

    /// Produces and consumes records. Only the CPU time is returned.
    ///
    /// # Errors
    /// See [`DriverFailure`].
    pub fn warm_up(
        &mut self,
        requested: &WarmUp,
        limit: CommandLimit<'_>,
    ) -> Result<WarmedUp, DriverError> {
        let command = DriverCommand::WarmUp(requested.clone());
        self.execute(command, limit, &mut |_| (), |response, observation, _| {
            check::warmed_up(requested, response, observation)
        })
    }

    /// Produces a burst. Records that were not acknowledged are not an error.
    ///
    /// # Errors
    /// See [`DriverFailure`].
    pub fn produce(
        &mut self,
        requested: &ProduceCommand,
        limit: CommandLimit<'_>,
    ) -> Result<Produced, DriverError> {
        let command = DriverCommand::Produce(requested.clone());
        self.execute(command, limit, &mut |_| (), |response, observation, _| {
            check::produced(requested, response, observation)
        })
    }

    /// Consumes a burst. Records with wrong contents are not an error.
    ///
    /// # Errors
    /// See [`DriverFailure`].
    pub fn consume(
        &mut self,
        requested: &Consume,
        limit: CommandLimit<'_>,
    ) -> Result<Consumed, DriverError> {
        let command = DriverCommand::Consume(requested.clone());
        self.execute(command, limit, &mut |_| (), |response, observation, _| {
            check::consumed(requested, response, observation)
        })
    }

    /// Produces and consumes at the same time. Records that were not acknowledged are not an error.
    ///
    /// # Errors
    /// See [`DriverFailure`].
    pub fn roundtrip(
        &mut self,
        requested: &RoundTrip,
        limit: CommandLimit<'_>,
    ) -> Result<RoundTripped, DriverError> {
        let command = DriverCommand::RoundTrip(requested.clone());
        self.execute(command, limit, &mut |_| (), |response, observation, _| {
            check::round_tripped(requested, response, observation)
        })
    }

    /// Produces or consumes for some time; calls `on_second` after each second.
    ///
    /// # Errors
    /// See [`DriverFailure`].
    pub fn steady(
        &mut self,
        requested: &Steady,
        limit: CommandLimit<'_>,
        on_second: &mut dyn FnMut(&SteadySecond),
    ) -> Result<SteadyDone, DriverError> {
        let command = DriverCommand::Steady(requested.clone());
        self.execute(
            command,
            limit,
            on_second,
            |response, observation, seconds| {
                check::steady(requested, response, seconds, observation)
            },
        )
    }

    /// Collects garbage, if the runtime has a collector.
    ///
    /// # Errors
    /// See [`DriverFailure`].
    pub fn gc(&mut self, limit: CommandLimit<'_>) -> Result<(), DriverError> {
        let no_check = |_: &EmptyResponse, _: &CommandObservation, _: &[SteadySecond]| Ok(());
        self.execute(DriverCommand::Gc, limit, &mut |_| (), no_check)
            .map(|_| ())
    }

    /// Returns memory and threads.
    ///
    /// # Errors
    /// See [`DriverFailure`].
    pub fn stats(&mut self, limit: CommandLimit<'_>) -> Result<Stats, DriverError> {
        self.execute(DriverCommand::Stats, limit, &mut |_| (), |_, _, _| Ok(()))
    }

    /// Shuts the driver down; kills it if it takes longer than the protocol allows.
    ///
    /// # Errors
    /// The driver did not exit in time, or not successfully.
    pub fn bye(mut self) -> Result<(), DriverError> {
        let never = AtomicBool::new(false);
        let limit = CommandLimit {
            timeout: BYE_TIMEOUT,
            stop: &never,
        };
        let no_check = |_: &EmptyResponse, _: &CommandObservation, _: &[SteadySecond]| Ok(());
        self.execute(DriverCommand::Bye, limit, &mut |_| (), no_check)?;
        if !self.process.close(EXIT_TIMEOUT) {
            return Err(self.give_up("bye", |stderr_tail| DriverFailure::TimedOut {
                within: EXIT_TIMEOUT,
                stderr_tail,
            }));
        }
        match self.process.wait(Duration::ZERO) {
            Some(status) if !status.success() => Err(self.crashed("bye")),
            _ => Ok(()),
        }
    }

    /// Sends a command, waits for its response and checks it. After any failure except an error
    /// response the driver is killed.
    fn execute<T: DeserializeOwned>(
        &mut self,
        command: DriverCommand,
        limit: CommandLimit<'_>,
        on_second: &mut dyn FnMut(&SteadySecond),
        check: impl FnOnce(&T, &CommandObservation, &[SteadySecond]) -> Result<(), String>,
    ) -> Result<T, DriverError> {
        let during = command.name();
        if !self.is_alive {
            return Err(self.error(
                during,
                DriverFailure::NotStarted("driver was stopped after an earlier failure".to_owned()),
            ));
        }
        let mut seconds = Vec::new();
        let seconds_max = match &command {
            DriverCommand::Steady(steady) => steady.seconds,
            _ => 0,
        };
        let cpu_before = self.process.cpu_us();
        let started = Instant::now();
        let id = self.send(command, limit.timeout)?;
        let response = loop {
            let line = match self.process.line(started + limit.timeout, limit.stop) {
                Ok(line) => line,
                Err(end) => return Err(self.read_failure(during, end, limit.timeout)),
            };
            match parse_line(&line, id) {
                Ok(DriverLine::Response(response)) => break response,
                Ok(DriverLine::Second(second)) if (seconds.len() as u64) < seconds_max => {
                    on_second(&second);
                    seconds.push(second);
                }
                Ok(DriverLine::Second(_)) => {
                    let detail = "an unexpected event".to_owned();
                    return Err(self.give_up(during, |_| DriverFailure::InvalidLine { detail }));
                }
                Err(detail) => {
                    return Err(self.give_up(during, |_| DriverFailure::InvalidLine { detail }));
                }
            }
        };
        let observation = CommandObservation {
            wall: started.elapsed(),
            cpu_us: self.cpu_since(cpu_before),
            cores: self.cores,
        };
        let response = match response {
            Ok(response) => response,
            Err(text) => return Err(self.error(during, DriverFailure::CommandFailed(text))),
        };
        let response: T = match parse_response(response) {
            Ok(response) => response,
            Err(detail) => {
                return Err(self.give_up(during, |_| DriverFailure::InvalidLine { detail }));
            }
        };
        match check(&response, &observation, &seconds) {
            Ok(()) => Ok(response),
            Err(detail) => {
                Err(self.give_up(during, |_| DriverFailure::ImpossibleResult { detail }))
            }
        }
    }

    /// Sends a command and returns its id. Lines before the command are an error.
    fn send(&mut self, command: DriverCommand, within: Duration) -> Result<u64, DriverError> {
        let during = command.name();
        if let Some(line) = self.process.unexpected_line() {
            let detail = format!("a line without a command: {}", protocol::cut(&line));
            return Err(self.give_up(during, |_| DriverFailure::InvalidLine { detail }));
        }
        self.commands += 1;
        let request = DriverRequestLine {
            id: self.commands,
            timeout_ms: u64::try_from(within.as_millis()).unwrap_or(u64::MAX),
            command,
        };
        match serde_json::to_vec(&request) {
            Ok(line) => self.process.send(line),
            Err(error) => {
                let detail = format!("cannot serialize the command: {error}");
                return Err(self.error(during, DriverFailure::NotStarted(detail)));
            }
        }
        Ok(request.id)
    }

    fn cpu_since(&self, before: Option<f64>) -> Option<f64> {
        Some(self.process.cpu_us()? - before?)
    }

    fn read_failure(&mut self, during: &str, end: ReadEnd, within: Duration) -> DriverError {
        match end {
            ReadEnd::Closed => self.crashed(during),
            ReadEnd::LineTooLong => self.give_up(during, |_| DriverFailure::InvalidLine {
                detail: "a line that is too long".to_owned(),
            }),
            ReadEnd::Timeout => self.give_up(during, |stderr_tail| DriverFailure::TimedOut {
                within,
                stderr_tail,
            }),
            ReadEnd::Stopped => self.give_up(during, |_| DriverFailure::Interrupted),
        }
    }

    fn crashed(&mut self, during: &str) -> DriverError {
        let status = process::describe_exit(self.process.wait(CRASH_TIMEOUT));
        self.give_up(during, |stderr_tail| DriverFailure::Crashed {
            status,
            stderr_tail,
        })
    }

    /// Kills the driver; `reason` gets the last lines of its standard error.
    fn give_up(
        &mut self,
        during: &str,
        reason: impl FnOnce(String) -> DriverFailure,
    ) -> DriverError {
        self.is_alive = false;
        self.process.kill();
        let reason = reason(self.process.stderr_tail());
        self.error(during, reason)
    }

    fn error(&self, during: &str, reason: DriverFailure) -> DriverError {
        DriverError {
            driver: self.name.clone(),
            during: during.to_owned(),
            reason,
        }
    }
}

const BYE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time from the response to `bye` to the exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum time from the end of its output to the exit.
const CRASH_TIMEOUT: Duration = Duration::from_secs(1);
