//! The gateway between a real broker's topic and a client's socket.

mod support;

use std::io::Read;
use std::net::TcpStream;

use support::http::{create_by_poll, post};
use support::{Client, TestEnv, http, metric, wait_metric};

#[test]
fn subscribers_get_full_then_changed_fields() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let mut apple = Client::create(&gateway);
    apple.subscribe(1, "ltest-[key=Apple]", "key value ts partition offset");
    let mut banana = Client::create(&gateway);
    banana.subscribe(1, "ltest-[key=Banana]", "key value");

    env.produce("Apple", "one");
    assert_eq!(apple.line(), "U,1,1,Apple|one|1700000000000|0|0");
    env.produce("Banana", "two|%");
    assert_eq!(banana.line(), "U,1,1,Banana|two%7C%25");
    env.produce("Cherry", "unrouted");
    env.produce("Apple", "three");
    assert_eq!(apple.line(), "U,1,1,|three|||3");
    env.produce("Apple", "three");
    assert_eq!(apple.line(), "U,1,1,^4|4");

    assert_eq!(metric(&gateway, "weir_gateway_kafka_records_total"), 5);
    assert_eq!(
        metric(&gateway, "weir_gateway_kafka_unrouted_records_total"),
        1
    );
    assert_eq!(metric(&gateway, "weir_gateway_updates_sent_total"), 4);
    assert_eq!(metric(&gateway, "weir_gateway_sessions"), 2);
    gateway.shut_down();
    assert_eq!(apple.line(), "END,48,the gateway is shutting down");
    assert_eq!(apple.any_line(), None);
}

#[test]
fn all_extraction_roots_are_delivered() {
    let env = TestEnv::new();
    let fields = r#"<param name="field.topic">#{TOPIC}</param>
                    <param name="field.trace">#{HEADERS.trace}</param>"#;
    let change =
        |xml: String| xml.replace("</data_provider>", &format!("{fields}</data_provider>"));
    let gateway = env.start_gateway(change);
    let mut client = Client::create(&gateway);
    client.subscribe(
        3,
        "ltest-[key=Fig]",
        "topic trace key value ts partition offset",
    );
    env.produce("Fig", "v");
    assert_eq!(
        client.line(),
        format!("U,3,1,{}|t-1|Fig|v|1700000000000|0|0", env.topic)
    );
    gateway.shut_down();
}

#[test]
fn subscription_requests_get_their_responses() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let mut client = Client::create(&gateway);
    let add = |id: u32, rest: &str| {
        format!(
            "LS_reqId={id}&LS_op=add&LS_subId={id}&LS_schema=key\
             &LS_group=ltest-%5Bkey%3DKiwi%5D&{rest}"
        )
    };
    client.send(&format!(
        "control\r\n{}\r\n{}\r\n{}\r\n{}\r\nLS_reqId=5&LS_op=delete&LS_subId=9",
        add(1, "LS_mode=RAW&LS_data_adapter=QuickStart"),
        add(2, "LS_mode=RAW&LS_data_adapter=Unknown"),
        add(3, "LS_mode=COMMAND&LS_data_adapter=QuickStart"),
        add(1, "LS_mode=RAW&LS_data_adapter=QuickStart"),
    ));
    assert_eq!(client.line(), "REQOK,1");
    assert_eq!(client.line(), "SUBOK,1,1,1");
    assert_eq!(client.line(), "CONF,1,unlimited,unfiltered");
    assert!(client.line().starts_with("REQERR,2,17,"));
    assert!(client.line().starts_with("REQERR,3,16,"));
    assert!(client.line().starts_with("REQERR,1,68,"));
    assert!(client.line().starts_with("REQERR,5,19,"));
    client.send(
        "control\r\nLS_reqId=6&LS_op=add&LS_subId=6&LS_mode=RAW&LS_data_adapter=QuickStart\
    &LS_schema=key&LS_group=lt%20est-%5Bkey%5D",
    );
    assert!(client.line().starts_with("REQERR,6,21,"));
    client.send("msg\r\nLS_reqId=7&LS_message=hello&LS_msg_prog=1");
    assert_eq!(client.line(), "REQOK,7");
    assert!(client.line().starts_with("MSGFAIL,*,1,0,"));
    client.send("control\r\nLS_reqId=8&LS_op=delete&LS_subId=1");
    assert_eq!(client.line(), "REQOK,8");
    assert_eq!(client.line(), "UNSUB,1");
    wait_metric(&gateway, "weir_gateway_routed_items", |items| items == 0);
    client.send("control\r\nLS_reqId=9&LS_op=destroy&LS_close_socket=true");
    assert_eq!(client.line(), "REQOK,9");
    assert_eq!(client.line(), "END,31,Session closed by the client");
    assert_eq!(client.any_line(), None);
    wait_metric(&gateway, "weir_gateway_sessions", |sessions| sessions == 0);
    gateway.shut_down();
}

#[test]
fn idle_stream_is_probed_and_allows_one_session() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let mut client = Client::create(&gateway);
    assert_eq!(client.any_line().as_deref(), Some("PROBE"));
    client.send("create_session\r\nLS_adapter_set=KafkaConnector&LS_cid=test");
    assert!(client.line().starts_with("CONERR,69,"));
    let mut other = Client::connect(&gateway);
    other.send("create_session\r\nLS_adapter_set=Unknown&LS_cid=test");
    assert!(other.line().starts_with("CONERR,2,"));
    other
        .send("create_session\r\nLS_adapter_set=KafkaConnector&LS_cid=t&LS_keepalive_millis=60000");
    assert!(other.line().starts_with("CONOK,"));
    for _ in 0..3 {
        other.line();
    }
    assert!(
        other.line().starts_with("SYNC,"),
        "SYNC is sent unless the client refuses it"
    );
    gateway.shut_down();
}

#[test]
fn session_and_subscription_share_a_request() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let mut client = Client::connect(&gateway);
    let combo = |adapter: &str| {
        format!(
            "create_session\r\nLS_adapter_set=KafkaConnector&LS_cid=t&LS_reduce_head=true&LS_op=add\
             &LS_subId=1&LS_mode=RAW&LS_group=ltest-%5Bkey%3DLime%5D&LS_schema=value\
             &LS_data_adapter={adapter}"
        )
    };
    client.send(&combo("Unknown"));
    assert!(client.line().starts_with("CONERR,64,"));
    client.send(&combo("QuickStart"));
    assert!(client.line().starts_with("CONOK,"));
    assert_eq!(client.line(), "SUBOK,1,1,1");
    assert_eq!(client.line(), "CONF,1,unlimited,unfiltered");
    env.produce("Lime", "juice");
    assert_eq!(client.line(), "U,1,1,juice");
    gateway.shut_down();
}

#[test]
fn http_session_is_bound_on_websocket() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    // The request that an SDK sends after it failed to open a WebSocket.
    let unknown = "LS_polling=true&LS_polling_millis=0&LS_adapter_set=Unknown&LS_cid=t";
    let (_, lines) = post(gateway.listen_address(), "create_session", unknown);
    assert!(lines[0].starts_with("CONERR,2,"), "{lines:?}");
    let id = create_by_poll(gateway.listen_address());
    assert_eq!(metric(&gateway, "weir_gateway_sessions"), 1);
    assert_eq!(metric(&gateway, "weir_gateway_unbound_sessions"), 1);

    let mut client = Client::connect(&gateway);
    let bind =
        format!("bind_session\r\nLS_session={id}&LS_keepalive_millis=3000&LS_send_sync=false");
    client.send("wsok");
    client.send(&bind);
    assert_eq!(client.line(), "WSOK");
    assert_eq!(client.line(), format!("CONOK,{id},50000,3000,*"));
    assert_eq!(client.line(), "SERVNAME,Weir");
    assert_eq!(client.line(), "CLIENTIP,127.0.0.1");
    assert!(client.line().starts_with("CONS,"));
    client.subscribe(1, "ltest-[key=Guava]", "value");
    env.produce("Guava", "ripe");
    assert_eq!(client.line(), "U,1,1,ripe");

    gateway.shut_down();
}

#[test]
fn http_requests_for_missing_objects_are_refused() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let address = gateway.listen_address();
    let (head, lines) = post(
        address,
        "bind_session",
        "LS_session=S1&LS_recovery_from=5&LS_polling=true&LS_polling_millis=0&LS_idle_millis=0",
    );
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(
        head.contains("Access-Control-Allow-Origin: http://app.example"),
        "{head}"
    );
    assert!(lines[0].starts_with("CONERR,20,"), "{lines:?}");
    let (_, lines) = post(address, "control", "LS_reqId=4&LS_session=S1&LS_op=destroy");
    assert!(lines[0].starts_with("REQERR,4,20,"), "{lines:?}");
    let (_, lines) = post(address, "msg", "LS_reqId=5&LS_session=S1&LS_message=x");
    assert!(lines[0].starts_with("REQERR,5,20,"), "{lines:?}");
    let (_, lines) = post(address, "heartbeat", "\r\n");
    assert_eq!(lines, ["REQOK"]);
    let get = "GET /elsewhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let (head, _) = http(gateway.listen_address(), get);
    assert!(head.starts_with("HTTP/1.1 404"), "{head}");
    gateway.shut_down();
}

#[test]
fn health_reports_missing_topic() {
    let env = TestEnv::new();
    let missing = format!("{}-later", env.topic);
    let config = env.config(|xml| xml.replace(&env.topic, &missing));
    let gateway = weir_gateway::Gateway::start(config).expect("a gateway");
    let get = |path: &str| {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        http(gateway.admin_address(), &request)
    };
    let (head, body) = get("/health/ready");
    assert!(
        head.starts_with("HTTP/1.1 503") && body.contains("QuickStart: not ready"),
        "{head} {body}"
    );
    assert!(get("/health/live").0.starts_with("HTTP/1.1 200"));
    env.admin
        .create_topic(&missing, 1, 1, &[])
        .expect("the topic");
    wait_metric(&gateway, "weir_gateway_connection_ready", |ready| {
        ready == 1
    });
    assert!(get("/health/ready").0.starts_with("HTTP/1.1 200"));
    gateway.shut_down();
}

#[test]
fn earliest_delivers_whole_topic_to_first_subscriber() {
    let env = TestEnv::new();
    env.produce("Plum", "before");
    let earliest = r#"<param name="record.consume.from">EARLIEST</param></data_provider>"#;
    let gateway = env.start_gateway(|xml| xml.replace("</data_provider>", earliest));
    let mut client = Client::create(&gateway);
    client.subscribe(1, "ltest-[key=Plum]", "value offset");
    assert_eq!(client.line(), "U,1,1,before|0");
    gateway.shut_down();
}

#[test]
fn lost_updates_are_reported_to_slow_client_only() {
    let env = TestEnv::new();
    let mut config = env.config(|xml| xml);
    config.limits.queue_bytes = 256 * 1024;
    let gateway = weir_gateway::Gateway::start(config).expect("a gateway");
    wait_metric(&gateway, "weir_gateway_connection_ready", |ready| {
        ready == 1
    });
    let mut slow = Client::create(&gateway);
    slow.subscribe(1, "ltest-[key=Papaya]", "value");
    let mut quick = Client::create(&gateway);
    quick.subscribe(1, "ltest-[key=Papaya]", "value");
    let mut number = 0;
    while metric(&gateway, "weir_gateway_updates_lost_total") < 2 {
        // Different values, so that each is sent in full.
        env.produce("Papaya", &format!("{number}{}", "x".repeat(200_000)));
        let line = quick.line();
        assert!(
            line.starts_with(&format!("U,1,1,{number}x")),
            "{}",
            &line[..20]
        );
        number += 1;
        assert!(number < 500, "exceeds the kernel's buffers");
    }
    let mut got = 0;
    let lost = loop {
        let line = slow.line();
        match line.strip_prefix("OV,1,1,") {
            Some(lost) => break lost.parse::<u32>().expect("a number"),
            None => assert!(
                line.starts_with(&format!("U,1,1,{got}x")),
                "{}",
                &line[..20]
            ),
        }
        got += 1;
    };
    // The counter may have been behind when the last record was produced.
    assert!(lost >= 2, "{lost}");
    assert_eq!(got + lost, number);
    let counted = metric(&gateway, "weir_gateway_updates_lost_total");
    assert_eq!(u64::from(lost), counted);
    env.produce("Papaya", "current");
    for client in [&mut quick, &mut slow] {
        assert_eq!(client.line(), "U,1,1,current");
    }
    assert_eq!(
        metric(&gateway, "weir_gateway_slow_sessions_closed_total"),
        0
    );
    gateway.shut_down();
}

#[test]
fn two_gateways_deliver_everything() {
    let env = TestEnv::new();
    let (one, two) = (env.start_gateway(|xml| xml), env.start_gateway(|xml| xml));
    let mut clients = [Client::create(&one), Client::create(&two)];
    for client in &mut clients {
        client.subscribe(1, "ltest-[key=Guava]", "offset");
    }
    for offset in 0..20 {
        env.produce("Guava", "x");
        for client in &mut clients {
            assert_eq!(client.line(), format!("U,1,1,{offset}"));
        }
    }
    one.shut_down();
    two.shut_down();
}

#[test]
fn socket_without_request_is_closed() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let mut silent = TcpStream::connect(gateway.listen_address()).expect("a connection");
    silent
        .set_read_timeout(Some(support::TEST_TIMEOUT))
        .expect("a timeout");
    let mut rest = Vec::new();
    assert_eq!(silent.read_to_end(&mut rest).expect("end of stream"), 0);
    gateway.shut_down();
}

#[test]
fn disabled_connection_refuses_every_subscription() {
    let env = TestEnv::new();
    let off = r#"<param name="enable">false</param></data_provider>"#;
    let gateway = env.start_gateway(|xml| xml.replace("</data_provider>", off));
    let mut client = Client::create(&gateway);
    client.send(
        "control\r\nLS_reqId=1&LS_op=add&LS_subId=1&LS_mode=RAW&LS_group=ltest-[key%3DApple]\
         &LS_schema=value&LS_data_adapter=QuickStart",
    );
    let refused = client.line();
    assert!(refused.starts_with("REQERR,1,-1,"), "{refused}");
    gateway.shut_down();
}
