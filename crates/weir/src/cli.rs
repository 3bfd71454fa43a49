//! The command line: one enum of commands. The arguments of a command are next to its code.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::exit::Exit;
use crate::logging::{self, Log, LogFormat};
use crate::{cmd, environment, help, options_file};

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
    /// Log level or filter, for example `debug` or `weir_gateway=trace` [default: info]
    ///
    /// The variable WEIR_LOG sets it too.
    #[arg(long, global = true, value_name = "FILTER", display_order = 900)]
    log: Option<String>,
    /// Format of the log on standard error (docs/logging.md)
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        default_value = "text",
        display_order = 901
    )]
    log_format: LogFormat,
    /// File with options of any command (TOML, docs/environment.md)
    ///
    /// Variables of the environment and the command line take precedence.
    #[arg(long, global = true, value_name = "FILE", display_order = 902)]
    options_file: Option<PathBuf>,

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
    /// Write manual pages of all commands
    Man {
        /// Directory for the pages, created if it does not exist
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
}

/// Returns the command line with everything that clap does not derive.
pub(crate) fn command() -> Command {
    help::arrange(environment::with_variables(Cli::command()))
}

/// Parses the command line of the process. An error is printed, as is requested help.
pub(crate) fn parse() -> Result<Cli, ExitCode> {
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Err(error) = options_file::apply(&words, &command()) {
        eprintln!("weir: {error:#}");
        return Err(Exit::Usage.into());
    }
    let matches = cmd::bench_run_args::for_plan(command(), &words).try_get_matches_from(&words);
    let parsed = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    parsed.map_err(|error| {
        // Failing to print, for example to a closed pipe, changes nothing.
        let _ = error.print();
        if let Some(note) = environment::note_on(&error, &words, options_file::source_of) {
            eprintln!("{note}");
        }
        // Invariant: clap's codes are 0 and 2.
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
    })
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

/// Starts the log with the format and filter of the command line.
pub(crate) fn init_logging(cli: &Cli) -> Log {
    let filter = cli.log.as_deref();
    let filter = filter.unwrap_or_else(|| default_filter(&cli.command));
    logging::start(filter, cli.log_format)
}

fn default_filter(command: &CliCommand) -> &'static str {
    match command {
        // Their output has lines for each check or cell, not for each topic that they read.
        CliCommand::Bench(_) => "info,weir_kafka::ingest=warn",
        _ => "info",
    }
}
