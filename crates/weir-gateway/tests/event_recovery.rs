//! Clients without an SDK that connect again and continue after the last event, with a real broker.

mod support;

use std::collections::BTreeMap;

use serde_json::json;
use support::classes::Classes;
use support::json_socket::JsonSocket;
use support::sse::Events;
use support::{TestEnv, metric, per_reader, wait_metric};
use weir_gateway::Gateway;

per_reader! {
    missed_records_follow_on_any_gateway
    merge_continues_with_updates
}

const RECOVERIES: &str = "weir_gateway_event_recoveries_total";
const READS: &str = "weir_gateway_missed_record_reads_total";
const RECORDS_READ: &str = "weir_gateway_missed_records_read_total";

fn item(key: &str) -> String {
    format!("ltest-[key={key}]")
}

fn resume(gateway: &Gateway, query: &str, id: &str) -> Events {
    Events::resume(gateway.listen_address(), query, id)
}

/// Starts a gateway with these limits.
fn limited(env: &TestEnv, limits: &str) -> Gateway {
    env.ready(env.config_with(&format!("[limits]\n{limits}\n"), |xml| xml))
}

/// Returns an id from which on the records of key `a` are missed.
fn id_of(gateway: &Gateway, query: &str) -> String {
    Events::open(gateway.listen_address(), query).next_id()
}

fn assert_reset(events: &mut Events, item: &str, reason: &str) {
    let (event, data) = events.next().expect("a reset");
    assert_eq!(
        (event.as_str(), &data),
        ("reset", &json!({"item": item, "reason": reason}))
    );
}

/// Expects these values of items as updates, in the order of each item.
fn expect_all(events: &mut Events, expected: &[(&str, &str)]) {
    let mut got: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for _ in expected {
        let (event, item, value) = events.value("value");
        assert_eq!(event, "update", "{item} {value}");
        got.entry(item).or_default().push(value);
    }
    let mut wanted: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, value) in expected {
        wanted
            .entry(item(key))
            .or_default()
            .push((*value).to_owned());
    }
    assert_eq!(got, wanted);
}

fn missed_records_follow_on_any_gateway() {
    let env = TestEnv::partitioned(3);
    let gateway = env.start_gateway(|xml| xml);
    for mode in ["raw", "distinct"] {
        let query = format!("item=ltest-[key=a]&item=ltest-[key=b]&mode={mode}&fields=value");
        let query = format!("{query}&snapshot=false");
        let mut id = id_of(&gateway, &query);
        let second = env.start_gateway(|xml| xml);
        for (number, gateway) in [&gateway, &second, &gateway].into_iter().enumerate() {
            let value = |text: &str| format!("{number} {text}");
            for (key, text) in [("a", "1"), ("b", "2"), ("c", "3"), ("a", "4"), ("a", "4")] {
                env.produce(key, &value(text));
            }
            let mut client = resume(gateway, &query, &id);
            let missed = [("a", value("1")), ("b", value("2")), ("a", value("4"))];
            let mut missed: Vec<_> = missed.iter().map(|(key, value)| (*key, &**value)).collect();
            missed.push(missed[2]);
            expect_all(&mut client, &missed);
            env.produce("b", &value("live"));
            client.expect("update", &item("b"), "value", &value("live"));
            id.clone_from(&client.id);
        }
        second.shut_down();
        // Nothing is missed.
        let mut client = resume(&gateway, &query, &id);
        env.produce("a", "next");
        client.expect("update", &item("a"), "value", "next");
    }
    gateway.shut_down();
    let query = "item=ltest-[key=a]&mode=raw&fields=value";
    let gateway = env.start_gateway(|xml| xml);
    let id = id_of(&gateway, query);
    gateway.shut_down();
    env.produce("a", "while no gateway runs");
    let gateway = env.start_gateway(|xml| xml);
    let mut client = resume(&gateway, query, &id);
    client.expect("update", &item("a"), "value", "while no gateway runs");
    gateway.shut_down();
}

fn merge_continues_with_updates() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let query = "item=ltest-[key=a]&fields=value";
    let mut first = Events::open(gateway.listen_address(), query);
    let before = first.next_id();
    env.produce("a", "1");
    first.expect("snapshot", &item("a"), "value", "1");
    let mut id = first.id.clone();
    assert_ne!(id, before, "the snapshot has an id");
    let second = env.start_gateway(|xml| xml);
    for gateway in [&gateway, &second] {
        let mut client = resume(gateway, query, &id);
        wait_metric(gateway, RECOVERIES, |count| count > 0);
        env.produce("a", "2");
        client.expect("update", &item("a"), "value", "2");
        drop(client);
        env.produce("a", "1");
        let mut client = resume(gateway, query, &id);
        // Values in between may be skipped.
        let (event, _, value) = client.value("value");
        assert_eq!(event, "update");
        if value != "1" {
            client.expect("update", &item("a"), "value", "1");
        }
        env.produce("a", "3");
        client.expect("update", &item("a"), "value", "3");
        env.produce("a", "1");
        client.expect("update", &item("a"), "value", "1");
        id.clone_from(&client.id);
    }
    let resets = metric(&gateway, "weir_gateway_event_resets_unavailable_total");
    assert_eq!(resets, 0);
    second.shut_down();
    gateway.shut_down();
}

#[test]
fn other_ids_reset_to_a_snapshot() {
    let (env, other) = (TestEnv::new(), TestEnv::new());
    let gateway = env.start_gateway(|xml| xml);
    let foreign = other.start_gateway(|xml| xml);
    let query = "item=ltest-[key=a]&fields=value";
    let foreign_id = id_of(&foreign, query);
    foreign.shut_down();
    let mut first = Events::open(gateway.listen_address(), query);
    first.next_id();
    env.produce("a", "1");
    first.expect("snapshot", &item("a"), "value", "1");
    let long = "A".repeat(5_000);
    for (id, reason) in [
        ("garbage!", "invalid_id"),
        (long.as_str(), "invalid_id"),
        (&first.id[1..], "invalid_id"),
        (&foreign_id, "other_partitions"),
    ] {
        let mut client = resume(&gateway, query, id);
        assert_reset(&mut client, &item("a"), reason);
        client.expect("snapshot", &item("a"), "value", "1");
        assert!(client.next_id().len() > 10, "{reason}");
    }
    let query = format!("{query}&lastEventId=x");
    let mut client = Events::open(gateway.listen_address(), &query);
    assert_reset(&mut client, &item("a"), "invalid_id");
    let mut client = resume(&gateway, &query, &first.id);
    env.produce("a", "2");
    client.expect("update", &item("a"), "value", "2");
    gateway.shut_down();
}

/// A topic of the same name has other records.
#[test]
fn ids_of_a_deleted_topic_reset_to_a_snapshot() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let query = "item=ltest-[key=a]&fields=value";
    let mut first = Events::open(gateway.listen_address(), query);
    first.next_id();
    env.produce("a", "old");
    first.expect("snapshot", &item("a"), "value", "old");
    let id = first.id.clone();
    drop(first);
    gateway.shut_down();
    env.recreate_topic();
    let gateway = env.start_gateway(|xml| xml);
    env.produce("a", "new");
    let mut client = resume(&gateway, query, &id);
    assert_reset(&mut client, &item("a"), "other_partitions");
    env.produce("a", "newer");
    let (_, _, value) = client.value("value");
    assert!(["new", "newer"].contains(&value.as_str()), "{value}");
    gateway.shut_down();
}

#[test]
fn deleted_and_too_many_records_reset_to_a_snapshot() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let query = "item=ltest-[key=a]&fields=value";
    // Its values stay known.
    let mut held = Events::open(gateway.listen_address(), query);
    let id = held.next_id();
    for number in 0..9_999 {
        env.send("other", &number.to_string());
    }
    env.produce("a", "last");
    held.expect("snapshot", &item("a"), "value", "last");
    let mut client = resume(&gateway, query, &id);
    client.expect("update", &item("a"), "value", "last");
    assert_eq!(metric(&gateway, RECORDS_READ), 10_000);
    env.produce("a", "later");
    held.expect("update", &item("a"), "value", "later");
    let mut client = resume(&gateway, query, &id);
    assert_reset(&mut client, &item("a"), "too_many_records");
    client.expect("snapshot", &item("a"), "value", "later");
    let id = client.next_id();
    env.produce("a", "deleted");
    held.expect("update", &item("a"), "value", "deleted");
    let deleted = env.admin.delete_records(&env.topic, 0, 10_002);
    deleted.expect("deleted");
    let mut client = resume(&gateway, query, &id);
    assert_reset(&mut client, &item("a"), "deleted_records");
    client.expect("snapshot", &item("a"), "value", "deleted");
    for reason in ["too_many_records", "deleted_records"] {
        let name = format!("weir_gateway_event_resets_{reason}_total");
        assert_eq!(metric(&gateway, &name), 1, "{reason}");
    }
    gateway.shut_down();
}

#[test]
fn waiting_clients_share_reads() {
    const MISSED: usize = 30;
    let env = TestEnv::new();
    // The first client takes about two seconds.
    let gateway = limited(&env, "missed_records_per_second = 20");
    let query = "item=ltest-[key=a]&mode=raw&fields=value";
    // Without a subscriber, the gateway would not read, so that no record would be missed.
    let mut reader = Events::open(gateway.listen_address(), query);
    let id = reader.next_id();
    for number in 0..MISSED {
        env.send("a", &number.to_string());
    }
    env.flush();
    reader.expect("update", &item("a"), "value", "0");
    let mut clients = vec![resume(&gateway, query, &id)];
    wait_metric(&gateway, READS, |reads| reads == 1);
    clients.extend((0..2).map(|_| resume(&gateway, query, &id)));
    for client in &mut clients {
        for number in 0..MISSED {
            client.expect("update", &item("a"), "value", &number.to_string());
        }
    }
    assert_eq!(metric(&gateway, READS), 2);
    assert_eq!(metric(&gateway, RECORDS_READ), 2 * MISSED as u64);
    gateway.shut_down();
}

#[test]
fn many_old_ids_do_not_delay_other_clients() {
    let env = TestEnv::new();
    let gateway = limited(&env, "missed_records_per_second = 100");
    let query = "item=ltest-[key=a]&mode=raw&fields=value";
    let mut live = Events::open(gateway.listen_address(), "item=ltest-[key=b]&mode=raw");
    live.next_id();
    let id = id_of(&gateway, query);
    for number in 0..200 {
        env.send("a", &number.to_string());
    }
    env.flush();
    wait_metric(&gateway, "weir_gateway_kafka_records_total", |read| {
        read == 200
    });
    let clients: Vec<_> = (0..30).map(|_| resume(&gateway, query, &id)).collect();
    for number in 0..20 {
        env.produce("b", &number.to_string());
        live.expect("update", &item("b"), "value", &number.to_string());
    }
    let recovered = metric(&gateway, RECOVERIES);
    assert!(
        recovered < clients.len() as u64,
        "the rate is limited: {recovered}"
    );
    drop(clients);
    wait_metric(&gateway, "weir_gateway_sessions", |sessions| sessions == 1);
    gateway.shut_down();
}

#[test]
fn record_rules_hold_for_missed_records() {
    const RULES: &str = r#"
[[authorize]]
name = "tenant news"
items = ["news"]
where = "VALUE.tenant = {claims.tenant}"
"#;
    let classes = Classes::new();
    let fields = [
        ("record.value.evaluator.type", "JSON"),
        ("field.text", "#{VALUE.text}"),
    ];
    let toml = format!("{RULES}\n[auth]\nsources = [\"header\"]\n");
    let gateway = classes.start_with_auth(&toml, "news", &fields);
    let token = classes.token(r#"{"tenant":"acme"}"#);
    let open = |id: &str| {
        let head = format!("Authorization: Bearer {token}\r\nLast-Event-ID: {id}\r\n");
        let query = "item=news&mode=raw";
        Events::open_with(gateway.listen_address(), query, &head).expect("a stream")
    };
    let id = open("").next_id();
    for (tenant, text) in [
        ("\"zeta\"", "1"),
        ("\"acme\"", "2"),
        ("\"zeta\"", "3"),
        ("\"acme\"", "4"),
    ] {
        classes.news(tenant, text);
    }
    let mut client = open(&id);
    client.expect("update", "news", "text", "2");
    client.expect("update", "news", "text", "4");
    classes.news("\"zeta\"", "5");
    classes.news("\"acme\"", "6");
    client.expect("update", "news", "text", "6");
    gateway.shut_down();
}

#[test]
fn json_clients_continue_after_an_id() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let address = gateway.listen_address();
    let subscribe = |key: &str, after: &str| {
        json!({"type": "subscribe", "items": [item(key)], "mode": "raw", "fields": ["value"],
               "after": after})
    };
    let mut first = JsonSocket::open(address, subscribe("a", ""));
    first.expect_about("subscribed", &item("a"));
    first.wait_id();
    env.produce("a", "1");
    first.expect("update", &item("a"), "value", "1");
    let id = first.id.clone();
    drop(first);
    env.produce("a", "2");
    env.produce("b", "3");
    let mut client = JsonSocket::open(address, subscribe("a", &id));
    client.expect_about("subscribed", &item("a"));
    client.expect("update", &item("a"), "value", "2");
    // An open connection can continue with another item.
    client.send(subscribe("b", &id));
    client.expect_about("subscribed", &item("b"));
    client.expect("update", &item("b"), "value", "3");
    client.send(subscribe("c", "x"));
    client.expect_about("subscribed", &item("c"));
    let reset = client.event();
    assert_eq!(
        reset,
        json!({"event": "reset", "item": item("c"), "reason": "invalid_id"})
    );
    gateway.shut_down();
}

#[test]
fn changes_of_rows_are_sent_again() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| {
        let lines = xml.lines().filter(|line| !line.contains("\"field.key\""));
        let xml = lines.collect::<Vec<_>>().join("\n");
        let xml = xml.replace(">ltest-#{key=KEY}<", ">rows-#{topic=PARTITION}<");
        let more = "<param name=\"field.key\">#{KEY}</param>\n\
                    <param name=\"fields.auto.command.mode.enable\">true</param></data_provider>";
        xml.replace("</data_provider>", more)
    });
    let query = "item=rows-[topic=0]&mode=command&fields=key,command,value";
    let mut first = Events::open(gateway.listen_address(), query);
    assert_eq!(first.next().expect("an event").0, "end-of-snapshot");
    first.next_id();
    env.produce("k1", "1");
    first.expect("update", "rows-[topic=0]", "key", "k1");
    let id = first.id.clone();
    env.produce("k2", "2");
    env.delete("k1");
    for key in ["k2", "k1"] {
        first.expect("update", "rows-[topic=0]", "key", key);
    }
    let mut client = resume(&gateway, query, &id);
    env.produce("k2", "3");
    let mut rows = Vec::new();
    for _ in 0..3 {
        let (event, data) = client.next().expect("a change");
        let text = |field| data["values"][field].as_str().map(str::to_owned);
        assert_eq!(event, "update");
        rows.push((text("key").expect("a key"), text("command"), text("value")));
    }
    let some = |text: &str| Some(text.to_owned());
    assert_eq!((&*rows[0].0, &rows[0].2), ("k2", &some("2")));
    assert_eq!((&*rows[1].0, &rows[1].1), ("k1", &some("DELETE")));
    assert_eq!((&*rows[2].0, &rows[2].2), ("k2", &some("3")));
    gateway.shut_down();
}
