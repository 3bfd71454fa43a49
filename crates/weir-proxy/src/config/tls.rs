//! `tls` and `upstream_tls` of a cluster: files to certificates that were checked.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use weir_net::tls::{ClientTls, Identity, TlsAcceptor, TlsError};

use super::raw::Source;
use crate::error::ProxyError;

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

impl RawServerTls {
    pub(super) fn open(
        self,
        cluster: &str,
        source: &Source<'_>,
    ) -> Result<Arc<TlsAcceptor>, ProxyError> {
        let certificate = read(source, &self.certificate)?;
        let key = read(source, &self.key)?;
        let authorities = self.client_authorities.as_deref();
        let authorities = authorities.map(|path| read(source, path)).transpose()?;
        let identity = Identity::for_any_protocol(&certificate, &key, authorities.as_deref());
        let identity = identity.map_err(|error| wrong(source, cluster, "tls", error))?;
        // How long a handshake may take is the event loop's business.
        Ok(Arc::new(TlsAcceptor::new(identity, Duration::MAX)))
    }
}

impl RawClientTls {
    pub(super) fn open(self, cluster: &str, source: &Source<'_>) -> Result<ClientTls, ProxyError> {
        let table = "upstream_tls";
        let say = |reason: &str| source.wrong(format!("cluster \"{cluster}\": {table}: {reason}"));
        let trusted = match (&self.authorities, self.insecure) {
            (Some(path), false) => Some(read(source, path)?),
            (None, true) => None,
            (Some(_), true) => return Err(say("authorities and insecure = true: choose one")),
            (None, false) => {
                return Err(say(
                    "name the brokers' issuers as authorities, or set insecure = true",
                ));
            }
        };
        let own = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                Some((read(source, certificate)?, read(source, key)?))
            }
            (None, None) => None,
            _ => return Err(say("certificate and key go together")),
        };
        let own = own
            .as_ref()
            .map(|(certificate, key)| (&certificate[..], &key[..]));
        ClientTls::for_any_protocol(trusted.as_deref(), own)
            .map_err(|error| wrong(source, cluster, table, error))
    }
}

fn read(source: &Source<'_>, path: &Path) -> Result<Vec<u8>, ProxyError> {
    let path = source.folder.join(path);
    std::fs::read(&path).map_err(|error| ProxyError::Read { path, error })
}

fn wrong(source: &Source<'_>, cluster: &str, table: &str, error: TlsError) -> ProxyError {
    ProxyError::Tls {
        file: source.name.clone(),
        key: format!("cluster \"{cluster}\", {table}"),
        error,
    }
}
