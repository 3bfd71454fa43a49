//! Builds librdkafka configurations: Weir's defaults, overridden by the user's properties, except
//! properties that Weir sets itself.

use std::time::UNIX_EPOCH;

use rdkafka::ClientConfig;
use rdkafka::client::OAuthToken;
use rdkafka::config::RDKafkaLogLevel;
use thiserror::Error;
use weir_security::{
    BearerToken, KafkaSettings, SaslSettings, Security, SettingsError, TokenError,
};

use crate::refusals::unreachable_in;

/// A property that the user cannot set, because guarantees of the client depend on it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("property \"{key}\" = \"{value}\" cannot be set: the client sets it itself; remove it")]
pub struct PropertyError {
    key: String,
    value: String,
}

impl PropertyError {
    pub(crate) fn new(key: &str, value: &str) -> Self {
        Self {
            key: key.to_owned(),
            value: value.to_owned(),
        }
    }
}

/// Returns a configuration with Weir's defaults, encryption and login, without the user's other
/// properties.
pub(crate) fn base(kafka: &KafkaSettings, client_id: &str) -> Result<ClientConfig, SettingsError> {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", &kafka.bootstrap_servers)
        .set("client.id", client_id)
        .set("socket.nagle.disable", "true")
        // A restarted broker should be found within one second; the default is ten.
        .set("reconnect.backoff.ms", "50")
        .set("reconnect.backoff.max.ms", "1000")
        .set("socket.connection.setup.timeout.ms", "5000")
        .set_log_level(RDKafkaLogLevel::Info);
    for (name, value) in librdkafka_security(&kafka.security)? {
        config.set(name, value);
    }
    Ok(config)
}

/// Adds the user's properties to `config`; rejects the keys in `owned`.
pub(crate) fn apply(
    config: &mut ClientConfig,
    kafka: &KafkaSettings,
    owned: &[&str],
) -> Result<(), PropertyError> {
    for (key, value) in &kafka.properties {
        if owned.contains(&key.as_str()) {
            return Err(PropertyError::new(key, value));
        }
        config.set(key, value);
    }
    Ok(())
}

/// Returns encryption and login as librdkafka's properties, including passwords and keys.
///
/// # Errors
/// librdkafka or this build of it cannot do what the settings require.
pub fn librdkafka_security(
    security: &Security,
) -> Result<Vec<(&'static str, String)>, SettingsError> {
    let properties = security.librdkafka_properties()?;
    match &security.sasl {
        Some(SaslSettings::Kerberos(_)) if !cfg!(feature = "gssapi") => {
            Err(SettingsError::BuiltWithoutGssapi)
        }
        _ => Ok(properties),
    }
}

/// Returns a token for librdkafka's callback. Blocks while a token is requested, but only if there
/// is no valid one.
pub(crate) fn oauth_token(security: &Security) -> Result<OAuthToken, Box<dyn std::error::Error>> {
    let token = match &security.sasl {
        Some(SaslSettings::OAuthBearer(source)) => source.token(),
        Some(SaslSettings::AwsMskIam(source)) => source.token(),
        _ => Err(TokenError::NotNeeded),
    };
    let BearerToken {
        token,
        principal,
        expires,
        ..
    } = token?;
    let lifetime = expires.duration_since(UNIX_EPOCH)?.as_millis();
    Ok(OAuthToken {
        token: token.reveal().to_owned(),
        principal_name: principal,
        lifetime_ms: i64::try_from(lifetime)?,
    })
}

/// Logs a line of librdkafka. Its error level becomes a warning, because an unavailable broker does
/// not require an operator. Of a broker without a connection, the client's owner says more.
pub(crate) fn log_line(level: RDKafkaLogLevel, facility: &str, message: &str) {
    // A broker that has just started assigns no ids for producers yet.
    let is_passing = facility == "GETPID" && message.contains("retrying");
    if is_passing || unreachable_in(facility, message).is_some() {
        return tracing::debug!(target: "librdkafka", facility, "{message}");
    }
    match level {
        RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
            tracing::error!(target: "librdkafka", facility, "{message}");
        }
        RDKafkaLogLevel::Error | RDKafkaLogLevel::Warning => {
            tracing::warn!(target: "librdkafka", facility, "{message}");
        }
        RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
            tracing::debug!(target: "librdkafka", facility, "{message}");
        }
        RDKafkaLogLevel::Debug => tracing::trace!(target: "librdkafka", facility, "{message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(key: &str, value: &str) -> KafkaSettings {
        KafkaSettings::plaintext("localhost:9092").with_property(key, value)
    }

    #[test]
    fn user_properties_override_defaults_but_not_owned_keys() {
        let user = with("reconnect.backoff.ms", "7");
        let mut config = base(&user, "t").expect("plaintext");
        let own = ["enable.auto.commit"];
        assert_eq!(apply(&mut config, &user, &own), Ok(()));
        assert_eq!(config.get("reconnect.backoff.ms"), Some("7"));

        let rejected = with("enable.auto.commit", "true");
        let error = apply(&mut config, &rejected, &own).expect_err("owned key");
        assert_eq!(
            error.to_string(),
            "property \"enable.auto.commit\" = \"true\" cannot be set: the client sets it itself; \
             remove it"
        );
    }

    fn librdkafka(properties: &[(&str, &str)]) -> Result<ClientConfig, SettingsError> {
        let owned = properties.iter();
        let owned: Vec<_> = owned
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        let kafka = KafkaSettings::from_properties(Some("broker:9092"), &owned)?;
        let config = base(&kafka, "t")?;
        // librdkafka itself must accept names and values.
        let _: rdkafka::producer::BaseProducer = config.create().expect("a client");
        Ok(config)
    }

    #[test]
    fn librdkafka_gets_suites_of_tls_1_2_or_an_error() {
        let ssl = ("security.protocol", "SSL");
        let suites = |list: &str| librdkafka(&[ssl, ("ssl.cipher.suites", list)]);
        let all = "TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256,TLS_CHACHA20_POLY1305_SHA256";
        let rsa = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384";
        let list = format!("{all},{rsa}");
        let config = suites(&list).expect("possible");
        assert_eq!(
            config.get("ssl.cipher.suites"),
            Some("ECDHE-RSA-AES256-GCM-SHA384")
        );
        assert_eq!(
            suites(rsa).expect_err("no TLS 1.3"),
            SettingsError::OnlyTls12
        );
        let some = suites("TLS_AES_256_GCM_SHA384").expect_err("one suite");
        assert_eq!(some, SettingsError::SomeTls13Suites);
        let only = |version| librdkafka(&[ssl, ("ssl.enabled.protocols", version)]);
        assert_eq!(
            only("TLSv1.2").expect_err("one version"),
            SettingsError::OnlyTls12
        );
        let config = only("TLSv1.3").expect("possible");
        assert_eq!(
            config.get("ssl.cipher.suites"),
            Some("PSK-AES128-GCM-SHA256")
        );
        assert_eq!(
            librdkafka(&[ssl])
                .expect("possible")
                .get("ssl.cipher.suites"),
            None
        );
    }

    #[test]
    fn librdkafka_gets_logins() {
        let sasl = ("security.protocol", "SASL_SSL");
        let user = [("sasl.username", "alice"), ("sasl.password", " p ")];
        let login = |mechanism, more: &[(&str, &str)]| {
            let first = [sasl, ("sasl.mechanism", mechanism)];
            librdkafka(&[&first[..], more].concat())
        };
        let config = login("SCRAM-SHA-512", &user).expect("possible");
        assert_eq!(config.get("sasl.password"), Some(" p "));
        assert_eq!(
            config.get("ssl.endpoint.identification.algorithm"),
            Some("https")
        );
        let token = ("sasl.oauthbearer.token", "abc");
        let config = login("OAUTHBEARER", &[token]).expect("possible");
        assert_eq!(config.get("sasl.mechanism"), Some("OAUTHBEARER"));
        let extensions = ("sasl.oauthbearer.extensions", "logicalCluster=lkc-1");
        let refused = login("OAUTHBEARER", &[token, extensions]).expect_err("no extensions");
        assert_eq!(refused, SettingsError::TokenExtensions);
        assert!(
            login("OAUTHBEARER", &[])
                .expect_err("no token")
                .to_string()
                .contains("token")
        );
        let config = login("AWS_MSK_IAM", &[("aws.region", "eu-west-1")]).expect("possible");
        assert_eq!(config.get("sasl.mechanism"), Some("OAUTHBEARER"));
        let gssapi = login("GSSAPI", &[("sasl.kerberos.service.name", "kafka")]);
        if !cfg!(feature = "gssapi") {
            assert_eq!(
                gssapi.expect_err("not built"),
                SettingsError::BuiltWithoutGssapi
            );
        }
    }
}
