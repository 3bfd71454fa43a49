//! The configuration of the proxy commands: arguments, loading and errors.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use weir_proxy::{CliOverrides, ProxyConfig};

use crate::exit::Failure;

/// Configuration of the proxy: a file, or options for one virtual cluster.
#[derive(Debug, Args)]
pub(super) struct ProxyConfigArgs {
    /// Configuration file of the proxy (proxy.toml, see docs/proxy.md)
    ///
    /// Contains virtual clusters, limits, TLS and filters.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Kafka bootstrap servers, separated by commas
    ///
    /// Defines a single virtual cluster without a configuration file.
    #[arg(long, value_name = "HOST:PORT")]
    upstream: Option<String>,
    /// Bootstrap address for clients [default: 127.0.0.1:9192]
    ///
    /// With port 0, free ports are selected for all listeners.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Host advertised to clients [default: the address of --listen]
    #[arg(long, value_name = "HOST")]
    advertised_host: Option<String>,
    /// Address of metrics and health [default: 127.0.0.1:9190]
    #[arg(long, value_name = "ADDRESS:PORT")]
    admin: Option<SocketAddr>,
    /// Number of event loops [default: one per core]
    #[arg(long, value_name = "COUNT")]
    event_loops: Option<usize>,
}

pub(super) fn load(args: &ProxyConfigArgs) -> Result<ProxyConfig, Failure> {
    let overrides = CliOverrides {
        upstream: args.upstream.clone(),
        listen: args.listen,
        advertised_host: args.advertised_host.clone(),
        admin: args.admin,
        event_loops: args.event_loops,
    };
    Ok(ProxyConfig::load(args.config.as_deref(), &overrides)?)
}
