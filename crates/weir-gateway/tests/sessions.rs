//! Sessions that change their stream connection, and requests of the published simulator.

mod support;

use support::http::Http;
use support::{Client, TestEnv, http, metric, wait_metric};
use weir_gateway::config::SimulatorConfig;

const KEY: &str = "Quince";

fn subscribe(client: &mut Client, id: u32, mode: &str, more: &str) {
    client.send(&format!(
        "control\r\nLS_reqId={id}&LS_op=add&LS_subId={id}&LS_mode={mode}&LS_group=ltest-[key={KEY}]\
         &LS_schema=value&LS_data_adapter=QuickStart&LS_ack=false{more}"
    ));
    assert_eq!(client.line(), format!("SUBOK,{id},1,1"));
    assert!(client.line().starts_with(&format!("CONF,{id},")));
}

#[test]
fn merge_and_distinct_meet_mode_guarantees() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let mut client = Client::create(&gateway);
    subscribe(&mut client, 1, "MERGE", "&LS_snapshot=true");
    subscribe(&mut client, 2, "DISTINCT", "&LS_snapshot=true");
    assert_eq!(client.line(), "EOS,2,1", "the snapshot of a list is empty");
    for (value, merged) in [("one", Some("one")), ("one", None), ("", Some("$"))] {
        env.produce(KEY, value);
        if let Some(merged) = merged {
            assert_eq!(client.line(), format!("U,1,1,{merged}"));
        }
        let distinct = merged.unwrap_or_default();
        assert_eq!(client.line(), format!("U,2,1,{distinct}"));
    }
    // A new subscriber of the same item and frame class.
    subscribe(&mut client, 3, "MERGE", "&LS_snapshot=true");
    assert_eq!(client.line(), "U,3,1,$");
    subscribe(
        &mut client,
        4,
        "MERGE",
        "&LS_snapshot=false&LS_requested_max_frequency=2.5",
    );
    subscribe(
        &mut client,
        5,
        "MERGE",
        "&LS_snapshot=true&LS_requested_max_frequency=unfiltered",
    );
    assert_eq!(client.line(), "U,5,1,$");
    env.produce(KEY, "two");
    let mut lines: Vec<_> = (0..5).map(|_| client.line()).collect();
    lines.sort();
    let all = [1, 2, 3, 4, 5].map(|id| format!("U,{id},1,two"));
    assert_eq!(lines, all);
    assert_eq!(metric(&gateway, "weir_gateway_updates_unchanged_total"), 1);

    // Requests that change limits later.
    for (request, answers) in [
        (
            "LS_op=reconf&LS_subId=4&LS_requested_max_frequency=1",
            ["REQOK,9", "CONF,4,1,filtered"],
        ),
        (
            "LS_op=constrain&LS_requested_max_bandwidth=40",
            ["REQOK,9", "CONS,40"],
        ),
    ] {
        client.send(&format!("control\r\nLS_reqId=9&{request}"));
        assert_eq!([client.line(), client.line()], answers);
    }
    client.send("control\r\nLS_reqId=9&LS_op=reconf&LS_subId=5&LS_requested_max_frequency=1");
    assert!(client.line().starts_with("REQERR,9,13,"));
    client.send("control\r\nLS_reqId=9&LS_op=reconf&LS_subId=77");
    assert!(client.line().starts_with("REQERR,9,19,"));
    gateway.shut_down();
}

/// The new WebSocket may be on any event loop: the session continues with all updates since.
#[test]
fn session_continues_on_another_websocket_after_loop() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let mut client = Client::connect(&gateway);
    client.send("create_session\r\nLS_adapter_set=KafkaConnector&LS_cid=t&LS_send_sync=false");
    let id = client.line().split(',').nth(1).expect("an id").to_owned();
    (0..3).for_each(|_| drop(client.line()));
    subscribe(&mut client, 1, "RAW", "");
    subscribe(&mut client, 2, "MERGE", "");
    env.produce(KEY, "before");
    assert_eq!(
        [client.line(), client.line()],
        ["U,1,1,before", "U,2,1,before"]
    );

    for round in 0..8 {
        client.send("control\r\nLS_reqId=7&LS_op=force_rebind&LS_close_socket=true");
        assert_eq!([client.line(), client.line()], ["REQOK,7", "LOOP,0"]);
        assert_eq!(client.any_line(), None, "the request closes the socket");
        let values = [format!("a{round}"), format!("b{round}")];
        let sent = metric(&gateway, "weir_gateway_updates_posted_total");
        values.iter().for_each(|value| env.produce(KEY, value));
        wait_metric(&gateway, "weir_gateway_updates_posted_total", |now| {
            now == sent + 2
        });
        client = Client::connect(&gateway);
        client.send("wsok");
        client.send(&format!(
            "bind_session\r\nLS_session={id}&LS_keepalive_millis=2000&LS_send_sync=false"
        ));
        // Sent before the response, as SDKs do: it is forwarded to the event loop of the session.
        client.send("control\r\nLS_reqId=8&LS_op=reconf&LS_subId=2");
        assert_eq!(client.line(), "WSOK");
        assert_eq!(client.line(), format!("CONOK,{id},50000,2000,*"));
        (0..3).for_each(|_| drop(client.line()));
        assert_eq!(client.line(), format!("U,1,1,{}", values[0]));
        assert_eq!(client.line(), format!("U,1,1,{}", values[1]));
        assert_eq!(
            client.line(),
            format!("U,2,1,{}", values[1]),
            "MERGE stores the current state"
        );
        assert_eq!(
            [client.line(), client.line()],
            ["REQOK,8", "CONF,2,unlimited,filtered"]
        );
    }
    assert_eq!(metric(&gateway, "weir_gateway_sessions_rebound_total"), 8);
    assert_eq!(metric(&gateway, "weir_gateway_sessions"), 1);

    // On the same socket, where requests need not name the session.
    client.send("control\r\nLS_reqId=9&LS_op=force_rebind");
    assert_eq!([client.line(), client.line()], ["REQOK,9", "LOOP,0"]);
    client.send("control\r\nLS_reqId=9&LS_op=reconf&LS_subId=77");
    assert!(
        client.line().starts_with("REQERR,9,19,"),
        "the session bound last is used"
    );
    client.send("bind_session\r\nLS_send_sync=false");
    assert!(client.line().starts_with(&format!("CONOK,{id},")));
    (0..3).for_each(|_| drop(client.line()));
    let mut other = Client::connect(&gateway);
    other.send(&format!(
        "bind_session\r\nLS_session={id}&LS_send_sync=false"
    ));
    assert!(other.line().starts_with(&format!("CONOK,{id},")));
    (0..3).for_each(|_| drop(other.line()));
    assert_eq!(
        client.any_line(),
        None,
        "a session has one stream, the latest"
    );
    let mut client = other;
    env.produce(KEY, "after");
    assert_eq!(
        [client.line(), client.line()],
        ["U,1,1,after", "U,2,1,after"]
    );
    gateway.shut_down();
}

#[test]
fn unbound_session_gets_lost_update_counts() {
    let env = TestEnv::new();
    let mut config = env.config(|xml| xml);
    config.limits.queue_bytes = 10_000;
    let gateway = weir_gateway::Gateway::start(config).expect("a gateway");
    wait_metric(&gateway, "weir_gateway_connection_ready", |ready| {
        ready == 1
    });
    let mut client = Client::create(&gateway);
    subscribe(&mut client, 1, "RAW", "");
    client.send("control\r\nLS_reqId=7&LS_op=force_rebind");
    assert_eq!([client.line(), client.line()], ["REQOK,7", "LOOP,0"]);
    for number in 0..5 {
        env.produce(KEY, &format!("{number}{}", "x".repeat(6_000)));
    }
    // One update is stored as bytes, one as values.
    wait_metric(&gateway, "weir_gateway_updates_lost_total", |lost| {
        lost == 3
    });
    client.send("bind_session\r\nLS_send_sync=false&LS_reduce_head=true");
    assert!(client.line().starts_with("U,1,1,0x"));
    assert!(client.line().starts_with("U,1,1,1x"));
    assert_eq!(client.line(), "OV,1,1,3");
    env.produce(KEY, "after");
    assert_eq!(client.line(), "U,1,1,after");
    gateway.shut_down();
}

/// Sends one request in the simulator's format: characters are not escaped, and lines end where no
/// end is required.
fn simulated_post(stream: &mut Http, name: &str, body: &str) -> Vec<String> {
    let request = format!(
        "POST /lightstreamer/{name}.txt?LS_protocol=TLCP-2.5.0 HTTP/1.1\r\nHost: localhost:8080\r\n\
         User-Agent: Lightstreamer-client-simulator\r\nContent-Type: text/plain; charset=UTF-8\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.send(request.as_bytes());
    stream.read_head();
    stream.rest()
}

/// Returns the next line that is not `SYNC`, which the simulator does not refuse.
fn next(client: &mut Client) -> String {
    loop {
        let line = client.line();
        if !line.starts_with("SYNC,") {
            return line;
        }
    }
}

fn simulator_session(gateway: &weir_gateway::Gateway, set: &str) -> Client {
    let mut stream = Http::connect(gateway.listen_address());
    let create = format!(
        "LS_polling=true&LS_polling_millis=0&LS_idle_millis=0&LS_adapter_set={set}\
         &LS_cid=mgQkwtwdysogQz2BJ4Ji%20kOj2Bg\r\n"
    );
    let lines = simulated_post(&mut stream, "create_session", &create);
    let id = lines[0].split(',').nth(1).expect("an id");
    assert_eq!(lines.last().map(String::as_str), Some("LOOP,0"));
    let mut client = Client::connect(gateway);
    client.send(&format!("bind_session\r\nLS_session={id}&\r\n"));
    assert!(next(&mut client).starts_with(&format!("CONOK,{id},")));
    (0..3).for_each(|_| drop(next(&mut client)));
    client
}

#[test]
fn published_simulator_is_configured_and_served() {
    let env = TestEnv::new();
    let mut config = env.config(|xml| xml);
    config.simulator = Some(SimulatorConfig::default());
    let gateway = weir_gateway::Gateway::start(config).expect("a gateway");
    wait_metric(&gateway, "weir_gateway_connection_ready", |ready| {
        ready == 1
    });

    let fields = "numberOfItems numberOfFields subscriptionMode unfilteredSubscription \
                  resamplingFrequency resamplingBufferSize";
    let ask = format!(
        "control\r\nLS_reqId=1&LS_op=add&LS_subId=1&LS_mode=MERGE&LS_group=CONFIGURATION\
         &LS_schema={fields}&LS_snapshot=true\r\n"
    );
    let mut start = Client::connect(&gateway);
    start.send("wsok");
    start.send(
        "create_session\r\nLS_adapter_set=LOAD_TESTS&LS_cid=mgQkwtwdysogQz2BJ4Ji%20kOj2Bg\r\n",
    );
    assert_eq!(next(&mut start), "WSOK");
    assert!(next(&mut start).starts_with("CONOK,"));
    (0..3).for_each(|_| drop(next(&mut start)));
    for mut client in [start, simulator_session(&gateway, "LOAD_TESTS")] {
        client.send(&ask);
        assert_eq!(next(&mut client), "REQOK,1");
        assert_eq!(next(&mut client), "SUBOK,1,1,6");
        assert_eq!(next(&mut client), "CONF,1,unlimited,filtered");
        assert_eq!(next(&mut client), "U,1,1,40|2|RAW|true|#|#");
        client
            .send("control\r\nLS_reqId=2&LS_op=add&LS_subId=2&LS_mode=RAW&LS_group=x&LS_schema=y");
        assert!(next(&mut client).starts_with("REQERR,2,24,"));
        client.send("control\r\nLS_reqId=3&LS_op=delete&LS_subId=1");
        assert_eq!(
            [next(&mut client), next(&mut client)],
            ["REQOK,3", "UNSUB,1"]
        );
    }

    let mut client = simulator_session(&gateway, "KafkaConnector");
    client.send(
        "control\r\nLS_reqId=4&LS_op=add&LS_subId=9&LS_data_adapter=QuickStart\
         &LS_group=ltest-[key=Apple]&LS_schema=key value&LS_mode=RAW&LS_snapshot=false\r\n",
    );
    assert_eq!(next(&mut client), "REQOK,4");
    assert_eq!(next(&mut client), "SUBOK,9,1,2");
    assert!(next(&mut client).starts_with("CONF,9,"));
    env.produce("Apple", "crisp");
    assert_eq!(next(&mut client), "U,9,1,Apple|crisp");
    gateway.shut_down();
}

#[test]
fn start_item_is_served_only_if_configured() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let body = "LS_adapter_set=LOAD_TESTS&LS_cid=x&LS_polling=true&LS_polling_millis=0";
    let request = format!(
        "POST /lightstreamer/create_session.txt?LS_protocol=TLCP-2.5.0 HTTP/1.1\r\nHost: x\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    assert!(
        http(gateway.listen_address(), &request)
            .1
            .starts_with("CONERR,2,")
    );
    gateway.shut_down();
}
