//! `[tls]`: the certificate that clients are shown, read again when its files change or the operator
//! says so. What cannot be used is reported, and the one in use stays.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Deserialize;
use weir_net::tls::{FileWatcher, TlsAcceptor, TlsIdentity};
use weir_stats::utc;

use crate::error::GatewayError;

/// `[tls]` of `gateway.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// The server's certificate, followed by those that lead to its issuer, as PEM; relative to the
    /// folder of `gateway.toml`.
    pub certificate: PathBuf,
    /// Its private key, as PEM.
    pub key: PathBuf,
    /// Where clients connect with TLS. Absent: at the gateway's `listen`, and nobody without TLS.
    pub listen: Option<SocketAddr>,
    /// Milliseconds in which a handshake must be done, default 10,000.
    #[serde(default = "handshake_timeout_ms")]
    pub handshake_timeout_ms: u64,
}

fn handshake_timeout_ms() -> u64 {
    10_000
}

/// The files in use.
#[derive(Debug)]
pub struct TlsFiles {
    /// As configured, paths made absolute or relative to the working directory.
    pub config: TlsConfig,
    acceptor: Arc<TlsAcceptor>,
    files: FileWatcher,
    pub(crate) reloads: AtomicU64,
    pub(crate) failures: AtomicU64,
}

impl TlsFiles {
    /// Reads and checks the files; `folder` is where relative paths start.
    ///
    /// # Errors
    /// Files that cannot be read or do not fit each other.
    pub fn open(mut config: TlsConfig, folder: &Path) -> Result<Self, GatewayError> {
        config.certificate = folder.join(config.certificate);
        config.key = folder.join(config.key);
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

    /// When the certificate in use ends, in seconds since 1970.
    pub fn not_after_unix_s(&self) -> Option<i64> {
        self.acceptor.identity().not_after_unix_s()
    }

    /// Reads the files if they look different from when they were read last.
    pub(crate) fn check_files(&self) {
        self.files.if_changed(|| self.try_reload());
    }

    /// Reads the files now. New connections get the new certificate; open ones go on as they are.
    pub(crate) fn reload(&self) {
        self.files.run_now(|| self.try_reload());
    }

    fn try_reload(&self) {
        let certificate = self.config.certificate.display();
        match read(&self.config) {
            Ok(identity) => {
                let until = ends(identity.not_after_unix_s());
                self.acceptor.replace(identity);
                self.reloads.fetch_add(1, Ordering::Relaxed);
                tracing::info!(%certificate, until, "certificate read again");
            }
            Err(error) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                tracing::error!("the certificate in use stays: {error}");
            }
        }
    }

    /// What the operator should know about the certificate at this time.
    pub(crate) fn remark(&self, now_unix_s: i64) -> Option<String> {
        let end = self.not_after_unix_s()?;
        let certificate = self.config.certificate.display();
        let day = ends(Some(end));
        if end <= now_unix_s {
            Some(format!(
                "tls.certificate: {certificate} has ended on {day}: renew it"
            ))
        } else if end - now_unix_s < EXPIRY_WARN_S {
            Some(format!("tls.certificate: {certificate} ends on {day}"))
        } else {
            None
        }
    }
}

/// The day a certificate ends, or that it does not say so.
pub fn ends(not_after_unix_s: Option<i64>) -> String {
    let unix_s = not_after_unix_s.and_then(|end| u64::try_from(end).ok());
    unix_s.map_or_else(|| "an unknown day".to_owned(), utc::rfc3339)
}

/// Before the end of a certificate an operator is told for so long.
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

    fn files(folder: &Path) -> TlsFiles {
        std::fs::copy(fixture("server.pem"), folder.join("cert.pem")).unwrap();
        std::fs::copy(fixture("server.key"), folder.join("key.pem")).unwrap();
        let config = TlsConfig {
            certificate: "cert.pem".into(),
            key: "key.pem".into(),
            listen: None,
            handshake_timeout_ms: handshake_timeout_ms(),
        };
        TlsFiles::open(config, folder).unwrap()
    }

    #[test]
    fn a_bad_certificate_leaves_the_old_one_until_a_good_one_comes() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        let first = files.acceptor.identity();
        files.check_files();
        assert!(
            Arc::ptr_eq(&first, &files.acceptor.identity()),
            "nothing has changed"
        );
        // Half of a renewal: the certificate is there, its key is not yet.
        std::fs::copy(fixture("second.pem"), folder.path().join("cert.pem")).unwrap();
        files.check_files();
        files.check_files();
        assert!(Arc::ptr_eq(&first, &files.acceptor.identity()));
        assert_eq!(files.failures.load(Ordering::Relaxed), 1, "it is told once");
        std::fs::copy(fixture("second.key"), folder.path().join("key.pem")).unwrap();
        files.check_files();
        assert!(!Arc::ptr_eq(&first, &files.acceptor.identity()));
        std::fs::remove_file(folder.path().join("key.pem")).unwrap();
        files.check_files();
        let counts = [&files.reloads, &files.failures].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(counts, [1, 1]);
        files.reload();
        assert_eq!(
            files.failures.load(Ordering::Relaxed),
            2,
            "the operator asked"
        );
    }

    #[test]
    fn the_end_of_a_certificate_is_told_in_time() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        let end = files.not_after_unix_s().unwrap();
        assert_eq!(files.remark(end - EXPIRY_WARN_S), None);
        let soon = files.remark(end - 1).unwrap();
        assert!(soon.contains("ends on 2120-01-01T00:00:00Z"), "{soon}");
        assert!(files.remark(end).unwrap().contains("has ended"));
    }

    #[test]
    fn files_that_do_not_fit_each_other_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let config = TlsConfig {
            certificate: fixture("server.pem"),
            key: fixture("second.key"),
            listen: None,
            handshake_timeout_ms: 1,
        };
        let error = TlsFiles::open(config.clone(), folder.path())
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
        let error = TlsFiles::open(config, folder.path())
            .unwrap_err()
            .to_string();
        assert!(error.contains("key: "), "{error}");
    }
}
