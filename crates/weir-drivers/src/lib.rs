//! Drivers of client libraries: programs that implement the protocol of `docs/drivers.md`.
//!
//! [`DriverProgram`] is a program that can be started and is built first if needed; [`Driver`] is a
//! running one. Responses are checked for consistency: marks, counts and CPU time against
//! observations of the process. The caller interprets the results. [`conformance`] checks that a
//! driver follows the protocol.

mod build;
mod check;
mod client_file;
pub mod conformance;
pub mod cpu_affinity;
mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod host_usage;
mod known;
pub mod librdkafka;
mod lines;
mod process;
mod program;
mod protocol;
mod sources;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use procfs::Current as _;

use process::{DriverProcess, ReadEnd};
use protocol::{DriverLine, RequestLine, parse_line, parse_response};

pub use check::{Bye, CommandObservation, DriverRequest, Gc, GetStats};
pub use client_file::ClientFileContent;
pub use error::{DriverError, DriverFailure};
pub use known::{BUILT_IN, BUNDLED_DRIVERS, BundledDriver, known};
pub use program::DriverProgram;
pub use protocol::{
    AssignmentMode, Burst, CAPABILITIES, ClientSettings, Configure, Configured, Consume,
    ConsumeMarks, Consumed, Copied, CopyMarks, CopyTopic, Delivered, DriverHello, Hello, PROTOCOL,
    ProduceCommand, ProduceMarks, Produced, ProducerState, RoundTrip, RoundTripMarks, RoundTripped,
    Stats, Steady, SteadyDone, SteadySecond, TopicEnd, WarmUp, WarmedUp,
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
    pub fn start(
        program: &DriverProgram,
        dir: &Path,
        limit: CommandLimit<'_>,
    ) -> Result<Self, DriverError> {
        let name = program.name.clone();
        let failed = |reason| DriverError {
            driver: name.clone(),
            during: "start",
            reason,
        };
        let process = DriverProcess::start(program, dir).map_err(failed)?;
        let mut driver = Self {
            name,
            process,
            hello: DriverHello::default(),
            commands: 0,
            is_alive: true,
            cores: procfs::CpuInfo::current().map_or(1, |cpus| cpus.num_cores()) as f64,
        };
        let protocol = PROTOCOL;
        let hello_limit = CommandLimit {
            timeout: limit.timeout.min(HELLO_TIMEOUT),
            ..limit
        };
        driver.hello = driver.run(&Hello { protocol }, hello_limit)?;
        Ok(driver)
    }

    /// Returns the name in this run.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Returns the description that the driver sent.
    pub fn hello(&self) -> &DriverHello {
        &self.hello
    }

    /// Returns `true` if the driver has the capability, one of [`CAPABILITIES`].
    pub fn can(&self, capability: &str) -> bool {
        self.hello.capabilities.iter().any(|it| it == capability)
    }

    /// Returns `true` if the driver accepts further commands.
    pub fn is_alive(&self) -> bool {
        self.is_alive
    }

    /// Shuts the driver down; kills it if it takes longer than the protocol allows.
    ///
    /// # Errors
    /// The driver did not exit in time, or not successfully.
    pub fn bye(mut self) -> Result<(), DriverError> {
        let limit = CommandLimit {
            timeout: BYE_TIMEOUT,
            stop: &AtomicBool::new(false),
        };
        self.run(&Bye {}, limit)?;
        match self.process.close(EXIT_TIMEOUT) {
            None => Err(self.give_up(Bye::OP, |log| DriverFailure::TimedOut(EXIT_TIMEOUT, log))),
            Some(status) if !status.success() => Err(self.crashed(Bye::OP)),
            Some(_) => Ok(()),
        }
    }

    /// Sends a command, waits for its response and checks it. Records that failed or differ are not
    /// an error.
    ///
    /// # Errors
    /// See [`DriverFailure`]. After any failure except an error response the driver is killed.
    pub fn run<R: DriverRequest>(
        &mut self,
        request: &R,
        limit: CommandLimit<'_>,
    ) -> Result<R::Response, DriverError> {
        self.run_with(request, limit, &mut |_| ())
    }

    /// Runs a command as [`run`](Self::run) does, and calls `on_second` for each reported second.
    pub fn run_with<R: DriverRequest>(
        &mut self,
        request: &R,
        limit: CommandLimit<'_>,
        on_second: &mut dyn FnMut(&SteadySecond),
    ) -> Result<R::Response, DriverError> {
        if !self.is_alive {
            let reason = "driver was stopped after an earlier failure".to_owned();
            return Err(self.error(R::OP, DriverFailure::NotStarted(reason)));
        }
        let cpu_before = self.process.cpu_us();
        let started = Instant::now();
        let id = self.send(request, limit.timeout)?;
        let mut seconds = Vec::new();
        let response = loop {
            let line = match self.next_line(id, started, limit) {
                Ok(line) => line,
                Err(end) => return Err(self.read_failure(R::OP, end, limit.timeout)),
            };
            match parse_line(&line, id) {
                Ok(DriverLine::Response(response)) => break response,
                Ok(DriverLine::Failed(text)) => {
                    return Err(self.error(R::OP, DriverFailure::CommandFailed(text)));
                }
                Ok(DriverLine::Second(second)) if (seconds.len() as u64) < request.seconds() => {
                    on_second(&second);
                    seconds.push(second);
                }
                Ok(DriverLine::Second(_)) => {
                    let reason = DriverFailure::InvalidLine("an unexpected event".to_owned());
                    return Err(self.give_up(R::OP, |_| reason));
                }
                Err(reason) => return Err(self.give_up(R::OP, |_| reason)),
            }
        };
        let cpu_after = self.process.cpu_us();
        let observation = CommandObservation {
            wall: started.elapsed(),
            cpu_us: cpu_after
                .zip(cpu_before)
                .map(|(after, before)| after - before),
            cores: self.cores,
            seconds: &seconds,
        };
        parse_response(response)
            .and_then(|response| {
                request.check(&response, &observation)?;
                Ok(response)
            })
            .map_err(|reason| self.give_up(R::OP, |_| reason))
    }

    /// Waits for a line of the response to a command. Responses on the wrong stream end the wait
    /// early.
    fn next_line(
        &mut self,
        id: u64,
        started: Instant,
        limit: CommandLimit<'_>,
    ) -> Result<Vec<u8>, ReadEnd> {
        let deadline = started + limit.timeout;
        for until in [deadline.min(started + WRONG_STREAM_AFTER), deadline] {
            match self.process.line(until, limit.stop) {
                Err(ReadEnd::Timeout) => {}
                Err(ReadEnd::Closed) => {
                    let found = self.process.redirected_response(id, until, limit.stop);
                    return Err(found.map_or(ReadEnd::Closed, ReadEnd::WrongStream));
                }
                other => return other,
            }
            if let Some(line) = self.process.response_on_stderr(id) {
                return Err(ReadEnd::WrongStream(line));
            }
        }
        Err(ReadEnd::Timeout)
    }

    /// Sends a command and returns its id. Lines before the command are an error.
    fn send<R: DriverRequest>(
        &mut self,
        request: &R,
        within: Duration,
    ) -> Result<u64, DriverError> {
        if let Some(line) = self.process.unexpected_line() {
            let reason = DriverFailure::invalid_line("a line without a command: ", &line);
            return Err(self.give_up(R::OP, |_| reason));
        }
        self.commands += 1;
        let line = serde_json::to_vec(&RequestLine {
            id: self.commands,
            timeout_ms: u64::try_from(within.as_millis()).unwrap_or(u64::MAX),
            op: R::OP,
            request,
        });
        let line = line.map_err(|error| {
            let reason = format!("cannot serialize the command: {error}");
            self.error(R::OP, DriverFailure::NotStarted(reason))
        })?;
        self.process.send(line);
        Ok(self.commands)
    }

    fn read_failure(
        &mut self,
        during: &'static str,
        end: ReadEnd,
        within: Duration,
    ) -> DriverError {
        match end {
            ReadEnd::Closed => self.crashed(during),
            ReadEnd::LineTooLong => self.give_up(during, |_| {
                DriverFailure::InvalidLine("a line that is too long".to_owned())
            }),
            ReadEnd::WrongStream(line) => self.give_up(during, |_| {
                DriverFailure::WrongStream(error::truncated(&line))
            }),
            ReadEnd::Timeout => self.give_up(during, |log| DriverFailure::TimedOut(within, log)),
            ReadEnd::Stopped => self.give_up(during, |_| DriverFailure::Interrupted),
        }
    }

    fn crashed(&mut self, during: &'static str) -> DriverError {
        let status = process::describe_exit(self.process.wait(CRASH_TIMEOUT));
        self.give_up(during, |log| DriverFailure::Crashed(status, log))
    }

    /// Kills the driver; `reason` gets the last lines of its standard error.
    fn give_up(
        &mut self,
        during: &'static str,
        reason: impl FnOnce(String) -> DriverFailure,
    ) -> DriverError {
        self.is_alive = false;
        self.process.kill();
        let reason = reason(self.process.stderr_tail());
        self.error(during, reason)
    }

    fn error(&self, during: &'static str, reason: DriverFailure) -> DriverError {
        DriverError {
            driver: self.name.clone(),
            during,
            reason,
        }
    }
}

/// Maximum time from the start of the process to its description; a Java VM takes a second.
const HELLO_TIMEOUT: Duration = Duration::from_secs(30);
/// Time without a line on standard output after which responses are expected on standard error.
const WRONG_STREAM_AFTER: Duration = Duration::from_secs(5);
const BYE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time from the response to `bye` to the exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum time from the end of its output to the exit.
const CRASH_TIMEOUT: Duration = Duration::from_secs(1);
