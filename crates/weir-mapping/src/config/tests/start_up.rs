//! The start-up checks of connector 1.5.2: each row stops the connector, and Weir with and without
//! `--strict`. Texts are those of the connector, with location, value and remedy added.

use super::*;

type Parameters = &'static [(&'static str, &'static str)];

const JSON: (&str, &str) = ("record.value.evaluator.type", "JSON");
const AVRO: (&str, &str) = ("record.value.evaluator.type", "AVRO");
const REGISTRY: (&str, &str) = ("record.value.evaluator.schema.registry.enable", "true");
const URL: (&str, &str) = ("schema.registry.url", "http://registry:8081");

/// Parameters in addition to the minimal ones, and a part of the error.
const REJECTED: &[(Parameters, &str)] = &[
    // Missing parameters.
    (
        &[
            ("encryption.enable", "true"),
            ("encryption.keystore.enable", "true"),
        ],
        "missing required parameter [encryption.keystore.path]",
    ),
    (
        &[
            ("authentication.enable", "true"),
            ("authentication.password", "p"),
        ],
        "missing required parameter [authentication.username]",
    ),
    (
        &[
            ("authentication.enable", "true"),
            ("authentication.mechanism", "SCRAM-SHA-256"),
            ("authentication.username", "u"),
        ],
        "missing required parameter [authentication.password]",
    ),
    (
        &[
            ("authentication.enable", "true"),
            ("authentication.mechanism", "GSSAPI"),
        ],
        "missing required parameter [authentication.gssapi.kerberos.service.name]",
    ),
    (
        &[JSON, REGISTRY],
        "missing required parameter [schema.registry.url]",
    ),
    (
        &[JSON, REGISTRY, URL, ("schema.registry.provider", "AZURE")],
        "missing required parameter [schema.registry.azure.tenant.id]",
    ),
    (
        &[
            JSON,
            REGISTRY,
            URL,
            (
                "schema.registry.confluent.basic.authentication.enable",
                "true",
            ),
        ],
        "missing required parameter [schema.registry.confluent.basic.authentication.username]",
    ),
    // Bad values, one of each type.
    (
        &[("group.id", " ")],
        "specify a valid value for parameter [group.id]",
    ),
    (
        &[("enable", "TRUE")],
        "specify a valid value for parameter [enable]",
    ),
    (
        &[("record.consume.from", "latest")],
        "specify a valid value for parameter [record.consume.from]",
    ),
    (
        &[("record.consume.with.max.poll.records", "0")],
        "specify a valid value for parameter [record.consume.with.max.poll.records]",
    ),
    (
        &[("record.consume.with.num.threads", "0")],
        "specify a valid value for parameter [record.consume.with.num.threads]",
    ),
    (
        &[("record.value.evaluator.kvp.pairs.separator", ";;")],
        "specify a valid value for parameter [record.value.evaluator.kvp.pairs.separator]",
    ),
    (
        &[JSON, REGISTRY, ("schema.registry.url", "localhost:8081")],
        "specify a valid value for parameter [schema.registry.url]",
    ),
    (
        &[
            ("encryption.enable", "true"),
            ("encryption.enabled.protocols", "TLSv1.3,"),
        ],
        "specify a valid value for parameter [encryption.enabled.protocols]",
    ),
    // Malformed names.
    (
        &[("map.to", "item")],
        "specify a valid parameter [map.<...>.to]",
    ),
    (
        &[("field", "#{KEY}")],
        "specify a valid parameter [field.<...>]",
    ),
    // Schemas.
    (
        &[AVRO],
        "specify a valid file path for [record.value.evaluator.schema.path] or set",
    ),
    (
        &[
            ("record.value.evaluator.type", "PROTOBUF"),
            REGISTRY,
            URL,
            ("schema.registry.provider", "AZURE"),
        ],
        "does not support PROTOBUF",
    ),
    // Routing.
    (
        &[("map.regex.enable", "true"), ("map.[a.to", "item")],
        "specify a valid regular expression for parameter [map.[a.to]",
    ),
    (
        &[("map.U.to", "item-template.x")],
        "no item template [x] found",
    ),
    (
        &[("map.U.to", "item-template.")],
        "item template reference must be a non-empty string",
    ),
    (
        &[("map.U.to", "a,,b")],
        "specify a valid value for parameter [map.U.to]",
    ),
    // Template syntax.
    (
        &[("item-template.x", "a-#{k=}")],
        "while evaluating the template [x]",
    ),
    (
        &[("item-template.x", "a-#{k=KEY,k=KEY}")],
        "no duplicated keys are allowed",
    ),
    (&[("item-template.x", "a-#{k=FOO}")], "missing root tokens"),
    (
        &[("item-template.x", "a-#{k=VALUE.}")],
        "unexpected trailing dot(s)",
    ),
    (
        &[("item-template.x", "a-#{k=VALUE.a .b}"), JSON],
        "unexpected white char",
    ),
    (
        &[("item-template.x", "a-#{k=VALUE.*}"), JSON],
        "unexpected wildcard char",
    ),
    // Field syntax.
    (&[("field.x", "VALUE")], "invalid expression"),
    (&[("field.x", "#{FOO}")], "missing root tokens"),
    (&[("field.x", "#{VALUE.}")], "unexpected trailing dot(s)"),
    (&[("field.x", "#{VALUE. a}"), JSON], "unexpected white char"),
    (
        &[("field.x", "#{VALUE.*}"), JSON],
        "unexpected wildcard char",
    ),
    (&[("field.*", "#{VALUE}"), JSON], "missing wildcard char"),
    (
        &[("field.*", "#{TOPIC.*}")],
        "cannot handle dynamic extraction from the constant",
    ),
    // Paths.
    (
        &[("field.x", "#{VALUE.a}")],
        "found the invalid expression [VALUE.a] for scalar values",
    ),
    (
        &[("field.x", "#{TOPIC.a}")],
        "found the invalid expression [TOPIC.a] for scalar values",
    ),
    (
        &[("field.x", "#{VALUE.a[]}"), JSON],
        "found the invalid indexed expression",
    ),
    (
        &[("field.x", "#{VALUE.a[b]}"), JSON],
        "found the invalid indexed expression",
    ),
    (
        &[("field.x", "#{VALUE.a[-1]}"), JSON],
        "found the invalid indexed expression",
    ),
    (
        &[("field.x", "#{VALUE.a[0]b}"), JSON],
        "found the invalid indexed expression",
    ),
    (
        &[("field.x", "#{VALUE.x['a.b']}"), JSON],
        "found the invalid indexed expression",
    ),
    // Command mode.
    (
        &[
            ("fields.evaluate.as.command.enable", "true"),
            ("field.command", "#{VALUE}"),
        ],
        "command mode needs a key field",
    ),
    (
        &[
            ("fields.evaluate.as.command.enable", "true"),
            ("field.key", "#{KEY}"),
        ],
        "command mode needs a key field and a command field",
    ),
    (
        &[
            ("fields.evaluate.as.command.enable", "true"),
            ("field.key", "#{KEY}"),
            ("field.command", "#{VALUE}"),
            ("record.consume.with.num.threads", "2"),
        ],
        "needs exactly one consumer thread",
    ),
    (
        &[("fields.auto.command.mode.enable", "true")],
        "auto command mode needs a key field",
    ),
];

#[test]
fn checks_of_connector_1_5_reject_the_configuration() {
    for (parameters, expected) in REJECTED {
        for strict in [false, true] {
            let rejected = parse_as(strict, &with(parameters));
            let text = rejected.expect_err(expected).to_string();
            assert!(
                text.contains(expected),
                "{parameters:?} strict {strict}: {text}"
            );
        }
    }
}

#[test]
fn missing_mandatory_parameters_are_reported_together() {
    let report = ConfigReport::of("a.xml", &file(&[]), &env, ParseOptions { strict: true });
    let errors: Vec<_> = report.errors.iter().map(ToString::to_string).collect();
    for expected in [
        "missing required parameter [bootstrap.servers]",
        "specify at least one parameter [map.<...>.to]",
        "specify at least one parameter [field.<...>]",
    ] {
        assert!(
            errors.iter().any(|error| error.contains(expected)),
            "{errors:?}"
        );
    }
}

/// Everything that only Weir accepts is an error with `--strict`.
#[test]
fn strict_rejects_parameters_unknown_to_connector_1_5() {
    for parameters in [
        &[("unknown.parameter", "x")][..],
        &[("item.snapshot.enabled.mode", "MERGE")],
        &[("weir.json.check", "WHOLE")],
        &[("consumer.client.rack", "a")],
        &[("consumer.isolation.level", "read_committed")],
        &[("record.consume.max.poll.records", "5")],
        &[("value.evaluator.type", "JSON")],
        &[("fields.map.non.scalar.values", "true")],
        &[("schema.registry.encryption.protocol", "TLSv1.3")],
        &[("item-template.x", "plain")],
        &[(" field.x", "#{KEY}")],
        &[("field.value", "#{KEY}")],
        &[
            ("encryption.enable", "true"),
            ("encryption.truststore.path", "ca.pem"),
            ("encryption.truststore.type", "PEM"),
        ],
    ] {
        assert!(parse(&with(parameters)).is_ok(), "{parameters:?}");
        assert!(parse_as(true, &with(parameters)).is_err(), "{parameters:?}");
    }
}
