//! `[simulator]` of `gateway.toml`; `shard::simulator` serves the values.

use serde::Deserialize;

pub(crate) const ADAPTER_SET: &str = "LOAD_TESTS";

/// `[simulator]`: the values of item `CONFIGURATION` of adapter set `LOAD_TESTS`, which configures
/// the published load test's client simulator.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SimulatorConfig {
    /// `numberOfItems`, default 40: the keys of the published scenarios.
    pub number_of_items: u32,
    /// `numberOfFields`, default 2.
    pub number_of_fields: u32,
    /// `subscriptionMode`, default `RAW`.
    pub subscription_mode: String,
    /// `unfilteredSubscription`, default true.
    pub unfiltered_subscription: bool,
    /// `resamplingFrequency`, updates/s; 0, the default: not sent.
    pub resampling_frequency: f64,
    /// `resamplingBufferSize`; 0, the default: not sent.
    pub resampling_buffer_size: u32,
}

impl Default for SimulatorConfig {
    fn default() -> Self {
        Self {
            number_of_items: 40,
            number_of_fields: 2,
            subscription_mode: "RAW".to_owned(),
            unfiltered_subscription: true,
            resampling_frequency: 0.0,
            resampling_buffer_size: 0,
        }
    }
}

impl SimulatorConfig {
    /// Returns the value of a field. It is null where the simulator uses its own default, because
    /// the simulator rejects a frequency or buffer size of 0.
    pub(crate) fn value(&self, field: &str) -> Option<String> {
        Some(match field {
            "numberOfItems" => self.number_of_items.to_string(),
            "numberOfFields" => self.number_of_fields.to_string(),
            "subscriptionMode" => self.subscription_mode.clone(),
            "unfilteredSubscription" => self.unfiltered_subscription.to_string(),
            "resamplingFrequency" if self.resampling_frequency > 0.0 => {
                format!("{:?}", self.resampling_frequency)
            }
            "resamplingBufferSize" if self.resampling_buffer_size > 0 => {
                self.resampling_buffer_size.to_string()
            }
            _ => return None,
        })
    }
}
