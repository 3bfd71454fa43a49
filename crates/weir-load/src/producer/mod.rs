//! The load producer: an open-loop schedule, one librdkafka client, one thread.
//!
//! Logical producers share the client: record `i` of the schedule belongs to producer `i mod P`.

mod meter;
mod sender;
mod tracker;

use std::sync::mpsc::RecvError;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use weir_kafka::Acks;
use weir_kafka::{Producer, ProducerConfig};

use crate::clock::Clock;
use crate::error::LoadError;
use crate::local_time::LocalTime;
use crate::pacer::Rate;
use crate::payload::{
    KeyDistribution, MembersSpec, PayloadGenerator, PayloadKind, PayloadSpec, ReplaySource,
};
use crate::topic;
use crate::worker::CoordinatorChannel;
use crate::worker::protocol::{
    ProduceSummary, Schedule, Summary, WorkerCommand, WorkerEvent, WorkerRole,
};
use tracker::ProduceAck;

/// What a producer writes, where and how fast.
#[derive(Debug, Clone)]
pub struct ProducerOptions {
    /// Comma-separated `host:port` list.
    pub bootstrap_servers: String,
    /// Topic to write to.
    pub topic: String,
    /// Records per second, all logical producers together.
    pub rate: Rate,
    /// Logical producers, named `pid-0`, `pid-1` and so on.
    pub producers: u32,
    /// Number of the first logical producer; different ones keep producers of two processes apart.
    pub first_producer: u32,
    /// Kind of record.
    pub kind: PayloadKind,
    /// Random characters in each value.
    pub size: usize,
    /// Number of keys; not used by kinds without a key.
    pub keys: u32,
    /// A key that takes the place of the pool's last, unless it is one of the pool.
    pub key: Option<String>,
    /// How records are spread over the keys.
    pub distribution: KeyDistribution,
    /// Share of random bytes in values of the kind `random`.
    pub entropy: f64,
    /// Where records of the kind `replay` come from.
    pub replay: Option<ReplaySource>,
    /// The objects of the kind `json-members`.
    pub members: MembersSpec,
    /// Seed of keys and filler.
    pub seed: u64,
    /// Puts the mark of probe records into the timestamp member; kinds with objects only.
    pub marked: bool,
    /// Records after which the producer ends; `None`: only the schedule's end counts.
    pub count: Option<u64>,
    /// How long a batch may wait for company, in milliseconds.
    pub linger_ms: f64,
    /// Which acknowledgement a record waits for.
    pub acks: Acks,
    /// With acknowledgement by all, that a retry neither repeats nor reorders records.
    pub idempotent: bool,
    /// Kafka's name of the compression.
    pub compression: String,
    /// Further librdkafka properties.
    pub properties: Vec<(String, String)>,
    /// Whether records carry headers that say when they were due and which they are.
    pub stamped: bool,
    /// Adds the text stamp, for clients behind a mapping that reads headers as text.
    pub text_stamp: bool,
    /// Creates the topic with this many partitions if it does not exist.
    pub create_partitions: Option<u32>,
    /// Longest wait for acknowledgements after the last record.
    pub drain: Duration,
}

impl Default for ProducerOptions {
    /// The published generator's arguments for scenario 2: 10 producers, 100 ms pause, 1024
    /// characters, 40 keys; to `ltest` on this machine.
    fn default() -> Self {
        Self {
            bootstrap_servers: "localhost:9092".to_owned(),
            topic: "LTest".to_owned(),
            rate: Rate::HUNDRED,
            producers: 10,
            first_producer: 0,
            kind: PayloadKind::Keyed,
            size: 1024,
            keys: 40,
            key: None,
            distribution: KeyDistribution::Uniform,
            entropy: 1.0,
            replay: None,
            members: MembersSpec::default(),
            seed: 1,
            marked: false,
            count: None,
            linger_ms: 1.0,
            acks: Acks::All,
            idempotent: true,
            compression: "none".to_owned(),
            properties: Vec::new(),
            stamped: true,
            text_stamp: false,
            create_partitions: None,
            drain: Duration::from_secs(10),
        }
    }
}

impl ProducerOptions {
    fn check(&self) -> Result<(), LoadError> {
        let refused = |option, value: u64, reason: &str| {
            Err(LoadError::Option {
                option,
                value: value.to_string(),
                reason: reason.to_owned(),
            })
        };
        let streams = u64::from(self.keys) * u64::from(self.producers);
        if self.producers == 0 {
            return refused("--producers", 0, "at least one is needed");
        }
        if self.kind.has_key() && self.keys == 0 {
            return refused("--keys", 0, "at least one is needed");
        }
        if self.first_producer.checked_add(self.producers).is_none() {
            let first = u64::from(self.first_producer);
            return refused(
                "--first-producer",
                first,
                "the last number must be below 2^32",
            );
        }
        if self.marked && !self.kind.has_timestamp() {
            let reason = "its values have no timestamp member; use a kind with JSON values";
            return Err(LoadError::Option {
                option: "--mark with --kind",
                value: self.kind.to_string(),
                reason: reason.to_owned(),
            });
        }
        let texts = streams.max(u64::from(self.keys)) * u64::from(self.members.members);
        if self.kind == PayloadKind::JsonMembers && (self.members.members == 0 || texts > TEXTS_MAX)
        {
            let reason = "each key has that many texts: give at least one, and fewer for many keys";
            return refused("--members", self.members.members.into(), reason);
        }
        if (self.kind == PayloadKind::Replay) != self.replay.is_some() {
            return Err(LoadError::Option {
                option: "--kind",
                value: self.kind.to_string(),
                reason: "replay goes with --replay FILE or --replay-topic NAME".to_owned(),
            });
        }
        if self.members.characters > CHARACTERS_MAX {
            let reason = "at most 100,000";
            return refused(
                "--member-characters",
                self.members.characters.into(),
                reason,
            );
        }
        if streams > STREAMS_MAX {
            let reason = "each key and producer has a counter of its own; give fewer of either";
            return refused("--keys times --producers", streams, reason);
        }
        if self.size > SIZE_MAX {
            let reason = "Kafka's default limit is about 1,000,000, and 100,000,000 is ours";
            return refused("--size", self.size as u64, reason);
        }
        Ok(())
    }

    /// With the records to be sent again, which are read now.
    fn payload_spec(&self) -> Result<PayloadSpec, LoadError> {
        let replay = match &self.replay {
            Some(source) => source.read(&self.bootstrap_servers)?,
            None => Vec::new(),
        };
        Ok(PayloadSpec {
            replay: replay.into(),
            kind: self.kind,
            size: self.size,
            keys: self.keys as usize,
            key: self.key.clone(),
            entropy: self.entropy,
            members: self.members,
            seed: self.seed,
            marked: self.marked,
        })
    }

    /// Whether a record's name decides its partition. A key that is another one each time would spread a
    /// name over all partitions, where its records have no order that could be checked.
    fn names_decide(&self) -> bool {
        let chosen = self.properties.iter().any(|(name, _)| name == PARTITIONER);
        self.kind == PayloadKind::JsonKeyX && !chosen
    }

    fn client_config(&self) -> ProducerConfig {
        // The published generator's client is the Java one: same keys, same partitions.
        let mut properties = vec![(PARTITIONER.to_owned(), "murmur2_random".to_owned())];
        properties.extend(self.properties.iter().cloned());
        ProducerConfig {
            bootstrap_servers: self.bootstrap_servers.clone(),
            client_id: "weir-load-produce".to_owned(),
            acks: self.acks,
            idempotent: self.idempotent,
            linger_ms: self.linger_ms,
            compression: self.compression.clone(),
            properties,
            ..ProducerConfig::default()
        }
    }
}

/// Answers of the broker on their way from librdkafka's thread to the sender; as many as records
/// can be in flight.
type Answers = Arc<Mutex<Vec<ProduceAck>>>;

/// Connects, reports ready, waits for `start`, follows the schedule and returns the summary, which
/// was also the last event.
///
/// # Errors
/// [`LoadError`] if the producer could not begin; the link has not been told.
pub fn run(
    options: &ProducerOptions,
    link: &CoordinatorChannel,
) -> Result<ProduceSummary, LoadError> {
    options.check()?;
    link.events.hello(WorkerRole::Produce);
    let brokers = topic::ensure(
        &options.bootstrap_servers,
        &options.topic,
        options.create_partitions,
    )?;
    let clock = Clock::start();
    let answers = Answers::default();
    let (producer, partitions) = start_client(options, clock, &answers)?;
    let payloads = PayloadGenerator::new(&options.payload_spec()?, LocalTime::system());
    let streams = payloads.names().len() as u64 * u64::from(options.producers);
    if streams > STREAMS_MAX {
        return Err(LoadError::Option {
            option: "--producers",
            value: options.producers.to_string(),
            reason: format!(
                "with {} keys there are too many counters: give fewer",
                payloads.names().len()
            ),
        });
    }
    link.events.send(&WorkerEvent::Ready {
        connections: brokers as u64,
        port: None,
    });
    let summary = match wait_for_start(link) {
        Some(schedule) => {
            let target = sender::ProduceTarget {
                producer: &producer,
                answers: &answers,
                clock,
                partitions: options.names_decide().then_some(partitions),
            };
            sender::ScheduledSender::new(options, schedule, target, payloads, link).run()
        }
        None => ProduceSummary::default(),
    };
    link.events.send(&WorkerEvent::Final {
        summary: Summary::Produce(summary.clone()),
    });
    Ok(summary)
}

fn start_client(
    options: &ProducerOptions,
    clock: Clock,
    answers: &Answers,
) -> Result<(Producer, usize), LoadError> {
    let sink = Arc::clone(answers);
    let on_delivery = move |delivery: weir_kafka::DeliveryReport| {
        let answer = ProduceAck {
            token: delivery.token as usize,
            at_unix_ns: clock.now_unix_ns(),
            error: delivery.result.err(),
        };
        sink.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(answer);
    };
    let producer = Producer::start(&options.client_config(), Box::new(on_delivery))?;
    // Nothing is sent before the topic's leaders are known, so the first record is not late.
    let partitions = producer.partitions(&options.topic, CONNECT_TIMEOUT)?;
    Ok((producer, partitions))
}

fn wait_for_start(link: &CoordinatorChannel) -> Option<Schedule> {
    loop {
        match link.commands.recv() {
            Ok(WorkerCommand::Start(schedule)) => return Some(schedule),
            Ok(WorkerCommand::Ledger { .. }) => {}
            Ok(WorkerCommand::Stop) | Err(RecvError) => return None,
        }
    }
}

const PARTITIONER: &str = "partitioner";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Counters of keys and producers, about 100 bytes each.
const STREAMS_MAX: u64 = 1_000_000;
const TEXTS_MAX: u64 = 10_000_000;
const CHARACTERS_MAX: u32 = 100_000;
const SIZE_MAX: usize = 100_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_make_no_sense_name_themselves() {
        let options = ProducerOptions {
            producers: 0,
            ..ProducerOptions::default()
        };
        let error = options.check().expect_err("no producers").to_string();
        assert_eq!(error, "--producers 0: at least one is needed");
        let options = ProducerOptions {
            producers: 100_000,
            ..ProducerOptions::default()
        };
        assert!(options.check().is_err());
        let options = ProducerOptions {
            marked: true,
            ..ProducerOptions::default()
        };
        let error = options.check().expect_err("no member to mark").to_string();
        assert!(error.starts_with("--mark with --kind keyed: "), "{error}");
        let options = ProducerOptions {
            kind: PayloadKind::JsonKeyX,
            marked: true,
            ..ProducerOptions::default()
        };
        assert!(options.check().is_ok());
        assert!(ProducerOptions::default().check().is_ok());
    }

    #[test]
    fn names_decide_where_keys_do_not_repeat() {
        let mut options = ProducerOptions {
            kind: PayloadKind::JsonKeyX,
            ..ProducerOptions::default()
        };
        assert!(options.names_decide());
        options.properties = vec![(PARTITIONER.to_owned(), "random".to_owned())];
        assert!(!options.names_decide());
        assert!(!ProducerOptions::default().names_decide());
    }

    #[test]
    fn the_users_partitioner_wins() {
        let options = ProducerOptions {
            properties: vec![("partitioner".to_owned(), "random".to_owned())],
            ..ProducerOptions::default()
        };
        let config = options.client_config();
        assert_eq!(config.properties.last(), options.properties.last());
    }
}
