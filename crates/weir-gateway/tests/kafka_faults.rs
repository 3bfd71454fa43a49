//! Failures on the Kafka side: the broker stops, topics are deleted and created, records are
//! invalid. Clients keep their sessions and miss no record that Kafka still has.

mod support;

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use support::{Client, TEST_TIMEOUT, TestEnv, http, metric, per_reader, wait_metric};
use weir_gateway::Gateway;
use weir_lab::{Lab, LabOptions};

per_reader! {
    broker_restart_loses_no_record_and_no_session
    recreated_topic_is_delivered_from_start
    topic_replaced_by_a_longer_one_is_delivered_whole
    topic_created_later_is_delivered_from_start
    lag_is_correct_while_paused_and_absent_without_brokers
    invalid_json_record_is_skipped_and_counted
    force_unsubscription_ends_each_subscription_once
}

const READY: &str = "weir_gateway_connection_ready";
const FAILED: &str = "weir_gateway_kafka_extraction_failures_total";
const UNDECODABLE: &str = "weir_gateway_kafka_decode_failures_total";

fn broker_restart_loses_no_record_and_no_session() {
    let options = LabOptions {
        heap_mb: 384,
        ..LabOptions::default()
    };
    let interrupted = AtomicBool::new(false);
    let mut lab = Lab::up(&options, &mut |_| {}, &interrupted).expect("a broker");
    let env = TestEnv::on(&lab.bootstrap(), 2);
    let group = r#"<param name="group.id">faults</param></data_provider>"#;
    let gateway = env.start_gateway(|xml| xml.replace("</data_provider>", group));
    let mut client = Client::create(&gateway);
    client.subscribe(1, "ltest-[key=A]", "value");
    env.produce("A", "before");
    assert_eq!(client.line(), "U,1,1,before");

    lab.stop_broker(1).expect("stops");
    wait_metric(&gateway, READY, |ready| ready == 0);
    // The record waits in the producer until the broker is back.
    env.send("A", "meanwhile");
    let mut other = Client::create(&gateway);
    other.subscribe(1, "ltest-[key=A]", "value");
    lab.start_broker(1, &interrupted).expect("starts");
    assert_eq!(client.line(), "U,1,1,meanwhile");
    assert_eq!(other.line(), "U,1,1,meanwhile");
    wait_metric(&gateway, READY, |ready| ready == 1);
    env.produce("A", "after");
    assert_eq!(client.line(), "U,1,1,after");
    assert!(metric(&gateway, "weir_gateway_kafka_errors_total") > 0);
    gateway.shut_down();
}

fn recreated_topic_is_delivered_from_start() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let mut client = Client::create(&gateway);
    client.subscribe(1, "ltest-[key=A]", "value offset");
    for number in 0..10 {
        env.produce("A", &format!("old {number}"));
        assert_eq!(client.line(), format!("U,1,1,old {number}|{number}"));
    }
    env.admin.delete_topic(&env.topic).expect("deleted");
    let (mut attempts, keep) = (0, [("retention.ms", "-1")]);
    while let Err(error) = env.admin.create_topic(&env.topic, 1, 1, &keep) {
        attempts += 1;
        assert!(attempts < 10_000, "{error}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    env.produce("A", "new");
    assert_eq!(client.line(), "U,1,1,new|0");
    gateway.shut_down();
}

/// The new topic is longer than the old position before the change is detected: the Kafka client is
/// replaced, and subscriptions survive.
fn topic_replaced_by_a_longer_one_is_delivered_whole() {
    for threads in ["1", "3"] {
        let env = TestEnv::new();
        let count = format!(
            r#"<param name="record.consume.with.num.threads">{threads}</param></data_provider>"#
        );
        let gateway = env.start_gateway(|xml| xml.replace("</data_provider>", &count));
        let mut client = Client::create(&gateway);
        client.subscribe(1, "ltest-[key=A]", "value offset");
        env.produce("A", "old");
        assert_eq!(client.line(), "U,1,1,old|0");
        env.admin.delete_topic(&env.topic).expect("deleted");
        let (deadline, keep) = (Instant::now() + TEST_TIMEOUT, [("retention.ms", "-1")]);
        while let Err(error) = env.admin.create_topic(&env.topic, 1, 1, &keep) {
            assert!(Instant::now() < deadline, "{error}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        for number in 0..30 {
            env.send("A", &format!("new {number}"));
        }
        env.flush();
        // Records after the old position may come before the change is detected. If none do, the
        // offset equals that of the previous update and is sent as unchanged.
        let mut line = client.line();
        while line != "U,1,1,new 0|0" && line != "U,1,1,new 0|" {
            line = client.line();
        }
        for number in 1..30 {
            assert_eq!(client.line(), format!("U,1,1,new {number}|{number}"));
        }
        gateway.shut_down();
    }
}

fn topic_created_later_is_delivered_from_start() {
    let env = TestEnv::new();
    let later = format!("{}-later", env.topic);
    let gateway = Gateway::start(env.config(|xml| {
        let mapped = format!("map.{}.to", env.topic);
        xml.replace(&mapped, &format!("map.{later}.to"))
    }));
    let gateway = gateway.expect("a gateway");
    let missing = format!("connection QuickStart: not ready: missing topic \"{later}\"");
    wait_health(&gateway, |head, body| {
        head.starts_with("HTTP/1.1 503 ") && body.starts_with(&missing)
    });
    let mut client = Client::create(&gateway);
    client.subscribe(1, "ltest-[key=A]", "value offset");
    env.admin
        .create_topic(&later, 1, 1, &[("retention.ms", "-1")])
        .expect("created");
    env.produce_to(&later, "A", "first");
    assert_eq!(client.line(), "U,1,1,first|0");
    wait_health(&gateway, |head, body| {
        head.starts_with("HTTP/1.1 200 ") && body == "connection QuickStart: ready\n"
    });
    gateway.shut_down();
}

/// Waits for a response of `/health/ready`.
fn wait_health(gateway: &Gateway, wanted: impl Fn(&str, &str) -> bool) {
    let request = "GET /health/ready HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let (head, body) = http(gateway.admin_address(), request);
        if wanted(&head, &body) {
            return;
        }
        assert!(Instant::now() < deadline, "{head}\n{body}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

fn lag(gateway: &Gateway) -> Option<u64> {
    let request = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    let (_, body) = http(gateway.admin_address(), request);
    let start = "weir_gateway_kafka_lag_records{connection=\"QuickStart\"} ";
    let value = body.lines().find_map(|line| line.strip_prefix(start));
    value.map(|value| value.parse().expect("a number"))
}

fn wait_lag(gateway: &Gateway, wanted: Option<u64>) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while lag(gateway) != wanted {
        assert!(Instant::now() < deadline, "{:?}", lag(gateway));
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

fn lag_is_correct_while_paused_and_absent_without_brokers() {
    let options = LabOptions {
        heap_mb: 384,
        ..LabOptions::default()
    };
    let interrupted = AtomicBool::new(false);
    let mut lab = Lab::up(&options, &mut |_| {}, &interrupted).expect("a broker");
    let env = TestEnv::on(&lab.bootstrap(), 2);
    let gateway = env.start_gateway(|xml| xml);
    let mut client = Client::create(&gateway);
    client.subscribe(1, "ltest-[key=A]", "value");
    env.produce("A", "one");
    assert_eq!(client.line(), "U,1,1,one");
    wait_lag(&gateway, Some(0));
    client.send("control\r\nLS_reqId=2&LS_op=delete&LS_subId=1&LS_ack=false");
    assert_eq!(client.line(), "UNSUB,1");
    wait_metric(&gateway, "weir_gateway_routed_items", |items| items == 0);
    for number in 0..7 {
        env.produce(&format!("k{number}"), "unread");
    }
    wait_lag(&gateway, Some(7));
    lab.stop_broker(1).expect("stops");
    wait_lag(&gateway, None);
    lab.start_broker(1, &interrupted).expect("starts");
    wait_lag(&gateway, Some(7));
    wait_health(&gateway, |head, body| {
        head.starts_with("HTTP/1.1 200 ") && body == "connection QuickStart: ready\n"
    });
    client.subscribe(2, "ltest-[key=k0]", "value");
    assert_eq!(client.line(), "U,2,1,unread");
    wait_lag(&gateway, Some(0));
    gateway.shut_down();
}

fn json(strategy: &str) -> impl Fn(String) -> String {
    let settings = format!(
        r##"<param name="record.value.evaluator.type">JSON</param>
            <param name="record.extraction.error.strategy">{strategy}</param>
            <param name="field.name">#{{VALUE.name}}</param></data_provider>"##
    );
    move |xml| xml.replace("</data_provider>", &settings)
}

fn invalid_json_record_is_skipped_and_counted() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(json("IGNORE_AND_CONTINUE"));
    let mut client = Client::create(&gateway);
    client.subscribe(1, "ltest-[key=A]", "name offset");
    let mut keys_only = Client::create(&gateway);
    keys_only.subscribe(1, "ltest-[key=B]", "key offset");
    env.produce("A", r#"{"name":"one"}"#);
    assert_eq!(client.line(), "U,1,1,one|0");
    env.produce("A", "{no json");
    env.produce("A", r#"{"nameless":1}"#);
    env.produce("unused", "{no json");
    env.produce("B", "{no json, but its value has no subscriber");
    assert_eq!(keys_only.line(), "U,1,1,B|4");
    env.produce("A", r#"{"name":"two"}"#);
    assert_eq!(client.line(), "U,1,1,two|5");
    assert_eq!(metric(&gateway, FAILED), 2);
    assert_eq!(metric(&gateway, UNDECODABLE), 1);
    gateway.shut_down();
}

fn force_unsubscription_ends_each_subscription_once() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(json("FORCE_UNSUBSCRIPTION"));
    let mut client = Client::create(&gateway);
    client.subscribe(1, "ltest-[key=A]", "name offset");
    let mut other = Client::create(&gateway);
    other.subscribe(1, "ltest-[key=B]", "key");
    env.produce("A", "{no json");
    assert_eq!(client.line(), "UNSUB,1");
    assert_eq!(other.line(), "UNSUB,1");
    wait_metric(&gateway, "weir_gateway_routed_items", |items| items == 0);
    client.subscribe(2, "ltest-[key=A]", "name offset");
    env.produce("A", r#"{"name":"fine"}"#);
    assert_eq!(client.line(), "U,2,1,fine|1");
    assert_eq!(metric(&gateway, UNDECODABLE), 1);
    gateway.shut_down();
}
