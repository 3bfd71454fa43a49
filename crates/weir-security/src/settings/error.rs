//! Errors of Kafka settings. No message contains a password, key or token.

use thiserror::Error;

use crate::stores::StoreError;

/// Reason why settings were rejected.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum SettingsError {
    #[error("no bootstrap servers: set \"bootstrap.servers\" to a list of host:port")]
    NoServers,
    #[error("unknown property \"{name}\"{}", suggestion(.similar))]
    UnknownProperty {
        name: String,
        similar: Option<&'static str>,
    },
    #[error("{property} = \"{value}\" is unknown: use {possible}")]
    UnknownValue {
        property: String,
        value: String,
        possible: String,
    },
    #[error("{property} is not supported: {remedy}")]
    Unsupported {
        property: String,
        remedy: &'static str,
    },
    #[error("{property} is missing: {reason}")]
    Missing {
        property: &'static str,
        reason: String,
    },
    #[error("{one} and {other} contradict each other: remove one of them")]
    Contradiction {
        one: &'static str,
        other: &'static str,
    },
    #[error(
        "{property} is set, but the connection would not use it, because security.protocol is not \
         set: set security.protocol to {protocols}, or remove {property}"
    )]
    NotUsed {
        property: String,
        protocols: &'static str,
    },
    #[error("{property}: file \"{path}\" {error}")]
    File {
        property: &'static str,
        path: String,
        error: Box<StoreError>,
    },
    #[error("{property}: the value {error}")]
    Inline {
        property: &'static str,
        error: Box<StoreError>,
    },
    #[error("sasl.jaas.config: {0}")]
    Jaas(JaasError),
    #[error("property \"{property}\": {reason}")]
    Reference { property: String, reason: String },
    #[error("properties file \"{path}\"{}: {reason}", at_line(.line))]
    PropertiesFile {
        path: String,
        line: Option<usize>,
        reason: String,
    },
    #[error(
        "ssl.enabled.protocols and ssl.cipher.suites allow TLS 1.2 only, but librdkafka cannot \
         disable TLS 1.3: add TLSv1.3 and its cipher suites"
    )]
    OnlyTls12,
    #[error(
        "ssl.cipher.suites lists some cipher suites of TLS 1.3, but librdkafka cannot select them: \
         list all three (TLS_AES_256_GCM_SHA384, TLS_AES_128_GCM_SHA256, \
         TLS_CHACHA20_POLY1305_SHA256) or none and set ssl.enabled.protocols"
    )]
    SomeTls13Suites,
    #[error(
        "SASL extensions of OAUTHBEARER cannot be sent through librdkafka's Rust binding: remove \
         the extension_ options, or use the lean consumer"
    )]
    TokenExtensions,
    #[error(
        "sasl.mechanism GSSAPI needs a build with Kerberos: install libsasl2-dev and build with \
         --features gssapi"
    )]
    BuiltWithoutGssapi,
}

/// Reason why a JAAS line was rejected.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum JaasError {
    #[error("the value is longer than {max} bytes")]
    TooLong { max: usize },
    #[error("no login module: write \"<module> required <option>=\\\"<value>\\\";\"")]
    NoModule,
    #[error(
        "unknown login module \"{module}\": use PlainLoginModule, ScramLoginModule, \
         OAuthBearerLoginModule, IAMLoginModule or Krb5LoginModule"
    )]
    UnknownModule { module: String },
    #[error("login module {module} does not belong to sasl.mechanism {mechanism}")]
    OtherMechanism {
        module: &'static str,
        mechanism: String,
    },
    #[error("\"{flag}\" is not a flag: write \"required\" after the login module")]
    Flag { flag: String },
    #[error("option \"{option}\" has no value: write {option}=\"<value>\"")]
    NoValue { option: String },
    #[error("a quotation mark at character {at} is not closed")]
    Unclosed { at: usize },
    #[error("unexpected text at character {at}: options are written as name=\"value\"")]
    Unexpected { at: usize },
    #[error("the line does not end with \";\"")]
    NoEnd,
    #[error("several login modules: a client has one")]
    Several,
    #[error("option \"{option}\" is given twice")]
    Twice { option: String },
    #[error("unknown option \"{option}\" of {module}: use {possible}")]
    UnknownOption {
        option: String,
        module: &'static str,
        possible: String,
    },
}

fn suggestion(similar: &Option<&'static str>) -> String {
    match similar {
        Some(name) => format!(": did you mean \"{name}\"?"),
        None => " of encryption or login: see docs/kafka-security.md".to_owned(),
    }
}

fn at_line(line: &Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(" line {line}"))
}
