//! `weir load consume`: plain Kafka consumers.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, ValueEnum};
use weir_bench::sweep::consumer_row;
use weir_kafka::KafkaSettings;
use weir_load::clock::Clock;
use weir_load::consumer::{
    self, ConsumerClient, ConsumerOptions, LatencySource, LeanGroups, ScanOptions, ValueArgs,
};
use weir_load::delivery::DeliverySummary;
use weir_load::kafka::KafkaArgs;
use weir_load::share::WorkerShare;
use weir_load::units::{parse_count, parse_duration};
use weir_stats::perf::CONSUMER_HEADER;

use crate::cmd::load_common::{
    OutputArgs, ProgressDelta, ProgressDisplay, ReceiverOutputArgs, exit_for, latency_source,
    print_deliveries, print_errors, row, run_worker,
};
use crate::cmd::load_local;
use crate::exit::{Exit, Failure, OrExit as _};
use crate::signal;

const AFTER_HELP: &str = "\
Examples:
  weir load consume --topic LTest --consumers 1k --duration 1m
  weir load consume --topic LTest --consumers 200 --architecture groups

Arguments of the published consumer:
  bootstrap servers     --bootstrap
  topic                 --topic
  number of consumers   --consumers
  group prefix          --group-prefix
  latency reporter      --published-report
\
The group prefix of the published consumer also selects its class: `standalone` and \
`socomplex...` correspond to --architecture standalone, all others to --architecture groups. \
`complex...` and `socomplex...` also need --latency-from json:timestamp.";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ConsumeArgs {
    #[command(flatten)]
    kafka: KafkaArgs,
    /// Topic to read, starting at its end
    ///
    /// Every consumer reads all partitions, unless --group-members divides them.
    #[arg(long, value_name = "NAME")]
    topic: String,
    /// Number of topics, named NAME-0, NAME-1 and so on, as with `weir load produce`
    ///
    /// Each consumer, or each group, reads one of them.
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 1,
        conflicts_with = "from_start"
    )]
    topics: u32,
    /// Read nothing for this time, then report how long the backlog takes to drain
    ///
    /// The time begins when all consumers are positioned. Group members keep their partitions.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration,
          conflicts_with = "from_start")]
    backlog: Option<Duration>,
    /// Number of consumers, for example 500 or 4k, each with its own connections
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "100")]
    consumers: u64,
    /// Client library of the consumers
    ///
    /// librdkafka runs at most 200 consumers; use it to validate lean.
    #[arg(long, value_name = "NAME", value_enum, default_value_t = ConsumerClient::Lean)]
    client_library: ConsumerClient,
    /// Relation of the consumers to each other
    #[arg(long, value_name = "NAME", value_enum,
          default_value_t = ConsumerArchitecture::Standalone)]
    architecture: ConsumerArchitecture,
    /// Prefix of group ids, followed by a number from 0 [default: new for each run]
    ///
    /// New groups start at the end of the topic. A prefix of an earlier run resumes at its
    /// committed offsets.
    #[arg(long, value_name = "TEXT")]
    group_prefix: Option<String>,
    /// Number of consumers per group; with 1, each consumer receives every record
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    group_members: usize,
    /// Interval between offset commits of a group
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "1s")]
    commit_interval: Duration,
    /// Share of the consumers that this worker runs, for example 2/3
    #[arg(
        long,
        value_name = "NUMBER/COUNT",
        default_value_t,
        requires = "worker",
        hide = true
    )]
    share: WorkerShare,
    /// New connections per second
    #[arg(long, value_name = "CONNECTIONS_PER_S", value_parser = parse_count,
          default_value = "1000")]
    ramp: u64,
    /// Maximum time that a broker waits for records before it responds to a fetch
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "500ms")]
    max_wait: Duration,
    /// Time to read after all consumers are positioned [default: until Ctrl-C]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "worker")]
    duration: Option<Duration>,
    /// Read --records with one consumer, starting at the oldest record
    ///
    /// Prints a row in the format of kafka-consumer-perf-test.
    #[arg(long,
          conflicts_with_all = ["duration", "published_report", "marked_only", "group_members"])]
    from_start: bool,
    /// Number of records to read, with --from-start
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "100k",
          requires = "from_start")]
    records: u64,
    /// Maximum bytes per fetch request and partition, with --from-start
    #[arg(long, value_name = "BYTES", value_parser = parse_count, default_value = "1048576",
          requires = "from_start")]
    fetch_size: u64,
    /// Location of the due time: header, text, json:MEMBER, avro:FIELD or protobuf:FIELD
    ///
    /// header: the stamp of `weir load produce`; text: the first 23 characters of the value; the
    /// others: a member or field of the value with a timestamp text, a Unix time or a stamp.
    #[arg(long, value_name = "SOURCE", default_value_t = LatencySource::Header)]
    latency_from: LatencySource,
    #[command(flatten)]
    values: ValueArgs,
    /// Time only records whose timestamp starts with PREFIX- (produce --mark)
    ///
    /// The other records are background load and are only checked.
    #[arg(long)]
    marked_only: bool,
    #[command(flatten)]
    output: ReceiverOutputArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ConsumerArchitecture {
    /// All partitions by assignment, without commits
    Standalone,
    /// Members of consumer groups, with heartbeats and commits
    Groups,
}

impl ConsumeArgs {
    /// Returns the groups, and rejects group options without groups.
    fn groups(&self) -> anyhow::Result<Option<LeanGroups>> {
        let has_group_options = self.group_prefix.is_some() || self.group_members != 1;
        match self.architecture {
            ConsumerArchitecture::Groups => Ok(Some(LeanGroups {
                members: self.group_members,
                commit_interval: self.commit_interval,
                ..LeanGroups::new(&self.group_prefix.clone().unwrap_or_else(new_prefix))
            })),
            ConsumerArchitecture::Standalone if has_group_options => {
                bail!("--group-prefix and --group-members need --architecture groups")
            }
            ConsumerArchitecture::Standalone => Ok(None),
        }
    }

    fn options(&self, kafka: &KafkaSettings, groups: Option<LeanGroups>) -> ConsumerOptions {
        // Counts that do not fit in usize exceed limits that are checked later.
        let number = |count| usize::try_from(count).unwrap_or(usize::MAX);
        ConsumerOptions {
            topics: self.topics,
            backlog: self.backlog,
            client: self.client_library,
            share: self.share,
            ramp_per_s: number(self.ramp.div_ceil(self.share.of as u64)),
            max_wait: self.max_wait,
            latency_from: self.latency_from.clone(),
            values: self.values.clone(),
            marked_only: self.marked_only,
            // In a plan, records without a stamp are background load of other producers.
            record_timestamps: !self.output.output.worker,
            groups,
            published_report: self.output.interval(),
            ..ConsumerOptions::new(kafka, &self.topic, number(self.share.count(self.consumers)))
        }
    }
}

fn new_prefix() -> String {
    let unix_ns = Clock::start().now_unix_ns();
    format!("weir-{}-{}-", unix_ns / 1_000_000, std::process::id())
}

pub(crate) fn run(args: &ConsumeArgs) -> Result<Exit, Failure> {
    let groups = args.groups().or_exit(Exit::Usage)?;
    let kafka = args.kafka.settings()?;
    if args.from_start {
        return scan(args, kafka, groups);
    }
    let options = args.options(&kafka, groups);
    if args.output.output.worker {
        return run_worker(|link| consumer::run(&options, link));
    }
    let stop = signal::stop_flag().or_exit(Exit::Tool)?;
    let mut progress = args.output.display(args.duration);
    let status = |change: &ProgressDelta| change.status("positioned", "records");
    let result = load_local::run(
        &stop,
        |link| consumer::run(&options, link),
        |event| progress.show(event, "consumers are positioned", status),
    );
    progress.end();
    let summary = result?;
    args.output.output.summary.write(&summary)?;
    if !progress.quiet {
        print_summary(&summary);
    }
    if progress.is_saturated("thread of the consumers", "fewer consumers") {
        return Ok(Exit::Tool);
    }
    Ok(exit_for(&stop, args.duration.is_some()))
}

fn scan(
    args: &ConsumeArgs,
    kafka: KafkaSettings,
    groups: Option<LeanGroups>,
) -> Result<Exit, Failure> {
    let options = ScanOptions {
        kafka,
        topic: args.topic.clone(),
        messages: args.records,
        fetch_size_bytes: args.fetch_size,
        group: groups.map_or_else(new_prefix, |groups| groups.prefix),
        timeout: SCAN_IDLE_TIMEOUT,
    };
    let OutputArgs {
        json,
        worker,
        summary: file,
    } = &args.output.output;
    let json = *json;
    if *worker {
        return run_worker(|link| consumer::run_scan(&options, link));
    }
    let stop = signal::stop_flag().or_exit(Exit::Tool)?;
    let mut progress = ProgressDisplay::new(json, None);
    progress.quiet = true;
    let summary = load_local::run(
        &stop,
        |link| consumer::run_scan(&options, link),
        |event| progress.show(event, "", |_| String::new()),
    )?;
    file.write(&summary)?;
    if !json {
        println!("{CONSUMER_HEADER}");
        println!("{}", consumer_row(&summary));
    }
    for (text, count) in &summary.errors {
        eprintln!("weir: {count} x {text}");
    }
    if summary.messages < args.records && !stop.load(Ordering::Relaxed) {
        let (received, requested) = (summary.messages, args.records);
        eprintln!(
            "weir: received only {received} of {requested} records: the topic has no more, or the \
             broker is slow"
        );
        return Ok(Exit::Unreachable);
    }
    Ok(exit_for(&stop, true))
}

fn print_summary(summary: &DeliverySummary) {
    println!();
    row("consumers", summary.clients);
    let (all, measured) = (
        summary.counts.updates_total,
        summary.counts.deliveries_in_window,
    );
    row("records", format_args!("{all} ({measured} in the window)"));
    if let Some(source) = latency_source(summary) {
        row("latency", source);
    }
    let p99 = &summary.client_p99_us;
    if let (Some(p50), Some(p90), Some(max)) = (p99.percentile(50), p99.percentile(90), p99.max()) {
        let text = format_args!("median {p50} us, 90 % of consumers {p90} us, worst {max} us");
        row("consumer p99", text);
    }
    print_deliveries(summary, false);
    if summary.group_assignments > 0 {
        let (assignments, commits) = (summary.group_assignments, summary.group_commits);
        row(
            "groups",
            format_args!("{assignments} assignments, {commits} commits"),
        );
    }
    print_errors(&summary.errors);
}

/// Time without a record after which a scan (`--from-start`) ends.
const SCAN_IDLE_TIMEOUT: Duration = Duration::from_secs(10);
