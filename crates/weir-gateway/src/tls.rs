//! `[tls]`: the server certificate.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use weir_net::tls::{self, ServerFiles, TlsAcceptor, TlsFilesError};

use crate::bounds::bounded;

/// `[tls]` of `gateway.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// Certificate chain of the server as PEM, server certificate first; relative to the directory
    /// of `gateway.toml`.
    pub certificate: PathBuf,
    /// Its private key as PEM.
    pub key: PathBuf,
    /// Listen address for TLS. Absent: TLS is served at the gateway's `listen`, and plain
    /// connections are not accepted.
    pub listen: Option<SocketAddr>,
    /// Authorities of client certificates as PEM. Absent: clients are not asked for one.
    pub client_ca: Option<PathBuf>,
    /// Need of a client certificate; only with `client_ca`. Default: required.
    pub client_auth: Option<ClientAuth>,
    /// Maximum time for a handshake in milliseconds, default 10,000.
    #[serde(
        default = "handshake_timeout_ms",
        deserialize_with = "bounded::<100, 600_000, _, _>"
    )]
    pub handshake_timeout_ms: u64,
}

/// Need of a client certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ClientAuth {
    /// Handshakes without one fail.
    Required,
    /// One that is not valid is rejected; none is accepted.
    Optional,
}

fn handshake_timeout_ms() -> u64 {
    10_000
}

/// The certificate files in use.
#[derive(Debug)]
pub struct TlsFiles {
    /// The configuration, with paths absolute or relative to the working directory.
    pub config: TlsConfig,
    pub(crate) acceptor: Arc<TlsAcceptor>,
    pub(crate) files: Arc<tls::TlsFiles>,
}

impl TlsFiles {
    /// Reads and checks the files; relative paths start at `dir`.
    ///
    /// # Errors
    /// Returns an error if files cannot be read or do not match each other.
    pub fn open(mut config: TlsConfig, dir: &Path) -> Result<Self, TlsFilesError> {
        config.certificate = dir.join(config.certificate);
        config.key = dir.join(config.key);
        config.client_ca = config.client_ca.map(|path| dir.join(path));
        let files = ServerFiles {
            certificate: config.certificate.clone(),
            key: config.key.clone(),
            client_ca: config.client_ca.clone(),
            client_optional: config.client_auth == Some(ClientAuth::Optional),
        };
        let handshake = Duration::from_millis(config.handshake_timeout_ms);
        let (acceptor, files) = tls::TlsFiles::server("tls", files, Some(handshake))?;
        Ok(Self {
            config,
            acceptor,
            files: Arc::new(files),
        })
    }

    /// Returns the expiry of the current certificate in seconds since 1970.
    pub fn not_after_unix_s(&self) -> Option<i64> {
        self.acceptor.identity().not_after_unix_s()
    }

    /// Returns a warning for the operator if the certificate has expired or expires soon.
    pub(crate) fn remark(&self, now_unix_s: i64) -> Option<String> {
        let end = self.not_after_unix_s()?;
        let certificate = self.config.certificate.display();
        let day = expiry_text(Some(end));
        if end <= now_unix_s {
            Some(format!(
                "tls.certificate: {certificate} expired on {day}: renew it"
            ))
        } else if end - now_unix_s < EXPIRY_WARN_S {
            Some(format!("tls.certificate: {certificate} expires on {day}"))
        } else {
            None
        }
    }
}

/// Returns the expiry of a certificate as text.
pub fn expiry_text(not_after_unix_s: Option<i64>) -> String {
    let end = not_after_unix_s.and_then(|end| Timestamp::from_second(end).ok());
    end.map_or_else(|| "an unknown date".to_owned(), |end| end.to_string())
}

/// Time before the expiry of a certificate in which operators are warned.
const EXPIRY_WARN_S: i64 = 14 * 86_400;

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../weir-net/tests/tls")
            .join(name)
    }

    fn files(dir: &Path) -> TlsFiles {
        std::fs::copy(fixture("server.pem"), dir.join("cert.pem")).unwrap();
        std::fs::copy(fixture("server.key"), dir.join("key.pem")).unwrap();
        let config = TlsConfig {
            certificate: "cert.pem".into(),
            key: "key.pem".into(),
            listen: None,
            client_ca: None,
            client_auth: None,
            handshake_timeout_ms: handshake_timeout_ms(),
        };
        TlsFiles::open(config, dir).unwrap()
    }

    #[test]
    fn invalid_files_keep_current_certificate() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        let first = files.acceptor.identity();
        files.files.check();
        assert!(
            Arc::ptr_eq(&first, &files.acceptor.identity()),
            "nothing has changed"
        );
        // A partial renewal: the certificate is there, its key is not.
        std::fs::copy(fixture("second.pem"), dir.path().join("cert.pem")).unwrap();
        files.files.check();
        files.files.check();
        assert!(Arc::ptr_eq(&first, &files.acceptor.identity()));
        assert_eq!(files.files.counts()[1], 1, "the failure is counted once");
        std::fs::copy(fixture("second.key"), dir.path().join("key.pem")).unwrap();
        files.files.check();
        assert!(!Arc::ptr_eq(&first, &files.acceptor.identity()));
        std::fs::remove_file(dir.path().join("key.pem")).unwrap();
        files.files.check();
        assert_eq!(files.files.counts(), [1, 1]);
        files.files.reload();
        assert_eq!(files.files.counts()[1], 2, "reload was requested");
    }

    #[test]
    fn expiry_is_reported_in_advance() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        let end = files.not_after_unix_s().unwrap();
        assert_eq!(files.remark(end - EXPIRY_WARN_S), None);
        let soon = files.remark(end - 1).unwrap();
        assert!(soon.contains("expires on 2120-01-01T00:00:00Z"), "{soon}");
        assert!(files.remark(end).unwrap().contains("expired on"));
    }

    #[test]
    fn mismatched_files_are_rejected_with_names() {
        let dir = tempfile::tempdir().unwrap();
        let config = TlsConfig {
            certificate: fixture("server.pem"),
            key: fixture("second.key"),
            listen: None,
            client_ca: None,
            client_auth: None,
            handshake_timeout_ms: 1,
        };
        let error = TlsFiles::open(config.clone(), dir.path())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("server.pem") && error.contains("second.key"),
            "{error}"
        );
        let config = TlsConfig {
            key: fixture("server.pem"),
            ..config
        };
        let error = TlsFiles::open(config, dir.path()).unwrap_err().to_string();
        assert!(error.contains("key: "), "{error}");
    }
}
