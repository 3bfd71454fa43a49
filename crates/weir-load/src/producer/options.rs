//! Options of a producer and their checks.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, Args, Command, FromArgMatches as _};
use weir_kafka::{Acks, KafkaSettings, ProducerConfig};

use super::record_args::RecordArgs;
use super::record_header::RecordHeader;
use crate::clock::Clock;
use crate::error::LoadError;
use crate::kafka::KafkaArgs;
use crate::pacer::Rate;
use crate::payload::{
    KeyDistribution, MembersSpec, PayloadKind, PayloadSpec, RecordSpec, ReplayFormat, ReplaySource,
};
use crate::share::WorkerShare;
use crate::topic::NewTopicArgs;
use crate::units::{parse_count, parse_duration};

/// Options of a producer.
#[derive(Debug, Clone, Args)]
pub struct ProducerOptions {
    /// Cluster to write to.
    #[command(flatten)]
    pub kafka: KafkaArgs,
    /// Topic to write to
    #[arg(long, value_name = "NAME")]
    pub topic: String,
    /// Number of topics, named NAME-0, NAME-1 and so on
    ///
    /// Each producer writes to one of them, so that there must be at least as many producers.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub topics: u32,
    /// Records per second of all producers together [default: 100]
    ///
    /// For example 100, 0.5 or 10k. With -1 the rate has no limit: a record is due when it is sent.
    #[arg(long, value_name = "RECORDS_PER_S", value_parser = rate, conflicts_with = "pause",
          allow_negative_numbers = true)]
    pub rate: Option<Rate>,
    /// Number of producers named in the values (pid-0, pid-1 ...), used in turn
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub producers: u32,
    /// Number of the first producer
    ///
    /// Processes that write to the same topic need different producer numbers.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub first_producer: u32,
    /// Pause of each producer between two records; sets the rate
    ///
    /// The rate is producers * 1000 ms / pause.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub pause: Option<Duration>,
    /// Random characters per value of kinds base and keyed [default: 1024]
    ///
    /// The number of bytes with --kind random, and with json2, avro and protobuf, whose texts have
    /// 512 characters by default, or 16 with --schema. Values of the other kinds have a fixed size.
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    pub size: Option<u64>,
    /// Kind of records, see the list below
    ///
    /// base, keyed, json, json-extended, json2, complex, verycomplex, jsonkeyx, json-members, avro,
    /// protobuf or random.
    #[arg(long, value_name = "KIND", default_value_t = PayloadKind::Keyed)]
    pub kind: PayloadKind,
    /// Use keys of 500 characters, with --kind json, json2, avro or protobuf
    #[arg(long)]
    pub extended_key: bool,
    /// Values of the kinds with a schema.
    #[command(flatten)]
    pub record: RecordArgs,
    /// Mark records with PREFIX- before the timestamp, for latency measurements
    ///
    /// Records of producers without this option are background load.
    #[arg(long)]
    pub mark: bool,
    /// Number of keys; the first 40 have the published names [default: 40]
    #[arg(long, value_name = "COUNT")]
    pub keys: Option<u32>,
    /// Additional key; replaces the last key of the pool
    ///
    /// A key that is already in the pool changes nothing.
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Distribution of records over keys
    ///
    /// uniform, zipf, zipf:EXPONENT, sequential, or hot:KEYS:RECORDS with shares from 0 to 1.
    #[arg(long, value_name = "NAME", default_value_t = KeyDistribution::Uniform)]
    pub key_distribution: KeyDistribution,
    /// Share of random bytes, with --kind random
    ///
    /// Values cannot be compressed with 1, and consist of one repeated byte with 0.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = share)]
    pub entropy: f64,
    /// Members of each object besides timestamp and key, with --kind json-members
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    pub members: u32,
    /// Characters per member, with --kind json-members
    #[arg(long, value_name = "COUNT", default_value_t = 24)]
    pub member_characters: u32,
    /// Share of members changed per record of a key, with --kind json-members
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, value_parser = share)]
    pub change_ratio: f64,
    /// File whose records are sent in order and repeatedly, instead of --kind
    #[arg(long, value_name = "FILE", conflicts_with = "replay_topic")]
    pub replay: Option<PathBuf>,
    /// Format of the --replay file: lines or lengths
    ///
    /// lines: one record per line; lengths: for each record the length of the key (32 bits,
    /// big-endian, -1 for no key), the key, the length of the value, the value.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "lines",
        requires = "replay"
    )]
    pub replay_format: ReplayFormat,
    /// Separator of key and value with lines [default: a line is a value]
    #[arg(long, value_name = "TEXT", requires = "replay")]
    pub key_separator: Option<String>,
    /// Topic whose oldest records, with keys and headers, are sent instead of --kind
    #[arg(long, value_name = "NAME")]
    pub replay_topic: Option<String>,
    /// Number of records to read from --replay-topic
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "10k")]
    pub replay_records: u64,
    /// Random seed of keys and texts
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Time to write, for example 30s [default: until Ctrl-C or --count]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "worker")]
    pub duration: Option<Duration>,
    /// Number of records to write, for example 10k
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    pub count: Option<u64>,
    /// Longest time that a batch waits for more records
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "1ms")]
    pub linger: Duration,
    /// Acknowledgements to wait for: 0, 1 or all
    #[arg(long, value_name = "ACKS", default_value_t = Acks::All)]
    pub acks: Acks,
    /// Disable the idempotent producer
    ///
    /// Retries after a lost connection can then duplicate or reorder records. The idempotent
    /// producer of librdkafka waits busily for responses, which takes up to a core at thousands of
    /// records per second.
    #[arg(long)]
    pub no_idempotence: bool,
    /// Compression of record batches: none, gzip, snappy, lz4 or zstd
    #[arg(long, value_name = "NAME", default_value = "none")]
    pub compression: String,
    /// How missing topics are created.
    #[command(flatten)]
    pub new_topic: NewTopicArgs,
    /// Send the records in transactions of this duration
    ///
    /// Consumers with isolation.level=read_committed receive them after the commit. While a
    /// transaction is committed, records that become due wait; this is no schedule lag.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub transaction_duration: Option<Duration>,
    /// Transactional id [default: new for each run]
    #[arg(long, value_name = "ID", requires = "transaction_duration")]
    pub transactional_id: Option<String>,
    /// Maximum p99 schedule lag; a run above it is invalid (exit code 4)
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "20ms")]
    pub max_lag: Duration,
    /// Write no headers
    ///
    /// Consumers cannot check deliveries of such records, and time them only by texts in the value.
    #[arg(long, conflicts_with = "text_stamp")]
    pub no_stamp: bool,
    /// Add the header `weir` with the stamp as text, for clients of a gateway
    #[arg(long)]
    pub text_stamp: bool,
    /// Header of every record; {key} in the value is the key of the record
    #[arg(id = "headers", long = "header", value_name = "NAME=VALUE")]
    pub headers: Vec<RecordHeader>,
    /// Share of the records that this worker sends, for example 2/3
    #[arg(
        long,
        value_name = "NUMBER/COUNT",
        default_value_t,
        requires = "worker",
        hide = true
    )]
    pub share: WorkerShare,
    /// Longest wait for acknowledgements after the last record
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10s")]
    pub drain: Duration,
}

impl Default for ProducerOptions {
    /// Returns the defaults of the command line with topic `LTest`: the published generator's
    /// arguments for scenario 2.
    fn default() -> Self {
        // One of the options conflicts with this argument of the command.
        let command = Command::new("produce").arg(Arg::new("worker").long("worker"));
        let matches = Self::augment_args(command).try_get_matches_from(["", "--topic", "LTest"]);
        let options = matches.and_then(|matches| Self::from_arg_matches(&matches));
        // Invariant: the command line needs no option except the topic.
        options.expect("the defaults are valid")
    }
}

impl ProducerOptions {
    /// Returns the rate, which the number of producers and their pause can define.
    pub fn rate(&self) -> Result<Rate, LoadError> {
        match (self.rate, self.pause) {
            (Some(rate), _) => Ok(rate),
            (None, Some(pause)) => Ok(Rate::of_producers(self.producers, pause)?),
            (None, None) => Ok(Rate::HUNDRED),
        }
    }

    /// Rejects a size or a number of keys that the kind does not have. Workers may get both with
    /// any kind.
    pub fn reject_unused(&self) -> Result<(), LoadError> {
        let (option, reason) = match self.kind {
            _ if self.replay().is_some() => return Ok(()),
            kind if self.size.is_some() && !kind.has_size() => (
                "--size with --kind",
                "values have a fixed size; omit --size",
            ),
            kind if self.keys.is_some() && !kind.has_key() => (
                "--keys with --kind",
                "records have no key; use --kind keyed",
            ),
            _ => return Ok(()),
        };
        Err(LoadError::option(option, &self.kind, reason))
    }

    /// Returns the seed of the share, so that shares do not choose the same keys in turn.
    pub(super) fn seed(&self) -> u64 {
        self.seed.wrapping_add((self.share.index as u64) << 32)
    }

    fn kind(&self) -> Result<PayloadKind, LoadError> {
        match self.kind {
            _ if self.replay().is_some() => Ok(PayloadKind::Replay),
            kind if !self.extended_key || kind.record_format().is_some() => Ok(kind),
            PayloadKind::Json | PayloadKind::JsonExtended => Ok(PayloadKind::JsonExtended),
            kind => {
                let reason = "keys cannot be extended; use --kind json";
                Err(LoadError::option(
                    "--extended-key with --kind",
                    &kind,
                    reason,
                ))
            }
        }
    }

    fn replay(&self) -> Option<ReplaySource> {
        let file = self.replay.as_ref().map(|path| ReplaySource::File {
            path: path.clone(),
            format: match &self.replay_format {
                ReplayFormat::Lines(_) => ReplayFormat::Lines(self.key_separator.clone()),
                ReplayFormat::Lengths => ReplayFormat::Lengths,
            },
        });
        file.or_else(|| {
            Some(ReplaySource::Topic {
                topic: self.replay_topic.clone()?,
                records: usize::try_from(self.replay_records).unwrap_or(usize::MAX),
            })
        })
    }

    /// Returns the number of keys; not used by kinds without a key.
    fn keys(&self) -> u32 {
        self.keys.unwrap_or(40)
    }

    /// Returns the size of a value. One that does not fit exceeds the limit.
    fn size(&self) -> usize {
        usize::try_from(self.size.unwrap_or(1024)).unwrap_or(usize::MAX)
    }

    /// Returns the values of kinds with a schema, without the frame of a registry.
    fn record(&self) -> Result<Option<RecordSpec>, LoadError> {
        let size = self.size.map(|_| self.size());
        self.record.spec((self.kind()?, self.mark), size)
    }

    /// Returns the description of the payloads; reads the records to replay and registers the
    /// schema.
    pub(super) fn payload_spec(&self, kafka: &KafkaSettings) -> Result<PayloadSpec, LoadError> {
        let record = self.record()?;
        let framed = |record| self.record.framed(record, &self.topic);
        let record = record.map(framed).transpose()?;
        let replay = match self.replay() {
            Some(source) => source.read(kafka)?,
            None => Vec::new(),
        };
        Ok(PayloadSpec {
            replay: replay.into(),
            kind: self.kind()?,
            size: self.size(),
            keys: self.keys() as usize,
            key: self.key.clone(),
            entropy: self.entropy,
            members: MembersSpec {
                members: self.members,
                characters: self.member_characters,
                change_ratio: self.change_ratio,
            },
            record,
            extended: self.extended_key,
            seed: self.seed(),
            marked: self.mark,
        })
    }

    /// Returns `true` if the name of a record selects its partition. Keys of kind `jsonkeyx` never
    /// repeat, so partitioning by key would spread a name over all partitions, and the order of its
    /// records could not be checked.
    pub(super) fn partitions_by_name(&self, kafka: &KafkaSettings) -> bool {
        let chosen = kafka.property(PARTITIONER).is_some();
        self.kind().is_ok_and(|kind| kind == PayloadKind::JsonKeyX) && !chosen
    }

    /// Returns the transactional id of the share.
    fn transactional_id(&self) -> String {
        let unix_ms = Clock::start().now_unix_ns() / 1_000_000;
        let new = || format!("weir-{unix_ms}-{}", std::process::id());
        let id = self.transactional_id.clone().unwrap_or_else(new);
        match self.share == WorkerShare::WHOLE {
            true => id,
            false => format!("{id}-{}", self.share.index),
        }
    }

    pub(super) fn client_config(&self, kafka: &KafkaSettings) -> ProducerConfig {
        ProducerConfig {
            // The published generator uses the Java client; murmur2 gives the same partitions.
            kafka: kafka
                .clone()
                .with_default_property(PARTITIONER, "murmur2_random"),
            client_id: "weir-load-produce".to_owned(),
            acks: self.acks,
            idempotent: !self.no_idempotence,
            linger_ms: self.linger.as_secs_f64() * 1000.0,
            compression: self.compression.clone(),
            transactional_id: self.transaction_duration.map(|_| self.transactional_id()),
            ..ProducerConfig::default()
        }
    }
}

/// Valid numbers of a producer's options.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProducerNumbers {
    /// Number of the first logical producer of all shares.
    first: u32,
    /// Number of logical producers of this share, at least 1.
    pub(super) producers: u32,
    /// Records per second of all shares together.
    pub(super) rate: Rate,
    pub(super) share: WorkerShare,
}

impl ProducerNumbers {
    /// Returns the numbers if all options are valid together.
    pub(super) fn new(options: &ProducerOptions) -> Result<Self, LoadError> {
        let (rate, kind) = (options.rate()?, options.kind()?);
        let (producers, first) = (options.producers, options.first_producer);
        let (keys, members, size) = (options.keys(), options.members, options.size());
        let streams = u64::from(keys) * u64::from(producers);
        let texts = streams.max(keys.into()) * u64::from(members);
        let share = options.share;
        let is_in_transactions = options.transaction_duration.is_some();
        let rules: [(bool, &'static str, &dyn ToString, &str); 14] = [
            (producers > 0, "--producers", &0, "at least one is needed"),
            (
                share.of <= producers as usize,
                "--producers",
                &producers,
                "each machine needs one; give more producers or fewer machines",
            ),
            (
                (1..=producers).contains(&options.topics),
                "--topics",
                &options.topics,
                "give at least 1, and at least as many --producers, each of which writes to one",
            ),
            (
                options.topics == 1 || options.replay().is_none(),
                "--topics",
                &options.topics,
                "records of a file or topic are sent to one topic",
            ),
            (
                !is_in_transactions || (options.acks == Acks::All && !options.no_idempotence),
                "--transaction-duration",
                &"with other --acks than all or --no-idempotence",
                "transactions need both: omit these options",
            ),
            (
                share == WorkerShare::WHOLE || options.replay().is_none(),
                "--share",
                &share,
                "records of a file or topic are sent in order, by one machine only",
            ),
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
                !options.mark || kind.has_timestamp(),
                "--mark with --kind",
                &kind,
                "values of this kind have no timestamp member; use a kind with JSON values",
            ),
            (
                kind != PayloadKind::JsonMembers || (1..=TEXTS_MAX).contains(&texts),
                "--members",
                &members,
                "each key has this number of texts: give at least 1, and fewer with many keys",
            ),
            (
                (kind == PayloadKind::Replay) == options.replay().is_some(),
                "--kind",
                &kind,
                "replay requires --replay FILE or --replay-topic NAME",
            ),
            (
                options.member_characters <= CHARACTERS_MAX,
                "--member-characters",
                &options.member_characters,
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
            None => Ok(Self {
                first,
                // Not more than all producers.
                producers: share.count(producers.into()) as u32,
                rate,
                share,
            }),
        }
    }

    /// Returns the number of the producer with an index in this share.
    pub(super) fn producer(&self, index: u32) -> u32 {
        // Below the number after the last producer, which is a `u32`.
        self.first + index * self.share.of as u32 + self.share.index as u32
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

/// Parses a count or a decimal number of records per second.
fn rate(text: &str) -> Result<Rate, Box<dyn Error + Send + Sync>> {
    if text == "-1" {
        return Ok(Rate::UNLIMITED);
    }
    let rate = match text.parse::<f64>() {
        Ok(rate) => rate,
        Err(_) => parse_count(text)? as f64,
    };
    Ok(Rate::per_second(rate)?)
}

fn share(text: &str) -> Result<f64, &'static str> {
    let share = text.parse::<f64>().ok();
    let share = share.filter(|share| (0.0..=1.0).contains(share));
    share.ok_or("must be a number from 0 to 1")
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
            mark: true,
            ..ProducerOptions::default()
        };
        let error = ProducerNumbers::new(&options)
            .expect_err("no member to mark")
            .to_string();
        assert!(error.starts_with("--mark with --kind keyed: "), "{error}");
        let options = ProducerOptions {
            topics: 11,
            ..ProducerOptions::default()
        };
        let error = ProducerNumbers::new(&options)
            .expect_err("fewer producers than topics")
            .to_string();
        assert!(error.starts_with("--topics 11: "), "{error}");
        let options = ProducerOptions {
            transaction_duration: Some(Duration::from_secs(1)),
            acks: Acks::Leader,
            ..ProducerOptions::default()
        };
        let error = ProducerNumbers::new(&options)
            .expect_err("transactions with acks 1")
            .to_string();
        assert!(error.starts_with("--transaction-duration "), "{error}");
        let options = ProducerOptions {
            kind: PayloadKind::JsonKeyX,
            mark: true,
            ..ProducerOptions::default()
        };
        assert!(ProducerNumbers::new(&options).is_ok());
        assert!(ProducerNumbers::new(&ProducerOptions::default()).is_ok());
    }

    #[test]
    fn jsonkeyx_partitions_by_name() {
        let options = ProducerOptions {
            kind: PayloadKind::JsonKeyX,
            ..ProducerOptions::default()
        };
        let kafka = KafkaSettings::plaintext("a:1");
        assert!(options.partitions_by_name(&kafka));
        assert!(!ProducerOptions::default().partitions_by_name(&kafka));
        assert!(!options.partitions_by_name(&kafka.with_property(PARTITIONER, "random")));
    }

    #[test]
    fn configured_partitioner_has_precedence() {
        let kafka = KafkaSettings::plaintext("a:1");
        let config = ProducerOptions::default().client_config(&kafka);
        assert_eq!(config.kafka.property(PARTITIONER), Some("murmur2_random"));
        let kafka = kafka.with_property(PARTITIONER, "random");
        let config = ProducerOptions::default().client_config(&kafka);
        assert_eq!(config.kafka.property(PARTITIONER), Some("random"));
    }
}
