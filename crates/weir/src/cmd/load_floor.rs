//! `weir load floor`: the baseline server.

use std::net::SocketAddr;

use clap::Args;
use weir_load::clients::DiffChoice;
use weir_load::floor::{self, FloorOptions};
use weir_load::worker::protocol::{FloorSummary, WorkerEvent, WorkerProgress};

use crate::cmd::load_common::{ProgressTracker, StatusLine, failure, print_json, run_worker};
use crate::cmd::load_local;
use crate::exit::{Exit, Failure};
use crate::signal;

/// Arguments of `weir load floor`.
#[derive(Debug, Args)]
#[command(after_help = "Example, one client that receives all records:\n  \
                  weir load floor --topic LTest --listen 127.0.0.1:8081\n  \
                  printf '*\\n' | nc 127.0.0.1 8081")]
pub(crate) struct FloorArgs {
    /// Address to listen on; port 0 selects a free port, which is printed
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Kafka bootstrap servers
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:9092")]
    bootstrap: String,
    /// Topic to read, starting at its end
    #[arg(long, value_name = "NAME")]
    topic: String,
    /// Fields of a frame, in order
    ///
    /// key, value, ts, partition, offset, weir (the stamp), or members of a JSON value.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "key,value,ts,partition,offset,weir"
    )]
    fields: Vec<String>,
    /// Diff formats for changed values: none, json-patch, tlcp-diff
    #[arg(long, value_name = "FORMATS", value_parser = DiffChoice::parse, default_value = "none")]
    diffs: DiffChoice,
    /// Print events and the result as JSON lines
    #[arg(long)]
    json: bool,
    /// Read commands from standard input and write events to standard output
    #[arg(long, conflicts_with = "json")]
    worker: bool,
}

/// Runs the floor server until Ctrl-C or SIGTERM.
pub(crate) fn run(args: &FloorArgs) -> Result<Exit, Failure> {
    let options = FloorOptions {
        listen: args.listen,
        bootstrap_servers: args.bootstrap.clone(),
        topic: args.topic.clone(),
        fields: args.fields.clone(),
        diffs: args.diffs,
    };
    if args.worker {
        return run_worker(|link| floor::run(&options, link));
    }
    let stop = signal::stop_flag().map_err(|error| Failure::new(Exit::Instrument, error))?;
    let mut line = StatusLine::new();
    let mut tracker = ProgressTracker::default();
    let result = load_local::run(
        &stop,
        |link| floor::run(&options, link),
        |event, _commands| match event {
            _ if args.json => print_json(event),
            WorkerEvent::Ready { port, .. } => {
                let address = SocketAddr::new(args.listen.ip(), port.unwrap_or(0));
                println!("floor of topic \"{}\" on {address}", args.topic);
            }
            WorkerEvent::Progress(progress) => show(progress, &mut tracker, &mut line),
            _ => {}
        },
    );
    line.end();
    let summary = result.map_err(failure)?;
    if !args.json {
        print_summary(&summary);
    }
    Ok(Exit::Success)
}

fn show(progress: &WorkerProgress, tracker: &mut ProgressTracker, line: &mut StatusLine) {
    let change = tracker.next(progress);
    line.show(&format_args!(
        "sockets {}  {:.0} records/s  {:.0} frames/s  {:.1} Mbit/s  closed (buffer full) {}",
        change.total("sockets"),
        change.per_s("records_read"),
        change.per_s("frames_sent"),
        change.per_s("bytes_sent") * 8.0 / 1e6,
        change.total("closed_would_block"),
    ));
}

fn print_summary(summary: &FloorSummary) {
    println!();
    println!("records        {}", summary.records_read);
    println!(
        "frames         {} ({} bytes)",
        summary.frames_sent, summary.bytes_sent
    );
    println!(
        "sockets        {} accepted, at most {} at the same time",
        summary.accepted, summary.sockets_max
    );
    println!(
        "closed         {} with a full buffer, {} for other reasons",
        summary.closed_would_block, summary.closed_other
    );
}
