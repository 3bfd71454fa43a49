//! The command line: one enum of commands. The arguments of a command are next to its code.

use std::fs::File;
use std::os::fd::AsFd;
use std::time::Duration;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;
use weir_net::log::LogWriter;

use crate::cmd;

/// Kafka gateway for live clients, Kafka proxy and benchmarking tool
#[derive(Debug, Parser)]
#[command(
    name = "weir",
    version,
    long_version = LONG_VERSION,
    propagate_version = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    /// Log level or filter, for example `debug` or `weir_gateway=trace`
    ///
    /// The default is the environment variable WEIR_LOG, or `info` if it is not set.
    #[arg(long, global = true, value_name = "FILTER")]
    log: Option<String>,

    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[allow(clippy::large_enum_variant, reason = "created once per process")]
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Deliver Kafka topics to web, mobile and server clients over TLCP
    #[command(subcommand)]
    Gateway(cmd::gateway::GatewayCommand),
    /// Forward traffic between Kafka clients and brokers
    #[command(subcommand)]
    Proxy(cmd::proxy::ProxyCommand),
    /// Run Apache Kafka on this machine for tests and measurements
    #[command(subcommand)]
    Lab(cmd::lab::LabCommand),
    /// Run one part of a load test: producers, consumers, clients or a baseline
    #[command(subcommand)]
    Load(cmd::load::LoadCommand),
    /// Run benchmark plans and write reports
    #[command(subcommand)]
    Bench(cmd::bench::BenchCommand),
    /// Compare gateway and plain consumers on this machine and write a report
    Demo(cmd::demo::DemoArgs),
    /// Run a share of a distributed load test for a coordinator
    Agent(cmd::agent::AgentArgs),
    /// Print shell completions
    Completions {
        /// Shell to generate completions for
        shell: clap_complete::Shell,
    },
}

/// The version with what `build.rs` knows about this build.
const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit    ",
    env!("WEIR_BUILD_COMMIT"),
    "\nfeatures  ",
    env!("WEIR_BUILD_FEATURES"),
    "\ntarget    ",
    env!("WEIR_BUILD_TARGET"),
);

const LOG_FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// The log of the process. Dropping it waits up to [`LOG_FLUSH_TIMEOUT`] until all lines are
/// written.
#[derive(Debug)]
pub(crate) struct Log(Option<LogWriter>);

impl Drop for Log {
    fn drop(&mut self) {
        if let Some(writer) = &self.0 {
            // A stalled reader of standard error must not delay the exit.
            let _ = writer.flush(LOG_FLUSH_TIMEOUT);
        }
    }
}

/// Starts logging to standard error on a separate thread. Standard output is for results.
pub(crate) fn init_logging(cli: &Cli) -> Log {
    let filter = cli.log.clone().or_else(|| std::env::var("WEIR_LOG").ok());
    let filter = filter.unwrap_or_else(|| default_filter(&cli.command).to_owned());
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
            eprintln!("weir: log thread not started, logging from the calling threads: {error}");
            builder.with_writer(std::io::stderr).init();
            Log(None)
        }
    }
}

fn default_filter(command: &CliCommand) -> &'static str {
    match command {
        // Its output is a line for each check, not for each topic that it reads back.
        CliCommand::Bench(cmd::bench::BenchCommand::CheckDriver(_)) => {
            "info,weir_kafka::ingest=warn"
        }
        _ => "info",
    }
}

/// Starts the log thread on a duplicate of the standard error file descriptor.
///
/// With `std::io::stderr` the thread would hold its lock, and a panic elsewhere could not print.
fn log_writer() -> std::io::Result<LogWriter> {
    let stderr = std::io::stderr().as_fd().try_clone_to_owned()?;
    LogWriter::start(File::from(stderr))
}
