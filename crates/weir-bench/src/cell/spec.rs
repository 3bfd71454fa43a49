//! Subject, load and plan of a cell.

use weir_engine::gateways::ExternalGateway;
use weir_stats::run::Cell;

use crate::experiment::RunContext;
use crate::figure_names::RATE;
use crate::plan::{Architecture, Plan};
use crate::probe::ProbeError;
use weir_lab::sdk::NodeSdk;

/// Plan of a cell, with its rate, and state of the run.
#[derive(Clone, Copy)]
pub(crate) struct CellContext<'a> {
    pub(crate) run: RunContext<'a>,
    pub(crate) plan: &'a Plan,
    /// SDK to probe gateway cells with, or the reason for its absence.
    pub(crate) sdk: &'a Result<NodeSdk, ProbeError>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct CellSpec<'a> {
    pub(crate) architecture: Architecture,
    /// Gateway variant, in a plan with variants.
    pub(crate) variant: Option<&'a str>,
    pub(crate) clients: u64,
    /// Repetition, from 1.
    pub(crate) repetition: u64,
}

impl CellSpec<'_> {
    /// Returns the gateway under test if the plan does not configure it.
    pub(crate) fn external<'p>(&self, plan: &'p Plan) -> Option<&'p ExternalGateway> {
        match self.architecture {
            Architecture::Gateway => plan.external(self.variant),
            _ => None,
        }
    }

    /// Returns a cell of `plan` without results. The plan's rate must be that of the cell.
    pub(crate) fn empty_cell(&self, plan: &Plan) -> Cell {
        let rate = plan.workload.rate_per_s;
        let parameters = plan.is_grid().then(|| (RATE.to_owned(), rate));
        Cell {
            architecture: self.architecture.name().to_owned(),
            variant: self.variant.map(str::to_owned),
            clients: self.clients,
            parameters: parameters.into_iter().collect(),
            repetition: self.repetition,
            warm_up_s: plan.warm_up.as_secs_f64(),
            hold_s: plan.hold.as_secs_f64(),
            offered_records_per_s: rate,
            ..Cell::default()
        }
    }
}
