//! Table of parameters with the support of each, and earlier spellings.

use std::sync::LazyLock;

use super::suggest::nearest;
use super::types::{INT, NON_NEGATIVE_INT, NON_NEGATIVE_LONG, POSITIVE_INT, ValueType};

pub(super) const FIELD: &str = "field";
pub(super) const ITEM_TEMPLATE: &str = "item-template";
pub(super) const MAP: &str = "map";
pub(super) const MAP_SUFFIX: &str = ".to";

/// Extent of the check of JSON payloads. A parameter of Weir, which the connector ignores like any
/// unknown name.
pub(super) const JSON_CHECK: &str = "weir.json.check";

/// Support of a parameter in this version.
#[derive(Debug, Clone, Copy)]
pub(super) enum ParameterSupport {
    /// Implemented.
    Honoured,
    /// Checked but without effect, with the reason.
    Ignored(&'static str),
    /// Implemented for this value. Others would change results and are rejected, with the remedy.
    Only(&'static str, &'static str),
    /// Implemented except for these values, which would change results and are rejected, with the
    /// remedy.
    Except(&'static [&'static str], &'static str),
    /// Implemented if another parameter has this value, otherwise ignored, with the reason.
    With(&'static str, &'static str, &'static str),
    /// Used only if a switch of this group is on, which this version rejects.
    In(&'static Group),
}

/// Parameters that the connector uses only if a switch is on.
#[derive(Debug)]
pub(super) struct Group {
    /// Switches; the group is used if one of them is `true`.
    pub(super) switches: &'static [&'static str],
    /// Reason why the parameters have no effect while the switches are off.
    pub(super) off: &'static str,
}

use ParameterSupport::{Except, Honoured, Ignored, In, Only, With};
use ValueType::{Boolean, Char, Choice, ChoiceList, File, HostList, Text, TextList, Threads, Url};

const NO_GROUP: &str = "partitions are assigned without a consumer group";
const NO_TUNING: &str = "the Kafka consumer uses its own fetch and reconnect settings";
const FIXED: &str = "the connector ignores it too";
const TLS: &Group = &Group {
    switches: &["encryption.enable"],
    off: "read only if encryption.enable is true",
};
const AUTHENTICATION: &Group = &Group {
    switches: &["authentication.enable"],
    off: "read only if authentication.enable is true",
};
const REGISTRY: &Group = &Group {
    switches: &[
        "record.key.evaluator.schema.registry.enable",
        "record.value.evaluator.schema.registry.enable",
    ],
    off: "read only if a schema registry is enabled",
};
/// Reason why a parameter of a group has no effect although a switch is on: the switch is rejected.
pub(super) const GROUP_UNSUPPORTED: &str = "its group is not supported by this version";

const NO_SCHEMA: &str = "payloads are read without a schema";
const NO_KVP: &str = "read only by the KVP evaluator";
const USE_ANOTHER: &str = "use JSON, KVP, STRING or a scalar type";
const KEY_TYPE: &str = "record.key.evaluator.type";
const VALUE_TYPE: &str = "record.value.evaluator.type";
const USE_PLAIN: &str = "connect to a PLAINTEXT listener without login";
/// Reads row commands and snapshot events of mode COMMAND from the fields `key` and `command`.
pub(super) const EVALUATE_COMMAND: &str = "fields.evaluate.as.command.enable";
/// Adds rows of mode COMMAND for records and deletes them for tombstones.
pub(super) const AUTO_COMMAND: &str = "fields.auto.command.mode.enable";
const NAME_FIELDS: &str = "name each field: field.NAME = #{EXPRESSION}";
const NAME_TOPICS: &str = "map each topic by its name";
const REMOVE: &str = "remove it";

type Row = (&'static str, ValueType);

const TLS_PROTOCOLS: &[&str] = &["TLSv1.2", "TLSv1.3"];
const STORE_TYPES: &[&str] = &["JKS", "PKCS12"];
const MECHANISMS: &[&str] = &[
    "PLAIN",
    "SCRAM-SHA-256",
    "SCRAM-SHA-512",
    "GSSAPI",
    "AWS_MSK_IAM",
];
const ORDERS: &[&str] = &["ORDER_BY_PARTITION", "ORDER_BY_KEY", "UNORDERED"];
const STRATEGIES: &[&str] = &["IGNORE_AND_CONTINUE", "FORCE_UNSUBSCRIPTION"];
const EVALUATORS: &[&str] = &[
    "AVRO",
    "JSON",
    "PROTOBUF",
    "KVP",
    "STRING",
    "INTEGER",
    "BOOLEAN",
    "BYTE_ARRAY",
    "BYTE_BUFFER",
    "BYTES",
    "DOUBLE",
    "FLOAT",
    "LONG",
    "SHORT",
    "UUID",
];

const KEY: &str = "record.key.evaluator.";
const VALUE: &str = "record.value.evaluator.";
const REGISTRY_ENCRYPTION: &str = "schema.registry.confluent.encryption.";

const SECURITY_SWITCHES: &[Row] = &[
    ("encryption.enable", Boolean),
    ("authentication.enable", Boolean),
];
const TOPIC_PATTERNS: &[Row] = &[("map.regex.enable", Boolean)];
const FIELD_PATTERN: &[Row] = &[("field.*", Text)];
/// Encryption of connections to Kafka and to a schema registry.
const ENCRYPTION: &[Row] = &[
    ("protocol", Choice(TLS_PROTOCOLS)),
    ("enabled.protocols", ChoiceList(TLS_PROTOCOLS)),
    ("cipher.suites", TextList),
    ("hostname.verification.enable", Boolean),
    ("truststore.path", File),
    ("truststore.type", Choice(STORE_TYPES)),
    ("truststore.password", Text),
    ("keystore.enable", Boolean),
    ("keystore.path", File),
    ("keystore.type", Choice(STORE_TYPES)),
    ("keystore.password", Text),
    ("keystore.key.password", Text),
];
const KAFKA_ENCRYPTION: &[Row] = &[
    ("provider", Text),
    ("engine.factory.class", Text),
    ("keymanager.algorithm", Text),
    ("secure.random.implementation", Text),
    ("trustmanager.algorithm", Text),
    ("security.providers", Text),
];
const LOGIN: &[Row] = &[
    ("mechanism", Choice(MECHANISMS)),
    ("username", Text),
    ("password", Text),
    ("gssapi.kerberos.service.name", Text),
    ("gssapi.key.tab.enable", Boolean),
    ("gssapi.key.tab.path", File),
    ("gssapi.store.key.enable", Boolean),
    ("gssapi.principal", Text),
    ("gssapi.ticket.cache.enable", Boolean),
    ("iam.credential.profile.name", Text),
    ("iam.role.arn", Text),
    ("iam.role.session.name", Text),
    ("iam.sts.region", Text),
];
const UNUSED_GROUP: &[Row] = &[
    ("record.consume.with.session.timeout.ms", INT),
    ("record.consume.with.max.poll.interval.ms", POSITIVE_INT),
    ("consumer.heartbeat.interval.ms", NON_NEGATIVE_INT),
];
const UNUSED_TUNING: &[Row] = &[
    ("record.consume.with.max.poll.records", POSITIVE_INT),
    ("consumer.fetch.min.bytes", NON_NEGATIVE_INT),
    ("consumer.fetch.max.bytes", NON_NEGATIVE_INT),
    ("consumer.fetch.max.wait.ms", NON_NEGATIVE_INT),
    ("consumer.reconnect.backoff.ms", NON_NEGATIVE_LONG),
    ("consumer.reconnect.backoff.max.ms", NON_NEGATIVE_LONG),
];
const FIXED_CONSUMER: &[Row] = &[
    ("client.id", Text),
    ("enable.auto.commit", Boolean),
    ("metadata.max.age.ms", NON_NEGATIVE_LONG),
    ("request.timeout.ms", NON_NEGATIVE_INT),
    ("default.api.timeout.ms", NON_NEGATIVE_INT),
    ("retries", NON_NEGATIVE_INT),
];
const EVALUATOR_TYPE: &[Row] = &[("type", Choice(EVALUATORS))];
const SCHEMA: &[Row] = &[("schema.path", File), ("protobuf.message.type", Text)];
const REGISTRY_SWITCH: &[Row] = &[("schema.registry.enable", Boolean)];
const KVP: &[Row] = &[
    ("kvp.pairs.separator", Char),
    ("kvp.key-value.separator", Char),
];
const REGISTRIES: &[Row] = &[
    ("provider", Choice(&["CONFLUENT", "AZURE"])),
    ("url", Url),
    ("confluent.url", Url),
    ("confluent.basic.authentication.enable", Boolean),
    ("confluent.basic.authentication.username", Text),
    ("confluent.basic.authentication.password", Text),
    ("azure.tenant.id", Text),
    ("azure.client.id", Text),
    ("azure.client.secret", Text),
];
const HONOURED: &[Row] = &[
    ("enable", Boolean),
    ("bootstrap.servers", HostList),
    ("group.id", Text),
    ("record.consume.from", Choice(&["LATEST", "EARLIEST"])),
    ("record.consume.with.num.threads", Threads),
    ("record.consume.with.order.strategy", Choice(ORDERS)),
    ("record.extraction.error.strategy", Choice(STRATEGIES)),
    (JSON_CHECK, Choice(&["NEEDED", "WHOLE"])),
    ("fields.skip.failed.mapping.enable", Boolean),
    ("fields.map.non.scalar.values.enable", Boolean),
    (EVALUATE_COMMAND, Boolean),
    (AUTO_COMMAND, Boolean),
];

/// Parameters with a common prefix and the same support.
const SECTIONS: &[(&str, &[Row], ParameterSupport)] = &[
    ("", HONOURED, Honoured),
    ("", SECURITY_SWITCHES, Only("false", USE_PLAIN)),
    ("encryption.", ENCRYPTION, In(TLS)),
    ("encryption.", KAFKA_ENCRYPTION, In(TLS)),
    ("authentication.", LOGIN, In(AUTHENTICATION)),
    ("", UNUSED_GROUP, Ignored(NO_GROUP)),
    ("", UNUSED_TUNING, Ignored(NO_TUNING)),
    ("consumer.", FIXED_CONSUMER, Ignored(FIXED)),
    (KEY, EVALUATOR_TYPE, NO_SCHEMA_TYPE),
    (KEY, SCHEMA, Ignored(NO_SCHEMA)),
    (KEY, REGISTRY_SWITCH, Only("false", REMOVE)),
    (KEY, KVP, With(KEY_TYPE, "KVP", NO_KVP)),
    (VALUE, EVALUATOR_TYPE, NO_SCHEMA_TYPE),
    (VALUE, SCHEMA, Ignored(NO_SCHEMA)),
    (VALUE, REGISTRY_SWITCH, Only("false", REMOVE)),
    (VALUE, KVP, With(VALUE_TYPE, "KVP", NO_KVP)),
    ("schema.registry.", REGISTRIES, In(REGISTRY)),
    (REGISTRY_ENCRYPTION, ENCRYPTION, In(REGISTRY)),
    ("", TOPIC_PATTERNS, Only("false", NAME_TOPICS)),
    ("", FIELD_PATTERN, Only("", NAME_FIELDS)),
];

const NO_SCHEMA_TYPE: ParameterSupport = Except(&["AVRO", "PROTOBUF"], USE_ANOTHER);

/// A parameter with a fixed name.
#[derive(Debug)]
pub(super) struct KnownParameter {
    pub(super) name: String,
    pub(super) value_type: ValueType,
    pub(super) support: ParameterSupport,
}

/// All parameters with a fixed name, as known to connector 1.5.2.
pub(super) static KNOWN: LazyLock<Vec<KnownParameter>> = LazyLock::new(|| {
    let known = SECTIONS.iter().flat_map(|(prefix, rows, support)| {
        rows.iter().map(move |(name, value_type)| KnownParameter {
            name: format!("{prefix}{name}"),
            value_type: *value_type,
            support: *support,
        })
    });
    known.collect()
});

/// Names that exist on public branches of the connector but in no release.
pub(super) const UNRELEASED: &[&str] = &[
    "item.snapshot.enable",
    "record.consume.at.connector.startup.enable",
    "group.mode",
];

/// Earlier or misspelled names.
const LEGACY_NAMES: &[(&str, &str)] = &[
    (
        "record.consume.max.poll.records",
        "record.consume.with.max.poll.records",
    ),
    (
        "fields.map.non.scalar.values",
        "fields.map.non.scalar.values.enable",
    ),
];

/// Prefixes of earlier names.
const LEGACY_PREFIXES: &[(&str, &str)] = &[
    ("key.evaluator.", "record.key.evaluator."),
    ("value.evaluator.", "record.value.evaluator."),
    (
        "schema.registry.encryption.",
        "schema.registry.confluent.encryption.",
    ),
    (
        "schema.registry.basic.authentication.",
        "schema.registry.confluent.basic.authentication.",
    ),
];

/// Prefix, suffix and form of parameters with a variable part.
pub(super) const PATTERNS: &[(&str, &str, &str)] = &[
    (FIELD, "", "field.<...>"),
    (ITEM_TEMPLATE, "", "item-template.<...>"),
    (MAP, MAP_SUFFIX, "map.<...>.to"),
];

pub(super) fn known(name: &str) -> Option<&'static KnownParameter> {
    KNOWN.iter().find(|known| known.name == name)
}

/// Returns the current name of an earlier one.
pub(super) fn current_name(name: &str) -> Option<String> {
    if let Some((_, current)) = LEGACY_NAMES.iter().find(|(legacy, _)| *legacy == name) {
        return Some((*current).to_owned());
    }
    LEGACY_PREFIXES.iter().find_map(|(legacy, current)| {
        let name = format!("{current}{}", name.strip_prefix(legacy)?);
        known(&name).is_some().then_some(name)
    })
}

/// Returns the known name that an unknown one probably stands for.
pub(super) fn suggestion(name: &str) -> Option<String> {
    if let Some(topic) = name.strip_prefix("map.") {
        return Some(format!("map.{topic}{MAP_SUFFIX}"));
    }
    let known = KNOWN.iter().map(|known| known.name.as_str());
    if let Some(near) = nearest(name, known) {
        return Some(near.to_owned());
    }
    let (head, rest) = name.split_once('.')?;
    let prefixes = PATTERNS.iter().map(|(prefix, ..)| *prefix);
    nearest(head, prefixes).map(|prefix| format!("{prefix}.{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legacy_names_map_to_known_names() {
        let rows = [
            ("value.evaluator.type", "record.value.evaluator.type"),
            (
                "key.evaluator.schema.path",
                "record.key.evaluator.schema.path",
            ),
            (
                "record.consume.max.poll.records",
                "record.consume.with.max.poll.records",
            ),
            (
                "fields.map.non.scalar.values",
                "fields.map.non.scalar.values.enable",
            ),
            (
                "schema.registry.encryption.truststore.path",
                "schema.registry.confluent.encryption.truststore.path",
            ),
        ];
        for (legacy, current) in rows {
            assert_eq!(current_name(legacy).as_deref(), Some(current));
            assert!(known(current).is_some(), "{current}");
        }
        assert_eq!(current_name("value.evaluator.typo"), None);
        assert_eq!(current_name("record.value.evaluator.type"), None);
    }

    #[test]
    fn similar_names_are_suggested() {
        let rows = [
            ("bootstrap.server", Some("bootstrap.servers")),
            ("map.LTest", Some("map.LTest.to")),
            ("feild.value", Some("field.value")),
            ("fields.value", Some("field.value")),
            ("item-templates.x", Some("item-template.x")),
            ("record.consume.form", Some("record.consume.from")),
            ("nothing.alike.at.all", None),
        ];
        for (name, expected) in rows {
            assert_eq!(suggestion(name).as_deref(), expected, "{name}");
        }
    }

    /// The manual has a row for each parameter.
    #[test]
    fn manual_lists_every_parameter() {
        let manual = include_str!("../../../../docs/connector.md");
        for KnownParameter { name, .. } in KNOWN.iter() {
            assert!(
                manual.contains(&format!("`{name}`")),
                "{name} is missing in docs/connector.md"
            );
        }
    }
}
