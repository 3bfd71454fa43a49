//! Lost connections: connections are cut repeatedly while records arrive, and no update is lost or
//! repeated. Also two gateways behind a load balancer without session affinity.

mod support;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use rand::Rng as _;
use support::http::{Http, create_by_poll, post};
use support::{Client, TestEnv, metric, wait_metric};
use weir_tlcp::client::{ItemState, Line, parse_line};

const KEY: &str = "Quince";

/// A client's view of its session over all its connections.
struct Follower {
    address: SocketAddr,
    id: String,
    /// Number of data notifications received.
    count: u64,
    /// Number of notifications that a recovery repeats, which are skipped.
    repeated: u64,
    raw: (ItemState, Vec<String>),
    merge: (ItemState, Vec<String>),
}

impl Follower {
    fn new(address: SocketAddr) -> Self {
        let id = create_by_poll(address);
        for (sub, mode) in [(1, "RAW"), (2, "MERGE")] {
            let add = format!(
                "LS_session={id}&LS_reqId={sub}&LS_op=add&LS_subId={sub}&LS_mode={mode}\
                 &LS_group=ltest-[key={KEY}]&LS_schema=value&LS_data_adapter=QuickStart"
            );
            assert_eq!(post(address, "control", &add).1, [format!("REQOK,{sub}")]);
        }
        Self {
            address,
            id,
            count: 0,
            repeated: 0,
            raw: (ItemState::new(1), Vec::new()),
            merge: (ItemState::new(1), Vec::new()),
        }
    }

    /// Processes one line; returns `true` for the last line of the stream.
    fn take(&mut self, text: &str) -> bool {
        let line = parse_line(text.as_bytes()).expect("a valid line");
        if line.is_data() {
            if self.repeated > 0 {
                self.repeated -= 1;
                return false;
            }
            self.count += 1;
        }
        match line {
            Line::Prog { count } => {
                assert!(count <= self.count, "{text} after {}", self.count);
                self.repeated = self.count - count;
            }
            Line::Update {
                sub_id, payload, ..
            } => {
                let (item, values) = match sub_id {
                    1 => &mut self.raw,
                    _ => &mut self.merge,
                };
                item.apply(payload)
                    .expect("a payload that fits what was received");
                let value = item.values().next().flatten().expect("a value");
                values.push(value.to_owned());
            }
            Line::Loop { .. } => return true,
            Line::End { .. } | Line::ConErr { .. } => panic!("{text}"),
            _ => {}
        }
        false
    }

    /// Reads `lines` lines of a stream over HTTP, then cuts it.
    fn stream_over_http(&mut self, lines: usize) {
        let mut http = Http::connect(self.address);
        let body = format!(
            "LS_session={}&LS_send_sync=false&LS_content_length=5000&LS_cause=test",
            self.id
        );
        http.post("bind_session", &body);
        for _ in 0..lines {
            if self.take(&http.line()) {
                return self.stream_over_http(lines);
            }
        }
        http.cut();
    }

    fn stream_over_websocket(&mut self, gateway: &weir_gateway::Gateway, lines: usize) {
        let mut client = Client::connect(gateway);
        client.send("wsok");
        client.send(&format!(
            "bind_session\r\nLS_session={}&LS_send_sync=false",
            self.id
        ));
        assert_eq!(client.line(), "WSOK");
        for _ in 0..lines {
            assert!(!self.take(&client.line()));
        }
    }

    /// Recovers the session like an SDK after a lost connection.
    fn recover(&mut self) {
        let body = format!(
            "LS_session={}&LS_recovery_from={}&LS_polling=true&LS_polling_millis=0\
             &LS_idle_millis=0",
            self.id, self.count
        );
        let (_, lines) = post(self.address, "bind_session", &body);
        assert!(
            lines.iter().any(|line| line.starts_with("PROG,")),
            "{lines:?}"
        );
        for line in &lines {
            self.take(line);
        }
    }
}

#[test]
fn repeated_disconnects_lose_and_repeat_nothing() {
    const RECORDS_MIN: usize = 3_000;
    const RECORDS_MAX: usize = 2 * RECORDS_MIN;
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let address = gateway.listen_address();
    let done = AtomicBool::new(false);
    let mut followers: Vec<_> = (0..4).map(|_| Follower::new(address)).collect();
    let following = AtomicUsize::new(followers.len());
    let records = thread::scope(|scope| {
        let producer = scope.spawn(|| {
            let mut records = 0;
            // More records than the followers read, so that none waits for a line that never comes.
            let wanted = || following.load(Ordering::Relaxed) > 0;
            while records < RECORDS_MIN || records < RECORDS_MAX && wanted() {
                env.send(KEY, &records.to_string());
                if records % 20 == 0 || records > RECORDS_MIN {
                    env.flush();
                }
                records += 1;
                done.store(records >= RECORDS_MIN, Ordering::Relaxed);
            }
            env.flush();
            records
        });
        for (number, follower) in followers.iter_mut().enumerate() {
            let (gateway, done, following) = (&gateway, &done, &following);
            scope.spawn(move || {
                let mut random = rand::rng();
                while !done.load(Ordering::Relaxed) {
                    // The stream starts with four lines; some cuts come before they are read. After
                    // the first, the gateway has received the request: one that arrives after the
                    // recovery would take over the session.
                    let lines = random.random_range(1..60);
                    match number % 2 {
                        0 => follower.stream_over_http(lines),
                        _ => follower.stream_over_websocket(gateway, lines),
                    }
                    follower.recover();
                }
                following.fetch_sub(1, Ordering::Relaxed);
            });
        }
        producer.join().expect("all are sent")
    });
    let last = (records - 1).to_string();
    for follower in &mut followers {
        while follower.raw.1.last() != Some(&last) || follower.merge.1.last() != Some(&last) {
            follower.recover();
        }
        let expected: Vec<String> = (0..records).map(|number| number.to_string()).collect();
        assert_eq!(follower.raw.1, expected);
        let merged: Vec<usize> = follower
            .merge
            .1
            .iter()
            .map(|v| v.parse().expect("a number"))
            .collect();
        assert!(
            merged.windows(2).all(|pair| pair[0] < pair[1]),
            "{merged:?}"
        );
    }
    assert!(metric(&gateway, "weir_gateway_recoveries_total") > 8);
    assert_eq!(metric(&gateway, "weir_gateway_recoveries_failed_total"), 0);
    gateway.shut_down();
}

#[test]
fn expired_recovery_data_is_refused() {
    let env = TestEnv::new();
    let mut config = env.config(|xml| xml);
    config.limits.recovery_bytes = 2_000;
    let gateway = weir_gateway::Gateway::start(config).expect("a gateway");
    wait_metric(&gateway, "weir_gateway_connection_ready", |ready| {
        ready == 1
    });
    let mut follower = Follower::new(gateway.listen_address());
    let mut client = Client::connect(&gateway);
    client.send(&format!(
        "bind_session\r\nLS_session={}&LS_send_sync=false",
        follower.id
    ));
    let mut value = String::new();
    while !value.starts_with("CONF,2,") {
        value = client.line();
    }
    for number in 0..10 {
        env.produce(KEY, &format!("{number}{}", "x".repeat(500)));
        for _ in 0..2 {
            assert!(client.line().starts_with("U,"));
        }
    }
    drop(client);
    wait_metric(&gateway, "weir_gateway_unbound_sessions", |unbound| {
        unbound == 1
    });
    let body = |from: u64| {
        format!(
            "LS_session={}&LS_recovery_from={from}&LS_polling=true&LS_polling_millis=0",
            follower.id
        )
    };
    let (_, lines) = post(follower.address, "bind_session", &body(5));
    assert_eq!(lines, ["CONERR,4,Recovery point no longer available"]);
    let (_, lines) = post(follower.address, "bind_session", &body(25));
    assert_eq!(
        lines,
        ["CONERR,4,Recovery point no longer available"],
        "never sent"
    );
    let (_, lines) = post(follower.address, "bind_session", &body(23));
    assert!(lines.contains(&"PROG,23".to_owned()), "{lines:?}");
    follower.count = 24;
    follower.recover();
    assert_eq!(metric(&gateway, "weir_gateway_recoveries_failed_total"), 2);
    gateway.shut_down();
}

/// A session without a rebind ends after its timeout.
#[test]
fn abandoned_session_expires() {
    let env = TestEnv::new();
    let mut config = env.config(|xml| xml);
    config.limits.recovery_ms = 200;
    config.limits.unbound_timeout_ms = 100;
    let gateway = weir_gateway::Gateway::start(config).expect("a gateway");
    wait_metric(&gateway, "weir_gateway_connection_ready", |ready| {
        ready == 1
    });
    let follower = Follower::new(gateway.listen_address());
    wait_metric(&gateway, "weir_gateway_sessions_expired_total", |expired| {
        expired == 1
    });
    let bind = format!("LS_session={}", follower.id);
    let (_, lines) = post(follower.address, "bind_session", &bind);
    assert!(lines[0].starts_with("CONERR,20,"), "{lines:?}");
    drop(Client::create(&gateway));
    wait_metric(&gateway, "weir_gateway_sessions_expired_total", |expired| {
        expired == 2
    });
    assert_eq!(metric(&gateway, "weir_gateway_sessions"), 0);
    assert_eq!(metric(&gateway, "weir_gateway_recovery_bytes"), 0);
    gateway.shut_down();
}

/// Relays connections to the gateways in turn.
fn balance(gateways: Vec<SocketAddr>) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for (client, target) in listener.incoming().flatten().zip(gateways.iter().cycle()) {
            let gateway = TcpStream::connect(target).expect("a gateway");
            for (from, to) in [(&client, &gateway), (&gateway, &client)] {
                let (mut from, mut to) = (
                    from.try_clone().expect("a handle"),
                    to.try_clone().expect("a handle"),
                );
                thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    address
}

#[test]
fn two_gateways_work_behind_plain_balancer() {
    let env = TestEnv::new();
    let start = |name: &str| {
        let port = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let listen = port.local_addr().expect("an address");
        drop(port);
        let mut config = env.config(|xml| xml);
        config.listen = listen;
        config.control_link = Some(listen.to_string());
        let gateway = weir_gateway::Gateway::start(config).expect(name);
        wait_metric(&gateway, "weir_gateway_connection_ready", |ready| {
            ready == 1
        });
        gateway
    };
    let gateways = [start("one"), start("two")];
    let balancer = balance(
        gateways
            .iter()
            .map(weir_gateway::Gateway::listen_address)
            .collect(),
    );
    let mut sessions = Vec::new();
    for _ in 0..4 {
        let create = "LS_polling=true&LS_polling_millis=0&LS_adapter_set=KafkaConnector&LS_cid=t";
        let (_, lines) = post(balancer, "create_session", create);
        let conok: Vec<&str> = lines[0].split(',').collect();
        let id = conok[1].to_owned();
        // Further requests go to the gateway of the session.
        let link: SocketAddr = conok[4].parse().expect("an address");
        let add = format!(
            "LS_session={id}&LS_reqId=1&LS_op=add&LS_subId=1&LS_mode=RAW\
             &LS_group=ltest-[key={KEY}]&LS_schema=value&LS_data_adapter=QuickStart"
        );
        assert_eq!(post(link, "control", &add).1, ["REQOK,1"]);
        let mut stream = Http::connect(link);
        let bind = format!("LS_session={id}&LS_send_sync=false&LS_reduce_head=true");
        stream.post("bind_session", &bind);
        assert_eq!(stream.line(), "SUBOK,1,1,1");
        assert!(stream.line().starts_with("CONF,1,"));
        sessions.push((link, stream));
    }
    env.produce(KEY, "to both");
    for (_, stream) in &mut sessions {
        assert_eq!(stream.line(), "U,1,1,to both");
    }
    for gateway in &gateways {
        assert_eq!(metric(gateway, "weir_gateway_sessions"), 2);
    }
    gateways
        .into_iter()
        .for_each(|gateway| assert_eq!(gateway.shut_down(), [""; 0]));
    for (_, mut stream) in sessions {
        assert_eq!(stream.line(), "END,48,the gateway is shutting down");
    }
}
