//! `[adapter]` of the gateway's configuration.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;
use weir_net::tls::{ClientFiles, ServerFiles};

use crate::credentials::AdapterUser;

/// Longest name and password of a user, in bytes.
const CREDENTIAL_BYTES_MAX: usize = 1024;
/// Most users.
const USERS_MAX: usize = 16;
/// Most parameters.
const PARAMETERS_MAX: usize = 100;
/// Default of `timeout_ms`, below the 4 s after which client SDKs try again.
const TIMEOUT_MS: u64 = 3_000;
const ACTIVITY_TIMEOUT_MS: u64 = 15_000;
const PENDING: usize = 10_000;

/// `[adapter]` as written in the file.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RawAdapterConfig {
    /// Address on which the gateway waits for the adapter.
    pub listen: Option<SocketAddr>,
    /// `host:port` of an adapter that waits for the gateway.
    pub connect: Option<String>,
    /// Users as which an adapter may connect; without any, credentials are not checked.
    #[serde(default)]
    pub users: Vec<RawAdapterUser>,
    /// Certificate chain of the gateway as PEM.
    pub certificate: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
    /// With `listen`: authorities of the certificates that adapters must present.
    pub client_ca: Option<PathBuf>,
    /// With `connect`: authorities of the adapter's certificate; turns TLS on.
    pub ca: Option<PathBuf>,
    /// Time for a reply in milliseconds.
    #[serde(default = "default_timeout_ms")]
    pub timeout_ms: u64,
    /// Time without a line of the adapter, in milliseconds, after which the connection is closed.
    #[serde(default = "default_activity_timeout_ms")]
    pub activity_timeout_ms: u64,
    /// Most requests that wait for replies.
    #[serde(default = "default_pending")]
    pub pending: usize,
    /// Close notifications that a new connection gets again.
    #[serde(default)]
    pub close_notifications_recovery: CloseRecovery,
    /// Answer to subscriptions while the adapter does not decide.
    #[serde(default)]
    pub unavailable: UnavailablePolicy,
    /// Parameters for the adapter, whose names contain a colon.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
}

/// User as written in the file.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RawAdapterUser {
    /// Name.
    pub name: String,
    /// File with the password; line ends at its end are ignored.
    pub password_file: PathBuf,
}

/// Close notifications that a new connection gets again after the adapter was away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CloseRecovery {
    /// Those without a reply, sent or not: none is missed, some arrive twice.
    Pessimistic,
    /// Those that were not sent: none arrives twice, some are missed.
    Optimistic,
    /// None: a new adapter knows nothing of old sessions.
    #[default]
    Unneeded,
}

/// Answer to subscriptions while the adapter does not decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum UnavailablePolicy {
    /// Refuse the subscription, which the client does not repeat.
    #[default]
    Reject,
    /// End the session. The client creates a new one at once, with all its subscriptions.
    EndSession,
}

/// Direction in which the connection is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the names are those of the keys
pub enum AdapterDirection {
    Listen(SocketAddr),
    Connect(String),
}

/// Files for TLS.
#[derive(Debug, Clone)]
pub enum AdapterTls {
    /// The adapter connects.
    Server(ServerFiles),
    /// The gateway connects.
    Client(ClientFiles),
}

/// Checked `[adapter]`.
#[derive(Debug, Clone)]
#[allow(missing_docs)] // as in the raw form
pub struct AdapterConfig {
    pub direction: AdapterDirection,
    pub tls: Option<AdapterTls>,
    pub users: Vec<AdapterUser>,
    pub timeout_ms: u64,
    pub activity_timeout_ms: u64,
    pub pending: usize,
    pub close_recovery: CloseRecovery,
    pub unavailable: UnavailablePolicy,
    pub parameters: Vec<(String, String)>,
}

/// Invalid `[adapter]`.
#[derive(Debug, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum AdapterConfigError {
    #[error("[adapter] needs either listen = \"ADDRESS:PORT\" or connect = \"HOST:PORT\"")]
    Direction,
    #[error("[adapter] connect = \"{0}\" is not HOST:PORT")]
    Connect(String),
    #[error("[adapter] certificate and key belong together")]
    Pair,
    #[error("[adapter] {key} belongs to {direction}")]
    OtherDirection {
        key: &'static str,
        direction: &'static str,
    },
    #[error("[adapter] client_ca needs certificate and key")]
    NoCertificate,
    #[error("[adapter] with connect, certificate needs ca, the authority of the adapter")]
    NoAuthority,
    #[error("[adapter] {key} must be from {min} to {max}")]
    Range {
        key: &'static str,
        min: u64,
        max: u64,
    },
    #[error("[adapter] users has more than {USERS_MAX} entries")]
    TooManyUsers,
    #[error(
        "[adapter] users: a name is empty, longer than {CREDENTIAL_BYTES_MAX} bytes or repeated"
    )]
    UserName,
    #[error("[adapter] cannot read password_file {}: {error}", path.display())]
    PasswordFile {
        path: PathBuf,
        error: std::io::Error,
    },
    #[error(
        "[adapter] password_file {} must contain 1 to {CREDENTIAL_BYTES_MAX} bytes of UTF-8",
        .0.display()
    )]
    Password(PathBuf),
    #[error("[adapter] parameters: name \"{0}\" has no colon; write for example \"app:{0}\"")]
    Parameter(String),
    #[error("[adapter] parameters has more than {PARAMETERS_MAX} entries")]
    TooManyParameters,
}

impl AdapterConfig {
    /// Checks a configuration and reads its password files. Paths are relative to `dir`.
    pub fn new(raw: RawAdapterConfig, dir: &Path) -> Result<Self, AdapterConfigError> {
        in_range("timeout_ms", raw.timeout_ms, 100, 60_000)?;
        in_range(
            "activity_timeout_ms",
            raw.activity_timeout_ms,
            1_000,
            600_000,
        )?;
        in_range("pending", raw.pending as u64, 1, 100_000)?;
        let tls = tls(&raw, dir)?;
        let direction = match (raw.listen, raw.connect) {
            (Some(address), None) => AdapterDirection::Listen(address),
            (None, Some(address)) if has_port(&address) => AdapterDirection::Connect(address),
            (None, Some(address)) => return Err(AdapterConfigError::Connect(address)),
            _ => return Err(AdapterConfigError::Direction),
        };
        if raw.parameters.len() > PARAMETERS_MAX {
            return Err(AdapterConfigError::TooManyParameters);
        }
        if let Some(name) = raw.parameters.keys().find(|name| !name.contains(':')) {
            return Err(AdapterConfigError::Parameter(name.clone()));
        }
        Ok(Self {
            direction,
            tls,
            users: users(raw.users, dir)?,
            timeout_ms: raw.timeout_ms,
            activity_timeout_ms: raw.activity_timeout_ms,
            pending: raw.pending,
            close_recovery: raw.close_notifications_recovery,
            unavailable: raw.unavailable,
            parameters: raw.parameters.into_iter().collect(),
        })
    }

    /// Returns `true` if passwords of clients leave this machine without encryption.
    pub fn is_exposed(&self) -> bool {
        let is_local = match &self.direction {
            AdapterDirection::Listen(address) => address.ip().is_loopback(),
            AdapterDirection::Connect(address) => {
                let host = address
                    .rsplit_once(':')
                    .map_or(&**address, |(host, _)| host);
                let host = host.trim_start_matches('[').trim_end_matches(']');
                let ip = host.parse::<std::net::IpAddr>();
                host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
            }
        };
        self.tls.is_none() && !is_local
    }
}

fn in_range(key: &'static str, value: u64, min: u64, max: u64) -> Result<(), AdapterConfigError> {
    match (min..=max).contains(&value) {
        true => Ok(()),
        false => Err(AdapterConfigError::Range { key, min, max }),
    }
}

fn has_port(address: &str) -> bool {
    let parts = address.rsplit_once(':');
    parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

fn tls(raw: &RawAdapterConfig, dir: &Path) -> Result<Option<AdapterTls>, AdapterConfigError> {
    let path = |path: &PathBuf| dir.join(path);
    let own = match (&raw.certificate, &raw.key) {
        (Some(certificate), Some(key)) => Some([path(certificate), path(key)]),
        (None, None) => None,
        _ => return Err(AdapterConfigError::Pair),
    };
    let other = |key, direction| AdapterConfigError::OtherDirection { key, direction };
    if raw.connect.is_some() {
        if raw.client_ca.is_some() {
            return Err(other("client_ca", "listen"));
        }
        return match (&raw.ca, own) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err(AdapterConfigError::NoAuthority),
            (Some(ca), own) => Ok(Some(AdapterTls::Client(ClientFiles {
                ca: Some(path(ca)),
                own,
            }))),
        };
    }
    if raw.ca.is_some() {
        return Err(other("ca", "connect"));
    }
    match own {
        Some([certificate, key]) => Ok(Some(AdapterTls::Server(ServerFiles {
            certificate,
            key,
            client_ca: raw.client_ca.as_ref().map(path),
            client_optional: false,
        }))),
        None if raw.client_ca.is_some() => Err(AdapterConfigError::NoCertificate),
        None => Ok(None),
    }
}

fn users(raw: Vec<RawAdapterUser>, dir: &Path) -> Result<Vec<AdapterUser>, AdapterConfigError> {
    if raw.len() > USERS_MAX {
        return Err(AdapterConfigError::TooManyUsers);
    }
    let mut users: Vec<AdapterUser> = Vec::new();
    for user in raw {
        let is_valid = (1..=CREDENTIAL_BYTES_MAX).contains(&user.name.len());
        if !is_valid || users.iter().any(|other| other.name == user.name) {
            return Err(AdapterConfigError::UserName);
        }
        let path = dir.join(user.password_file);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) => return Err(AdapterConfigError::PasswordFile { path, error }),
        };
        let password = String::from_utf8(bytes).unwrap_or_default();
        let password = password.trim_end_matches(['\r', '\n']).to_owned();
        if !(1..=CREDENTIAL_BYTES_MAX).contains(&password.len()) {
            return Err(AdapterConfigError::Password(path));
        }
        let name = user.name;
        users.push(AdapterUser { name, password });
    }
    Ok(users)
}

fn default_timeout_ms() -> u64 {
    TIMEOUT_MS
}

fn default_activity_timeout_ms() -> u64 {
    ACTIVITY_TIMEOUT_MS
}

fn default_pending() -> usize {
    PENDING
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<AdapterConfig, String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("secret"), "s3cret\r\n").unwrap();
        std::fs::write(dir.path().join("empty"), "\n").unwrap();
        let raw = toml::from_str(text).map_err(|error| error.to_string())?;
        AdapterConfig::new(raw, dir.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_apply_to_one_key() {
        let config = read("listen = \"127.0.0.1:6663\"").unwrap();
        let address = "127.0.0.1:6663".parse().unwrap();
        assert_eq!(config.direction, AdapterDirection::Listen(address));
        assert_eq!((config.timeout_ms, config.pending), (3_000, 10_000));
        assert_eq!(config.close_recovery, CloseRecovery::Unneeded);
        assert_eq!(config.unavailable, UnavailablePolicy::Reject);
        assert!(config.tls.is_none() && config.users.is_empty() && !config.is_exposed());
    }

    #[test]
    fn all_keys_are_read() {
        let text = "connect = \"adapters.example:6663\"\nca = \"ca.pem\"\ncertificate = \"c.pem\"\n\
            key = \"k.pem\"\nusers = [{ name = \"gw\", password_file = \"secret\" }]\n\
            timeout_ms = 1000\nactivity_timeout_ms = 5000\npending = 10\n\
            close_notifications_recovery = \"pessimistic\"\nunavailable = \"end_session\"\n\
            parameters = { \"app:region\" = \"eu\" }";
        let config = read(text).unwrap();
        assert_eq!(config.users[0].password, "s3cret");
        assert_eq!(config.close_recovery, CloseRecovery::Pessimistic);
        assert_eq!(config.unavailable, UnavailablePolicy::EndSession);
        assert_eq!(config.parameters, [("app:region".into(), "eu".into())]);
        assert!(matches!(config.tls, Some(AdapterTls::Client(_))) && !config.is_exposed());
        let exposed = |text| read(text).unwrap().is_exposed();
        assert!(exposed("listen = \"0.0.0.0:6663\""));
        assert!(exposed("connect = \"adapters.example:6663\""));
        assert!(!exposed("connect = \"[::1]:6663\""));
    }

    #[test]
    fn faults_are_named() {
        let listen = "listen = \"127.0.0.1:1\"\n";
        let faults = [
            ("", "needs either listen"),
            (
                "listen = \"127.0.0.1:1\"\nconnect = \"a:1\"",
                "needs either",
            ),
            ("connect = \"a\"", "not HOST:PORT"),
            (
                "connect = \"a:1\"\nclient_ca = \"x\"",
                "client_ca belongs to listen",
            ),
            ("connect = \"a:1\"\ncertificate = \"x\"", "belong together"),
            (
                "connect = \"a:1\"\ncertificate = \"x\"\nkey = \"y\"",
                "certificate needs ca",
            ),
            ("@ca = \"x\"", "ca belongs to connect"),
            ("@key = \"x\"", "belong together"),
            ("@client_ca = \"x\"", "needs certificate"),
            ("@timeout_ms = 99", "timeout_ms must be from 100 to 60000"),
            ("@pending = 0", "pending must be"),
            ("@activity_timeout_ms = 1", "activity_timeout_ms must be"),
            ("@parameters = { a = \"b\" }", "write for example \"app:a\""),
            (
                "@users = [{ name = \"a\", password_file = \"none\" }]",
                "cannot read",
            ),
            (
                "@users = [{ name = \"a\", password_file = \"empty\" }]",
                "must contain",
            ),
            (
                "@users = [{ name = \"\", password_file = \"secret\" }]",
                "name is empty",
            ),
            ("@nonsense = 1", "unknown field"),
        ];
        for (text, expected) in faults {
            let error = read(&text.replace('@', listen)).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
