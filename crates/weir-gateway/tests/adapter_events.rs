//! A remote Metadata Adapter decides about clients without an SDK, over both transports.

mod support;

use serde_json::{Value, json};
use support::adapter::{Adapter, AdapterEnv, node};
use support::json_socket::JsonSocket;
use support::sse::Events;
use support::wait_metric;

fn first(user: &str, items: &[&str]) -> Value {
    json!({
        "type": "subscribe", "user": user, "password": "pw|1", "items": items,
        "fields": ["value"],
    })
}

fn connect(env: &AdapterEnv, user: &str, items: &[&str]) -> JsonSocket {
    let socket = JsonSocket::connect(env.gateway.listen_address(), &[]);
    let mut socket = socket.expect("a WebSocket");
    socket.send(first(user, items));
    socket
}

fn refused(socket: &mut JsonSocket, item: &str, code: i32) {
    let event = socket.event();
    let got = [&event["event"], &event["item"]];
    assert_eq!(got, ["refused", item], "{event}");
    assert_eq!(event["code"], code, "{event}");
}

#[test]
fn adapter_decides_about_sockets() {
    let env = AdapterEnv::start(str::to_owned);
    connect(&env, "anna", &["own"]).expect_end(6, "busy", 1013);
    let adapter = Adapter::start(node(), env.address());
    env.wait_ready();
    connect(&env, "bad", &["own"]).expect_end(1, "rejected", 1008);
    connect(&env, "blocked", &["own"]).expect_end(-7, "Daily limit", 1008);
    let items = ["own", "unknown", "ltest-[key=a]", "full"];
    let mut anna = connect(&env, "anna", &items);
    anna.expect_open();
    // Decisions come in any order.
    let mut events: Vec<_> = (0..4).map(|_| anna.event()).collect();
    events.sort_by_key(|event| event["code"].as_i64());
    let about = |event: &Value| {
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        (text("event"), text("item"), event["code"].as_i64())
    };
    let got: Vec<_> = events.iter().map(about).collect();
    let subscribed = |item: &str| ("subscribed".to_owned(), item.to_owned(), None);
    assert!(
        got[..2].contains(&subscribed("ltest-[key=anna]")),
        "{got:?}"
    );
    assert!(got[..2].contains(&subscribed("ltest-[key=a]")), "{got:?}");
    assert_eq!((got[2].2, got[3].2), (Some(-5), Some(21)), "{got:?}");
    env.env.produce("anna", "1");
    anna.expect("snapshot", "ltest-[key=anna]", "value", "1");
    let more = |items: &[&str], fields: &[&str]| {
        let kind = "subscribe";
        json!({"type": kind, "items": items, "fields": fields})
    };
    anna.send(more(&["ltest-[key=b]"], &["secret"]));
    refused(&mut anna, "ltest-[key=b]", 23);
    anna.send(more(&["ltest-[key=b]"], &["value"]));
    anna.expect_about("subscribed", "ltest-[key=b]");
    anna.send(more(&["ltest-[key=a]"], &["value"]));
    refused(&mut anna, "ltest-[key=a]", 68);
    for item in ["ltest-[key=anna]", "ltest-[key=b]"] {
        anna.send(json!({"type": "unsubscribe", "items": [item]}));
        anna.expect_about("unsubscribed", item);
    }
    anna.send(json!({"type": "unsubscribe", "items": ["ltest-[key=b]"]}));
    refused(&mut anna, "ltest-[key=b]", 19);
    env.env.produce("anna", "2");
    env.env.produce("a", "3");
    anna.expect("snapshot", "ltest-[key=a]", "value", "3");
    env.wait_audit(&["\"subscribe\"", "\"deny\"", "\"code\":-5"]);
    // A session ends with its connection.
    drop(anna);
    wait_metric(&env.gateway, "weir_gateway_sessions", |open| open == 0);
    drop(adapter);
    env.wait_adapter_left();
    connect(&env, "anna", &["own"]).expect_end(6, "busy", 1013);
    env.gateway.shut_down();
}

#[test]
fn adapter_decides_about_streams() {
    let env = AdapterEnv::start(str::to_owned);
    let address = env.gateway.listen_address();
    let query = |item: &str| format!("item={item}&fields=value");
    let busy = Events::open_with(address, &query("ltest-[key=a]"), "");
    assert_eq!(busy.err().expect("a refusal").0, 503);
    let adapter = Adapter::start(node(), env.address());
    env.wait_ready();
    let mut accepted = Events::open(address, &query("ltest-[key=a]"));
    wait_metric(&env.gateway, "weir_gateway_subscriptions", |count| {
        count == 1
    });
    env.env.produce("a", "1");
    accepted.expect("snapshot", "ltest-[key=a]", "value", "1");
    for (item, code) in [("unknown", 21), ("full", -5)] {
        let mut refused = Events::open(address, &query(item));
        let (event, data) = refused.next().expect("an event");
        assert_eq!(
            (event.as_str(), &data["code"]),
            ("end", &code.into()),
            "{item}"
        );
        assert!(refused.next().is_none());
    }
    drop(accepted);
    wait_metric(&env.gateway, "weir_gateway_sessions", |open| open == 0);
    drop(adapter);
    env.gateway.shut_down();
}
