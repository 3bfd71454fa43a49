//! Every format: the registered schema, the local file, and a later version.

use serde_json::json;
use weir_lab::RegistrySecurity;

use crate::support::{TestEnv, metric, wait_metric};
use crate::test_env::{KEY, TestRegistry, config, param, registered, subscribed};

/// Names of fields and their paths in all formats.
const FIELDS: [(&str, &str); 9] = [
    ("name", ".name"),
    ("price", ".price"),
    ("rate", ".rate"),
    ("ready", ".ready"),
    ("note", ".note"),
    ("tag", ".tag"),
    ("size", ".parts[1].size"),
    ("label", ".labels['k']"),
    ("first", "['parts'][0]['size']"),
];
const VALUES: &str = "Ångström|42|-1.5|true|first|RED|7|v|5";
/// An update with the values of the one before, in all fields.
const UNCHANGED: &str = "U,1,1,^9";
const UNDECODED: &str = "weir_gateway_kafka_decode_failures_total";
const FAILED: &str = "weir_gateway_kafka_extraction_failures_total";

#[test]
fn records_give_same_fields_as_with_local_schema() {
    let name = "registry with independent writers";
    let Some(registry) = TestRegistry::start(RegistrySecurity::default(), name) else {
        return;
    };
    // One topic per format: a subject has schemas of one type.
    for format in ["AVRO", "PROTOBUF", "JSON"] {
        reads_all_versions(&registry, format);
    }
    null_is_null(&registry);
    unknown_id_fails_only_its_records(&registry);
}

fn reads_all_versions(registry: &TestRegistry, format: &str) {
    let (env, local) = (TestEnv::new(), TestEnv::new());
    let file = registry.path(&format!("{format}.schema"));
    let more = registered(&registry.registry.url());
    let gateway = env.ready(config(&env, format, &FIELDS, &more, ""));
    let mut client = subscribed(&gateway, &FIELDS);
    let plain = json!({ "file": file, "local_topic": local.topic });
    registry.write(&env, format, 1, &plain);
    assert_eq!(client.line(), format!("U,1,1,{VALUES}"), "{format}");

    let parameter =
        |name: &str, value: &str| param(&format!("record.value.evaluator.{name}"), value);
    let mut more = parameter("schema.path", &file.display().to_string());
    more += &param("record.consume.from", "EARLIEST");
    if format == "PROTOBUF" {
        more += &parameter("protobuf.message.type", "Order");
    }
    let from_file = local.ready(config(&local, format, &FIELDS, &more, ""));
    let mut local_client = subscribed(&from_file, &FIELDS);
    assert_eq!(
        local_client.line(),
        format!("U,1,1,{VALUES}"),
        "{format} with a file"
    );
    from_file.shut_down();

    // A new version while the gateway runs, and then the first one again.
    for version in [2, 1] {
        registry.write(&env, format, version, &json!({}));
        assert_eq!(client.line(), UNCHANGED, "{format} {version}");
    }
    if format == "PROTOBUF" {
        for message in ["First", "Holder.Inner"] {
            registry.write(&env, format, 1, &json!({ "message": message }));
            assert_eq!(client.line(), UNCHANGED, "{message}");
        }
    }
    assert_eq!(metric(&gateway, UNDECODED), 0, "{format}");
    assert_eq!(metric(&gateway, FAILED), 0, "{format}");
    gateway.shut_down();
}

fn null_is_null(registry: &TestRegistry) {
    for format in ["AVRO", "JSON"] {
        let (env, fields) = (TestEnv::new(), [("gone", ".gone"), ("note", ".note")]);
        let more = registered(&registry.registry.url());
        let gateway = env.ready(config(&env, format, &fields, &more, ""));
        let mut client = subscribed(&gateway, &fields);
        registry.write(&env, format, 1, &json!({}));
        assert_eq!(client.line(), "U,1,1,#|first", "{format}");
        gateway.shut_down();
    }
}

fn unknown_id_fails_only_its_records(registry: &TestRegistry) {
    let env = TestEnv::new();
    let more = registered(&registry.registry.url());
    let gateway = env.ready(config(&env, "AVRO", &FIELDS, &more, ""));
    let mut client = subscribed(&gateway, &FIELDS);
    let id = 1_000_000_i32.to_be_bytes();
    env.produce_bytes(0, KEY, &[&[0], &id[..], b"any"].concat());
    registry.write(&env, "AVRO", 1, &json!({}));
    assert_eq!(client.line(), format!("U,1,1,{VALUES}"));
    wait_metric(&gateway, "weir_gateway_schema_unknown_ids_total", |ids| {
        ids == 1
    });
    assert_eq!(metric(&gateway, UNDECODED), 1);
    gateway.shut_down();
}
