//! Executes the commands of a session.

use crate::{
    AssignmentMode, Consume, DriverCommand, DriverHello, EmptyResponse, PROTOCOL, ProduceCommand,
    ProducerState, SteadySecond, WarmUp, WarmedUp,
};
use serde::Serialize;
use serde_json::Value;

use super::deadline::Deadline;
use super::error::{CommandError, CommandOutcome};
use super::session::DriverSession;
use super::{consume, produce, roundtrip, settings, steady, usage};

impl DriverSession {
    /// Executes a command; `on_second` receives the events before the response.
    pub(super) fn execute(
        &mut self,
        command: &DriverCommand,
        timeout: &Deadline<'_>,
        on_second: &mut dyn FnMut(&SteadySecond),
    ) -> CommandOutcome<Value> {
        match command {
            DriverCommand::Hello { protocol } => hello(*protocol).map(fields),
            DriverCommand::Configure(command) => {
                self.close_producer();
                let (clients, response) = settings::configure(command)?;
                self.set_clients(clients);
                Ok(fields(response))
            }
            DriverCommand::WarmUp(command) => self.warm_up(command, timeout).map(fields),
            DriverCommand::Produce(command) => produce::produce(self, command, timeout).map(fields),
            DriverCommand::Consume(command) => consume::consume(self, command, timeout).map(fields),
            DriverCommand::RoundTrip(command) => {
                roundtrip::roundtrip(self, command, timeout).map(fields)
            }
            DriverCommand::Steady(command) => {
                steady::steady(self, command, timeout, on_second).map(fields)
            }
            DriverCommand::Gc => Ok(fields(EmptyResponse {})),
            DriverCommand::Stats => Ok(fields(usage::stats())),
            DriverCommand::Bye => {
                self.close_producer();
                Ok(fields(EmptyResponse {}))
            }
        }
    }

    fn warm_up(&mut self, command: &WarmUp, timeout: &Deadline<'_>) -> CommandOutcome<WarmedUp> {
        let produced = ProduceCommand {
            topic: command.topic.clone(),
            len: command.len,
            count: command.count,
            seed: command.seed,
            state: ProducerState::Warm,
            per_record: false,
        };
        let produced = produce::produce(self, &produced, timeout)?;
        if let Some(reason) = produced.errors.first().filter(|_| produced.failed > 0) {
            return Err(CommandError::Topic {
                topic: command.topic.clone(),
                reason: reason.clone(),
            });
        }
        let consumed = Consume {
            topic: command.topic.clone(),
            len: command.len,
            count: command.count,
            seed: command.seed,
            via: AssignmentMode::Assign,
            verify: false,
            commit: false,
        };
        let consumed = consume::consume(self, &consumed, timeout)?;
        let per_record = |cpu_us: f64| cpu_us / command.count.max(1) as f64;
        Ok(WarmedUp {
            produce_cpu_us_per_record: per_record(produced.cpu_us),
            consume_cpu_us_per_record: per_record(consumed.cpu_us),
        })
    }
}

fn hello(protocol: u32) -> CommandOutcome<DriverHello> {
    if protocol != PROTOCOL {
        return Err(CommandError::Protocol(protocol));
    }
    Ok(DriverHello {
        protocol: PROTOCOL,
        library: "librdkafka".to_owned(),
        library_version: weir_kafka::librdkafka_version(),
        binding: format!("rdkafka {RDKAFKA_VERSION} (Rust)"),
        runtime: format!("weir {}", env!("CARGO_PKG_VERSION")),
        capabilities: crate::CAPABILITIES.map(str::to_owned).to_vec(),
    })
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
}
