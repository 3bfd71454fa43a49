//! Invalid input of clients and operators: each error gets a response, and other clients are not
//! affected.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use socket2::{Domain, Socket, Type};
use support::{Client, TEST_TIMEOUT, TestEnv, metric, wait_metric};
use weir_gateway::config::CliOverrides;
use weir_gateway::{Gateway, GatewayConfig};
use weir_mapping::ParseOptions;

/// Starts a gateway with changed limits and waits until it reads.
fn start(env: &TestEnv, change: impl FnOnce(&mut GatewayConfig)) -> Gateway {
    let mut config = env.config(|xml| xml);
    change(&mut config);
    let gateway = Gateway::start(config).expect("a gateway");
    wait_metric(&gateway, "weir_gateway_connection_ready", |ready| {
        ready == 1
    });
    gateway
}

fn add(id: u32, mode: &str, key: &str) -> String {
    format!(
        "LS_reqId={id}&LS_op=add&LS_subId={id}&LS_mode={mode}&LS_group=ltest-[key={key}]\
         &LS_schema=value&LS_data_adapter=QuickStart&LS_ack=false"
    )
}

#[test]
fn configuration_errors_contain_location() {
    let dir = tempfile::tempdir().expect("a directory");
    let load = |xml: &str| {
        let path = dir.path().join("adapters.xml");
        std::fs::write(&path, xml).expect("a file");
        let options = ParseOptions::default();
        let loaded = GatewayConfig::load(Some(&path), None, &CliOverrides::default(), options);
        loaded.map(|_| ()).expect_err("a mistake").to_string()
    };
    let good = include_str!("../../weir-mapping/tests/fixtures/scenario2-adapters.xml");
    for (from, to, named) in [
        ("</data_provider>", "</data_provide>", "data_provide"),
        ("ltest-#{key=KEY}", "ltest-#{key=}", "[ltest]"),
        ("ltest-#{key=KEY}", "ltest-#{key=KEYS}", "[ltest]"),
        (
            "item-template.ltest</param>",
            "item-template.unknown</param>",
            "unknown",
        ),
        ("#{VALUE}", "VALUE", "[value]"),
    ] {
        assert!(good.contains(from), "{from}");
        let error = load(&good.replace(from, to));
        assert!(
            error.contains("adapters.xml") && error.contains(named),
            "{to}: {error}"
        );
    }
    let missing = Path::new("/nowhere/adapters.xml");
    let options = ParseOptions::default();
    let loaded = GatewayConfig::load(Some(missing), None, &CliOverrides::default(), options);
    assert!(
        loaded
            .expect_err("no file")
            .to_string()
            .contains("/nowhere/adapters.xml")
    );
}

#[test]
fn malformed_requests_do_not_affect_session() {
    let env = TestEnv::new();
    let gateway = start(&env, |_| {});
    let mut client = Client::create(&gateway);
    client.subscribe(1, "ltest-[key=Kaki]", "value");
    for (request, answer) in [
        ("", "ERROR,67,"),
        ("nonsense", "ERROR,67,"),
        ("control", "ERROR,67,"),
        ("control\r\n", "ERROR,67,"),
        ("control\r\nLS_op", "ERROR,67,"),
        ("control\r\nLS_op=add", "ERROR,67,"),
        ("control\r\nLS_reqId=!&LS_op=add", "ERROR,65,"),
        ("control\r\nLS_reqId=2&LS_op=dance", "REQERR,2,65,"),
        ("control\r\nLS_reqId=2&LS_op=delete", "REQERR,2,67,"),
        (
            "control\r\nLS_reqId=2&LS_op=delete&LS_subId=x",
            "REQERR,2,65,",
        ),
        ("control\r\nLS_reqId=2\n&LS_op=destroy", "ERROR,65,"),
        ("control\r\nLS_reqId=2&LS_op=register", "REQERR,2,40,"),
        ("bind_session\r\nLS_session=x\u{0}y", "CONERR,69,"),
        (
            "create_session\r\nLS_cid=x&LS_keepalive_millis=-1",
            "CONERR,65,",
        ),
    ] {
        client.send(request);
        let line = client.line();
        assert!(line.starts_with(answer), "{request:?}: {line}");
    }
    env.produce("Kaki", "alive");
    assert_eq!(client.line(), "U,1,1,alive");
    gateway.shut_down();
}

#[test]
fn oversized_line_ends_only_its_sender() {
    let env = TestEnv::new();
    let gateway = start(&env, |config| config.limits.recovery_ms = 100);
    let mut good = Client::create(&gateway);
    good.subscribe(1, "ltest-[key=Lychee]", "value");
    let huge = "x".repeat(10_000_000);

    let mut sender = Client::create(&gateway);
    // The gateway may close the connection before everything is written.
    let _ = sender.try_send(&format!("control\r\nLS_reqId={huge}"));
    assert!(!sender.lives(), "the message exceeds the limit in CONOK");
    let mut heads = Vec::new();
    for request in [
        format!(
            "POST /lightstreamer/control.txt HTTP/1.1\r\nContent-Length: {}\r\n\r\n{huge}",
            huge.len()
        ),
        format!("GET /{huge} HTTP/1.1\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nCookie: {huge}\r\n\r\n"),
    ] {
        let mut stream = TcpStream::connect(gateway.listen_address()).expect("a connection");
        stream
            .set_read_timeout(Some(TEST_TIMEOUT))
            .expect("a timeout");
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        // A reset may follow the response, because the request was not read completely.
        let _ = stream.read_to_end(&mut answer);
        heads.push(
            String::from_utf8_lossy(&answer)
                .chars()
                .take(12)
                .collect::<String>(),
        );
    }
    for (head, status) in heads.iter().zip(["413", "431", "431"]) {
        assert!(
            head.is_empty() || *head == format!("HTTP/1.1 {status}"),
            "{head}"
        );
    }
    wait_metric(&gateway, "weir_gateway_sessions", |sessions| sessions == 1);
    env.produce("Lychee", "alive");
    assert_eq!(good.line(), "U,1,1,alive");
    gateway.shut_down();
}

/// A client that disappeared and one that does not read look the same to the gateway.
#[test]
fn client_without_reads_is_disconnected() {
    let env = TestEnv::new();
    let gateway = start(&env, |config| {
        config.limits.stall_timeout_ms = 1_000;
        config.limits.recovery_ms = 100;
        config.limits.queue_bytes = 1 << 30;
    });
    let _stalled = subscriber(&gateway, "MERGE", "Mango");
    let mut quick = Client::create(&gateway);
    quick.subscribe(1, "ltest-[key=Mango]", "value");
    let mut number = 0;
    while number % 10 != 0 || metric(&gateway, "weir_gateway_sessions") == 2 {
        assert!(number < 20_000, "still connected");
        env.produce("Mango", &format!("{number}{}", "x".repeat(20_000)));
        assert!(quick.line().starts_with(&format!("U,1,1,{number}x")));
        number += 1;
    }
    assert_eq!(
        metric(&gateway, "weir_gateway_slow_sessions_closed_total"),
        0
    );
    env.produce("Mango", "alive");
    assert_eq!(quick.line(), "U,1,1,alive");
    gateway.shut_down();
}

#[test]
fn inactivity_timeout_ends_connection() {
    let env = TestEnv::new();
    let gateway = start(&env, |_| {});
    let mut client = Client::connect(&gateway);
    client.send(
        "create_session\r\nLS_adapter_set=KafkaConnector&LS_cid=t&LS_send_sync=false\
    &LS_inactivity_millis=200",
    );
    assert!(client.line().starts_with("CONOK,"));
    assert!(
        !client.lives(),
        "announced interval 200 ms, allowed 1400 ms"
    );
    // The session is still there for a rebind.
    wait_metric(&gateway, "weir_gateway_unbound_sessions", |unbound| {
        unbound == 1
    });
    gateway.shut_down();
}

/// Creates a session with one subscription, on a connection with a small receive buffer.
fn subscriber(gateway: &Gateway, mode: &str, key: &str) -> Client {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket
        .set_recv_buffer_size(16 * 1024)
        .expect("a small buffer");
    socket
        .connect(&gateway.listen_address().into())
        .expect("a connection");
    let mut client = Client::connect_over(socket.into());
    client.send(
        "create_session\r\nLS_adapter_set=KafkaConnector&LS_cid=t&LS_send_sync=false\
         &LS_keepalive_millis=60000&LS_reduce_head=true",
    );
    assert!(client.line().starts_with("CONOK,"));
    client.send(&format!("control\r\n{}", add(1, mode, key)));
    assert_eq!(client.line(), "SUBOK,1,1,1");
    assert!(client.line().starts_with("CONF,1,"));
    client
}

/// Reads the available bytes; returns the number of bytes read so far.
fn drain(readers: &mut [(TcpStream, usize)]) -> impl Iterator<Item = usize> {
    let mut buffer = vec![0; 64 * 1024];
    for (stream, count) in &mut *readers {
        while let Ok(read @ 1..) = stream.read(&mut buffer) {
            *count += read;
        }
    }
    readers.iter().map(|(_, count)| *count)
}

/// Of two clients that do not read, the one in mode MERGE gets the latest values when it reads
/// again, and the one in mode RAW gets the number of lost updates. All other clients get
/// everything.
#[test]
fn slow_readers_do_not_affect_a_thousand_others() {
    const READERS: usize = 997;
    let env = TestEnv::new();
    let gateway = start(&env, |config| {
        config.limits.queue_bytes = 64 * 1024;
        // A busy machine must not be mistaken for a disconnected client.
        config.limits.stall_timeout_ms = 3_600_000;
    });
    let mut checker = subscriber(&gateway, "RAW", "Nashi");
    let mut merge = subscriber(&gateway, "MERGE", "Nashi");
    let raw = subscriber(&gateway, "RAW", "Nashi");
    let mut readers = Vec::new();
    for _ in 0..READERS {
        let stream = subscriber(&gateway, "RAW", "Nashi").into_stream();
        stream.set_nonblocking(true).expect("an open connection");
        readers.push((stream, 0));
    }
    let mut bytes = 0;
    let mut updates = 0;
    let wanted = [
        "weir_gateway_updates_lost_total",
        "weir_gateway_updates_conflated_total",
    ];
    while updates < 20 || wanted.iter().any(|name| metric(&gateway, name) == 0) {
        let value = format!("{updates}{}", "x".repeat(4_000));
        env.produce("Nashi", &value);
        assert_eq!(checker.line(), format!("U,1,1,{value}"));
        // A frame header of four bytes, the line and its end.
        bytes += 4 + "U,1,1,".len() + value.len() + 2;
        updates += 1;
        let deadline = Instant::now() + TEST_TIMEOUT;
        while drain(&mut readers).any(|count| count != bytes) {
            assert!(Instant::now() < deadline, "a reader misses updates");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(updates < 3_000, "exceeds the kernel's buffers");
    }
    assert_eq!(
        metric(&gateway, "weir_gateway_slow_sessions_closed_total"),
        0
    );
    assert_eq!(
        metric(&gateway, "weir_gateway_sessions"),
        3 + READERS as u64
    );
    drop(raw);

    let newest = format!("U,1,1,{}x", updates - 1);
    let mut seen = 0;
    while !merge.line().starts_with(&newest) {
        seen += 1;
    }
    assert!(seen + 1 < updates, "the lagging client lost updates");
    env.produce("Nashi", "more");
    assert_eq!(merge.line(), "U,1,1,more");
    gateway.shut_down();
}

#[test]
fn concurrent_subscribe_and_unsubscribe_leave_no_state() {
    const KEYS: [&str; 3] = ["Olive", "Orange", "Oca"];
    let env = TestEnv::new();
    let gateway = start(&env, |_| {});
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                KEYS.iter().for_each(|key| env.produce(key, "x"));
            }
        });
        let mut racers = Vec::new();
        for racer in 0..6 {
            let gateway = &gateway;
            racers.push(scope.spawn(move || {
                let mut client = Client::create(gateway);
                for round in 0..100_u32 {
                    let key = KEYS[(racer + round as usize) % KEYS.len()];
                    let mode = ["RAW", "MERGE", "DISTINCT"][round as usize % 3];
                    let id = round + 1;
                    client.send(&format!(
                        "control\r\n{}\r\nLS_reqId=d&LS_op=delete&LS_subId={id}",
                        add(id, mode, key)
                    ));
                    // No notification of a subscription comes before SUBOK or after UNSUB.
                    let mut open = None;
                    loop {
                        let line = client.line();
                        let about = line.split(',').nth(1).map(str::to_owned);
                        match line.split(',').next() {
                            Some("SUBOK") => open = about,
                            Some("UNSUB") => break assert_eq!(about, open),
                            Some("U" | "CONF") => assert_eq!(about, open, "{line}"),
                            _ => assert_eq!(line, "REQOK,d"),
                        }
                    }
                }
            }));
        }
        for racer in racers {
            racer.join().expect("no error in a racing client");
        }
        stop.store(true, Ordering::Relaxed);
    });
    for gone in [
        "weir_gateway_subscriptions",
        "weir_gateway_items",
        "weir_gateway_routed_items",
    ] {
        wait_metric(&gateway, gone, |left| left == 0);
    }
    gateway.shut_down();
}

/// Everything sent before the shutdown is complete, without a gap, and followed by END.
#[test]
fn shutdown_under_load_sends_end_after_last_update() {
    let env = TestEnv::new();
    let gateway = start(&env, |_| {});
    let stop = AtomicBool::new(false);
    let mut clients: Vec<_> = (0..20).map(|_| Client::create(&gateway)).collect();
    for client in &mut clients {
        client.subscribe(1, "ltest-[key=Pear]", "offset");
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                env.produce("Pear", "x");
            }
        });
        let readers: Vec<_> = clients
            .into_iter()
            .map(|mut client| {
                scope.spawn(move || {
                    let mut next = None;
                    loop {
                        let line = client.line();
                        let Some(offset) = line.strip_prefix("U,1,1,") else {
                            assert_eq!(line, "END,48,the gateway is shutting down");
                            assert!(!client.lives());
                            return next;
                        };
                        let offset: u64 = offset.parse().expect("a number");
                        assert!(next.is_none_or(|next| next == offset), "{next:?}, {line}");
                        next = Some(offset + 1);
                    }
                })
            })
            .collect();
        wait_metric(&gateway, "weir_gateway_updates_sent_total", |sent| {
            sent > 2_000
        });
        gateway.shut_down();
        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            assert!(reader.join().expect("a clean end").is_some());
        }
    });
}
