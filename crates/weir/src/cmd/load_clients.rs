//! `weir load clients`.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use weir_load::clients::{self, ClientsError, ClientsOptions, KEY_PLACEHOLDER, Kind};
use weir_load::clock::Clock;
use weir_load::delivery::DeliverySummary;
use weir_load::units::{parse_count, parse_duration};
use weir_load::worker::Link;
use weir_load::worker::protocol::{Command, Event, Progress, Schedule};

use crate::cmd::load_local;
use crate::exit::{Exit, Failure};
use crate::signal;

/// What the clients do.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  weir load clients --server ws://127.0.0.1:8080 --clients 10k --duration 1m"
)]
pub(crate) struct ClientsArgs {
    /// Where to connect.
    #[arg(long, value_name = "URL", default_value = "ws://127.0.0.1:8080")]
    server: String,
    /// Number of clients, for example 500 or 10k.
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "100")]
    clients: u64,
    /// New clients per second.
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "1000")]
    ramp: u64,
    /// How long to receive once all are connected, for example 30s; without it until Ctrl-C.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Adapter set of the sessions.
    #[arg(long, value_name = "NAME", default_value = "KafkaConnector")]
    adapter_set: String,
    /// Data adapter of the subscriptions; empty for the server's default.
    #[arg(long, value_name = "NAME", default_value = "QuickStart")]
    data_adapter: String,
    /// Item of each client; {key} stands for its key.
    #[arg(long, value_name = "TEMPLATE", default_value_t = format!("ltest-[key={KEY_PLACEHOLDER}]"))]
    items: String,
    /// Number of keys the clients are spread over.
    #[arg(long, value_name = "COUNT", default_value_t = 40)]
    keys: usize,
    /// Fields to subscribe. With `weir` (mapped to the record header) deliveries are checked one by
    /// one; without, latency comes from the text in `value` and order from partition and offset.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "key,value,ts,partition,offset"
    )]
    fields: Vec<String>,
    /// Subscription mode.
    #[arg(long, value_enum, default_value_t = ModeArg::Raw)]
    mode: ModeArg,
    /// Decides which client has which key.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Longest time for one client to be connected and subscribed.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "30s")]
    setup_timeout: Duration,
    /// Speak the floor server's line instead of TLCP.
    #[arg(long)]
    floor: bool,
    /// Print events and the result as JSON lines.
    #[arg(long)]
    json: bool,
    /// Take commands from standard input and write events to standard output.
    #[arg(long, conflicts_with_all = ["duration", "json"])]
    worker: bool,
}

/// Modes a client can ask for.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ModeArg {
    Raw,
    Merge,
    Distinct,
}

impl ClientsArgs {
    fn options(&self) -> ClientsOptions {
        let kind = match self.floor {
            true => Kind::Floor,
            false => Kind::Tlcp {
                adapter_set: self.adapter_set.clone(),
                data_adapter: Some(self.data_adapter.clone()).filter(|name| !name.is_empty()),
                mode: match self.mode {
                    ModeArg::Raw => clients::Mode::Raw,
                    ModeArg::Merge => clients::Mode::Merge,
                    ModeArg::Distinct => clients::Mode::Distinct,
                },
            },
        };
        ClientsOptions {
            server: self.server.clone(),
            kind,
            // More than memory could hold are refused by the limit of descriptors.
            clients: usize::try_from(self.clients).unwrap_or(usize::MAX),
            ramp_per_s: self.ramp.max(1) as f64,
            items: self.items.clone(),
            keys: self.keys,
            seed: self.seed,
            fields: self.fields.clone(),
            setup_timeout: self.setup_timeout,
        }
    }
}

/// Runs the clients.
pub(crate) fn run(args: &ClientsArgs) -> Result<Exit, Failure> {
    if args.clients == 0 {
        return Err(Failure::new(
            Exit::Usage,
            anyhow::anyhow!("--clients 0: give at least 1"),
        ));
    }
    match args.worker {
        true => run_worker(&args.options()),
        false => run_here(args),
    }
}

fn run_worker(options: &ClientsOptions) -> Result<Exit, Failure> {
    let link = Link::stdio();
    match clients::run(options, &link) {
        Ok(_) => Ok(Exit::Fine),
        Err(error) => {
            link.events.send(&Event::Error {
                message: error.to_string(),
            });
            Err(failure(error))
        }
    }
}

fn run_here(args: &ClientsArgs) -> Result<Exit, Failure> {
    let stop = signal::stop_flag().map_err(|error| Failure::new(Exit::Instrument, error))?;
    let options = args.options();
    let mut watch = Watch::new(args);
    let result = load_local::run(
        &stop,
        |link| clients::run(&options, link),
        |event, commands| {
            watch.show(event);
            if let Event::Ready { .. } = event {
                // The worker may have failed meanwhile, which its result will tell.
                let _ = commands.send(Command::Start(watch.schedule()));
            }
        },
    );
    let summary = result.map_err(failure)?;
    watch.finish(&summary);
    if watch.is_saturated() {
        eprintln!(
            "weir: the clients' own event loop was busy for {:.0} % of the time: latencies show \
             this tool, not the server; use fewer clients or a faster machine",
            watch.busy_share() * 100.0
        );
        return Ok(Exit::Instrument);
    }
    let interrupted = stop.load(std::sync::atomic::Ordering::Relaxed) && args.duration.is_some();
    Ok(if interrupted {
        Exit::Interrupted
    } else {
        Exit::Fine
    })
}

fn failure(error: ClientsError) -> Failure {
    let exit = match error {
        ClientsError::Server { .. } => Exit::Usage,
        ClientsError::Unreachable { .. } => Exit::Unreachable,
        ClientsError::Descriptors { .. } | ClientsError::Io(_) => Exit::Instrument,
    };
    Failure::new(exit, error)
}

/// What a person sees.
struct Watch {
    json: bool,
    duration: Option<Duration>,
    clock: Clock,
    last: Progress,
    /// Sum and number of the busy shares since all were connected, in thousandths.
    busy_permille: (u64, u64),
    started: bool,
}

impl Watch {
    fn new(args: &ClientsArgs) -> Self {
        Self {
            json: args.json,
            duration: args.duration,
            clock: Clock::start(),
            last: Progress::default(),
            busy_permille: (0, 0),
            started: false,
        }
    }

    /// Everything from now on counts, for as long as asked.
    fn schedule(&mut self) -> Schedule {
        self.started = true;
        let now_unix_ns = self.clock.now_unix_ns();
        let until = self
            .duration
            .and_then(|duration| u64::try_from(duration.as_nanos()).ok());
        let until = until.map_or(u64::MAX, |ns| now_unix_ns.saturating_add(ns));
        Schedule {
            start_unix_ns: now_unix_ns,
            measure_from_unix_ns: now_unix_ns,
            measure_until_unix_ns: until,
            stop_unix_ns: until,
        }
    }

    fn show(&mut self, event: &Event) {
        if self.json {
            // Invariant: an event that came as JSON is valid JSON.
            println!("{}", serde_json::to_string(event).unwrap_or_default());
        }
        match event {
            Event::Progress(progress) => self.progress(progress),
            Event::Ready { connections, .. } if !self.json => {
                println!("{connections} clients are subscribed");
            }
            _ => {}
        }
    }

    fn progress(&mut self, progress: &Progress) {
        let counter = |name: &str| progress.counters.get(name).copied().unwrap_or(0);
        let before = |name: &str| self.last.counters.get(name).copied().unwrap_or(0);
        let elapsed_s = progress.unix_ns.saturating_sub(self.last.unix_ns) as f64 / 1e9;
        let per_s = |name: &str| counter(name).saturating_sub(before(name)) as f64 / elapsed_s;
        if self.started {
            self.busy_permille.0 += counter("busy_permille");
            self.busy_permille.1 += 1;
        }
        if !self.json && self.last.unix_ns > 0 {
            println!(
                "connected {}/{}  {:.0} updates/s  p50 {} us  p99 {} us  {:.1} Mbit/s  busy {} %  \
                 errors {}",
                counter("connected"),
                counter("clients"),
                per_s("updates"),
                progress.p50_us,
                progress.p99_us,
                per_s("bytes_received") * 8.0 / 1e6,
                counter("busy_permille") / 10,
                counter("errors"),
            );
        }
        self.last = progress.clone();
    }

    fn busy_share(&self) -> f64 {
        self.busy_permille.0 as f64 / self.busy_permille.1.max(1) as f64 / 1000.0
    }

    fn is_saturated(&self) -> bool {
        self.busy_share() > BUSY_SHARE_MAX
    }

    fn finish(&self, summary: &DeliverySummary) {
        if self.json {
            let end = json!({ "event": "end", "busy_share": self.busy_share() });
            println!("{end}");
            return;
        }
        println!();
        println!("clients        {}", summary.clients);
        println!(
            "updates        {} ({} in the window)",
            summary.updates_total, summary.deliveries_in_window
        );
        println!(
            "lost           {}{}",
            summary.lost,
            if summary.settled { "" } else { " (gaps only)" }
        );
        println!("duplicated     {}", summary.duplicated);
        println!("reordered      {}", summary.reordered);
        println!("unchecked      {}", summary.unchecked);
        println!("disconnects    {}", summary.disconnects);
        for (text, count) in &summary.errors {
            println!("error          {count} x {text}");
        }
    }
}

/// Above this the tool measures itself.
const BUSY_SHARE_MAX: f64 = 0.9;
