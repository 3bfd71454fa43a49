//! Settings from properties.

use proptest::prelude::*;

use super::*;
use crate::stores::Roots;

fn read(properties: &[(&str, &str)]) -> Result<KafkaSettings, SettingsError> {
    let owned = properties.iter();
    let owned: Vec<_> = owned
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    KafkaSettings::from_properties(Some("broker:9092"), &owned)
}

fn error(properties: &[(&str, &str)]) -> String {
    read(properties).expect_err("rejected").to_string()
}

const PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule required \
                     username=\"alice\" password=\"s3cret\";";

#[test]
fn java_names_become_settings() {
    let settings = read(&[
        ("security.protocol", "SASL_SSL"),
        ("sasl.mechanism", "PLAIN"),
        ("sasl.jaas.config", PLAIN),
        ("ssl.endpoint.identification.algorithm", ""),
        ("fetch.max.wait.ms", "7"),
        ("client.id", "x"),
        ("key.deserializer", "x.StringDeserializer"),
    ]);
    let settings = settings.expect("valid");
    let tls = settings.security.tls.as_ref().expect("encryption");
    assert_eq!((&tls.roots, tls.verify_hostname), (&Roots::System, false));
    assert_eq!(tls.protocols, [TlsVersion::V1_2, TlsVersion::V1_3]);
    let Some(SaslSettings::Plain(login)) = &settings.security.sasl else {
        panic!("{:?}", settings.security.sasl);
    };
    assert_eq!(
        (&*login.username, login.password.reveal()),
        ("alice", "s3cret")
    );
    let properties = [("client.id", "x"), ("fetch.wait.max.ms", "7")];
    let properties = properties.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(settings.properties, properties);
    assert!(!format!("{settings:?}").contains("s3cret"));
}

#[test]
fn protocol_decides_and_contradictions_are_rejected() {
    assert!(read(&[]).expect("valid").security.tls.is_none());
    let forgotten = error(&[("sasl.username", "alice")]);
    assert!(
        forgotten.contains("security.protocol is not set"),
        "{forgotten}"
    );
    assert!(error(&[("ssl.truststore.location", "x")]).contains("SSL or SASL_SSL"));
    let unknown = error(&[("security.protocol", "TLS")]);
    assert!(unknown.contains("use PLAINTEXT, SSL"), "{unknown}");
    let sasl = ("security.protocol", "SASL_PLAINTEXT");
    let unknown = error(&[sasl, ("sasl.mechanism", "DIGEST-MD5")]);
    assert!(unknown.contains("PLAIN, SCRAM-SHA-256"), "{unknown}");
    let both = [sasl, ("sasl.mechanism", "PLAIN"), ("sasl.username", "a")];
    let both = error(&[&both[..], &[("sasl.jaas.config", PLAIN)]].concat());
    assert!(
        both.contains("contradict") && !both.contains("s3cret"),
        "{both}"
    );
    let other = error(&[
        sasl,
        ("sasl.mechanism", "SCRAM-SHA-256"),
        ("sasl.jaas.config", PLAIN),
    ]);
    assert!(
        other.contains("does not belong to sasl.mechanism SCRAM-SHA-256"),
        "{other}"
    );
    let ssl = ("security.protocol", "SSL");
    assert!(error(&[ssl, ("ssl.enabled.protocols", "TLSv1.1")]).contains("TLSv1.2 or TLSv1.3"));
    assert!(error(&[ssl, ("ssl.cipher.suites", "TLS_X")]).contains("TLS_AES_256_GCM_SHA384"));
    let verification = error(&[ssl, ("enable.ssl.certificate.verification", "false")]);
    assert!(verification.contains("always verified"), "{verification}");
    let file = error(&[ssl, ("ssl.truststore.location", "/no/such.jks")]);
    assert!(
        file.starts_with("ssl.truststore.location: file \"/no/such.jks\" cannot"),
        "{file}"
    );
}

#[test]
fn texts_of_kerberos_are_checked() {
    let sasl = ("security.protocol", "SASL_SSL");
    let unsafe_name = error(&[
        sasl,
        ("sasl.kerberos.service.name", "kafka"),
        ("sasl.kerberos.principal", "a; rm -rf"),
    ]);
    assert!(
        unsafe_name.contains("sasl.kerberos.principal"),
        "{unsafe_name}"
    );
}

#[test]
fn the_last_value_of_a_property_counts() {
    let user = KafkaSettings::plaintext("a:1").with_property("client.rack", "a");
    let default = user.clone().with_default_property("client.rack", "b");
    assert_eq!(default.property("client.rack"), Some("a"));
    let replaced = user.with_property("client.rack", "b");
    assert_eq!(replaced.property("client.rack"), Some("b"));
    let none = KafkaSettings::plaintext("a:1");
    assert_eq!(none.property("client.rack"), None);
}

proptest! {
    #[test]
    fn any_text_is_read_without_panic(text in "\\PC{0,100}") {
        fuzz(&text);
        fuzz(&format!("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n{text}"));
    }
}
