//! The command line: one enum of commands, each command's arguments beside its code.

use std::fs::File;
use std::os::fd::AsFd;
use std::time::Duration;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;
use weir_net::log::LogWriter;

use crate::cmd;

/// Kafka topics to live clients, a Kafka proxy, and the instrument that measures both.
#[derive(Debug, Parser)]
#[command(name = "weir", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Cli {
    /// Log level or filter, for example `debug` or `weir_gateway=trace`; WEIR_LOG does the same.
    #[arg(long, global = true, value_name = "FILTER")]
    log: Option<String>,

    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

/// What weir can do.
#[allow(clippy::large_enum_variant, reason = "made once, at the start")]
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Kafka topics to web, mobile and server clients over TLCP.
    #[command(subcommand)]
    Gateway(cmd::gateway::GatewayCommand),
    /// A proxy between Kafka clients and brokers.
    #[command(subcommand)]
    Proxy(cmd::proxy::ProxyCommand),
    /// Apache Kafka on this machine, for trying and measuring.
    #[command(subcommand)]
    Lab(cmd::lab::LabCommand),
    /// The parts of a load test, one at a time.
    #[command(subcommand)]
    Load(cmd::load::LoadCommand),
    /// Plans: comparisons of architectures, run to a report.
    #[command(subcommand)]
    Bench(cmd::bench::BenchCommand),
    /// Broker, gateway, plain consumers and clients on this machine; comparison and report.
    Demo(cmd::demo::DemoArgs),
    /// A load worker that dials a coordinator, takes a share of its run and reports to it.
    Agent(cmd::agent::AgentArgs),
    /// Shell completions, written to standard output.
    Completions {
        /// The shell to complete for.
        shell: clap_complete::Shell,
    },
}

/// Longest wait for log lines at the end of the process.
const LOG_FLUSH: Duration = Duration::from_millis(500);

/// The log of the process; dropping it waits, for a time, until its lines are written.
#[derive(Debug)]
pub(crate) struct Log(Option<LogWriter>);

impl Drop for Log {
    fn drop(&mut self) {
        if let Some(writer) = &self.0 {
            // A reader that has stalled must not hold up the end.
            let _ = writer.flush(LOG_FLUSH);
        }
    }
}

/// Sends log lines to standard error, by a thread of their own; standard output belongs to results.
pub(crate) fn init_logging(cli: &Cli) -> Log {
    let filter = cli.log.clone().or_else(|| std::env::var("WEIR_LOG").ok());
    let filter = filter.unwrap_or_else(|| "info".to_owned());
    let filter = EnvFilter::try_new(&filter).unwrap_or_else(|error| {
        eprintln!("weir: log filter \"{filter}\" ignored: {error}");
        EnvFilter::new("info")
    });
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(is_terminal);
    match log_writer() {
        Ok(writer) => {
            let lines = writer.clone();
            builder.with_writer(move || lines.clone()).init();
            Log(Some(writer))
        }
        Err(error) => {
            eprintln!("weir: log lines are written where they are made: {error}");
            builder.with_writer(std::io::stderr).init();
            Log(None)
        }
    }
}

/// Writes to a descriptor of its own: while the lock of `std::io::stderr` is held, a panic elsewhere
/// could not be reported.
fn log_writer() -> std::io::Result<LogWriter> {
    let stderr = std::io::stderr().as_fd().try_clone_to_owned()?;
    LogWriter::start(File::from(stderr))
}
