//! Every parameter of docs/connector.md has a test of its effect, or the reason why it has none.

use std::collections::BTreeSet;

use super::{read, root};

/// Tests by file and function, with the parameters whose effect they show.
const TESTS: &[(&str, &str, &[&str])] = &[
    (
        "weir/tests/cli/gateway.rs",
        "check_lists_status_of_every_parameter",
        &["logging.configuration.path"],
    ),
    (
        "weir-gateway/tests/gateway.rs",
        "disabled_connection_refuses_every_subscription",
        &["enable"],
    ),
    (
        "weir-mapping/src/config/tests.rs",
        "parameters_are_read",
        &["bootstrap.servers"],
    ),
    (
        "weir-gateway/tests/resume.rs",
        "group_resumes_after_restart",
        &["group.id"],
    ),
    (
        "weir-mapping/src/tests/published.rs",
        "scenario_2_routes_by_key",
        &["item-template.NAME", "map.TOPIC.to", "field.NAME"],
    ),
    (
        "weir-gateway/tests/topic_patterns.rs",
        "topics_created_later_are_read_from_their_beginning",
        &["map.regex.enable"],
    ),
    (
        "weir-gateway/tests/dynamic_fields.rs",
        "clients_with_different_schemas_get_their_fields",
        &["field.*"],
    ),
    (
        "weir-mapping/src/tests/wildcard.rs",
        "wildcard_is_skipped_as_one_unit",
        &["fields.skip.failed.mapping.enable"],
    ),
    (
        "weir-mapping/src/tests/json.rs",
        "objects_and_arrays_are_written_compactly",
        &["fields.map.non.scalar.values.enable"],
    ),
    (
        "weir-gateway/tests/modes.rs",
        "command_records_clear_and_end_snapshot",
        &["fields.evaluate.as.command.enable"],
    ),
    (
        "weir-gateway/tests/modes.rs",
        "records_and_tombstones_form_a_table",
        &["fields.auto.command.mode.enable"],
    ),
    (
        "weir-gateway/tests/snapshots.rs",
        "merge_snapshot_is_the_last_readable_record",
        &["item.snapshot.enabled.mode"],
    ),
    (
        "weir-gateway/tests/snapshots.rs",
        "distinct_snapshot_has_the_configured_length",
        &["item.snapshot.distinct.length"],
    ),
    (
        "weir-gateway/tests/snapshots.rs",
        "idle_items_lose_their_snapshot",
        &["item.snapshot.max.idle.seconds"],
    ),
    (
        "weir-gateway/tests/gateway.rs",
        "earliest_delivers_whole_topic_to_first_subscriber",
        &["record.consume.from"],
    ),
    (
        "weir-gateway/tests/order.rs",
        "four_threads_preserve_partition_order",
        &[
            "record.consume.with.num.threads",
            "record.consume.with.order.strategy",
        ],
    ),
    (
        "weir-gateway/tests/json.rs",
        "error_strategy_applies_to_invalid_json",
        &["record.extraction.error.strategy"],
    ),
    (
        "weir-ingest/src/cluster.rs",
        "consumer_parameters_reach_the_client",
        &[
            "record.consume.with.max.poll.records",
            "consumer.fetch.min.bytes",
            "consumer.fetch.max.bytes",
            "consumer.fetch.max.wait.ms",
            "consumer.reconnect.backoff.ms",
            "consumer.reconnect.backoff.max.ms",
            "consumer.client.id",
            "consumer.client.rack",
            "consumer.isolation.level",
        ],
    ),
    (
        "weir-mapping/src/config/tests/cluster.rs",
        "consumer_settings_are_copied",
        &["consumer.isolation.level"],
    ),
    (
        "weir-mapping/src/tests/published.rs",
        "scenario_3_extracts_json_values",
        &["record.value.evaluator.type"],
    ),
    (
        "weir-mapping/src/tests/json.rs",
        "large_array_key_routes_by_one_element",
        &["record.key.evaluator.type"],
    ),
    (
        "weir-mapping/src/config/tests/schemas.rs",
        "keys_have_schemas_of_their_own",
        &[
            "record.key.evaluator.schema.path",
            "record.key.evaluator.schema.registry.enable",
            "record.key.evaluator.protobuf.message.type",
        ],
    ),
    (
        "weir-mapping/src/config/tests/schemas.rs",
        "local_schema_has_precedence_over_registry",
        &[
            "record.value.evaluator.schema.path",
            "record.value.evaluator.schema.registry.enable",
            "record.value.evaluator.protobuf.message.type",
        ],
    ),
    (
        "weir-mapping/src/config/tests.rs",
        "separators_apply_to_kvp_only",
        &[
            "record.key.evaluator.kvp.pairs.separator",
            "record.key.evaluator.kvp.key-value.separator",
        ],
    ),
    (
        "weir-mapping/src/tests/types.rs",
        "pair_separators_are_configurable",
        &[
            "record.value.evaluator.kvp.pairs.separator",
            "record.value.evaluator.kvp.key-value.separator",
        ],
    ),
    (
        "weir-mapping/src/tests/json.rs",
        "document_is_read_only_as_needed",
        &["weir.json.check"],
    ),
    (
        "weir-mapping/src/config/tests/cluster.rs",
        "stores_are_resolved_against_the_directory_of_the_file",
        &[
            "encryption.enable",
            "encryption.protocol",
            "encryption.enabled.protocols",
            "encryption.cipher.suites",
            "encryption.hostname.verification.enable",
            "encryption.truststore.path",
            "encryption.truststore.type",
            "encryption.truststore.password",
            "encryption.keystore.enable",
            "encryption.keystore.path",
            "encryption.keystore.type",
            "encryption.keystore.password",
            "encryption.keystore.key.password",
        ],
    ),
    (
        "weir-mapping/src/config/tests/cluster.rs",
        "passwords_are_copied_for_plain_and_scram",
        &[
            "authentication.enable",
            "authentication.mechanism",
            "authentication.username",
            "authentication.password",
        ],
    ),
    (
        "weir-mapping/src/config/tests/cluster.rs",
        "kerberos_uses_ticket_cache_or_key_tab",
        &[
            "authentication.gssapi.kerberos.service.name",
            "authentication.gssapi.key.tab.enable",
            "authentication.gssapi.key.tab.path",
            "authentication.gssapi.store.key.enable",
            "authentication.gssapi.principal",
            "authentication.gssapi.ticket.cache.enable",
        ],
    ),
    (
        "weir-mapping/src/config/tests/cluster.rs",
        "profile_takes_precedence_over_role",
        &[
            "authentication.iam.credential.profile.name",
            "authentication.iam.role.arn",
            "authentication.iam.role.session.name",
            "authentication.iam.sts.region",
        ],
    ),
    (
        "weir-mapping/src/config/tests/schemas.rs",
        "framing_follows_provider_and_type",
        &["schema.registry.provider"],
    ),
    (
        "weir-gateway/tests/registry.rs",
        "new_schema_holds_only_its_partition_and_loses_nothing",
        &["schema.registry.url"],
    ),
    (
        "weir-mapping/src/config/tests/schemas.rs",
        "registry_has_login_and_encryption",
        &[
            "schema.registry.confluent.basic.authentication.enable",
            "schema.registry.confluent.basic.authentication.username",
            "schema.registry.confluent.basic.authentication.password",
        ],
    ),
    (
        "weir-mapping/src/config/tests/schemas.rs",
        "missing_parameters_are_named",
        &[
            "schema.registry.azure.tenant.id",
            "schema.registry.azure.client.id",
            "schema.registry.azure.client.secret",
        ],
    ),
    (
        "weir-mapping/src/config/tests/schemas.rs",
        "registry_encryption_has_its_own_stores",
        &[
            "schema.registry.confluent.encryption.protocol",
            "schema.registry.confluent.encryption.enabled.protocols",
            "schema.registry.confluent.encryption.cipher.suites",
            "schema.registry.confluent.encryption.hostname.verification.enable",
            "schema.registry.confluent.encryption.truststore.path",
            "schema.registry.confluent.encryption.truststore.type",
            "schema.registry.confluent.encryption.truststore.password",
            "schema.registry.confluent.encryption.keystore.enable",
            "schema.registry.confluent.encryption.keystore.path",
            "schema.registry.confluent.encryption.keystore.type",
            "schema.registry.confluent.encryption.keystore.password",
            "schema.registry.confluent.encryption.keystore.key.password",
        ],
    ),
];

/// Words with which a row of the manual gives the reason why a parameter has no effect.
const REASONS: [&str; 3] = ["ignored: ", "ignored; ", "not read: "];

/// Parameters of the manual, with the text about them.
fn manual() -> Vec<(String, String)> {
    let text = read(&root().join("docs/connector.md"));
    let (_, rows) = text.split_once("\n## Parameters\n").expect("a section");
    let rows = rows.split("\n## ").next().unwrap_or_default();
    let mut parameters = Vec::new();
    for row in rows.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = row.split('|').skip(1);
        let (names, text) = (cells.next().expect("names"), cells.next().expect("a text"));
        let names = names.split('`').skip(1).step_by(2);
        parameters.extend(names.map(|name| (name.to_owned(), text.trim().to_owned())));
    }
    parameters
}

#[test]
fn every_parameter_has_a_test_or_a_reason() {
    let manual = manual();
    assert!(manual.len() > 100, "the table was not found");
    let tested: BTreeSet<&str> = TESTS.iter().flat_map(|one| one.2).copied().collect();
    for (name, text) in &manual {
        let has_reason = REASONS.iter().any(|reason| text.contains(reason));
        assert!(
            tested.contains(name.as_str()) || has_reason,
            "{name} has no test in {} and no reason in docs/connector.md",
            file!()
        );
        assert!(!text.contains("refused"), "{name} is refused");
    }
    let documented: BTreeSet<&str> = manual.iter().map(|one| one.0.as_str()).collect();
    for (file, function, parameters) in TESTS {
        let source = read(&root().join("crates").join(file));
        assert!(
            source.contains(&format!("fn {function}(")),
            "{file}: no test {function}"
        );
        for name in *parameters {
            assert!(
                documented.contains(name),
                "{name} is not in docs/connector.md"
            );
        }
    }
}
