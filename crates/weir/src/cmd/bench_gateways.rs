//! Gateways that a plan measures in place of, or next to, its own.

use std::path::PathBuf;

use clap::Args;
use weir_bench::plan::{Plan, Valid};
use weir_engine::gateways::ExternalGateway;

use crate::cmd::bench_common::RunOptions;
use crate::exit::{Exit, Failure, OrExit as _};

#[derive(Debug, Args)]
pub(crate) struct GatewaysArgs {
    /// Running TLCP server to measure in place of the plan's gateway
    ///
    /// Needs --bootstrap and --topic. Its CPU and memory are measured if it is on this machine.
    #[arg(long, value_name = "URL", conflicts_with = "gateways", help_heading = GATEWAYS)]
    gateway: Option<String>,
    /// Adapter set of --gateway [default: that of the plan]
    #[arg(long, value_name = "NAME", help_heading = GATEWAYS)]
    adapter_set: Option<String>,
    /// Data adapter of --gateway [default: that of the plan]
    #[arg(long, value_name = "NAME", help_heading = GATEWAYS)]
    data_adapter: Option<String>,
    /// Item of each client of --gateway; {key} is its key [default: that of the plan]
    #[arg(long, value_name = "TEMPLATE", help_heading = GATEWAYS)]
    items: Option<String>,
    /// File with gateways to measure next to the plan's own, see docs/many-machines.md
    #[arg(long, value_name = "FILE", help_heading = GATEWAYS)]
    gateways: Option<PathBuf>,
    /// Leave out gateways whose programs are not installed, and name them
    #[arg(long, help_heading = GATEWAYS)]
    skip_missing: bool,
}

impl GatewaysArgs {
    /// Returns the plan with the gateways.
    pub(crate) fn apply(self, plan: Valid<Plan>, run: &RunOptions) -> Result<Valid<Plan>, Failure> {
        if let Some(url) = &self.gateway {
            run.require_cluster("--gateway")?;
            let mut gateway = ExternalGateway::at(url);
            gateway.adapter_set = self.adapter_set;
            gateway.data_adapter = self.data_adapter;
            gateway.items = self.items;
            return Ok(plan.with_gateways(vec![gateway], true)?);
        }
        let given = [
            ("--adapter-set", &self.adapter_set),
            ("--data-adapter", &self.data_adapter),
            ("--items", &self.items),
        ];
        if let Some((option, _)) = given.iter().find(|(_, value)| value.is_some()) {
            return Err(Failure::usage(format!("{option}: needs --gateway URL")));
        }
        let Some(path) = &self.gateways else {
            return match self.skip_missing {
                true => Err(Failure::usage("--skip-missing: needs --gateways FILE")),
                false => Ok(plan),
            };
        };
        let mut gateways = Vec::new();
        for gateway in ExternalGateway::read(path).or_exit(Exit::Usage)? {
            match gateway.require_programs() {
                Ok(()) => gateways.push(gateway),
                Err(missing) => {
                    let text = format!("gateway \"{}\": {missing}", gateway.name);
                    if !self.skip_missing {
                        let remedy = "install it, or add --skip-missing";
                        return Err(Failure::usage(format!("{text}: {remedy}")));
                    }
                    eprintln!("weir: left out {text}");
                }
            }
        }
        Ok(plan.with_gateways(gateways, false)?)
    }
}

const GATEWAYS: &str = "Other gateways";
