//! The table `[admin]` of products.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use crate::tls::{ServerFiles, TlsAcceptor, TlsFiles, TlsFilesError};

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
    /// TLS of the port; plain text without it.
    pub tls: Option<Arc<TlsAcceptor>>,
    /// Files of `tls`.
    pub files: Option<Arc<TlsFiles>>,
}

/// `[admin]` as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdminTable {
    listen: Option<SocketAddr>,
    token: Option<String>,
    hosts: Vec<String>,
    tls: Option<AdminTlsTable>,
}

/// `[admin.tls]`
#[derive(Debug, Deserialize)]
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
    /// Unusable certificate files.
    #[error("admin.tls: {0}")]
    Tls(#[from] TlsFilesError),
}

impl AdminTable {
    /// Checks the settings and reads the certificate. `option` is the address of the command line,
    /// `default` that without any; relative paths start at `dir`.
    pub fn open(
        self,
        option: Option<SocketAddr>,
        default: SocketAddr,
        dir: &Path,
    ) -> Result<AdminConfig, AdminConfigError> {
        let listen = option.or(self.listen).unwrap_or(default);
        let token = self.token.filter(|token| !token.is_empty());
        if !listen.ip().is_loopback() && token.is_none() {
            return Err(AdminConfigError::Public(listen));
        }
        let opened = self.tls.map(|tls| {
            let files = ServerFiles {
                certificate: dir.join(tls.certificate),
                key: dir.join(tls.key),
                client_ca: None,
            };
            TlsFiles::server("admin.tls", files, Some(HANDSHAKE))
        });
        let (tls, files) = opened.transpose()?.unzip();
        Ok(AdminConfig {
            listen,
            token,
            hosts: self.hosts,
            tls,
            files: files.map(Arc::new),
        })
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
