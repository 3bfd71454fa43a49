//! `weir load produce`: records written on a fixed schedule.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use weir_load::pacer::Rate;
use weir_load::payload::{KeyDistribution, MembersSpec, PayloadKind, ReplayFormat, ReplaySource};
use weir_load::producer::{self, Acks, ProducerOptions};
use weir_load::units::{parse_count, parse_duration};
use weir_load::worker::protocol::{ProduceSummary, Quantiles};

use crate::cmd::load_common::{
    OutputArgs, ProgressDelta, ProgressDisplay, exit_for, key_value, microseconds, print_errors,
    row, run_worker, time,
};
use crate::cmd::load_local;
use crate::exit::{Exit, Failure, OrExit as _};
use crate::signal;

const AFTER_HELP: &str = "\
Kinds, as in the published generator: the key, then the value. TIMESTAMP is the due time as
yyyy-MM-dd HH:mm:ss.SSS in local time.
  base           no key; TIMESTAMP-pid-N-TEXT
  keyed          one of 40 fruits; as base
  json           one of 40 fruits; {timestamp, fstValue (512 characters), sndValue (the key),
                 intNum}
  json-extended  a fruit repeated to 500 characters; as json
  complex        one of 40 first names; {id, firstText ... fourthText (256 characters),
                 firstnumber, secondNumber ... fourthNumber, hobbies [3], timestamp};
                 each record changes one text and one number
  verycomplex    as complex, with `changes` (20 characters) after id; each record changes
                 `changes` and one number
  json-members   one of 40 fruits; {timestamp, key, m0 ... m19 (24 characters)};
                 each record changes a tenth of the members
  random         no key; --size bytes, of which the share --entropy is random
  jsonkeyx       {timestamp, nameId, sndValue, intNum, names [1024; 998 is the id]};
                 as verycomplex

Arguments of the published generator, in its order:
  1 bootstrap servers   --bootstrap        5 message size    --size
  2 topic               --topic            6 kind            --kind
  3 producers           --producers        7 mark records    --mark
  4 pause in ms         --pause 100ms      8 extended key    --extended-key
Unlike there, the due times of records do not depend on the broker, and no objects with old
timestamps are sent first.

Examples: loads of the published scenarios 1, 2 and 3
  weir load produce --topic LTest --kind base --producers 2 --pause 500ms --create-topic
  weir load produce --topic LTest --producers 10 --pause 100ms --duration 1m
  weir load produce --topic LTest --kind complex --producers 10 --pause 100ms --duration 1m";

/// Arguments of `weir load produce`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ProduceArgs {
    /// Kafka bootstrap servers
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:9092")]
    bootstrap: String,
    /// Topic to write to
    #[arg(long, value_name = "NAME")]
    topic: String,
    /// Records per second of all producers together [default: 100]
    ///
    /// For example 100, 0.5 or 10k.
    #[arg(long, value_name = "RECORDS_PER_S", value_parser = parse_rate, conflicts_with = "pause")]
    rate: Option<Rate>,
    /// Number of producers named in the values (pid-0, pid-1 ...), used in turn
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    producers: u32,
    /// Number of the first producer
    ///
    /// Processes that write to the same topic need different producer numbers.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    first_producer: u32,
    /// Pause of each producer between two records; sets the rate
    ///
    /// The rate is producers * 1000 ms / pause.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pause: Option<Duration>,
    /// Random characters per value of kinds base and keyed [default: 1024]
    ///
    /// With --kind random, the number of bytes. Values of the other kinds have a fixed size.
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    size: Option<u64>,
    /// Kind of records, see the list below
    ///
    /// base, keyed, json, json-extended, complex, verycomplex, jsonkeyx, json-members or random.
    #[arg(long, value_name = "KIND", default_value_t = PayloadKind::Keyed)]
    kind: PayloadKind,
    /// Use keys of 500 characters, with --kind json (same as --kind json-extended)
    #[arg(long)]
    extended_key: bool,
    /// Mark records with PREFIX- before the timestamp, for latency measurements
    ///
    /// Records of producers without this option are background load.
    #[arg(long)]
    mark: bool,
    /// Number of keys; the first 40 have the published names [default: 40]
    #[arg(long, value_name = "COUNT")]
    keys: Option<u32>,
    /// Additional key; replaces the last key of the pool
    ///
    /// A key that is already in the pool changes nothing.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Distribution of records over keys
    ///
    /// uniform, zipf, zipf:EXPONENT, sequential, or hot:KEYS:RECORDS with shares from 0 to 1.
    #[arg(long, value_name = "NAME", default_value_t = KeyDistribution::Uniform)]
    key_distribution: KeyDistribution,
    /// Share of random bytes, with --kind random
    ///
    /// Values cannot be compressed with 1, and consist of one repeated byte with 0.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = parse_share)]
    entropy: f64,
    /// Members of each object besides timestamp and key, with --kind json-members
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    members: u32,
    /// Characters per member, with --kind json-members
    #[arg(long, value_name = "COUNT", default_value_t = 24)]
    member_characters: u32,
    /// Share of members changed per record of a key, with --kind json-members
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, value_parser = parse_share)]
    change_ratio: f64,
    /// File whose records are sent in order and repeatedly, instead of --kind
    #[arg(long, value_name = "FILE", conflicts_with = "replay_topic")]
    replay: Option<PathBuf>,
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
    replay_format: ReplayFormat,
    /// Separator of key and value with lines [default: a line is a value]
    #[arg(long, value_name = "TEXT", requires = "replay")]
    key_separator: Option<String>,
    /// Topic whose oldest records, with keys and headers, are sent instead of --kind
    #[arg(long, value_name = "NAME")]
    replay_topic: Option<String>,
    /// Number of records to read from --replay-topic
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "10k")]
    replay_records: u64,
    /// Random seed of keys and texts
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Time to write, for example 30s [default: until Ctrl-C or --count]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "worker")]
    duration: Option<Duration>,
    /// Number of records to write, for example 10k
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    count: Option<u64>,
    /// Longest time that a batch waits for more records
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "1ms")]
    linger: Duration,
    /// Acknowledgements to wait for: 0, 1 or all
    #[arg(long, value_name = "ACKS", default_value_t = Acks::All)]
    acks: Acks,
    /// Disable the idempotent producer
    ///
    /// Retries after a lost connection can then duplicate or reorder records. The idempotent
    /// producer of librdkafka waits busily for responses, which takes up to a core at thousands of
    /// records per second.
    #[arg(long)]
    no_idempotence: bool,
    /// Compression of record batches: none, gzip, snappy, lz4 or zstd
    #[arg(long, value_name = "NAME", default_value = "none")]
    compression: String,
    /// librdkafka property; repeatable
    #[arg(long = "kafka-property", value_name = "KEY=VALUE", value_parser = key_value)]
    kafka_properties: Vec<(String, String)>,
    /// Create the topic if it does not exist, with one partition by default
    #[arg(long, value_name = "PARTITIONS", num_args = 0..=1, default_missing_value = "1")]
    create_topic: Option<u32>,
    /// Maximum p99 schedule lag; a run above it is invalid (exit code 4)
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "20ms")]
    max_lag: Duration,
    /// Write no headers
    ///
    /// Consumers cannot check deliveries of such records, and time them only by texts in the value.
    #[arg(long, conflicts_with = "text_stamp")]
    no_stamp: bool,
    /// Add the header `weir` with the stamp as text, for clients of a gateway
    #[arg(long)]
    text_stamp: bool,
    /// Longest wait for acknowledgements after the last record
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10s")]
    drain: Duration,
    #[command(flatten)]
    output: OutputArgs,
}

/// Parses a count or a decimal number of records per second.
fn parse_rate(text: &str) -> anyhow::Result<Rate> {
    let rate = match text.parse::<f64>() {
        Ok(rate) => rate,
        Err(_) => parse_count(text)? as f64,
    };
    Ok(Rate::per_second(rate)?)
}

/// Parses a number from 0 to 1.
fn parse_share(text: &str) -> anyhow::Result<f64> {
    let share = text.parse::<f64>().ok();
    let share = share.filter(|share| (0.0..=1.0).contains(share));
    share.context("must be a number from 0 to 1")
}

impl ProduceArgs {
    /// Returns the kind if its options are consistent. Workers may get a size with any kind.
    fn kind(&self) -> anyhow::Result<PayloadKind> {
        let (kind, is_worker) = (self.kind, self.output.worker);
        if self.size.is_some() && !kind.has_size() && !is_worker {
            bail!("--size with --kind {kind}: values have a fixed size; omit --size");
        }
        if self.keys.is_some() && !kind.has_key() && !is_worker {
            bail!("--keys with --kind {kind}: records have no key; use --kind keyed");
        }
        match kind {
            kind if !self.extended_key => Ok(kind),
            PayloadKind::Json | PayloadKind::JsonExtended => Ok(PayloadKind::JsonExtended),
            _ => {
                bail!("--extended-key with --kind {kind}: keys cannot be extended; use --kind json")
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

    fn options(&self) -> anyhow::Result<ProducerOptions> {
        let rate = match (self.rate, self.pause) {
            (Some(rate), _) => rate,
            (None, Some(pause)) => Rate::of_producers(self.producers, pause)?,
            (None, None) => Rate::HUNDRED,
        };
        let replay = self.replay();
        Ok(ProducerOptions {
            bootstrap_servers: self.bootstrap.clone(),
            topic: self.topic.clone(),
            rate,
            producers: self.producers,
            first_producer: self.first_producer,
            kind: match replay.is_some() {
                true => PayloadKind::Replay,
                false => self.kind()?,
            },
            replay,
            // A size that does not fit exceeds the limit checked later.
            size: usize::try_from(self.size.unwrap_or(1024)).unwrap_or(usize::MAX),
            keys: self.keys.unwrap_or(40),
            key: self.key.clone(),
            distribution: self.key_distribution,
            entropy: self.entropy,
            members: MembersSpec {
                members: self.members,
                characters: self.member_characters,
                change_ratio: self.change_ratio,
            },
            seed: self.seed,
            marked: self.mark,
            count: self.count,
            linger_ms: self.linger.as_secs_f64() * 1000.0,
            acks: self.acks,
            idempotent: !self.no_idempotence,
            compression: self.compression.clone(),
            properties: self.kafka_properties.clone(),
            stamped: !self.no_stamp,
            text_stamp: self.text_stamp,
            create_partitions: self.create_topic,
            drain: self.drain,
        })
    }
}

/// Runs the producer.
pub(crate) fn run(args: &ProduceArgs) -> Result<Exit, Failure> {
    let options = args.options().or_exit(Exit::Usage)?;
    if args.output.worker {
        return run_worker(|link| producer::run(&options, link));
    }
    let stop = signal::stop_flag().or_exit(Exit::Instrument)?;
    let mut progress = ProgressDisplay::new(args.output.json, args.duration);
    let result = load_local::run(
        &stop,
        |link| producer::run(&options, link),
        |event| progress.show(event, "", |change| status(options.rate, change)),
    );
    progress.end();
    let summary = result?;
    if !progress.quiet {
        print_summary(&summary);
    }
    Ok(verdict(args, &summary, &stop))
}

fn status(rate: Rate, change: &ProgressDelta) -> String {
    format!(
        "{:.0} of {rate} records/s  lag p50 {} p99 {}  in flight {}  acknowledged {}  failed {}",
        change.per_s("sent"),
        microseconds(change.now.p50_us),
        microseconds(change.now.p99_us),
        change.total("in_flight"),
        change.total("acked"),
        change.total("failed"),
    )
}

/// Returns the exit code and prints the reason of a failure to standard error.
fn verdict(args: &ProduceArgs, summary: &ProduceSummary, stop: &AtomicBool) -> Exit {
    let unsent = summary.due - summary.sent.min(summary.due);
    let missing = unsent + summary.unacknowledged;
    if missing > 0 || summary.failed > 0 {
        eprintln!(
            "weir: {} of {} records were not acknowledged by \"{}\"",
            summary.due - summary.acked.min(summary.due),
            summary.due,
            args.bootstrap
        );
        return Exit::Unreachable;
    }
    if u128::from(summary.schedule_lag.p99_ns) > args.max_lag.as_nanos() {
        let cause = match summary.queue_full {
            0 => "this machine is too slow or too busy for the rate".to_owned(),
            times => {
                format!("the send queue was full {times} times because the broker is too slow")
            }
        };
        eprintln!(
            "weir: p99 schedule lag {} exceeds --max-lag {}: {cause}",
            time(summary.schedule_lag.p99_ns),
            time(u64::try_from(args.max_lag.as_nanos()).unwrap_or(u64::MAX)),
        );
        return Exit::Instrument;
    }
    exit_for(stop, args.duration.is_some() || args.count.is_some())
}

fn quantiles_text(quantiles: &Quantiles) -> String {
    // The values of a distribution without samples are zero.
    let shown = |ns: u64| match quantiles.count {
        0 => "–".to_owned(),
        _ => time(ns),
    };
    format!(
        "p50 {}, p99 {}, max {}",
        shown(quantiles.p50_ns),
        shown(quantiles.p99_ns),
        shown(quantiles.max_ns)
    )
}

fn print_summary(summary: &ProduceSummary) {
    let elapsed_s = summary.elapsed_ns as f64 / 1e9;
    let achieved = summary.sent as f64 / elapsed_s.max(1e-9);
    println!();
    row("due", summary.due);
    let target = summary.target_rate_millis as f64 / 1000.0;
    let sent = summary.sent;
    let rates = format_args!("{elapsed_s:.2} s, {achieved:.1} records/s, target {target}");
    row("sent", format_args!("{sent} in {rates}"));
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let (sent, wire) = (mib(summary.bytes_sent), mib(summary.wire_bytes_sent));
    let bytes = format_args!("{sent:.2} MiB of keys and values, {wire:.2} MiB to brokers");
    row("bytes", bytes);
    row("acknowledged", summary.acked);
    row("failed", summary.failed);
    row("unacknowledged", summary.unacknowledged);
    row("queue full", summary.queue_full);
    row("schedule lag", quantiles_text(&summary.schedule_lag));
    row("publish ack", quantiles_text(&summary.publish_ack));
    print_errors(&summary.errors);
}
