//! `[tls]`: the server certificate, reloaded when its files change or on request. If the files are
//! invalid, the error is logged and the current certificate stays in use.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Deserialize;
use weir_net::tls::{FileWatcher, TlsAcceptor, TlsIdentity};
use weir_stats::utc;

use crate::bounds::bounded;
use crate::error::GatewayError;

/// `[tls]` of `gateway.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
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
    /// Maximum time for a handshake in milliseconds, default 10,000.
    #[serde(
        default = "handshake_timeout_ms",
        deserialize_with = "bounded::<100, 600_000, _, _>"
    )]
    pub handshake_timeout_ms: u64,
}

fn handshake_timeout_ms() -> u64 {
    10_000
}

/// The certificate files in use.
#[derive(Debug)]
pub struct TlsFiles {
    /// The configuration, with paths absolute or relative to the working directory.
    pub config: TlsConfig,
    acceptor: Arc<TlsAcceptor>,
    files: FileWatcher,
    pub(crate) reloads: AtomicU64,
    pub(crate) failures: AtomicU64,
}

impl TlsFiles {
    /// Reads and checks the files; relative paths start at `dir`.
    ///
    /// # Errors
    /// Returns an error if files cannot be read or do not match each other.
    pub fn open(mut config: TlsConfig, dir: &Path) -> Result<Self, GatewayError> {
        config.certificate = dir.join(config.certificate);
        config.key = dir.join(config.key);
        let files = FileWatcher::new([config.certificate.clone(), config.key.clone()]);
        let identity = read(&config)?;
        let handshake = Duration::from_millis(config.handshake_timeout_ms);
        Ok(Self {
            acceptor: Arc::new(TlsAcceptor::new(identity, handshake)),
            files,
            reloads: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            config,
        })
    }

    pub(crate) fn acceptor(&self) -> Arc<TlsAcceptor> {
        Arc::clone(&self.acceptor)
    }

    /// Returns the expiry of the current certificate in seconds since 1970.
    pub fn not_after_unix_s(&self) -> Option<i64> {
        self.acceptor.identity().not_after_unix_s()
    }

    /// Reloads the files if they have changed since they were read.
    pub(crate) fn check_files(&self) {
        self.files.if_changed(|| self.try_reload());
    }

    /// Reloads the files now. New connections use the new certificate; open connections are not
    /// affected.
    pub(crate) fn reload(&self) {
        self.files.run_now(|| self.try_reload());
    }

    fn try_reload(&self) {
        let certificate = self.config.certificate.display();
        match read(&self.config) {
            Ok(identity) => {
                let until = expiry_text(identity.not_after_unix_s());
                self.acceptor.replace(identity);
                self.reloads.fetch_add(1, Ordering::Relaxed);
                tracing::info!(%certificate, until, "certificate reloaded");
            }
            Err(error) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                tracing::error!(%error, "certificate reload failed, kept current certificate");
            }
        }
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
    let unix_s = not_after_unix_s.and_then(|end| u64::try_from(end).ok());
    unix_s.map_or_else(|| "an unknown date".to_owned(), utc::rfc3339)
}

/// Time before the expiry of a certificate in which operators are warned.
const EXPIRY_WARN_S: i64 = 14 * 86_400;

fn read(config: &TlsConfig) -> Result<TlsIdentity, GatewayError> {
    let bytes = |path: &PathBuf| {
        std::fs::read(path).map_err(|error| GatewayError::Read {
            path: path.clone(),
            error,
        })
    };
    let (certificate, key) = (bytes(&config.certificate)?, bytes(&config.key)?);
    TlsIdentity::from_pem(&certificate, &key).map_err(|error| GatewayError::Tls {
        certificate: config.certificate.clone(),
        key: config.key.clone(),
        error,
    })
}

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
            handshake_timeout_ms: handshake_timeout_ms(),
        };
        TlsFiles::open(config, dir).unwrap()
    }

    #[test]
    fn invalid_files_keep_current_certificate() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        let first = files.acceptor.identity();
        files.check_files();
        assert!(
            Arc::ptr_eq(&first, &files.acceptor.identity()),
            "nothing has changed"
        );
        // A partial renewal: the certificate is there, its key is not.
        std::fs::copy(fixture("second.pem"), dir.path().join("cert.pem")).unwrap();
        files.check_files();
        files.check_files();
        assert!(Arc::ptr_eq(&first, &files.acceptor.identity()));
        assert_eq!(
            files.failures.load(Ordering::Relaxed),
            1,
            "the failure is counted once"
        );
        std::fs::copy(fixture("second.key"), dir.path().join("key.pem")).unwrap();
        files.check_files();
        assert!(!Arc::ptr_eq(&first, &files.acceptor.identity()));
        std::fs::remove_file(dir.path().join("key.pem")).unwrap();
        files.check_files();
        let counts = [&files.reloads, &files.failures].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(counts, [1, 1]);
        files.reload();
        assert_eq!(
            files.failures.load(Ordering::Relaxed),
            2,
            "reload was requested"
        );
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
