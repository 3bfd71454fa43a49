//! Broker properties of secured listeners.

use super::files::SecurityFiles;
use super::mode::LabSecurity;
use crate::config::{Listener, ListenerName};

/// Returns the properties of a broker's secured `listeners`. They contain passwords.
pub(crate) fn server_properties(
    security: LabSecurity,
    files: &SecurityFiles,
    listeners: &[Listener],
    issuer: Option<&str>,
) -> Vec<(String, String)> {
    let mut properties = Vec::new();
    let mut add = |key: String, value: String| properties.push((key, value));
    for listener in listeners.iter().filter(|it| it.name.is_secured()) {
        let prefix = format!("listener.name.{}", listener.name.text().to_lowercase());
        if listener.name != ListenerName::Unencrypted {
            tls(security, files, listener.name, &mut |key, value| {
                add(format!("{prefix}.{key}"), value);
            });
        }
        sasl(security, files, &mut |key, value| {
            add(format!("{prefix}.{key}"), value);
        });
    }
    if let Some(issuer) = issuer {
        for (key, value) in [
            (
                "jwks.endpoint.url",
                format!("file://{}", files.key_set().display()),
            ),
            ("expected.audience", TOKEN_AUDIENCE.to_owned()),
            ("expected.issuer", issuer.to_owned()),
        ] {
            add(format!("sasl.oauthbearer.{key}"), value);
        }
    }
    properties
}

fn tls(
    security: LabSecurity,
    files: &SecurityFiles,
    listener: ListenerName,
    add: &mut dyn FnMut(&str, String),
) {
    let store = match listener {
        ListenerName::Expired => files.server_expired(),
        ListenerName::OtherHost => files.server_other_host(),
        _ => files.server(),
    };
    add("ssl.keystore.type", "PEM".to_owned());
    add("ssl.keystore.location", store.pem().display().to_string());
    if security == LabSecurity::Mtls {
        add("ssl.client.auth", "required".to_owned());
        add("ssl.truststore.type", "PEM".to_owned());
        add(
            "ssl.truststore.location",
            files.authority().pem().display().to_string(),
        );
    }
}

fn sasl(security: LabSecurity, files: &SecurityFiles, add: &mut dyn FnMut(&str, String)) {
    let modules = "org.apache.kafka.common.security";
    match security {
        LabSecurity::Plaintext | LabSecurity::Tls | LabSecurity::Mtls => {}
        LabSecurity::SaslPlain => {
            let (user, password) = (files.user(), files.user_password());
            let module = format!("{modules}.plain.PlainLoginModule");
            add("sasl.enabled.mechanisms", "PLAIN".to_owned());
            add(
                "plain.sasl.jaas.config",
                format!("{module} required user_{user}=\"{password}\";"),
            );
        }
        LabSecurity::Scram => {
            add("sasl.enabled.mechanisms", SCRAM.join(","));
            let module = format!("{modules}.scram.ScramLoginModule required;");
            for mechanism in SCRAM {
                let key = format!("{}.sasl.jaas.config", mechanism.to_lowercase());
                add(&key, module.clone());
            }
        }
        LabSecurity::Oauth => {
            let handler = format!("{modules}.oauthbearer.OAuthBearerValidatorCallbackHandler");
            let module = format!("{modules}.oauthbearer.OAuthBearerLoginModule required;");
            add("sasl.enabled.mechanisms", "OAUTHBEARER".to_owned());
            add("oauthbearer.sasl.jaas.config", module);
            add("oauthbearer.sasl.server.callback.handler.class", handler);
        }
    }
}

/// Returns the arguments with which the storage is formatted, so that the user exists.
pub(crate) fn scram_arguments(security: LabSecurity, files: &SecurityFiles) -> Vec<String> {
    if security != LabSecurity::Scram {
        return Vec::new();
    }
    let (user, password) = (files.user(), files.user_password());
    let credential = |mechanism| format!("{mechanism}=[name={user},password={password}]");
    let pairs = SCRAM.into_iter();
    pairs
        .flat_map(|mechanism| ["--add-scram".to_owned(), credential(mechanism)])
        .collect()
}

/// Returns the arguments of Kafka's configuration tool that make a broker read its store again.
///
/// Setting the location to its current value has this effect.
pub(crate) fn reload_arguments(files: &SecurityFiles, node_id: i32) -> Vec<String> {
    let store = files.server().pem();
    let value = format!(
        "listener.name.client.ssl.keystore.location={}",
        store.display()
    );
    let node = node_id.to_string();
    let arguments = [
        "--alter",
        "--entity-type",
        "brokers",
        "--entity-name",
        &node,
    ];
    let arguments = arguments.into_iter().map(str::to_owned);
    arguments
        .chain(["--add-config".to_owned(), value])
        .collect()
}

const SCRAM: [&str; 2] = ["SCRAM-SHA-256", "SCRAM-SHA-512"];
pub(crate) const TOKEN_AUDIENCE: &str = "kafka";
