//! Encryption and login of a cluster, with stores already read.

use super::store_files::StoreFiles;
use crate::secret::Secret;
use crate::stores::{ClientIdentity, Roots};
use crate::tokens::{AwsCredentialSource, TokenSource};

/// Encryption and login. The default is neither.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Security {
    /// Encryption; `None` is plaintext.
    pub tls: Option<TlsSettings>,
    /// Login; `None` sends no SASL request.
    pub sasl: Option<SaslSettings>,
}

/// Encryption towards brokers. The server's certificate is always verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// Trusted authorities.
    pub roots: Roots,
    /// Certificate and key of the client, for mutual TLS.
    pub identity: Option<ClientIdentity>,
    /// Compares the host name with the server's certificate.
    pub verify_hostname: bool,
    /// Enabled protocol versions, ascending; never empty.
    pub protocols: Vec<TlsVersion>,
    /// Enabled cipher suites under their IANA names, which Java uses too; empty: all.
    pub cipher_suites: Vec<String>,
    /// Files of the stores; see [`TlsSettings::read_again`].
    pub files: StoreFiles,
}

/// Version of the TLS protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::Display, strum::EnumString)]
#[allow(missing_docs)] // the names are the documentation
pub enum TlsVersion {
    #[strum(serialize = "TLSv1.2")]
    V1_2,
    #[strum(serialize = "TLSv1.3")]
    V1_3,
}

/// Login mechanism with its credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SaslSettings {
    /// `PLAIN`.
    Plain(Login),
    /// `SCRAM-SHA-256` or `SCRAM-SHA-512`.
    Scram(ScramHash, Login),
    /// `OAUTHBEARER`.
    OAuthBearer(TokenSource),
    /// `GSSAPI`.
    Kerberos(KerberosSettings),
    /// `AWS_MSK_IAM`.
    AwsMskIam(AwsCredentialSource),
}

impl SaslSettings {
    /// Returns principal and key tab of a Kerberos login, or `None` for other mechanisms.
    pub fn kerberos_ticket(&self) -> Option<(Option<&str>, Option<&str>)> {
        match self {
            Self::Kerberos(it) => Some((it.principal.as_deref(), it.keytab.as_deref())),
            _ => None,
        }
    }
}

/// User name and password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// User name.
    pub username: String,
    /// Password.
    pub password: Secret,
}

/// Hash function of SCRAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScramHash {
    /// `SCRAM-SHA-256`.
    Sha256,
    /// `SCRAM-SHA-512`.
    Sha512,
}

impl ScramHash {
    /// Returns the SASL name of the mechanism.
    pub fn mechanism(self) -> &'static str {
        match self {
            Self::Sha256 => "SCRAM-SHA-256",
            Self::Sha512 => "SCRAM-SHA-512",
        }
    }
}

/// Kerberos login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KerberosSettings {
    /// Service part of the broker's principal, usually `kafka`.
    pub service_name: String,
    /// Principal of the client; `None`: that of the ticket cache.
    pub principal: Option<String>,
    /// Path of the key tab; `None`: the ticket cache is used.
    pub keytab: Option<String>,
}
