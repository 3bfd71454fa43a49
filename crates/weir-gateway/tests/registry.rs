//! Records with registered schemas through a running gateway, including faults of the registry.

mod support;

use support::registry::{FakeRegistry, SchemaResponse};
use support::{Client, TestEnv, metric, wait_metric};
use weir_gateway::GatewayConfig;

const V1: &str = r#"{"type": "record", "name": "R", "fields": [{"name": "price", "type": "int"}]}"#;
const V2: &str = r#"{"type": "record", "name": "R", "fields": [
    {"name": "note", "type": "string"}, {"name": "price", "type": "int"}]}"#;
/// A schema that [`v1`] does not match.
const OTHER: &str = r#"{"type": "record", "name": "R", "fields": [
    {"name": "price", "type": "string"}]}"#;
const WAITING: &str = "weir_gateway_schema_waiting_partitions";
const UNDECODED: &str = "weir_gateway_kafka_decode_failures_total";

/// Returns a configuration with Avro values and a registry.
fn config(env: &TestEnv, url: &str, table: &str, more: &str) -> GatewayConfig {
    let parameters = format!(
        "<param name=\"record.value.evaluator.type\">AVRO</param>\
         <param name=\"record.value.evaluator.schema.registry.enable\">true</param>\
         <param name=\"schema.registry.url\">{url}</param>\
         <param name=\"field.price\">#{{VALUE.price}}</param>{more}</data_provider>"
    );
    env.config_with(&format!("[schema_registry]\n{table}"), |xml| {
        let xml = xml.replace("<param name=\"field.value\">#{VALUE}</param>", "");
        xml.replacen("</data_provider>", &parameters, 1)
    })
}

/// Returns a record of version 1 in a frame with an id; prices are below 64.
fn v1(id: u8, price: u8) -> Vec<u8> {
    vec![0, 0, 0, 0, id, 2 * price]
}

fn v2(id: u8, price: u8) -> Vec<u8> {
    vec![0, 0, 0, 0, id, 4, b'h', b'i', 2 * price]
}

#[test]
fn new_schema_holds_only_its_partition_and_loses_nothing() {
    let (env, registry) = (TestEnv::partitioned(2), FakeRegistry::start());
    registry.set(1, SchemaResponse::avro(V1));
    registry.set(2, SchemaResponse::Status(500, String::new()));
    let gateway = env.ready(config(&env, &registry.url(), "", ""));
    let mut client = Client::create(&gateway);
    client.subscribe(1, "ltest-[key=a] ltest-[key=b]", "price");
    env.produce_bytes(0, "a", &v1(1, 1));
    assert_eq!(client.line(), "U,1,1,1");
    for value in [v2(2, 2), v1(1, 3), v2(2, 4)] {
        env.produce_bytes(0, "a", &value);
    }
    wait_metric(&gateway, WAITING, |value| value == 1);
    // The other partition is read on.
    for price in 10..15 {
        env.produce_bytes(1, "b", &v1(1, price));
        assert_eq!(client.line(), format!("U,1,2,{price}"));
    }
    assert_eq!(metric(&gateway, WAITING), 1);
    registry.set(2, SchemaResponse::avro(V2));
    for price in 2..5 {
        assert_eq!(client.line(), format!("U,1,1,{price}"));
    }
    wait_metric(&gateway, WAITING, |value| value == 0);
    assert_eq!(metric(&gateway, UNDECODED), 0);
    assert_eq!(registry.requests(1), 1);
    gateway.shut_down();
}

#[test]
fn failed_schema_is_undecodable_and_later_records_arrive() {
    let (env, registry) = (TestEnv::new(), FakeRegistry::start());
    registry.set(1, SchemaResponse::avro(V1));
    registry.set(2, SchemaResponse::Status(200, "<html>".to_owned()));
    registry.set(3, SchemaResponse::avro("{\"type\": \"recor\"}"));
    let protobuf = "{\"schema\": \"syntax = \\\"proto3\\\"; message M {}\", \
                    \"schemaType\": \"PROTOBUF\"}";
    registry.set(4, SchemaResponse::Status(200, protobuf.to_owned()));
    let table = "wait_ms = 0\nretry_after_ms = 600000";
    let gateway = env.ready(config(&env, &registry.url(), table, ""));
    let mut client = Client::create(&gateway);
    client.subscribe(1, "ltest-[key=a]", "price");
    registry.set(6, SchemaResponse::Status(200, " ".repeat(5 << 20)));
    // Garbage, an invalid schema, one of another type, an id that the registry does not know, a
    // response above the limit, and a schema that the records do not match.
    registry.set(7, SchemaResponse::avro(OTHER));
    for id in [2, 3, 4, 5, 6, 7] {
        env.produce_bytes(0, "a", &v1(id, 2));
        env.produce_bytes(0, "a", &v1(id, 3));
    }
    env.produce_bytes(0, "a", b"no frame");
    env.produce_bytes(0, "a", &v1(1, 9));
    assert_eq!(client.line(), "U,1,1,9");
    assert_eq!(metric(&gateway, UNDECODED), 13);
    assert_eq!(metric(&gateway, "weir_gateway_schema_unknown_ids_total"), 1);
    for id in 1..8 {
        assert_eq!(registry.requests(id), 1, "schema {id}");
    }
    gateway.shut_down();
}

#[test]
fn slow_registry_ends_at_limit() {
    let (env, registry) = (TestEnv::new(), FakeRegistry::start());
    registry.set(1, SchemaResponse::avro(V1));
    registry.set(2, SchemaResponse::Silence);
    let table = "wait_ms = 0\nrequest_timeout_ms = 200\nretry_after_ms = 600000";
    let gateway = env.ready(config(&env, &registry.url(), table, ""));
    let mut client = Client::create(&gateway);
    client.subscribe(1, "ltest-[key=a]", "price");
    env.produce_bytes(0, "a", &v1(2, 2));
    env.produce_bytes(0, "a", &v1(1, 9));
    assert_eq!(client.line(), "U,1,1,9");
    assert_eq!(metric(&gateway, UNDECODED), 1);
    gateway.shut_down();
}

#[test]
fn slow_registry_delays_only_its_partition() {
    let (env, registry) = (TestEnv::partitioned(2), FakeRegistry::start());
    registry.set(1, SchemaResponse::avro(V1));
    registry.set(2, SchemaResponse::Held);
    let gateway = env.ready(config(&env, &registry.url(), "", ""));
    let mut client = Client::create(&gateway);
    client.subscribe(1, "ltest-[key=a] ltest-[key=b]", "price");
    env.produce_bytes(0, "a", &v2(2, 1));
    env.produce_bytes(0, "a", &v1(1, 2));
    wait_metric(&gateway, WAITING, |value| value == 1);
    for price in 10..30 {
        env.produce_bytes(1, "b", &v1(1, price));
        assert_eq!(client.line(), format!("U,1,2,{price}"));
    }
    assert_eq!(metric(&gateway, WAITING), 1);
    // The request is still under way and is not repeated.
    assert_eq!(registry.requests(2), 1);
    registry.set(2, SchemaResponse::avro(V2));
    assert_eq!([client.line(), client.line()], ["U,1,1,1", "U,1,1,2"]);
    wait_metric(&gateway, WAITING, |value| value == 0);
    assert_eq!(registry.requests(2), 1);
    assert_eq!(metric(&gateway, UNDECODED), 0);
    gateway.shut_down();
}

#[test]
fn gateway_starts_from_files_while_registry_is_down() {
    let (env, registry) = (TestEnv::new(), FakeRegistry::start());
    let table = "cache_directory = \"schemas\"\nwait_ms = 0";
    registry.set(1, SchemaResponse::avro(V1));
    for (price, files) in [(7, 0), (8, 1)] {
        let gateway = env.ready(config(&env, &registry.url(), table, ""));
        let mut client = Client::create(&gateway);
        client.subscribe(1, "ltest-[key=a]", "price");
        env.produce_bytes(0, "a", &v1(1, price));
        assert_eq!(client.line(), format!("U,1,1,{price}"));
        wait_metric(&gateway, "weir_gateway_schemas_from_files_total", |value| {
            value == files
        });
        gateway.shut_down();
        // From now on, the registry returns errors only.
        registry.set(1, SchemaResponse::Status(500, String::new()));
    }
    assert_eq!(registry.requests(1), 1);
}

#[test]
fn several_workers_keep_order_across_a_wait() {
    let (env, registry) = (TestEnv::partitioned(3), FakeRegistry::start());
    registry.set(1, SchemaResponse::avro(V1));
    let threads = "<param name=\"record.consume.with.num.threads\">3</param>";
    let gateway = env.ready(config(&env, &registry.url(), "", threads));
    let mut client = Client::create(&gateway);
    client.subscribe(1, "ltest-[key=a]", "price");
    for price in 0..20 {
        env.produce_bytes(0, "a", &v1(1 + price % 2, price));
    }
    assert_eq!(client.line(), "U,1,1,0");
    wait_metric(&gateway, WAITING, |value| value == 1);
    registry.set(2, SchemaResponse::avro(V1));
    for price in 1..20 {
        assert_eq!(client.line(), format!("U,1,1,{price}"));
    }
    gateway.shut_down();
}
