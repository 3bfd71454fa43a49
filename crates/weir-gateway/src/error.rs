//! Errors that prevent a gateway from starting, by cause.

use std::net::SocketAddr;

use weir_mapping::{ConfigError, Location};
use weir_tlcp::codes::ControlCode;

/// A start-up error. Errors of a running gateway appear in metrics, health and log.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// A configuration file, or an option of the command line, is invalid.
    #[error("{at}: {reason}")]
    Config {
        /// The file, with line or connection if known, or the option as typed.
        at: Location,
        /// Key, value and remedy.
        reason: String,
    },
    /// Two or more errors.
    #[error("{}", lines(.0))]
    Several(Vec<Self>),
    /// Binding a listen address failed.
    #[error("cannot listen on {address} ({key}): {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Option that sets the address.
        key: &'static str,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// The connection to the remote adapter cannot be set up.
    #[error(transparent)]
    Adapter(#[from] weir_adapter::AdapterError),
    /// The operating system refused a thread or a file descriptor.
    #[error("cannot start: {0}")]
    System(#[from] std::io::Error),
}

fn lines(errors: &[GatewayError]) -> String {
    let lines: Vec<_> = errors.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

impl From<ConfigError> for GatewayError {
    fn from(error: ConfigError) -> Self {
        Self::Config {
            at: error.at,
            reason: error.text,
        }
    }
}

impl GatewayError {
    /// Combines errors; returns `None` if there are none.
    pub(crate) fn join(errors: Vec<Self>) -> Option<Self> {
        let apart = |error| match error {
            Self::Several(errors) => errors,
            one => vec![one],
        };
        let mut errors: Vec<_> = errors.into_iter().flat_map(apart).collect();
        match errors.len() {
            0 | 1 => errors.pop(),
            _ => Some(Self::Several(errors)),
        }
    }

    /// Returns the individual errors.
    pub fn errors(&self) -> &[Self] {
        match self {
            Self::Several(errors) => errors,
            one => std::slice::from_ref(one),
        }
    }

    /// Returns the location in a configuration file, if known, and the error text.
    pub fn location(&self) -> (Option<Location>, String) {
        match self {
            Self::Config { at, reason } => (Some(at.clone()), reason.clone()),
            other => (None, other.to_string()),
        }
    }

    /// Returns `true` if a change of the configuration or command line can fix the error.
    pub fn is_config_error(&self) -> bool {
        !matches!(self, Self::System(_))
    }
}

/// A value of `gateway.toml` or the command line that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InvalidConfig {
    #[error("no Kafka connection: give --adapters FILE or a [connection.NAME] table")]
    NoConnection,
    #[error("connection.{0} must be a table of parameters")]
    NoTable(String),
    #[error("connection \"{name}\" is also in {other}: rename one")]
    SameName { name: String, other: String },
    #[error("adapter_set = \"\": write the name that clients give")]
    NoAdapterSet,
    #[error("event_loops = {0}: use 1 to 1024")]
    EventLoops(usize),
    #[error("event_loop_sessions = 0: use at least 1")]
    EventLoopSessions,
    #[error("drain_spread_ms = {0}: use at most 600000")]
    DrainSpread(u64),
    #[error("[kafka]: {0}")]
    Kafka(#[from] weir_kafka::SettingsError),
    #[error("[kafka.connection.{name}]: {error}")]
    KafkaOf {
        name: String,
        error: weir_kafka::SettingsError,
    },
    #[error(transparent)]
    Admin(#[from] weir_net::admin::AdminConfigError),
    #[error(transparent)]
    Otlp(#[from] weir_net::otlp::OtlpConfigError),
    #[error(transparent)]
    Audit(#[from] weir_access::audit::AuditError),
    #[error(transparent)]
    Adapter(#[from] weir_adapter::AdapterConfigError),
    #[error("tls: {0}")]
    Tls(#[from] weir_net::tls::TlsFilesError),
    #[error("tls.listen = {0} is also listen: leave it out for TLS only")]
    SameListen(SocketAddr),
    #[error(transparent)]
    NoKafkaConnection(#[from] weir_ingest::UnknownConnection),
    #[error(
        "connections \"{one}\" and \"{other}\" use different Kerberos tickets, but a process has \
         one ticket cache: start a gateway for each principal"
    )]
    TwoTickets { one: String, other: String },
    #[error("[[message]]: {0}")]
    Message(#[from] weir_identity::config::RuleConfigError),
    #[error("messages.{0} is out of range, see docs/client-messages.md")]
    MessageLimit(&'static str),
    #[error("message rule \"{rule}\": no connection \"{name}\"; connections: {known}")]
    MessageConnection {
        rule: String,
        name: String,
        known: String,
    },
    #[error("message rule \"{rule}\": there is no [adapter]")]
    MessageAdapter { rule: String },
    #[error("message rule \"{rule}\": connection \"{name}\": {error}")]
    MessageClient {
        rule: String,
        name: String,
        error: weir_kafka::SettingsError,
    },
    #[error("message rule \"{rule}\": connection \"{name}\" is not enabled")]
    MessageDisabled { rule: String, name: String },
    #[error("auth.revocations: no connection \"{name}\"; connections: {known}")]
    RevocationConnection { name: String, known: String },
    #[error("auth.revocations: connection \"{name}\": {error}")]
    RevocationClient {
        name: String,
        error: weir_kafka::SettingsError,
    },
    #[error("auth.revocations: connection \"{0}\" is not enabled")]
    RevocationDisabled(String),
    #[error(
        "auth.sources has \"certificate\", but clients are not asked for one: give the \
         authorities of their certificates as tls.client_ca"
    )]
    NoClientCa,
    #[error("tls.client_auth needs tls.client_ca")]
    ClientAuth,
    #[error("diffs.connection.{name}: no such connection; connections: {known}")]
    NoDiffConnection { name: String, known: String },
}

impl InvalidConfig {
    pub(crate) fn in_file(&self, file: impl ToString) -> GatewayError {
        GatewayError::Config {
            at: in_file(file, None),
            reason: self.to_string(),
        }
    }
}

/// Returns a location in a file, with the line from 1 if it is known.
pub(crate) fn in_file(file: impl ToString, line: Option<u32>) -> Location {
    Location {
        file: file.to_string(),
        line,
        connection: None,
    }
}

#[derive(Debug)]
pub(crate) struct SubscriptionError {
    pub(crate) code: ControlCode,
    pub(crate) message: String,
}

impl From<ControlCode> for SubscriptionError {
    fn from(code: ControlCode) -> Self {
        let message = code.text().to_owned();
        Self { code, message }
    }
}
