//! The checked configuration.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_identity::acl::AclSet;
use weir_net::admin::AdminConfig;
use weir_net::otlp::OtlpConfig;
use weir_net::tls::{ClientTls, TlsAcceptor, TlsFiles};
use weir_net::watchdog::WatchdogConfig;

use super::address::{BrokerPorts, HostPort};
use super::origin::ConfigOrigin;
use super::proxy_protocol::ProxyProtocol;
use super::server_names::ServerNames;
use super::written::WrittenConfig;
use crate::broker_login::BrokerIdentity;
use crate::login::{CertificatePrincipals, ClusterLogins};
use crate::versions::{SASL_AUTHENTICATE, SASL_HANDSHAKE, SupportedVersions, is_of_broker_logins};
use weir_filters::{FilterChain, FilterLimits};
use weir_rules::AccessRules;
use weir_rules::audit::ProxyAuditConfig;

/// A checked configuration.
#[derive(Debug)]
pub struct ProxyConfig {
    /// Virtual clusters. Each has its own listeners.
    pub clusters: Vec<ClusterConfig>,
    /// Admin port.
    pub admin: AdminConfig,
    /// Audit log; `None`: nothing is recorded.
    pub(crate) audit: Option<ProxyAuditConfig>,
    /// Export to an OpenTelemetry collector; `None`: nothing is exported.
    pub otlp: Option<OtlpConfig>,
    /// Limits on the time an event loop may make no progress.
    pub watchdog: WatchdogConfig,
    /// Number of event loops, by default one per core.
    pub event_loops: usize,
    /// Number of threads for filter work that is too expensive for an event loop, default 2.
    pub filter_threads: usize,
    /// Milliseconds that in-flight requests have to complete at shutdown.
    pub drain_timeout_ms: u64,
    /// Milliseconds over which the ends of connections are spread whose API versions a reload does
    /// not support any more, default 30,000. 0: they end at once.
    pub reload_spread_ms: u64,
    /// Splices large response bodies that no filter reads inside the kernel; `false`: copies them.
    /// Default `true`.
    pub splice: bool,
    /// Reloads the configuration when its file has changed. Default `false`.
    pub watch_config: bool,
    /// Limits on the resources that peers can use.
    pub limits: ProxyLimits,
    /// Certificate and key files, which are reloaded when they change.
    pub tls_files: Vec<Arc<TlsFiles>>,
    /// Where it was read from.
    pub origin: ConfigOrigin,
    /// Its file as written.
    pub(crate) written: WrittenConfig,
}

impl ProxyConfig {
    /// Returns the certificate files of the clusters.
    pub(crate) fn cluster_files(&self) -> impl Iterator<Item = &Arc<TlsFiles>> {
        let of_admin = self.admin.files.as_ref();
        let files = self.tls_files.iter();
        files.filter(move |files| !of_admin.is_some_and(|admin| Arc::ptr_eq(admin, files)))
    }
}

/// One virtual cluster.
#[derive(Debug)]
pub struct ClusterConfig {
    /// Name in metrics and log messages.
    pub name: String,
    /// Bootstrap servers.
    pub upstream: Vec<HostPort>,
    /// Address that clients use as bootstrap server. If it is that of `names`, there is no other.
    pub listen: SocketAddr,
    /// Server names by which clients select the cluster and its brokers.
    pub names: Option<ServerNames>,
    /// Connections that begin with a PROXY header; `None`: none does.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// Connections to brokers begin with a PROXY header.
    pub sends_proxy_header: bool,
    /// Proxy ports of the brokers.
    pub broker_ports: BrokerPorts,
    /// Host name in advertised addresses.
    pub advertised_host: String,
    /// Node ids and addresses of brokers whose ports are always open.
    pub brokers: Vec<(i32, HostPort)>,
    /// Filters in their order.
    pub(crate) filters: Arc<FilterChain>,
    /// Logins of clients at the proxy.
    pub(crate) logins: Option<Arc<ClusterLogins>>,
    /// Principals of clients with certificates; `None`: certificates only admit.
    pub(crate) certificates: Option<Arc<CertificatePrincipals>>,
    /// Identity of the proxy at the brokers; `None`: that of the client passes.
    pub(crate) broker_identity: Option<Arc<BrokerIdentity>>,
    /// Access rules; `None` if the brokers alone decide.
    pub(crate) access: Option<Arc<AccessRules>>,
    /// TLS with clients.
    pub tls: Option<Arc<TlsAcceptor>>,
    /// TLS with brokers.
    pub upstream_tls: Option<ClientTls>,
}

impl ClusterConfig {
    /// Returns `true` if the cluster has a port for each broker.
    pub fn has_ports(&self) -> bool {
        let names = self.names.as_ref();
        names.is_none_or(|names| names.listen != self.listen)
    }

    /// Returns the server names and their address, if there are any.
    pub fn describe_names(&self) -> Option<String> {
        self.names.as_ref().map(ToString::to_string)
    }

    /// Returns which connections begin with a PROXY header, if any do.
    pub fn describe_proxy_protocol(&self) -> Option<String> {
        self.proxy_protocol.as_ref().map(ToString::to_string)
    }

    /// Returns the certificates that clients may get.
    pub fn certificates(&self) -> impl Iterator<Item = &TlsAcceptor> {
        let names = self.names.iter().flat_map(ServerNames::certificates);
        self.tls.as_deref().into_iter().chain(names)
    }

    /// Returns the certificate for clients that request `name`, if they use TLS.
    pub(crate) fn certificate(&self, name: Option<&str>) -> Option<&TlsAcceptor> {
        let own = self.names.as_ref().zip(name);
        let own = own.and_then(|(names, name)| names.certificate(name));
        own.or(self.tls.as_deref())
    }

    /// Returns the API versions that clients may use.
    pub(crate) fn supported_versions(&self) -> SupportedVersions {
        let limit = |key| {
            let by_filters = self.filters.version_max(key);
            let by_rules = self.access.as_ref().map(|_| AccessRules::version_max(key));
            let (has_logins, has_identity) =
                (self.logins.is_some(), self.broker_identity.is_some());
            let is_hidden = match key {
                // The proxy's own login is the only one on its connection.
                SASL_HANDSHAKE | SASL_AUTHENTICATE => has_identity && !has_logins,
                _ => (has_identity || has_logins) && is_of_broker_logins(key),
            };
            let by_logins = is_hidden.then_some(-1);
            by_filters
                .into_iter()
                .chain(by_rules)
                .chain(by_logins)
                .min()
        };
        let mut supported = SupportedVersions::new(limit);
        if self.access.is_some() {
            supported.raise(AccessRules::version_min);
        }
        supported
    }

    /// Returns the mode and the number of access rules, if there are any.
    pub fn describe_access(&self) -> Option<String> {
        let rules = self.access.as_ref()?;
        let mode = if rules.is_dry_run {
            "dry run"
        } else {
            "enforced"
        };
        Some(format!("{} rules, {mode}", rules.set.rules().len()))
    }

    /// Returns `true` if the access rules are the same.
    pub(crate) fn has_same_rules(&self, other: &Self) -> bool {
        let rules = |config: &Self| config.acl_set().map(Arc::clone);
        match (rules(self), rules(other)) {
            (Some(own), Some(others)) => own.rules() == others.rules(),
            (own, others) => own.is_none() && others.is_none(),
        }
    }

    /// Returns the access rules to explain them, if there are any.
    pub fn acl_set(&self) -> Option<&Arc<AclSet>> {
        self.access.as_ref().map(|rules| &rules.set)
    }

    /// Returns one human-readable line per filter.
    pub fn describe_filters(&self) -> Vec<String> {
        self.filters.describe()
    }

    /// Returns mechanisms and number of users if clients log in at the proxy.
    pub fn describe_logins(&self) -> Option<String> {
        self.logins.as_ref().map(|logins| logins.describe())
    }

    /// Returns mode and number of credentials if the proxy logs in at the brokers.
    pub fn describe_broker_identity(&self) -> Option<String> {
        self.broker_identity.as_ref().map(|one| one.describe())
    }

    /// Returns `true` if connections need login threads.
    pub(crate) fn has_login_threads(&self) -> bool {
        self.logins.is_some() || self.broker_identity.is_some()
    }

    /// Takes over the names of topics by id from an earlier configuration of the same brokers.
    pub(crate) fn keep_topic_names(&mut self, earlier: &Self) {
        // Not shared yet.
        if let Some(filters) = Arc::get_mut(&mut self.filters) {
            filters.names = Arc::clone(&earlier.filters.names);
        }
    }
}

/// Limits on the resources that peers can use. A metric shows the effect of each.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ProxyLimits {
    /// Client connections of the whole proxy, default 10,000. Each has one broker connection.
    pub connections: usize,
    /// Client connections per client address; 0 (default): no limit.
    pub connections_per_address: usize,
    /// Bytes of one request, default 100 MiB as in brokers.
    pub request_bytes: usize,
    /// Bytes of one buffered frame, default 100 MiB. Frames are buffered if their content may
    /// change.
    pub buffered_frame_bytes: usize,
    /// Bytes claimed for buffered frames of all connections. A frame claims twice its size.
    /// Connections wait while nothing is left. Default 256 MiB, at least twice
    /// `buffered_frame_bytes`.
    pub buffered_bytes: Option<usize>,
    /// Bytes to which one filtered batch may decompress or grow, default 32 MiB.
    pub batch_bytes: usize,
    /// Bytes to which all batches of one filtered frame may decompress or grow, default 256 MiB.
    pub filter_bytes: usize,
    /// Records of one filtered frame, default 1,000,000.
    pub filter_records: usize,
    /// Milliseconds of CPU time for one filtered frame, default 2,000.
    pub filter_ms: u64,
    /// In-flight requests of one connection, default 1,000. Further requests are not read.
    pub in_flight_requests: usize,
    /// Milliseconds for the TLS handshake and the start of the first request, default 10,000.
    pub handshake_timeout_ms: u64,
    /// Milliseconds in which a partly received request must make progress, default 30,000. Also the
    /// time for which a frame may keep memory while others wait for it.
    pub frame_ms: u64,
    /// Milliseconds to connect to a broker, default 10,000.
    pub connect_timeout_ms: u64,
    /// Milliseconds after which connections that wait for a broker are closed if the broker does
    /// not respond to probes either, default 10,000.
    pub response_ms: u64,
    /// Milliseconds without traffic after which a connection is closed, default 660,000; 0: never.
    /// Brokers close idle connections after 600,000, so they close first.
    pub idle_timeout_ms: u64,
}

impl Default for ProxyLimits {
    fn default() -> Self {
        let filters = FilterLimits::default();
        Self {
            connections: 10_000,
            connections_per_address: 0,
            request_bytes: 100 << 20,
            buffered_frame_bytes: 100 << 20,
            buffered_bytes: None,
            batch_bytes: filters.batch_bytes,
            filter_bytes: filters.frame_bytes,
            filter_records: filters.frame_records,
            filter_ms: filters.frame_cpu.as_millis() as u64,
            in_flight_requests: 1_000,
            handshake_timeout_ms: 10_000,
            frame_ms: 30_000,
            connect_timeout_ms: 10_000,
            response_ms: 10_000,
            idle_timeout_ms: 660_000,
        }
    }
}

impl ProxyLimits {
    /// Returns the bytes for buffered frames.
    pub fn buffered(&self) -> usize {
        let min = self.buffered_frame_bytes.saturating_mul(2);
        self.buffered_bytes
            .unwrap_or_else(|| min.max(BUFFERED_BYTES))
    }

    pub(crate) fn filters(&self) -> FilterLimits {
        FilterLimits {
            batch_bytes: self.batch_bytes,
            frame_bytes: self.filter_bytes,
            frame_records: self.filter_records,
            frame_cpu: Duration::from_millis(self.filter_ms),
        }
    }
}

const BUFFERED_BYTES: usize = 256 << 20;
