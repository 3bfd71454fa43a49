//! Options of a producer and their checks.

use std::time::Duration;

use weir_kafka::{Acks, ProducerConfig};

use crate::error::LoadError;
use crate::pacer::Rate;
use crate::payload::{KeyDistribution, MembersSpec, PayloadKind, PayloadSpec, ReplaySource};

/// Options of a producer.
#[derive(Debug, Clone)]
pub struct ProducerOptions {
    /// Comma-separated `host:port` list.
    pub bootstrap_servers: String,
    /// Topic to write to.
    pub topic: String,
    /// Records per second of all logical producers together.
    pub rate: Rate,
    /// Number of logical producers, named `pid-0`, `pid-1` and so on.
    pub producers: u32,
    /// Number of the first logical producer; it distinguishes the producers of two processes.
    pub first_producer: u32,
    /// Kind of record.
    pub kind: PayloadKind,
    /// Random characters in each value.
    pub size: usize,
    /// Number of keys; not used by kinds without a key.
    pub keys: u32,
    /// Additional key; replaces the last key of the pool, unless it is one of them.
    pub key: Option<String>,
    /// Distribution of the records over the keys.
    pub distribution: KeyDistribution,
    /// Share of random bytes in values of the kind `random`.
    pub entropy: f64,
    /// Source of the records of the kind `replay`.
    pub replay: Option<ReplaySource>,
    /// Objects of the kind `json-members`.
    pub members: MembersSpec,
    /// Seed of keys and filler.
    pub seed: u64,
    /// Add the mark of probe records to the timestamp member; only for kinds with objects.
    pub marked: bool,
    /// Number of records after which the producer ends; `None`: only the schedule ends it.
    pub count: Option<u64>,
    /// Maximum delay to fill a batch, in milliseconds.
    pub linger_ms: f64,
    /// Required acknowledgements.
    pub acks: Acks,
    /// Idempotent producer: with `acks` all, retries neither duplicate nor reorder records.
    pub idempotent: bool,
    /// Compression codec, as named by Kafka.
    pub compression: String,
    /// Further librdkafka properties.
    pub properties: Vec<(String, String)>,
    /// Add headers with due time, producer and sequence number.
    pub stamped: bool,
    /// Add the text stamp, for clients behind a mapping that reads headers as text.
    pub text_stamp: bool,
    /// Create a missing topic with this number of partitions.
    pub create_partitions: Option<u32>,
    /// Maximum wait for acknowledgements after the last record.
    pub drain: Duration,
}

impl Default for ProducerOptions {
    /// Returns the published generator's arguments for scenario 2: 10 producers, 100 ms pause, 1024
    /// characters, 40 keys, topic `LTest` on this machine.
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
    /// Returns the description of the payloads; reads the records to replay.
    pub(super) fn payload_spec(&self) -> Result<PayloadSpec, LoadError> {
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

    /// Returns `true` if the name of a record selects its partition. Keys of kind `jsonkeyx` never
    /// repeat, so partitioning by key would spread a name over all partitions, and the order of its
    /// records could not be checked.
    pub(super) fn partitions_by_name(&self) -> bool {
        let chosen = self.properties.iter().any(|(name, _)| name == PARTITIONER);
        self.kind == PayloadKind::JsonKeyX && !chosen
    }

    pub(super) fn client_config(&self) -> ProducerConfig {
        // The published generator uses the Java client; murmur2 gives the same partitions.
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

/// Valid numbers of a producer's options.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProducerNumbers {
    /// Number of the first logical producer.
    pub(super) first: u32,
    /// Number of logical producers, at least 1.
    pub(super) producers: u32,
}

impl ProducerNumbers {
    /// Returns the numbers if all options are valid together.
    pub(super) fn new(options: &ProducerOptions) -> Result<Self, LoadError> {
        let &ProducerOptions {
            producers,
            first_producer: first,
            kind,
            keys,
            members,
            size,
            ..
        } = options;
        let streams = u64::from(keys) * u64::from(producers);
        let texts = streams.max(keys.into()) * u64::from(members.members);
        let rules: [(bool, &'static str, &dyn ToString, &str); 9] = [
            (producers > 0, "--producers", &0, "at least one is needed"),
            (
                !kind.has_key() || keys > 0,
                "--keys",
                &0,
                "at least one is needed",
            ),
            (
                first.checked_add(producers).is_some(),
                "--first-producer",
                &first,
                "the last number must be below 2^32",
            ),
            (
                !options.marked || kind.has_timestamp(),
                "--mark with --kind",
                &kind,
                "values of this kind have no timestamp member; use a kind with JSON values",
            ),
            (
                kind != PayloadKind::JsonMembers || (1..=TEXTS_MAX).contains(&texts),
                "--members",
                &members.members,
                "each key has this number of texts: give at least 1, and fewer with many keys",
            ),
            (
                (kind == PayloadKind::Replay) == options.replay.is_some(),
                "--kind",
                &kind,
                "replay requires --replay FILE or --replay-topic NAME",
            ),
            (
                members.characters <= CHARACTERS_MAX,
                "--member-characters",
                &members.characters,
                "at most 100,000",
            ),
            (
                streams <= STREAMS_MAX,
                "--keys times --producers",
                &streams,
                "each key and producer needs a counter; give fewer of either",
            ),
            (
                size <= SIZE_MAX,
                "--size",
                &size,
                "at most 100,000,000; Kafka's default limit is about 1,000,000",
            ),
        ];
        match rules.into_iter().find(|(is_valid, ..)| !is_valid) {
            Some((_, option, value, reason)) => Err(LoadError::option(option, value, reason)),
            None => Ok(Self { first, producers }),
        }
    }

    /// Checks that the counters of this number of keys fit. Replayed records have their own keys.
    pub(super) fn check_keys(&self, keys: usize) -> Result<(), LoadError> {
        if keys as u64 * u64::from(self.producers) <= STREAMS_MAX {
            return Ok(());
        }
        let reason = format!("too many counters with {keys} keys: give fewer");
        Err(LoadError::option("--producers", &self.producers, reason))
    }
}

const PARTITIONER: &str = "partitioner";
/// Limit of the counters of keys and producers, about 100 bytes each.
const STREAMS_MAX: u64 = 1_000_000;
const TEXTS_MAX: u64 = 10_000_000;
const CHARACTERS_MAX: u32 = 100_000;
const SIZE_MAX: usize = 100_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_options_are_named() {
        let options = ProducerOptions {
            producers: 0,
            ..ProducerOptions::default()
        };
        let error = ProducerNumbers::new(&options)
            .expect_err("no producers")
            .to_string();
        assert_eq!(error, "--producers 0: at least one is needed");
        let options = ProducerOptions {
            producers: 100_000,
            ..ProducerOptions::default()
        };
        assert!(ProducerNumbers::new(&options).is_err());
        let options = ProducerOptions {
            marked: true,
            ..ProducerOptions::default()
        };
        let error = ProducerNumbers::new(&options)
            .expect_err("no member to mark")
            .to_string();
        assert!(error.starts_with("--mark with --kind keyed: "), "{error}");
        let options = ProducerOptions {
            kind: PayloadKind::JsonKeyX,
            marked: true,
            ..ProducerOptions::default()
        };
        assert!(ProducerNumbers::new(&options).is_ok());
        assert!(ProducerNumbers::new(&ProducerOptions::default()).is_ok());
    }

    #[test]
    fn jsonkeyx_partitions_by_name() {
        let mut options = ProducerOptions {
            kind: PayloadKind::JsonKeyX,
            ..ProducerOptions::default()
        };
        assert!(options.partitions_by_name());
        options.properties = vec![(PARTITIONER.to_owned(), "random".to_owned())];
        assert!(!options.partitions_by_name());
        assert!(!ProducerOptions::default().partitions_by_name());
    }

    #[test]
    fn configured_partitioner_has_precedence() {
        let options = ProducerOptions {
            properties: vec![("partitioner".to_owned(), "random".to_owned())],
            ..ProducerOptions::default()
        };
        let config = options.client_config();
        assert_eq!(config.properties.last(), options.properties.last());
    }
}
