//! Admission: allowed origins, limits, and the responses to rejected clients.

use super::*;

fn limited(limit: &str, count: u32) -> String {
    format!("weir_gateway_limit_hits_total{{limit=\"{limit}\"}} {count}")
}

#[test]
fn pages_of_other_origins_are_rejected() {
    let gateway =
        Files::new().start("allowed_origins = [\"https://app.example.com\", \"http://*.local\"]");
    let data = gateway.listen_address();
    let open = |origin| upgrade(connect(data), origin).map(drop);
    assert_eq!(open(None), Ok(()));
    assert_eq!(open(Some("https://app.example.com")), Ok(()));
    assert_eq!(open(Some("http://a.local")), Ok(()));
    assert_eq!(open(Some("https://evil.example.com")), Err(403));
    let path = "/lightstreamer/control.txt?LS_protocol=TLCP-2.5.0";
    let (status, head, _) = get(data, path, "Origin: https://app.example.com\r\n");
    assert_eq!(status, 200);
    assert!(
        head.contains("access-control-allow-origin: https://app.example.com"),
        "{head}"
    );
    let (status, head, _) = get(data, path, "Origin: https://evil.example.com\r\n");
    assert_eq!(status, 403);
    assert!(!head.contains("access-control"), "{head}");
    await_metric(&gateway, &limited("allowed_origins", 2));
    gateway.shut_down();
}

#[test]
fn connections_per_address_count_over_event_loops() {
    let gateway = Files::new().start("[limits.per_address]\nconnections = 3");
    let open: Vec<_> = (0..3)
        .map(|_| upgrade(connect(gateway.listen_address()), None).expect("a WebSocket"))
        .collect();
    let mut fourth = connect(gateway.listen_address());
    let ended = fourth.read(&mut [0]);
    assert!(
        ended.is_err() || ended.is_ok_and(|count| count == 0),
        "the connection is closed at once"
    );
    await_metric(&gateway, &limited("per_address.connections", 1));
    drop(open);
    await_metric(&gateway, "weir_gateway_connections 0");
    assert!(upgrade(connect(gateway.listen_address()), None).is_ok());
    gateway.shut_down();
}

#[test]
fn request_rate_gives_429_or_ends_session() {
    let gateway = Files::new().start("[limits.per_address]\nrequests_per_second = 0.001");
    let data = gateway.listen_address();
    let mut socket = upgrade(connect(data), None).expect("a WebSocket");
    assert!(exchange(&mut socket, CREATE, "CON").starts_with("CONOK,"));
    let path = "/lightstreamer/heartbeat.txt?LS_protocol=TLCP-2.5.0";
    let answers: Vec<_> = (0..10).map(|_| get(data, path, "").0).collect();
    assert_eq!(answers.iter().filter(|status| **status == 200).count(), 8);
    assert_eq!(answers.last(), Some(&429));
    let (_, head, _) = get(data, path, "");
    assert!(head.contains("retry-after: 1"), "{head}");
    let end = exchange(&mut socket, "heartbeat\r\nLS_reqId=1", "END");
    assert_eq!(end, "END,48,too many requests");
    await_metric(&gateway, &limited("per_address.requests_per_second", 4));
    gateway.shut_down();
}

#[test]
fn sessions_per_address_count_until_they_end() {
    let gateway = Files::new().start("[limits.per_address]\nsessions = 1");
    let open = || upgrade(connect(gateway.listen_address()), None).expect("a WebSocket");
    let (mut first, mut second) = (open(), open());
    assert!(exchange(&mut first, CREATE, "CON").starts_with("CONOK,"));
    let refused = exchange(&mut second, CREATE, "CON");
    assert!(refused.starts_with("CONERR,6,"), "{refused}");
    await_metric(&gateway, &limited("per_address.sessions", 1));
    let destroy = "control\r\nLS_reqId=1&LS_op=destroy&LS_close_socket=false";
    exchange(&mut first, destroy, "END");
    assert!(exchange(&mut second, CREATE, "CON").starts_with("CONOK,"));
    gateway.shut_down();
}

#[test]
fn session_rate_is_limited() {
    let gateway = Files::new().start("[limits]\nsessions_per_second = 0.001");
    let answers: Vec<_> = (0..12)
        .map(|_| {
            let socket = upgrade(connect(gateway.listen_address()), None);
            exchange(&mut socket.expect("a WebSocket"), CREATE, "CON")
        })
        .collect();
    let begun = answers.iter().filter(|answer| answer.starts_with("CONOK,"));
    assert_eq!(begun.count(), 10, "{answers:?}");
    assert!(answers[11].starts_with("CONERR,6,"), "{answers:?}");
    await_metric(&gateway, &limited("sessions_per_second", 2));
    gateway.shut_down();
}

#[test]
fn subscriptions_and_items_are_limited_in_total() {
    let gateway =
        Files::new().start("[limits]\nsubscriptions = 3\nitems = 2\nfields_per_subscription = 1");
    let mut socket = upgrade(connect(gateway.listen_address()), None).expect("a WebSocket");
    assert!(exchange(&mut socket, CREATE, "CON").starts_with("CONOK,"));
    let mut add = |number: u32, group: &str, schema: &str| {
        let request = format!(
            "control\r\nLS_reqId={number}&LS_op=add&LS_subId={number}&LS_mode=RAW&LS_group={group}&\
             LS_schema={schema}&LS_data_adapter=QuickStart&LS_ack=true"
        );
        exchange(&mut socket, &request, "REQ")
    };
    let item = |name: &str| format!("ltest-%5Bkey%3D{name}%5D");
    let three = format!("{}%20{}%20{}", item("a"), item("b"), item("c"));
    assert!(add(1, &three, "value").starts_with("REQERR,1,68,too many items"));
    assert!(add(2, &item("a"), "value%20value").starts_with("REQERR,2,23,"));
    for number in 3..6 {
        assert_eq!(add(number, &item("a"), "value"), format!("REQOK,{number}"));
    }
    assert!(add(6, &item("a"), "value").starts_with("REQERR,6,68,too many subscriptions"));
    for limit in ["items", "fields_per_subscription", "subscriptions"] {
        await_metric(&gateway, &limited(limit, 1));
    }
    gateway.shut_down();
}

#[test]
fn empty_list_allows_pages_of_same_host() {
    let gateway = Files::new().start("");
    let open = |origin| upgrade(connect(gateway.listen_address()), origin).map(drop);
    for same in [
        None,
        Some("http://localhost:3000"),
        Some("http://127.0.0.1"),
    ] {
        assert_eq!(open(same), Ok(()), "{same:?}");
    }
    for other in ["https://evil.example.com", "null", "x"] {
        assert_eq!(open(Some(other)), Err(403), "{other}");
    }
    await_metric(&gateway, &limited("allowed_origins", 3));
    gateway.shut_down();
}

#[test]
fn subscription_memory_is_limited() {
    for (settings, limit) in [
        ("[limits]\nsubscription_bytes = 10000", "subscription_bytes"),
        (
            "[limits.per_address]\nsubscription_bytes = 10000",
            "per_address.subscription_bytes",
        ),
    ] {
        let gateway = Files::new().start(settings);
        let mut socket = upgrade(connect(gateway.listen_address()), None).expect("a WebSocket");
        assert!(exchange(&mut socket, CREATE, "CON").starts_with("CONOK,"));
        let mut add = |number: u32, length: usize| {
            let name = "k".repeat(length);
            let request = format!(
                "control\r\nLS_reqId={number}&LS_op=add&LS_subId={number}&LS_mode=RAW\
                 &LS_group=ltest-%5Bkey%3D{name}%5D&LS_schema=value&LS_data_adapter=QuickStart"
            );
            exchange(&mut socket, &request, "REQ")
        };
        assert_eq!(add(1, 1), "REQOK,1", "{limit}");
        assert!(
            add(2, 10_000).starts_with("REQERR,2,68,too many"),
            "{limit}"
        );
        await_metric(&gateway, &limited(limit, 1));
        let delete = "control\r\nLS_reqId=3&LS_op=delete&LS_subId=1";
        exchange(&mut socket, delete, "REQOK");
        await_metric(&gateway, "weir_gateway_subscription_bytes 0");
        gateway.shut_down();
    }
}

#[test]
fn memory_limit_refuses_new_sessions() {
    let gateway = Files::new().start("[limits]\nmemory_bytes = 1");
    await_metric(&gateway, "weir_gateway_overloaded 1");
    let mut socket = upgrade(connect(gateway.listen_address()), None).expect("a WebSocket");
    let refused = exchange(&mut socket, CREATE, "CON");
    assert!(
        refused.starts_with("CONERR,6,the gateway is short of memory"),
        "{refused}"
    );
    let (status, _, _) = get(gateway.admin_address(), "/health/live", "");
    assert_eq!(status, 200);
    let (_, _, body) = get(gateway.admin_address(), "/health/ready", "");
    assert!(body.contains("degraded: "), "{body}");
    gateway.shut_down();
}

#[test]
fn lines_and_frames_count_as_requests() {
    let settings = "[limits.per_address]\nrequests_per_second = 0.001";
    let lines = format!("control{}", "\r\n".repeat(12));
    let ping = || Message::Ping(Vec::new().into());
    let floods: [Vec<Message>; 2] = [
        vec![Message::text(lines)],
        (0..12).map(|_| ping()).collect(),
    ];
    for flood in floods {
        let gateway = Files::new().start(settings);
        let mut socket = upgrade(connect(gateway.listen_address()), None).expect("a WebSocket");
        assert!(exchange(&mut socket, CREATE, "CON").starts_with("CONOK,"));
        for message in flood {
            // The gateway may have ended the connection already.
            let _ = socket.send(message);
        }
        let end = loop {
            match socket.read().expect("an end") {
                Message::Text(text) if text.starts_with("END,") => break text,
                _ => {}
            }
        };
        assert!(end.starts_with("END,48,too many requests"), "{end}");
        gateway.shut_down();
    }
}

#[test]
fn invalid_limits_are_rejected_with_remedy() {
    let files = Files::new();
    let said = |lines: &str| {
        files
            .load(lines)
            .expect_err("an invalid configuration")
            .to_string()
    };
    let error = said("allowed_origins = [\"example.com\"]");
    assert!(error.contains("write https://example.com"), "{error}");
    let error = said("[limits.per_address]\nrequests_per_second = -1.0");
    assert!(error.contains("must not be negative"), "{error}");
}
