//! Snapshots that are stored without subscribers (`item.snapshot.*`), with a real broker.

mod support;

use support::{Client, TestEnv, wait_metric};
use weir_gateway::Gateway;

const STORED: &str = "weir_gateway_last_values";
const READ: &str = "weir_gateway_kafka_records_total";
const KIWI: &str = "ltest-[key%3DKiwi]";
const ROWS: &str = "rows-[topic%3D0]";

/// Returns a change of the configuration to a snapshot mode.
fn snapshots(mode: &str, more: &str) -> impl Fn(String) -> String + use<> {
    let added =
        format!(r#"<param name="item.snapshot.enabled.mode">{mode}</param>{more}</data_provider>"#);
    move |xml| xml.replace("</data_provider>", &added)
}

/// Returns a change to one table of rows for the whole topic.
fn rows(more: &str) -> impl Fn(String) -> String + use<> {
    let change = snapshots("COMMAND", more);
    move |xml| change(xml.replace("ltest-#{key=KEY}", "rows-#{topic=PARTITION}"))
}

/// Sends a subscription and returns the first line of its response.
fn add(
    client: &mut Client,
    id: u32,
    mode: &str,
    group: &str,
    schema: &str,
    snapshot: &str,
) -> String {
    client.send(&format!(
        "control\r\nLS_reqId={id}&LS_op=add&LS_subId={id}&LS_mode={mode}&LS_group={group}\
         &LS_schema={schema}&LS_data_adapter=QuickStart&LS_ack=false&LS_snapshot={snapshot}"
    ));
    let line = client.line();
    if !line.starts_with("REQERR") {
        assert!(client.line().starts_with("CONF,"));
    }
    line
}

/// Waits until the gateway has read this number of records.
fn wait_read(gateway: &Gateway, records: u64) {
    wait_metric(gateway, READ, |read| read >= records);
}

#[test]
fn merge_snapshot_is_the_last_readable_record() {
    let env = TestEnv::new();
    for value in [
        r#"{"price":1}"#,
        r#"{"price":2}"#,
        "no JSON",
        r#"{"other":3}"#,
    ] {
        env.produce("Kiwi", value);
    }
    let json = r##"<param name="record.value.evaluator.type">JSON</param>
        <param name="field.price">#{VALUE.price}</param>"##;
    let change = snapshots("MERGE", json);
    let gateway = env.start_gateway(|xml| change(xml).replace("#{VALUE}<", "#{VALUE.price}<"));
    wait_read(&gateway, 4);
    wait_metric(&gateway, STORED, |items| items == 1);
    let failures = "weir_gateway_kafka_extraction_failures_total";
    wait_metric(&gateway, failures, |failed| failed == 2);
    let metrics = support::http(
        gateway.admin_address(),
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    );
    for reason in ["undecodable", "not_found"] {
        let line = format!(r#"{failures}{{connection="QuickStart",reason="{reason}"}} 1"#);
        assert!(metrics.1.contains(&line), "{line}: {}", metrics.1);
    }

    let mut client = Client::create(&gateway);
    for (mode, id) in [("RAW", 1), ("DISTINCT", 2), ("COMMAND", 3)] {
        let refused = add(&mut client, id, mode, KIWI, "price", "true");
        assert!(
            refused.starts_with(&format!("REQERR,{id},24,")),
            "{mode}: {refused}"
        );
    }
    assert_eq!(
        add(&mut client, 4, "MERGE", KIWI, "key%20price", "true"),
        "SUBOK,4,1,2"
    );
    assert_eq!(client.line(), "U,4,1,Kiwi|2");
    env.produce("Kiwi", r#"{"price":5}"#);
    assert_eq!(client.line(), "U,4,1,|5");
    drop(client);
    // Read without subscribers.
    env.produce("Kiwi", r#"{"price":6}"#);
    wait_read(&gateway, 6);
    let mut later = Client::create(&gateway);
    add(&mut later, 1, "MERGE", KIWI, "price", "true");
    assert_eq!(later.line(), "U,1,1,6");
    gateway.shut_down();
}

#[test]
fn distinct_snapshot_has_the_configured_length() {
    let env = TestEnv::new();
    for value in ["1", "2", "3", "4", "5"] {
        env.produce("Kiwi", value);
    }
    let length = r#"<param name="item.snapshot.distinct.length">3</param>"#;
    let gateway = env.start_gateway(snapshots("DISTINCT", length));
    wait_read(&gateway, 5);
    wait_metric(&gateway, STORED, |items| items == 1);
    // One client per event loop, then a second one on the first.
    for _ in 0..3 {
        let mut client = Client::create(&gateway);
        add(&mut client, 1, "DISTINCT", KIWI, "value", "true");
        for line in ["U,1,1,3", "U,1,1,4", "U,1,1,5", "EOS,1,1"] {
            assert_eq!(client.line(), line);
        }
        add(&mut client, 2, "DISTINCT", KIWI, "value", "2");
        for line in ["U,2,1,4", "U,2,1,5", "EOS,2,1"] {
            assert_eq!(client.line(), line);
        }
    }
    gateway.shut_down();
}

#[test]
fn command_snapshot_has_the_rows_of_the_topic() {
    let env = TestEnv::new();
    for (key, value) in [("a", "1"), ("b", "1"), ("c", "1"), ("b", "2")] {
        env.produce(key, value);
    }
    env.delete("a");
    let gateway = env.start_gateway(rows(""));
    wait_read(&gateway, 5);
    wait_metric(&gateway, STORED, |items| items == 1);
    let mut clients: Vec<_> = (0..3).map(|_| Client::create(&gateway)).collect();
    for client in &mut clients {
        let schema = "key%20command%20value";
        assert_eq!(
            add(client, 1, "COMMAND", ROWS, schema, "true"),
            "SUBCMD,1,1,3,1,2"
        );
        for line in ["U,1,1,b|ADD|2", "U,1,1,c||1", "EOS,1,1"] {
            assert_eq!(client.line(), line);
        }
    }
    env.produce("c", "9");
    env.delete("b");
    for client in &mut clients {
        assert_eq!(client.line(), "U,1,1,|UPDATE|9");
        assert_eq!(client.line(), "U,1,1,b|DELETE|");
    }
    gateway.shut_down();
}

#[test]
fn idle_items_lose_their_snapshot() {
    let idle = r#"<param name="item.snapshot.max.idle.seconds">1</param>"#;
    let expired = "weir_gateway_snapshots_expired_total";
    for (mode, group) in [("MERGE", KIWI), ("DISTINCT", KIWI), ("COMMAND", ROWS)] {
        let env = TestEnv::new();
        let gateway = match mode {
            "COMMAND" => env.start_gateway(rows(idle)),
            _ => env.start_gateway(snapshots(mode, idle)),
        };
        let mut client = Client::create(&gateway);
        let (schema, first, second) = match mode {
            "COMMAND" => (
                "key%20command%20value",
                "U,1,1,Kiwi|ADD|one",
                "U,1,1,Kiwi|ADD|two",
            ),
            _ => ("value", "U,1,1,one", "U,1,1,two"),
        };
        add(&mut client, 1, mode, group, schema, "true");
        if mode != "MERGE" {
            assert_eq!(client.line(), "EOS,1,1", "{mode}");
        }
        env.produce("Kiwi", "one");
        assert_eq!(client.line(), first);
        let end = if mode == "MERGE" { "U,1,1,#" } else { "CS,1,1" };
        assert_eq!(client.line(), end, "{mode}");
        wait_metric(&gateway, expired, |items| items == 1);
        wait_metric(&gateway, STORED, |items| items == 0);
        env.produce("Kiwi", "two");
        let line = client.line();
        // After a row was cleared, only the changed fields are sent.
        let same = if mode == "COMMAND" {
            "U,1,1,||two"
        } else {
            second
        };
        assert!(line == second || line == same, "{mode}: {line}");
        gateway.shut_down();
    }
}
