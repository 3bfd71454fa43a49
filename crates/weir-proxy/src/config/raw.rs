//! The file as written, and its checks.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use weir_net::watchdog::WatchdogConfig;

use super::tls::{RawAdminTls, RawClientTls, RawServerTls};
use super::{BrokerPorts, ClusterConfig, HostPort, ProxyConfig, ProxyLimits};
use crate::error::ProxyError;
use crate::filter::{FilterChain, FilterConfig};
use crate::tls::TlsFiles;

/// What the command line may say.
#[derive(Debug, Clone, Default)]
pub struct CliOverrides {
    /// `--upstream`: brokers to begin with; with it no file is needed.
    pub upstream: Option<String>,
    /// `--listen`
    pub listen: Option<SocketAddr>,
    /// `--advertised-host`
    pub advertised_host: Option<String>,
    /// `--admin`
    pub admin: Option<SocketAddr>,
    /// `--loops`
    pub loops: Option<usize>,
}

/// `proxy.toml` as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawFile {
    loops: Option<usize>,
    filter_threads: Option<usize>,
    drain_ms: Option<u64>,
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

/// `[watchdog]`
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

/// One `[[cluster]]`.
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

pub(super) fn load(
    file: Option<&Path>,
    overrides: &CliOverrides,
) -> Result<ProxyConfig, ProxyError> {
    let mut raw = file.map_or_else(|| Ok(RawFile::default()), read)?;
    let source = ConfigSource {
        name: file.map_or_else(
            || "command line".to_owned(),
            |file| file.display().to_string(),
        ),
        folder: file.and_then(Path::parent).unwrap_or_else(|| Path::new("")),
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
        loops: overrides.loops.or(raw.loops).unwrap_or_else(cores),
        filter_threads: raw.filter_threads.unwrap_or(2),
        drain_ms: raw.drain_ms.unwrap_or(10_000),
        splice: raw.splice.unwrap_or(true),
        limits: raw.limits,
        tls_files,
    };
    check(&config, &source)?;
    Ok(config)
}

/// Where a setting comes from.
pub(super) struct ConfigSource<'a> {
    pub(super) name: String,
    /// Where relative paths begin.
    pub(super) folder: &'a Path,
}

impl ConfigSource<'_> {
    pub(super) fn wrong(&self, reason: impl Into<String>) -> ProxyError {
        ProxyError::Config {
            file: self.name.clone(),
            reason: reason.into(),
        }
    }
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

/// What the command line says about the only cluster.
fn apply(
    raw: &mut RawFile,
    overrides: &CliOverrides,
    source: &ConfigSource<'_>,
) -> Result<(), ProxyError> {
    if let Some(upstream) = &overrides.upstream {
        if !raw.cluster.is_empty() {
            return Err(source.wrong(
                "--upstream goes without a file, or with one that has no [[cluster]]: leave it out",
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
        [] => Err(source.wrong("no cluster: give --upstream HOST:PORT or a [[cluster]] table")),
        [..] if given => Err(source.wrong(
            "--listen and --advertised-host are for one cluster: say it in the [[cluster]] tables",
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
    let wrong = |reason: String| source.wrong(format!("cluster \"{name}\": {reason}"));
    let word = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || name.len() > 64 || !name.bytes().all(word) {
        return Err(wrong(
            "name: use up to 64 letters, digits, dots, dashes and underscores".into(),
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
            "upstream is missing: name a broker, HOST:PORT".into(),
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
        let id = id.ok_or_else(|| wrong("brokers: use numbers of brokers as keys".into()))?;
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
                "listen = {listen} is no address that clients can use: set advertised_host"
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
            let first = first.ok_or("listen: no port is left behind it for brokers")?;
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
            "broker_ports = {first}-{last} contain the port of listen = {listen}: use others"
        ));
    }
    let count = last - first + 1;
    let advertised_first = advertised_first.unwrap_or(first);
    if advertised_first == 0 || advertised_first.checked_add(count - 1).is_none() {
        return Err(format!(
            "advertised_first_port = {advertised_first}: {count} ports must exist from there on"
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
                    source.wrong(format!("cluster \"{name}\" is defined twice: rename one"))
                );
            }
            if overlap(cluster, other) {
                return Err(source.wrong(format!(
                    "clusters \"{theirs}\" and \"{name}\" share a port: give each listen and \
                     broker_ports of its own"
                )));
            }
        }
    }
    if !(1..=256).contains(&config.loops) {
        return Err(source.wrong(format!("loops = {}: use 1 to 256", config.loops)));
    }
    if !config.admin.ip().is_loopback() && config.admin_token.is_none() {
        let admin = config.admin;
        return Err(source.wrong(format!(
            "admin listens on {admin}, which others can reach: set admin.token, or use 127.0.0.1"
        )));
    }
    let WatchdogConfig { stall_ms, dead_ms } = config.watchdog;
    if !(100..=600_000).contains(&stall_ms) || !(stall_ms..=600_000).contains(&dead_ms) {
        return Err(source.wrong(format!(
            "watchdog: stall_ms = {stall_ms}, dead_ms = {dead_ms}: use 100 to 600000, dead_ms no less than stall_ms"
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
            "limits.held_bytes",
            limits.held_bytes as u64,
            64 << 10,
            1 << 30,
        ),
        (
            "limits.buffered_bytes",
            limits.buffered() as u64,
            2 * limits.held_bytes as u64,
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
        ("limits.in_flight", limits.in_flight as u64, 1, 100_000),
        ("limits.handshake_ms", limits.handshake_ms, 100, 600_000),
        ("limits.connect_ms", limits.connect_ms, 100, 600_000),
        ("limits.response_ms", limits.response_ms, 100, 600_000),
        ("drain_ms", config.drain_ms, 0, 600_000),
    ];
    for (key, value, least, most) in ranges {
        if !(least..=most).contains(&value) {
            return Err(source.wrong(format!("{key} = {value}: use {least} to {most}")));
        }
    }
    Ok(())
}

/// Whether two clusters would listen on the same port.
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
/// Ports for brokers unless told otherwise.
const DEFAULT_PORTS: u16 = 100;
