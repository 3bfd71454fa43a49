//! What a gateway is told: `adapters.xml`, `gateway.toml`, and the built-in values.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use weir_mapping::{
    AdaptersFile, ConnectionConfig, Location, Note, Parameter, ParseOptions, Severity, Source,
    Threads,
};
use weir_tlcp::diff::DiffSettings;

use crate::compression::Compression;
use crate::diffs::{DiffConfig, RawDiffs};
use crate::error::GatewayError;
use crate::guard::Origins;
pub use crate::guard::PerAddress;
use crate::lightstreamer_conf;
use crate::tls::{TlsConfig, TlsFiles};

/// Adapter set name where no file gives one.
const DEFAULT_SET: &str = "KafkaConnector";

const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8080);
const DEFAULT_ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8090);

/// A checked configuration.
#[derive(Debug)]
pub struct GatewayConfig {
    /// Where clients connect; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The certificate clients are shown, and where; absent: no TLS.
    pub tls: Option<TlsFiles>,
    /// Where `/metrics` and `/health` are served; loopback unless a token is set.
    pub admin: SocketAddr,
    /// What a request to the admin port must carry as bearer token.
    pub admin_token: Option<String>,
    /// Event loops; default one per core.
    pub shards: usize,
    /// The name clients give as `LS_adapter_set`.
    pub set_id: String,
    /// Kafka connections.
    pub connections: Vec<ConnectionConfig>,
    /// What peers may cost.
    pub limits: Limits,
    /// Which values are sent as differences; default none.
    pub diffs: DiffConfig,
    /// What becomes of subscriptions to items and fields that cannot be.
    pub unknown_names: UnknownNames,
    /// Whether and how WebSocket messages are compressed; default not.
    pub compression: Compression,
    /// Origins of web pages that may connect; none: any.
    pub allowed_origins: Vec<String>,
    /// What the start item of the published load test's simulator says; absent: it is not served.
    pub simulator: Option<Simulator>,
    /// What is kept of items that nobody subscribes to.
    pub last_values: LastValues,
    /// Milliseconds that clients have to take their last bytes at shutdown.
    pub drain_ms: u64,
    /// Milliseconds over which the ends of sessions are spread at shutdown.
    pub drain_spread_ms: u64,
    /// Host, with or without port, to which clients send all that follows a session's first
    /// request; needed behind a balancer that does not keep a client with its gateway.
    pub control_link: Option<String>,
    /// What the operator should know about the files.
    pub notes: Vec<Note>,
}

/// What clients may cost; every one has a metric that shows it at work.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Sessions of the whole gateway, default 100,000; the descriptor limit may be lower.
    pub sessions: usize,
    /// Subscriptions of one session, default 1,000.
    pub subscriptions_per_session: usize,
    /// Items of one subscription, default 1,000.
    pub items_per_subscription: usize,
    /// Fields of one subscription, default 2,000: the published scenario 4 has about 1,000.
    pub fields_per_subscription: usize,
    /// Bytes queued for a client that does not read, default 1 MiB: about a thousand updates of
    /// 1 KB. As much again may wait as values; what goes beyond is merged, dropped or, where neither
    /// is allowed, lost and reported as lost.
    pub queue_bytes: usize,
    /// Bytes of data notifications kept per session for a client that loses its connection, default
    /// 128 KiB; 0 keeps none.
    pub recovery_bytes: usize,
    /// Milliseconds that they are kept, default 20,000.
    pub recovery_ms: u64,
    /// Milliseconds that a session waits for `bind_session` after `LOOP`, default 10,000.
    pub unbound_ms: u64,
    /// Rows of one item in mode COMMAND that each event loop keeps for later subscribers, default
    /// 10,000. Further keys are delivered but not kept.
    pub command_keys: usize,
    /// Updates of one item that are kept as snapshot of mode DISTINCT, default 10.
    pub distinct_snapshot: usize,
    /// Milliseconds after which a client that takes nothing of what is sent to it is given up,
    /// default 60,000. What is sent is a `PROBE` at least.
    pub stalled_ms: u64,
    /// Bytes of one request, default 50,000; told to clients.
    pub request_bytes: usize,
    /// Bytes of an update's line, default 0: as many as the client's library is known to read.
    /// Longer ones are left out and reported as lost.
    pub line_bytes: u32,
    /// Client connections of the whole gateway, sessions or not; default 0: an eighth more than
    /// `sessions`.
    pub connections: usize,
    /// Subscriptions of the whole gateway, default 0: no limit of their own.
    pub subscriptions: usize,
    /// Subscribed items of the whole gateway, counted once per shard; default 0: no limit of their own.
    pub items: usize,
    /// New sessions a second, default 0: no limit.
    pub sessions_per_second: f32,
    /// Requests a second, default 0: no limit.
    pub requests_per_second: f32,
    /// What one address may have, default: no limits, since a proxy or a company is one address.
    pub per_address: PerAddress,
    /// `sessions`, `subscriptions` and `items` divided over the shards, set when the gateway starts.
    #[serde(skip)]
    pub(crate) sessions_per_shard: usize,
    #[serde(skip)]
    pub(crate) subscriptions_per_shard: usize,
    #[serde(skip)]
    pub(crate) items_per_shard: usize,
}

impl Limits {
    /// Gives each of so many shards its share.
    pub(crate) fn divide(&mut self, shards: usize) {
        let share = |all: usize| match all {
            0 => usize::MAX,
            most => most.div_ceil(shards),
        };
        self.sessions_per_shard = share(self.sessions);
        self.subscriptions_per_shard = share(self.subscriptions);
        self.items_per_shard = share(self.items);
    }

    /// The most client connections, with room for those that are not sessions yet or no longer.
    pub(crate) fn connections_in_all(&self, shards: usize) -> usize {
        match self.connections {
            0 => self.sessions + self.sessions / 8 + 64 * shards,
            most => most,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions: 100_000,
            subscriptions_per_session: 1_000,
            items_per_subscription: 1_000,
            fields_per_subscription: 2_000,
            queue_bytes: 1024 * 1024,
            recovery_bytes: 128 * 1024,
            recovery_ms: 20_000,
            unbound_ms: 10_000,
            command_keys: 10_000,
            distinct_snapshot: 10,
            stalled_ms: 60_000,
            request_bytes: 50_000,
            line_bytes: 0,
            connections: 0,
            subscriptions: 0,
            items: 0,
            sessions_per_second: 0.0,
            requests_per_second: 0.0,
            per_address: PerAddress::default(),
            sessions_per_shard: 100_000,
            subscriptions_per_shard: usize::MAX,
            items_per_shard: usize::MAX,
        }
    }
}

/// `unknown_names`: the answer to a subscription that names an item no topic can have, or a
/// field that is not mapped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnknownNames {
    /// `REQERR`, so that whoever misspelt a name learns of it.
    #[default]
    Refuse,
    /// As the connector does: nothing ever comes for the item, the field stays null.
    Accept,
}

/// `[last_values]`: the last record of every item, so that a first subscriber sees it at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LastValues {
    /// Bytes that they may take in all, default 0: they are not kept, and Kafka is read only while
    /// somebody subscribes.
    pub memory_bytes: usize,
}

/// `[simulator]`: the values of item `CONFIGURATION` of adapter set `LOAD_TESTS`, from which the
/// published load test's client simulator learns what to do.
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
    /// `resamplingFrequency`, updates/s; 0, the default: not told.
    pub resampling_frequency: f64,
    /// `resamplingBufferSize`; 0, the default: not told.
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

/// What the command line may say; it wins over the files.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `--listen`
    pub listen: Option<SocketAddr>,
    /// `--admin`
    pub admin: Option<SocketAddr>,
    /// `--shards`
    pub shards: Option<usize>,
    /// `--lightstreamer-conf`: what it says holds where `[diffs]` says nothing.
    pub lightstreamer_conf: Option<PathBuf>,
}

/// `gateway.toml` as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawFile {
    listen: Option<SocketAddr>,
    shards: Option<usize>,
    adapter_set: Option<String>,
    drain_ms: Option<u64>,
    drain_spread_ms: Option<u64>,
    control_link: Option<String>,
    admin: RawAdmin,
    tls: Option<TlsConfig>,
    limits: Limits,
    unknown_names: UnknownNames,
    last_values: LastValues,
    diffs: RawDiffs,
    compression: Compression,
    allowed_origins: Vec<String>,
    simulator: Option<Simulator>,
    connection: toml::Table,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawAdmin {
    listen: Option<SocketAddr>,
    token: Option<String>,
}

impl GatewayConfig {
    /// Reads the files given and checks the whole.
    ///
    /// # Errors
    /// The first mistake, with file, line where known, key, value and remedy.
    pub fn load(
        adapters: Option<&Path>,
        toml: Option<&Path>,
        overrides: &Overrides,
        options: ParseOptions,
    ) -> Result<Self, GatewayError> {
        let raw = toml.map_or_else(|| Ok(RawFile::default()), read_toml)?;
        let file = toml.unwrap_or_else(|| Path::new("gateway.toml"));
        let mut notes = Vec::new();
        let mut connections = read_connections(file, &raw.connection, options, &mut notes)?;
        let mut set_id = raw.adapter_set;
        if let Some(path) = adapters {
            let parsed = read_adapters(path, options)?;
            set_id.get_or_insert(parsed.set_id);
            notes.extend(parsed.notes);
            notes.extend(missing_log_file(path, parsed.logging_path.as_deref()));
            connections.extend(parsed.connections);
        }
        let diffs = match &overrides.lightstreamer_conf {
            None => DiffSettings::default(),
            Some(path) => lightstreamer_conf::read(path, &read(path)?, &mut notes)?,
        };
        let names: Vec<&str> = connections.iter().map(|one| one.name.as_str()).collect();
        let diffs = raw.diffs.over(&diffs, &names);
        let diffs = diffs.map_err(|reason| GatewayError::Config {
            file: file.display().to_string(),
            reason,
        })?;
        let folder = file.parent().unwrap_or_else(|| Path::new(""));
        let tls = raw.tls.map(|tls| TlsFiles::open(tls, folder)).transpose()?;
        let now_unix_s = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |now| now.as_secs());
        let ending = tls.as_ref().and_then(|tls| tls.remark(now_unix_s as i64));
        notes.extend(ending.map(|text| warning(file, text)));
        let config = Self {
            tls,
            diffs,
            listen: overrides.listen.or(raw.listen).unwrap_or(DEFAULT_LISTEN),
            admin: overrides
                .admin
                .or(raw.admin.listen)
                .unwrap_or(DEFAULT_ADMIN),
            admin_token: raw.admin.token.filter(|token| !token.is_empty()),
            shards: overrides.shards.or(raw.shards).unwrap_or_else(cores),
            set_id: set_id.unwrap_or_else(|| DEFAULT_SET.to_owned()),
            connections,
            limits: raw.limits,
            unknown_names: raw.unknown_names,
            compression: raw.compression,
            allowed_origins: raw.allowed_origins,
            simulator: raw.simulator,
            last_values: raw.last_values,
            drain_ms: raw.drain_ms.unwrap_or(5_000),
            drain_spread_ms: raw.drain_spread_ms.unwrap_or(1_000),
            control_link: raw.control_link,
            notes,
        };
        config.check(&file.display().to_string())?;
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
        for (index, connection) in self.connections.iter().enumerate() {
            if self.connections[..index]
                .iter()
                .any(|other| other.name == connection.name)
            {
                return fail(format!(
                    "connection \"{}\" is defined twice: rename one",
                    connection.name
                ));
            }
        }
        for connection in &self.connections {
            if let Threads::Count(count @ (257..)) = connection.threads {
                let name = &connection.name;
                return fail(format!(
                    "connection \"{name}\": record.consume.with.num.threads = {count}: use at most 256"
                ));
            }
        }
        if !(1..=1024).contains(&self.shards) {
            return fail(format!("shards = {}: use 1 to 1024", self.shards));
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
        if !self.admin.ip().is_loopback() && self.admin_token.is_none() {
            let admin = self.admin;
            return fail(format!(
                "admin listens on {admin}, which others can reach: set admin.token, or use 127.0.0.1"
            ));
        }
        for (key, value) in [
            ("recovery_ms", self.limits.recovery_ms),
            ("unbound_ms", self.limits.unbound_ms),
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
            if !(100..=600_000).contains(&tls.config.handshake_ms) {
                let given = tls.config.handshake_ms;
                return fail(format!("tls.handshake_ms = {given}: use 100 to 600000"));
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
            || !(1_000..=3_600_000).contains(&self.limits.stalled_ms)
            || self.limits.request_bytes < 1_000
        {
            return fail("limits: sessions and queue_bytes from 1, request_bytes from 1000, stalled_ms from 1000 to 3600000".into());
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
    toml::from_str(&read(path)?).map_err(|error| GatewayError::Config {
        file: path.display().to_string(),
        reason: error.to_string().trim_end().to_owned(),
    })
}

fn read_adapters(path: &Path, options: ParseOptions) -> Result<AdaptersFile, GatewayError> {
    let env = |name: &str| std::env::var(name).ok();
    let name = path.display().to_string();
    Ok(AdaptersFile::parse(&name, &read(path)?, &env, options)?)
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

/// The connector's log settings are not read, so their absence is worth a word and no more.
fn missing_log_file(adapters: &Path, logging: Option<&str>) -> Option<Note> {
    let logging = logging?;
    let folder = adapters.parent().unwrap_or_else(|| Path::new(""));
    if folder.join(logging).is_file() {
        return None;
    }
    Some(Note {
        severity: Severity::Info,
        at: Location {
            file: adapters.display().to_string(),
            line: None,
            connection: None,
        },
        text: format!("logging.configuration.path: {logging} does not exist; it is not used here"),
    })
}

/// `[connection.NAME]` tables: the connector's parameters, nested tables joined by dots.
fn read_connections(
    path: &Path,
    tables: &toml::Table,
    options: ParseOptions,
    notes: &mut Vec<Note>,
) -> Result<Vec<ConnectionConfig>, GatewayError> {
    let file = path.display().to_string();
    let source = Source {
        file: &file,
        options,
    };
    let mut connections = Vec::new();
    for (name, value) in tables {
        let toml::Value::Table(table) = value else {
            let reason = format!("connection.{name} must be a table of parameters");
            return Err(GatewayError::Config { file, reason });
        };
        let mut parameters = Vec::new();
        flatten("", table, &mut parameters);
        let connection = ConnectionConfig::from_parameters(name, parameters, &source, None, notes)?;
        connections.push(connection);
    }
    Ok(connections)
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
