//! What a driver keeps between commands, and who does each.

use std::collections::HashSet;

use crate::{
    AssignmentMode, Consume, DriverCommand, DriverHello, Nothing, PROTOCOL, ProduceCommand,
    ProducerState, SteadySecond, WarmUp, WarmedUp,
};
use serde::Serialize;
use serde_json::Value;

use super::deadline::Deadline;
use super::error::CommandError;
use super::sender::DriverProducer;
use super::settings::{self, ClientConfigs};
use super::usage::{self, DriverClock};
use super::{CommandOutcome, consume, produce, roundtrip, steady};

/// One driver's session.
pub(super) struct DriverSession {
    clock: DriverClock,
    clients: Option<ClientConfigs>,
    kept: Option<WarmProducer>,
}

/// The producer that stays.
struct WarmProducer {
    sender: DriverProducer,
    /// Topics that have got a primer from it.
    primed: HashSet<String>,
}

impl DriverSession {
    pub(super) fn new() -> Self {
        Self {
            clock: DriverClock::start(),
            clients: None,
            kept: None,
        }
    }

    pub(super) fn clock(&self) -> DriverClock {
        self.clock
    }

    /// Does a command; `on_second` hears of events before the answer.
    pub(super) fn answer(
        &mut self,
        command: &DriverCommand,
        timeout: &Deadline<'_>,
        on_second: &mut dyn FnMut(&SteadySecond),
    ) -> CommandOutcome<Value> {
        match command {
            DriverCommand::Hello { protocol } => hello(*protocol).map(fields),
            DriverCommand::Configure(asked) => {
                self.kept = None;
                let (clients, answer) = settings::configure(asked)?;
                self.clients = Some(clients);
                Ok(fields(answer))
            }
            DriverCommand::WarmUp(asked) => self.warm_up(asked, timeout).map(fields),
            DriverCommand::Produce(asked) => produce::produce(self, asked, timeout).map(fields),
            DriverCommand::Consume(asked) => consume::consume(self, asked, timeout).map(fields),
            DriverCommand::RoundTrip(asked) => {
                roundtrip::roundtrip(self, asked, timeout).map(fields)
            }
            DriverCommand::Steady(asked) => {
                steady::steady(self, asked, timeout, on_second).map(fields)
            }
            DriverCommand::Gc => Ok(fields(Nothing {})),
            DriverCommand::Stats => Ok(fields(usage::stats())),
            DriverCommand::Bye => {
                self.kept = None;
                Ok(fields(Nothing {}))
            }
        }
    }

    /// What clients are made with.
    pub(super) fn configured(&self) -> CommandOutcome<&ClientConfigs> {
        self.clients.as_ref().ok_or(CommandError::NotConfigured)
    }

    /// Does something with the producer that stays, made and primed if need be. One that fails may
    /// hold records, and does not stay.
    pub(super) fn with_kept<T>(
        &mut self,
        topic: &str,
        timeout: &Deadline<'_>,
        work: impl FnOnce(&DriverProducer) -> CommandOutcome<T>,
    ) -> CommandOutcome<T> {
        let mut kept = match self.kept.take() {
            Some(kept) => kept,
            None => WarmProducer {
                sender: self.configured()?.sender(self.clock)?,
                primed: HashSet::new(),
            },
        };
        if !kept.primed.contains(topic) {
            kept.sender.know(topic, timeout)?;
            kept.sender.send_primer(topic, timeout)?;
            kept.primed.insert(topic.to_owned());
        }
        let outcome = work(&kept.sender)?;
        self.kept = Some(kept);
        Ok(outcome)
    }

    fn warm_up(&mut self, asked: &WarmUp, timeout: &Deadline<'_>) -> CommandOutcome<WarmedUp> {
        let produced = ProduceCommand {
            topic: asked.topic.clone(),
            len: asked.len,
            count: asked.count,
            seed: asked.seed,
            state: ProducerState::Warm,
            per_record: false,
        };
        let produced = produce::produce(self, &produced, timeout)?;
        if let Some(reason) = produced.errors.first().filter(|_| produced.failed > 0) {
            return Err(CommandError::Topic {
                topic: asked.topic.clone(),
                reason: reason.clone(),
            });
        }
        let consumed = Consume {
            topic: asked.topic.clone(),
            len: asked.len,
            count: asked.count,
            seed: asked.seed,
            via: AssignmentMode::Assign,
            verify: false,
            commit: false,
        };
        let consumed = consume::consume(self, &consumed, timeout)?;
        let per_record = |cpu_us: f64| cpu_us / asked.count.max(1) as f64;
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

fn fields(answer: impl Serialize) -> Value {
    // Invariant: answers hold nothing that JSON can not express.
    serde_json::to_value(answer).unwrap_or_default()
}

/// As locked; a test looks.
const RDKAFKA_VERSION: &str = "0.39.0";

#[cfg(test)]
mod tests {
    #[test]
    fn the_binding_is_the_one_locked() {
        let lock = include_str!("../../../../Cargo.lock");
        let (_, rest) = lock
            .split_once("name = \"rdkafka\"\nversion = \"")
            .expect("locked");
        assert_eq!(rest.split('"').next(), Some(super::RDKAFKA_VERSION));
    }
}
