//! The raw configuration file and its checks.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use weir_net::watchdog::WatchdogConfig;

use super::source::ConfigSource;
use super::tls::{RawAdminTls, RawClientTls, RawServerTls};
use super::{BrokerPorts, ClusterConfig, HostPort, ProxyConfig, ProxyLimits};
use crate::error::ProxyError;
use crate::filter::{FilterChain, FilterConfig};
use crate::tls::TlsFiles;

/// Values from the command line that replace values of the file.
#[derive(Debug, Clone, Default)]
pub struct CliOverrides {
    /// `--upstream`: bootstrap servers; no file is needed.
    pub upstream: Option<String>,
    /// `--listen`: listen address.
    pub listen: Option<SocketAddr>,
    /// `--advertised-host`: host name in advertised addresses.
    pub advertised_host: Option<String>,
    /// `--admin`: address of the admin port.
    pub admin: Option<SocketAddr>,
    /// `--event-loops`: number of event loops.
    pub event_loops: Option<usize>,
}

/// `proxy.toml` as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawFile {
    event_loops: Option<usize>,
    filter_threads: Option<usize>,
    drain_timeout_ms: Option<u64>,
    splice: Option<bool>,
    admin: RawAdmin,
    watchdog: RawWatchdog,
    limits: ProxyLimits,
    cluster: Vec<RawCluster>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawAdmin {
    listen: Option<SocketAddr>,
    token: Option<String>,
    hosts: Vec<String>,
    tls: Option<RawAdminTls>,
}

/// The table `[watchdog]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawWatchdog {
    stall_ms: u64,
    dead_ms: u64,
}

impl Default for RawWatchdog {
    fn default() -> Self {
        let WatchdogConfig { stall_ms, dead_ms } = WatchdogConfig::default();
        Self { stall_ms, dead_ms }
    }
}

/// One table `[[cluster]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawCluster {
    name: Option<String>,
    upstream: Option<OneOrMore>,
    listen: Option<SocketAddr>,
    advertised_host: Option<String>,
    broker_ports: Option<String>,
    advertised_first_port: Option<u16>,
    brokers: BTreeMap<String, String>,
    filter: Vec<FilterConfig>,
    tls: Option<RawServerTls>,
    upstream_tls: Option<RawClientTls>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl ProxyConfig {
    /// Reads the file, if any, applies the overrides and checks the result.
    ///
    /// # Errors
    /// The first error, with file, key, value and remedy.
    pub fn load(file: Option<&Path>, overrides: &CliOverrides) -> Result<Self, ProxyError> {
        load(file, overrides)
    }
}

fn load(file: Option<&Path>, overrides: &CliOverrides) -> Result<ProxyConfig, ProxyError> {
    let mut raw = file.map_or_else(|| Ok(RawFile::default()), read)?;
    let source = ConfigSource {
        name: file.map_or_else(
            || "command line".to_owned(),
            |file| file.display().to_string(),
        ),
        directory: file.and_then(Path::parent).unwrap_or_else(|| Path::new("")),
    };
    apply(&mut raw, overrides, &source)?;
    let mut clusters = Vec::with_capacity(raw.cluster.len());
    let mut tls_files = Vec::new();
    for (index, cluster) in raw.cluster.into_iter().enumerate() {
        clusters.push(check_cluster(cluster, index, &source, &mut tls_files)?);
    }
    let admin_tls = match raw.admin.tls {
        None => None,
        Some(tls) => {
            let (acceptor, files) = tls.open(&source)?;
            tls_files.push(files);
            Some(acceptor)
        }
    };
    let config = ProxyConfig {
        admin_hosts: raw.admin.hosts,
        admin_tls,
        watchdog: WatchdogConfig {
            stall_ms: raw.watchdog.stall_ms,
            dead_ms: raw.watchdog.dead_ms,
        },
        clusters,
        admin: overrides
            .admin
            .or(raw.admin.listen)
            .unwrap_or(DEFAULT_ADMIN),
        admin_token: raw.admin.token.filter(|token| !token.is_empty()),
        event_loops: overrides
            .event_loops
            .or(raw.event_loops)
            .unwrap_or_else(cores),
        filter_threads: raw.filter_threads.unwrap_or(2),
        drain_timeout_ms: raw.drain_timeout_ms.unwrap_or(10_000),
        splice: raw.splice.unwrap_or(true),
        limits: raw.limits,
        tls_files,
    };
    check(&config, &source)?;
    Ok(config)
}

fn read(path: &Path) -> Result<RawFile, ProxyError> {
    let text = std::fs::read_to_string(path).map_err(|error| ProxyError::Read {
        path: path.to_owned(),
        error,
    })?;
    toml::from_str(&text).map_err(|error| ProxyError::Config {
        file: path.display().to_string(),
        reason: error.to_string().trim_end().to_owned(),
    })
}

/// Applies the command line to the only cluster.
fn apply(
    raw: &mut RawFile,
    overrides: &CliOverrides,
    source: &ConfigSource<'_>,
) -> Result<(), ProxyError> {
    if let Some(upstream) = &overrides.upstream {
        if !raw.cluster.is_empty() {
            return Err(source.error(
                "--upstream is for use without [[cluster]] tables: remove it or the tables",
            ));
        }
        raw.cluster.push(RawCluster {
            upstream: Some(OneOrMore::One(upstream.clone())),
            ..RawCluster::default()
        });
    }
    let given = overrides.listen.is_some() || overrides.advertised_host.is_some();
    match &mut raw.cluster[..] {
        [only] => {
            only.listen = overrides.listen.or(only.listen);
            let host = overrides.advertised_host.clone();
            only.advertised_host = host.or_else(|| only.advertised_host.take());
            Ok(())
        }
        [] => Err(source.error("no cluster: give --upstream HOST:PORT or a [[cluster]] table")),
        [..] if given => Err(source.error(
            "--listen and --advertised-host need exactly one cluster: \
             set listen and advertised_host in each [[cluster]] table",
        )),
        [..] => Ok(()),
    }
}

fn check_cluster(
    raw: RawCluster,
    index: usize,
    source: &ConfigSource<'_>,
    tls_files: &mut Vec<TlsFiles>,
) -> Result<ClusterConfig, ProxyError> {
    let name = raw.name.unwrap_or_else(|| match index {
        0 => "default".to_owned(),
        _ => format!("cluster{}", index + 1),
    });
    let wrong = |reason: String| source.error(format!("cluster \"{name}\": {reason}"));
    let word = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || name.len() > 64 || !name.bytes().all(word) {
        return Err(wrong(
            "name: use 1 to 64 letters, digits, dots, dashes and underscores".into(),
        ));
    }
    let upstream = match raw.upstream {
        Some(OneOrMore::One(list)) => list.split(',').map(|one| one.trim().to_owned()).collect(),
        Some(OneOrMore::More(list)) => list,
        None => Vec::new(),
    };
    let upstream: Result<Vec<_>, _> = upstream.iter().map(|one| HostPort::parse(one)).collect();
    let upstream = upstream.map_err(|reason| wrong(format!("upstream = {reason}")))?;
    if upstream.is_empty() {
        return Err(wrong(
            "upstream is missing: set it to HOST:PORT of a broker".into(),
        ));
    }
    let listen = raw.listen.unwrap_or(DEFAULT_LISTEN);
    let broker_ports = ports(
        listen,
        raw.broker_ports.as_deref(),
        raw.advertised_first_port,
    )
    .map_err(wrong)?;
    let mut brokers = Vec::new();
    for (id, address) in &raw.brokers {
        let id = id.parse::<i32>().ok().filter(|id| *id >= 0);
        let id = id.ok_or_else(|| wrong("brokers: use node ids as keys".into()))?;
        let address = HostPort::parse(address);
        brokers.push((
            id,
            address.map_err(|reason| wrong(format!("brokers.{id} = {reason}")))?,
        ));
    }
    let advertised_host = match raw.advertised_host {
        Some(host) if host.is_empty() || host.len() > 255 || host.contains(char::is_whitespace) => {
            return Err(wrong(format!(
                "advertised_host = \"{host}\": use a host name or address"
            )));
        }
        Some(host) => host,
        None if listen.ip().is_unspecified() => {
            return Err(wrong(format!(
                "listen = {listen} is not an address that clients can use: set advertised_host"
            )));
        }
        None => listen.ip().to_string(),
    };
    let filters = FilterChain::new(&raw.filter).map_err(|error| wrong(error.to_string()))?;
    let tls = raw.tls.map(|tls| tls.open(&name, source)).transpose()?;
    let upstream_tls = raw.upstream_tls.map(|tls| tls.open(&name, source));
    let (tls, files) = tls.unzip();
    let (upstream_tls, upstream_files) = upstream_tls.transpose()?.unzip();
    tls_files.extend([files, upstream_files].into_iter().flatten().flatten());
    Ok(ClusterConfig {
        upstream,
        listen,
        broker_ports,
        advertised_host,
        brokers,
        filters: Arc::new(filters),
        tls,
        upstream_tls,
        name,
    })
}

fn ports(
    listen: SocketAddr,
    range: Option<&str>,
    advertised_first: Option<u16>,
) -> Result<BrokerPorts, String> {
    let (first, last) = match range {
        None if listen.port() == 0 => {
            return match advertised_first {
                None => Ok(BrokerPorts::Free),
                Some(port) => Err(format!("advertised_first_port = {port} needs broker_ports")),
            };
        }
        None => {
            let first = listen.port().checked_add(1);
            let first = first.ok_or("listen: no port above it is left for brokers")?;
            (first, first.saturating_add(DEFAULT_PORTS - 1))
        }
        Some(text) => {
            let parts = text.split_once('-');
            let parts = parts.map(|(from, to)| (from.trim().parse(), to.trim().parse()));
            match parts {
                Some((Ok(first), Ok(last))) if first > 0 && first <= last => (first, last),
                _ => {
                    return Err(format!(
                        "broker_ports = \"{text}\": write FIRST-LAST, such as 9193-9292"
                    ));
                }
            }
        }
    };
    if (first..=last).contains(&listen.port()) {
        return Err(format!(
            "broker_ports = {first}-{last} contains the port of listen = {listen}: \
             use another range"
        ));
    }
    let count = last - first + 1;
    let advertised_first = advertised_first.unwrap_or(first);
    if advertised_first == 0 || advertised_first.checked_add(count - 1).is_none() {
        return Err(format!(
            "advertised_first_port = {advertised_first}: too high for {count} ports, \
             use at most {}",
            65_536 - u32::from(count)
        ));
    }
    Ok(BrokerPorts::Range {
        first,
        count,
        advertised_first,
    })
}

fn check(config: &ProxyConfig, source: &ConfigSource<'_>) -> Result<(), ProxyError> {
    for (index, cluster) in config.clusters.iter().enumerate() {
        for other in &config.clusters[..index] {
            let (name, theirs) = (&cluster.name, &other.name);
            if name == theirs {
                return Err(
                    source.error(format!("cluster \"{name}\" is defined twice: rename one"))
                );
            }
            if overlap(cluster, other) {
                return Err(source.error(format!(
                    "clusters \"{theirs}\" and \"{name}\" share a port: \
                     set separate listen and broker_ports"
                )));
            }
        }
    }
    if !(1..=256).contains(&config.event_loops) {
        return Err(source.error(format!(
            "event_loops = {}: use 1 to 256",
            config.event_loops
        )));
    }
    if !config.admin.ip().is_loopback() && config.admin_token.is_none() {
        let admin = config.admin;
        return Err(source.error(format!(
            "admin.listen = {admin} is not a loopback address: set admin.token, or use 127.0.0.1"
        )));
    }
    let WatchdogConfig { stall_ms, dead_ms } = config.watchdog;
    if !(100..=600_000).contains(&stall_ms) || !(stall_ms..=600_000).contains(&dead_ms) {
        return Err(source.error(format!(
            "watchdog: stall_ms = {stall_ms}, dead_ms = {dead_ms}: \
             use 100 to 600000, dead_ms at least stall_ms"
        )));
    }
    let limits = &config.limits;
    let ranges = [
        (
            "limits.connections",
            limits.connections as u64,
            1,
            10_000_000,
        ),
        (
            "limits.request_bytes",
            limits.request_bytes as u64,
            1024,
            1 << 30,
        ),
        (
            "limits.buffered_frame_bytes",
            limits.buffered_frame_bytes as u64,
            64 << 10,
            1 << 30,
        ),
        (
            "limits.buffered_bytes",
            limits.buffered() as u64,
            2 * limits.buffered_frame_bytes as u64,
            1 << 40,
        ),
        (
            "limits.batch_bytes",
            limits.batch_bytes as u64,
            64 << 10,
            1 << 30,
        ),
        (
            "limits.filter_bytes",
            limits.filter_bytes as u64,
            limits.batch_bytes as u64,
            1 << 30,
        ),
        (
            "limits.filter_records",
            limits.filter_records as u64,
            1_000,
            100_000_000,
        ),
        ("limits.filter_ms", limits.filter_ms, 10, 600_000),
        ("limits.frame_ms", limits.frame_ms, 100, 600_000),
        ("filter_threads", config.filter_threads as u64, 1, 256),
        (
            "limits.in_flight_requests",
            limits.in_flight_requests as u64,
            1,
            100_000,
        ),
        (
            "limits.handshake_timeout_ms",
            limits.handshake_timeout_ms,
            100,
            600_000,
        ),
        (
            "limits.connect_timeout_ms",
            limits.connect_timeout_ms,
            100,
            600_000,
        ),
        ("limits.response_ms", limits.response_ms, 100, 600_000),
        ("drain_timeout_ms", config.drain_timeout_ms, 0, 600_000),
    ];
    for (key, value, min, max) in ranges {
        if !(min..=max).contains(&value) {
            return Err(source.error(format!("{key} = {value}: use {min} to {max}")));
        }
    }
    Ok(())
}

/// Returns `true` if two clusters would listen on the same port.
fn overlap(one: &ClusterConfig, other: &ClusterConfig) -> bool {
    let ranges = |cluster: &ClusterConfig| {
        let own = (cluster.listen.port(), cluster.listen.port());
        match cluster.broker_ports {
            BrokerPorts::Free => [own, own],
            BrokerPorts::Range { first, count, .. } => [own, (first, first + (count - 1))],
        }
    };
    let (ip, other_ip) = (one.listen.ip(), other.listen.ip());
    let same_host = ip == other_ip || ip.is_unspecified() || other_ip.is_unspecified();
    same_host
        && ranges(one).iter().any(|(from, to)| {
            let theirs = ranges(other);
            theirs.iter().any(|(a, b)| *a != 0 && from <= b && a <= to)
        })
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9192);
const DEFAULT_ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9190);
/// Default number of broker ports.
const DEFAULT_PORTS: u16 = 100;
