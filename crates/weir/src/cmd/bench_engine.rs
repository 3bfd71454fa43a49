//! Engines of `weir bench run`: where the processes of a run start.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use weir_bench::{BenchError, BenchOptions};
use weir_engine::agents::AgentsOptions;
use weir_engine::archive::write_archive;
use weir_engine::client_agents::{TOKEN_VARIABLE, new_token};
use weir_engine::inventory::Inventory;
use weir_engine::machines::{Machines, MachinesError};
use weir_load::units::parse_duration;

use crate::cmd::agent::read_token;
use crate::exit::{Exit, Failure, OrExit as _};

/// Way to start the roles of an inventory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineName {
    /// All on this machine
    Local,
    /// On machines that the system's ssh reaches
    Ssh,
    /// On machines where you start `weir agent`
    Manual,
    /// In pods of a cluster, through kubectl
    Kubernetes,
}

/// Options of the engine `manual`.
#[derive(Debug, Args)]
pub(crate) struct AgentsArgs {
    /// Listen address for the agents of --engine manual
    ///
    /// Every address except loopback opens this port to the network. The connection is encrypted,
    /// and only agents with the token of the run are accepted.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7070")]
    agents_listen: SocketAddr,
    /// File with the token of the run for --engine manual
    ///
    /// The default is the environment variable WEIR_AGENT_TOKEN; without it, a new token is
    /// printed. A token has 16 or more characters that cannot be guessed.
    #[arg(long, value_name = "FILE")]
    agent_token_file: Option<PathBuf>,
    /// Longest wait for all agents of --engine manual
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "5m")]
    join_timeout: Duration,
}

/// Machines of a run with roles on other machines.
#[derive(Debug)]
pub(crate) enum RunMachines {
    Ssh(Inventory),
    Manual(Inventory, AgentsOptions),
}

impl AgentsArgs {
    /// Returns the options of the coordinator. Prints how to start the agents.
    pub(crate) fn options(&self, inventory: &Inventory) -> Result<AgentsOptions, Failure> {
        let given = read_token(self.agent_token_file.as_deref()).or_exit(Exit::Usage)?;
        let token = given.clone().unwrap_or_else(new_token);
        let names = inventory.machines.iter().filter(|it| it.agent);
        let names: Vec<&str> = names.map(|it| it.name.as_str()).collect();
        let shown = match given {
            Some(_) => String::new(),
            None => format!("{TOKEN_VARIABLE}={token} "),
        };
        eprintln!(
            "weir: start an agent on each machine ({}) with the token of the run:\n  \
             {shown}weir agent --coordinator {} --machine NAME",
            names.join(", "),
            self.agents_listen
        );
        Ok(AgentsOptions {
            listen: self.agents_listen,
            token,
            join_timeout: self.join_timeout,
        })
    }
}

impl RunMachines {
    /// Connects to the machines and adds them to the options of a run.
    pub(crate) fn connect(
        &self,
        options: &mut BenchOptions,
        note: &mut dyn FnMut(&str),
        stop: &AtomicBool,
    ) -> Result<(), BenchError> {
        let program = options.exe.clone();
        let machines: Result<Machines, MachinesError> = match self {
            Self::Ssh(inventory) => Machines::connect(inventory, &program, note),
            Self::Manual(inventory, agents) => {
                Machines::with_agents(inventory, agents, &program, note, stop)
            }
        };
        options.machines = Some(Arc::new(machines?));
        Ok(())
    }
}

/// Options of the engine `kubernetes`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of --engine kubernetes")]
pub(crate) struct KubernetesArgs {
    /// Print the objects for `kubectl apply -f -` instead of creating them
    ///
    /// Without this option the run uses kubectl to create the objects, collects the results, and
    /// deletes the objects.
    #[arg(long)]
    pub(crate) print: bool,
    /// Image whose entry point is weir
    #[arg(long, value_name = "IMAGE", default_value = concat!("weir:", env!("CARGO_PKG_VERSION")))]
    pub(crate) image: String,
    /// Namespace of the objects [default: that of kubectl]
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub(crate) namespace: Option<String>,
    /// Name of the objects; without --print, a random suffix follows
    #[arg(long, value_name = "NAME", default_value = "weir-bench", value_parser = parse_name)]
    pub(crate) run_name: String,
    /// Pods that share the records to send
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) producers_agents: u16,
    /// Pods that share the plain consumers
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) consumers_agents: u16,
    /// Pods that share the clients
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) clients_agents: u16,
    /// Processors of each pod
    #[arg(long, value_name = "QUANTITY", default_value = "2")]
    pub(crate) pod_cpu: String,
    /// Memory of each pod
    #[arg(long, value_name = "QUANTITY", default_value = "4Gi")]
    pub(crate) pod_memory: String,
    /// Allow load on the node of the gateway, which changes the results
    #[arg(long)]
    pub(crate) any_node: bool,
    /// Print the run directory as text at the end, for the coordinator in a pod
    #[arg(long, hide = true)]
    pub(crate) archive_to_log: bool,
}

impl KubernetesArgs {
    /// Prints the run directory if that is requested.
    pub(crate) fn finish(&self, dir: &Path) -> Result<(), Failure> {
        match self.archive_to_log {
            true => write_archive(dir, io::stdout().lock())
                .context("cannot print the run directory")
                .or_exit(Exit::Tool),
            false => Ok(()),
        }
    }
}

/// Parses a name of Kubernetes that leaves space for suffixes.
fn parse_name(text: &str) -> Result<String, String> {
    let is_label = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let starts = text.starts_with(|first: char| first.is_ascii_lowercase());
    match starts && text.len() <= NAME_MAX && text.bytes().all(is_label) && !text.ends_with('-') {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "lower-case letters, digits and dashes, at most {NAME_MAX}, starting with a letter"
        )),
    }
}

const NAME_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_leave_space_for_suffixes() {
        assert!(parse_name("weir-bench").is_ok());
        for wrong in ["", "Weir", "1a", "a-", "a_b", "a.b", &"a".repeat(41)] {
            assert!(parse_name(wrong).is_err(), "{wrong}");
        }
    }
}
