//! Errors of a connection to one broker: unreachable, or refused by one of the two sides.

use thiserror::Error;

use crate::secure::{SecurityError, TlsFailure};
use weir_sasl::client::LoginError;
use weir_wire::io_reason::io_reason;

/// Reason why a connection to a broker cannot be used. No message contains a secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum ConnectError {
    /// No connection was possible; a later attempt may succeed.
    #[error("no broker responds at {broker} ({reason})")]
    Unreachable { broker: String, reason: String },
    /// The broker closed the connection or did not respond; a later attempt may succeed.
    #[error("broker {broker}: {reason}")]
    Io { broker: String, reason: String },
    /// The TLS handshake failed. Another attempt fails too.
    #[error(
        "broker {broker}: TLS handshake failed: {reason}; check security.protocol, the trusted \
         authorities (ssl.truststore.location), the host name and the client certificate"
    )]
    Tls { broker: String, reason: String },
    /// The broker refused the login. Another attempt fails too.
    #[error("broker {broker}: login with {mechanism} failed: {reason}; check the credentials")]
    Login {
        broker: String,
        mechanism: String,
        reason: String,
    },
    /// The encryption of one of Weir's own connections failed.
    #[error("broker {broker}: {failure}")]
    Encryption {
        broker: String,
        failure: Box<TlsFailure>,
    },
    /// The login on one of Weir's own connections failed.
    #[error("broker {broker}: {error}")]
    Rejected {
        broker: String,
        error: Box<LoginError>,
    },
    /// Weir's own connections cannot use the settings.
    #[error(transparent)]
    Settings(Box<SecurityError>),
}

impl From<SecurityError> for ConnectError {
    fn from(error: SecurityError) -> Self {
        Self::Settings(Box::new(error))
    }
}

impl ConnectError {
    pub(crate) fn io(broker: &str, error: std::io::Error) -> Self {
        Self::Io {
            broker: broker.to_owned(),
            reason: io_reason(&error),
        }
    }

    pub(crate) fn unreachable(broker: &str, error: &std::io::Error) -> Self {
        Self::Unreachable {
            broker: broker.to_owned(),
            reason: io_reason(error),
        }
    }

    /// Returns `true` if the login failed, also for lack of a token, which a later attempt may get.
    pub fn is_login_failure(&self) -> bool {
        match self {
            Self::Login { .. } => true,
            Self::Rejected { error, .. } => {
                !matches!(**error, LoginError::Wire(_) | LoginError::Random(_))
            }
            _ => false,
        }
    }

    /// Returns `true` if one side refused the other, so that another attempt fails too.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Io { .. } | Self::Unreachable { .. } => false,
            Self::Tls { .. } | Self::Login { .. } | Self::Settings(_) => true,
            Self::Encryption { failure, .. } => failure.is_final(),
            Self::Rejected { error, .. } => error.is_final(),
        }
    }
}
