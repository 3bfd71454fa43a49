//! One module per command.

pub(crate) mod agent;
pub(crate) mod bench;
pub(crate) mod bench_compare;
pub(crate) mod bench_driver;
pub(crate) mod bench_find_max;
pub(crate) mod bench_libraries;
pub(crate) mod bench_list;
pub(crate) mod bench_options;
pub(crate) mod bench_overhead;
pub(crate) mod bench_progress;
pub(crate) mod bench_report;
pub(crate) mod clients_args;
pub(crate) mod clients_progress;
pub(crate) mod demo;
pub(crate) mod gateway;
pub(crate) mod lab;
pub(crate) mod load;
pub(crate) mod load_clients;
pub(crate) mod load_common;
pub(crate) mod load_consume;
pub(crate) mod load_floor;
pub(crate) mod load_local;
pub(crate) mod load_produce;
pub(crate) mod load_relay;
pub(crate) mod progress_block;
pub(crate) mod proxy;
pub(crate) mod terminal;

use clap::CommandFactory;

use crate::cli::{Cli, CliCommand};
use crate::exit::{Exit, Failure};

/// Runs one command to its end.
pub(crate) fn run(command: CliCommand) -> Result<Exit, Failure> {
    match command {
        CliCommand::Gateway(command) => gateway::run(command),
        CliCommand::Proxy(command) => proxy::run(command),
        CliCommand::Lab(command) => lab::run(command),
        CliCommand::Load(command) => load::run(command),
        CliCommand::Bench(command) => bench::run(command),
        CliCommand::Demo(args) => demo::run(&args),
        CliCommand::Agent(args) => agent::run(&args),
        CliCommand::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "weir", &mut std::io::stdout());
            Ok(Exit::Fine)
        }
    }
}
