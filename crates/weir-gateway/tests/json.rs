//! JSON keys and values through a running gateway, including invalid records.

mod support;

use support::{Client, TestEnv, metric, wait_metric};

/// Returns a change of the scenario's configuration to JSON values with additional parameters.
fn with(more: &str) -> impl FnOnce(String) -> String {
    let parameters = format!(
        "<param name=\"record.value.evaluator.type\">JSON</param>\
         <param name=\"field.price\">#{{VALUE.price}}</param>\
         <param name=\"field.bid\">#{{VALUE.bids[1].size}}</param>{more}</data_provider>"
    );
    move |xml| {
        let xml = xml.replace("<param name=\"field.value\">#{VALUE}</param>", "");
        xml.replacen("</data_provider>", &parameters, 1)
    }
}

#[test]
fn invalid_json_record_is_counted_and_skipped() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(with(""));
    let mut client = Client::create(&gateway);
    client.subscribe(1, "ltest-[key=Kiwi]", "price bid");
    env.produce("Kiwi", r#"{"price":1.10,"bids":[0,{"size":100}]}"#);
    assert_eq!(client.line(), "U,1,1,1.1|100");
    for broken in ["no JSON", "", "{\"price\":1", "{\"price\":\"\u{1}\"}", "[]"] {
        env.produce("Kiwi", broken);
    }
    env.produce(
        "Kiwi",
        r#"{"price":null,"bids":[0,{"size":"a|b"}],"more":[]}"#,
    );
    assert_eq!(client.line(), "U,1,1,#|a%7Cb");
    assert_eq!(
        metric(&gateway, "weir_gateway_kafka_extraction_failures_total"),
        5
    );

    // Records without subscribers are not parsed.
    env.produce("Mango", "no JSON");
    env.produce("Kiwi", r#"{"price":2,"bids":[0,{"size":1}]}"#);
    assert_eq!(client.line(), "U,1,1,2|1");
    assert_eq!(
        metric(&gateway, "weir_gateway_kafka_extraction_failures_total"),
        5
    );
    gateway.shut_down();
}

#[test]
fn unsubscribed_field_cannot_fail_a_record() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(with(""));
    let mut client = Client::create(&gateway);
    client.subscribe(1, "ltest-[key=Fig]", "price");
    env.produce("Fig", r#"{"price":7,"bids":"closed"}"#);
    assert_eq!(client.line(), "U,1,1,7");
    // With a subscriber of the field, the same record is an error for all.
    client.subscribe(2, "ltest-[key=Fig]", "bid");
    env.produce("Fig", r#"{"price":8,"bids":"closed"}"#);
    wait_metric(
        &gateway,
        "weir_gateway_kafka_extraction_failures_total",
        |failed| failed == 1,
    );
    gateway.shut_down();
}

#[test]
fn error_strategy_applies_to_invalid_json() {
    let env = TestEnv::new();
    let strategy = "<param name=\"record.extraction.error.strategy\">FORCE_UNSUBSCRIPTION</param>";
    let gateway = env.start_gateway(with(strategy));
    let mut client = Client::create(&gateway);
    client.subscribe(1, "ltest-[key=Plum]", "price");
    env.produce("Plum", "no JSON");
    assert_eq!(client.line(), "UNSUB,1");
    gateway.shut_down();
}

#[test]
fn documents_are_checked_against_a_local_schema() {
    let env = TestEnv::new();
    let schema = r#"{"type": "object", "required": ["price"],
        "properties": {"price": {"type": "number", "maximum": 100}}}"#;
    env.write("price.json", schema);
    let path = r#"<param name="record.value.evaluator.schema.path">price.json</param>"#;
    let gateway = env.start_gateway(with(path));
    let mut client = Client::create(&gateway);
    client.subscribe(1, "ltest-[key=Pear]", "price");
    env.produce("Pear", r#"{"price":1}"#);
    assert_eq!(client.line(), "U,1,1,1");
    for mismatch in [
        r#"{"price":"1"}"#,
        r#"{"price":101}"#,
        "[]",
        r#"{"bids":1}"#,
    ] {
        env.produce("Pear", mismatch);
    }
    env.produce("Pear", r#"{"price":100}"#);
    assert_eq!(client.line(), "U,1,1,100");
    let (_, metrics) = support::http(
        gateway.admin_address(),
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    );
    let line = "weir_gateway_kafka_extraction_failures_total\
                {connection=\"QuickStart\",reason=\"schema_mismatch\"} 4";
    assert!(metrics.contains(line), "{metrics}");
    gateway.shut_down();
}
