//! `weir gateway run|check`.

use std::path::PathBuf;

use clap::Subcommand;

use crate::exit::{Exit, Failure};

/// What the gateway can do.
#[derive(Debug, Subcommand)]
pub(crate) enum GatewayCommand {
    /// Read a configuration and say what it means, without connecting to anything.
    Check {
        /// The connector's configuration file.
        #[arg(long, value_name = "FILE")]
        adapters: PathBuf,
    },
}

/// Runs one gateway command.
pub(crate) fn run(command: GatewayCommand) -> Result<Exit, Failure> {
    match command {
        GatewayCommand::Check { adapters } => Err(Failure::new(
            Exit::Usage,
            anyhow::anyhow!("{}: not readable", adapters.display()),
        )),
    }
}
