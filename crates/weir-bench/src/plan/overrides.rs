//! Values that replace those of a plan: from its tables `[quick]` and `[demo]`, or options.

use std::time::Duration;

use clap::Args;
use serde::Deserialize;

use super::Architecture;
use crate::experiment::plan_file::{parse_rate, some_duration};
use weir_load::units::{parse_count, parse_duration};

/// Values that replace those of a plan.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Args)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct PlanOverrides {
    /// Numbers of clients, for example 500,1k,10k
    #[arg(long, value_name = "COUNTS", value_parser = parse_count, value_delimiter = ',')]
    pub levels: Option<Vec<u64>>,
    /// Architectures: groups, standalone, gateway, floor
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub architectures: Option<Vec<Architecture>>,
    /// Repetitions of each cell
    #[arg(long, value_name = "COUNT")]
    pub repetitions: Option<u32>,
    /// Records per second of all producers together
    #[arg(id = "rate", long, value_name = "RECORDS_PER_S", value_parser = parse_rate)]
    pub rate_per_s: Option<f64>,
    /// Records per second of a grid, for example 500,2k,8k
    ///
    /// Every rate runs with every number of clients.
    #[arg(id = "rates", long, value_name = "RECORDS_PER_S", value_parser = parse_rate,
          value_delimiter = ',', conflicts_with = "rate")]
    pub rates_per_s: Option<Vec<f64>>,
    /// Existing topic to use instead of a new topic per cell
    ///
    /// Records of other producers in this topic count as background load.
    #[arg(long, value_name = "NAME")]
    pub topic: Option<String>,
    /// Key that all clients subscribe to; the producers write it among others
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Duration of the load on a newly started broker before the first cell
    #[arg(skip)]
    #[serde(deserialize_with = "some_duration")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub broker_warm_up: Option<Duration>,
    /// Length of the load before each measured window
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    #[serde(deserialize_with = "some_duration")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub warm_up: Option<Duration>,
    /// Maximum time to wait for the steady state
    #[arg(skip)]
    #[serde(deserialize_with = "some_duration")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub warm_up_max: Option<Duration>,
    /// Length of each measured window
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    #[serde(deserialize_with = "some_duration")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub hold: Option<Duration>,
    /// Longest wait for late deliveries
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    #[serde(deserialize_with = "some_duration")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub drain: Option<Duration>,
}
