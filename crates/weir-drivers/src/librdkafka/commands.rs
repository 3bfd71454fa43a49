//! Executes the commands of a session.

use procfs::process::Process;
use serde::Serialize;
use serde_json::{Value, json};

use super::deadline::{CommandError, CommandOutcome, Deadline};
use super::session::DriverSession;
use super::settings::configure;
use super::{consume, copy, produce, roundtrip, steady};
use crate::protocol::DriverCommand;
use crate::{
    AssignmentMode, Burst, Consume, DriverHello, PROTOCOL, ProduceCommand, ProducerState, Stats,
    SteadySecond, WarmedUp,
};

impl DriverSession {
    /// Executes a command; `on_second` receives the events before the response.
    pub(super) fn execute(
        &mut self,
        command: DriverCommand,
        timeout: &Deadline<'_>,
        on_second: &mut dyn FnMut(&SteadySecond),
    ) -> CommandOutcome<Value> {
        match command {
            DriverCommand::Hello(hello) if hello.protocol != PROTOCOL => {
                Err(CommandError::Protocol(hello.protocol))
            }
            DriverCommand::Hello(_) => Ok(fields(description())),
            DriverCommand::Configure(command) => {
                self.warm_producer = None;
                let (clients, response) = configure(&command)?;
                self.clients = Some(clients);
                Ok(fields(response))
            }
            DriverCommand::WarmUp(command) => self.warm_up(command.0, timeout).map(fields),
            DriverCommand::Produce(command) => {
                produce::produce(self, &command, timeout).map(fields)
            }
            DriverCommand::Consume(command) => {
                consume::consume(self, &command, timeout).map(fields)
            }
            DriverCommand::Copy(command) => copy::copy(self, &command, timeout).map(fields),
            DriverCommand::RoundTrip(command) => {
                roundtrip::roundtrip(self, &command, timeout).map(fields)
            }
            DriverCommand::Steady(command) => {
                steady::steady(self, &command, timeout, on_second).map(fields)
            }
            DriverCommand::Gc => Ok(json!({})),
            DriverCommand::Stats => Ok(fields(stats())),
            DriverCommand::Bye => {
                self.warm_producer = None;
                Ok(json!({}))
            }
        }
    }

    fn warm_up(&mut self, burst: Burst, timeout: &Deadline<'_>) -> CommandOutcome<WarmedUp> {
        let count = burst.count.max(1) as f64;
        let produce = ProduceCommand {
            burst,
            state: ProducerState::Warm,
            per_record: false,
        };
        let produced = produce::produce(self, &produce, timeout)?;
        let burst = produce.burst;
        if let (1.., Some(reason)) = (produced.delivered.failed, produced.delivered.errors.first())
        {
            return Err(CommandError::topic(&burst.topic, reason));
        }
        let consume = Consume {
            burst,
            via: AssignmentMode::Assign,
            verify: false,
            commit: false,
        };
        let consumed = consume::consume(self, &consume, timeout)?;
        Ok(WarmedUp {
            produce_cpu_us_per_record: produced.cpu_us / count,
            consume_cpu_us_per_record: consumed.cpu_us / count,
        })
    }
}

fn description() -> DriverHello {
    DriverHello {
        protocol: PROTOCOL,
        library: "librdkafka".to_owned(),
        library_version: weir_kafka::librdkafka_version(),
        binding: format!("rdkafka {RDKAFKA_VERSION} (Rust)"),
        runtime: format!("weir {}", env!("CARGO_PKG_VERSION")),
        capabilities: crate::CAPABILITIES.map(str::to_owned).to_vec(),
    }
}

/// Returns memory and threads; zeros if the system does not report them.
fn stats() -> Stats {
    let status = Process::myself().and_then(|own| own.status());
    status.map_or_else(
        |_| Stats::default(),
        |own| Stats {
            rss_kb: own.vmrss.unwrap_or(0),
            threads: own.threads,
            heap_kb: None,
        },
    )
}

fn fields(response: impl Serialize) -> Value {
    // Invariant: responses have no values that JSON cannot represent.
    serde_json::to_value(response).unwrap_or_default()
}

/// Locked version of the crate, checked by a test.
const RDKAFKA_VERSION: &str = "0.39.0";

#[cfg(test)]
mod tests {
    #[test]
    fn binding_has_the_locked_version() {
        let lock = include_str!("../../../../Cargo.lock");
        let (_, rest) = lock
            .split_once("name = \"rdkafka\"\nversion = \"")
            .expect("locked");
        assert_eq!(rest.split('"').next(), Some(super::RDKAFKA_VERSION));
    }

    #[test]
    fn process_has_memory_and_threads() {
        let stats = super::stats();
        assert!(stats.rss_kb > 0 && stats.threads > 0);
    }
}
