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
    /// Implemented if another parameter has one of these values, otherwise ignored, with the
    /// reason.
    With(&'static str, &'static [&'static str], &'static str),
    /// Read only if this group is on.
    In(&'static Group),
    /// Checked if this group is on but without effect, with the reason.
    IgnoredIn(&'static Group, &'static str),
}

/// Parameters that the connector reads only if a switch is on.
#[derive(Debug)]
pub(super) struct Group {
    /// Switches; the group is on if one of them is.
    pub(super) switches: &'static [Switch],
    /// Group that must be on, too.
    pub(super) inside: Option<&'static Self>,
    /// Reason why the parameters have no effect while the group is off.
    pub(super) off: &'static str,
}

/// A parameter with the values that switch a group on.
#[derive(Debug)]
pub(super) struct Switch {
    pub(super) name: &'static str,
    /// Any value if empty; a scheme such as `https://` stands for all its URLs.
    pub(super) values: &'static [&'static str],
    /// The group is on if the parameter is missing.
    pub(super) is_default: bool,
}

impl Switch {
    const fn of(name: &'static str) -> Self {
        Self {
            name,
            values: &["true"],
            is_default: false,
        }
    }
}

impl Group {
    /// Returns `true` if the connection has values that switch the group on.
    pub(super) fn is_on<'a>(&self, get: &dyn Fn(&str) -> Option<&'a str>) -> bool {
        let mut switches = self.switches.iter();
        let is_on = switches.any(|switch| {
            get(switch.name).map_or(switch.is_default, |value| {
                let is_one = |one: &&str| match one.ends_with("://") {
                    true => value.starts_with(one),
                    false => value == *one,
                };
                switch.values.is_empty() || switch.values.iter().any(is_one)
            })
        });
        is_on && self.inside.is_none_or(|outer| outer.is_on(get))
    }

    /// Returns the reason why a group that is off has no effect.
    pub(super) fn why_off<'a>(&self, get: &dyn Fn(&str) -> Option<&'a str>) -> &'static str {
        match self.inside {
            Some(outer) if !outer.is_on(get) => outer.why_off(get),
            _ => self.off,
        }
    }
}

use ParameterSupport::{Honoured, Ignored, IgnoredIn, In, With};
use ValueType::{Boolean, Char, Choice, ChoiceList, File, HostList, Text, TextList, Threads, Url};

const NO_GROUP: &str = "partitions are assigned without a consumer group";
const FIXED: &str = "the connector ignores it too";
const JAVA_SECURITY: &str = "names a class or an algorithm of the Java runtime";
pub(super) const TLS: &Group = &Group {
    switches: &[Switch::of("encryption.enable")],
    inside: None,
    off: "read only if encryption.enable is true",
};
pub(super) const KEY_STORE: &Group = &Group {
    switches: &[Switch::of("encryption.keystore.enable")],
    inside: Some(TLS),
    off: "read only if encryption.keystore.enable is true",
};
pub(super) const AUTHENTICATION: &Group = &Group {
    switches: &[Switch::of("authentication.enable")],
    inside: None,
    off: "read only if authentication.enable is true",
};
/// Mechanisms with user name and password.
pub(super) const LOGIN: &Group = &Group {
    switches: &[Switch {
        name: MECHANISM,
        values: &["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"],
        is_default: true,
    }],
    inside: Some(AUTHENTICATION),
    off: "read only for the mechanisms PLAIN and SCRAM",
};
pub(super) const KERBEROS: &Group = &Group {
    switches: &[Switch {
        name: MECHANISM,
        values: &["GSSAPI"],
        is_default: false,
    }],
    inside: Some(AUTHENTICATION),
    off: "read only for the mechanism GSSAPI",
};
pub(super) const KEY_TAB: &Group = &Group {
    switches: &[Switch::of("authentication.gssapi.key.tab.enable")],
    inside: Some(KERBEROS),
    off: "read only if authentication.gssapi.key.tab.enable is true",
};
const IAM: &Group = &Group {
    switches: &[Switch {
        name: MECHANISM,
        values: &["AWS_MSK_IAM"],
        is_default: false,
    }],
    inside: Some(AUTHENTICATION),
    off: "read only for the mechanism AWS_MSK_IAM",
};
const IAM_ROLE: &Group = &Group {
    switches: &[Switch {
        name: "authentication.iam.role.arn",
        values: &[],
        is_default: false,
    }],
    inside: Some(IAM),
    off: "read only if authentication.iam.role.arn is given",
};
pub(super) const REGISTRY: &Group = &Group {
    switches: &[
        Switch::of("record.key.evaluator.schema.registry.enable"),
        Switch::of("record.value.evaluator.schema.registry.enable"),
    ],
    inside: None,
    off: "read only if a schema registry is enabled",
};
/// Registry with the REST interface of Confluent.
pub(super) const CONFLUENT: &Group = &Group {
    switches: &[Switch {
        name: "schema.registry.provider",
        values: &["CONFLUENT"],
        is_default: true,
    }],
    inside: Some(REGISTRY),
    off: "read only if schema.registry.provider is CONFLUENT",
};
pub(super) const BASIC_LOGIN: &Group = &Group {
    switches: &[Switch::of(
        "schema.registry.confluent.basic.authentication.enable",
    )],
    inside: Some(CONFLUENT),
    off: "read only if schema.registry.confluent.basic.authentication.enable is true",
};
pub(super) const REGISTRY_TLS: &Group = &Group {
    switches: &[Switch {
        name: "schema.registry.url",
        values: &["https://"],
        is_default: false,
    }],
    inside: Some(CONFLUENT),
    off: "read only if schema.registry.url begins with https://",
};
pub(super) const REGISTRY_KEY_STORE: &Group = &Group {
    switches: &[Switch::of(
        "schema.registry.confluent.encryption.keystore.enable",
    )],
    inside: Some(REGISTRY_TLS),
    off: "read only if schema.registry.confluent.encryption.keystore.enable is true",
};
pub(super) const AZURE: &Group = &Group {
    switches: &[Switch {
        name: "schema.registry.provider",
        values: &["AZURE"],
        is_default: false,
    }],
    inside: Some(REGISTRY),
    off: "read only if schema.registry.provider is AZURE",
};
pub(super) const SNAPSHOTS: &Group = &Group {
    switches: &[Switch {
        name: SNAPSHOT_MODE,
        values: &["MERGE", "DISTINCT", "COMMAND"],
        is_default: false,
    }],
    inside: None,
    off: NO_SNAPSHOTS,
};
const ONE_URL: &str = "the connector connects to schema.registry.url";
/// Evaluators with schemas.
const DOCUMENTS: &[&str] = &["AVRO", "JSON", "PROTOBUF"];
const NO_DOCUMENT: &str = "read only by the evaluators AVRO, JSON and PROTOBUF";
const NO_MESSAGE: &str = "read only by the evaluator PROTOBUF";

const NO_KVP: &str = "read only by the KVP evaluator";
const KEY_TYPE: &str = "record.key.evaluator.type";
const VALUE_TYPE: &str = "record.value.evaluator.type";
/// Reads row commands and snapshot events of mode COMMAND from the fields `key` and `command`.
pub(super) const EVALUATE_COMMAND: &str = "fields.evaluate.as.command.enable";
/// Adds rows of mode COMMAND for records and deletes them for tombstones.
pub(super) const AUTO_COMMAND: &str = "fields.auto.command.mode.enable";
/// Stores snapshots of items, from connector 2.0 on.
pub(super) const SNAPSHOT_MODE: &str = "item.snapshot.enabled.mode";
pub(super) const SNAPSHOT_LENGTH: &str = "item.snapshot.distinct.length";
pub(super) const SNAPSHOT_IDLE: &str = "item.snapshot.max.idle.seconds";
/// Prefix of parameters that connector 1.5 does not know and connector 2.0 does.
const CONNECTOR_2: &str = "item.snapshot.";
/// Parameters that no connector knows.
const ADDED: [&str; 3] = [
    JSON_CHECK,
    "consumer.client.rack",
    "consumer.isolation.level",
];
const SNAPSHOT_MODES: &[&str] = &["NONE", "MERGE", "DISTINCT", "COMMAND"];
/// Parameters that have no effect while snapshots are stored, with the value that has the same
/// effect, and the reason.
pub(super) const REPLACED_BY_SNAPSHOTS: &[(&str, Option<&str>, &str)] = &[
    (
        "record.consume.from",
        Some("EARLIEST"),
        "with item.snapshot.enabled.mode topics are read from their beginning",
    ),
    (
        "group.id",
        None,
        "with item.snapshot.enabled.mode every start reads topics from their beginning",
    ),
    (
        "record.extraction.error.strategy",
        Some("IGNORE_AND_CONTINUE"),
        "with item.snapshot.enabled.mode it is IGNORE_AND_CONTINUE",
    ),
    (
        "record.consume.with.num.threads",
        Some("1"),
        "with item.snapshot.enabled.mode one thread maps the records in their order",
    ),
    (EVALUATE_COMMAND, Some("false"), COMMANDS_FOLLOW),
    (AUTO_COMMAND, Some("true"), COMMANDS_FOLLOW),
];
const COMMANDS_FOLLOW: &str =
    "with item.snapshot.enabled.mode commands follow from the mode and the records";
const NO_SNAPSHOTS: &str = "read only if item.snapshot.enabled.mode is not NONE";
const NO_DISTINCT: &str = "read only if item.snapshot.enabled.mode is DISTINCT";

type Row = (&'static str, ValueType);

pub(super) const MECHANISM: &str = "authentication.mechanism";

const TLS_PROTOCOLS: &[&str] = &["TLSv1.2", "TLSv1.3"];
/// Store type that Kafka accepts and the connector does not.
pub(super) const PEM: &str = "PEM";
pub(super) const STORE_TYPE: ValueType = Choice(&["JKS", "PKCS12", PEM]);
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
const CONFLUENT_PREFIX: &str = "schema.registry.confluent.";
pub(super) const ENCRYPTION_PREFIX: &str = "encryption.";
pub(super) const REGISTRY_ENCRYPTION: &str = "schema.registry.confluent.encryption.";

/// Reads the topics of the mapping as patterns.
pub(super) const TOPIC_PATTERNS: &str = "map.regex.enable";
/// Discovers fields in each record.
pub(super) const FIELD_WILDCARD: &str = "field.*";
/// Encryption of connections to Kafka and to a schema registry.
const ENCRYPTION: &[Row] = &[
    ("protocol", Choice(TLS_PROTOCOLS)),
    ("enabled.protocols", ChoiceList(TLS_PROTOCOLS)),
    ("cipher.suites", TextList),
    ("hostname.verification.enable", Boolean),
    ("truststore.path", File),
    ("truststore.type", STORE_TYPE),
    ("truststore.password", Text),
    ("keystore.enable", Boolean),
];
const ENCRYPTION_KEY_STORE: &[Row] = &[
    ("keystore.path", File),
    ("keystore.type", STORE_TYPE),
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
const AUTHENTICATION_MECHANISM: &[Row] = &[("mechanism", Choice(MECHANISMS))];
const LOGIN_NAMES: &[Row] = &[("username", Text), ("password", Text)];
const GSSAPI: &[Row] = &[
    ("gssapi.kerberos.service.name", Text),
    ("gssapi.key.tab.enable", Boolean),
    ("gssapi.store.key.enable", Boolean),
    ("gssapi.principal", Text),
    ("gssapi.ticket.cache.enable", Boolean),
];
const GSSAPI_KEY_TAB: &[Row] = &[("gssapi.key.tab.path", File)];
const AWS_MSK_IAM: &[Row] = &[
    ("iam.credential.profile.name", Text),
    ("iam.role.arn", Text),
];
const AWS_ROLE: &[Row] = &[("iam.role.session.name", Text), ("iam.sts.region", Text)];
const UNUSED_GROUP: &[Row] = &[
    ("record.consume.with.session.timeout.ms", INT),
    ("record.consume.with.max.poll.interval.ms", POSITIVE_INT),
    ("consumer.heartbeat.interval.ms", NON_NEGATIVE_INT),
];
const CONSUMER: &[Row] = &[
    ("record.consume.with.max.poll.records", POSITIVE_INT),
    ("consumer.fetch.min.bytes", NON_NEGATIVE_INT),
    ("consumer.fetch.max.bytes", NON_NEGATIVE_INT),
    ("consumer.fetch.max.wait.ms", NON_NEGATIVE_INT),
    ("consumer.reconnect.backoff.ms", NON_NEGATIVE_LONG),
    ("consumer.reconnect.backoff.max.ms", NON_NEGATIVE_LONG),
    ("consumer.client.id", Text),
];
/// Settings of Kafka consumers that the connector does not know.
const ADDED_CONSUMER: &[Row] = &[
    ("client.rack", Text),
    (
        "isolation.level",
        Choice(&["read_uncommitted", "read_committed"]),
    ),
];
const FIXED_CONSUMER: &[Row] = &[
    ("enable.auto.commit", Boolean),
    ("metadata.max.age.ms", NON_NEGATIVE_LONG),
    ("request.timeout.ms", NON_NEGATIVE_INT),
    ("default.api.timeout.ms", NON_NEGATIVE_INT),
    ("retries", NON_NEGATIVE_INT),
];
const EVALUATOR: &[Row] = &[
    ("type", Choice(EVALUATORS)),
    ("schema.registry.enable", Boolean),
];
const SCHEMA: &[Row] = &[("schema.path", File)];
const MESSAGE: &[Row] = &[("protobuf.message.type", Text)];
const KVP: &[Row] = &[
    ("kvp.pairs.separator", Char),
    ("kvp.key-value.separator", Char),
];
const REGISTRIES: &[Row] = &[("provider", Choice(&["CONFLUENT", "AZURE"])), ("url", Url)];
const REGISTRY_URL: &[Row] = &[("url", Url)];
const BASIC_SWITCH: &[Row] = &[("basic.authentication.enable", Boolean)];
const BASIC_NAMES: &[Row] = &[
    ("basic.authentication.username", Text),
    ("basic.authentication.password", Text),
];
const AZURE_LOGIN: &[Row] = &[
    ("tenant.id", Text),
    ("client.id", Text),
    ("client.secret", Text),
];
const HONOURED: &[Row] = &[
    ("enable", Boolean),
    ("bootstrap.servers", HostList),
    ("group.id", Text),
    ("encryption.enable", Boolean),
    ("authentication.enable", Boolean),
    ("record.consume.from", Choice(&["LATEST", "EARLIEST"])),
    ("record.consume.with.num.threads", Threads),
    ("record.consume.with.order.strategy", Choice(ORDERS)),
    ("record.extraction.error.strategy", Choice(STRATEGIES)),
    (FIELD_WILDCARD, Text),
    (TOPIC_PATTERNS, Boolean),
    (JSON_CHECK, Choice(&["NEEDED", "WHOLE"])),
    ("fields.skip.failed.mapping.enable", Boolean),
    ("fields.map.non.scalar.values.enable", Boolean),
    (EVALUATE_COMMAND, Boolean),
    (AUTO_COMMAND, Boolean),
    (SNAPSHOT_MODE, Choice(SNAPSHOT_MODES)),
];
const DISTINCT_SNAPSHOT: &[Row] = &[(SNAPSHOT_LENGTH, POSITIVE_INT)];
const SNAPSHOT: &[Row] = &[(SNAPSHOT_IDLE, NON_NEGATIVE_INT)];

/// Parameters with a common prefix and the same support.
const SECTIONS: &[(&str, &[Row], ParameterSupport)] = &[
    ("", HONOURED, Honoured),
    (
        "",
        DISTINCT_SNAPSHOT,
        With(SNAPSHOT_MODE, &["DISTINCT"], NO_DISTINCT),
    ),
    (
        "",
        SNAPSHOT,
        With(
            SNAPSHOT_MODE,
            &["MERGE", "DISTINCT", "COMMAND"],
            NO_SNAPSHOTS,
        ),
    ),
    (ENCRYPTION_PREFIX, ENCRYPTION, In(TLS)),
    (ENCRYPTION_PREFIX, ENCRYPTION_KEY_STORE, In(KEY_STORE)),
    (
        ENCRYPTION_PREFIX,
        KAFKA_ENCRYPTION,
        IgnoredIn(TLS, JAVA_SECURITY),
    ),
    (
        "authentication.",
        AUTHENTICATION_MECHANISM,
        In(AUTHENTICATION),
    ),
    ("authentication.", LOGIN_NAMES, In(LOGIN)),
    ("authentication.", GSSAPI, In(KERBEROS)),
    ("authentication.", GSSAPI_KEY_TAB, In(KEY_TAB)),
    ("authentication.", AWS_MSK_IAM, In(IAM)),
    ("authentication.", AWS_ROLE, In(IAM_ROLE)),
    ("", UNUSED_GROUP, Ignored(NO_GROUP)),
    ("", CONSUMER, Honoured),
    ("consumer.", ADDED_CONSUMER, Honoured),
    ("consumer.", FIXED_CONSUMER, Ignored(FIXED)),
    (KEY, EVALUATOR, Honoured),
    (KEY, SCHEMA, With(KEY_TYPE, DOCUMENTS, NO_DOCUMENT)),
    (KEY, MESSAGE, With(KEY_TYPE, &["PROTOBUF"], NO_MESSAGE)),
    (KEY, KVP, With(KEY_TYPE, &["KVP"], NO_KVP)),
    (VALUE, EVALUATOR, Honoured),
    (VALUE, SCHEMA, With(VALUE_TYPE, DOCUMENTS, NO_DOCUMENT)),
    (VALUE, MESSAGE, With(VALUE_TYPE, &["PROTOBUF"], NO_MESSAGE)),
    (VALUE, KVP, With(VALUE_TYPE, &["KVP"], NO_KVP)),
    ("schema.registry.", REGISTRIES, In(REGISTRY)),
    (
        CONFLUENT_PREFIX,
        REGISTRY_URL,
        IgnoredIn(CONFLUENT, ONE_URL),
    ),
    (CONFLUENT_PREFIX, BASIC_SWITCH, In(CONFLUENT)),
    (CONFLUENT_PREFIX, BASIC_NAMES, In(BASIC_LOGIN)),
    (REGISTRY_ENCRYPTION, ENCRYPTION, In(REGISTRY_TLS)),
    (
        REGISTRY_ENCRYPTION,
        ENCRYPTION_KEY_STORE,
        In(REGISTRY_KEY_STORE),
    ),
    (
        REGISTRY_ENCRYPTION,
        KAFKA_ENCRYPTION,
        IgnoredIn(REGISTRY_TLS, JAVA_SECURITY),
    ),
    ("schema.registry.azure.", AZURE_LOGIN, In(AZURE)),
];

/// A parameter with a fixed name.
#[derive(Debug)]
pub(super) struct KnownParameter {
    pub(super) name: String,
    pub(super) value_type: ValueType,
    pub(super) support: ParameterSupport,
}

/// All parameters with a fixed name: those of connector 1.5.2, of 2.0 and of Weir.
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

/// Returns `true` for a known parameter that connector 1.5.2 ignores as an unknown name.
pub(super) fn is_newer(name: &str) -> bool {
    name.starts_with(CONNECTOR_2) || ADDED.contains(&name)
}

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
