//! `tls` and `upstream_tls` of a cluster: files to certificates that were checked.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use weir_net::tls::{ClientTls, FileWatcher, TlsAcceptor, TlsError, TlsIdentity};

use super::raw::ConfigSource;
use crate::error::ProxyError;
use crate::tls::TlsFiles;

/// Time for a handshake on the admin port.
const ADMIN_HANDSHAKE: Duration = Duration::from_secs(10);

/// What clients are shown.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawServerTls {
    /// The proxy's certificate and those that lead to its issuer, PEM.
    certificate: PathBuf,
    /// Its key, PEM.
    key: PathBuf,
    /// Issuers of clients' certificates, PEM; with it clients must show one.
    client_authorities: Option<PathBuf>,
}

/// How brokers are spoken to.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawClientTls {
    /// Issuers of brokers' certificates, PEM.
    authorities: Option<PathBuf>,
    /// Trust whoever answers.
    insecure: bool,
    /// The proxy's own certificate for brokers that ask for one, PEM.
    certificate: Option<PathBuf>,
    /// Its key, PEM.
    key: Option<PathBuf>,
}

/// A table at work, and its files if it names any.
pub(super) type Opened<T> = (T, Option<TlsFiles>);

impl RawServerTls {
    pub(super) fn open(
        mut self,
        cluster: &str,
        source: &ConfigSource<'_>,
    ) -> Result<Opened<Arc<TlsAcceptor>>, ProxyError> {
        let table = TlsTable::new(cluster, "tls", source);
        let own = [&mut self.certificate, &mut self.key].into_iter();
        let paths = own.chain(&mut self.client_authorities);
        let watched = watch(paths, source);
        // How long a handshake may take is the event loop's business.
        let acceptor = TlsAcceptor::new(self.identity(&table)?, Duration::MAX);
        let acceptor = Arc::new(acceptor);
        let shown = Arc::clone(&acceptor);
        let files = TlsFiles::new(table.key.clone(), watched, move || {
            shown.replace(self.identity(&table)?);
            Ok(())
        });
        Ok((acceptor, Some(files)))
    }

    fn identity(&self, table: &TlsTable) -> Result<TlsIdentity, ProxyError> {
        let (certificate, key) = (read(&self.certificate)?, read(&self.key)?);
        let authorities = self.client_authorities.as_deref();
        let authorities = authorities.map(read).transpose()?;
        TlsIdentity::for_any_protocol(&certificate, &key, authorities.as_deref())
            .map_err(|error| table.wrong(error))
    }
}

/// The certificate of the admin port.
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
        let shown = Arc::clone(&acceptor);
        let files = TlsFiles::new(table.key.clone(), watched, move || {
            shown.replace(self.identity(&table)?);
            Ok(())
        });
        Ok((acceptor, files))
    }

    fn identity(&self, table: &TlsTable) -> Result<TlsIdentity, ProxyError> {
        let (certificate, key) = (read(&self.certificate)?, read(&self.key)?);
        TlsIdentity::from_pem(&certificate, &key).map_err(|error| table.wrong(error))
    }
}

impl RawClientTls {
    pub(super) fn open(
        mut self,
        cluster: &str,
        source: &ConfigSource<'_>,
    ) -> Result<Opened<ClientTls>, ProxyError> {
        let table = TlsTable::new(cluster, "upstream_tls", source);
        let say = |reason: &str| Err(source.wrong(format!("{}: {reason}", table.key)));
        match (&self.authorities, self.insecure) {
            (Some(_), true) => return say("authorities and insecure = true: choose one"),
            (None, false) => {
                return say("name the brokers' issuers as authorities, or set insecure = true");
            }
            _ => {}
        }
        if self.certificate.is_some() != self.key.is_some() {
            return say("certificate and key go together");
        }
        let own = self.certificate.iter_mut().chain(&mut self.key);
        let watched = watch(own.chain(&mut self.authorities), source);
        let is_any = self.authorities.is_some() || self.key.is_some();
        let tls = self.client(&table)?;
        let used = tls.clone();
        let files = TlsFiles::new(table.key.clone(), watched, move || {
            used.replace(&self.client(&table)?);
            Ok(())
        });
        Ok((tls, is_any.then_some(files)))
    }

    fn client(&self, table: &TlsTable) -> Result<ClientTls, ProxyError> {
        let contents = |path: &Option<PathBuf>| path.as_deref().map(read).transpose();
        let trusted = contents(&self.authorities)?;
        let own = contents(&self.certificate)?.zip(contents(&self.key)?);
        let own = own
            .as_ref()
            .map(|(certificate, key)| (&certificate[..], &key[..]));
        ClientTls::for_any_protocol(trusted.as_deref(), own).map_err(|error| table.wrong(error))
    }
}

/// Completes the paths, and notes what is there before it is read.
fn watch<'a>(
    paths: impl Iterator<Item = &'a mut PathBuf>,
    source: &ConfigSource<'_>,
) -> FileWatcher {
    FileWatcher::new(paths.map(|path| {
        *path = source.folder.join(&*path);
        path.clone()
    }))
}

/// One table of the configuration, as in messages.
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

    fn wrong(&self, error: TlsError) -> ProxyError {
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
