//! Names of properties: those of encryption and login, and those of Java that librdkafka names
//! differently or does not have.

use super::error::SettingsError;

/// Effect of a property.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PropertyKind {
    /// Read by Weir: encryption, login, servers.
    Own,
    /// Passed to librdkafka under this name.
    Client(&'static str),
    /// Passed to librdkafka under its own name, which librdkafka checks.
    Other,
    /// Of Java only, without effect on what Weir does.
    Ignored,
}

/// Returns the effect of a property.
///
/// # Errors
/// The property changes encryption or login in a way that Weir does not support, or it is unknown
/// in a namespace that Weir owns.
pub(super) fn classify(name: &str, value: &str) -> Result<PropertyKind, SettingsError> {
    if OWN.contains(&name) {
        return Ok(PropertyKind::Own);
    }
    if let Some((_, translated)) = TRANSLATED.iter().find(|(java, _)| *java == name) {
        return Ok(PropertyKind::Client(translated));
    }
    if IGNORED.contains(&name) || IGNORED_PREFIXES.iter().any(|it| name.starts_with(it)) {
        return Ok(PropertyKind::Ignored);
    }
    if let Some((_, remedy)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
        // An empty value, or the value that turns a feature off, asks for nothing.
        if value.is_empty() || value.eq_ignore_ascii_case("false") {
            return Ok(PropertyKind::Ignored);
        }
        let property = name.to_owned();
        return Err(SettingsError::Unsupported { property, remedy });
    }
    if NAMESPACES.iter().any(|prefix| name.starts_with(prefix)) {
        return Err(SettingsError::UnknownProperty {
            name: name.to_owned(),
            similar: similar(name),
        });
    }
    Ok(PropertyKind::Other)
}

/// Returns the known name that is most similar, if it differs in few characters.
fn similar(name: &str) -> Option<&'static str> {
    let known = OWN.iter().map(|known| (distance(name, known), *known));
    let (distance, known) = known.min()?;
    (distance <= DISTANCE_MAX).then_some(known)
}

/// Returns the number of characters to insert, remove or replace.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    // Names are ASCII; a longer text is not similar to any.
    for (index, byte) in one.bytes().take(NAME_BYTES_MAX).enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, other) in other.bytes().enumerate() {
            let replaced = diagonal + usize::from(byte != other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row.last().copied().unwrap_or(0) + one.len().saturating_sub(NAME_BYTES_MAX)
}

/// Converts the value of a translated property, if its unit or names differ.
pub(super) fn convert(name: &str, value: &str) -> Result<String, SettingsError> {
    let unknown = |possible: &str| SettingsError::UnknownValue {
        property: name.to_owned(),
        value: value.to_owned(),
        possible: possible.to_owned(),
    };
    match name {
        "buffer.memory" => {
            let bytes: u64 = value.parse().map_err(|_| unknown("a number of bytes"))?;
            Ok((bytes / 1024).max(1).to_string())
        }
        "partition.assignment.strategy" => {
            let names = value.split(',').map(|class| {
                let class = class.trim().rsplit('.').next().unwrap_or_default();
                let found = ASSIGNORS
                    .iter()
                    .find(|(java, own)| [*java, *own].contains(&class));
                found.map(|(_, own)| *own)
            });
            let names: Option<Vec<_>> = names.collect();
            let possible = "RangeAssignor, RoundRobinAssignor or CooperativeStickyAssignor";
            Ok(names.ok_or_else(|| unknown(possible))?.join(","))
        }
        _ => Ok(value.to_owned()),
    }
}

/// Names that only make sense with encryption.
pub(super) fn is_encryption(name: &str) -> bool {
    [
        "ssl.truststore.",
        "ssl.keystore.",
        "ssl.ca.",
        "ssl.certificate.",
        "ssl.key.",
    ]
    .iter()
    .any(|prefix| name.starts_with(prefix))
}

/// Names that only make sense with a login.
pub(super) fn is_login(name: &str) -> bool {
    name.starts_with("sasl.") && OWN.contains(&name)
}

const DISTANCE_MAX: usize = 4;
const NAME_BYTES_MAX: usize = 100;

/// Names that librdkafka would otherwise report after the client has started, or ignore.
const NAMESPACES: [&str; 8] = [
    "ssl.",
    "sasl.",
    "security.",
    "aws.",
    "https.",
    "enable.ssl.",
    "enable.sasl.",
    "oauth.",
];

const OWN: &[&str] = &[
    "bootstrap.servers",
    "metadata.broker.list",
    "security.protocol",
    "ssl.truststore.location",
    "ssl.truststore.type",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.keystore.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
    "ssl.enabled.protocols",
    "ssl.protocol",
    "ssl.cipher.suites",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
    "enable.ssl.certificate.verification",
    "https.ca.location",
    "https.ca.pem",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "sasl.jaas.config",
    "sasl.kerberos.service.name",
    "sasl.kerberos.principal",
    "sasl.kerberos.keytab",
    "sasl.kerberos.use.ticket.cache",
    "sasl.kerberos.store.key",
    "sasl.oauthbearer.token",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.header.urlencode",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.grant.type",
    "sasl.login.callback.handler.class",
    "sasl.client.callback.handler.class",
    "aws.profile.name",
    "aws.role.arn",
    "aws.role.session.name",
    "aws.role.external.id",
    "aws.sts.region",
    "aws.region",
];

const TRANSLATED: &[(&str, &str)] = &[
    ("fetch.max.wait.ms", "fetch.wait.max.ms"),
    ("send.buffer.bytes", "socket.send.buffer.bytes"),
    ("receive.buffer.bytes", "socket.receive.buffer.bytes"),
    ("request.timeout.ms", "socket.timeout.ms"),
    ("max.request.size", "message.max.bytes"),
    ("buffer.memory", "queue.buffering.max.kbytes"),
    (
        "partition.assignment.strategy",
        "partition.assignment.strategy",
    ),
];

const ASSIGNORS: [(&str, &str); 3] = [
    ("RangeAssignor", "range"),
    ("RoundRobinAssignor", "roundrobin"),
    ("CooperativeStickyAssignor", "cooperative-sticky"),
];

const IGNORED: &[&str] = &[
    "key.serializer",
    "value.serializer",
    "key.deserializer",
    "value.deserializer",
    "interceptor.classes",
    "metric.reporters",
    "auto.include.jmx.reporter",
    "default.api.timeout.ms",
    "max.block.ms",
    "max.poll.records",
    "socket.connection.setup.timeout.max.ms",
    "exclude.internal.topics",
    "ssl.keymanager.algorithm",
    "ssl.trustmanager.algorithm",
    "ssl.secure.random.implementation",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.login.retry.backoff.max.ms",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
];

const IGNORED_PREFIXES: [&str; 4] = [
    "metrics.",
    "partitioner.",
    "sasl.login.refresh.",
    "sasl.oauthbearer.jwks.",
];

const REFUSED: &[(&str, &str)] = &[
    ("ssl.provider", "it names a Java class; remove it"),
    (
        "ssl.engine.factory.class",
        "it names a Java class; remove it",
    ),
    ("security.providers", "it names Java classes; remove it"),
    ("sasl.login.class", "it names a Java class; remove it"),
    (
        "sasl.oauthbearer.jwt.retriever.class",
        "it names a Java class; remove it",
    ),
    (
        "sasl.oauthbearer.jwt.validator.class",
        "it names a Java class; remove it",
    ),
    (
        "ssl.crl.location",
        "certificates are not checked against revocation lists; remove it",
    ),
    (
        "ssl.crl.pem",
        "certificates are not checked against revocation lists; remove it",
    ),
    (
        "ssl.curves.list",
        "key exchange groups cannot be selected; remove it",
    ),
    (
        "ssl.sigalgs.list",
        "signature algorithms cannot be selected; remove it",
    ),
    (
        "ssl.engine.location",
        "OpenSSL engines are not used; export the key to a PEM file",
    ),
    (
        "ssl.engine.id",
        "OpenSSL engines are not used; export the key to a PEM file",
    ),
    (
        "ssl.providers",
        "OpenSSL providers are not used; export the key to a PEM file",
    ),
    (
        "ssl.ca.certificate.stores",
        "it is for Windows only; set ssl.ca.location",
    ),
    (
        "enable.sasl.oauthbearer.unsecure.jwt",
        "unsecured tokens are not made; set sasl.oauthbearer.token or \
         sasl.oauthbearer.token.endpoint.url",
    ),
    (
        "sasl.oauthbearer.config",
        "unsecured tokens are not made; set sasl.oauthbearer.token or \
         sasl.oauthbearer.token.endpoint.url",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_security_names_get_a_suggestion() {
        let error = |name| classify(name, "x").expect_err(name).to_string();
        assert_eq!(
            error("ssl.trustore.location"),
            "unknown property \"ssl.trustore.location\": did you mean \"ssl.truststore.location\"?"
        );
        assert_eq!(
            error("sasl.something.else"),
            "unknown property \"sasl.something.else\" of encryption or login: see \
             docs/kafka-security.md"
        );
        assert!(error("ssl.engine.factory.class").contains("it names a Java class"));
        assert!(error("enable.sasl.oauthbearer.unsecure.jwt").contains("not made"));
    }

    #[test]
    fn java_names_are_translated() {
        assert_eq!(
            classify("fetch.max.wait.ms", "5"),
            Ok(PropertyKind::Client("fetch.wait.max.ms"))
        );
        assert_eq!(classify("linger.ms", "5"), Ok(PropertyKind::Other));
        assert_eq!(
            classify("metrics.num.samples", "5"),
            Ok(PropertyKind::Ignored)
        );
        assert_eq!(classify("ssl.provider", ""), Ok(PropertyKind::Ignored));
        assert_eq!(convert("buffer.memory", "33554432"), Ok("32768".to_owned()));
        let assignor = "org.apache.kafka.clients.consumer.RangeAssignor, RoundRobinAssignor";
        let converted = convert("partition.assignment.strategy", assignor);
        assert_eq!(converted, Ok("range,roundrobin".to_owned()));
        assert!(convert("partition.assignment.strategy", "x.StickyAssignor").is_err());
    }

    #[test]
    fn distance_counts_edits() {
        for (one, other, expected) in [("", "", 0), ("abc", "abc", 0), ("kitten", "sitting", 3)] {
            assert_eq!(distance(one, other), expected);
            assert_eq!(distance(other, one), expected);
        }
    }
}
