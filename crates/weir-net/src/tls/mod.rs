//! TLS configurations of servers and clients, with certificates and keys from PEM. The event loops
//! move the bytes.

mod client;
mod expiry;
mod file_watcher;
mod files;
mod names;
mod server;
mod subject;

pub use client::ClientTls;
pub use file_watcher::FileWatcher;
pub use files::{ClientFiles, ServerFiles, TlsFiles, TlsFilesError};
pub use names::CertificateNames;
pub use server::{ClientAuthorities, TlsAcceptor, TlsIdentity};
pub use subject::certificate_subject;

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use thiserror::Error;

/// Returns the cryptography provider of all configurations; there is no process-wide default.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// Certificate, key or trusted certificates that cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// Invalid PEM.
    #[error("{what}: {reason}")]
    Pem {
        /// Kind of file.
        what: &'static str,
        /// Cause.
        reason: String,
    },
    /// Certificate and key do not match, or the key type is not supported.
    #[error("certificate and key cannot be used together: {0}")]
    Pair(rustls::Error),
    /// No trusted certificate.
    #[error("no certificate in the file of trusted certificates; add the issuer's as PEM")]
    NoTrustedRoots,
    /// Invalid server name.
    #[error("\"{name}\" is not a valid DNS name or IP address")]
    Name {
        /// Name as given.
        name: String,
    },
}

impl TlsError {
    fn pem(what: &'static str, error: &rustls::pki_types::pem::Error) -> Self {
        Self::Pem {
            what,
            reason: error.to_string(),
        }
    }
}
