//! Parameters of schemas and of the schema registry.

use super::*;
use crate::schema::{DocumentKind, Framing, SchemaSource};

/// A parameter's name and value.
type Pair<'a> = (&'a str, &'a str);

const URL: (&str, &str) = ("schema.registry.url", "http://registry:8081/apis");
const ENABLE: (&str, &str) = ("record.value.evaluator.schema.registry.enable", "true");
const PATH: (&str, &str) = ("record.value.evaluator.schema.path", "s/order.bin");
const MESSAGE: (&str, &str) = ("record.value.evaluator.protobuf.message.type", "a.Order");
const AVRO: (&str, &str) = ("record.value.evaluator.type", "AVRO");
const JSON: (&str, &str) = ("record.value.evaluator.type", "JSON");
const PROTOBUF: (&str, &str) = ("record.value.evaluator.type", "PROTOBUF");
const AZURE: (&str, &str) = ("schema.registry.provider", "AZURE");
const APPLICATION: [(&str, &str); 3] = [
    ("schema.registry.azure.tenant.id", "t"),
    ("schema.registry.azure.client.id", "c"),
    ("schema.registry.azure.client.secret", "s3cret"),
];

fn parsed(extra: &[(&str, &str)]) -> ConnectionConfig {
    let file = parse_as(true, &with(extra)).expect("valid parameters");
    assert!(file.notes.is_empty(), "{:?}", file.notes);
    let mut connections = file.connections;
    connections.remove(0)
}

fn all_errors(extra: &[(&str, &str)]) -> Vec<String> {
    let report = ConfigReport::of("a.xml", &with(extra), &env, ParseOptions::default());
    report
        .errors
        .iter()
        .map(|error| error.text.clone())
        .collect()
}

#[test]
fn local_schema_has_precedence_over_registry() {
    let rows: &[(&[Pair<'_>], bool)] = &[
        (&[AVRO, PATH], true),
        (&[AVRO, PATH, ENABLE, URL], true),
        (&[JSON, PATH, ENABLE, URL], true),
        (&[PROTOBUF, PATH, MESSAGE, ENABLE, URL], true),
        (&[PROTOBUF, PATH, ENABLE, URL], false),
        (&[AVRO, ENABLE, URL], false),
        (&[JSON, ENABLE, URL], false),
    ];
    for (parameters, is_file) in rows {
        let connection = parsed(parameters);
        assert_eq!(
            connection.schema_files.len(),
            usize::from(*is_file),
            "{parameters:?}"
        );
        let is_registered = !connection.mapping.registered_parts().is_empty();
        assert_eq!(is_registered, !is_file, "{parameters:?}");
    }
    let file = &parsed(&[AVRO, PATH]).schema_files[0].parameter;
    assert_eq!(
        (file.name.as_str(), file.value.as_str()),
        (PATH.0, "s/order.bin")
    );
    assert!(parsed(&[JSON]).schema_files.is_empty());
}

#[test]
fn framing_follows_provider_and_type() {
    let azure = [&[ENABLE, URL, AZURE][..], &APPLICATION].concat();
    let rows: &[(&[Pair<'_>], DocumentKind, Framing)] = &[
        (
            &[AVRO],
            DocumentKind::Avro,
            Framing::Confluent { has_indexes: false },
        ),
        (
            &[PROTOBUF],
            DocumentKind::Protobuf,
            Framing::Confluent { has_indexes: true },
        ),
        (
            &[JSON],
            DocumentKind::Json,
            Framing::Confluent { has_indexes: false },
        ),
        (
            &[&[AVRO], &azure[..]].concat(),
            DocumentKind::Avro,
            Framing::AzureAvro,
        ),
        (
            &[&[JSON], &azure[..]].concat(),
            DocumentKind::Json,
            Framing::AzureJson,
        ),
    ];
    for (parameters, kind, expected) in rows {
        let xml = match parameters.len() {
            1 => with(&[parameters, &[ENABLE, URL][..]].concat()),
            _ => with(parameters),
        };
        let connection = parse(&xml).expect("valid").connections.remove(0);
        let format = connection.mapping.value_format().expect("a document");
        assert_eq!(format.kind, *kind);
        let SchemaSource::Registry(framing, _) = &format.schema else {
            panic!("{parameters:?} uses no registry");
        };
        assert_eq!(framing, expected);
    }
}

#[test]
fn missing_parameters_are_named() {
    let missing = |name: &str| format!("missing required parameter [{name}]; ");
    let basic = (
        "schema.registry.confluent.basic.authentication.enable",
        "true",
    );
    let store = (
        "schema.registry.confluent.encryption.truststore.path",
        "t.jks",
    );
    let key_store = (
        "schema.registry.confluent.encryption.keystore.enable",
        "true",
    );
    let https = ("schema.registry.url", "https://registry");
    let login = "schema.registry.confluent.basic.authentication.";
    let tls = "schema.registry.confluent.encryption.";
    let rows: &[(&[Pair<'_>], &[String])] = &[
        (&[AVRO, ENABLE], &[missing(URL.0)]),
        (
            &[AVRO, ENABLE, URL, basic],
            &[
                missing(&format!("{login}username")),
                missing(&format!("{login}password")),
            ],
        ),
        // Without TLS, its parameters are not read.
        (&[AVRO, ENABLE, URL, store, key_store], &[]),
        (
            &[AVRO, ENABLE, https, store, key_store],
            &[
                missing(&format!("{tls}keystore.path")),
                missing(&format!("{tls}truststore.password")),
            ],
        ),
        (
            &[JSON, ENABLE, URL, AZURE],
            &APPLICATION.map(|(name, _)| missing(name)),
        ),
        (&[PROTOBUF, PATH], &[missing(MESSAGE.0)]),
        (
            &[AVRO],
            &[format!(
                "[{}] = \"AVRO\" needs a schema: specify a valid file path for [{}] or set [{}] \
                 to true",
                AVRO.0, PATH.0, ENABLE.0
            )],
        ),
    ];
    for (parameters, expected) in rows {
        let errors = all_errors(parameters);
        assert_eq!(errors.len(), expected.len(), "{parameters:?}: {errors:#?}");
        for (error, start) in errors.iter().zip(*expected) {
            assert!(
                error.starts_with(start.as_str()),
                "{error} does not start with {start}"
            );
        }
    }
}

#[test]
fn azure_does_not_support_protobuf() {
    let parameters = [&[PROTOBUF, ENABLE, URL, AZURE][..], &APPLICATION].concat();
    let errors = all_errors(&parameters);
    assert_eq!(errors.len(), 1, "{errors:#?}");
    assert!(
        errors[0].contains("\"AZURE\" does not support PROTOBUF, the type of the record value")
    );
}

#[test]
fn registry_has_login_and_encryption() {
    let tls = "schema.registry.confluent.encryption.";
    let verify = format!("{tls}hostname.verification.enable");
    let connection = parsed(&[
        AVRO,
        ENABLE,
        ("schema.registry.url", "https://registry:8081"),
        (
            "schema.registry.confluent.basic.authentication.enable",
            "true",
        ),
        (
            "schema.registry.confluent.basic.authentication.username",
            "user",
        ),
        (
            "schema.registry.confluent.basic.authentication.password",
            "s3cret",
        ),
        (&verify, "true"),
    ]);
    let registry = connection.registry().expect("a registry");
    assert_eq!(registry.url, "https://registry:8081");
    let login = RegistryLogin::Basic {
        username: "user".to_owned(),
        password: "s3cret".to_owned(),
    };
    assert_eq!(registry.login, login);
    let algorithm = (
        "ssl.endpoint.identification.algorithm".to_owned(),
        "https".to_owned(),
    );
    assert!(
        registry.properties.contains(&algorithm),
        "{:?}",
        registry.properties
    );
    assert!(!format!("{connection:?}").contains("s3cret"));
    let plain = parsed(&[AVRO, ENABLE, URL]);
    let plain = plain.registry().expect("a registry");
    assert!(plain.properties.is_empty() && plain.login == RegistryLogin::None);
    assert!(parsed(&[AVRO, PATH]).registry().is_none());
}

#[test]
fn registry_encryption_has_its_own_stores() {
    let tls = "schema.registry.confluent.encryption.";
    let named: Vec<_> = [
        ("protocol", "TLSv1.2"),
        ("enabled.protocols", "TLSv1.2"),
        ("cipher.suites", "TLS_AES_128_GCM_SHA256"),
        ("hostname.verification.enable", "true"),
        ("truststore.path", "trust.p12"),
        ("truststore.type", "PKCS12"),
        ("truststore.password", "t"),
        ("keystore.enable", "true"),
        ("keystore.path", "key.p12"),
        ("keystore.type", "PKCS12"),
        ("keystore.password", "k"),
        ("keystore.key.password", "kk"),
    ]
    .map(|(name, value)| (format!("{tls}{name}"), value))
    .into();
    let mut parameters = vec![
        AVRO,
        ENABLE,
        ("schema.registry.url", "https://registry:8081"),
    ];
    parameters.extend(named.iter().map(|(name, value)| (name.as_str(), *value)));
    let connection = parsed(&parameters);
    let registry = connection.registry().expect("a registry");
    for (name, value) in [
        ("ssl.protocol", "TLSv1.2"),
        ("ssl.enabled.protocols", "TLSv1.2"),
        ("ssl.cipher.suites", "TLS_AES_128_GCM_SHA256"),
        ("ssl.endpoint.identification.algorithm", "https"),
        ("ssl.truststore.type", "PKCS12"),
        ("ssl.truststore.password", "t"),
        ("ssl.keystore.type", "PKCS12"),
        ("ssl.keystore.password", "k"),
        ("ssl.key.password", "kk"),
    ] {
        let property = (name.to_owned(), value.to_owned());
        assert!(
            registry.properties.contains(&property),
            "{name}: {:?}",
            registry.properties
        );
    }
    for (name, file) in [
        ("ssl.truststore.location", "trust.p12"),
        ("ssl.keystore.location", "key.p12"),
    ] {
        let found = registry.properties.iter().find(|one| one.0 == name);
        assert!(found.is_some_and(|one| one.1.ends_with(file)), "{name}");
    }
}

#[test]
fn keys_have_schemas_of_their_own() {
    let avro = [
        ("record.key.evaluator.type", "AVRO"),
        ("record.key.evaluator.schema.path", "key.avsc"),
    ];
    let connection = parsed(&avro);
    assert_eq!(connection.schema_files.len(), 1);
    assert!(
        connection.schema_files[0]
            .parameter
            .value
            .ends_with("key.avsc")
    );
    let protobuf = [
        ("record.key.evaluator.type", "PROTOBUF"),
        ("record.key.evaluator.schema.path", "key.bin"),
        ("record.key.evaluator.protobuf.message.type", "Key"),
    ];
    assert_eq!(parsed(&protobuf).schema_files.len(), 1);
    let registered = [
        avro[0],
        ("record.key.evaluator.schema.registry.enable", "true"),
        URL,
        ("field.id", "#{KEY.id}"),
    ];
    assert_eq!(parsed(&registered).mapping.registered_parts(), ["key"]);
}

#[test]
fn wrong_schema_files_are_rejected() {
    let load = |parameters: &[(&str, &str)], bytes: &[u8]| {
        let connection = parsed(parameters);
        connection.schema_files[0]
            .load(bytes)
            .map_err(|error| error.to_string())
    };
    assert_eq!(load(&[AVRO, PATH], b"\"int\""), Ok(()));
    assert_eq!(load(&[JSON, PATH], b"{\"type\": \"object\"}"), Ok(()));
    for (parameters, bytes) in [
        (&[AVRO, PATH][..], &b"{"[..]),
        (&[AVRO, PATH], b"\xff"),
        (&[JSON, PATH], b"{\"type\": 5}"),
        (&[PROTOBUF, PATH, MESSAGE], b"syntax = \"proto3\";"),
    ] {
        assert!(load(parameters, bytes).is_err(), "{parameters:?} {bytes:?}");
    }
}
