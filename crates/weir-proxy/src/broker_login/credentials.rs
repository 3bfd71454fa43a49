//! File of broker credentials: a table per principal, with a login, a certificate or both.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::{Table, Value};
use weir_identity::Principal;
use weir_net::tls::{ClientFiles, ClientTls, TlsFiles, TlsFilesError};
use weir_sasl::client::{LoginMethod, UnusableLogin};
use weir_security::{KafkaSettings, SettingsError};

use super::delegation_token::DelegationTokens;
use crate::secret_file::{self, SecretFileError};

const FILE_BYTES_MAX: u64 = 64 << 20;
/// Permission bits that the file must not have: it contains passwords.
const FORBIDDEN_MODE: u32 = 0o077;
/// Table for principals without their own, and for the proxy itself.
const DEFAULT: &str = "default";
/// Table of the proxy's own connections, by default [`DEFAULT`].
const PROBE: &str = "probe";

/// Selection of the credentials of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdentityMode {
    /// The same for all clients.
    One,
    /// Those of the client's principal.
    Swap,
    /// A delegation token of the brokers for the client's principal.
    Delegate,
}

impl IdentityMode {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Swap => "swap",
            Self::Delegate => "delegate",
        }
    }
}

/// Login and certificate at brokers.
#[derive(Debug)]
pub(crate) struct Credential {
    /// Name of its table.
    pub(crate) name: Box<str>,
    /// `None`: no login, or one with a delegation token.
    pub(crate) method: Option<LoginMethod>,
    /// Present if the login is one with a delegation token.
    pub(crate) tokens: Option<Arc<DelegationTokens>>,
    /// `None`: TLS as configured for the cluster.
    pub(crate) tls: Option<ClientTls>,
}

/// A file of credentials that cannot be used. No message contains a value of the file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CredentialsError {
    #[error(transparent)]
    File(#[from] SecretFileError),
    #[error("{path}, line {line}: {reason}")]
    Syntax {
        path: String,
        line: usize,
        reason: String,
    },
    #[error("{path}, [{table}]: {reason}")]
    Table {
        path: String,
        table: String,
        reason: Box<TableError>,
    },
    #[error("{path}: no table [{DEFAULT}], which mode = \"{mode}\" uses")]
    NoDefault { path: String, mode: &'static str },
}

/// A table that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TableError {
    #[error("write a table, named {DEFAULT}, {PROBE}, \"User:NAME\" or \"Group:NAME\"")]
    Name,
    #[error("key {0}: use a string")]
    Value(String),
    #[error("key {0}: use sasl.* as in Kafka's clients, or certificate and key")]
    Key(String),
    #[error("set sasl.mechanism with its credentials, or certificate and key")]
    Empty,
    #[error("certificate and key must be set together")]
    Pair,
    #[error("a certificate needs TLS with the brokers: add [cluster.upstream_tls]")]
    NoTls,
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Login(#[from] UnusableLogin),
    #[error(transparent)]
    Tls(#[from] TlsFilesError),
}

/// File of credentials, with the parts of the configuration that reading it needs.
#[derive(Debug)]
pub(super) struct CredentialFile {
    pub(super) path: PathBuf,
    pub(super) mode: IdentityMode,
    /// Files of TLS with brokers; `None` without TLS.
    pub(super) upstream_tls: Option<ClientFiles>,
    /// A bootstrap server, whose name contains the AWS region.
    pub(super) server: String,
}

/// The credentials of a file.
#[derive(Debug, Default)]
pub(super) struct Credentials {
    by_name: HashMap<Box<str>, Arc<Credential>>,
    /// The file and the files that it names.
    pub(super) paths: Vec<PathBuf>,
}

impl Credentials {
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Returns the credential of a principal: its own, that of its first group with one, or the
    /// default.
    pub(super) fn of_principal(&self, principal: &Principal) -> Option<&Arc<Credential>> {
        self.own(principal).or_else(|| self.fixed())
    }

    /// Returns the credential of a principal itself, or that of its first group with one.
    pub(super) fn own(&self, principal: &Principal) -> Option<&Arc<Credential>> {
        let own = self.by_name.get(&*principal.to_string());
        let of_group = || {
            let mut groups = principal.groups();
            groups.find_map(|group| self.by_name.get(&*format!("Group:{group}")))
        };
        own.or_else(of_group)
    }

    /// Returns the credential of all principals without another one.
    pub(super) fn fixed(&self) -> Option<&Arc<Credential>> {
        self.by_name.get(DEFAULT)
    }

    /// Returns the credential of the proxy's own connections.
    pub(super) fn of_probe(&self) -> Option<&Arc<Credential>> {
        self.by_name.get(PROBE).or_else(|| self.fixed())
    }
}

impl CredentialFile {
    pub(super) fn read(&self) -> Result<Credentials, CredentialsError> {
        let path = || self.path.display().to_string();
        let text = secret_file::read(&self.path, FILE_BYTES_MAX, FORBIDDEN_MODE)?;
        let tables: Table = text.parse().map_err(|error: toml::de::Error| {
            // The error itself would print the line, with a password.
            let at = error.span().map_or(0, |span| span.start);
            CredentialsError::Syntax {
                path: path(),
                line: 1 + text[..at].matches('\n').count(),
                reason: error.message().to_owned(),
            }
        })?;
        let mut credentials = Credentials {
            paths: vec![self.path.clone()],
            ..Credentials::default()
        };
        for (name, table) in tables {
            let credential = self.credential(&name, table, &mut credentials.paths);
            let credential = credential.map_err(|reason| CredentialsError::Table {
                path: path(),
                table: name.clone(),
                reason: Box::new(reason),
            })?;
            let name = credential.name.clone();
            credentials.by_name.insert(name, Arc::new(credential));
        }
        if self.mode != IdentityMode::Swap && credentials.fixed().is_none() {
            let (path, mode) = (path(), self.mode.as_str());
            return Err(CredentialsError::NoDefault { path, mode });
        }
        Ok(credentials)
    }

    fn credential(
        &self,
        name: &str,
        table: Value,
        paths: &mut Vec<PathBuf>,
    ) -> Result<Credential, TableError> {
        let of_group = name.strip_prefix("Group:");
        let is_known = matches!(name, DEFAULT | PROBE)
            || of_group.is_some_and(|group| !group.is_empty())
            || name
                .parse::<Principal>()
                .is_ok_and(|one| one.kind() == "User");
        let Value::Table(table) = table else {
            return Err(TableError::Name);
        };
        if !is_known {
            return Err(TableError::Name);
        }
        let mut keys = Vec::new();
        flatten(String::new(), table, &mut keys)?;
        let (login, files): (Vec<_>, Vec<_>) = keys
            .into_iter()
            .partition(|(key, _)| key.starts_with("sasl."));
        if let Some((key, _)) = files
            .iter()
            .find(|(key, _)| key != "certificate" && key != "key")
        {
            return Err(TableError::Key(key.clone()));
        }
        if login.is_empty() && files.is_empty() {
            return Err(TableError::Empty);
        }
        Ok(Credential {
            name: name.into(),
            method: self.method(login)?,
            tokens: None,
            tls: self.tls(files, paths)?,
        })
    }

    fn method(&self, mut keys: Vec<(String, String)>) -> Result<Option<LoginMethod>, TableError> {
        if keys.is_empty() {
            return Ok(None);
        }
        // The cluster's configuration decides about TLS.
        let protocol = ("security.protocol".to_owned(), "SASL_PLAINTEXT".to_owned());
        keys.push(protocol);
        let settings = KafkaSettings::from_properties(Some(&self.server), &keys)?;
        let login = settings.security.sasl.as_ref();
        Ok(login.map(LoginMethod::new).transpose()?)
    }

    fn tls(
        &self,
        keys: Vec<(String, String)>,
        paths: &mut Vec<PathBuf>,
    ) -> Result<Option<ClientTls>, TableError> {
        if keys.is_empty() {
            return Ok(None);
        }
        let directory = self.path.parent().unwrap_or_else(|| Path::new(""));
        let file = |wanted| {
            let found = keys.iter().find(|(key, _)| key == wanted);
            found.map(|(_, path)| directory.join(path))
        };
        let (Some(certificate), Some(key)) = (file("certificate"), file("key")) else {
            return Err(TableError::Pair);
        };
        let files = self.upstream_tls.clone().ok_or(TableError::NoTls)?;
        let files = ClientFiles {
            own: Some([certificate, key]),
            ..files
        };
        paths.extend(files.own.iter().flatten().cloned());
        paths.extend(files.ca.clone());
        let (tls, _) = TlsFiles::client("broker_identity", files)?;
        Ok(Some(tls))
    }
}

/// Collects the strings of a table. In TOML, a dotted key is a nested table.
fn flatten(
    prefix: String,
    table: Table,
    out: &mut Vec<(String, String)>,
) -> Result<(), TableError> {
    for (key, value) in table {
        let key = format!("{prefix}{key}");
        match value {
            Value::String(text) => out.push((key, text)),
            Value::Table(table) => flatten(format!("{key}."), table, out)?,
            _ => return Err(TableError::Value(key)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
