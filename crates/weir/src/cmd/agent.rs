//! `weir agent`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Args;
use weir_engine::session;
use weir_load::agent::{self, AgentOptions, TOKEN_VARIABLE};
use weir_load::units::parse_duration;

use crate::exit::{Exit, Failure, OrExit as _};

#[derive(Debug, Args)]
#[command(
    after_help = "The coordinator assigns the work; see --engine in `weir load clients --help`.\n\n\
    Example, on each load machine (the coordinator prints the token at its start):\n  \
    WEIR_AGENT_TOKEN=... weir agent --coordinator 10.0.0.7:7070"
)]
pub(crate) struct AgentArgs {
    /// Address of the coordinator
    #[arg(long, value_name = "HOST:PORT", required_unless_present = "stdio")]
    coordinator: Option<String>,
    /// Do what a coordinator on standard input requests; started by `weir bench run --engine ssh`
    #[arg(long, conflicts_with_all = ["coordinator", "token_file"], hide = true)]
    stdio: bool,
    /// File with the token of the run
    ///
    /// The default is the environment variable WEIR_AGENT_TOKEN.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Longest time to connect to the coordinator
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "30s")]
    connect_timeout: Duration,
}

pub(crate) fn run(args: &AgentArgs) -> Result<Exit, Failure> {
    let Some(coordinator) = &args.coordinator else {
        return Ok(match session::run().or_exit(Exit::Instrument)? {
            true => Exit::Success,
            false => Exit::Instrument,
        });
    };
    agent::run(&AgentOptions {
        coordinator: coordinator.clone(),
        token: token(args).or_exit(Exit::Usage)?,
        connect_timeout: args.connect_timeout,
    })?;
    Ok(Exit::Success)
}

fn token(args: &AgentArgs) -> anyhow::Result<String> {
    let token = match &args.token_file {
        Some(path) => std::fs::read_to_string(path)
            .with_context(|| format!("--token-file {}", path.display()))?,
        None => std::env::var(TOKEN_VARIABLE).unwrap_or_default(),
    };
    let token = token.trim();
    ensure!(
        !token.is_empty(),
        "no token: set {TOKEN_VARIABLE} to the token of the run, or use --token-file"
    );
    Ok(token.to_owned())
}
