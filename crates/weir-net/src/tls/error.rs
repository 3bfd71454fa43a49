//! Errors of certificates and keys.

use thiserror::Error;

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
    pub(super) fn pem(what: &'static str, error: &rustls::pki_types::pem::Error) -> Self {
        Self::Pem {
            what,
            reason: error.to_string(),
        }
    }
}
