//! Table of parameters with the support of each, and earlier spellings.

use super::suggest::nearest;
use super::types::ValueType;
use crate::evaluator::Evaluator;

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
use ValueType::{
    Boolean, Char, Choice, ChoiceList, File, HostList, Int, NonNegativeInt, NonNegativeLong,
    PositiveInt, Text, TextList, Threads, Url,
};

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

const TLS_PROTOCOLS: &[&str] = &["TLSv1.2", "TLSv1.3"];
const STORE_TYPES: &[&str] = &["JKS", "PKCS12"];
const MECHANISMS: &[&str] = &[
    "PLAIN",
    "SCRAM-SHA-256",
    "SCRAM-SHA-512",
    "GSSAPI",
    "AWS_MSK_IAM",
];
const NO_SCHEMA: &str = "payloads are read without a schema";
const NO_KVP: &str = "read only by the KVP evaluator";

const NO_SCHEMA_TYPES: &[&str] = &["AVRO", "PROTOBUF"];
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

/// Parameters with a fixed name, as known to connector 1.5.2.
pub(super) const KNOWN: &[(&str, ValueType, ParameterSupport)] = &[
    ("enable", Boolean, Honoured),
    ("bootstrap.servers", HostList, Honoured),
    ("group.id", Text, Honoured),
    ("encryption.enable", Boolean, Only("false", USE_PLAIN)),
    ("encryption.protocol", Choice(TLS_PROTOCOLS), In(TLS)),
    (
        "encryption.enabled.protocols",
        ChoiceList(TLS_PROTOCOLS),
        In(TLS),
    ),
    ("encryption.cipher.suites", TextList, In(TLS)),
    ("encryption.hostname.verification.enable", Boolean, In(TLS)),
    ("encryption.truststore.path", File, In(TLS)),
    ("encryption.truststore.type", Choice(STORE_TYPES), In(TLS)),
    ("encryption.truststore.password", Text, In(TLS)),
    ("encryption.keystore.enable", Boolean, In(TLS)),
    ("encryption.keystore.path", File, In(TLS)),
    ("encryption.keystore.type", Choice(STORE_TYPES), In(TLS)),
    ("encryption.keystore.password", Text, In(TLS)),
    ("encryption.keystore.key.password", Text, In(TLS)),
    ("encryption.provider", Text, In(TLS)),
    ("encryption.engine.factory.class", Text, In(TLS)),
    ("encryption.keymanager.algorithm", Text, In(TLS)),
    ("encryption.secure.random.implementation", Text, In(TLS)),
    ("encryption.trustmanager.algorithm", Text, In(TLS)),
    ("encryption.security.providers", Text, In(TLS)),
    ("authentication.enable", Boolean, Only("false", USE_PLAIN)),
    (
        "authentication.mechanism",
        Choice(MECHANISMS),
        In(AUTHENTICATION),
    ),
    ("authentication.username", Text, In(AUTHENTICATION)),
    ("authentication.password", Text, In(AUTHENTICATION)),
    (
        "authentication.gssapi.kerberos.service.name",
        Text,
        In(AUTHENTICATION),
    ),
    (
        "authentication.gssapi.key.tab.enable",
        Boolean,
        In(AUTHENTICATION),
    ),
    (
        "authentication.gssapi.key.tab.path",
        File,
        In(AUTHENTICATION),
    ),
    (
        "authentication.gssapi.store.key.enable",
        Boolean,
        In(AUTHENTICATION),
    ),
    ("authentication.gssapi.principal", Text, In(AUTHENTICATION)),
    (
        "authentication.gssapi.ticket.cache.enable",
        Boolean,
        In(AUTHENTICATION),
    ),
    (
        "authentication.iam.credential.profile.name",
        Text,
        In(AUTHENTICATION),
    ),
    ("authentication.iam.role.arn", Text, In(AUTHENTICATION)),
    (
        "authentication.iam.role.session.name",
        Text,
        In(AUTHENTICATION),
    ),
    ("authentication.iam.sts.region", Text, In(AUTHENTICATION)),
    (
        "record.consume.from",
        Choice(&["LATEST", "EARLIEST"]),
        Honoured,
    ),
    (
        "record.consume.with.max.poll.records",
        PositiveInt,
        Ignored(NO_TUNING),
    ),
    (
        "record.consume.with.session.timeout.ms",
        Int,
        Ignored(NO_GROUP),
    ),
    (
        "record.consume.with.max.poll.interval.ms",
        PositiveInt,
        Ignored(NO_GROUP),
    ),
    ("record.consume.with.num.threads", Threads, Honoured),
    (
        "record.consume.with.order.strategy",
        Choice(&["ORDER_BY_PARTITION", "ORDER_BY_KEY", "UNORDERED"]),
        Honoured,
    ),
    (
        "record.extraction.error.strategy",
        Choice(&["IGNORE_AND_CONTINUE", "FORCE_UNSUBSCRIPTION"]),
        Honoured,
    ),
    ("consumer.client.id", Text, Ignored(FIXED)),
    ("consumer.enable.auto.commit", Boolean, Ignored(FIXED)),
    (
        "consumer.metadata.max.age.ms",
        NonNegativeLong,
        Ignored(FIXED),
    ),
    (
        "consumer.request.timeout.ms",
        NonNegativeInt,
        Ignored(FIXED),
    ),
    (
        "consumer.default.api.timeout.ms",
        NonNegativeInt,
        Ignored(FIXED),
    ),
    ("consumer.retries", NonNegativeInt, Ignored(FIXED)),
    (
        "consumer.fetch.min.bytes",
        NonNegativeInt,
        Ignored(NO_TUNING),
    ),
    (
        "consumer.fetch.max.bytes",
        NonNegativeInt,
        Ignored(NO_TUNING),
    ),
    (
        "consumer.fetch.max.wait.ms",
        NonNegativeInt,
        Ignored(NO_TUNING),
    ),
    (
        "consumer.reconnect.backoff.ms",
        NonNegativeLong,
        Ignored(NO_TUNING),
    ),
    (
        "consumer.reconnect.backoff.max.ms",
        NonNegativeLong,
        Ignored(NO_TUNING),
    ),
    (
        "consumer.heartbeat.interval.ms",
        NonNegativeInt,
        Ignored(NO_GROUP),
    ),
    (
        KEY_TYPE,
        Choice(Evaluator::NAMES),
        Except(NO_SCHEMA_TYPES, USE_ANOTHER),
    ),
    ("record.key.evaluator.schema.path", File, Ignored(NO_SCHEMA)),
    (
        "record.key.evaluator.schema.registry.enable",
        Boolean,
        Only("false", REMOVE),
    ),
    (
        "record.key.evaluator.protobuf.message.type",
        Text,
        Ignored(NO_SCHEMA),
    ),
    (
        "record.key.evaluator.kvp.pairs.separator",
        Char,
        With(KEY_TYPE, "KVP", NO_KVP),
    ),
    (
        "record.key.evaluator.kvp.key-value.separator",
        Char,
        With(KEY_TYPE, "KVP", NO_KVP),
    ),
    (
        VALUE_TYPE,
        Choice(Evaluator::NAMES),
        Except(NO_SCHEMA_TYPES, USE_ANOTHER),
    ),
    (
        "record.value.evaluator.schema.path",
        File,
        Ignored(NO_SCHEMA),
    ),
    (
        "record.value.evaluator.schema.registry.enable",
        Boolean,
        Only("false", REMOVE),
    ),
    (
        "record.value.evaluator.protobuf.message.type",
        Text,
        Ignored(NO_SCHEMA),
    ),
    (
        "record.value.evaluator.kvp.pairs.separator",
        Char,
        With(VALUE_TYPE, "KVP", NO_KVP),
    ),
    (
        "record.value.evaluator.kvp.key-value.separator",
        Char,
        With(VALUE_TYPE, "KVP", NO_KVP),
    ),
    (JSON_CHECK, Choice(&["NEEDED", "WHOLE"]), Honoured),
    (
        "schema.registry.provider",
        Choice(&["CONFLUENT", "AZURE"]),
        In(REGISTRY),
    ),
    ("schema.registry.url", Url, In(REGISTRY)),
    ("schema.registry.confluent.url", Url, In(REGISTRY)),
    (
        "schema.registry.confluent.basic.authentication.enable",
        Boolean,
        In(REGISTRY),
    ),
    (
        "schema.registry.confluent.basic.authentication.username",
        Text,
        In(REGISTRY),
    ),
    (
        "schema.registry.confluent.basic.authentication.password",
        Text,
        In(REGISTRY),
    ),
    (
        "schema.registry.confluent.encryption.protocol",
        Choice(TLS_PROTOCOLS),
        In(REGISTRY),
    ),
    (
        "schema.registry.confluent.encryption.enabled.protocols",
        ChoiceList(TLS_PROTOCOLS),
        In(REGISTRY),
    ),
    (
        "schema.registry.confluent.encryption.cipher.suites",
        TextList,
        In(REGISTRY),
    ),
    (
        "schema.registry.confluent.encryption.hostname.verification.enable",
        Boolean,
        In(REGISTRY),
    ),
    (
        "schema.registry.confluent.encryption.truststore.path",
        File,
        In(REGISTRY),
    ),
    (
        "schema.registry.confluent.encryption.truststore.type",
        Choice(STORE_TYPES),
        In(REGISTRY),
    ),
    (
        "schema.registry.confluent.encryption.truststore.password",
        Text,
        In(REGISTRY),
    ),
    (
        "schema.registry.confluent.encryption.keystore.enable",
        Boolean,
        In(REGISTRY),
    ),
    (
        "schema.registry.confluent.encryption.keystore.path",
        File,
        In(REGISTRY),
    ),
    (
        "schema.registry.confluent.encryption.keystore.type",
        Choice(STORE_TYPES),
        In(REGISTRY),
    ),
    (
        "schema.registry.confluent.encryption.keystore.password",
        Text,
        In(REGISTRY),
    ),
    (
        "schema.registry.confluent.encryption.keystore.key.password",
        Text,
        In(REGISTRY),
    ),
    ("schema.registry.azure.tenant.id", Text, In(REGISTRY)),
    ("schema.registry.azure.client.id", Text, In(REGISTRY)),
    ("schema.registry.azure.client.secret", Text, In(REGISTRY)),
    ("map.regex.enable", Boolean, Only("false", NAME_TOPICS)),
    ("field.*", Text, Only("", NAME_FIELDS)),
    ("fields.skip.failed.mapping.enable", Boolean, Honoured),
    ("fields.map.non.scalar.values.enable", Boolean, Honoured),
    (EVALUATE_COMMAND, Boolean, Honoured),
    (AUTO_COMMAND, Boolean, Honoured),
];

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

pub(super) fn is_known(name: &str) -> bool {
    KNOWN.iter().any(|(known, ..)| *known == name)
}

/// Returns the current name of an earlier one.
pub(super) fn current_name(name: &str) -> Option<String> {
    if let Some((_, current)) = LEGACY_NAMES.iter().find(|(legacy, _)| *legacy == name) {
        return Some((*current).to_owned());
    }
    LEGACY_PREFIXES.iter().find_map(|(legacy, current)| {
        let name = format!("{current}{}", name.strip_prefix(legacy)?);
        is_known(&name).then_some(name)
    })
}

/// Returns the known name that an unknown one probably stands for.
pub(super) fn suggestion(name: &str) -> Option<String> {
    if let Some(topic) = name.strip_prefix("map.") {
        return Some(format!("map.{topic}{MAP_SUFFIX}"));
    }
    let known = KNOWN.iter().map(|(known, ..)| *known);
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
            assert!(is_known(current), "{current}");
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
        for (name, ..) in KNOWN {
            assert!(
                manual.contains(&format!("`{name}`")),
                "{name} is missing in docs/connector.md"
            );
        }
    }
}
