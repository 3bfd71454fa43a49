//! How to reach a Kafka cluster: settings under Kafka's names, key and trust stores, tokens and
//! secrets. This crate reads files and asks token services, but never connects to a broker.

#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod http;
mod secret;
mod settings;
mod stores;
mod tokens;

pub use http::{Document, HttpError, HttpResponse, fetch_document, post_json};
pub use secret::Secret;
pub use settings::ciphers;
pub use settings::{
    JaasError, KafkaSettings, KerberosSettings, Login, SaslSettings, ScramHash, Security,
    SettingsError, StoreFiles, TlsSettings, TlsVersion,
};
pub use stores::{ClientIdentity, Roots, StoreError};
pub use tokens::{
    AwsCredentialSource, AwsOptions, BearerToken, TokenEndpoint, TokenError, TokenSource,
};
