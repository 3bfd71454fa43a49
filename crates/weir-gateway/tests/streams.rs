//! All transports over real sockets: streams and polls over HTTP, polls over WebSocket, requests
//! over other connections.

mod support;

use support::http::{Http, create_by_poll, post};
use support::{Client, TestEnv, metric, wait_metric};

const KEY: &str = "Quince";
/// Number of connections of one gateway that makes it likely that both event loops have some.
const MANY: usize = 8;

fn add(id: u32, mode: &str) -> String {
    format!(
        "LS_reqId={id}&LS_op=add&LS_subId={id}&LS_mode={mode}&LS_group=ltest-[key={KEY}]\
         &LS_schema=value&LS_data_adapter=QuickStart"
    )
}

fn head(http: &mut Http, id: &str, keepalive_ms: u32) {
    assert_eq!(http.line(), format!("CONOK,{id},50000,{keepalive_ms},*"));
    for tag in ["SERVNAME,Weir", "CLIENTIP,127.0.0.1", "CONS,"] {
        let line = http.line();
        assert!(line.starts_with(tag), "{line}");
    }
}

#[test]
fn http_stream_continues_over_several_responses() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let address = gateway.listen_address();
    for _ in 0..MANY / 2 {
        let id = create_by_poll(address);
        let bind = format!("LS_session={id}&LS_content_length=1500&LS_send_sync=false");
        // Sent over another connection before the stream exists, as SDKs do.
        let (_, lines) = post(
            address,
            "control",
            &format!("LS_session={id}&{}", add(1, "RAW")),
        );
        assert_eq!(lines, ["REQOK,1"]);
        let mut stream = Http::connect(address);
        stream.post("bind_session", &bind);
        assert!(
            stream.head.contains("Transfer-Encoding: chunked"),
            "{}",
            stream.head
        );
        assert!(
            stream
                .head
                .contains("Access-Control-Allow-Origin: http://app.example")
        );
        head(&mut stream, &id, 5_000);
        assert_eq!(stream.line(), "SUBOK,1,1,1");
        assert_eq!(stream.line(), "CONF,1,unlimited,unfiltered");
        let mut loops = 0;
        for number in 0..40 {
            let value = format!("{number}-{}", "x".repeat(100));
            env.produce(KEY, &value);
            let mut line = stream.line();
            while line == "LOOP,0" {
                assert_eq!(stream.rest(), [""; 0], "LOOP is the last line");
                stream.post("bind_session", &bind);
                head(&mut stream, &id, 5_000);
                loops += 1;
                line = stream.line();
            }
            assert_eq!(line, format!("U,1,1,{value}"));
        }
        assert!(loops >= 3, "{loops} responses");
        let destroy = format!("LS_session={id}&LS_reqId=9&LS_op=destroy");
        assert_eq!(post(address, "control", &destroy).1, ["REQOK,9"]);
        assert_eq!(stream.rest(), ["END,31,Session closed by the client"]);
    }
    assert_eq!(metric(&gateway, "weir_gateway_sessions"), 0);
    gateway.shut_down();
}

/// The heartbeat is forwarded to the session's event loop; the bind after it moves the connection
/// there, and the subscription after that must move along.
#[test]
fn pipelined_requests_are_handled_in_order_across_event_loops() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    for _ in 0..MANY {
        let id = create_by_poll(gateway.listen_address());
        let mut client = Client::connect(&gateway);
        client.send_together(&[
            "wsok",
            &format!("heartbeat\r\nLS_session={id}"),
            &format!("bind_session\r\nLS_session={id}&LS_send_sync=false"),
            &format!("control\r\nLS_session={id}&{}", add(1, "RAW")),
        ]);
        assert_eq!(client.line(), "WSOK");
        let conok = client.line();
        assert!(conok.starts_with(&format!("CONOK,{id},")), "{conok}");
        let mut lines = vec![client.line()];
        while !lines.iter().any(|line| line.starts_with("SUBOK,1,1,1")) {
            lines.push(client.line());
        }
        assert!(lines.contains(&"REQOK,1".to_owned()), "{lines:?}");
    }
    gateway.shut_down();
}

#[test]
fn session_starts_with_http_stream_and_get() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let mut stream = Http::connect(gateway.listen_address());
    let create = format!(
        "LS_adapter_set=KafkaConnector&LS_cid=t&LS_send_sync=false&LS_reduce_head=true\
         &LS_ttl_millis=unlimited\r\n{}",
        add(1, "RAW")
    );
    stream.post("create_session", &create);
    let conok = stream.line();
    let id = conok.split(',').nth(1).expect("an id");
    assert_eq!(stream.line(), "SUBOK,1,1,1");
    assert!(stream.line().starts_with("CONF,1,"));
    env.produce(KEY, "one");
    assert_eq!(stream.line(), "U,1,1,one");

    // All parameters in the query, no header lines, and a stream that replaces another one
    // silently.
    let mut other = Http::connect(gateway.listen_address());
    let get = format!(
        "GET /lightstreamer/bind_session.txt?LS_protocol=TLCP-2.5.0&LS_session={id}\
         &LS_reduce_head=true&LS_send_sync=false&LS_keepalive_millis=1000 HTTP/1.1\r\nHost: \
         x\r\n\r\n"
    );
    other.send(get.as_bytes());
    other.read_head();
    env.produce(KEY, "two");
    assert_eq!(other.line(), "U,1,1,two");
    let old = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| stream.next()));
    assert!(old.is_err(), "a replaced response has no end: {old:?}");
    gateway.shut_down();
}

#[test]
fn polls_return_pending_and_wait_for_new_updates() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let address = gateway.listen_address();
    for _ in 0..MANY / 2 {
        let id = create_by_poll(address);
        let mut http = Http::connect(address);
        let poll = |idle| {
            format!(
                "LS_session={id}&LS_polling=true&LS_polling_millis=100&LS_idle_millis={idle}\
                 &LS_reduce_head=true"
            )
        };
        assert_eq!(http.post("bind_session", &poll(0)).rest(), ["LOOP,100"]);
        let request = format!("LS_session={id}&{}", add(1, "RAW"));
        assert_eq!(post(address, "control", &request).1, ["REQOK,1"]);
        // Pending notifications are returned at once, whatever the idle time of the poll.
        let lines = http.post("bind_session", &poll(19_000)).rest();
        assert_eq!(
            lines,
            ["SUBOK,1,1,1", "CONF,1,unlimited,unfiltered", "LOOP,100"]
        );
        http.post("bind_session", &poll(19_000));
        env.produce(KEY, "waited for");
        assert_eq!(http.rest(), ["U,1,1,waited for", "LOOP,100"]);
        env.produce(KEY, "between");
        // The poll does not wait, and the record takes some time.
        let mut lines = http.post("bind_session", &poll(19_000)).rest();
        assert_eq!(lines.remove(0), "U,1,1,between");
        assert_eq!(lines, ["LOOP,100"]);
        assert_eq!(http.post("bind_session", &poll(1)).rest(), ["LOOP,100"]);
        let whole =
            format!("LS_session={id}&LS_polling=true&LS_polling_millis=99000&LS_idle_millis=1");
        http.post("bind_session", &whole);
        head(&mut http, &id, 1);
        assert_eq!(http.rest(), ["LOOP,15000"], "the longest pause allowed");
    }
    gateway.shut_down();
}

#[test]
fn websocket_polls_need_no_session_id() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let id = create_by_poll(gateway.listen_address());
    let mut client = Client::connect(&gateway);
    client.send("wsok");
    client.send(&format!(
        "bind_session\r\nLS_session={id}&LS_polling=true&LS_polling_millis=500&LS_idle_millis=19000"
    ));
    client.send(&format!("control\r\n{}&LS_ack=false", add(1, "RAW")));
    assert_eq!(client.line(), "WSOK");
    assert_eq!(client.line(), format!("CONOK,{id},50000,19000,*"));
    (0..3).for_each(|_| drop(client.line()));
    assert_eq!(client.line(), "SUBOK,1,1,1");
    assert_eq!(client.line(), "CONF,1,unlimited,unfiltered");
    assert_eq!(client.line(), "LOOP,500");
    for number in 0..5 {
        if number % 2 == 0 {
            env.produce(KEY, &number.to_string());
        }
        client.send(
            "bind_session\r\nLS_polling=true&LS_polling_millis=500&LS_idle_millis=19000\
             &LS_reduce_head=true",
        );
        if number % 2 == 1 {
            env.produce(KEY, &number.to_string());
        }
        assert_eq!(client.line(), format!("U,1,1,{number}"));
        assert_eq!(client.line(), "LOOP,500");
    }
    client.send("bind_session\r\nLS_polling=true&LS_polling_millis=0&LS_idle_millis=19000");
    assert!(client.line().starts_with("CONOK,"));
    client.send("bind_session\r\nLS_send_sync=false");
    (0..3).for_each(|_| drop(client.line()));
    assert!(
        client.line().starts_with("CONERR,69,"),
        "one stream at a time"
    );
    gateway.shut_down();
}

/// Requests reach a session from any connection, and each connection gets its responses in order.
#[test]
fn requests_arrive_over_any_connection() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let address = gateway.listen_address();
    let mut client = Client::connect(&gateway);
    client.send("create_session\r\nLS_adapter_set=KafkaConnector&LS_cid=t&LS_send_sync=false");
    let id = client.line().split(',').nth(1).expect("an id").to_owned();
    (0..3).for_each(|_| drop(client.line()));
    for round in 0..MANY as u32 {
        let session = format!("LS_session={id}");
        let (first, second) = (round * 2 + 1, round * 2 + 2);
        let batch = format!(
            "{session}&{}\r\nLS_session=S1&LS_reqId=77&LS_op=reconf&LS_subId=1\r\n{session}&{}\r\n\
             {session}&LS_reqId=99&LS_op=delete&LS_subId=5000\r\n",
            add(first, "RAW"),
            add(second, "MERGE"),
        );
        let answers = [
            format!("REQOK,{first}"),
            "REQERR,77,20,Session not found".to_owned(),
            format!("REQOK,{second}"),
            "REQERR,99,19,no subscription 5000 in this session".to_owned(),
        ];
        if round % 2 == 0 {
            assert_eq!(post(address, "control", &batch).1, answers);
        } else {
            let mut other = Client::connect(&gateway);
            other.send(&format!("control\r\n{batch}"));
            other.send(&format!("heartbeat\r\n{session}"));
            other.send(&format!("msg\r\n{session}&LS_reqId=5&LS_message=hi"));
            other.send("wsok");
            for answer in answers {
                assert_eq!(other.line(), answer);
            }
            assert_eq!(other.line(), "REQOK,5");
            assert_eq!(other.line(), "WSOK");
        }
        for id in [first, second] {
            assert_eq!(client.line(), format!("SUBOK,{id},1,1"));
            assert!(client.line().starts_with(&format!("CONF,{id},")));
        }
    }
    env.produce(KEY, "to all");
    let mut updates: Vec<_> = (0..2 * MANY).map(|_| client.line()).collect();
    updates.sort_by_key(|line| line.len());
    let mut expected: Vec<_> = (1..=2 * MANY)
        .map(|id| format!("U,{id},1,to all"))
        .collect();
    expected.sort_by_key(|line| line.len());
    updates.sort();
    expected.sort();
    assert_eq!(updates, expected);
    let (_, lines) = post(address, "heartbeat", &format!("LS_session={id}"));
    assert_eq!(lines, ["REQOK"]);

    // A new session request names the old session to be ended.
    let create = format!(
        "LS_polling=true&LS_polling_millis=0&LS_adapter_set=KafkaConnector&LS_cid=t\
         &LS_old_session={id}"
    );
    post(address, "create_session", &create);
    assert_eq!(client.any_line(), None, "the old session is gone at once");
    wait_metric(&gateway, "weir_gateway_sessions", |sessions| sessions == 1);
    gateway.shut_down();
}

/// A client that is inactive for longer than announced loses its stream, not its session.
#[test]
fn inactivity_ends_stream_not_session() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let address = gateway.listen_address();
    let id = create_by_poll(address);
    let mut stream = Http::connect(address);
    stream.post(
        "bind_session",
        &format!("LS_session={id}&LS_inactivity_millis=200&LS_send_sync=false&LS_reduce_head=true"),
    );
    wait_metric(&gateway, "weir_gateway_unbound_sessions", |unbound| {
        unbound == 1
    });
    let body = format!("LS_session={id}&LS_recovery_from=0&LS_polling=true&LS_polling_millis=0");
    let (_, lines) = post(address, "bind_session", &body);
    assert!(lines.contains(&"PROG,0".to_owned()), "{lines:?}");
    gateway.shut_down();
}
