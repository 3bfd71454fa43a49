//! `weir bench run --dry-run`: prints what would run where, and which limits that would hit.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use weir_bench::{DryRun, MachineNeeds};
use weir_engine::inventory::Inventory;
use weir_engine::limits::{LimitedResource, MachineLimits};
use weir_report::{TextColumn, TextTable};

use crate::cmd::bench_common::RunOptions;
use crate::cmd::bench_engine::{AgentsArgs, EngineName, RunMachines};
use crate::cmd::text_table::{add_row, print_table, print_wrapped};
use crate::exit::{Exit, Failure, OrExit as _};

#[derive(Debug, Args)]
pub(crate) struct DryRunArgs {
    /// Print which roles would run on which machine, and limits that are too low, and exit
    ///
    /// The exit code is 1 if a limit of a machine is too low for a cell.
    #[arg(long)]
    dry_run: bool,
    /// Machines and their roles, see docs/many-machines.md [default: all roles on this machine]
    #[arg(long, value_name = "FILE")]
    inventory: Option<PathBuf>,
    /// Way to start the roles of the inventory
    #[arg(long, value_enum, default_value_t = EngineName::Local)]
    engine: EngineName,
    #[command(flatten)]
    agents: AgentsArgs,
}

impl DryRunArgs {
    /// Prints the dry run that `of` computes from the inventory and the limits of this machine.
    /// Returns `None` if it was not requested.
    pub(crate) fn run(
        &self,
        of: impl FnOnce(&Inventory, MachineLimits) -> DryRun,
    ) -> Result<Option<Exit>, Failure> {
        if !self.dry_run {
            return Ok(None);
        }
        let inventory = self.inventory()?;
        let dry_run = of(&inventory, MachineLimits::of_this_machine());
        print(&dry_run);
        Ok(Some(match dry_run.exceeds_limits() {
            true => Exit::Threshold,
            false => Exit::Success,
        }))
    }

    /// Checks the options of a run, and returns the machines that it uses; `None`: this machine
    /// only.
    pub(crate) fn machines(&self, run: &RunOptions) -> Result<Option<RunMachines>, Failure> {
        let option = match self.engine {
            EngineName::Local if self.inventory.is_some() => {
                return Err(Failure::usage(
                    "--inventory: add --engine ssh or manual to run on its machines, or --dry-run",
                ));
            }
            EngineName::Local => return Ok(None),
            EngineName::Ssh => "--engine ssh",
            EngineName::Manual => "--engine manual",
            EngineName::Kubernetes => {
                let text = "--engine kubernetes: not possible with this plan";
                return Err(Failure::usage(text));
            }
        };
        if self.inventory.is_none() {
            return Err(Failure::usage(format!("{option} needs --inventory FILE")));
        }
        run.require_cluster(option)?;
        let inventory = self.inventory()?;
        Ok(Some(match self.engine {
            EngineName::Manual => {
                let agents = self.agents.options(&inventory)?;
                RunMachines::Manual(inventory, agents)
            }
            _ => RunMachines::Ssh(inventory),
        }))
    }

    /// Returns `true` if the run starts in a Kubernetes cluster.
    pub(crate) fn is_kubernetes(&self) -> bool {
        self.engine == EngineName::Kubernetes
    }

    /// Returns `true` if roles of the run start on other machines.
    pub(crate) fn is_remote(&self) -> bool {
        self.engine != EngineName::Local
    }

    fn inventory(&self) -> Result<Inventory, Failure> {
        let Some(path) = &self.inventory else {
            return Ok(Inventory::default());
        };
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("--inventory {name}"))
            .or_exit(Exit::Usage)?;
        Inventory::parse(&text, &name).or_exit(Exit::Usage)
    }
}

fn print(dry_run: &DryRun) {
    let resources = LimitedResource::ALL.map(|resource| TextColumn::number(resource.name()));
    let first = TextColumn::text("machine", usize::MAX);
    let columns = [first].into_iter().chain(resources);
    let columns = columns.chain([TextColumn::text("roles", usize::MAX)]);
    let mut table = TextTable::new(&columns.collect::<Vec<_>>());
    for machine in &dry_run.machines {
        let needs =
            LimitedResource::ALL.map(|one| cell(machine.most.of(one), machine.limits.of(one)));
        let roles = roles(machine);
        let cells = [machine.name.as_str()].into_iter();
        let cells = cells.chain(needs.iter().map(String::as_str));
        add_row(
            &mut table,
            &cells.chain([roles.as_str()]).collect::<Vec<_>>(),
        );
    }
    print_table(&table, "");
    println!();
    print_wrapped(
        "Largest needs of all cells and, where known, the machine's limit. Cores and Mbit/s are \
         estimates from measurements on another machine; - is not estimated.",
        "",
    );
    for machine in &dry_run.machines {
        for (exceeded, cell) in &machine.exceeded {
            let text = format!(
                "{}: {} needs {} {}, the limit is {}",
                machine.name,
                cell,
                amount(exceeded.needed),
                exceeded.resource.name(),
                amount(exceeded.limit)
            );
            print_wrapped(&text, "");
        }
    }
    for role in &dry_run.unused {
        println!("role {role}: not part of this plan");
    }
}

/// Returns for example `512 of 1024`.
fn cell(needed: Option<f64>, limit: Option<f64>) -> String {
    let needed = needed.map_or_else(|| "-".to_owned(), amount);
    match limit {
        Some(limit) => format!("{needed} of {}", amount(limit)),
        None => needed,
    }
}

/// Returns a whole number, or one decimal below 100.
fn amount(value: f64) -> String {
    match value {
        _ if value.fract() == 0.0 || value >= 100.0 => format!("{value:.0}"),
        _ => format!("{value:.1}"),
    }
}

/// Returns the roles of a machine, those shared with others with the share.
fn roles(machine: &MachineNeeds) -> String {
    let roles = machine.roles.iter().map(|(role, machines)| match machines {
        1 => role.to_string(),
        _ => format!("{role} (1/{machines})"),
    });
    roles.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_few_digits() {
        assert_eq!(cell(Some(50_512.0), Some(1e6)), "50512 of 1000000");
        assert_eq!(cell(Some(0.25), Some(2.0)), "0.2 of 2");
        assert_eq!(cell(None, Some(4.0)), "- of 4");
        assert_eq!(cell(Some(352.77), None), "353");
    }
}
