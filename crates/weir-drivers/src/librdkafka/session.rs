//! State of a driver between commands.

use std::collections::HashSet;

use super::clock::DriverClock;
use super::deadline::{CommandError, CommandOutcome, Deadline};
use super::sender::DriverProducer;
use super::settings::ClientConfigs;

#[derive(Default)]
pub(super) struct DriverSession {
    pub(super) clock: DriverClock,
    pub(super) clients: Option<ClientConfigs>,
    pub(super) warm_producer: Option<WarmProducer>,
}

/// Producer that is reused across commands.
pub(super) struct WarmProducer {
    sender: DriverProducer,
    /// Topics to which it has delivered a primer.
    primed: HashSet<String>,
}

impl DriverSession {
    pub(super) fn configured(&self) -> CommandOutcome<&ClientConfigs> {
        self.clients.as_ref().ok_or(CommandError::NotConfigured)
    }

    pub(super) fn sender(&self) -> CommandOutcome<DriverProducer> {
        DriverProducer::start(self.configured()?, self.clock)
    }

    /// Calls `work` with the warm producer, which is created and primed if needed. After an error
    /// the producer is dropped, because it may have queued records.
    pub(super) fn with_warm_producer<T>(
        &mut self,
        topic: &str,
        timeout: &Deadline<'_>,
        work: impl FnOnce(&DriverProducer) -> CommandOutcome<T>,
    ) -> CommandOutcome<T> {
        let mut producer = match self.warm_producer.take() {
            Some(producer) => producer,
            None => WarmProducer {
                sender: self.sender()?,
                primed: HashSet::new(),
            },
        };
        if !producer.primed.contains(topic) {
            producer.sender.load_metadata(topic, timeout)?;
            producer.sender.send_primer(topic, timeout)?;
            producer.primed.insert(topic.to_owned());
        }
        let outcome = work(&producer.sender)?;
        self.warm_producer = Some(producer);
        Ok(outcome)
    }
}
