//! What can be wrong with certificates and keys.

use thiserror::Error;

/// Why a certificate, a key or a list of trusted certificates cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A PEM file is not what it should be.
    #[error("{what}: {reason}")]
    Pem {
        /// Which of the files.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// Certificate and key do not fit each other, or the key's kind is not known.
    #[error("certificate and key cannot be used together: {0}")]
    Pair(rustls::Error),
    /// Not one certificate to trust.
    #[error("no certificate in the file of trusted certificates: give the issuer's as PEM")]
    NothingTrusted,
    /// A name that no certificate could carry.
    #[error("\"{name}\" is no host name or address that a certificate could be for")]
    Name {
        /// As given.
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
