//! Logins of clients: mechanisms, and the requests that carry them, in the order and with the
//! errors of a Kafka broker. Passwords and tokens are checked by the caller, because that takes
//! time.

mod bearer;
mod login;
mod password_cache;
mod plain;
mod requests;
mod scram;

use weir_security::{ScramHash, Secret};

pub use login::{Admission, LoginEnv, LoginResponse, ServerLogin};
pub use password_cache::PasswordCache;

use crate::users::hash_of;

/// Mechanism that a server offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// `PLAIN` (RFC 4616).
    Plain,
    /// `SCRAM-SHA-256` or `SCRAM-SHA-512` (RFC 5802, RFC 7677).
    Scram(ScramHash),
    /// `OAUTHBEARER` (RFC 7628).
    OAuthBearer,
}

impl Mechanism {
    /// Returns the mechanism with this name.
    pub fn find(name: &str) -> Option<Self> {
        match name {
            "PLAIN" => Some(Self::Plain),
            "OAUTHBEARER" => Some(Self::OAuthBearer),
            _ => hash_of(name).map(Self::Scram),
        }
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::Scram(hash) => hash.mechanism(),
            Self::OAuthBearer => "OAUTHBEARER",
        }
    }
}

/// Credentials that the caller checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// The password of a user.
    Password {
        /// Name of the user.
        user: String,
        /// Password as sent.
        password: Secret,
    },
    /// A bearer token.
    Token {
        /// User that the client wants to be; the token must be of this user.
        user: Option<String>,
        /// Token as sent.
        token: Secret,
    },
}

/// Reason why a login failed, one of a fixed set of words, for metrics and the audit log. Clients
/// never see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureReason {
    /// The client's mechanism is not offered.
    Mechanism,
    /// A message of the client is not valid.
    Malformed,
    /// User unknown or password wrong.
    Credentials,
    /// A repeated login used another mechanism or user.
    Changed,
    /// The request is not allowed at this point of a login.
    Order,
}

impl FailureReason {
    /// Returns the reason as a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mechanism => "mechanism",
            Self::Malformed => "malformed",
            Self::Credentials => "credentials",
            Self::Changed => "changed",
            Self::Order => "order",
        }
    }
}

/// Result of a message of the client.
#[derive(Debug, PartialEq, Eq)]
enum ExchangeStep {
    /// The server's next message; the client sends another one.
    Challenge(Vec<u8>),
    /// The client is this user; the server's last message.
    User(String, Vec<u8>),
    Check(Check),
    Failed(FailureReason),
}
