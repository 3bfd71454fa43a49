//! What is compared at each point of a plan, and the points.

use weir_stats::compare::twins;

use super::{Architecture, Plan, PlanError};

/// One way to set up the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// Its label.
    pub name: String,
    /// Stands for `@THREADS@` in the gateway's configuration.
    pub threads: Option<u32>,
    /// Its configuration, if it is not the plan's.
    pub gateway_config: Option<String>,
}

/// What is measured at each point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject<'a> {
    /// How records reach the clients.
    pub architecture: Architecture,
    /// How the gateway is set up, in a plan with variants.
    pub variant: Option<&'a Variant>,
}

impl Subject<'_> {
    /// The label in results: the architecture, and the variant if there is one.
    pub fn name(&self) -> String {
        let architecture = self.architecture.name();
        match self.variant {
            Some(variant) => format!("{architecture} {}", variant.name),
            None => architecture.to_owned(),
        }
    }
}

/// One load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanPoint {
    /// Number of clients.
    pub clients: u64,
    /// Records due per second.
    pub rate_per_s: f64,
}

impl PlanPoint {
    /// Whether this is at least as much of everything.
    pub fn is_beyond(&self, other: &Self) -> bool {
        self.clients >= other.clients && self.rate_per_s >= other.rate_per_s
    }
}

impl Plan {
    /// All loads, the least first: for each rate all numbers of clients.
    pub fn points(&self) -> Vec<PlanPoint> {
        let rates = self.rates_per_s();
        let row = |rate_per_s: &f64| {
            let rate_per_s = *rate_per_s;
            self.levels.iter().map(move |&clients| PlanPoint {
                clients,
                rate_per_s,
            })
        };
        rates.iter().flat_map(row).collect()
    }

    /// The rates of a grid, or the one of a ladder.
    pub fn rates_per_s(&self) -> Vec<f64> {
        match self.grid_rates_per_s.is_empty() {
            true => vec![self.workload.rate_per_s],
            false => self.grid_rates_per_s.clone(),
        }
    }

    /// Whether cells differ in their rate.
    pub fn is_grid(&self) -> bool {
        !self.grid_rates_per_s.is_empty()
    }

    /// What is compared, in the order to run it. Variants are ways to set up the gateway.
    pub fn subjects(&self) -> Vec<Subject<'_>> {
        let of = |architecture: &Architecture| {
            let architecture = *architecture;
            let variants = match architecture {
                Architecture::Gateway => self.variants.as_slice(),
                _ => &[],
            };
            let with = variants.iter().map(move |variant| Subject {
                architecture,
                variant: Some(variant),
            });
            let plain = variants.is_empty().then_some(Subject {
                architecture,
                variant: None,
            });
            with.chain(plain)
        };
        self.architectures.iter().flat_map(of).collect()
    }

    /// The gateway alone, held against itself: its first variant as two that are the same and take turns.
    ///
    /// # Errors
    /// [`PlanError::Value`] if the plan has no gateway.
    pub fn twice(mut self) -> Result<Self, PlanError> {
        if !self.architectures.contains(&Architecture::Gateway) {
            return Err(PlanError::Value {
                file: "command line".to_owned(),
                key: "--twice",
                value: self.name,
                remedy: "a plan or --architectures with a gateway",
            });
        }
        let first = self.variants.into_iter().next();
        let names = twins(first.as_ref().map(|variant| variant.name.as_str()));
        self.variants = names
            .map(|name| Variant {
                name,
                threads: first.as_ref().and_then(|variant| variant.threads),
                gateway_config: first.as_ref().and_then(|it| it.gateway_config.clone()),
            })
            .into();
        self.architectures = vec![Architecture::Gateway];
        // Limits and published figures are of what the plan compares.
        self.thresholds.clear();
        self.reference = None;
        Ok(self)
    }

    /// The gateway's configuration in a variant, with its place holders for the cell.
    pub(crate) fn gateway_config_of(&self, variant: Option<&str>) -> String {
        let variant = variant.and_then(|name| self.variants.iter().find(|it| it.name == name));
        let own = variant.and_then(|variant| variant.gateway_config.as_ref());
        let threads = variant.and_then(|variant| variant.threads).unwrap_or(1);
        own.unwrap_or(&self.gateway_config)
            .replace("@THREADS@", &threads.to_string())
    }
}
