//! `weir load consume`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, ValueEnum};
use weir_bench::consumer_row;
use weir_load::clock::Clock;
use weir_load::consumer::{
    self, ConsumerClient, ConsumerOptions, LatencySource, LeanGroups, ScanOptions,
};
use weir_load::delivery::DeliverySummary;
use weir_load::units::{parse_count, parse_duration};
use weir_load::worker::protocol::{WorkerCommand, WorkerEvent, WorkerProgress};
use weir_stats::perf::CONSUMER_HEADER;

use crate::cmd::load_common::{
    Progressing, StatusLine, exit_for, failure, latency_source, print_json, run_worker,
    schedule_from_now,
};
use crate::cmd::load_local;
use crate::exit::{Exit, Failure};
use crate::signal;

/// How many consumers read what.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weir load consume --topic LTest --clients 1k --duration 1m\n  \
                  weir load consume --topic LTest --clients 200 --architecture groups\n\n\
                  The published consumer's arguments (bootstrap, topic, number of consumers, group \
                  prefix, latency reporter) are --bootstrap, --topic, --clients, --group-prefix and \
                  --seed-report. Its group prefix chose the class: `standalone` and `socomplex...` \
                  are --architecture standalone, everything else --architecture groups; \
                  `complex...` and `socomplex...` also need --latency-from json:timestamp."
)]
pub(crate) struct ConsumeArgs {
    /// Brokers to begin with.
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:9092")]
    bootstrap: String,
    /// Topic that every consumer reads, all partitions, from its end on.
    #[arg(long, value_name = "NAME")]
    topic: String,
    /// Number of consumers, for example 500 or 4k; each has connections of its own.
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "100")]
    clients: u64,
    /// lean (ours, thousands in one thread) or librdkafka (a thread each, at most 200: checks the other).
    #[arg(long, value_name = "NAME", value_enum, default_value_t = ConsumerClientArg::Lean)]
    client: ConsumerClientArg,
    /// standalone (all partitions, nothing committed) or groups (join, heartbeat, commit).
    #[arg(long, value_name = "NAME", value_enum, default_value_t = ConsumerArchitecture::Standalone)]
    architecture: ConsumerArchitecture,
    /// Group ids are this and a number from 0; an old prefix goes on where it left [default: a new
    /// one per run, which begins at the end].
    #[arg(long, value_name = "TEXT")]
    group_prefix: Option<String>,
    /// Consumers per group; with one of them, each gets every record.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    group_members: usize,
    /// Time between two commits of a group.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "1s")]
    commit_every: Duration,
    /// New connections per second.
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "1000")]
    ramp: u64,
    /// How long a broker may hold a fetch without records.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "500ms")]
    max_wait: Duration,
    /// How long to read once all are positioned, for example 30s; without it until Ctrl-C.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Read from the oldest record on with one consumer, --records of them, and print the row of
    /// kafka-consumer-perf-test.
    #[arg(long, conflicts_with_all = ["duration", "seed_report", "marked_only", "group_members"])]
    from_start: bool,
    /// With --from-start, records to read.
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "100k", requires = "from_start")]
    records: u64,
    /// With --from-start, bytes to fetch at most per request and partition.
    #[arg(long, value_name = "BYTES", value_parser = parse_count, default_value = "1048576", requires = "from_start")]
    fetch_size: u64,
    /// Where a record's due instant is: header (this producer's), text (the first 23 characters of the
    /// value) or json:MEMBER.
    #[arg(long, value_name = "SOURCE", default_value_t = LatencySource::Header)]
    latency_from: LatencySource,
    /// Time only records whose timestamp begins with PREFIX- (produce --mark); the others are
    /// background and only checked.
    #[arg(long)]
    marked_only: bool,
    /// Print the published programs' report, and nothing else of ours.
    #[arg(long, conflicts_with = "json")]
    seed_report: bool,
    /// How often that report comes; once more at the end.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "60s",
          requires = "seed_report")]
    report_every: Duration,
    /// Print events and the result as JSON lines.
    #[arg(long)]
    json: bool,
    /// Take commands from standard input and write events to standard output.
    #[arg(long, conflicts_with_all = ["duration", "json"])]
    worker: bool,
}

/// How the consumers stand to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ConsumerArchitecture {
    /// All partitions by assignment, nothing committed.
    Standalone,
    /// Members of consumer groups.
    Groups,
}

/// What the consumers are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ConsumerClientArg {
    /// Ours, thousands in one thread.
    Lean,
    /// A librdkafka client and a thread each.
    Librdkafka,
}

impl ConsumeArgs {
    fn groups(&self) -> Option<LeanGroups> {
        let chosen = self.group_prefix.clone();
        (self.architecture == ConsumerArchitecture::Groups).then(|| LeanGroups {
            members: self.group_members,
            commit_every: self.commit_every,
            ..LeanGroups::new(&chosen.unwrap_or_else(new_prefix))
        })
    }

    /// Options that mean nothing without groups.
    fn check(&self) -> Result<(), Failure> {
        let grouped = self.group_prefix.is_some() || self.group_members != 1;
        if grouped && self.architecture != ConsumerArchitecture::Groups {
            let reason = "--group-prefix and --group-members need --architecture groups";
            return Err(Failure::new(Exit::Usage, anyhow::anyhow!(reason)));
        }
        Ok(())
    }

    fn options(&self) -> ConsumerOptions {
        // What does not fit is beyond every limit that is checked.
        let number = |count| usize::try_from(count).unwrap_or(usize::MAX);
        ConsumerOptions {
            client: match self.client {
                ConsumerClientArg::Lean => ConsumerClient::Lean,
                ConsumerClientArg::Librdkafka => ConsumerClient::Librdkafka,
            },
            ramp_per_s: number(self.ramp),
            max_wait: self.max_wait,
            latency_from: self.latency_from.clone(),
            marked_only: self.marked_only,
            // In a plan they are background: others write them.
            record_timestamps: !self.worker,
            groups: self.groups(),
            seed_report: self.seed_report.then_some(self.report_every),
            ..ConsumerOptions::new(&self.bootstrap, &self.topic, number(self.clients))
        }
    }
}

/// Of groups that nobody had before.
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
    let mut watch = ConsumeProgress::new(args);
    let result = load_local::run(
        &stop,
        |link| consumer::run(&options, link),
        |event, commands| {
            watch.show(event);
            if let WorkerEvent::Ready { .. } = event {
                watch.started = true;
                // The worker may have failed meanwhile, which its result will tell.
                let _ = commands.send(WorkerCommand::Start(schedule_from_now(
                    &clock,
                    args.duration,
                )));
            }
        },
    );
    watch.line.end();
    let summary = result.map_err(failure)?;
    if !watch.is_quiet() {
        print_summary(&summary);
    }
    Ok(watch.verdict(&stop, args.duration.is_some()))
}

/// Reads a topic from its begin.
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
                // The worker may have failed meanwhile, which its result will tell.
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
        let (came, wanted) = (summary.messages, args.records);
        eprintln!(
            "weir: {came} of {wanted} records came: the topic has no more, or its broker is slow"
        );
        return Ok(Exit::Unreachable);
    }
    Ok(exit_for(&stop, true))
}

/// What a person sees.
struct ConsumeProgress {
    json: bool,
    seed_report: bool,
    line: StatusLine,
    progressing: Progressing,
    started: bool,
    /// Sum and number of the busy shares since all were positioned, in thousandths.
    busy_permille: (u64, u64),
}

impl ConsumeProgress {
    fn new(args: &ConsumeArgs) -> Self {
        Self {
            json: args.json,
            seed_report: args.seed_report,
            line: StatusLine::new(),
            progressing: Progressing::default(),
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
        let change = self.progressing.next(progress);
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

    /// Nothing for people, or only the published report.
    fn is_quiet(&self) -> bool {
        self.json || self.seed_report
    }

    fn verdict(&self, stop: &AtomicBool, has_end: bool) -> Exit {
        let busy_permille = self.busy_permille.0 / self.busy_permille.1.max(1);
        if busy_permille > BUSY_PERMILLE_MAX {
            eprintln!(
                "weir: the consumers' own thread was busy for {} % of the time: latencies show \
                 this tool, not the broker; use fewer consumers or a faster machine",
                busy_permille / 10
            );
            return Exit::Instrument;
        }
        exit_for(stop, has_end)
    }
}

fn print_summary(summary: &DeliverySummary) {
    println!();
    println!("clients        {}", summary.clients);
    println!(
        "records        {} ({} in the window)",
        summary.updates_total, summary.deliveries_in_window
    );
    if let Some(source) = latency_source(summary) {
        println!("latency        {source}");
    }
    let p99 = &summary.client_p99_us;
    if let (Some(p50), Some(p90), Some(max)) = (p99.percentile(50), p99.percentile(90), p99.max()) {
        println!("client p99     median {p50} us, 90 % of clients {p90} us, worst {max} us");
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

/// Without a record for so long, there is no more to come.
const SCAN_IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Above this the tool measures itself.
const BUSY_PERMILLE_MAX: u64 = 900;
