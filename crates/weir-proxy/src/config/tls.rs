//! The tables `tls` and `upstream_tls` of a cluster: loads and checks their certificate files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use weir_net::tls::{ClientTls, FileWatcher, TlsAcceptor, TlsError, TlsIdentity};

use super::source::ConfigSource;
use crate::error::ProxyError;
use crate::tls::TlsFiles;

/// Timeout of a TLS handshake on the admin port.
const ADMIN_HANDSHAKE: Duration = Duration::from_secs(10);

/// TLS with clients.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawServerTls {
    /// Certificate chain of the proxy, PEM.
    certificate: PathBuf,
    /// Private key of the certificate, PEM.
    key: PathBuf,
    /// Certificate authorities for client certificates, PEM. If set, clients must present a
    /// certificate.
    client_ca: Option<PathBuf>,
}

/// TLS with brokers.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawClientTls {
    /// Certificate authorities for broker certificates, PEM.
    ca: Option<PathBuf>,
    /// Accepts any broker certificate.
    insecure: bool,
    /// Client certificate chain of the proxy for brokers that require one, PEM.
    certificate: Option<PathBuf>,
    /// Private key of the certificate, PEM.
    key: Option<PathBuf>,
}

/// A loaded table, and its files if it names any.
pub(super) type Opened<T> = (T, Option<TlsFiles>);

impl RawServerTls {
    pub(super) fn open(
        mut self,
        cluster: &str,
        source: &ConfigSource<'_>,
    ) -> Result<Opened<Arc<TlsAcceptor>>, ProxyError> {
        let table = TlsTable::new(cluster, "tls", source);
        let own = [&mut self.certificate, &mut self.key].into_iter();
        let paths = own.chain(&mut self.client_ca);
        let watched = watch(paths, source);
        // The event loop enforces the handshake timeout.
        let acceptor = TlsAcceptor::new(self.identity(&table)?, Duration::MAX);
        let acceptor = Arc::new(acceptor);
        let installed = Arc::clone(&acceptor);
        let files = TlsFiles::new(table.key.clone(), watched, move || {
            installed.replace(self.identity(&table)?);
            Ok(())
        });
        Ok((acceptor, Some(files)))
    }

    fn identity(&self, table: &TlsTable) -> Result<TlsIdentity, ProxyError> {
        let (certificate, key) = (read(&self.certificate)?, read(&self.key)?);
        let client_ca = self.client_ca.as_deref();
        let client_ca = client_ca.map(read).transpose()?;
        TlsIdentity::without_alpn(&certificate, &key, client_ca.as_deref())
            .map_err(|error| table.error(error))
    }
}

/// TLS of the admin port.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAdminTls {
    certificate: PathBuf,
    key: PathBuf,
}

impl RawAdminTls {
    pub(super) fn open(
        mut self,
        source: &ConfigSource<'_>,
    ) -> Result<(Arc<TlsAcceptor>, TlsFiles), ProxyError> {
        let table = TlsTable {
            file: source.name.clone(),
            key: "admin.tls".to_owned(),
        };
        let watched = watch([&mut self.certificate, &mut self.key].into_iter(), source);
        let acceptor = Arc::new(TlsAcceptor::new(self.identity(&table)?, ADMIN_HANDSHAKE));
        let installed = Arc::clone(&acceptor);
        let files = TlsFiles::new(table.key.clone(), watched, move || {
            installed.replace(self.identity(&table)?);
            Ok(())
        });
        Ok((acceptor, files))
    }

    fn identity(&self, table: &TlsTable) -> Result<TlsIdentity, ProxyError> {
        let (certificate, key) = (read(&self.certificate)?, read(&self.key)?);
        TlsIdentity::from_pem(&certificate, &key).map_err(|error| table.error(error))
    }
}

impl RawClientTls {
    pub(super) fn open(
        mut self,
        cluster: &str,
        source: &ConfigSource<'_>,
    ) -> Result<Opened<ClientTls>, ProxyError> {
        let table = TlsTable::new(cluster, "upstream_tls", source);
        let say = |reason: &str| Err(source.error(format!("{}: {reason}", table.key)));
        match (&self.ca, self.insecure) {
            (Some(_), true) => return say("both ca and insecure = true are set: remove one"),
            (None, false) => {
                return say("no certificate authority: set ca, or set insecure = true");
            }
            _ => {}
        }
        if self.certificate.is_some() != self.key.is_some() {
            return say("certificate and key must be set together");
        }
        let own = self.certificate.iter_mut().chain(&mut self.key);
        let watched = watch(own.chain(&mut self.ca), source);
        let is_any = self.ca.is_some() || self.key.is_some();
        let tls = self.client(&table)?;
        let installed = tls.clone();
        let files = TlsFiles::new(table.key.clone(), watched, move || {
            installed.replace(&self.client(&table)?);
            Ok(())
        });
        Ok((tls, is_any.then_some(files)))
    }

    fn client(&self, table: &TlsTable) -> Result<ClientTls, ProxyError> {
        let contents = |path: &Option<PathBuf>| path.as_deref().map(read).transpose();
        let trusted = contents(&self.ca)?;
        let own = contents(&self.certificate)?.zip(contents(&self.key)?);
        let own = own
            .as_ref()
            .map(|(certificate, key)| (&certificate[..], &key[..]));
        ClientTls::without_alpn(trusted.as_deref(), own).map_err(|error| table.error(error))
    }
}

/// Makes the paths absolute and records the state of the files before they are read.
fn watch<'a>(
    paths: impl Iterator<Item = &'a mut PathBuf>,
    source: &ConfigSource<'_>,
) -> FileWatcher {
    FileWatcher::new(paths.map(|path| {
        *path = source.directory.join(&*path);
        path.clone()
    }))
}

/// A table of the configuration, as named in messages.
struct TlsTable {
    file: String,
    key: String,
}

impl TlsTable {
    fn new(cluster: &str, name: &str, source: &ConfigSource<'_>) -> Self {
        Self {
            file: source.name.clone(),
            key: format!("cluster \"{cluster}\", {name}"),
        }
    }

    fn error(&self, error: TlsError) -> ProxyError {
        ProxyError::Tls {
            file: self.file.clone(),
            key: self.key.clone(),
            error,
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ProxyError> {
    std::fs::read(path).map_err(|error| ProxyError::Read {
        path: path.to_owned(),
        error,
    })
}
