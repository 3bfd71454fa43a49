//! `weir load floor`: the baseline server.

use std::net::SocketAddr;

use clap::Args;
use weir_load::floor::{self, FloorOptions};
use weir_load::worker::protocol::{FloorSummary, WorkerEvent};

use crate::cmd::load_common::{OutputArgs, ProgressDelta, ProgressDisplay, row, run_worker};
use crate::cmd::load_local;
use crate::exit::{Exit, Failure, OrExit as _};
use crate::signal;

#[derive(Debug, Args)]
#[command(after_help = "Example, one client that receives all records:\n  \
                  weir load floor --topic LTest --listen 127.0.0.1:8081\n  \
                  printf '*\\n' | nc 127.0.0.1 8081")]
pub(crate) struct FloorArgs {
    #[command(flatten)]
    options: FloorOptions,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(args: &FloorArgs) -> Result<Exit, Failure> {
    let options = &args.options;
    if args.output.worker {
        return run_worker(|link| floor::run(options, link));
    }
    let stop = signal::stop_flag().or_exit(Exit::Tool)?;
    let mut progress = ProgressDisplay::new(args.output.json, None);
    let result = load_local::run(
        &stop,
        |link| floor::run(options, link),
        |event| {
            progress.show(event, "", status);
            if let WorkerEvent::Ready { port, .. } = event {
                let address = SocketAddr::new(options.listen.ip(), port.unwrap_or(0));
                let topic = &options.topic;
                progress.print(&format_args!("floor of topic \"{topic}\" on {address}"));
            }
            None
        },
    );
    progress.end();
    let summary = result?;
    args.output.summary.write(&summary)?;
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
