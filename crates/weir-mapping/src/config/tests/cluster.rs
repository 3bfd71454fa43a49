//! Kafka client properties of encryption, login and consumer parameters.

use super::*;

/// Returns the properties of a valid connection as `name=value`.
fn properties(extra: &[(&str, &str)]) -> Vec<String> {
    let file = parse(&with(extra)).expect("a valid file");
    let all = file.connections[0].kafka_properties().into_iter();
    all.map(|(name, value)| format!("{name}={value}")).collect()
}

const TLS: (&str, &str) = ("encryption.enable", "true");
const LOGIN: (&str, &str) = ("authentication.enable", "true");
const UNCOMMITTED: &str = "isolation.level=read_uncommitted";

#[test]
fn plaintext_is_the_default() {
    let ignored = [
        ("encryption.protocol", "TLSv1.2"),
        ("encryption.truststore.password", "secret"),
        ("authentication.username", "user"),
    ];
    assert_eq!(
        properties(&ignored),
        ["security.protocol=PLAINTEXT", UNCOMMITTED]
    );
}

#[test]
fn encryption_has_the_connectors_defaults() {
    assert_eq!(
        properties(&[TLS]),
        [
            "security.protocol=SSL",
            "ssl.protocol=TLSv1.3",
            "ssl.enabled.protocols=TLSv1.2,TLSv1.3",
            "ssl.endpoint.identification.algorithm=",
            UNCOMMITTED,
        ]
    );
}

#[test]
fn stores_are_resolved_against_the_directory_of_the_file() {
    let extra = [
        TLS,
        ("encryption.protocol", "TLSv1.2"),
        ("encryption.enabled.protocols", "TLSv1.3 , TLSv1.2"),
        ("encryption.cipher.suites", "A, B"),
        ("encryption.hostname.verification.enable", "true"),
        ("encryption.truststore.path", "secrets/trust.p12"),
        ("encryption.truststore.type", "PKCS12"),
        ("encryption.truststore.password", "p1"),
        ("encryption.keystore.enable", "true"),
        ("encryption.keystore.path", "/etc/key.jks"),
        ("encryption.keystore.password", "p2"),
        ("encryption.keystore.key.password", "p3"),
    ];
    let xml = with(&extra);
    let report = ConfigReport::of("conf/a.xml", &xml, &env, ParseOptions { strict: true });
    let connection = report.connections[0].as_ref().expect("a valid connection");
    let all = connection.kafka_properties().into_iter();
    let all: Vec<_> = all.map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(
        all,
        [
            "security.protocol=SSL",
            "ssl.protocol=TLSv1.2",
            "ssl.enabled.protocols=TLSv1.3,TLSv1.2",
            "ssl.cipher.suites=A,B",
            "ssl.endpoint.identification.algorithm=https",
            "ssl.truststore.location=conf/secrets/trust.p12",
            "ssl.truststore.type=PKCS12",
            "ssl.truststore.password=p1",
            "ssl.keystore.location=/etc/key.jks",
            "ssl.keystore.type=JKS",
            "ssl.keystore.password=p2",
            "ssl.key.password=p3",
            UNCOMMITTED,
        ]
    );
    let files: Vec<_> = connection
        .files
        .iter()
        .map(|file| file.value.as_str())
        .collect();
    assert_eq!(files, ["conf/secrets/trust.p12", "/etc/key.jks"]);
    let shown = format!("{connection:?}");
    for secret in ["\"p1\"", "\"p2\"", "\"p3\""] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[test]
fn key_store_is_read_only_if_enabled() {
    let extra = [
        TLS,
        ("encryption.keystore.path", "key.jks"),
        ("encryption.keystore.type", "x"),
    ];
    let file = parse(&with(&extra)).expect("a valid file");
    let connection = &file.connections[0];
    assert!(connection.files.is_empty());
    assert!(
        properties(&extra)
            .iter()
            .all(|one| !one.contains("keystore"))
    );
    assert!(
        file.notes[0]
            .text
            .contains("read only if encryption.keystore.enable is true")
    );
}

#[test]
fn pem_stores_are_an_addition() {
    let xml = with(&[TLS, ("encryption.truststore.type", "PEM")]);
    assert_eq!(parse(&xml).expect("a valid file").notes.len(), 1);
    let error = parse_as(true, &xml).unwrap_err().to_string();
    assert!(
        error.contains("does not know [encryption.truststore.type] = \"PEM\""),
        "{error}"
    );
}

#[test]
fn passwords_are_copied_for_plain_and_scram() {
    let credentials = [
        ("authentication.username", "user"),
        ("authentication.password", "it's"),
        // Of another mechanism.
        ("authentication.gssapi.principal", "p"),
    ];
    for (mechanism, name) in [
        (None, "PLAIN"),
        (Some("PLAIN"), "PLAIN"),
        (Some("SCRAM-SHA-256"), "SCRAM-SHA-256"),
        (Some("SCRAM-SHA-512"), "SCRAM-SHA-512"),
    ] {
        let mechanism = mechanism.map(|one| ("authentication.mechanism", one));
        let extra = [&[LOGIN], &credentials[..], mechanism.as_slice()].concat();
        assert_eq!(
            properties(&extra),
            [
                "security.protocol=SASL_PLAINTEXT",
                &format!("sasl.mechanism={name}"),
                "sasl.username=user",
                "sasl.password=it's",
                UNCOMMITTED,
            ]
        );
    }
}

#[test]
fn kerberos_uses_ticket_cache_or_key_tab() {
    let mechanism = ("authentication.mechanism", "GSSAPI");
    let service = ("authentication.gssapi.kerberos.service.name", "kafka");
    let key_tab = [
        ("authentication.gssapi.key.tab.enable", "true"),
        ("authentication.gssapi.key.tab.path", "client.keytab"),
        ("authentication.gssapi.store.key.enable", "true"),
        ("authentication.gssapi.principal", "client@R"),
    ];
    let with_tab = [&[TLS, LOGIN, mechanism, service], &key_tab[..]].concat();
    let all = properties(&with_tab);
    assert_eq!(all[0], "security.protocol=SASL_SSL");
    let kerberos = [
        "sasl.mechanism=GSSAPI",
        "sasl.kerberos.service.name=kafka",
        "sasl.kerberos.keytab=client.keytab",
        "sasl.kerberos.store.key=true",
        "sasl.kerberos.principal=client@R",
    ];
    assert_eq!(all[4..9], kerberos);
    let tickets = ("authentication.gssapi.ticket.cache.enable", "true");
    let all = properties(&[&with_tab[..], &[tickets]].concat());
    let kerberos = [
        "sasl.mechanism=GSSAPI",
        "sasl.kerberos.service.name=kafka",
        "sasl.kerberos.use.ticket.cache=true",
    ];
    assert_eq!(all[4..7], kerberos);
    assert_eq!(all[7..], [UNCOMMITTED]);
}

#[test]
fn profile_takes_precedence_over_role() {
    let mechanism = [TLS, LOGIN, ("authentication.mechanism", "AWS_MSK_IAM")];
    let login = |extra: &[(&str, &str)]| {
        let all = properties(&[&mechanism[..], extra].concat());
        all[4..all.len() - 1].join(" ")
    };
    assert_eq!(login(&[]), "sasl.mechanism=AWS_MSK_IAM");
    let session = ("authentication.iam.role.session.name", "s");
    assert_eq!(login(&[session]), "sasl.mechanism=AWS_MSK_IAM");
    let role = [
        ("authentication.iam.role.arn", "arn:aws:iam::1:role/r"),
        session,
        ("authentication.iam.sts.region", "eu-west-1"),
    ];
    assert_eq!(
        login(&role),
        "sasl.mechanism=AWS_MSK_IAM aws.role.arn=arn:aws:iam::1:role/r aws.role.session.name=s \
         aws.sts.region=eu-west-1"
    );
    let profile = ("authentication.iam.credential.profile.name", "p");
    let both = [&role[..], &[profile]].concat();
    assert_eq!(
        login(&both),
        "sasl.mechanism=AWS_MSK_IAM aws.profile.name=p"
    );
}

#[test]
fn consumer_settings_are_copied() {
    let extra = [
        ("consumer.fetch.min.bytes", "1"),
        ("consumer.fetch.max.bytes", "2"),
        ("consumer.fetch.max.wait.ms", "3"),
        ("consumer.reconnect.backoff.ms", "4"),
        ("consumer.reconnect.backoff.max.ms", "5"),
        ("record.consume.with.max.poll.records", "6"),
        ("consumer.client.id", "7"),
        ("consumer.client.rack", "8"),
        ("consumer.isolation.level", "read_committed"),
    ];
    assert_eq!(
        properties(&extra),
        [
            "security.protocol=PLAINTEXT",
            "fetch.min.bytes=1",
            "fetch.max.bytes=2",
            "fetch.max.wait.ms=3",
            "reconnect.backoff.ms=4",
            "reconnect.backoff.max.ms=5",
            "max.poll.records=6",
            "client.id=7",
            "client.rack=8",
            "isolation.level=read_committed",
        ]
    );
}

#[test]
fn required_parameters_of_encryption_and_login_are_checked() {
    let mechanism = |name| ("authentication.mechanism", name);
    let missing = |name: &str| format!("missing required parameter [{name}]; ");
    type Row<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);
    let rows: &[Row<'_>] = &[
        (
            &[TLS, ("encryption.keystore.enable", "true")],
            &["encryption.keystore.path"],
        ),
        (
            &[LOGIN],
            &["authentication.username", "authentication.password"],
        ),
        (
            &[
                LOGIN,
                mechanism("SCRAM-SHA-512"),
                ("authentication.username", "u"),
            ],
            &["authentication.password"],
        ),
        (
            &[
                LOGIN,
                mechanism("GSSAPI"),
                ("authentication.gssapi.key.tab.enable", "true"),
            ],
            &[
                "authentication.gssapi.kerberos.service.name",
                "authentication.gssapi.key.tab.path",
                "authentication.gssapi.principal",
            ],
        ),
        (
            &[
                LOGIN,
                mechanism("GSSAPI"),
                ("authentication.gssapi.ticket.cache.enable", "true"),
            ],
            &["authentication.gssapi.kerberos.service.name"],
        ),
        (&[LOGIN, mechanism("AWS_MSK_IAM")], &[]),
    ];
    for (extra, expected) in rows {
        let report = ConfigReport::of("a.xml", &with(extra), &env, ParseOptions::default());
        let texts: Vec<_> = report.errors.iter().map(|error| &error.text).collect();
        assert_eq!(texts.len(), expected.len(), "{extra:?}: {texts:?}");
        for (text, name) in texts.iter().zip(*expected) {
            assert!(text.starts_with(&missing(name)), "{text}");
        }
    }
}
