//! Revocations that two gateways share through a topic of a real broker.

mod support;

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use serde_json::json;
use support::admin::{Administered, IDENTIFIED, SECRET, TOKENS, create};
use support::{TEST_TIMEOUT, TestEnv, http, metric, wait_metric};
use weir_gateway::Gateway;
use weir_kafka::KafkaSettings;
use weir_kafka::peek::sample;
use weir_lab::{Lab, LabOptions};

const REVOCATIONS: &str = "weir_gateway_revocations";
/// Time for other gateways to apply a revocation.
const SPREAD_TIME: Duration = Duration::from_secs(2);

fn sections(topic: &str) -> String {
    format!("{IDENTIFIED}[auth.revocations]\nconnection = \"QuickStart\"\ntopic = \"{topic}\"\n")
}

/// Creates a compacted topic next to that of the environment.
fn table(env: &TestEnv, partitions: i32) -> String {
    let topic = format!("{}-revocations", env.topic);
    let compact = [("cleanup.policy", "compact")];
    let created = env.admin.create_topic(&topic, partitions, 1, &compact);
    created.expect("a new topic");
    topic
}

fn revocation(jti: &str) -> String {
    json!({ "issuer": "https://id.example", "jti": jti, "expires": "2100-01-01T00:00:00Z" })
        .to_string()
}

fn is_refused(gateway: &Gateway, token: &str) -> bool {
    create(gateway, token).1 == "CONERR,1,User or password refused"
}

#[test]
fn revocation_reaches_other_gateway_and_survives_restarts() {
    let (env, other) = (TestEnv::new(), TestEnv::new());
    let sections = sections(&table(&env, 2));
    let (one, two) = (
        Administered::on(env, &sections),
        Administered::on(other, &sections),
    );
    let (mut here, _) = create(&one.gateway, TOKENS[0]);
    let (mut there, _) = create(&two.gateway, TOKENS[0]);
    let (mut other_token, _) = create(&two.gateway, TOKENS[1]);
    let (status, revoked) = one.call("POST /admin/v1/revocations", &revocation("t-1"));
    let acknowledged = Instant::now();
    assert_eq!(status, 200, "{revoked}");
    assert_eq!(there.line(), "END,-10,Revoked");
    let took = acknowledged.elapsed();
    assert!(took < SPREAD_TIME, "{took:?}");
    assert_eq!(here.line(), "END,-10,Revoked");
    assert!(is_refused(&two.gateway, TOKENS[0]));
    other_token.subscribe(1, "ltest-[key=A]", "value");
    let (_, list) = two.call("GET /admin/v1/revocations", "");
    assert_eq!(
        list["revocations"],
        json!([revoked]),
        "the other gateway lists it"
    );
    // Both are stopped, so that only the topic knows it.
    let (env, other) = (one.stop(), two.stop());
    let (one, two) = (
        Administered::on(env, &sections),
        Administered::on(other, &sections),
    );
    for gateway in [&one.gateway, &two.gateway] {
        assert!(is_refused(gateway, TOKENS[0]));
        assert_eq!(metric(gateway, REVOCATIONS), 1);
    }
    // Withdrawn at the other gateway, also for the first.
    let id = revoked["id"].as_str().expect("an id");
    let (status, _) = two.call(&format!("DELETE /admin/v1/revocations/{id}"), "");
    let acknowledged = Instant::now();
    assert_eq!(status, 200);
    wait_metric(&one.gateway, REVOCATIONS, |count| count == 0);
    assert!(acknowledged.elapsed() < SPREAD_TIME);
    assert!(create(&one.gateway, TOKENS[0]).1.starts_with("CONOK,"));
    let one = Administered::on(one.stop(), &sections);
    assert!(create(&one.gateway, TOKENS[0]).1.starts_with("CONOK,"));
    one.gateway.shut_down();
    two.gateway.shut_down();
}

#[test]
fn expired_revocation_is_removed_from_topic() {
    let env = TestEnv::new();
    let topic = table(&env, 1);
    let kafka = KafkaSettings::plaintext(env.bootstrap());
    // Its tokens ended long ago; what follows cannot be read.
    let key = r#"{"issuer":"https://id.example","jti":"t-1"}"#;
    let value = format!(r#"{{"key":{key},"expires_ms":1000}}"#);
    env.produce_to(&topic, key, &value);
    env.produce_to(&topic, "x", "no revocation");
    let own = Administered::on(env, &sections(&topic));
    assert!(
        create(&own.gateway, TOKENS[0]).1.starts_with("CONOK,"),
        "it has no effect"
    );
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let records = sample(&kafka, &topic, 10, 10_000, TEST_TIMEOUT).expect("a readable topic");
        let last = records.last().expect("records");
        if last.value.is_none() {
            assert_eq!(last.key.as_deref(), Some(key.as_bytes()));
            break;
        }
        assert!(Instant::now() < deadline, "{records:?}");
    }
    own.gateway.shut_down();
}

#[test]
fn outage_is_reported_and_applied_here() {
    let options = LabOptions {
        heap_mb: 384,
        ..LabOptions::default()
    };
    let interrupted = AtomicBool::new(false);
    let mut lab = Lab::up(&options, &mut |_| {}, &interrupted).expect("a broker");
    let (env, other) = (
        TestEnv::on(&lab.bootstrap(), 1),
        TestEnv::on(&lab.bootstrap(), 1),
    );
    let sections = sections(&table(&env, 1));
    let (one, two) = (
        Administered::on(env, &sections),
        Administered::on(other, &sections),
    );
    let third = TestEnv::on(&lab.bootstrap(), 1);
    let (mut here, _) = create(&one.gateway, TOKENS[0]);
    let (mut there, _) = create(&two.gateway, TOKENS[0]);
    lab.stop_broker(1).expect("stops");
    let (status, body) = one.call("POST /admin/v1/revocations", &revocation("t-1"));
    let text = body["error"].as_str().expect("an error");
    assert!(
        status == 503 && text.contains("applies to this gateway only"),
        "{status} {text}"
    );
    assert_eq!(here.line(), "END,-10,Revoked", "applied here");
    assert!(is_refused(&one.gateway, TOKENS[0]));
    one.wait_audit("the failure", |line| line["reason"] == "not_shared");
    assert!(
        create(&two.gateway, TOKENS[0]).1.starts_with("CONOK,"),
        "nothing is known there"
    );
    // A gateway that has never read the topic admits no client with a token.
    third.write("secret", SECRET);
    let unready = Gateway::start(third.config_with(&sections, |xml| xml)).expect("a gateway");
    let request = "GET /health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let (head, body) = http(unready.admin_address(), request);
    assert!(
        head.contains(" 503 ") && body.contains("revocations: "),
        "{head}\n{body}"
    );
    assert!(create(&unready, TOKENS[1]).1.starts_with("CONERR,6,"));
    unready.shut_down();
    lab.start_broker(1, &interrupted).expect("starts");
    let deadline = Instant::now() + TEST_TIMEOUT;
    while one.call("POST /admin/v1/revocations", &revocation("t-1")).0 != 200 {
        assert!(Instant::now() < deadline, "the broker is back");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(there.line(), "END,-10,Revoked");
    one.gateway.shut_down();
    two.gateway.shut_down();
}
