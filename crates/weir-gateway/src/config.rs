//! Configuration of a gateway: `adapters.xml`, `gateway.toml`, command line and defaults.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use weir_mapping::{
    ConfigReport, ConfigSource, ConnectionConfig, Note, Parameter, ParseOptions, Severity,
};
use weir_net::admin::{AdminConfig, AdminTable};
use weir_net::watchdog::WatchdogConfig;

use crate::admission::Origins;
pub use crate::admission::PerAddress;
use crate::compression::CompressionConfig;
use crate::diffs::{DiffConfig, RawDiffs};
use crate::error::{GatewayError, InvalidConfig, in_file};
use crate::lightstreamer_conf;
pub use crate::limits::GatewayLimits;
pub use crate::simulator::SimulatorConfig;
use crate::tls::{TlsConfig, TlsFiles};

const DEFAULT_SET: &str = "KafkaConnector";
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
    pub(crate) watchdog: WatchdogConfig,
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
    pub(crate) unknown_names: UnknownNames,
    /// Compression of WebSocket messages; default off.
    pub compression: CompressionConfig,
    pub(crate) allowed_origins: Origins,
    /// Values of the start item of the published load test's simulator; `None`: not served.
    pub simulator: Option<SimulatorConfig>,
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

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawFile {
    listen: Option<SocketAddr>,
    event_loops: Option<usize>,
    adapter_set: Option<String>,
    resume_delay_ms: Option<u64>,
    drain_timeout_ms: Option<u64>,
    drain_spread_ms: Option<u64>,
    #[serde(deserialize_with = "control_link")]
    control_link: Option<String>,
    admin: AdminTable,
    watchdog: WatchdogConfig,
    tls: Option<TlsConfig>,
    limits: GatewayLimits,
    unknown_names: UnknownNames,
    last_values: LastValuesConfig,
    diffs: RawDiffs,
    compression: CompressionConfig,
    allowed_origins: Origins,
    simulator: Option<SimulatorConfig>,
    connection: toml::Table,
}

fn control_link<'de, D: Deserializer<'de>>(source: D) -> Result<Option<String>, D::Error> {
    let link = String::deserialize(source)?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]/".contains(&byte);
    match !link.is_empty() && link.len() <= 255 && link.bytes().all(plain) {
        true => Ok(Some(link)),
        false => Err(D::Error::custom("use a host, HOST:PORT or a URL")),
    }
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
        let (mut errors, mut notes) = (Vec::new(), Vec::new());
        let raw = toml.map_or_else(|| Ok(RawFile::default()), read_toml);
        let mut raw = or_default(raw, &mut errors);
        let file = toml.unwrap_or_else(|| Path::new("gateway.toml"));
        let connections = read_connections(file, &raw.connection, options, &mut notes);
        let mut connections = or_default(connections, &mut errors);
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
        // The rest needs valid connections and options.
        if let Some(error) = GatewayError::join(errors) {
            return Err(error);
        }
        let names: Vec<&str> = connections.iter().map(|one| one.name.as_str()).collect();
        let own_diffs = std::mem::take(&mut raw.diffs);
        let diffs = own_diffs.over(&diffs, &names);
        let diffs = diffs.map_err(|error| error.in_file(file.display()))?;
        let dir = file.parent().unwrap_or_else(|| Path::new(""));
        let at = |error: InvalidConfig| match toml {
            Some(file) => error.in_file(file.display()),
            // The defaults are valid, so an option is not.
            None => error.in_file("command line"),
        };
        let tls = raw.tls.take().map(|tls| TlsFiles::open(tls, dir));
        let tls = tls.transpose().map_err(|error| at(error.into()))?;
        let admin = std::mem::take(&mut raw.admin);
        let admin = admin.open(overrides.admin, DEFAULT_ADMIN, dir);
        let admin = admin.map_err(|error| at(error.into()))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_unix_s = now.map_or(0, |now| now.as_secs());
        let ending = tls.as_ref().and_then(|tls| tls.remark(now_unix_s as i64));
        notes.extend(ending.map(|text| note(Severity::Warning, file, None, text)));
        Self::combine(raw, overrides, connections, (tls, admin), diffs, notes).map_err(at)
    }

    /// Combines the parts and checks the values that depend on each other.
    fn combine(
        raw: RawFile,
        overrides: &CliOverrides,
        connections: Vec<ConnectionConfig>,
        (tls, admin): (Option<TlsFiles>, AdminConfig),
        diffs: DiffConfig,
        notes: Vec<Note>,
    ) -> Result<Self, InvalidConfig> {
        let listen = overrides.listen.or(raw.listen).unwrap_or(DEFAULT_LISTEN);
        let event_loops = overrides.event_loops.or(raw.event_loops);
        let config = Self {
            listen,
            tls,
            admin,
            watchdog: raw.watchdog,
            event_loops: event_loops.unwrap_or_else(cores),
            set_id: raw.adapter_set.unwrap_or_else(|| DEFAULT_SET.to_owned()),
            connections,
            limits: raw.limits,
            diffs,
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
        if config.connections.is_empty() {
            return Err(InvalidConfig::NoConnection);
        }
        if config.set_id.trim().is_empty() {
            return Err(InvalidConfig::NoAdapterSet);
        }
        if !(1..=1024).contains(&config.event_loops) {
            return Err(InvalidConfig::EventLoops(config.event_loops));
        }
        if config.drain_spread_ms > 600_000 {
            return Err(InvalidConfig::DrainSpread(config.drain_spread_ms));
        }
        let tls_listen = config.tls.as_ref().and_then(|tls| tls.config.listen);
        if tls_listen == Some(config.listen) && config.listen.port() != 0 {
            return Err(InvalidConfig::SameListen(config.listen));
        }
        Ok(config)
    }
}

/// Returns the value, or the default after an error.
fn or_default<T: Default>(value: Result<T, GatewayError>, errors: &mut Vec<GatewayError>) -> T {
    value.unwrap_or_else(|error| {
        errors.push(error);
        T::default()
    })
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

fn read_toml(path: &Path) -> Result<RawFile, GatewayError> {
    let text = read(path)?;
    toml::from_str(&text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let before = text.get(..start).unwrap_or_default();
        let index = before.matches('\n').count();
        let written = text.lines().nth(index).unwrap_or_default().trim();
        let message = error.message().replace('\n', "; ");
        GatewayError::Config {
            at: in_file(path.display(), Some(1 + index as u32)),
            reason: format!("{written}: {message}"),
        }
    })
}

fn note(severity: Severity, file: &Path, line: Option<u32>, text: String) -> Note {
    Note {
        severity,
        at: in_file(file.display(), line),
        text,
    }
}

/// Returns a note if the connector's log configuration is missing; the gateway does not use it.
fn missing_log_file(adapters: &Path, logging: Option<&Parameter>) -> Option<Note> {
    let Parameter { name, value, line } = logging?;
    let dir = adapters.parent().unwrap_or_else(|| Path::new(""));
    let text = format!("parameter [{name}]: \"{value}\" does not exist; it is not used here");
    let is_missing = !dir.join(value).is_file();
    is_missing.then(|| note(Severity::Info, adapters, *line, text))
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
            errors.push(InvalidConfig::NoTable(name.clone()).in_file(&file));
            continue;
        };
        let mut parameters = Vec::new();
        flatten("", table, &mut parameters);
        match ConnectionConfig::from_parameters(name, parameters, &source, None, notes) {
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
