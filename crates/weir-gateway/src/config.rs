//! Configuration of a gateway: `adapters.xml`, `gateway.toml`, command line and defaults.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use weir_mapping::{
    ConfigReport, ConfigSource, ConnectionConfig, Location, Note, Parameter, ParseOptions, Severity,
};
use weir_net::admin::{AdminConfig, AdminTable};
use weir_net::watchdog::WatchdogConfig;
use weir_tlcp::diff::DiffOptions;

use crate::admission::Origins;
pub use crate::admission::PerAddress;
use crate::compression::Compression;
use crate::diffs::{DiffConfig, RawDiffs};
use crate::error::GatewayError;
use crate::lightstreamer_conf;
use crate::tls::{TlsConfig, TlsFiles};

/// Default adapter set name.
const DEFAULT_SET: &str = "KafkaConnector";

/// Maximum of the derived memory limit for subscriptions, enough for some 400,000 items.
const SUBSCRIPTION_BYTES_MAX: usize = 512 * 1024 * 1024;

const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8080);
const DEFAULT_ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8090);

/// A checked configuration.
#[derive(Debug)]
pub struct GatewayConfig {
    /// Listen address for clients; port 0 selects a free port.
    pub listen: SocketAddr,
    /// Certificate and listen address for TLS; `None`: no TLS.
    pub tls: Option<TlsFiles>,
    /// Admin port.
    pub admin: AdminConfig,
    /// Limits for stalled event loops.
    pub watchdog: WatchdogConfig,
    /// Number of event loops; default one per core.
    pub event_loops: usize,
    /// Adapter set name that clients send as `LS_adapter_set`.
    pub set_id: String,
    /// Kafka connections.
    pub connections: Vec<ConnectionConfig>,
    /// Limits for clients.
    pub limits: GatewayLimits,
    /// Values sent as diffs; default none.
    pub diffs: DiffConfig,
    /// Handling of subscriptions to unknown items and fields.
    pub unknown_names: UnknownNames,
    /// Compression of WebSocket messages; default off.
    pub compression: Compression,
    /// Origins of web pages that may connect; empty: the same host only.
    pub allowed_origins: Vec<String>,
    /// Values of the start item of the published load test's simulator; `None`: not served.
    pub simulator: Option<Simulator>,
    /// Storage of last values of items without subscribers.
    pub last_values: LastValuesConfig,
    /// Milliseconds between the first subscription after a restart and reading from stored offsets.
    pub resume_delay_ms: u64,
    /// Milliseconds at shutdown for sending pending bytes to clients.
    pub drain_timeout_ms: u64,
    /// Milliseconds at shutdown over which the ends of sessions are spread.
    pub drain_spread_ms: u64,
    /// Host, with or without port, to which clients send all requests after the first of a session.
    /// Needed behind a load balancer without session affinity.
    pub control_link: Option<String>,
    /// Notes on the configuration files for the operator.
    pub notes: Vec<Note>,
}

/// Limits for clients. A metric counts the hits of each limit.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GatewayLimits {
    /// Sessions of the gateway, default 100,000; the file descriptor limit may be lower.
    pub sessions: usize,
    /// Subscriptions of one session, default 1,000.
    pub subscriptions_per_session: usize,
    /// Items of one subscription, default 1,000.
    pub items_per_subscription: usize,
    /// Items of all subscriptions of one session, default 20,000; 0 is no limit.
    pub items_per_session: usize,
    /// Fields of one subscription, default 2,000: the published scenario 4 has about 1,000.
    pub fields_per_subscription: usize,
    /// Frame classes of one item in each event loop, default 10,000; 0: no limit. Subscribers share
    /// a class if their subscriptions have the same number and fields; each class is encoded
    /// separately.
    pub frame_classes_per_item: usize,
    /// Bytes queued for a client that does not read, default 1 MiB: about a thousand updates of 1
    /// KB. The same amount may be queued as values. Further updates are conflated, dropped or, if
    /// the mode allows neither, lost and reported as lost.
    pub queue_bytes: usize,
    /// Bytes of data notifications stored per session for recovery after a lost connection, default
    /// 128 KiB; 0 disables recovery.
    pub recovery_bytes: usize,
    /// Milliseconds for which they are stored, default 20,000.
    pub recovery_ms: u64,
    /// Milliseconds that a session waits for `bind_session` after `LOOP`, default 10,000.
    pub unbound_timeout_ms: u64,
    /// Rows of one item in mode COMMAND that each event loop stores for later subscribers, default
    /// 10,000. Further rows are delivered but not stored.
    pub command_rows: usize,
    /// Updates of one item stored as snapshot of mode DISTINCT, default 10.
    pub distinct_snapshot: usize,
    /// Milliseconds after which a client that reads nothing is disconnected, default 60,000. At
    /// least a `PROBE` is sent in that time.
    pub stall_timeout_ms: u64,
    /// Maximum bytes of one request, default 50,000; clients receive this value.
    pub request_bytes: usize,
    /// Maximum bytes of an update's line, default 0: the known limit of the client's library.
    /// Longer updates are not sent and reported as lost.
    pub line_bytes: u32,
    /// Client connections of the gateway, with or without sessions; default 0: `sessions` plus one
    /// eighth.
    pub connections: usize,
    /// Subscriptions of the gateway, default 1,000,000; 0 means no limit.
    pub subscriptions: usize,
    /// Subscribed items of the gateway, counted once per shard; default 1,000,000; 0 means no
    /// limit.
    pub items: usize,
    /// Estimated memory of all subscriptions and their items; default 0: a quarter of
    /// `memory_bytes`, at most 512 MiB. An item costs about 1.3 kB plus the length of its name.
    pub subscription_bytes: usize,
    /// Memory of the process above which new sessions and subscriptions are refused; default 0: 85
    /// % of the operating system's limit.
    pub memory_bytes: usize,
    /// New sessions per second, default 0: no limit.
    pub sessions_per_second: f32,
    /// Requests per second, default 0: no limit.
    pub requests_per_second: f32,
    /// Limits of one address; default none, because a proxy or a company may have a single address.
    pub per_address: PerAddress,
    /// `sessions` divided by the number of shards, set when the gateway starts.
    #[serde(skip)]
    pub(crate) sessions_per_shard: usize,
}

impl GatewayLimits {
    /// Sets the limits of each of `shards` shards.
    pub(crate) fn divide(&mut self, shards: usize) {
        self.sessions_per_shard = self.sessions.div_ceil(shards);
    }

    /// Derives unset subscription limits from the available memory.
    pub(crate) fn derive(&mut self, memory_bytes: u64) {
        let quarter = usize::try_from(memory_bytes / 4).unwrap_or(usize::MAX);
        if self.subscription_bytes == 0 {
            self.subscription_bytes = quarter.min(SUBSCRIPTION_BYTES_MAX);
        }
        if self.per_address.subscription_bytes == 0 {
            self.per_address.subscription_bytes = self.subscription_bytes / 2;
        }
    }

    /// Returns the maximum number of client connections, including those before and after a
    /// session.
    pub(crate) fn connections_in_all(&self, shards: usize) -> usize {
        match self.connections {
            0 => self.sessions + self.sessions / 8 + 64 * shards,
            most => most,
        }
    }
}

impl Default for GatewayLimits {
    fn default() -> Self {
        Self {
            sessions: 100_000,
            subscriptions_per_session: 1_000,
            items_per_subscription: 1_000,
            items_per_session: 20_000,
            fields_per_subscription: 2_000,
            frame_classes_per_item: 10_000,
            queue_bytes: 1024 * 1024,
            recovery_bytes: 128 * 1024,
            recovery_ms: 20_000,
            unbound_timeout_ms: 10_000,
            command_rows: 10_000,
            distinct_snapshot: 10,
            stall_timeout_ms: 60_000,
            request_bytes: 50_000,
            line_bytes: 0,
            connections: 0,
            subscriptions: 1_000_000,
            items: 1_000_000,
            subscription_bytes: 0,
            memory_bytes: 0,
            sessions_per_second: 0.0,
            requests_per_second: 0.0,
            per_address: PerAddress::default(),
            sessions_per_shard: 100_000,
        }
    }
}

/// `unknown_names`: the response to a subscription to an item that no topic can have, or to a field
/// that is not mapped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnknownNames {
    /// `REQERR`, so that the author of a misspelt name sees the error.
    #[default]
    Refuse,
    /// The connector's behaviour: the item never gets updates, the field stays null.
    Accept,
}

/// `[last_values]`: the last record of every item, so that the first subscriber gets it at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LastValuesConfig {
    /// Maximum memory in bytes, default 0: no last values, and Kafka is read only while there are
    /// subscribers.
    pub memory_bytes: usize,
}

/// `[simulator]`: the values of item `CONFIGURATION` of adapter set `LOAD_TESTS`, which configures
/// the published load test's client simulator.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Simulator {
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

impl Default for Simulator {
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
}

/// `gateway.toml` as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawFile {
    listen: Option<SocketAddr>,
    event_loops: Option<usize>,
    adapter_set: Option<String>,
    resume_delay_ms: Option<u64>,
    drain_timeout_ms: Option<u64>,
    drain_spread_ms: Option<u64>,
    control_link: Option<String>,
    admin: AdminTable,
    watchdog: WatchdogConfig,
    tls: Option<TlsConfig>,
    limits: GatewayLimits,
    unknown_names: UnknownNames,
    last_values: LastValuesConfig,
    diffs: RawDiffs,
    compression: Compression,
    allowed_origins: Vec<String>,
    simulator: Option<Simulator>,
    connection: toml::Table,
}

impl GatewayConfig {
    /// Reads the given files and checks the configuration.
    ///
    /// # Errors
    /// Returns all errors of `adapters.xml` and the first error of each other file, with file, line
    /// (if known), key, value and remedy.
    pub fn load(
        adapters: Option<&Path>,
        toml: Option<&Path>,
        overrides: &CliOverrides,
        options: ParseOptions,
    ) -> Result<Self, GatewayError> {
        let mut errors = Vec::new();
        let raw = toml.map_or_else(|| Ok(RawFile::default()), read_toml);
        let raw = raw.unwrap_or_else(|error| {
            errors.push(error);
            RawFile::default()
        });
        let file = toml.unwrap_or_else(|| Path::new("gateway.toml"));
        let mut notes = Vec::new();
        let connections = read_connections(file, &raw.connection, options, &mut notes);
        let mut connections = connections.unwrap_or_else(|error| {
            errors.push(error);
            Vec::new()
        });
        let mut set_id = raw.adapter_set;
        if let Some(path) = adapters {
            let report = read_adapters(path, options).unwrap_or_else(|error| {
                errors.push(error);
                ConfigReport::default()
            });
            errors.extend(report.errors.into_iter().map(GatewayError::from));
            set_id = set_id.or(report.set_id);
            notes.extend(report.notes);
            notes.extend(missing_log_file(path, report.logging_path.as_ref()));
            for connection in report.connections.into_iter().flatten() {
                if connections.iter().any(|own| own.name == connection.name) {
                    errors.push(GatewayError::Config {
                        file: path.display().to_string(),
                        reason: format!(
                            "connection \"{}\" is also in {}: rename one",
                            connection.name,
                            file.display()
                        ),
                    });
                } else {
                    connections.push(connection);
                }
            }
        }
        let diffs = match &overrides.lightstreamer_conf {
            None => Ok(DiffOptions::default()),
            Some(path) => {
                read(path).and_then(|text| lightstreamer_conf::read(path, &text, &mut notes))
            }
        };
        let diffs = diffs.unwrap_or_else(|error| {
            errors.push(error);
            DiffOptions::default()
        });
        // The rest needs valid connections and options.
        if let Some(error) = GatewayError::join(errors) {
            return Err(error);
        }
        let names: Vec<&str> = connections.iter().map(|one| one.name.as_str()).collect();
        let diffs = raw.diffs.over(&diffs, &names);
        let diffs = diffs.map_err(|reason| GatewayError::Config {
            file: file.display().to_string(),
            reason,
        })?;
        let dir = file.parent().unwrap_or_else(|| Path::new(""));
        let at = match toml {
            Some(file) => file.display().to_string(),
            // The defaults are valid, so an option is not.
            None => "command line".to_owned(),
        };
        let invalid = |reason: String| GatewayError::Config {
            file: at.clone(),
            reason,
        };
        let tls = raw.tls.map(|tls| TlsFiles::open(tls, dir)).transpose();
        let tls = tls.map_err(|error| invalid(format!("tls: {error}")))?;
        let admin = raw.admin.open(overrides.admin, DEFAULT_ADMIN, dir);
        let admin = admin.map_err(|error| invalid(error.to_string()))?;
        let now_unix_s = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |now| now.as_secs());
        let ending = tls.as_ref().and_then(|tls| tls.remark(now_unix_s as i64));
        notes.extend(ending.map(|text| warning(file, text)));
        let config = Self {
            tls,
            diffs,
            listen: overrides.listen.or(raw.listen).unwrap_or(DEFAULT_LISTEN),
            admin,
            watchdog: raw.watchdog,
            event_loops: overrides
                .event_loops
                .or(raw.event_loops)
                .unwrap_or_else(cores),
            set_id: set_id.unwrap_or_else(|| DEFAULT_SET.to_owned()),
            connections,
            limits: raw.limits,
            unknown_names: raw.unknown_names,
            compression: raw.compression,
            allowed_origins: raw.allowed_origins,
            simulator: raw.simulator,
            last_values: raw.last_values,
            resume_delay_ms: raw.resume_delay_ms.unwrap_or(2_000),
            drain_timeout_ms: raw.drain_timeout_ms.unwrap_or(5_000),
            drain_spread_ms: raw.drain_spread_ms.unwrap_or(1_000),
            control_link: raw.control_link,
            notes,
        };
        config.check(&at)?;
        Ok(config)
    }

    fn check(&self, file: &str) -> Result<(), GatewayError> {
        let fail = |reason: String| {
            Err(GatewayError::Config {
                file: file.to_owned(),
                reason,
            })
        };
        if self.connections.is_empty() {
            return fail(
                "no Kafka connection: give --adapters FILE or a [connection.NAME] table".into(),
            );
        }
        if self.set_id.trim().is_empty() {
            return fail("adapter_set = \"\": write the name that clients give".into());
        }
        if !(1..=1024).contains(&self.event_loops) {
            return fail(format!("event_loops = {}: use 1 to 1024", self.event_loops));
        }
        if self.drain_spread_ms > 600_000 {
            let value = self.drain_spread_ms;
            return fail(format!("drain_spread_ms = {value}: use at most 600000"));
        }
        if let Some(link) = &self.control_link {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]/".contains(&byte);
            if link.is_empty() || link.len() > 255 || !link.bytes().all(plain) {
                return fail(format!(
                    "control_link = \"{link}\": use a host, HOST:PORT or a URL"
                ));
            }
        }
        for (key, value) in [
            ("recovery_ms", self.limits.recovery_ms),
            ("unbound_timeout_ms", self.limits.unbound_timeout_ms),
        ] {
            if value > 600_000 {
                return fail(format!("limits.{key} = {value}: use at most 600000"));
            }
        }
        if let Some(tls) = &self.tls {
            if tls
                .config
                .listen
                .is_some_and(|address| address == self.listen && address.port() != 0)
            {
                let address = self.listen;
                return fail(format!(
                    "tls.listen = {address} is also listen: leave it out for TLS only"
                ));
            }
            if !(100..=600_000).contains(&tls.config.handshake_timeout_ms) {
                let given = tls.config.handshake_timeout_ms;
                return fail(format!(
                    "tls.handshake_timeout_ms = {given}: use 100 to 600000"
                ));
            }
        }
        if let Err(reason) = Origins::parse(&self.allowed_origins) {
            return fail(reason);
        }
        if let Err(reason) = self.compression.check() {
            return fail(reason);
        }
        let rates = [
            self.limits.sessions_per_second,
            self.limits.requests_per_second,
            self.limits.per_address.sessions_per_second,
            self.limits.per_address.requests_per_second,
        ];
        if rates.iter().any(|rate| !(0.0..=1e9).contains(rate)) {
            return fail("limits: rates per second must not be negative; 0 is no limit".into());
        }
        if self.limits.sessions == 0
            || self.limits.queue_bytes == 0
            || !(1_000..=3_600_000).contains(&self.limits.stall_timeout_ms)
            || self.limits.request_bytes < 1_000
        {
            return fail(
                "limits: sessions and queue_bytes from 1, request_bytes from 1000, \
            stall_timeout_ms from 1000 to 3600000"
                    .into(),
            );
        }
        Ok(())
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn read(path: &Path) -> Result<String, GatewayError> {
    std::fs::read_to_string(path).map_err(|error| GatewayError::Read {
        path: PathBuf::from(path),
        error,
    })
}

fn read_toml(path: &Path) -> Result<RawFile, GatewayError> {
    let text = read(path)?;
    toml::from_str(&text).map_err(|error| {
        let file = path.display().to_string();
        let start = error.span().map_or(0, |span| span.start);
        let before = text.get(..start).unwrap_or_default();
        let written = text.lines().nth(before.matches('\n').count());
        GatewayError::Line {
            file,
            line: 1 + before.matches('\n').count() as u32,
            reason: format!(
                "{}: {}",
                written.unwrap_or_default().trim(),
                error.message().replace('\n', "; ")
            ),
        }
    })
}

fn read_adapters(path: &Path, options: ParseOptions) -> Result<ConfigReport, GatewayError> {
    let env = |name: &str| std::env::var(name).ok();
    let name = path.display().to_string();
    Ok(ConfigReport::of(&name, &read(path)?, &env, options))
}

fn warning(file: &Path, text: String) -> Note {
    Note {
        severity: Severity::Warning,
        at: Location {
            file: file.display().to_string(),
            line: None,
            connection: None,
        },
        text,
    }
}

/// Returns a note if the connector's log configuration is missing; the gateway does not use it.
fn missing_log_file(adapters: &Path, logging: Option<&Parameter>) -> Option<Note> {
    let Parameter { name, value, line } = logging?;
    let dir = adapters.parent().unwrap_or_else(|| Path::new(""));
    if dir.join(value).is_file() {
        return None;
    }
    Some(Note {
        severity: Severity::Info,
        at: Location {
            file: adapters.display().to_string(),
            line: *line,
            connection: None,
        },
        text: format!("parameter [{name}]: \"{value}\" does not exist; it is not used here"),
    })
}

/// Parses `[connection.NAME]` tables: the connector's parameters, nested tables joined by dots.
fn read_connections(
    path: &Path,
    tables: &toml::Table,
    options: ParseOptions,
    notes: &mut Vec<Note>,
) -> Result<Vec<ConnectionConfig>, GatewayError> {
    let file = path.display().to_string();
    let source = ConfigSource {
        file: &file,
        options,
    };
    let mut connections = Vec::new();
    let mut errors = Vec::new();
    for (name, value) in tables {
        let toml::Value::Table(table) = value else {
            let reason = format!("connection.{name} must be a table of parameters");
            let file = file.clone();
            errors.push(GatewayError::Config { file, reason });
            continue;
        };
        let mut parameters = Vec::new();
        flatten("", table, &mut parameters);
        match ConnectionConfig::collect_errors(name, parameters, &source, None, notes) {
            Ok(connection) => connections.push(connection),
            Err(refused) => {
                let all = std::iter::once(refused.first).chain(refused.more);
                errors.extend(all.map(GatewayError::from));
            }
        }
    }
    GatewayError::join(errors).map_or(Ok(connections), Err)
}

fn flatten(prefix: &str, table: &toml::Table, out: &mut Vec<Parameter>) {
    for (key, value) in table {
        let name = if prefix.is_empty() {
            key.clone()
        } else {
            format!("{prefix}.{key}")
        };
        match value {
            toml::Value::Table(inner) => flatten(&name, inner, out),
            toml::Value::String(text) => {
                out.push(Parameter {
                    name,
                    value: text.clone(),
                    line: None,
                });
            }
            other => out.push(Parameter {
                name,
                value: other.to_string(),
                line: None,
            }),
        }
    }
}
