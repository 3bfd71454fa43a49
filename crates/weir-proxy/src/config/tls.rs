//! The table `upstream_tls` of a cluster.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use weir_net::tls::ClientFiles;

/// Certificate files for connections to brokers.
#[derive(Debug, Deserialize)]
#[serde(try_from = "RawUpstreamTls")]
pub(super) struct UpstreamTls(ClientFiles);

/// TLS with brokers as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawUpstreamTls {
    /// Certificate authorities for broker certificates, PEM.
    ca: Option<PathBuf>,
    /// Accepts any broker certificate.
    #[serde(default)]
    insecure: bool,
    /// Client certificate chain of the proxy for brokers that require one, PEM.
    certificate: Option<PathBuf>,
    /// Private key of the certificate, PEM.
    key: Option<PathBuf>,
}

/// Contradictory or missing keys.
#[derive(Debug, thiserror::Error)]
enum UpstreamTlsError {
    #[error("upstream_tls: both ca and insecure = true are set: remove one")]
    Both,
    #[error("upstream_tls: no certificate authority: set ca, or set insecure = true")]
    NoAuthority,
    #[error("upstream_tls: certificate and key must be set together")]
    NoPair,
}

impl TryFrom<RawUpstreamTls> for UpstreamTls {
    type Error = UpstreamTlsError;

    fn try_from(raw: RawUpstreamTls) -> Result<Self, UpstreamTlsError> {
        match (&raw.ca, raw.insecure) {
            (Some(_), true) => return Err(UpstreamTlsError::Both),
            (None, false) => return Err(UpstreamTlsError::NoAuthority),
            _ => {}
        }
        let own = match (raw.certificate, raw.key) {
            (Some(certificate), Some(key)) => Some([certificate, key]),
            (None, None) => None,
            _ => return Err(UpstreamTlsError::NoPair),
        };
        Ok(Self(ClientFiles { ca: raw.ca, own }))
    }
}

impl UpstreamTls {
    /// Returns the files with paths relative to `dir`.
    pub(super) fn within(self, dir: &Path) -> ClientFiles {
        let Self(ClientFiles { ca, own }) = self;
        ClientFiles {
            ca: ca.map(|path| dir.join(path)),
            own: own.map(|paths| paths.map(|path| dir.join(path))),
        }
    }
}
