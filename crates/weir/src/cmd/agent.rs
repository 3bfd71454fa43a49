//! `weir agent`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use weir_engine::agents::{MachineAgentOptions, run_machine_agent};
use weir_engine::client_agents::{self as agent, AgentOptions, TOKEN_VARIABLE};
use weir_engine::session;
use weir_load::units::parse_duration;

use crate::exit::{Exit, Failure, OrExit as _};
use crate::signal;

#[derive(Debug, Args)]
#[command(
    after_help = "The coordinator assigns the work, and prints the token at its start: `weir load \
    clients --engine manual`, or with --machine `weir bench run --engine manual`.\n\n\
    Examples:\n  \
    WEIR_AGENT_TOKEN=... weir agent --coordinator 10.0.0.7:7070\n  \
    weir agent --coordinator 10.0.0.7:7070 --machine load-1 --token-file token"
)]
pub(crate) struct AgentArgs {
    /// Address of the coordinator
    #[arg(long, value_name = "HOST:PORT", required_unless_present = "stdio")]
    coordinator: Option<String>,
    /// Run the roles of this machine of the inventory, for `weir bench run --engine manual`
    ///
    /// The agent ends with the run. If it or the coordinator ends before, its processes end, too.
    #[arg(long, value_name = "NAME", requires = "coordinator")]
    machine: Option<String>,
    /// Do what a coordinator on standard input requests; started by `weir bench run`
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
        return Ok(match session::run().or_exit(Exit::Tool)? {
            true => Exit::Success,
            false => Exit::Tool,
        });
    };
    let token = token(args).or_exit(Exit::Usage)?;
    if let Some(machine) = &args.machine {
        // Its sessions notice its end.
        signal::exit_on_signal().or_exit(Exit::Tool)?;
        run_machine_agent(&MachineAgentOptions {
            coordinator: coordinator.clone(),
            token,
            machine: machine.clone(),
            connect_timeout: args.connect_timeout,
        })?;
        return Ok(Exit::Success);
    }
    agent::run(&AgentOptions {
        coordinator: coordinator.clone(),
        token,
        connect_timeout: args.connect_timeout,
    })?;
    Ok(Exit::Success)
}

fn token(args: &AgentArgs) -> anyhow::Result<String> {
    read_token(args.token_file.as_deref())?.with_context(|| {
        format!("no token: set {TOKEN_VARIABLE} to the token of the run, or use --token-file")
    })
}

/// Returns the token of a file, or else of the environment variable.
pub(crate) fn read_token(file: Option<&Path>) -> anyhow::Result<Option<String>> {
    let token = match file {
        Some(path) => std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the token file {}", path.display()))?,
        None => std::env::var(TOKEN_VARIABLE).unwrap_or_default(),
    };
    let token = token.trim();
    Ok((!token.is_empty()).then(|| token.to_owned()))
}
