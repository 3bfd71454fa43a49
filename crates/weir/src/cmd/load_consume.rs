//! `weir load consume`: plain Kafka consumers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, ValueEnum};
use weir_bench::sweep::consumer_row;
use weir_load::clock::Clock;
use weir_load::consumer::{
    self, ConsumerClient, ConsumerOptions, LatencySource, LeanGroups, ScanOptions,
};
use weir_load::delivery::DeliverySummary;
use weir_load::units::{parse_count, parse_duration};
use weir_load::worker::protocol::{WorkerCommand, WorkerEvent, WorkerProgress};
use weir_stats::perf::CONSUMER_HEADER;

use crate::cmd::load_common::{
    ProgressTracker, StatusLine, exit_for, failure, latency_source, print_json, run_worker,
    schedule_from_now,
};
use crate::cmd::load_local;
use crate::exit::{Exit, Failure};
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
Its group prefix also selects the class. `standalone` and `socomplex...` correspond to
--architecture standalone, all others to --architecture groups. `complex...` and `socomplex...` also
need --latency-from json:timestamp.";

/// Arguments of `weir load consume`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ConsumeArgs {
    /// Kafka bootstrap servers
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:9092")]
    bootstrap: String,
    /// Topic to read, starting at its end
    ///
    /// Every consumer reads all partitions, unless --group-members divides them.
    #[arg(long, value_name = "NAME")]
    topic: String,
    /// Number of consumers, for example 500 or 4k, each with its own connections
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "100")]
    consumers: u64,
    /// Client library of the consumers
    ///
    /// librdkafka runs at most 200 consumers and serves to validate lean.
    #[arg(long, value_name = "NAME", value_enum, default_value_t = ConsumerClientArg::Lean)]
    client_library: ConsumerClientArg,
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
    /// New connections per second
    #[arg(long, value_name = "CONNECTIONS_PER_S", value_parser = parse_count,
          default_value = "1000")]
    ramp: u64,
    /// Longest time that a broker waits for records before it responds to a fetch
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "500ms")]
    max_wait: Duration,
    /// Time to read after all consumers are positioned [default: until Ctrl-C]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Read --records from the oldest record on with one consumer
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
    /// Location of the due time in a record: header, text or json:MEMBER
    ///
    /// header: the stamp of `weir load produce`; text: the first 23 characters of the value;
    /// json:MEMBER: a member of a JSON value.
    #[arg(long, value_name = "SOURCE", default_value_t = LatencySource::Header)]
    latency_from: LatencySource,
    /// Time only records whose timestamp starts with PREFIX- (produce --mark)
    ///
    /// The other records are background load and are only checked.
    #[arg(long)]
    marked_only: bool,
    /// Print only the report of the published programs
    #[arg(long, conflicts_with = "json")]
    published_report: bool,
    /// Interval of the published report, which is also printed at the end
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "60s",
          requires = "published_report")]
    report_interval: Duration,
    /// Print events and the result as JSON lines
    #[arg(long)]
    json: bool,
    /// Read commands from standard input and write events to standard output
    #[arg(long, conflicts_with_all = ["duration", "json"])]
    worker: bool,
}

/// Relations of the consumers to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ConsumerArchitecture {
    /// All partitions by assignment, without commits
    Standalone,
    /// Members of consumer groups, with heartbeats and commits
    Groups,
}

/// Client libraries of the consumers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ConsumerClientArg {
    /// Weir's lightweight consumer, thousands in one thread
    Lean,
    /// librdkafka, with a client and a thread per consumer
    Librdkafka,
}

impl ConsumeArgs {
    fn groups(&self) -> Option<LeanGroups> {
        let prefix = self.group_prefix.clone();
        (self.architecture == ConsumerArchitecture::Groups).then(|| LeanGroups {
            members: self.group_members,
            commit_interval: self.commit_interval,
            ..LeanGroups::new(&prefix.unwrap_or_else(new_prefix))
        })
    }

    /// Rejects group options without groups.
    fn check(&self) -> Result<(), Failure> {
        let has_group_options = self.group_prefix.is_some() || self.group_members != 1;
        if has_group_options && self.architecture != ConsumerArchitecture::Groups {
            let reason = "--group-prefix and --group-members need --architecture groups";
            return Err(Failure::new(Exit::Usage, anyhow::anyhow!(reason)));
        }
        Ok(())
    }

    fn options(&self) -> ConsumerOptions {
        // A number that does not fit exceeds the limits checked later.
        let number = |count| usize::try_from(count).unwrap_or(usize::MAX);
        ConsumerOptions {
            client: match self.client_library {
                ConsumerClientArg::Lean => ConsumerClient::Lean,
                ConsumerClientArg::Librdkafka => ConsumerClient::Librdkafka,
            },
            ramp_per_s: number(self.ramp),
            max_wait: self.max_wait,
            latency_from: self.latency_from.clone(),
            marked_only: self.marked_only,
            // In a plan, records without a stamp are background load of other producers.
            record_timestamps: !self.worker,
            groups: self.groups(),
            published_report: self.published_report.then_some(self.report_interval),
            ..ConsumerOptions::new(&self.bootstrap, &self.topic, number(self.consumers))
        }
    }
}

/// Returns a unique prefix for group ids.
fn new_prefix() -> String {
    let unix_ns = Clock::start().now_unix_ns();
    format!("weir-{}-{}-", unix_ns / 1_000_000, std::process::id())
}

/// Runs the consumers.
pub(crate) fn run(args: &ConsumeArgs) -> Result<Exit, Failure> {
    args.check()?;
    if args.from_start {
        return scan(args);
    }
    let options = args.options();
    if args.worker {
        return run_worker(|link| consumer::run(&options, link));
    }
    let stop = signal::stop_flag().map_err(|error| Failure::new(Exit::Instrument, error))?;
    let clock = Clock::start();
    let mut progress = ConsumeProgress::new(args);
    let result = load_local::run(
        &stop,
        |link| consumer::run(&options, link),
        |event, commands| {
            progress.show(event);
            if let WorkerEvent::Ready { .. } = event {
                progress.started = true;
                // If the worker has failed in the meantime, its result contains the error.
                let _ = commands.send(WorkerCommand::Start(schedule_from_now(
                    &clock,
                    args.duration,
                )));
            }
        },
    );
    progress.line.end();
    let summary = result.map_err(failure)?;
    if !progress.is_quiet() {
        print_summary(&summary);
    }
    Ok(progress.verdict(&stop, args.duration.is_some()))
}

/// Reads a topic from its start.
fn scan(args: &ConsumeArgs) -> Result<Exit, Failure> {
    let prefix = args.groups().map(|groups| groups.prefix);
    let options = ScanOptions {
        bootstrap_servers: args.bootstrap.clone(),
        topic: args.topic.clone(),
        messages: args.records,
        fetch_size_bytes: args.fetch_size,
        group: prefix.unwrap_or_else(new_prefix),
        timeout: SCAN_IDLE_TIMEOUT,
    };
    if args.worker {
        return run_worker(|link| consumer::run_scan(&options, link));
    }
    let stop = signal::stop_flag().map_err(|error| Failure::new(Exit::Instrument, error))?;
    let clock = Clock::start();
    let result = load_local::run(
        &stop,
        |link| consumer::run_scan(&options, link),
        |event, commands| {
            if args.json {
                print_json(event);
            }
            if let WorkerEvent::Ready { .. } = event {
                // If the worker has failed in the meantime, its result contains the error.
                let _ = commands.send(WorkerCommand::Start(schedule_from_now(&clock, None)));
            }
        },
    );
    let summary = result.map_err(failure)?;
    if !args.json {
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

/// Progress output of `weir load consume`.
struct ConsumeProgress {
    json: bool,
    published_report: bool,
    line: StatusLine,
    tracker: ProgressTracker,
    started: bool,
    /// Sum (in thousandths) and number of the busy shares since all consumers were positioned.
    busy_permille: (u64, u64),
}

impl ConsumeProgress {
    fn new(args: &ConsumeArgs) -> Self {
        Self {
            json: args.json,
            published_report: args.published_report,
            line: StatusLine::new(),
            tracker: ProgressTracker::default(),
            started: false,
            busy_permille: (0, 0),
        }
    }

    fn show(&mut self, event: &WorkerEvent) {
        if self.json {
            print_json(event);
        }
        match event {
            WorkerEvent::Progress(progress) => self.progress(progress),
            WorkerEvent::Report { text } => println!("{text}"),
            WorkerEvent::Ready { connections, .. } if !self.is_quiet() => {
                self.line.end();
                println!("{connections} consumers are positioned");
            }
            _ => {}
        }
    }

    fn progress(&mut self, progress: &WorkerProgress) {
        let change = self.tracker.next(progress);
        let busy = change.total("busy_permille");
        if self.started {
            self.busy_permille.0 += busy;
            self.busy_permille.1 += 1;
        }
        if self.is_quiet() {
            return;
        }
        self.line.show(&change.status("positioned", "records"));
    }

    /// Returns `true` if no status and no summary is printed.
    fn is_quiet(&self) -> bool {
        self.json || self.published_report
    }

    fn verdict(&self, stop: &AtomicBool, has_end: bool) -> Exit {
        let busy_permille = self.busy_permille.0 / self.busy_permille.1.max(1);
        if busy_permille > BUSY_PERMILLE_MAX {
            eprintln!(
                "weir: the thread of the consumers was busy for {} % of the time, so latencies \
                 include delays of this tool; use fewer consumers or a faster machine",
                busy_permille / 10
            );
            return Exit::Instrument;
        }
        exit_for(stop, has_end)
    }
}

fn print_summary(summary: &DeliverySummary) {
    println!();
    println!("consumers      {}", summary.clients);
    println!(
        "records        {} ({} in the window)",
        summary.updates_total, summary.deliveries_in_window
    );
    if let Some(source) = latency_source(summary) {
        println!("latency        {source}");
    }
    let p99 = &summary.client_p99_us;
    if let (Some(p50), Some(p90), Some(max)) = (p99.percentile(50), p99.percentile(90), p99.max()) {
        println!("consumer p99   median {p50} us, 90 % of consumers {p90} us, worst {max} us");
    }
    println!("lost           {} (gaps only)", summary.lost);
    println!("duplicated     {}", summary.duplicated);
    println!("reordered      {}", summary.reordered);
    println!("unchecked      {}", summary.unchecked);
    println!("disconnects    {}", summary.disconnects);
    if summary.group_assignments > 0 {
        println!(
            "groups         {} assignments, {} commits",
            summary.group_assignments, summary.group_commits
        );
    }
    for (text, count) in &summary.errors {
        println!("error          {count} x {text}");
    }
}

/// The scan ends after this time without a record.
const SCAN_IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Above this busy share, latencies include delays of this tool.
const BUSY_PERMILLE_MAX: u64 = 900;
