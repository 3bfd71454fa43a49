//! `weir load`: one part of a load test at a time.

use clap::Subcommand;

use crate::cmd::load_clients;
use crate::exit::{Exit, Failure};

/// The parts of a load test.
#[derive(Debug, Subcommand)]
pub(crate) enum LoadCommand {
    /// Thousands of simulated clients of a gateway, each with one session and one item.
    Clients(load_clients::ClientsArgs),
}

/// Runs one part.
pub(crate) fn run(command: LoadCommand) -> Result<Exit, Failure> {
    match command {
        LoadCommand::Clients(args) => load_clients::run(&args),
    }
}
