//! Configuration of a gateway: `adapters.xml`, `gateway.toml`, command line and defaults.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use toml::Spanned;
use weir_adapter::{AdapterConfig, RawAdapterConfig};
use weir_identity::config::{RawAuth, RawAuthorize, RawMessage, RawSessionRule, TokenSource};
use weir_mapping::{
    ConfigReport, ConfigSource, ConnectionConfig, Location, Note, Parameter, ParseOptions,
    Severity, SnapshotMode,
};
use weir_net::admin::{AdminConfig, AdminTable};
use weir_net::otlp::{OtlpConfig, OtlpTable};
use weir_net::watchdog::WatchdogConfig;

use self::toml_lines::{all_errors, line_of, parameter_lines};
use crate::admission::Origins;
pub use crate::admission::PerAddress;
use crate::compression::CompressionConfig;
use crate::config_files::{missing_files, missing_log_file, unusable_schemas};
use crate::diffs::{DiffConfig, RawDiffs};
use crate::error::{GatewayError, InvalidConfig, in_file};
use crate::exposure::exposures;
use crate::lightstreamer_conf;
pub use crate::limits::GatewayLimits;
use crate::messages::{MessageConfig, MessageLimits};
use crate::shared_revocations;
pub use crate::simulator::SimulatorConfig;
use crate::tls::{TlsConfig, TlsFiles};
pub use weir_access::audit::AuditConfig;
use weir_access::audit::RawAudit;
use weir_access::{AccessConfig, RawAccess};
use weir_ingest::schemas::{ConnectionRegistry, SchemaRegistryConfig};
use weir_ingest::{ClientProperties, Cluster, KafkaTable};
use weir_ingest::{IdleRecords, KafkaConnection};
use weir_ingest::{StoreConfig, StoredRecords};

/// Remark on an adapter that gets passwords over a network.
const EXPOSED_ADAPTER: &str = "[adapter] sends passwords of clients over a network without TLS: \
    use a loopback address, or set certificate and key";
const DEFAULT_SET: &str = "KafkaConnector";
/// Sessions up to which one event loop costs less than two (bench/runs, plan `broadcast`).
const EVENT_LOOP_SESSIONS: usize = 1_000;
const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8080);
const DEFAULT_ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8090);

#[cfg(test)]
mod schema_tests;
mod toml_lines;

/// A checked configuration.
#[derive(Debug)]
pub struct GatewayConfig {
    /// Listen address for clients; port 0 selects a free port.
    pub listen: SocketAddr,
    /// Certificate and listen address for TLS; `None`: no TLS.
    pub tls: Option<TlsFiles>,
    /// Admin port.
    pub admin: AdminConfig,
    /// Audit log; `None`: none is written.
    pub audit: Option<AuditConfig>,
    /// Export to an OpenTelemetry collector; `None`: nothing is exported.
    pub otlp: Option<OtlpConfig>,
    pub(crate) watchdog: WatchdogConfig,
    /// Number of event loops; default one per core.
    pub event_loops: usize,
    /// Number of sessions that an event loop takes before the next one takes any; default 1,000.
    pub event_loop_sessions: usize,
    /// Adapter set name that clients send as `LS_adapter_set`.
    pub set_id: String,
    /// Kafka connections.
    pub connections: Vec<ConnectionConfig>,
    /// Settings of the Kafka client of each connection.
    pub clusters: Vec<Cluster>,
    /// Schema registry of each connection.
    pub registries: Vec<Option<ConnectionRegistry>>,
    /// Limits for clients.
    pub limits: GatewayLimits,
    /// Formats in which changed values may be sent; default none, so values are sent in full.
    pub diffs: DiffConfig,
    pub(crate) unknown_names: UnknownNames,
    /// Compression of WebSocket messages; default off.
    pub compression: CompressionConfig,
    pub(crate) allowed_origins: Origins,
    /// Identities and rights of clients; `None`: every client may do everything.
    pub access: Option<AccessConfig>,
    /// Item that configures the client simulator of Lightstreamer's load test; `None`: not served.
    pub simulator: Option<SimulatorConfig>,
    /// Remote Metadata Adapter; `None`: not used.
    pub adapter: Option<AdapterConfig>,
    /// Rules and limits of client messages; without rules, all are refused.
    pub messages: MessageConfig,
    /// Storage of last values of items without subscribers.
    pub last_values: LastValuesConfig,
    /// Milliseconds between the first subscription after a restart and reading from stored offsets.
    pub resume_delay_ms: u64,
    /// Records written while no item of a connection is subscribed; default: they are kept for the
    /// next subscriber.
    pub idle_records: IdleRecords,
    /// Maximum milliseconds at shutdown for sending pending bytes to clients.
    pub drain_timeout_ms: u64,
    /// Milliseconds at shutdown over which the ends of sessions are spread.
    pub drain_spread_ms: u64,
    /// Host, with or without port, to which clients send all requests after the first of a session.
    /// Needed behind a load balancer without session affinity.
    pub control_link: Option<String>,
    /// Names of fields found in records, by connection: for pages and tools, where a connection
    /// takes any field.
    pub example_fields: BTreeMap<String, Vec<String>>,
    /// Notes on the configuration files for the operator.
    pub notes: Vec<Note>,
}

/// `unknown_names`: the response to a subscription to an item that no topic can have, or to a field
/// that is not mapped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum UnknownNames {
    /// `REQERR`, so that the author of a misspelt name sees the error.
    #[default]
    Refuse,
    /// The item never gets updates, or the field stays null, as with the connector.
    Accept,
}

/// `[last_values]`: the last record of every item, so that the first subscriber gets it at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct LastValuesConfig {
    /// Maximum memory in bytes of all connections, default 0: no last values, and Kafka is read
    /// only while there are subscribers. Connections with `item.snapshot.enabled.mode` then share
    /// 256 MiB.
    pub memory_bytes: usize,
}

/// Default memory for snapshots.
const SNAPSHOT_BYTES: usize = 256 << 20;

impl LastValuesConfig {
    /// Returns what is stored of a connection, which is one of `all`.
    pub(crate) fn store_of(
        self,
        connection: &KafkaConnection,
        all: &[Arc<KafkaConnection>],
    ) -> StoreConfig {
        let config = &connection.config;
        let is_snapshot = |one: &&Arc<KafkaConnection>| one.config.snapshots.is_some();
        let share = match (self.memory_bytes, config.snapshots) {
            (0, Some(_)) => SNAPSHOT_BYTES / all.iter().filter(is_snapshot).count().max(1),
            (bytes, _) => bytes.div_ceil(all.len().max(1)),
        };
        let scope = match config.snapshots {
            Some(snapshots) => match snapshots.mode {
                SnapshotMode::Merge => StoredRecords::Last,
                SnapshotMode::Distinct => StoredRecords::Recent(snapshots.distinct_length),
                SnapshotMode::Command => StoredRecords::Rows,
            },
            // With enforced commands the items are tables, for which the last record is not a
            // state.
            None if config.mapping.command_mode().is_enforced() => return StoreConfig::default(),
            None => StoredRecords::Last,
        };
        StoreConfig {
            bytes: share,
            scope,
        }
    }
}

/// Options of the command line, which override the files.
#[derive(Debug, Clone, Default)]
pub struct CliOverrides {
    /// `--listen`
    pub listen: Option<SocketAddr>,
    /// `--admin`
    pub admin: Option<SocketAddr>,
    /// `--event-loops`
    pub event_loops: Option<usize>,
    /// `--lightstreamer-conf`: defaults for `[diffs]`.
    pub lightstreamer_conf: Option<PathBuf>,
    /// `--kafka-config` and `--kafka-property`, for all connections.
    pub kafka: ClientProperties,
    /// Text generated for `--topic` in place of a `gateway.toml`.
    pub generated: Option<String>,
    /// Names of fields found in records, by connection.
    pub example_fields: BTreeMap<String, Vec<String>>,
    /// `--kafka-reader`
    pub reader: Option<weir_kafka::ReaderChoice>,
}

/// `gateway.toml` as written.
#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
struct RawFile {
    /// Listen address for clients, default 0.0.0.0:8080.
    listen: Option<SocketAddr>,
    /// Number of event loops, default one per core.
    event_loops: Option<usize>,
    /// Sessions that an event loop takes before the next one takes any, default 1,000.
    event_loop_sessions: Option<usize>,
    /// Adapter set name that clients send, default that of `adapters.xml` or KafkaConnector.
    adapter_set: Option<String>,
    /// Milliseconds from the first subscription to reading from stored offsets, default 2,000.
    resume_delay_ms: Option<u64>,
    /// Records that are written while no item of a connection is subscribed.
    idle_records: IdleRecords,
    /// Maximum milliseconds at shutdown for sending pending bytes, default 5,000.
    drain_timeout_ms: Option<u64>,
    /// Milliseconds over which the ends of sessions are spread at shutdown, default 1,000.
    drain_spread_ms: Option<u64>,
    /// Host, HOST:PORT or URL to which clients send all requests after the first of a session.
    #[serde(deserialize_with = "control_link")]
    control_link: Option<String>,
    /// Admin port.
    admin: AdminTable,
    /// Audit log.
    audit: Option<RawAudit>,
    /// Export to an OpenTelemetry collector, in builds with the feature otlp.
    otlp: Option<OtlpTable>,
    /// Limits on the time an event loop may make no progress.
    watchdog: WatchdogConfig,
    /// TLS with clients.
    tls: Option<TlsConfig>,
    /// Limits for clients.
    limits: GatewayLimits,
    /// Response to a subscription to an unknown item or field.
    unknown_names: UnknownNames,
    /// The last record of every item, stored for the first subscriber.
    last_values: LastValuesConfig,
    /// Formats in which changed values may be sent.
    diffs: RawDiffs,
    /// Compression of WebSocket messages.
    compression: CompressionConfig,
    /// Origins of web pages that may connect; `*` is any, default the host of the request.
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    allowed_origins: Origins,
    /// Values for the client simulator of Lightstreamer's load test.
    simulator: Option<SimulatorConfig>,
    /// Remote Metadata Adapter.
    adapter: Option<RawAdapterConfig>,
    /// Rules of client messages; without any, all are refused.
    message: Vec<RawMessage>,
    /// Limits of client messages.
    messages: MessageLimits,
    /// Client properties of Kafka connections.
    kafka: KafkaTable,
    /// Lookups of schemas.
    schema_registry: SchemaRegistryConfig,
    /// Kafka connections by name, with the parameters of the connector.
    #[cfg_attr(test, schemars(schema_with = "schema_tests::connections"))]
    connection: toml::Table,
    /// Identification of clients.
    #[cfg_attr(test, schemars(with = "Option<RawAuth>"))]
    auth: Option<Spanned<RawAuth>>,
    /// Rules on items; without any, all items are allowed.
    #[cfg_attr(test, schemars(with = "Vec<RawAuthorize>"))]
    authorize: Vec<Spanned<RawAuthorize>>,
    /// Limits of sessions, users and tenants.
    #[cfg_attr(test, schemars(with = "Vec<RawSessionRule>"))]
    session_rule: Vec<Spanned<RawSessionRule>>,
    /// The file itself, for line numbers.
    #[serde(skip)]
    text: String,
}

fn control_link<'de, D: Deserializer<'de>>(source: D) -> Result<Option<String>, D::Error> {
    let link = String::deserialize(source)?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]/".contains(&byte);
    match !link.is_empty() && link.len() <= 255 && link.bytes().all(plain) {
        true => Ok(Some(link)),
        false => Err(D::Error::custom("use a host, HOST:PORT or a URL")),
    }
}

/// Connections with the settings of their clients, in the same order.
type ConnectionParts = (
    Vec<ConnectionConfig>,
    Vec<Cluster>,
    Vec<Option<ConnectionRegistry>>,
);

/// Rights of clients, and formats in which they get updates.
type PolicyParts = (
    DiffConfig,
    MessageConfig,
    Option<AccessConfig>,
    Option<AdapterConfig>,
);

/// How the gateway is reached and watched.
type OperationParts = (
    Option<TlsFiles>,
    AdminConfig,
    Option<AuditConfig>,
    Option<OtlpConfig>,
);

impl GatewayConfig {
    /// Reads the given files and checks the configuration.
    ///
    /// # Errors
    /// Returns all errors of both files, and the first one of each file that they name, with file,
    /// line (if known), key, value and remedy.
    pub fn load(
        adapters: Option<&Path>,
        toml: Option<&Path>,
        overrides: &CliOverrides,
        options: ParseOptions,
    ) -> Result<Self, GatewayError> {
        let (mut errors, mut notes) = (Vec::new(), Vec::new());
        let file = toml.unwrap_or_else(|| Path::new("gateway.toml"));
        let raw = match (toml, &overrides.generated) {
            (Some(path), _) => read(path).and_then(|text| parse_toml(path, text)),
            (None, Some(text)) => parse_toml(file, text.clone()),
            (None, None) => Ok(RawFile::default()),
        };
        let mut raw = or_default(raw, &mut errors);
        let connections = read_connections(file, (&raw.connection, &raw.text), options, &mut notes);
        let mut connections = or_default(connections, &mut errors);
        for connection in &connections {
            errors.extend(missing_files(file, connection));
            errors.extend(unusable_schemas(file, connection));
        }
        if let Some(path) = adapters {
            let name = path.display().to_string();
            let env = |name: &str| std::env::var(name).ok();
            let report = read(path).map(|text| ConfigReport::of(&name, &text, &env, options));
            let report = or_default(report, &mut errors);
            errors.extend(report.errors.into_iter().map(GatewayError::from));
            raw.adapter_set = raw.adapter_set.or(report.set_id);
            notes.extend(report.notes);
            notes.extend(missing_log_file(path, report.logging_path.as_ref()));
            for connection in report.connections.into_iter().flatten() {
                errors.extend(missing_files(path, &connection));
                errors.extend(unusable_schemas(path, &connection));
                if connections.iter().any(|own| own.name == connection.name) {
                    let (name, other) = (connection.name, file.display().to_string());
                    errors.push(InvalidConfig::SameName { name, other }.in_file(path.display()));
                } else {
                    connections.push(connection);
                }
            }
        }
        let diffs = overrides.lightstreamer_conf.as_deref().map(|path| {
            read(path).and_then(|text| lightstreamer_conf::read(path, &text, &mut notes))
        });
        let diffs = or_default(diffs.transpose(), &mut errors).unwrap_or_default();
        let dir = file.parent().unwrap_or_else(|| Path::new(""));
        let clusters = clusters(&connections, (&raw.kafka, file), overrides);
        let clusters = or_default(clusters, &mut errors);
        let registries = registries(&connections, &raw.schema_registry, dir);
        let registries = or_default(registries, &mut errors);
        // The rest needs valid connections and options.
        if let Some(error) = GatewayError::join(errors) {
            return Err(error);
        }
        let names: Vec<&str> = connections.iter().map(|one| one.name.as_str()).collect();
        let access = access(&mut raw, file)?;
        let findings = access
            .iter()
            .flat_map(|access| access.findings(&connections));
        notes.extend(findings.map(|text| {
            let line = line_of_rule(&raw.text, &text);
            note(Severity::Warning, file, line, text)
        }));
        let kafka = raw.kafka.check_names(&names);
        kafka.map_err(|error| InvalidConfig::from(error).in_file(file.display()))?;
        let parts = connections.iter().zip(&clusters);
        let usable = parts.map(|(one, cluster)| (&*one.name, one.enabled, &cluster.kafka));
        let usable: Vec<_> = usable.collect();
        let topic = access.as_ref().and_then(|it| it.auth.revocations.as_ref());
        let shared = topic.map_or(Ok(()), |topic| shared_revocations::check(topic, &usable));
        shared.map_err(|error| error.in_file(file.display()))?;
        let adapter = raw.adapter.take();
        let adapter = adapter.map(|adapter| AdapterConfig::new(adapter, dir));
        let adapter = adapter.transpose().map_err(InvalidConfig::from);
        let adapter = adapter.map_err(|error| error.in_file(file.display()))?;
        if adapter.as_ref().is_some_and(AdapterConfig::is_exposed) {
            notes.push(note(
                Severity::Warning,
                file,
                None,
                EXPOSED_ADAPTER.to_owned(),
            ));
        }
        let messages = MessageConfig::new(
            &raw.message,
            raw.messages.clone(),
            &usable,
            adapter.is_some(),
        );
        let messages = messages.map_err(|error| error.in_file(file.display()))?;
        let remarks = messages.remarks();
        notes.extend(remarks.map(|text| note(Severity::Warning, file, None, text)));
        let own_diffs = std::mem::take(&mut raw.diffs);
        let diffs = own_diffs.applied_to(&diffs, &names);
        let diffs = diffs.map_err(|error| error.in_file(file.display()))?;
        let at = |error: InvalidConfig| match toml {
            Some(file) => error.in_file(file.display()),
            // The defaults are valid, so an option is not.
            None => error.in_file("command line"),
        };
        let tls = raw.tls.take().map(|tls| TlsFiles::open(tls, dir));
        let tls = tls.transpose().map_err(|error| at(error.into()))?;
        let listen = overrides.listen.or(raw.listen).unwrap_or(DEFAULT_LISTEN);
        let remarks = access.iter().flat_map(|access| {
            exposures(&access.auth, &raw.allowed_origins, (listen, tls.as_ref()))
        });
        notes.extend(
            remarks.map(|text| note(Severity::Warning, file, line_of_auth(&raw.text), text)),
        );
        let admin = std::mem::take(&mut raw.admin);
        let admin = admin.open(overrides.admin, DEFAULT_ADMIN, dir);
        let admin = admin.map_err(|error| at(error.into()))?;
        let audit = raw.audit.take().map(|audit| audit.check(dir));
        let audit = audit.transpose().map_err(|error| at(error.into()))?;
        let env = |name: &str| std::env::var(name).ok();
        let otlp = OtlpTable::open(raw.otlp.take(), "weir-gateway", dir, env);
        let otlp = otlp.map_err(|error| at(error.into()))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_unix_s = now.map_or(0, |now| now.as_secs());
        let ending = tls.as_ref().and_then(|tls| tls.remark(now_unix_s as i64));
        notes.extend(ending.map(|text| note(Severity::Warning, file, None, text)));
        Self::combine(
            raw,
            overrides,
            (connections, clusters, registries),
            (tls, admin, audit, otlp),
            (diffs, messages, access, adapter),
            notes,
        )
        .map_err(at)
    }

    /// Combines the parts and checks the values that depend on each other.
    fn combine(
        raw: RawFile,
        overrides: &CliOverrides,
        (connections, clusters, registries): ConnectionParts,
        (tls, admin, audit, otlp): OperationParts,
        (diffs, messages, access, adapter): PolicyParts,
        notes: Vec<Note>,
    ) -> Result<Self, InvalidConfig> {
        let listen = overrides.listen.or(raw.listen).unwrap_or(DEFAULT_LISTEN);
        let event_loops = overrides.event_loops.or(raw.event_loops);
        let config = Self {
            listen,
            tls,
            admin,
            audit,
            otlp,
            watchdog: raw.watchdog,
            event_loops: event_loops.unwrap_or_else(cores),
            event_loop_sessions: raw.event_loop_sessions.unwrap_or(EVENT_LOOP_SESSIONS),
            set_id: raw.adapter_set.unwrap_or_else(|| DEFAULT_SET.to_owned()),
            connections,
            clusters,
            registries,
            limits: raw.limits,
            diffs,
            unknown_names: raw.unknown_names,
            compression: raw.compression,
            allowed_origins: raw.allowed_origins,
            access,
            simulator: raw.simulator,
            adapter,
            messages,
            last_values: raw.last_values,
            idle_records: raw.idle_records,
            resume_delay_ms: raw.resume_delay_ms.unwrap_or(2_000),
            drain_timeout_ms: raw.drain_timeout_ms.unwrap_or(5_000),
            drain_spread_ms: raw.drain_spread_ms.unwrap_or(1_000),
            control_link: raw.control_link,
            example_fields: overrides.example_fields.clone(),
            notes,
        };
        if config.connections.is_empty() {
            return Err(InvalidConfig::NoConnection);
        }
        if config.set_id.trim().is_empty() {
            return Err(InvalidConfig::NoAdapterSet);
        }
        if !(1..=1024).contains(&config.event_loops) {
            return Err(InvalidConfig::EventLoops(config.event_loops));
        }
        if config.event_loop_sessions == 0 {
            return Err(InvalidConfig::EventLoopSessions);
        }
        if config.drain_spread_ms > 600_000 {
            return Err(InvalidConfig::DrainSpread(config.drain_spread_ms));
        }
        let tls_listen = config.tls.as_ref().and_then(|tls| tls.config.listen);
        let client_ca = config
            .tls
            .as_ref()
            .and_then(|tls| tls.config.client_ca.as_ref());
        let client_auth = config.tls.as_ref().and_then(|tls| tls.config.client_auth);
        if client_auth.is_some() && client_ca.is_none() {
            return Err(InvalidConfig::ClientAuth);
        }
        let access = config.access.as_ref();
        let sources = access.map_or(&[][..], |access| &access.auth.sources);
        if sources.contains(&TokenSource::Certificate) && client_ca.is_none() {
            return Err(InvalidConfig::NoClientCa);
        }
        if tls_listen == Some(config.listen) && config.listen.port() != 0 {
            return Err(InvalidConfig::SameListen(config.listen));
        }
        Ok(config)
    }
}

/// Checks the sections on identities and rules.
fn access(raw: &mut RawFile, file: &Path) -> Result<Option<AccessConfig>, GatewayError> {
    let sections = RawAccess {
        auth: raw.auth.take(),
        authorize: std::mem::take(&mut raw.authorize),
        session_rule: std::mem::take(&mut raw.session_rule),
    };
    let dir = file.parent().unwrap_or_else(|| Path::new(""));
    AccessConfig::new(sections, dir).map_err(|error| {
        let line = error
            .span
            .clone()
            .map(|span| line_of(&raw.text, span.start).0);
        GatewayError::Config {
            at: in_file(file.display(), line),
            reason: error.to_string(),
        }
    })
}

/// Returns the line with the name of the rule that a finding is about.
fn line_of_rule(text: &str, finding: &str) -> Option<u32> {
    let (_, rest) = finding.split_once("rule \"")?;
    let (rule, _) = rest.split_once('"')?;
    let is_name = |line: &str| {
        let (key, value) = line.split_once('=').unwrap_or_default();
        key.trim() == "name" && value.trim().starts_with(&format!("\"{rule}\""))
    };
    let index = text.lines().position(is_name)?;
    u32::try_from(index + 1).ok()
}

/// Returns the line with the sources of credentials, or with the beginning of `[auth]`.
fn line_of_auth(text: &str) -> Option<u32> {
    let find = |starts: &[&str]| {
        let is_it = |line: &str| starts.iter().any(|start| line.trim().starts_with(start));
        text.lines().position(is_it)
    };
    let index = find(&["sources"]).or_else(|| find(&["[auth]", "[[auth."]))?;
    u32::try_from(index + 1).ok()
}

/// Returns the value, or the default after an error.
fn or_default<T: Default>(value: Result<T, GatewayError>, errors: &mut Vec<GatewayError>) -> T {
    value.unwrap_or_else(|error| {
        errors.push(error);
        T::default()
    })
}

/// Returns the settings of each connection's Kafka client, or all errors.
fn clusters(
    connections: &[ConnectionConfig],
    (table, file): (&KafkaTable, &Path),
    overrides: &CliOverrides,
) -> Result<Vec<Cluster>, GatewayError> {
    let dir = file.parent().unwrap_or_else(|| Path::new(""));
    let common = table.read(dir);
    let common = common.map_err(|error| InvalidConfig::from(error).in_file(file.display()))?;
    let reader = overrides.reader.unwrap_or(table.reader);
    let (mut clusters, mut errors) = (Vec::new(), Vec::new());
    for connection in connections {
        let own = table.read_of(&connection.name, dir);
        let own = own.map_err(|error| {
            let name = connection.name.clone();
            InvalidConfig::KafkaOf { name, error }.in_file(file.display())
        });
        let own = match own {
            Ok(own) => own,
            Err(error) => {
                errors.push(error);
                continue;
            }
        };
        let general = common.iter().cloned().chain(own);
        let all: Vec<_> = general.chain(overrides.kafka.0.iter().cloned()).collect();
        match Cluster::of(connection, &all, reader) {
            Ok(cluster) => clusters.push(cluster),
            Err(error) => errors.push(GatewayError::Config {
                at: Location {
                    connection: Some(connection.name.clone()),
                    ..in_file("Kafka client", None)
                },
                reason: error.to_string(),
            }),
        }
    }
    if let (true, Some([one, other])) = (errors.is_empty(), tickets(connections, &clusters)) {
        let error = InvalidConfig::TwoTickets { one, other };
        errors.push(error.in_file("Kafka client"));
    }
    GatewayError::join(errors).map_or(Ok(clusters), Err)
}

/// Returns two connections with different Kerberos tickets. librdkafka keeps the tickets of a
/// process in one cache, so the second one would replace the first.
fn tickets(connections: &[ConnectionConfig], clusters: &[Cluster]) -> Option<[String; 2]> {
    let logins = connections.iter().zip(clusters).filter(|it| it.0.enabled);
    let mut logins = logins.filter_map(|(connection, cluster)| {
        let ticket = cluster.kafka.security.sasl.as_ref()?.kerberos_ticket()?;
        Some((ticket, &connection.name))
    });
    let (first, one) = logins.next()?;
    let (_, other) = logins.find(|(ticket, _)| *ticket != first)?;
    Some([one.clone(), other.clone()])
}

/// Returns the schema registry of each connection, or all errors.
fn registries(
    connections: &[ConnectionConfig],
    config: &SchemaRegistryConfig,
    dir: &Path,
) -> Result<Vec<Option<ConnectionRegistry>>, GatewayError> {
    let (mut registries, mut errors) = (Vec::new(), Vec::new());
    for connection in connections {
        match ConnectionRegistry::of(connection, config, dir) {
            Ok(registry) => registries.push(registry),
            Err(error) => errors.push(GatewayError::Config {
                at: Location {
                    connection: Some(connection.name.clone()),
                    ..in_file("schema registry", None)
                },
                reason: error.to_string(),
            }),
        }
    }
    GatewayError::join(errors).map_or(Ok(registries), Err)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn read(path: &Path) -> Result<String, GatewayError> {
    std::fs::read_to_string(path).map_err(|error| GatewayError::Config {
        at: in_file(path.display(), None),
        reason: format!("cannot read the file: {error}"),
    })
}

fn parse_toml(path: &Path, text: String) -> Result<RawFile, GatewayError> {
    if let Ok(raw) = toml::from_str::<RawFile>(&text) {
        return Ok(RawFile { text, ..raw });
    }
    let errors = all_errors(&text, |text| toml::from_str::<RawFile>(text).err());
    let errors = errors.iter().map(|error| {
        let (line, written) = line_of(&text, error.span().map_or(0, |span| span.start));
        let message = error.message().replace('\n', "; ");
        GatewayError::Config {
            at: in_file(path.display(), Some(line)),
            reason: format!("{written}: {message}"),
        }
    });
    GatewayError::join(errors.collect()).map_or_else(|| Ok(RawFile::default()), Err)
}

fn note(severity: Severity, file: &Path, line: Option<u32>, text: String) -> Note {
    Note {
        severity,
        at: in_file(file.display(), line),
        text,
    }
}

/// Parses `[connection.NAME]` tables: the connector's parameters, nested tables joined by dots.
fn read_connections(
    path: &Path,
    (tables, text): (&toml::Table, &str),
    options: ParseOptions,
    notes: &mut Vec<Note>,
) -> Result<Vec<ConnectionConfig>, GatewayError> {
    let lines = parameter_lines(text);
    let file = path.display().to_string();
    let source = ConfigSource {
        file: &file,
        options,
    };
    let mut connections = Vec::new();
    let mut errors = Vec::new();
    for (name, value) in tables {
        let toml::Value::Table(table) = value else {
            errors.push(InvalidConfig::NoTable(name.clone()).in_file(&file));
            continue;
        };
        let mut parameters = Vec::new();
        flatten("", table, &mut parameters);
        let line = |parameter: &str| {
            let key = (name.clone(), parameter.to_owned());
            lines.get(&key).copied()
        };
        for parameter in &mut parameters {
            parameter.line = line(&parameter.name);
        }
        match ConnectionConfig::from_parameters(name, parameters, &source, line(""), notes) {
            Ok(connection) => connections.push(connection),
            Err(rejected) => errors.extend(rejected.errors.into_iter().map(GatewayError::from)),
        }
    }
    GatewayError::join(errors).map_or(Ok(connections), Err)
}

fn flatten(prefix: &str, table: &toml::Table, out: &mut Vec<Parameter>) {
    for (key, value) in table {
        let name = format!("{prefix}{key}");
        let value = match value {
            toml::Value::Table(inner) => {
                flatten(&format!("{name}."), inner, out);
                continue;
            }
            toml::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let line = None;
        out.push(Parameter { name, value, line });
    }
}
