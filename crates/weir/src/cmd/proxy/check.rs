//! `weir proxy check`: checks a configuration and prints its effective values.

use std::fmt::Display;

use clap::Args;
use serde_json::json;
use weir_gateway::tls::expiry_text;
use weir_proxy::ProxyConfig;
use weir_proxy::config::ClusterConfig;

use super::config::{ProxyConfigArgs, load};
use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
pub(crate) struct ProxyCheckArgs {
    #[command(flatten)]
    config: ProxyConfigArgs,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Loads the configuration and prints it. With `--json`, an error is part of the output.
pub(super) fn run(args: &ProxyCheckArgs) -> Result<Exit, Failure> {
    let config = match load(&args.config) {
        Err(failure) if args.json => {
            let errors = [json!({ "severity": "error", "text": failure.to_string() })];
            println!("{:#}", json!({ "usable": false, "errors": errors }));
            return Ok(failure.exit);
        }
        loaded => loaded?,
    };
    if args.json {
        println!("{:#}", to_json(&config));
    } else {
        print(&config);
    }
    Ok(Exit::Success)
}

fn to_json(config: &ProxyConfig) -> serde_json::Value {
    let clusters = config.clusters.iter().map(|cluster| {
        json!({
            "name": cluster.name,
            "upstream": upstream(cluster),
            "listen": cluster.listen.to_string(),
            "broker_ports": cluster.broker_ports.to_string(),
            "server_names": cluster.describe_names(),
            "proxy_protocol": cluster.describe_proxy_protocol(),
            "upstream_proxy_protocol": cluster.sends_proxy_header,
            "advertised_host": cluster.advertised_host,
            "filters": cluster.describe_filters(),
            "logins": cluster.describe_logins(),
            "broker_identity": cluster.describe_broker_identity(),
            "access": cluster.describe_access(),
            "tls": cluster.tls.is_some(),
            "certificate_ends_unix_s": certificate_end(cluster),
            "upstream_tls": cluster.upstream_tls.is_some(),
        })
    });
    json!({
        "usable": true,
        "errors": [],
        "clusters": clusters.collect::<Vec<_>>(),
        "admin": config.admin.listen.to_string(),
        "admin_token": config.admin.token.is_some(),
        "event_loops": config.event_loops,
        "filter_threads": config.filter_threads,
        "drain_timeout_ms": config.drain_timeout_ms,
        "reload_spread_ms": config.reload_spread_ms,
        "limits": config.limits,
    })
}

fn print(config: &ProxyConfig) {
    for cluster in &config.clusters {
        let row = |name: &str, value: &dyn Display| println!("  {name:<15} {value}");
        println!("cluster {}", cluster.name);
        let (brokers, upstream_tls) =
            (upstream(cluster).join(", "), cluster.upstream_tls.is_some());
        row("brokers", &format_args!("{brokers}{}", tls(upstream_tls)));
        let own_tls = tls(cluster.tls.is_some());
        row("bootstrap", &format_args!("{}{own_tls}", cluster.listen));
        if cluster.tls.is_some() {
            let until = expiry_text(certificate_end(cluster));
            row("certificate", &format_args!("until {until}"));
        }
        if cluster.has_ports() {
            row(
                "ports",
                &format_args!("{}, one per broker", cluster.broker_ports),
            );
            row("advertised host", &cluster.advertised_host);
        }
        if let Some(names) = cluster.describe_names() {
            row("server names", &names);
        }
        if let Some(peers) = cluster.describe_proxy_protocol() {
            row("PROXY headers", &peers);
        }
        if let Some(logins) = cluster.describe_logins() {
            row("logins", &logins);
        }
        if let Some(identity) = cluster.describe_broker_identity() {
            row("broker identity", &identity);
        }
        for (id, address) in &cluster.brokers {
            println!("  broker {id:<8} {address}, always open");
        }
        if let Some(access) = cluster.describe_access() {
            row("access", &access);
        }
        for filter in cluster.describe_filters() {
            row("filter", &filter);
        }
    }
    let row = |name: &str, value: &dyn Display| println!("{name:<17} {value}");
    let limits = &config.limits;
    row("admin", &config.admin.listen);
    row("event loops", &config.event_loops);
    let each = match limits.connections_per_address {
        0 => String::new(),
        max => format!(", {max} per address"),
    };
    row(
        "connections",
        &format_args!("at most {}{each}", limits.connections),
    );
    let (request, buffered) = (limits.request_bytes, limits.buffered_frame_bytes);
    let frames = format!("requests up to {request} bytes, buffered frames up to {buffered} bytes");
    row("frames", &frames);
    row("drain", &format_args!("{} ms", config.drain_timeout_ms));
}

fn certificate_end(cluster: &ClusterConfig) -> Option<i64> {
    let certificates = cluster.certificates();
    certificates
        .filter_map(|tls| tls.identity().not_after_unix_s())
        .min()
}

fn tls(is_used: bool) -> &'static str {
    if is_used {
        ", with TLS"
    } else {
        ", without TLS"
    }
}

fn upstream(cluster: &ClusterConfig) -> Vec<String> {
    cluster.upstream.iter().map(ToString::to_string).collect()
}
