//! JSON over WebSocket with a real broker: items of one connection, identity, limits and hostile
//! clients.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use support::classes::Classes;
use support::json_socket::JsonSocket;
use support::{Client, TestEnv, http, metric, wait_metric};
use tungstenite::Message;
use weir_gateway::Gateway;
use weir_net::websocket::{Opcode, push_client_frame};

const STREAMS: &str = "weir_gateway_json_streams";
const READ: &str = "weir_gateway_kafka_records_total";

fn item(key: &str) -> String {
    format!("ltest-[key={key}]")
}

/// Starts a gateway with these limits.
fn limited(env: &TestEnv, limits: &str) -> Gateway {
    env.ready(env.config_with(&format!("[limits]\n{limits}\n"), |xml| xml))
}

fn subscribe(items: &[&str]) -> Value {
    json!({"type": "subscribe", "items": items, "fields": ["value"]})
}

fn unsubscribe(item: &str) -> Value {
    json!({"type": "unsubscribe", "items": [item]})
}

#[test]
fn items_are_added_and_removed() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let address = gateway.listen_address();
    let mut first = JsonSocket::open(address, subscribe(&["ltest-[key=a]"]));
    first.expect_about("subscribed", &item("a"));
    env.produce("a", "1");
    first.expect("snapshot", &item("a"), "value", "1");
    // The second client is on another event loop.
    let mut second = JsonSocket::open(address, subscribe(&["ltest-[key=b]", "ltest-[key=a]"]));
    second.expect_about("subscribed", &item("b"));
    second.expect_about("subscribed", &item("a"));
    second.expect("snapshot", &item("a"), "value", "1");
    env.produce("b", "line\n\"two\"");
    second.expect("snapshot", &item("b"), "value", "line\n\"two\"");
    first.send(subscribe(&["ltest-[key=b]"]));
    first.expect_about("subscribed", &item("b"));
    first.expect("snapshot", &item("b"), "value", "line\n\"two\"");
    first.send(unsubscribe("ltest-[key=a]"));
    first.expect_about("unsubscribed", &item("a"));
    env.produce("a", "2");
    env.produce("b", "3");
    second.expect("update", &item("a"), "value", "2");
    for client in [&mut first, &mut second] {
        client.expect("update", &item("b"), "value", "3");
    }
    first.send(subscribe(&["ltest-[key=a]"]));
    first.expect_about("subscribed", &item("a"));
    first.expect("snapshot", &item("a"), "value", "2");
    wait_metric(&gateway, STREAMS, |streams| streams == 2);
    drop((first, second));
    wait_metric(&gateway, "weir_gateway_sessions", |sessions| sessions == 0);
    wait_metric(&gateway, "weir_gateway_items", |items| items == 0);
    gateway.shut_down();
}

#[test]
fn refused_items_do_not_end_the_connection() {
    let env = TestEnv::new();
    let gateway = limited(&env, "subscriptions_per_session = 2");
    let address = gateway.listen_address();
    let mut client = JsonSocket::follow(address, &["other-[key=a]", "ltest-[key=a]"]);
    let refusal = |event: Value, item: &str, code: i32| {
        let got = [&event["event"], &event["item"]];
        assert_eq!(got, ["refused", item], "{event}");
        assert_eq!(event["code"], code, "{event}");
    };
    refusal(client.event(), "other-[key=a]", 21);
    client.expect_about("subscribed", &item("a"));
    client.send(json!({"type": "subscribe", "items": ["ltest-[key=a]"]}));
    refusal(client.event(), "ltest-[key=a]", 68);
    client.send(unsubscribe("ltest-[key=b]"));
    refusal(client.event(), "ltest-[key=b]", 19);
    let wrong = json!({"type": "subscribe", "items": ["ltest-[key=b]"], "adapter": "none"});
    client.send(wrong);
    refusal(client.event(), "ltest-[key=b]", 17);
    client.send(subscribe(&["ltest-[key=b]"]));
    client.expect_about("subscribed", &item("b"));
    client.send(subscribe(&["ltest-[key=c]"]));
    refusal(client.event(), "ltest-[key=c]", 68);
    env.produce("a", "1");
    client.expect("snapshot", &item("a"), "value", "1");
    gateway.shut_down();
    client.expect_end(48, "shutting down", 1001);
}

#[test]
fn limits_of_sessions_hold() {
    let env = TestEnv::new();
    // Each event loop has its part of the sessions.
    let gateway = limited(&env, "sessions = 2");
    let address = gateway.listen_address();
    let held = [(); 2].map(|()| JsonSocket::follow(address, &["ltest-[key=a]"]));
    let mut third = JsonSocket::connect(address, &[]).expect("a WebSocket");
    third.send(subscribe(&["ltest-[key=a]"]));
    third.expect_end(6, "too many sessions", 1013);
    drop(held);
    wait_metric(&gateway, "weir_gateway_sessions", |sessions| sessions == 0);
    JsonSocket::follow(address, &["ltest-[key=a]"]);
    gateway.shut_down();
}

#[test]
fn identity_and_rules_apply_as_for_sdks() {
    let classes = Classes::new();
    let rules = "[[authorize]]\nname = \"own\"\nitems = [\"news\"]\n\
                 where = \"VALUE.tenant = {claims.tenant}\"\n\
                 [auth]\nsources = [\"header\", \"password\"]";
    let fields = [
        ("record.value.evaluator.type", "JSON"),
        ("field.text", "#{VALUE.text}"),
    ];
    let gateway = classes.start_with_auth(&format!("{rules}\n"), "news", &fields);
    let address = gateway.listen_address();
    let token = |tenant: &str| classes.token(&format!(r#"{{"tenant":"{tenant}"}}"#));
    let (acme, zeta) = (token("acme"), token("zeta"));
    let first = |password: Option<&str>| {
        let items = ["news"];
        json!({"type": "subscribe", "items": items, "password": password})
    };
    for password in [None, Some(""), Some("x.y.z")] {
        let mut refused = JsonSocket::connect(address, &[]).expect("a WebSocket");
        refused.send(first(password));
        refused.expect_end(1, "", 1008);
    }
    let mut no_tenant = JsonSocket::open(address, first(Some(&classes.token("{}"))));
    let event = no_tenant.event();
    assert_eq!(event["event"], "refused", "{event}");
    assert_eq!(event["code"], -2, "{event}");
    let mut by_message = JsonSocket::open(address, first(Some(&acme)));
    let bearer = format!("Bearer {zeta}");
    let mut by_header = JsonSocket::connect(address, &[("Authorization", &bearer)]).expect("one");
    by_header.send(first(None));
    by_header.expect_open();
    for client in [&mut by_message, &mut by_header] {
        client.expect_about("subscribed", "news");
    }
    for (tenant, text) in [("zeta", "1"), ("acme", "2")] {
        classes.news(&format!("\"{tenant}\""), text);
    }
    by_message.expect("snapshot", "news", "text", "2");
    by_header.expect("snapshot", "news", "text", "1");
    by_message.send(first(Some(&acme)));
    by_message.expect_end(67, "only the first message", 1008);
    gateway.shut_down();
}

#[test]
fn slow_reader_gets_the_latest_values() {
    const RECORDS: u64 = 400;
    let env = TestEnv::new();
    let gateway = limited(&env, "queue_bytes = 100000");
    let mut slow = JsonSocket::open(gateway.listen_address(), subscribe(&["ltest-[key=a]"]));
    slow.expect_about("subscribed", &item("a"));
    let payload = "x".repeat(50_000);
    for number in 0..RECORDS {
        env.send("a", &format!("{number}-{payload}"));
    }
    env.send("a", "last");
    env.flush();
    wait_metric(&gateway, READ, |records| records == RECORDS + 1);
    wait_metric(&gateway, "weir_gateway_updates_conflated_total", |count| {
        count > RECORDS / 4
    });
    let mut events = 0;
    while slow.event()["values"]["value"] != "last" {
        events += 1;
    }
    assert!(events < RECORDS, "{events}");
    assert_eq!(metric(&gateway, "weir_gateway_updates_lost_total"), 0);
    gateway.shut_down();
}

#[test]
fn invalid_messages_end_connection() {
    let env = TestEnv::new();
    let gateway = limited(&env, "subscriptions_per_session = 2\nrequest_bytes = 2000");
    let address = gateway.listen_address();
    for (text, reason) in [
        ("wsok", "JSON object"),
        ("{}", "missing field"),
        (
            r#"{"type":"unsubscribe","items":["a"]}"#,
            "nothing is subscribed",
        ),
        (r#"{"type":"subscribe","items":[]}"#, "name an item"),
        (
            r#"{"type":"subscribe","items":["a","b","c"]}"#,
            "more than 2",
        ),
        (
            &format!(
                r#"{{"type":"subscribe","items":["{}"]}}"#,
                "a".repeat(1_001)
            ),
            "1000 bytes",
        ),
        (
            &format!(r#"{{"type":"subscribe","items":{}"#, "[".repeat(1_500)),
            "recursion limit",
        ),
    ] {
        let mut client = JsonSocket::connect(address, &[]).expect("a WebSocket");
        client
            .socket
            .send(Message::text(text))
            .expect("the gateway reads");
        client.expect_end(67, reason, 1008);
    }
    let mut client = JsonSocket::follow(address, &["ltest-[key=a]"]);
    client.expect_about("subscribed", &item("a"));
    client
        .socket
        .send(Message::text("control\r\nLS_op=destroy"))
        .expect("the gateway reads");
    client.expect_end(67, "JSON object", 1008);
    wait_metric(&gateway, "weir_gateway_connections", |open| open == 0);
    gateway.shut_down();
}

/// Opens a WebSocket without a library.
fn raw(gateway: &Gateway) -> TcpStream {
    let socket = JsonSocket::connect(gateway.listen_address(), &[]).expect("a WebSocket");
    socket.socket.into_inner()
}

/// Returns the code of the first frame, which must be a close frame.
fn close_code(stream: &mut TcpStream) -> u16 {
    let mut frame = [0; 4];
    stream.read_exact(&mut frame).expect("a frame");
    assert_eq!(frame[0], 0x88, "a close frame: {frame:?}");
    u16::from_be_bytes([frame[2], frame[3]])
}

#[test]
fn hostile_frames_are_refused() {
    let env = TestEnv::new();
    let gateway = limited(&env, "request_bytes = 2000");
    let mut masked = Vec::new();
    push_client_frame(&mut masked, Opcode::Text, [1; 4], &[b'x'; 2_001]);
    // The head of a frame of 8 EiB, and an unmasked one.
    let huge = [
        0x81, 0xff, 0x7f, 255, 255, 255, 255, 255, 255, 255, 1, 1, 1, 1,
    ];
    let unmasked = [0x81, 2, b'{', b'}'];
    let mut fragments = vec![0x01, 0x80 | 126, 0x07, 0xd0, 0, 0, 0, 0];
    fragments.extend([b' '; 2_000]);
    fragments.extend([0x80, 0x81, 0, 0, 0, 0, b'{']);
    for (bytes, code) in [
        (&masked[..], 1009),
        (&huge, 1009),
        (&unmasked, 1002),
        (&fragments, 1009),
        (&[0x82, 0x80, 0, 0, 0, 0], 1003),
    ] {
        let mut stream = raw(&gateway);
        stream.write_all(bytes).expect("the gateway reads");
        assert_eq!(close_code(&mut stream), code, "{:?}", &bytes[..4]);
    }
    // A message in fragments is a message, with a ping between them.
    let (begin, end) = (r#"{"type":"subscribe","ite"#, r#"ms":["ltest-[key=a]"]}"#);
    let mut frames = Vec::new();
    push_client_frame(&mut frames, Opcode::Text, [0; 4], begin.as_bytes());
    frames[0] &= 0x7f;
    push_client_frame(&mut frames, Opcode::Ping, [1; 4], b"p");
    push_client_frame(&mut frames, Opcode::Continuation, [2; 4], end.as_bytes());
    let mut client = JsonSocket::connect(gateway.listen_address(), &[]).expect("a WebSocket");
    client.socket.get_mut().write_all(&frames).expect("sent");
    let pong = client.socket.read().expect("a frame");
    assert_eq!(pong, Message::Pong("p".into()));
    client.expect_open();
    client.expect_about("subscribed", &item("a"));
    gateway.shut_down();
}

#[test]
fn other_pages_and_plain_requests_are_refused() {
    let env = TestEnv::new();
    let config = env.config_with("allowed_origins = [\"https://app.example\"]\n", |xml| xml);
    let gateway = env.ready(config);
    let address = gateway.listen_address();
    let open = |origin| JsonSocket::connect(address, &[("Origin", origin)]).map(drop);
    assert_eq!(open("https://app.example"), Ok(()));
    assert_eq!(open("https://evil.example"), Err(403));
    let request = "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let (head, _) = http(address, request);
    assert!(head.starts_with("HTTP/1.1 426 "), "{head}");
    gateway.shut_down();
}

#[test]
fn clients_of_three_kinds_get_the_same_update() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let address = gateway.listen_address();
    let mut sdk = Client::create(&gateway);
    sdk.subscribe(1, &item("a"), "value");
    let mut events = support::sse::Events::open(address, "item=ltest-[key=a]&fields=value");
    let mut json = JsonSocket::open(address, subscribe(&["ltest-[key=a]"]));
    json.expect_about("subscribed", &item("a"));
    env.produce("a", "1");
    assert_eq!(sdk.line(), "U,1,1,1");
    events.expect("snapshot", &item("a"), "value", "1");
    json.expect("snapshot", &item("a"), "value", "1");
    gateway.shut_down();
}
