//! Session administration and the audit log of a running gateway.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Instant;

use serde_json::{Value, json};
use support::{Client, TEST_TIMEOUT, TestEnv};
use weir_gateway::Gateway;

const TOKEN: &str = "operators-0123456789-0123456789-0123456789";

/// A gateway with session administration and an audit log.
struct Administered {
    env: TestEnv,
    gateway: Gateway,
    audit: PathBuf,
}

impl Administered {
    fn new() -> Self {
        let env = TestEnv::new();
        let audit = env.path("audit.log");
        env.write("token", &format!("{TOKEN}\n"));
        let toml = "[admin.sessions]\ntoken_file = \"token\"\n[audit]\npath = \"audit.log\"\n\
                    gateway = \"gw-1\"\n";
        let gateway = env.ready(env.config_with(toml, |xml| xml));
        Self {
            env,
            gateway,
            audit,
        }
    }

    fn send(&self, request: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.gateway.admin_address()).expect("a connection");
        let timeout = Some(TEST_TIMEOUT);
        stream.set_read_timeout(timeout).expect("a timeout");
        let length = body.len();
        let head = format!(
            "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Length: {length}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n{body}"
        );
        stream.write_all(head.as_bytes()).expect("sent");
        stream
    }

    /// Returns status and body of a call.
    fn call(&self, request: &str, body: &str) -> (u16, Value) {
        let mut response = String::new();
        let mut stream = self.send(request, body);
        stream.read_to_string(&mut response).expect("a response");
        let (head, body) = response.split_once("\r\n\r\n").expect("a head");
        let status = head[9..12].parse().expect("a status");
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    fn sessions(&self, query: &str) -> Vec<Value> {
        let (status, body) = self.call(&format!("GET /admin/v1/sessions?{query}"), "");
        assert_eq!(status, 200, "{body}");
        body["sessions"].as_array().expect("sessions").clone()
    }

    fn item(&self, key: &str) -> String {
        format!("ltest-[key={key}]")
    }

    /// Waits until the audit log has a record.
    fn wait_audit(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let text = std::fs::read_to_string(&self.audit).unwrap_or_default();
            let lines = text
                .lines()
                .map(|line| serde_json::from_str(line).expect("JSON"));
            if let Some(found) = lines.into_iter().find(|line| is_it(line)) {
                return found;
            }
            assert!(Instant::now() < deadline, "no record: {what}\n{text}");
            std::thread::yield_now();
        }
    }
}

#[test]
fn sessions_are_listed_shown_and_ended() {
    let own = Administered::new();
    let mut clients: Vec<Client> = (0..5).map(|_| Client::create(&own.gateway)).collect();
    clients[2].subscribe(1, &own.item("A"), "value");
    let all = own.sessions("");
    assert_eq!(all.len(), 5);
    for row in &all {
        assert_eq!(
            (&row["address"], &row["transport"]),
            (&json!("127.0.0.1"), &json!("ws_streaming"))
        );
        assert_eq!(
            (&row["auth"], &row["user"]),
            (&json!("anonymous"), &Value::Null)
        );
        assert!(row["age_s"].as_u64().is_some_and(|age| age < 60), "{row}");
    }
    // Pages of two, over two event loops.
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let (status, page) = own.call(&format!("GET /admin/v1/sessions?limit=2&after={after}"), "");
        assert_eq!(status, 200);
        seen.extend(page["sessions"].as_array().expect("sessions").clone());
        match page["after"].as_str() {
            Some(next) => next.clone_into(&mut after),
            None => break,
        }
    }
    let handles = |rows: &[Value]| -> Vec<_> {
        rows.iter()
            .map(|row| row["session"].as_str().expect("a handle").to_owned())
            .collect()
    };
    assert_eq!(handles(&seen), handles(&all));
    let item = own.item("A").replace('[', "%5B").replace(']', "%5D");
    let found = own.sessions(&format!("item={item}&address=127.0.0.1"));
    assert_eq!(found.len(), 1);
    assert!(own.sessions("user=anna").is_empty() && own.sessions("address=10.0.0.1").is_empty());
    let handle = handles(&found).remove(0);
    let (status, shown) = own.call(&format!("GET /admin/v1/sessions/{handle}"), "");
    assert_eq!((status, &shown["session"]), (200, &json!(handle)));
    let subscription = &shown["subscription_list"][0];
    assert_eq!(subscription["items"], json!([own.item("A")]));
    assert_eq!(
        (&subscription["id"], &subscription["mode"]),
        (&json!(1), &json!("RAW"))
    );
    let request = format!("DELETE /admin/v1/sessions/{handle}?code=-7&message=bye%20now");
    assert_eq!(own.call(&request, ""), (200, json!({ "disconnected": 1 })));
    assert_eq!(clients[2].line(), "END,-7,bye now");
    for request in [&*request, &format!("GET /admin/v1/sessions/{handle}")] {
        assert_eq!(own.call(request, "").0, 404);
    }
    assert_eq!(own.sessions("").len(), 4);
    // The session ID is nowhere.
    let ended = own.wait_audit("end", |line| line["event"] == "end");
    assert_eq!(
        (&ended["session"], &ended["code"]),
        (&json!(handle), &json!(-7))
    );
    let disconnected = own.wait_audit("disconnect", |line| line["event"] == "disconnect");
    assert_eq!(disconnected["actor"], "operator 127.0.0.1");
}

#[test]
fn faulty_calls_are_rejected_and_audited() {
    let own = Administered::new();
    for (request, body, status) in [
        ("GET /admin/v1/sessions?limit=1001", "", 400),
        ("GET /admin/v1/sessions?limit=0", "", 400),
        ("GET /admin/v1/sessions?name=x", "", 400),
        ("GET /admin/v1/sessions?after=x", "", 400),
        ("PUT /admin/v1/sessions", "", 405),
        ("DELETE /admin/v1/sessions/0-0-0?code=5", "", 400),
        ("DELETE /admin/v1/sessions/0-0-0", "", 404),
        ("DELETE /admin/v1/sessions/ffff-0-0", "", 404),
        ("GET /admin/v1/sessions/none", "", 404),
        ("GET /admin/v1/sessions/a/b", "", 404),
        ("POST /admin/v1/disconnect", "{}", 400),
        (
            "POST /admin/v1/disconnect",
            "{\"user\":\"a\",\"code\":7}",
            400,
        ),
        (
            "POST /admin/v1/disconnect",
            "{\"user\":\"a\",\"other\":1}",
            400,
        ),
        ("POST /admin/v1/disconnect", "{\"user\":\"a\"}", 200),
        ("GET /admin/v1/trace", "", 400),
        ("GET /admin/v2/sessions", "", 404),
    ] {
        assert_eq!(own.call(request, body).0, status, "{request} {body}");
    }
    let admin = |outcome: &'static str| {
        move |line: &Value| line["event"] == "admin" && line["outcome"] == outcome
    };
    let rejected = own.wait_audit("a rejected call", admin("error"));
    assert_eq!(
        (&rejected["reason"], &rejected["gateway"]),
        (&json!("bad_request"), &json!("gw-1"))
    );
    own.wait_audit("an allowed call", admin("allow"));
    own.wait_audit("the start", |line| {
        line["event"] == "config" && line["reason"] == "start"
    });
}

#[test]
fn trace_shows_session_and_item_live() {
    let own = Administered::new();
    let mut client = Client::create(&own.gateway);
    let handle = own.sessions("")[0]["session"]
        .as_str()
        .expect("a handle")
        .to_owned();
    let item = own.item("A").replace('[', "%5B").replace(']', "%5D");
    let mut lines = [format!("session={handle}"), format!("item={item}")].map(|target| {
        let stream = own.send(&format!("GET /admin/v1/trace?{target}"), "");
        BufReader::new(stream).lines()
    });
    let mut wait_for = |number: usize, event: &str, member: &str, value: Value| loop {
        let line = lines[number].next().expect("a line").expect("text");
        let Ok(line) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        assert_ne!(line["event"], "dropped", "{line}");
        if line["event"] == event && line[member] == value {
            return;
        }
    };
    wait_for(0, "state", "transport", "ws_streaming".into());
    wait_for(1, "subscribers", "count", 0.into());
    client.subscribe(1, &own.item("A"), "value");
    wait_for(0, "request", "request", "add".into());
    wait_for(0, "state", "subscriptions", 1.into());
    wait_for(1, "subscribers", "count", 1.into());
    own.env.produce("A", "1");
    assert!(client.line().starts_with("U,1,1,"));
    wait_for(0, "update", "item", own.item("A").into());
    wait_for(1, "update", "deliveries", 1.into());
    client.send("control\r\nLS_reqId=2&LS_op=destroy");
    wait_for(0, "end", "reason", Value::Null);
    wait_for(1, "subscribers", "count", 0.into());
    let (status, _) = own.call("GET /admin/v1/trace?session=0-0-0", "");
    assert_eq!(status, 200, "a stream with one line");
}
