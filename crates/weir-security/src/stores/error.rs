//! Errors of key and trust stores. No message contains a password or key.

use thiserror::Error;

use super::der::DerError;

/// Reason why a store, certificate or key was rejected.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum StoreError {
    #[error("cannot be read: {0}")]
    Io(String),
    #[error("is larger than {max} bytes")]
    TooLarge { max: u64 },
    #[error("is empty")]
    Empty,
    #[error(
        "is not a JKS, PKCS12 or PEM store: convert it with keytool -importkeystore \
         -deststoretype PKCS12"
    )]
    UnknownFormat,
    #[error("is not a {expected} store but {found}: correct the type or the file")]
    OtherFormat {
        expected: &'static str,
        found: &'static str,
    },
    #[error("is a JCEKS store, which only Java reads: convert it with keytool -importkeystore")]
    Jceks,
    #[error("is truncated or damaged ({0}): copy or export it again")]
    Damaged(&'static str),
    #[error("the store password is wrong, or the file is damaged: check {password_property}")]
    WrongPassword { password_property: &'static str },
    #[error("needs a password: set {password_property}")]
    NoPassword { password_property: &'static str },
    #[error("the key password is wrong: check ssl.key.password")]
    WrongKeyPassword,
    #[error("the key is encrypted: set ssl.key.password")]
    NoKeyPassword,
    #[error(
        "uses {what}, which is not supported: convert it with keytool -importkeystore or \
         openssl pkcs8 -topk8"
    )]
    Unsupported { what: String },
    #[error("contains no certificate")]
    NoCertificate,
    #[error("contains no private key: export it with its private key")]
    NoKey,
    #[error("the private key \"{alias}\" has no certificate")]
    NoChain { alias: String },
    #[error(
        "the key has type {found}, which TLS clients of Weir do not support: use RSA, EC or \
         Ed25519"
    )]
    KeyType { found: String },
    #[error("the key has type {key}, but its certificate has a key of type {certificate}")]
    KeyMismatch {
        key: &'static str,
        certificate: &'static str,
    },
    #[error("certificate \"{subject}\" expired on {date}: install a new one")]
    Expired { subject: String, date: String },
    #[error("certificate \"{subject}\" is not valid before {date}: check the clock")]
    NotYetValid { subject: String, date: String },
    #[error("no trusted authorities were found on this machine: install ca-certificates")]
    NoSystemRoots,
}

impl From<DerError> for StoreError {
    fn from(_: DerError) -> Self {
        Self::Damaged("invalid DER")
    }
}
