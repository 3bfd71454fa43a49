//! The configuration of the gateway commands: arguments, loading and errors.

use std::path::PathBuf;

use clap::Args;
use weir_gateway::config::CliOverrides;
use weir_gateway::{GatewayConfig, GatewayError};
use weir_mapping::ParseOptions;

#[derive(Debug, Args)]
pub(super) struct GatewayConfigArgs {
    /// Configuration file of the connector (adapters.xml)
    #[arg(long, value_name = "FILE", required_unless_present = "config")]
    pub(super) adapters: Option<PathBuf>,
    /// Configuration file of the gateway (gateway.toml, see docs/configuration.md)
    ///
    /// Contains listeners, limits and connections.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Configuration file of a Lightstreamer server, for its diff settings
    ///
    /// The settings apply unless --config sets them. `weir gateway check` lists the elements that
    /// are not read.
    #[arg(long, value_name = "FILE")]
    lightstreamer_conf: Option<PathBuf>,
    /// Reject parameters unknown to connector 1.5.2 instead of warning
    #[arg(long)]
    pub(super) strict: bool,
}

pub(super) fn load(
    files: &GatewayConfigArgs,
    overrides: &CliOverrides,
) -> Result<GatewayConfig, GatewayError> {
    let options = ParseOptions {
        strict: files.strict,
    };
    let overrides = CliOverrides {
        lightstreamer_conf: files.lightstreamer_conf.clone(),
        ..overrides.clone()
    };
    GatewayConfig::load(
        files.adapters.as_deref(),
        files.config.as_deref(),
        &overrides,
        options,
    )
}
