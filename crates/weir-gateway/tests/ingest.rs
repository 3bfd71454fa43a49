//! Ingest from a real broker: extracted fields, delivered records.

mod support;

use support::{Client, TestEnv, metric};

#[test]
fn unsubscribed_field_is_not_extracted() {
    let env = TestEnv::new();
    let field = r#"<param name="field.flaky">#{HEADERS.missing}</param>"#;
    let gateway = env
        .start_gateway(|xml| xml.replace("</data_provider>", &format!("{field}</data_provider>")));
    let mut plain = Client::create(&gateway);
    plain.subscribe(1, "ltest-[key=Apple]", "key value");
    env.produce("Apple", "one");
    assert_eq!(plain.line(), "U,1,1,Apple|one");

    let mut flaky = Client::create(&gateway);
    flaky.subscribe(1, "ltest-[key=Apple]", "value flaky");
    env.produce("Apple", "a failed field drops the record for both");
    let failed = "weir_gateway_kafka_extraction_failures_total";
    support::wait_metric(&gateway, failed, |count| count == 1);
    flaky.send("control\r\nLS_reqId=2&LS_op=delete&LS_subId=1&LS_ack=false");
    assert_eq!(flaky.line(), "UNSUB,1");

    env.produce("Cherry", "unrouted");
    let mut late = Client::create(&gateway);
    late.subscribe(1, "ltest-[key=Apple]", "value offset");
    env.produce("Apple", "three");
    assert_eq!(late.line(), "U,1,1,three|3");
    plain.send("control\r\nLS_reqId=9&LS_op=destroy&LS_close_socket=true");
    gateway.shut_down();
}

#[test]
fn second_subscriber_gets_more_fields_from_first_update() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let mut narrow = Client::create(&gateway);
    narrow.subscribe(1, "ltest-[key=Apple]", "value");
    env.produce("Apple", "one");
    assert_eq!(narrow.line(), "U,1,1,one");
    let mut wide = Client::create(&gateway);
    wide.subscribe(1, "ltest-[key=Apple]", "key value ts partition offset");
    env.produce("Apple", "two");
    assert_eq!(wide.line(), "U,1,1,Apple|two|1700000000000|0|1");
    env.produce("Apple", "two");
    assert_eq!(wide.line(), "U,1,1,^4|2");
    drop(wide);
    env.produce("Apple", "four");
    let lines = [narrow.line(), narrow.line(), narrow.line()];
    assert_eq!(lines, ["U,1,1,two", "U,1,1,", "U,1,1,four"]);
    assert_eq!(
        metric(&gateway, "weir_gateway_kafka_extraction_failures_total"),
        0
    );
    gateway.shut_down();
}
