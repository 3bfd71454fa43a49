//! The table `upstream_tls` of a cluster.

use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use weir_net::tls::ClientFiles;

/// Certificate files for connections to brokers, PEM.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(remote = "Self", deny_unknown_fields)]
pub(super) struct UpstreamTls {
    ca: Option<PathBuf>,
    /// Accepts any broker certificate.
    #[serde(default)]
    insecure: bool,
    /// Client certificate chain of the proxy for brokers that require one.
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl<'de> Deserialize<'de> for UpstreamTls {
    fn deserialize<D: Deserializer<'de>>(table: D) -> Result<Self, D::Error> {
        // The derived function, which accepts contradictory and missing keys.
        let tls = Self::deserialize(table)?;
        let reason = match (&tls.ca, tls.insecure) {
            (Some(_), true) => "both ca and insecure = true are set: remove one",
            (None, false) => "no certificate authority: set ca, or set insecure = true",
            _ if tls.certificate.is_some() == tls.key.is_some() => return Ok(tls),
            _ => "certificate and key must be set together",
        };
        Err(D::Error::custom(format_args!("upstream_tls: {reason}")))
    }
}

impl UpstreamTls {
    /// Returns the files with paths relative to `dir`.
    pub(super) fn within(self, dir: &Path) -> ClientFiles {
        let own = self.certificate.zip(self.key);
        ClientFiles {
            ca: self.ca.map(|path| dir.join(path)),
            own: own.map(|(certificate, key)| [certificate, key].map(|path| dir.join(path))),
        }
    }
}
