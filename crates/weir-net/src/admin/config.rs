//! The table `[admin]` of products.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::token::SessionsToken;
use crate::tls::{ServerFiles, TlsAcceptor, TlsFiles, TlsFilesError};

/// Least length of the token of session administration.
const TOKEN_CHARS_MIN: usize = 32;
/// Timeout of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Settings of the admin port.
#[derive(Debug)]
pub struct AdminConfig {
    /// Listen address of pages, metrics and health; a loopback address unless a token is set.
    pub listen: SocketAddr,
    /// Bearer token that requests must carry.
    pub token: Option<String>,
    /// Names that a request's `Host` may have, in addition to IP addresses and localhost.
    pub hosts: Vec<String>,
    /// Token of the paths below `/admin/v1`; without it they do not exist.
    pub sessions_token: Option<SessionsToken>,
    /// TLS of the port; plain text without it.
    pub tls: Option<Arc<TlsAcceptor>>,
    /// Files of `tls`.
    pub files: Option<Arc<TlsFiles>>,
}

/// `[admin]` as written.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct AdminTable {
    listen: Option<SocketAddr>,
    token: Option<String>,
    hosts: Vec<String>,
    tls: Option<AdminTlsTable>,
    sessions: Option<SessionsTable>,
}

/// `[admin.sessions]`
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct SessionsTable {
    token: Option<SessionsToken>,
    token_file: Option<PathBuf>,
}

/// `[admin.tls]`
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct AdminTlsTable {
    certificate: PathBuf,
    key: PathBuf,
}

/// Unusable settings of the admin port.
#[derive(Debug, thiserror::Error)]
pub enum AdminConfigError {
    /// Others can reach the port without a token.
    #[error("admin.listen = {0} is not a loopback address: set admin.token, or use 127.0.0.1")]
    Public(SocketAddr),
    /// A product without sessions.
    #[error("admin.sessions: only a gateway has sessions; remove the table")]
    NoSessions,
    /// No token, or two of them.
    #[error("admin.sessions: write either token or token_file")]
    TokenSource,
    /// A token that could be guessed.
    #[error("admin.sessions: the token has less than {TOKEN_CHARS_MIN} characters")]
    ShortToken,
    /// The token opens metrics and pages, too.
    #[error("admin.sessions: the token must differ from admin.token")]
    SameToken,
    /// A token of the environment that is not there: table and variable.
    #[error("{0}: token = \"$env.{1}\": set the environment variable {1}")]
    TokenVariable(&'static str, String),
    /// Unreadable token file.
    #[error("admin.sessions: token_file = \"{}\": cannot read the file: {error}", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// Unusable certificate files.
    #[error("admin.tls: {0}")]
    Tls(#[from] TlsFilesError),
}

impl AdminTable {
    /// Checks the settings of a product without sessions, otherwise as [`Self::open`].
    pub fn open_without_sessions(
        self,
        option: Option<SocketAddr>,
        default: SocketAddr,
        dir: &Path,
    ) -> Result<AdminConfig, AdminConfigError> {
        match self.sessions {
            Some(_) => Err(AdminConfigError::NoSessions),
            None => self.open(option, default, dir),
        }
    }

    /// Checks the settings, and reads certificate and token. `option` is the address of the command
    /// line, `default` that without any; relative paths start at `dir`.
    pub fn open(
        self,
        option: Option<SocketAddr>,
        default: SocketAddr,
        dir: &Path,
    ) -> Result<AdminConfig, AdminConfigError> {
        let listen = option.or(self.listen).unwrap_or(default);
        let token = self.token.map(|token| resolve("admin", &token));
        let token = token.transpose()?.filter(|token| !token.is_empty());
        if !listen.ip().is_loopback() && token.is_none() {
            return Err(AdminConfigError::Public(listen));
        }
        let sessions_token = self.sessions.map(|sessions| sessions.token(dir));
        let sessions_token = sessions_token.transpose()?;
        let is_same = |own: &SessionsToken| token.as_ref().is_some_and(|token| own.is(token));
        if sessions_token.as_ref().is_some_and(is_same) {
            return Err(AdminConfigError::SameToken);
        }
        let opened = self.tls.map(|tls| {
            let files = ServerFiles {
                certificate: dir.join(tls.certificate),
                key: dir.join(tls.key),
                client_ca: None,
                client_optional: false,
            };
            TlsFiles::server("admin.tls", files, Some(HANDSHAKE))
        });
        let (tls, files) = opened.transpose()?.unzip();
        Ok(AdminConfig {
            listen,
            token,
            hosts: self.hosts,
            sessions_token,
            tls,
            files: files.map(Arc::new),
        })
    }
}

impl SessionsTable {
    /// Returns the token: as written, of an environment variable, or of a file.
    fn token(self, dir: &Path) -> Result<SessionsToken, AdminConfigError> {
        let token = match (self.token, self.token_file) {
            (Some(token), None) => resolve("admin.sessions", token.reveal())?,
            (None, Some(path)) => {
                let path = dir.join(path);
                let read = std::fs::read_to_string(&path);
                let text = read.map_err(|error| AdminConfigError::TokenFile { path, error })?;
                text.trim().to_owned()
            }
            _ => return Err(AdminConfigError::TokenSource),
        };
        match token.chars().count() {
            ..TOKEN_CHARS_MIN => Err(AdminConfigError::ShortToken),
            _ => Ok(SessionsToken::new(token)),
        }
    }
}

/// Returns a token as written, or that of an environment variable.
fn resolve(table: &'static str, token: &str) -> Result<String, AdminConfigError> {
    match token.strip_prefix("$env.") {
        Some(name) => {
            std::env::var(name).map_err(|_| AdminConfigError::TokenVariable(table, name.to_owned()))
        }
        None => Ok(token.to_owned()),
    }
}

impl AdminConfig {
    /// Returns the scheme of the port's URLs.
    pub fn scheme(&self) -> &'static str {
        match self.tls {
            Some(_) => "https",
            None => "http",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(token: Option<&str>, file: Option<&str>) -> AdminTable {
        AdminTable {
            token: Some("t".repeat(40)),
            sessions: Some(SessionsTable {
                token: token.map(SessionsToken::new),
                token_file: file.map(PathBuf::from),
            }),
            ..AdminTable::default()
        }
    }

    fn open(table: AdminTable) -> Result<AdminConfig, AdminConfigError> {
        table.open(None, ([127, 0, 0, 1], 0).into(), Path::new("/nowhere"))
    }

    #[test]
    fn token_is_long_secret_and_its_own() {
        let good = "0123456789abcdef0123456789abcdef";
        let config = open(sessions(Some(good), None)).unwrap();
        let token = config.sessions_token.unwrap();
        assert!(token.is(good) && !token.is(&good[1..]) && !token.is(&good.replace('f', "g")));
        assert_eq!(format!("{token:?}"), "***");
        let error = |table| open(table).unwrap_err();
        let short = error(sessions(Some(&good[1..]), None));
        assert!(matches!(short, AdminConfigError::ShortToken));
        let same = error(sessions(Some(&"t".repeat(40)), None));
        assert!(matches!(same, AdminConfigError::SameToken));
        for (token, file) in [(None, None), (Some(good), Some("x"))] {
            let error = error(sessions(token, file));
            assert!(matches!(error, AdminConfigError::TokenSource));
        }
        let text = error(sessions(Some("$env.WEIR_TEST_UNSET"), None)).to_string();
        assert!(
            text.contains("set the environment variable WEIR_TEST_UNSET"),
            "{text}"
        );
        let unset = AdminTable {
            token: Some("$env.WEIR_TEST_UNSET".to_owned()),
            ..AdminTable::default()
        };
        let text = error(unset).to_string();
        assert!(text.starts_with("admin: token = \"$env."), "{text}");
        let text = error(sessions(None, Some("token"))).to_string();
        assert!(text.contains("/nowhere/token"), "{text}");
        let refused = sessions(Some(good), None).open_without_sessions(
            None,
            ([127, 0, 0, 1], 0).into(),
            Path::new(""),
        );
        assert!(matches!(refused, Err(AdminConfigError::NoSessions)));
    }
}
