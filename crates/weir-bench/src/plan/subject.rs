//! The load points of a plan and the subjects compared at each of them.

use serde::Deserialize;
use weir_engine::gateways::ExternalGateway;
use weir_stats::compare::aa_variants;

use super::{Plan, PlanError, Valid};
use crate::experiment::names::names;

/// Way in which records reach the clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Architecture {
    /// Every client is the only member of its own consumer group.
    Groups,
    /// Every client is a plain consumer with assigned partitions and no group.
    Standalone,
    /// TLCP clients of the gateway.
    Gateway,
    /// Plain sockets of the baseline server.
    Floor,
}

names!(pub Architecture, "architecture": Groups = "groups", Standalone = "standalone",
    Gateway = "gateway", Floor = "floor");

/// Gateway configuration under test.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Variant {
    pub(crate) name: String,
    /// Value of `@THREADS@` in the gateway configuration.
    pub(crate) threads: Option<u32>,
    /// Name of the gateway configuration, if it differs from the plan's.
    pub(crate) adapters: Option<String>,
    /// Content of that configuration.
    #[serde(skip)]
    pub(crate) gateway_config: Option<String>,
    /// Gateway in place of the plan's own.
    #[serde(skip)]
    pub(crate) external: Option<Box<ExternalGateway>>,
}

/// Subject measured at each load point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subject<'a> {
    pub(crate) architecture: Architecture,
    /// Gateway variant, in a plan with variants.
    pub(crate) variant: Option<&'a Variant>,
}

impl Subject<'_> {
    /// Returns the label in results: the architecture, and the variant if there is one.
    pub(crate) fn name(&self) -> String {
        let architecture = self.architecture.name();
        match self.variant {
            Some(variant) => format!("{architecture} {}", variant.name),
            None => architecture.to_owned(),
        }
    }
}

/// Load point: clients and rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PlanPoint {
    pub(crate) clients: u64,
    pub(crate) rate_per_s: f64,
}

impl PlanPoint {
    /// Returns `true` if clients and rate are both at least those of `other`.
    pub(crate) fn is_beyond(&self, other: &Self) -> bool {
        self.clients >= other.clients && self.rate_per_s >= other.rate_per_s
    }
}

impl Plan {
    /// Returns all load points, the lowest first: for each rate all numbers of clients.
    pub(crate) fn points(&self) -> Vec<PlanPoint> {
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

    /// Returns the rates of a grid, or the single rate of a ladder.
    pub(crate) fn rates_per_s(&self) -> Vec<f64> {
        match self.grid_rates_per_s.is_empty() {
            true => vec![self.workload.rate_per_s],
            false => self.grid_rates_per_s.clone(),
        }
    }

    /// Returns `true` if cells differ in their rate.
    pub(crate) fn is_grid(&self) -> bool {
        !self.grid_rates_per_s.is_empty()
    }

    /// Returns the subjects in the order to run them. Variants apply to the gateway only.
    pub(crate) fn subjects(&self) -> Vec<Subject<'_>> {
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

    /// Returns the gateway of a variant if the plan does not configure it.
    pub(crate) fn external(&self, variant: Option<&str>) -> Option<&ExternalGateway> {
        let variant = self
            .variants
            .iter()
            .find(|it| Some(it.name.as_str()) == variant)?;
        variant.external.as_deref()
    }

    /// Returns the headers that producers add for the gateways of all subjects.
    pub(crate) fn headers(&self) -> impl Iterator<Item = &String> {
        let external = self.variants.iter().filter_map(|it| it.external.as_ref());
        external.flat_map(|gateway| &gateway.headers)
    }

    /// Returns the gateway configuration of a variant, with the cell placeholders still in it.
    pub(crate) fn gateway_config_of(&self, variant: Option<&str>) -> String {
        let variant = variant.and_then(|name| self.variants.iter().find(|it| it.name == name));
        let own = variant.and_then(|variant| variant.gateway_config.as_ref());
        let threads = variant.and_then(|variant| variant.threads).unwrap_or(1);
        own.unwrap_or(&self.gateway_config)
            .replace("@THREADS@", &threads.to_string())
    }
}

impl Valid<Plan> {
    /// Returns the plan without limits.
    #[must_use]
    pub fn without_limits(self) -> Self {
        self.map(|plan| plan.thresholds.clear())
    }

    /// Returns the plan with gateways next to its own, or in place of it.
    ///
    /// # Errors
    /// [`PlanError::Value`] if one cannot serve the plan.
    pub fn with_gateways(
        self,
        gateways: Vec<ExternalGateway>,
        replaces: bool,
    ) -> Result<Self, PlanError> {
        let violated = |key, name: &str, remedy| {
            Err(PlanError::Value(
                "command line".to_owned(),
                key,
                name.to_owned(),
                remedy,
            ))
        };
        for gateway in &gateways {
            let name = &gateway.name;
            if !gateway.is_started() && self.topic.is_none() {
                let remedy = "it runs already: name the topic that it reads with --topic";
                return violated("gateway", name, remedy);
            }
            if gateway.protocol != "tlcp" && self.workload.kind.record_format().is_none() {
                let remedy = "deliveries are checked by the stamp in the value: use a plan with \
                              records of kind json2, avro or protobuf";
                return violated("gateway", name, remedy);
            }
            if self.variants.iter().any(|it| it.name == *name) {
                return violated("gateway", name, "the plan has a variant of that name");
            }
        }
        if !self.architectures.contains(&Architecture::Gateway) {
            let remedy = "use a plan, or --architectures, with the gateway";
            return violated("gateways", &self.name, remedy);
        }
        Ok(self.map(|plan| {
            if replaces {
                plan.variants.clear();
            } else if plan.variants.is_empty() {
                plan.variants.push(Variant {
                    name: OWN.to_owned(),
                    ..Variant::default()
                });
            }
            plan.variants
                .extend(gateways.into_iter().map(|gateway| Variant {
                    name: gateway.name.clone(),
                    external: Some(Box::new(gateway)),
                    ..Variant::default()
                }));
        }))
    }

    /// Returns the plan of an A/A test: the gateway's first variant as two identical subjects.
    ///
    /// # Errors
    /// [`PlanError::Value`] if the plan does not include the gateway.
    pub fn aa_test(self) -> Result<Self, PlanError> {
        if !self.architectures.contains(&Architecture::Gateway) {
            let remedy = "use a plan, or --architectures, with the gateway";
            let (file, name) = ("command line".to_owned(), self.name.clone());
            return Err(PlanError::Value(file, "--aa-test", name, remedy));
        }
        Ok(self.without_limits().map(|plan| {
            let first = plan.variants.drain(..).next().unwrap_or_default();
            let label = Some(first.name.as_str()).filter(|name| !name.is_empty());
            plan.variants = aa_variants(label)
                .map(|name| Variant {
                    name,
                    ..first.clone()
                })
                .into();
            plan.architectures = vec![Architecture::Gateway];
            // Published figures apply to what the plan compares, not to an A/A test.
            plan.reference = None;
        }))
    }
}

/// Name of the plan's own gateway next to others.
const OWN: &str = "weir";
