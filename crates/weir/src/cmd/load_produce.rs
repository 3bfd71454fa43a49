//! `weir load produce`.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use weir_load::clock::Clock;
use weir_load::pacer::Rate;
use weir_load::payload::Kind;
use weir_load::producer::{self, Acks, ProducerOptions};
use weir_load::units::{parse_count, parse_duration};
use weir_load::worker::protocol::{Command, Event, ProduceSummary, Progress};

use crate::cmd::load_common::{
    Progressing, StatusLine, failure, fine_or_interrupted, key_value, print_json, run_worker,
    schedule_from_now, time,
};
use crate::cmd::load_local;
use crate::exit::{Exit, Failure};
use crate::signal;

/// What is written, where and how fast.
#[derive(Debug, Args)]
#[command(
    after_help = "Example, the load of the published scenario 2 for one minute:\n  \
                  weir load produce --topic LTest --producers 10 --pause 100ms --create-topic \
                  --duration 1m"
)]
pub(crate) struct ProduceArgs {
    /// Brokers to begin with.
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:9092")]
    bootstrap: String,
    /// Topic to write to.
    #[arg(long, value_name = "NAME")]
    topic: String,
    /// Records per second, all producers together, for example 100, 0.5 or 10k [default: 100].
    #[arg(long, value_name = "RATE", value_parser = parse_rate, conflicts_with = "pause")]
    rate: Option<Rate>,
    /// Producers named in the values (pid-0, pid-1 ...); records go to them in turn.
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    producers: u32,
    /// Pause of each producer between two records; the rate is producers * 1000 ms / pause.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pause: Option<Duration>,
    /// Random characters in each value.
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "1024")]
    size: u64,
    /// base (text without key) or keyed (text under one of the keys).
    #[arg(long, value_name = "KIND", default_value_t = Kind::Keyed)]
    kind: Kind,
    /// Keys drawn from, each as likely as the others; the first 40 are the published fruit names.
    #[arg(long, value_name = "COUNT", default_value_t = 40)]
    keys: u32,
    /// The same seed writes the same keys and texts.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// How long to write, for example 30s; without it until Ctrl-C or --count.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Records to write, for example 10k.
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    count: Option<u64>,
    /// How long a batch may wait for more records.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "1ms")]
    linger: Duration,
    /// Acknowledgement to wait for: 0, 1 or all.
    #[arg(long, value_name = "ACKS", default_value_t = Acks::All)]
    acks: Acks,
    /// none, gzip, snappy, lz4 or zstd.
    #[arg(long, value_name = "NAME", default_value = "none")]
    compression: String,
    /// A librdkafka property; may be repeated.
    #[arg(long = "property", value_name = "KEY=VALUE", value_parser = key_value)]
    properties: Vec<(String, String)>,
    /// Create the topic if it does not exist, with one partition or as many as given.
    #[arg(long, value_name = "PARTITIONS", num_args = 0..=1, default_missing_value = "1")]
    create_topic: Option<u32>,
    /// Largest 99th percentile of schedule lag; beyond it the run is no measurement (exit code 4).
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "20ms")]
    max_lag: Duration,
    /// Add the header `weir` (the whole stamp as text), for clients behind a gateway.
    #[arg(long)]
    text_stamp: bool,
    /// Longest wait for acknowledgements after the last record.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10s")]
    drain: Duration,
    /// Print events and the result as JSON lines.
    #[arg(long)]
    json: bool,
    /// Take commands from standard input and write events to standard output.
    #[arg(long, conflicts_with_all = ["duration", "json"])]
    worker: bool,
}

/// A count, or a decimal number per second.
fn parse_rate(text: &str) -> Result<Rate, String> {
    let rate = match text.parse::<f64>() {
        Ok(rate) => rate,
        Err(_) => parse_count(text)? as f64,
    };
    Rate::per_second(rate).map_err(|error| error.to_string())
}

impl ProduceArgs {
    fn options(&self) -> Result<ProducerOptions, Failure> {
        let rate = match (self.rate, self.pause) {
            (Some(rate), _) => rate,
            (None, Some(pause)) => Rate::of_producers(self.producers, pause)
                .map_err(|error| Failure::new(Exit::Usage, error))?,
            (None, None) => Rate::HUNDRED,
        };
        Ok(ProducerOptions {
            bootstrap_servers: self.bootstrap.clone(),
            topic: self.topic.clone(),
            rate,
            producers: self.producers,
            kind: self.kind,
            // What does not fit is beyond the limit that is checked.
            size: usize::try_from(self.size).unwrap_or(usize::MAX),
            keys: self.keys,
            seed: self.seed,
            count: self.count,
            linger_ms: self.linger.as_secs_f64() * 1000.0,
            acks: self.acks,
            compression: self.compression.clone(),
            properties: self.properties.clone(),
            text_stamp: self.text_stamp,
            create_partitions: self.create_topic,
            drain: self.drain,
        })
    }
}

/// Runs the producer.
pub(crate) fn run(args: &ProduceArgs) -> Result<Exit, Failure> {
    let options = args.options()?;
    if args.worker {
        return run_worker(|link| producer::run(&options, link));
    }
    let stop = signal::stop_flag().map_err(|error| Failure::new(Exit::Instrument, error))?;
    let clock = Clock::start();
    let mut watch = Watch::new(args.json, options.rate);
    let result = load_local::run(
        &stop,
        |link| producer::run(&options, link),
        |event, commands| {
            watch.show(event);
            if let Event::Ready { .. } = event {
                let schedule = schedule_from_now(&clock, args.duration);
                watch.progressing.begin(schedule.start_unix_ns);
                // The worker may have failed meanwhile, which its result will tell.
                let _ = commands.send(Command::Start(schedule));
            }
        },
    );
    watch.line.end();
    let summary = result.map_err(failure)?;
    if !args.json {
        print_summary(&summary);
    }
    Ok(verdict(args, &summary, &stop))
}

/// The exit code, with the reason on standard error.
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
            times => format!("the send queue was full {times} times: the broker takes no more"),
        };
        eprintln!(
            "weir: 99th percentile of schedule lag {} is beyond --max-lag {}: {cause}",
            time(summary.schedule_lag.p99_ns),
            time(u64::try_from(args.max_lag.as_nanos()).unwrap_or(u64::MAX)),
        );
        return Exit::Instrument;
    }
    fine_or_interrupted(stop, args.duration.is_some() || args.count.is_some())
}

/// What a person sees.
struct Watch {
    json: bool,
    rate: Rate,
    line: StatusLine,
    progressing: Progressing,
}

impl Watch {
    fn new(json: bool, rate: Rate) -> Self {
        Self {
            json,
            rate,
            line: StatusLine::new(),
            progressing: Progressing::default(),
        }
    }

    fn show(&mut self, event: &Event) {
        if self.json {
            print_json(event);
        } else if let Event::Progress(progress) = event {
            self.progress(progress);
        }
    }

    fn progress(&mut self, progress: &Progress) {
        let change = self.progressing.next(progress);
        self.line.show(&format_args!(
            "{:.0} of {} records/s  lag p50 {} us p99 {} us  in flight {}  acknowledged {}  \
             failed {}",
            change.per_s("sent"),
            self.rate,
            progress.p50_us,
            progress.p99_us,
            change.total("in_flight"),
            change.total("acked"),
            change.total("failed"),
        ));
    }
}

fn print_summary(summary: &ProduceSummary) {
    let elapsed_s = summary.elapsed_ns as f64 / 1e9;
    let achieved = summary.sent as f64 / elapsed_s.max(1e-9);
    println!();
    println!("due            {}", summary.due);
    println!(
        "sent           {} in {elapsed_s:.2} s, {achieved:.1} records/s, target {}",
        summary.sent,
        summary.target_rate_millis as f64 / 1000.0
    );
    println!("acknowledged   {}", summary.acked);
    println!("failed         {}", summary.failed);
    println!("unanswered     {}", summary.unacknowledged);
    println!("queue full     {}", summary.queue_full);
    for (name, quantiles) in [
        ("schedule lag", summary.schedule_lag),
        ("publish ack", summary.publish_ack),
    ] {
        println!(
            "{name:<14} p50 {}, p99 {}, max {}",
            time(quantiles.p50_ns),
            time(quantiles.p99_ns),
            time(quantiles.max_ns)
        );
    }
    for (text, count) in &summary.errors {
        println!("error          {count} x {text}");
    }
}
