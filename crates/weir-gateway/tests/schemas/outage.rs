//! A registry that is down at the start, or stops while the gateway runs.

use std::sync::atomic::AtomicBool;

use serde_json::json;
use weir_gateway::Gateway;
use weir_lab::RegistrySecurity;

use crate::support::{Client, TestEnv, metric, wait_metric};
use crate::test_env::{KEY, TestRegistry, config, param, registered, subscribed};

const FIELDS: [(&str, &str); 2] = [("name", ".name"), ("price", ".price")];
const WAITING: &str = "weir_gateway_schema_waiting_partitions";
const UNDECODED: &str = "weir_gateway_kafka_decode_failures_total";
const VALUES: &str = "U,1,1,Ångström|42";
const NEXT: &str = r#"{"type": "record", "name": "Order", "fields": [
    {"name": "price", "type": "long"}, {"name": "name", "type": "string"}]}"#;

#[test]
fn outage_of_registry_loses_nothing() {
    let name = "outage of a registry";
    let Some(mut registry) = TestRegistry::start(RegistrySecurity::default(), name) else {
        return;
    };
    let env = TestEnv::partitioned(2);
    registry.write(&env, "AVRO", 1, &json!({}));
    let id = register(&registry, &env);
    registry.registry.stop().expect("the registry stops");
    let more = registered(&registry.registry.url()) + &param("record.consume.from", "EARLIEST");
    // A Java program starts within this time even on a busy machine.
    let table = "wait_ms = 300000";
    let gateway = env.ready(config(&env, "AVRO", &FIELDS, &more, table));
    let mut client = subscribed(&gateway, &FIELDS);
    wait_metric(&gateway, WAITING, |count| count == 1);
    start_again(&mut registry);
    assert_eq!(client.line(), VALUES);
    waits_during_outage(&mut registry, &env, &gateway, &mut client, id);
    assert_eq!(metric(&gateway, UNDECODED), 0);
    gateway.shut_down();
    registry.registry.stop().expect("the registry stops");
    wait_is_bounded(&env, &more);
}

/// Without a registry, the wait for a schema ends after `wait_ms`, and its records are counted.
fn wait_is_bounded(env: &TestEnv, more: &str) {
    let table = "wait_ms = 300\nretry_after_ms = 600000";
    let gateway = env.ready(config(env, "AVRO", &FIELDS, more, table));
    let mut client = Client::create(&gateway);
    let items = format!("ltest-[key={KEY}] ltest-[key=other]");
    client.subscribe(1, &items, "name price");
    // One record of the writer, three of the other schema, and 20 of the other partition, all with
    // schemas that this gateway has not fetched.
    wait_metric(&gateway, UNDECODED, |count| count == 24);
    wait_metric(&gateway, WAITING, |count| count == 0);
    drop(client);
    gateway.shut_down();
}

/// A partition with a new schema waits, the other one is read on.
fn waits_during_outage(
    registry: &mut TestRegistry,
    env: &TestEnv,
    gateway: &Gateway,
    client: &mut Client,
    id: i32,
) {
    let other = register_other(registry, env);
    client.subscribe(2, "ltest-[key=other]", "name price");
    env.produce_bytes(1, "other", &order(id, 0));
    assert_eq!(client.line(), "U,2,1,x|0");
    registry.registry.stop().expect("the registry stops");
    for price in 1..4 {
        env.produce_bytes(0, KEY, &order(other, price));
    }
    wait_metric(gateway, WAITING, |count| count == 1);
    for price in 1..20 {
        env.produce_bytes(1, "other", &order(id, price));
        // The name is unchanged.
        assert_eq!(client.line(), format!("U,2,1,|{price}"));
    }
    assert_eq!(metric(gateway, WAITING), 1);
    start_again(registry);
    for values in ["x|1", "|2", "|3"] {
        assert_eq!(client.line(), format!("U,1,1,{values}"));
    }
    wait_metric(gateway, WAITING, |count| count == 0);
}

fn start_again(registry: &mut TestRegistry) {
    let started = registry.registry.start_again(&AtomicBool::new(false));
    started.expect("the registry starts");
}

fn register(registry: &TestRegistry, env: &TestEnv) -> i32 {
    let subject = format!("{}-value", env.topic);
    let id = registry.registry.register(&subject, "AVRO", NEXT, &[]);
    id.expect("an id")
}

/// Registers a schema of the same shape under another id.
fn register_other(registry: &TestRegistry, env: &TestEnv) -> i32 {
    let subject = format!("{}-value", env.topic);
    let other = NEXT.replace("\"Order\"", "\"Other\"");
    let id = registry.registry.register(&subject, "AVRO", &other, &[]);
    id.expect("an id")
}

/// Returns a record of [`NEXT`] with the name `x` and a price below 64.
fn order(id: i32, price: u8) -> Vec<u8> {
    let body = [2 * price, 2, b'x'];
    [&[0], &id.to_be_bytes()[..], &body].concat()
}
