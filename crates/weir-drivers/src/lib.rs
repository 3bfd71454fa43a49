//! Drivers of client libraries: programs that speak the protocol of `docs/drivers.md`.
//!
//! [`DriverProgram`] is one that can be run, built first if need be; [`Driver`] is a running one. What
//! a driver answers is checked here as far as it can be: marks, counts and processor time against
//! what was seen of the process. What the figures mean is for the caller.

mod build;
mod check;
mod error;
pub mod fuzz;
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
use protocol::{DriverLine, parse_line, read_answer};

pub use error::{DriverError, DriverFailure};
pub use program::{BuiltInDriver, DriverProgram, KNOWN, known};
pub use protocol::{
    AssignmentMode, CAPABILITIES, ClientSettings, Configure, Configured, Consume, ConsumeMarks,
    Consumed, DriverCommand, DriverHello, DriverRequestLine, Nothing, PROTOCOL, ProduceCommand,
    ProduceMarks, Produced, ProducerState, ReportedDistribution, RoundTrip, RoundTripMarks,
    RoundTripped, Stats, Steady, SteadyDone, SteadySecond, TopicEnd, WarmUp, WarmedUp,
};

/// How long a command may take, and what ends it early.
#[derive(Debug, Clone, Copy)]
pub struct CommandLimit<'a> {
    /// The driver is killed when it has not answered after this.
    pub within: Duration,
    /// The driver is killed when this is set meanwhile.
    pub stop: &'a AtomicBool,
}

/// A running driver. It is killed when dropped; [`bye`](Self::bye) lets it end by itself.
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
    /// Starts a driver and asks what it is. Its standard error goes to `<name>.log` in `folder`, what is
    /// said both ways to `<name>.jsonl`.
    ///
    /// # Errors
    /// It cannot be started, or does not say what it is.
    pub fn start(
        program: &DriverProgram,
        folder: &Path,
        limit: CommandLimit<'_>,
    ) -> Result<Self, DriverError> {
        let process = DriverProcess::start(program, folder).map_err(|reason| DriverError {
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
        let asked =
            |answer: &DriverHello, _: &CommandObservation, _: &[SteadySecond]| check::hello(answer);
        driver.hello = driver.ask(command, limit, &mut |_| (), asked)?;
        Ok(driver)
    }

    /// Its name in this run.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// What it said of itself.
    #[must_use]
    pub fn hello(&self) -> &DriverHello {
        &self.hello
    }

    /// Whether it said that it can do this, one of [`CAPABILITIES`].
    #[must_use]
    pub fn can(&self, capability: &str) -> bool {
        self.hello.capabilities.iter().any(|can| can == capability)
    }

    /// Whether it takes further commands.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.is_alive
    }

    /// Sets what clients made from now on are like.
    ///
    /// # Errors
    /// See [`DriverFailure`].
    pub fn configure(
        &mut self,
        asked: &Configure,
        limit: CommandLimit<'_>,
    ) -> Result<Configured, DriverError> {
        let command = DriverCommand::Configure(asked.clone());
        self.ask(command, limit, &mut |_| (), |answer: &Configured, _, _| {
            let silent = asked.settings.keys();
            let mut silent = silent.filter(|name| !answer.effective.contains_key(*name));
            match silent.next() {
                None => Ok(()),
                Some(name) => Err(format!("effective does not tell what {name} is")),
            }
        })
    }

    /// Produces and consumes; only the cost is told.
    ///
    /// # Errors
    /// See [`DriverFailure`].
    pub fn warm_up(
        &mut self,
        asked: &WarmUp,
        limit: CommandLimit<'_>,
    ) -> Result<WarmedUp, DriverError> {
        let command = DriverCommand::WarmUp(asked.clone());
        self.ask(command, limit, &mut |_| (), |answer, seen, _| {
            check::warmed_up(asked, answer, seen)
        })
    }

    /// Produces a burst. Records that were not acknowledged are no error here.
    ///
    /// # Errors
    /// See [`DriverFailure`].
    pub fn produce(
        &mut self,
        asked: &ProduceCommand,
        limit: CommandLimit<'_>,
    ) -> Result<Produced, DriverError> {
        let command = DriverCommand::Produce(asked.clone());
        self.ask(command, limit, &mut |_| (), |answer, seen, _| {
            check::produced(asked, answer, seen)
        })
    }

    /// Consumes a burst. Records that are not as they should be are no error here.
    ///
    /// # Errors
    /// See [`DriverFailure`].
    pub fn consume(
        &mut self,
        asked: &Consume,
        limit: CommandLimit<'_>,
    ) -> Result<Consumed, DriverError> {
        let command = DriverCommand::Consume(asked.clone());
        self.ask(command, limit, &mut |_| (), |answer, seen, _| {
            check::consumed(asked, answer, seen)
        })
    }

    /// Produces and consumes at once. Records that were not acknowledged are no error here.
    ///
    /// # Errors
    /// See [`DriverFailure`].
    pub fn roundtrip(
        &mut self,
        asked: &RoundTrip,
        limit: CommandLimit<'_>,
    ) -> Result<RoundTripped, DriverError> {
        let command = DriverCommand::RoundTrip(asked.clone());
        self.ask(command, limit, &mut |_| (), |answer, seen, _| {
            check::round_tripped(asked, answer, seen)
        })
    }

    /// Produces or consumes for a time; `on_second` hears of each second as it ends.
    ///
    /// # Errors
    /// See [`DriverFailure`].
    pub fn steady(
        &mut self,
        asked: &Steady,
        limit: CommandLimit<'_>,
        on_second: &mut dyn FnMut(&SteadySecond),
    ) -> Result<SteadyDone, DriverError> {
        let command = DriverCommand::Steady(asked.clone());
        self.ask(command, limit, on_second, |answer, seen, seconds| {
            check::steady(asked, answer, seconds, seen)
        })
    }

    /// Collects garbage, if there is such a thing.
    ///
    /// # Errors
    /// See [`DriverFailure`].
    pub fn gc(&mut self, limit: CommandLimit<'_>) -> Result<(), DriverError> {
        let fine = |_: &Nothing, _: &CommandObservation, _: &[SteadySecond]| Ok(());
        self.ask(DriverCommand::Gc, limit, &mut |_| (), fine)
            .map(|_| ())
    }

    /// Tells memory and threads.
    ///
    /// # Errors
    /// See [`DriverFailure`].
    pub fn stats(&mut self, limit: CommandLimit<'_>) -> Result<Stats, DriverError> {
        self.ask(DriverCommand::Stats, limit, &mut |_| (), |_, _, _| Ok(()))
    }

    /// Ends it; killed when it takes longer than the protocol allows.
    ///
    /// # Errors
    /// It did not end by itself, or not well.
    pub fn bye(mut self) -> Result<(), DriverError> {
        let never = AtomicBool::new(false);
        let limit = CommandLimit {
            within: BYE_WITHIN,
            stop: &never,
        };
        let fine = |_: &Nothing, _: &CommandObservation, _: &[SteadySecond]| Ok(());
        self.ask(DriverCommand::Bye, limit, &mut |_| (), fine)?;
        if !self.process.close(END_WITHIN) {
            return Err(self.give_up("bye", |said| DriverFailure::Hung {
                within: END_WITHIN,
                said,
            }));
        }
        match self.process.wait(Duration::ZERO) {
            Some(status) if !status.success() => Err(self.crashed("bye")),
            _ => Ok(()),
        }
    }

    /// Sends a command, waits for its answer and checks it. Only a refusal leaves the driver alive.
    fn ask<T: DeserializeOwned>(
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
                DriverFailure::NotStarted("it was given up".to_owned()),
            ));
        }
        let mut seconds = Vec::new();
        let seconds_max = match &command {
            DriverCommand::Steady(steady) => steady.seconds,
            _ => 0,
        };
        let cpu_before = self.process.cpu_us();
        let started = Instant::now();
        let id = self.send(command, limit.within)?;
        let answer = loop {
            let line = match self.process.line(started + limit.within, limit.stop) {
                Ok(line) => line,
                Err(silence) => return Err(self.silent(during, silence, limit.within)),
            };
            match parse_line(&line, id) {
                Ok(DriverLine::Answer(answer)) => break answer,
                Ok(DriverLine::Second(second)) if (seconds.len() as u64) < seconds_max => {
                    on_second(&second);
                    seconds.push(second);
                }
                Ok(DriverLine::Second(_)) => {
                    let detail = "an event that nobody asked for".to_owned();
                    return Err(self.give_up(during, |_| DriverFailure::Garbled { detail }));
                }
                Err(detail) => {
                    return Err(self.give_up(during, |_| DriverFailure::Garbled { detail }));
                }
            }
        };
        let seen = CommandObservation {
            wall: started.elapsed(),
            cpu_us: self.cpu_since(cpu_before),
            cores: self.cores,
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(text) => return Err(self.error(during, DriverFailure::Refused(text))),
        };
        let answer: T = match read_answer(answer) {
            Ok(answer) => answer,
            Err(detail) => return Err(self.give_up(during, |_| DriverFailure::Garbled { detail })),
        };
        match check(&answer, &seen, &seconds) {
            Ok(()) => Ok(answer),
            Err(detail) => Err(self.give_up(during, |_| DriverFailure::Lied { detail })),
        }
    }

    /// Sends a command; its id. What came before it was asked for is no answer to it.
    fn send(&mut self, command: DriverCommand, within: Duration) -> Result<u64, DriverError> {
        let during = command.name();
        if let Some(line) = self.process.unasked() {
            let detail = format!("it said without being asked: {}", protocol::cut(&line));
            return Err(self.give_up(during, |_| DriverFailure::Garbled { detail }));
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
                let detail = format!("the command can not be written: {error}");
                return Err(self.error(during, DriverFailure::NotStarted(detail)));
            }
        }
        Ok(request.id)
    }

    fn cpu_since(&self, before: Option<f64>) -> Option<f64> {
        Some(self.process.cpu_us()? - before?)
    }

    fn silent(&mut self, during: &str, silence: ReadEnd, within: Duration) -> DriverError {
        match silence {
            ReadEnd::Closed => self.crashed(during),
            ReadEnd::Endless => self.give_up(during, |_| DriverFailure::Garbled {
                detail: "a line without an end".to_owned(),
            }),
            ReadEnd::Timeout => self.give_up(during, |said| DriverFailure::Hung { within, said }),
            ReadEnd::Stopped => self.give_up(during, |_| DriverFailure::Interrupted),
        }
    }

    fn crashed(&mut self, during: &str) -> DriverError {
        let status = process::ending(self.process.wait(CRASH_WITHIN));
        self.give_up(during, |said| DriverFailure::Crashed { status, said })
    }

    /// Kills it; `reason` gets its last words.
    fn give_up(
        &mut self,
        during: &str,
        reason: impl FnOnce(String) -> DriverFailure,
    ) -> DriverError {
        self.is_alive = false;
        self.process.kill();
        let reason = reason(self.process.last_words());
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

const BYE_WITHIN: Duration = Duration::from_secs(10);
/// After its answer to `bye`.
const END_WITHIN: Duration = Duration::from_secs(2);
/// Between the end of its output and its own.
const CRASH_WITHIN: Duration = Duration::from_secs(1);
