//! One module per command.

pub(crate) mod gateway;

use clap::CommandFactory;

use crate::cli::{Cli, Command};
use crate::exit::{Exit, Failure};

/// Runs one command to its end.
pub(crate) fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Gateway(command) => gateway::run(command),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "weir", &mut std::io::stdout());
            Ok(Exit::Fine)
        }
    }
}
