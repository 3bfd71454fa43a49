//! Session administration and the audit log of a running gateway.

mod support;

use std::io::{BufRead, BufReader};

use serde_json::{Value, json};
use support::Client;
use support::admin::{Administered, IDENTIFIED, SECRET, TOKEN, TOKENS, create};

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
    let (status, top) = own.call("GET /admin/v1/items?limit=1", "");
    assert_eq!((status, &top["complete"]), (200, &json!(true)));
    assert_eq!(top["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(top["items"][0]["subscriptions"], 1);
    let slowest = own.sessions("order=slowest&limit=3");
    let queues: Vec<_> = slowest
        .iter()
        .map(|row| row["queued_bytes"].as_u64())
        .collect();
    assert!(
        queues.len() == 3 && queues.is_sorted_by(|one, next| one >= next),
        "{queues:?}"
    );
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
        ("GET /admin/v1/sessions?order=name", "", 400),
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

#[test]
fn users_are_found_disconnected_and_revoked() {
    let own = Administered::with(IDENTIFIED);
    let (mut one, created) = create(&own.gateway, TOKENS[0]);
    let session_id = created.split(',').nth(1).expect("a session").to_owned();
    let (mut other, _) = create(&own.gateway, TOKENS[1]);
    one.subscribe(1, &own.item("A"), "value");
    one.send(
        "control\r\nLS_reqId=2&LS_op=add&LS_subId=2&LS_mode=RAW&LS_group=ltest-[key%3DB]\
         &LS_schema=value&LS_data_adapter=QuickStart&LS_ack=false",
    );
    assert_eq!(one.line(), "REQERR,2,-2,Not authorized");
    let denied = own.wait_audit("a denied item", |line| {
        line["event"] == "subscribe" && line["outcome"] == "deny"
    });
    assert_eq!(
        (&denied["user"], &denied["code"]),
        (&json!("anna"), &json!(-2))
    );
    assert_eq!(
        (&denied["items"], &denied["jti"]),
        (&json!([own.item("B")]), &json!("t-1"))
    );
    let found = own.sessions("user=anna&issuer=https%3A%2F%2Fid.example");
    assert_eq!(found.len(), 2);
    assert!(own.sessions("user=bob").is_empty());
    for row in &found {
        assert_eq!(
            (&row["auth"], &row["user"]),
            (&json!("jwt"), &json!("anna"))
        );
        assert_eq!(row["expires"], "2100-01-01T00:00:00.000Z");
    }
    let handle = found[0]["session"].as_str().expect("a handle");
    let (_, shown) = own.call(&format!("GET /admin/v1/sessions/{handle}"), "");
    let granted = json!([{
        "rule": "own", "effect": "allow", "items": ["ltest-[key=A]"], "max_frequency": null
    }]);
    assert_eq!(
        (&shown["grants"], &shown["session_rule"]),
        (&granted, &Value::Null)
    );
    let revoke = r#"{"issuer":"https://id.example","jti":"t-1"}"#;
    let (status, revoked) = own.call("POST /admin/v1/revocations", revoke);
    assert_eq!((status, &revoked["jti"]), (200, &json!("t-1")));
    assert_eq!(one.line(), "END,-10,Revoked");
    own.wait_audit("the revocation", |line| {
        line["event"] == "revoke" && line["jti"] == "t-1"
    });
    assert!(create(&own.gateway, TOKENS[0]).1.starts_with("CONERR,1,"));
    let refused = own.wait_audit("a refused client", |line| {
        line["event"] == "create" && line["outcome"] == "deny"
    });
    assert_eq!(
        (&refused["reason"], &refused["code"]),
        (&json!("revoked"), &json!(1))
    );
    let (_, list) = own.call("GET /admin/v1/revocations", "");
    assert_eq!(list["revocations"], json!([revoked]));
    let id = revoked["id"].as_str().expect("an id");
    let request = format!("DELETE /admin/v1/revocations/{id}");
    assert_eq!(
        (own.call(&request, "").0, own.call(&request, "").0),
        (200, 404)
    );
    assert!(create(&own.gateway, TOKENS[0]).1.starts_with("CONOK,"));
    let body = r#"{"user":"anna","code":48,"message":"maintenance"}"#;
    let (_, ended) = own.call("POST /admin/v1/disconnect", body);
    assert!(ended["disconnected"].as_u64() >= Some(1), "{ended}");
    assert_eq!(other.line(), "END,48,maintenance");
    // Neither tokens nor session IDs are in the log.
    let text = std::fs::read_to_string(&own.audit).expect("the log");
    for secret in [TOKENS[0], TOKENS[1], TOKEN, &session_id, SECRET] {
        let parts = secret.split('.').filter(|part| part.len() > 20);
        parts.for_each(|part| assert!(!text.contains(part), "{part}"));
    }
}
