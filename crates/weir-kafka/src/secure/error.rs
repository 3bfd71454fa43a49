//! Errors of encryption: what a handshake failed on, and settings that cannot be used.

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, OtherError};
use thiserror::Error as ThisError;
use weir_sasl::client::UnusableLogin;
use weir_security::StoreError;

use weir_wire::WireError;

/// Reason why an encrypted connection could not be opened or has ended.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum TlsFailure {
    #[error(
        "the broker's certificate is from an unknown authority: add the authority's certificate \
         to ssl.truststore.location"
    )]
    UnknownAuthority,
    #[error("the broker's certificate has expired ({detail}): renew it")]
    Expired { detail: String },
    #[error("the broker's certificate is not valid yet: check the clocks of both machines")]
    NotValidYet,
    #[error(
        "the broker's certificate is not for host \"{host}\"{}: connect by a name of the \
         certificate, or set ssl.endpoint.identification.algorithm to an empty value",
        names(.presented)
    )]
    HostName {
        host: String,
        presented: Vec<String>,
    },
    #[error("the broker's certificate cannot be used: {reason}")]
    Certificate { reason: String },
    #[error(
        "the broker rejected the client certificate ({alert}): set ssl.keystore.location to a \
         certificate that it trusts"
    )]
    ClientCertificate { alert: String },
    #[error(
        "no protocol version or cipher suite in common ({reason}): check ssl.enabled.protocols \
         and ssl.cipher.suites"
    )]
    Incompatible { reason: String },
    #[error(
        "the listener does not use TLS: set security.protocol to PLAINTEXT or SASL_PLAINTEXT, or \
         use another port"
    )]
    NotTls,
    #[error("the listener uses TLS: set security.protocol to SSL or SASL_SSL, or use another port")]
    Required,
    #[error("\"{host}\" is not a valid host name for TLS")]
    InvalidHost { host: String },
    #[error("TLS failed: {reason}")]
    Other { reason: String },
}

impl TlsFailure {
    /// Classifies an error of the TLS library on a connection to `host`.
    pub(crate) fn from_rustls(error: &Error, host: &str) -> Self {
        match error {
            Error::InvalidCertificate(error) => Self::from_certificate(error, host),
            Error::AlertReceived(alert) => Self::from_alert(*alert),
            Error::InvalidMessage(
                InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
            ) => Self::NotTls,
            Error::PeerIncompatible(reason) => Self::Incompatible {
                reason: format!("{reason:?}"),
            },
            error => Self::Other {
                reason: error.to_string(),
            },
        }
    }

    /// Returns the failure of a plaintext connection whose peer sends a TLS alert, which looks like
    /// a large frame.
    pub(crate) fn from_wire(error: &WireError) -> Option<Self> {
        match error {
            WireError::FrameTooLarge { bytes, .. } if bytes >> 16 == TLS_ALERT => {
                Some(Self::Required)
            }
            _ => None,
        }
    }

    fn from_certificate(error: &CertificateError, host: &str) -> Self {
        match error {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                Self::UnknownAuthority
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired {
                detail: error.to_string(),
            },
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Self::NotValidYet
            }
            CertificateError::NotValidForName => Self::HostName {
                host: host.to_owned(),
                presented: Vec::new(),
            },
            CertificateError::NotValidForNameContext { presented, .. } => Self::HostName {
                host: host.to_owned(),
                presented: presented.iter().take(NAMES_MAX).cloned().collect(),
            },
            error => Self::Certificate {
                reason: certificate_reason(error),
            },
        }
    }

    fn from_alert(alert: AlertDescription) -> Self {
        match alert {
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::NoCertificate
            | AlertDescription::AccessDenied => Self::ClientCertificate {
                alert: format!("{alert:?}"),
            },
            AlertDescription::HandshakeFailure
            | AlertDescription::ProtocolVersion
            | AlertDescription::InsufficientSecurity => Self::Incompatible {
                reason: format!("alert {alert:?}"),
            },
            alert => Self::Other {
                reason: format!("the broker sent alert {alert:?}"),
            },
        }
    }

    /// Returns `true` if another attempt with the same settings is expected to fail as well.
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Other { .. })
    }
}

/// Returns why a certificate cannot be used, in words if the library has none.
fn certificate_reason(error: &CertificateError) -> String {
    let CertificateError::Other(OtherError(cause)) = error else {
        return error.to_string();
    };
    match cause.downcast_ref::<webpki::Error>() {
        Some(webpki::Error::CaUsedAsEndEntity) => {
            "it is the certificate of an authority, not of a server".to_owned()
        }
        _ => cause.to_string(),
    }
}

/// Settings that Weir's own connections to brokers cannot use.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum SecurityError {
    #[error(transparent)]
    Login(#[from] UnusableLogin),
    #[error("ssl.truststore.location: {0}")]
    Store(#[from] StoreError),
    #[error("none of {count} trusted certificates can be used: {reason}")]
    Roots { count: usize, reason: String },
    #[error("the client certificate and its key cannot be used: {reason}")]
    ClientIdentity { reason: String },
    #[error(
        "ssl.cipher.suites: none of \"{given}\" is supported with these protocol versions; \
         supported are {supported}"
    )]
    CipherSuites { given: String, supported: String },
}

fn names(presented: &[String]) -> String {
    match presented.is_empty() {
        true => String::new(),
        false => format!(" but for {}", presented.join(", ")),
    }
}

const NAMES_MAX: usize = 10;
/// Content type "alert" and the first byte of the protocol version.
const TLS_ALERT: u64 = 0x1503;

#[cfg(test)]
mod tests {
    use super::*;

    fn classified(error: Error) -> TlsFailure {
        TlsFailure::from_rustls(&error, "broker-1")
    }

    #[test]
    fn each_cause_has_its_own_error() {
        use CertificateError as Bad;
        let bad = |error| classified(Error::InvalidCertificate(error));
        assert_eq!(bad(Bad::UnknownIssuer), TlsFailure::UnknownAuthority);
        assert!(matches!(bad(Bad::Expired), TlsFailure::Expired { .. }));
        assert_eq!(bad(Bad::NotValidYet), TlsFailure::NotValidYet);
        let text = bad(Bad::NotValidForName).to_string();
        assert!(
            text.contains("not for host \"broker-1\": connect"),
            "{text}"
        );
        let alert = |alert| classified(Error::AlertReceived(alert));
        let missing = alert(AlertDescription::CertificateRequired);
        assert!(matches!(missing, TlsFailure::ClientCertificate { .. }));
        let version = alert(AlertDescription::ProtocolVersion);
        assert!(matches!(version, TlsFailure::Incompatible { .. }));
        let plain = classified(InvalidMessage::InvalidContentType.into());
        assert_eq!(plain, TlsFailure::NotTls);
        let encrypted = WireError::FrameTooLarge {
            bytes: 0x1503_0300,
            bytes_max: 100,
        };
        assert_eq!(
            TlsFailure::from_wire(&encrypted),
            Some(TlsFailure::Required)
        );
        let closed = alert(AlertDescription::InternalError);
        assert!(!closed.is_final());
        assert!(plain.is_final() && missing.is_final());
    }
}
