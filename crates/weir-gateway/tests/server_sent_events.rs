//! Server-sent events with a real broker: snapshots, updates, refusals, identity and slow readers.

mod support;

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use support::classes::Classes;
use support::sse::Events;
use support::{Client, TestEnv, http, metric, skipped, wait_metric};
use weir_gateway::Gateway;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/events");
const STREAMS: &str = "weir_gateway_sse_streams";
const READ: &str = "weir_gateway_kafka_records_total";

/// Records of the topic select by a member of their value.
const RULES: &str = r#"
[[authorize]]
name = "tenant news"
items = ["news"]
where = "VALUE.tenant = {claims.tenant}"
"#;
const NEWS: &[(&str, &str)] = &[
    ("record.value.evaluator.type", "JSON"),
    ("field.text", "#{VALUE.text}"),
];

fn item(key: &str) -> String {
    format!("ltest-[key={key}]")
}

fn refused(gateway: &Gateway, query: &str, head: &str) -> (u16, String) {
    let opened = Events::open_with(gateway.listen_address(), query, head);
    opened.err().expect("a refusal")
}

/// Starts a gateway with these limits.
fn limited(env: &TestEnv, limits: &str) -> Gateway {
    env.ready(env.config_with(&format!("[limits]\n{limits}\n"), |xml| xml))
}

#[test]
fn snapshots_precede_updates_of_several_items() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let address = gateway.listen_address();
    let mut first = Events::open(address, "item=ltest-[key=a]");
    env.produce("a", "1");
    first.expect("snapshot", &item("a"), "value", "1");
    let query = "item=ltest-%5Bkey%3Db%5D&item=ltest-%5Bkey%3Da%5D&fields=value";
    let mut both = Events::open(address, query);
    both.expect("snapshot", &item("a"), "value", "1");
    env.produce("b", "line\n\"two\"");
    both.expect("snapshot", &item("b"), "value", "line\n\"two\"");
    env.produce("a", "2");
    let (event, data) = first.next().expect("an update");
    assert_eq!(
        (event.as_str(), &data["item"]),
        ("update", &item("a").into())
    );
    let values = data["values"].as_object().expect("values");
    let names: Vec<_> = values.keys().map(String::as_str).collect();
    assert_eq!(names, ["key", "offset", "partition", "ts", "value"]);
    both.expect("update", &item("a"), "value", "2");
    // MERGE sends no update that changes nothing.
    env.produce("a", "2");
    env.produce("a", "3");
    both.expect("update", &item("a"), "value", "3");
    wait_metric(&gateway, STREAMS, |streams| streams == 2);
    drop((first, both));
    wait_metric(&gateway, "weir_gateway_sessions", |sessions| sessions == 0);
    wait_metric(&gateway, "weir_gateway_items", |items| items == 0);
    gateway.shut_down();
}

#[test]
fn other_modes_deliver_every_record() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let address = gateway.listen_address();
    let mut raw = Events::open(address, "item=ltest-[key=a]&mode=raw&fields=value");
    let mut distinct = Events::open(address, "item=ltest-[key=a]&mode=distinct&fields=value");
    let (event, _) = distinct.next().expect("the end of an empty snapshot");
    assert_eq!(event, "end-of-snapshot");
    for _ in 0..3 {
        env.produce("a", "same");
        for client in [&mut raw, &mut distinct] {
            client.expect("update", &item("a"), "value", "same");
        }
    }
    let mut later = Events::open(address, "item=ltest-[key=a]&mode=distinct&fields=value");
    for _ in 0..3 {
        later.expect("snapshot", &item("a"), "value", "same");
    }
    assert_eq!(later.next().expect("an end").0, "end-of-snapshot");
    gateway.shut_down();
}

#[test]
fn refusals_have_a_status_and_a_reason() {
    let env = TestEnv::new();
    let gateway = limited(&env, "subscriptions_per_session = 2\nsessions = 1");
    for (query, status, reason) in [
        ("", 400, "name an item: item=NAME"),
        ("item=a&x=1", 400, "no such parameter"),
        ("item=%", 404, "Invalid Item"),
        ("item=other-[key=a]", 404, "other-[key=a]"),
        ("item=ltest-[key=a]%20ltest-[key=b]", 404, "no topic"),
        (
            "item=ltest-[key=a]&adapter=none",
            404,
            "no data adapter \"none\"",
        ),
        ("item=ltest-[key=a]&mode=command", 400, "no command field"),
        ("item=a&item=b&item=c", 400, "more than 2 items"),
        (
            &format!("item={}", "a".repeat(1_001)),
            400,
            "longer than 1000",
        ),
        (&format!("item={}", "a".repeat(20_000)), 431, ""),
        (&"item=&".repeat(1_000), 400, "empty name"),
    ] {
        let (got, text) = refused(&gateway, query, "");
        assert_eq!(got, status, "{query:.40}: {text}");
        assert!(text.contains(reason), "{query:.40}: {text}");
    }
    let request = |head: &str| {
        let request = format!("{head}\r\nHost: x\r\nConnection: close\r\n\r\n");
        http(gateway.listen_address(), &request)
    };
    let (head, _) = request("POST /sse?item=a HTTP/1.1");
    assert!(head.starts_with("HTTP/1.1 405 "), "{head}");
    let (head, _) = request("GET /sse?item=a HTTP/1.0");
    assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
    let preflight = "OPTIONS /sse HTTP/1.1\r\nOrigin: http://x\r\n\
                     Access-Control-Request-Headers: authorization";
    let (head, _) = request(preflight);
    assert!(head.starts_with("HTTP/1.1 204 "), "{head}");
    assert!(head.contains("Access-Control-Allow-Headers: authorization"));
    gateway.shut_down();
}

#[test]
fn limits_of_sessions_hold() {
    let env = TestEnv::new();
    // Each event loop has its part of the sessions.
    let gateway = limited(&env, "sessions = 2");
    let query = "item=ltest-[key=a]";
    let held = [(); 2].map(|()| Events::open(gateway.listen_address(), query));
    let (status, text) = refused(&gateway, query, "");
    assert_eq!(
        (status, text.as_str()),
        (503, "too many sessions, try again later")
    );
    drop(held);
    wait_metric(&gateway, "weir_gateway_sessions", |sessions| sessions == 0);
    Events::open(gateway.listen_address(), query);
    gateway.shut_down();
}

#[test]
fn identity_and_rules_apply_as_for_sdks() {
    let classes = Classes::new();
    let sources = "sources = [\"header\", \"cookie:id\"]";
    let toml = format!("{RULES}\n[auth]\n{sources}\n");
    let gateway = classes.start_with_auth(&toml, "news", NEWS);
    let token = |tenant: &str| classes.token(&format!(r#"{{"tenant":"{tenant}"}}"#));
    let (acme, zeta) = (token("acme"), token("zeta"));
    let open = |head: &str| Events::open_with(gateway.listen_address(), "item=news", head);
    for (head, status) in [
        (String::new(), 401),
        ("Authorization: Bearer x.y.z\r\n".to_owned(), 401),
        (
            format!("Authorization: Bearer {}\r\n", classes.token("{}")),
            403,
        ),
    ] {
        let (got, text) = open(&head).err().expect("a refusal");
        assert_eq!(got, status, "{head}: {text}");
    }
    let mut by_header = open(&format!("Authorization: Bearer {acme}\r\n")).expect("a stream");
    let mut by_cookie = open(&format!("Cookie: a=b; id={zeta}\r\n")).expect("a stream");
    for (tenant, text) in [("zeta", "1"), ("acme", "2"), ("zeta", "3"), ("acme", "4")] {
        let value = format!(r#"{{"tenant":"{tenant}","text":"{text}"}}"#);
        classes.env.produce("k", &value);
    }
    by_header.expect("snapshot", "news", "text", "2");
    by_header.expect("update", "news", "text", "4");
    by_cookie.expect("snapshot", "news", "text", "1");
    by_cookie.expect("update", "news", "text", "3");
    gateway.shut_down();
}

#[test]
fn slow_reader_gets_the_latest_values() {
    const RECORDS: u64 = 400;
    let env = TestEnv::new();
    let gateway = limited(&env, "queue_bytes = 100000");
    let address = gateway.listen_address();
    let stream = TcpStream::connect(address).expect("a connection");
    let mut slow = Events::open_over(stream, "item=ltest-[key=a]&fields=value", "").expect("one");
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
    while slow.value("value").2 != "last" {
        events += 1;
    }
    assert!(events < RECORDS, "{events}");
    assert_eq!(metric(&gateway, "weir_gateway_updates_lost_total"), 0);
    gateway.shut_down();
}

#[test]
fn shutdown_ends_streams_with_an_event() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let mut events = Events::open(gateway.listen_address(), "item=ltest-[key=a]");
    gateway.shut_down();
    let (event, data) = events.next().expect("an event");
    assert_eq!((event.as_str(), &data["code"]), ("end", &48.into()));
    assert!(events.next().is_none());
}

#[test]
fn disconnected_clients_of_both_kinds_leave_nothing() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let mut sdk = Client::create(&gateway);
    sdk.subscribe(1, &item("a"), "value");
    let mut events: Vec<_> = (0..20)
        .map(|_| Events::open(gateway.listen_address(), "item=ltest-[key=a]&fields=value"))
        .collect();
    env.produce("a", "1");
    assert_eq!(sdk.line(), "U,1,1,1");
    for client in &mut events {
        client.expect("snapshot", &item("a"), "value", "1");
    }
    drop(events);
    wait_metric(&gateway, "weir_gateway_sessions", |sessions| sessions == 1);
    env.produce("a", "2");
    assert_eq!(sdk.line(), "U,1,1,2");
    gateway.shut_down();
}

#[test]
fn curl_prints_events() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let url = format!("http://{}/sse?item=ltest-[key=a]", gateway.listen_address());
    let curl = Command::new("curl")
        .args(["--globoff", "--no-buffer", "--silent", "--show-error", &url])
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut curl) = curl else {
        return skipped("curl is not installed");
    };
    wait_metric(&gateway, STREAMS, |streams| streams == 1);
    env.produce("a", "1");
    let output = BufReader::new(curl.stdout.take().expect("its output"));
    let mut lines = output.lines().map(|line| line.expect("text"));
    let event = lines.find(|line| line.starts_with("event: "));
    assert_eq!(event.expect("an event"), "event: snapshot");
    let data = lines.next().expect("data");
    assert!(data.contains(r#""value":"1""#), "{data}");
    gateway.shut_down();
    let rest: Vec<_> = lines.collect();
    assert!(rest.contains(&"event: end".to_owned()), "{rest:?}");
    assert!(curl.wait().expect("an exit").success());
}

/// Starts a program of the examples for two keys.
fn example(program: &str, arguments: &[&str], gateway: &Gateway) -> Option<Child> {
    let url = format!("http://{}", gateway.listen_address());
    let mut command = Command::new(program);
    command.current_dir(EXAMPLES).args(arguments);
    command.args([url.as_str(), "Apple", "Kiwi"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().ok()
}

/// Checks what a program prints, also after a restart of the gateway.
fn shows_live_records(program: &str, arguments: &[&str], streams: &str) {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let Some(mut child) = example(program, arguments, &gateway) else {
        return skipped(&format!("{program} is not installed"));
    };
    wait_metric(&gateway, streams, |streams| streams == 1);
    let output = BufReader::new(child.stdout.take().expect("its output"));
    let mut lines = output.lines().map(|line| line.expect("text"));
    env.produce("Kiwi", "\"1\"");
    assert_eq!(
        lines.next().expect("a line"),
        "ltest-[key=Kiwi]  0/0  \"1\""
    );
    env.produce("Apple", "2");
    assert_eq!(lines.next().expect("a line"), "ltest-[key=Apple]  0/1  2");
    let address = gateway.listen_address();
    gateway.shut_down();
    let mut config = env.config(|xml| xml);
    config.listen = address;
    let gateway = env.ready(config);
    wait_metric(&gateway, streams, |streams| streams == 1);
    env.produce("Kiwi", "3");
    let last = lines.find(|line| line.ends_with("  3"));
    assert_eq!(last.expect("a line"), "ltest-[key=Kiwi]  0/2  3");
    child.kill().expect("it runs");
    child.wait().expect("an exit");
    gateway.shut_down();
}

#[test]
fn module_and_node_program_show_live_records() {
    shows_live_records("node", &["live.mjs"], STREAMS);
}

#[test]
fn module_uses_websockets_if_wanted() {
    // Without this option, Node.js has WebSockets from version 22 on.
    let arguments = ["--experimental-websocket", "live.mjs", "--socket"];
    shows_live_records("node", &arguments, "weir_gateway_json_streams");
}

#[test]
fn python_program_shows_live_records() {
    shows_live_records("python3", &["live.py"], STREAMS);
}

#[test]
fn module_has_at_most_three_kilobytes() {
    let module = std::fs::read(Path::new(EXAMPLES).join("weir-events.js"));
    let bytes = module.expect("the module").len();
    assert!(bytes <= 3_000, "{bytes} bytes");
}
