//! The raw configuration file and its checks.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use weir_net::admin::AdminTable;
use weir_net::otlp::OtlpTable;
use weir_net::tls::{ServerFiles, TlsFiles};
use weir_net::watchdog::WatchdogConfig;

use super::address::HostPortError;
use super::name_conflicts::conflict_of_names;
use super::origin::{CliOverrides, ConfigOrigin};
use super::proxy_protocol::{ProxyProtocol, ProxyProtocolMode};
use super::server_names::RawServerNames;
use super::tls::UpstreamTls;
use super::written::WrittenConfig;
use super::{BrokerPorts, ClusterConfig, HostPort, ProxyConfig, ProxyLimits};
use crate::broker_login::RawBrokerIdentity;
use crate::error::ProxyError;
use crate::login::{RawCertificatePrincipals, RawIdentity};
use weir_filters::{FilterChain, FilterConfig};
use weir_rules::AclConfig;
use weir_rules::audit::RawAudit;

/// `proxy.toml` as written.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawFile {
    /// Number of event loops, by default one per core.
    event_loops: usize,
    /// Threads for filter work that is too expensive for an event loop.
    filter_threads: usize,
    /// Milliseconds that in-flight requests have to complete at shutdown.
    drain_timeout_ms: u64,
    /// Milliseconds over which the ends of connections are spread that a reload concerns; 0: they
    /// end at once.
    reload_spread_ms: u64,
    /// Splices large responses that no filter reads inside the kernel; `false`: copies them.
    splice: bool,
    /// Reloads the configuration when this file has changed.
    watch_config: bool,
    /// Admin port.
    admin: AdminTable,
    /// Audit log; without this table nothing is recorded.
    audit: Option<RawAudit>,
    /// Export to an OpenTelemetry collector, in builds with the feature otlp.
    otlp: Option<OtlpTable>,
    /// Limits on the time an event loop may make no progress.
    watchdog: WatchdogConfig,
    /// Limits on the resources that peers can use.
    limits: ProxyLimits,
    /// Virtual clusters.
    cluster: Vec<RawCluster>,
}

impl Default for RawFile {
    fn default() -> Self {
        Self {
            event_loops: std::thread::available_parallelism().map_or(1, usize::from),
            filter_threads: 2,
            drain_timeout_ms: 10_000,
            reload_spread_ms: 30_000,
            splice: true,
            watch_config: false,
            admin: AdminTable::default(),
            audit: None,
            otlp: None,
            watchdog: WatchdogConfig::default(),
            limits: ProxyLimits::default(),
            cluster: Vec::new(),
        }
    }
}

/// One table `[[cluster]]`.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
struct RawCluster {
    /// Name in metrics and log messages.
    name: Option<String>,
    /// Bootstrap servers of the brokers.
    upstream: Upstream,
    /// Address that clients use as bootstrap server, by default 127.0.0.1:9192.
    listen: Option<SocketAddr>,
    /// Host name in advertised addresses; required if `listen` has no specific address.
    advertised_host: Option<String>,
    /// Ports of the brokers as FIRST-LAST, by default the 100 ports after `listen`.
    broker_ports: Option<String>,
    /// First advertised port if ports are mapped between client and proxy.
    advertised_first_port: Option<u16>,
    /// Brokers whose ports are always open: node id and address.
    brokers: BTreeMap<String, HostPort>,
    /// Filters in their order.
    filter: Vec<FilterConfig>,
    /// Logins of clients at the proxy.
    identity: Option<RawIdentity>,
    /// Principals of clients with certificates.
    certificate_principals: Option<RawCertificatePrincipals>,
    /// Identity of the proxy at the brokers; without this table, that of the client passes.
    broker_identity: Option<RawBrokerIdentity>,
    /// Access rules; without this table, the brokers alone decide.
    access: Option<AclConfig>,
    /// Connections that begin with a PROXY header.
    proxy_protocol: Option<ProxyProtocolMode>,
    /// Addresses or networks of the load balancers that send PROXY headers.
    trusted: Vec<String>,
    /// Begins connections to brokers with a PROXY header, for another proxy in front of them.
    upstream_proxy_protocol: bool,
    /// Server names by which clients select the cluster and its brokers.
    sni: Option<RawServerNames>,
    /// TLS with clients.
    tls: Option<ServerFiles>,
    /// TLS with brokers.
    upstream_tls: Option<UpstreamTls>,
}

/// Bootstrap servers as a list, or as one text with commas.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(try_from = "RawUpstream")]
struct Upstream(Vec<HostPort>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum RawUpstream {
    One(String),
    More(Vec<String>),
}

impl TryFrom<RawUpstream> for Upstream {
    type Error = HostPortError;

    fn try_from(raw: RawUpstream) -> Result<Self, HostPortError> {
        let list: Vec<String> = match raw {
            RawUpstream::One(list) => list.split(',').map(|one| one.trim().to_owned()).collect(),
            RawUpstream::More(list) => list,
        };
        let list: Result<_, _> = list.into_iter().map(HostPort::try_from).collect();
        list.map(Self)
    }
}

/// Origin of the configuration, for messages and relative paths.
struct ConfigSource<'a> {
    name: String,
    directory: &'a Path,
}

impl ConfigSource<'_> {
    fn error(&self, reason: impl ToString) -> ProxyError {
        ProxyError::Config {
            file: self.name.clone(),
            reason: reason.to_string(),
        }
    }
}

impl ProxyConfig {
    /// Reads the file, if any, applies the overrides and checks the result.
    ///
    /// # Errors
    /// The first error, with file, key, value and remedy.
    pub fn load(file: Option<&Path>, overrides: &CliOverrides) -> Result<Self, ProxyError> {
        let source = ConfigSource {
            name: file.map_or_else(
                || "command line".to_owned(),
                |file| file.display().to_string(),
            ),
            directory: file.and_then(Path::parent).unwrap_or_else(|| Path::new("")),
        };
        let (mut raw, text) = match file {
            Some(file) => read(file, &source)?,
            None => (RawFile::default(), String::new()),
        };
        apply(&mut raw, overrides, &source)?;
        let mut clusters = Vec::with_capacity(raw.cluster.len());
        let mut tls_files = Vec::new();
        for (index, cluster) in raw.cluster.into_iter().enumerate() {
            let cluster = check_cluster(cluster, index, &source, &mut tls_files)?;
            check_apart(&clusters, &cluster, &source)?;
            clusters.push(cluster);
        }
        let admin =
            raw.admin
                .open_without_sessions(overrides.admin, DEFAULT_ADMIN, source.directory);
        let admin = admin.map_err(|error| source.error(error))?;
        tls_files.extend(admin.files.clone());
        let audit = raw.audit.map(|audit| audit.check(source.directory));
        let audit = audit.transpose().map_err(|error| source.error(error))?;
        let env = |name: &str| std::env::var(name).ok();
        let otlp = OtlpTable::open(raw.otlp, "weir-proxy", source.directory, env);
        let otlp = otlp.map_err(|error| source.error(error))?;
        raw.limits.buffered_bytes = Some(raw.limits.buffered());
        let names = clusters.iter().map(|cluster| cluster.name.as_str());
        let written = WrittenConfig::read(&text, names);
        let config = Self {
            admin,
            audit,
            otlp,
            watchdog: raw.watchdog,
            clusters,
            event_loops: overrides.event_loops.unwrap_or(raw.event_loops),
            filter_threads: raw.filter_threads,
            drain_timeout_ms: raw.drain_timeout_ms,
            reload_spread_ms: raw.reload_spread_ms,
            splice: raw.splice,
            watch_config: raw.watch_config,
            origin: ConfigOrigin::new(file, overrides),
            written,
            limits: raw.limits,
            tls_files,
        };
        check_ranges(&config, &source)?;
        Ok(config)
    }
}

/// Reads the file. Returns it with its text.
fn read(path: &Path, source: &ConfigSource<'_>) -> Result<(RawFile, String), ProxyError> {
    let text = std::fs::read_to_string(path).map_err(|error| ProxyError::Read {
        path: path.to_owned(),
        error,
    })?;
    let raw = toml::from_str(&text);
    let raw = raw.map_err(|error| source.error(error.to_string().trim_end()))?;
    Ok((raw, text))
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
        let upstream = Upstream::try_from(RawUpstream::One(upstream.clone()));
        raw.cluster.push(RawCluster {
            upstream: upstream.map_err(|error| source.error(format!("--upstream = {error}")))?,
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
    tls_files: &mut Vec<Arc<TlsFiles>>,
) -> Result<ClusterConfig, ProxyError> {
    let name = raw.name.unwrap_or_else(|| match index {
        0 => "default".to_owned(),
        _ => format!("cluster{}", index + 1),
    });
    let wrong = |reason: &dyn Display| source.error(format!("cluster \"{name}\": {reason}"));
    let word = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || name.len() > 64 || !name.bytes().all(word) {
        return Err(wrong(
            &"name: use 1 to 64 letters, digits, dots, dashes and underscores",
        ));
    }
    let Upstream(upstream) = raw.upstream;
    if upstream.is_empty() {
        return Err(wrong(
            &"upstream is missing: set it to HOST:PORT of a broker",
        ));
    }
    let shared = raw.sni.as_ref().and_then(|names| names.listen);
    let listen = raw.listen.or(shared).unwrap_or(DEFAULT_LISTEN);
    let has_ports = raw.sni.is_none() || shared.is_some_and(|shared| shared != listen);
    let broker_ports = match (has_ports, raw.broker_ports, raw.advertised_first_port) {
        (true, range, first) => ports(listen, range, first),
        (false, None, None) => Ok(BrokerPorts::Free),
        (false, ..) => Err(PortsError::NamesOnly),
    };
    let broker_ports = broker_ports.map_err(|error| wrong(&error))?;
    let mut brokers = Vec::new();
    for (id, address) in raw.brokers {
        let id = id.parse::<i32>().ok().filter(|id| *id >= 0);
        let id = id.ok_or_else(|| wrong(&"brokers: use node ids as keys"))?;
        brokers.push((id, address));
    }
    let advertised_host = match raw.advertised_host {
        Some(host) if host.is_empty() || host.len() > 255 || host.contains(char::is_whitespace) => {
            let reason = format!("advertised_host = \"{host}\": use a host name or address");
            return Err(wrong(&reason));
        }
        Some(host) => host,
        None if listen.ip().is_unspecified() && has_ports => {
            let remedy = "is not an address that clients can use: set advertised_host";
            return Err(wrong(&format!("listen = {listen} {remedy}")));
        }
        None => listen.ip().to_string(),
    };
    let proxy_protocol = ProxyProtocol::new(raw.proxy_protocol, &raw.trusted);
    let proxy_protocol = proxy_protocol.map_err(|error| wrong(&error))?;
    let filters = FilterChain::new(&raw.filter).map_err(|error| wrong(&error))?;
    let access = raw.access.map(|access| access.build(source.directory));
    let access = access.transpose().map_err(|error| wrong(&error))?;
    let table = |key| format!("cluster \"{name}\", {key}");
    let unusable = |key, error: String| source.error(format!("{}: {error}", table(key)));
    let has_client_ca = raw.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
    let certificates = raw
        .certificate_principals
        .map(|principals| principals.build(has_client_ca))
        .transpose()
        .map_err(|error| unusable("certificate_principals", error.to_string()))?;
    let names = raw.sni.map(|names| {
        let files = (raw.tls.as_ref(), source.directory);
        names.open(&table("sni.certificate"), listen, files, tls_files)
    });
    let names = names.transpose().map_err(|error| wrong(&error))?;
    let tls = raw
        .tls
        .map(|tls| TlsFiles::server(table("tls"), tls.within(source.directory), None));
    let tls = tls
        .transpose()
        .map_err(|error| unusable("tls", error.to_string()))?;
    let upstream_files = raw.upstream_tls.map(|tls| tls.within(source.directory));
    let upstream_tls = upstream_files
        .clone()
        .map(|files| TlsFiles::client(table("upstream_tls"), files));
    let upstream_tls = upstream_tls.transpose();
    let upstream_tls = upstream_tls.map_err(|error| unusable("upstream_tls", error.to_string()))?;
    let logins = raw
        .identity
        .map(|identity| identity.open(tls.is_some(), source.directory));
    let logins = logins.transpose();
    let logins = logins.map_err(|error| unusable("identity", error.to_string()))?;
    let has_principals = logins.is_some() || certificates.is_some();
    let server = upstream
        .first()
        .map(HostPort::to_string)
        .unwrap_or_default();
    let identity = raw
        .broker_identity
        .map(|raw| raw.open(has_principals, upstream_files, &server, source.directory));
    let identity = identity.transpose();
    let identity = identity.map_err(|error| unusable("broker_identity", error.to_string()))?;
    let (tls, files) = tls.unzip();
    let (upstream_tls, upstream_files) = upstream_tls.unzip();
    let files = files.into_iter().chain(upstream_files.flatten());
    tls_files.extend(files.map(Arc::new));
    Ok(ClusterConfig {
        upstream,
        listen,
        names,
        proxy_protocol,
        sends_proxy_header: raw.upstream_proxy_protocol,
        broker_ports,
        advertised_host,
        brokers,
        filters: Arc::new(filters),
        logins: logins.map(Arc::new),
        certificates: certificates.map(Arc::new),
        broker_identity: identity.flatten().map(Arc::new),
        access: access.map(Arc::new),
        tls,
        upstream_tls,
        name,
    })
}

/// Ports that cannot be used for brokers.
#[derive(Debug, thiserror::Error)]
enum PortsError {
    #[error(
        "broker_ports and advertised_first_port have no effect if sni uses the address of listen: \
         remove them, or set another sni.listen"
    )]
    NamesOnly,
    #[error("advertised_first_port = {0} needs broker_ports")]
    NoRange(u16),
    #[error("listen: no port above it is left for brokers")]
    NoneLeft,
    #[error("broker_ports = \"{0}\": write FIRST-LAST, such as 9193-9292")]
    Syntax(String),
    #[error(
        "broker_ports = {first}-{last} contains the port of listen = {listen}: use another range"
    )]
    Overlap {
        first: u16,
        last: u16,
        listen: SocketAddr,
    },
    #[error(
        "advertised_first_port = {first}: too high for {count} ports, use at most {}",
        65_536 - u32::from(*.count)
    )]
    TooHigh { first: u16, count: u16 },
}

fn ports(
    listen: SocketAddr,
    range: Option<String>,
    advertised_first: Option<u16>,
) -> Result<BrokerPorts, PortsError> {
    let (first, last) = match range {
        None if listen.port() == 0 => {
            return match advertised_first {
                None => Ok(BrokerPorts::Free),
                Some(port) => Err(PortsError::NoRange(port)),
            };
        }
        None => {
            let first = listen.port().checked_add(1).ok_or(PortsError::NoneLeft)?;
            (first, first.saturating_add(DEFAULT_PORTS - 1))
        }
        Some(text) => {
            let parts = text.split_once('-');
            match parts.map(|(from, to)| (from.trim().parse(), to.trim().parse())) {
                Some((Ok(first), Ok(last))) if first > 0 && first <= last => (first, last),
                _ => return Err(PortsError::Syntax(text)),
            }
        }
    };
    if (first..=last).contains(&listen.port()) {
        return Err(PortsError::Overlap {
            first,
            last,
            listen,
        });
    }
    let count = last - first + 1;
    let advertised_first = advertised_first.unwrap_or(first);
    if advertised_first == 0 || advertised_first.checked_add(count - 1).is_none() {
        return Err(PortsError::TooHigh {
            first: advertised_first,
            count,
        });
    }
    Ok(BrokerPorts::Range {
        first,
        count,
        advertised_first,
    })
}

/// Checks that a cluster has its own name and ports.
fn check_apart(
    others: &[ClusterConfig],
    cluster: &ClusterConfig,
    source: &ConfigSource<'_>,
) -> Result<(), ProxyError> {
    let name = &cluster.name;
    for other in others {
        if other.name == *name {
            let reason = format!("cluster \"{name}\" is defined twice: rename one");
            return Err(source.error(reason));
        }
        if ListenRange::overlap(&ListenRange::all(cluster), &ListenRange::all(other)) {
            let theirs = &other.name;
            return Err(source.error(format!(
                "clusters \"{theirs}\" and \"{name}\" share a port: \
                 set separate listen and broker_ports"
            )));
        }
    }
    let [first, rest @ ..] = &ListenRange::all(cluster)[..] else {
        return Ok(());
    };
    // If there are names, they are the first.
    if cluster.has_ports() && ListenRange::overlap(&[*first], rest) {
        let reason = format!("cluster \"{name}\": sni.listen has a port of listen: set another");
        return Err(source.error(reason));
    }
    match conflict_of_names(others, cluster) {
        Some(reason) => Err(source.error(reason)),
        None => Ok(()),
    }
}

pub(super) const LIMIT_RANGES: [(&str, u64, u64); 13] = [
    ("connections", 1, 10_000_000),
    ("request_bytes", 1024, 1 << 30),
    ("buffered_frame_bytes", 64 << 10, 1 << 30),
    ("buffered_bytes", 128 << 10, 1 << 40),
    ("batch_bytes", 64 << 10, 1 << 30),
    ("filter_bytes", 64 << 10, 1 << 30),
    ("filter_records", 1_000, 100_000_000),
    ("filter_ms", 10, 600_000),
    ("frame_ms", 100, 600_000),
    ("in_flight_requests", 1, 100_000),
    ("handshake_timeout_ms", 100, 600_000),
    ("connect_timeout_ms", 100, 600_000),
    ("response_ms", 100, 600_000),
];

fn check_ranges(config: &ProxyConfig, source: &ConfigSource<'_>) -> Result<(), ProxyError> {
    let limits = &config.limits;
    // Invariant: all limits are numbers, and those with a range are set.
    let values = serde_json::to_value(limits).unwrap_or_default();
    let value = |key: &str| values[key].as_u64().unwrap_or(0);
    let of_limits = LIMIT_RANGES.map(|(key, min, max)| {
        let min = match key {
            "buffered_bytes" => 2 * value("buffered_frame_bytes"),
            "filter_bytes" => value("batch_bytes"),
            _ => min,
        };
        (format!("limits.{key}"), value(key), min, max)
    });
    let others = [
        ("event_loops", config.event_loops as u64, 1, 256),
        ("filter_threads", config.filter_threads as u64, 1, 256),
        ("drain_timeout_ms", config.drain_timeout_ms, 0, 600_000),
        ("reload_spread_ms", config.reload_spread_ms, 0, 3_600_000),
    ];
    let others = others.map(|(key, value, min, max)| (key.to_owned(), value, min, max));
    for (key, value, min, max) in of_limits.into_iter().chain(others) {
        if !(min..=max).contains(&value) {
            return Err(source.error(format!("{key} = {value}: use {min} to {max}")));
        }
    }
    Ok(())
}

/// Ports at which a cluster listens.
#[derive(Debug, Clone, Copy)]
struct ListenRange {
    ip: IpAddr,
    first: u16,
    last: u16,
    /// Clusters may share the address.
    is_shared: bool,
}

impl ListenRange {
    fn all(cluster: &ClusterConfig) -> Vec<Self> {
        let range = |address: SocketAddr, first, last| Self {
            ip: address.ip(),
            first,
            last,
            is_shared: false,
        };
        let one = |address: SocketAddr| range(address, address.port(), address.port());
        let names = cluster.names.as_ref().map(|names| Self {
            is_shared: true,
            ..one(names.listen)
        });
        let mut all: Vec<_> = names.into_iter().collect();
        if cluster.has_ports() {
            all.push(one(cluster.listen));
            if let BrokerPorts::Range { first, count, .. } = cluster.broker_ports {
                all.push(range(cluster.listen, first, first + (count - 1)));
            }
        }
        all
    }

    /// Returns `true` if two of the ranges have a port in common that cannot be shared.
    fn overlap(these: &[Self], others: &[Self]) -> bool {
        let mut pairs = these
            .iter()
            .flat_map(|one| others.iter().map(move |other| (one, other)));
        pairs.any(|(one, other)| {
            let same_host =
                one.ip == other.ip || one.ip.is_unspecified() || other.ip.is_unspecified();
            let is_shared = one.is_shared && other.is_shared && one.ip == other.ip;
            same_host
                && !is_shared
                && one.first != 0
                && one.first <= other.last
                && other.first <= one.last
        })
    }
}

const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9192);
const DEFAULT_ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9190);
const DEFAULT_PORTS: u16 = 100;
