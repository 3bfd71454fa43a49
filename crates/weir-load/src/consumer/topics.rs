//! Distributes consumers over several topics.

use std::cell::RefCell;
use std::rc::Rc;

use weir_kafka::lean::{LeanConfig, LeanError, LeanRecord, LeanSink};

use super::lean_consumers::LeanConsumers;
use super::options::ConsumerOptions;

/// Sink of the consumers of one topic, which knows their numbers among all consumers.
pub(super) struct TopicConsumers {
    all: Rc<RefCell<LeanConsumers>>,
    /// Numbers of the receivers of the topic: standalone consumers or groups.
    receivers: Vec<usize>,
    members: usize,
}

impl TopicConsumers {
    /// Returns configuration and sink for the consumers of each topic.
    pub(super) fn all(
        options: &ConsumerOptions,
        topics: &[String],
        all: &Rc<RefCell<LeanConsumers>>,
    ) -> Vec<(LeanConfig, Self)> {
        let members = options.members().max(1);
        let of_topic = |(number, topic): (u32, &String)| {
            let receivers = 0..options.clients / members;
            let receivers = receivers.filter(|&receiver| options.topic_of(receiver) == number);
            let receivers: Vec<usize> = receivers.collect();
            let config = options.config((number, topic), receivers.len() * members);
            let all = Rc::clone(all);
            (
                config,
                Self {
                    all,
                    receivers,
                    members,
                },
            )
        };
        let runs = (0..).zip(topics).map(of_topic);
        runs.filter(|(config, _)| config.consumers > 0).collect()
    }

    fn number(&self, consumer: usize) -> usize {
        self.receivers[consumer / self.members] * self.members + consumer % self.members
    }
}

impl LeanSink for TopicConsumers {
    fn on_ready(&mut self, consumer: usize) {
        self.all.borrow_mut().on_ready(self.number(consumer));
    }

    fn on_record(&mut self, consumer: usize, record: &LeanRecord<'_>) {
        let consumer = self.number(consumer);
        self.all.borrow_mut().on_record(consumer, record);
    }

    fn on_error(&mut self, consumer: usize, error: &LeanError) {
        self.all.borrow_mut().on_error(self.number(consumer), error);
    }

    fn on_bytes(&mut self, consumer: usize, n: usize) {
        self.all.borrow_mut().on_bytes(self.number(consumer), n);
    }
}
