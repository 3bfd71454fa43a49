//! `weir load floor`: the baseline server.

use std::net::SocketAddr;

use clap::Args;
use weir_load::clients::DiffChoice;
use weir_load::floor::{self, FloorOptions};
use weir_load::worker::protocol::{FloorSummary, WorkerEvent};

use crate::cmd::load_common::{OutputArgs, ProgressDelta, ProgressDisplay, row, run_worker};
use crate::cmd::load_local;
use crate::exit::{Exit, Failure, OrExit as _};
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
    #[command(flatten)]
    output: OutputArgs,
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
    if args.output.worker {
        return run_worker(|link| floor::run(&options, link));
    }
    let stop = signal::stop_flag().or_exit(Exit::Instrument)?;
    let mut progress = ProgressDisplay::new(args.output.json, None);
    let result = load_local::run(
        &stop,
        |link| floor::run(&options, link),
        |event| {
            progress.show(event, "", status);
            if let WorkerEvent::Ready { port, .. } = event {
                let address = SocketAddr::new(args.listen.ip(), port.unwrap_or(0));
                let topic = &args.topic;
                progress.print(&format_args!("floor of topic \"{topic}\" on {address}"));
            }
            None
        },
    );
    progress.end();
    let summary = result?;
    if !progress.quiet {
        print_summary(&summary);
    }
    Ok(Exit::Success)
}

fn status(change: &ProgressDelta) -> String {
    format!(
        "sockets {}  {:.0} records/s  {:.0} frames/s  {:.1} Mbit/s  closed (buffer full) {}",
        change.total("sockets"),
        change.per_s("records_read"),
        change.per_s("frames_sent"),
        change.per_s("bytes_sent") * 8.0 / 1e6,
        change.total("closed_would_block"),
    )
}

fn print_summary(summary: &FloorSummary) {
    println!();
    row("records", summary.records_read);
    let (frames, bytes) = (summary.frames_sent, summary.bytes_sent);
    row("frames", format_args!("{frames} ({bytes} bytes)"));
    let (accepted, max) = (summary.accepted, summary.sockets_max);
    let sockets = format_args!("{accepted} accepted, at most {max} at the same time");
    row("sockets", sockets);
    let (full, other) = (summary.closed_would_block, summary.closed_other);
    let closed = format_args!("{full} with a full buffer, {other} for other reasons");
    row("closed", closed);
}
