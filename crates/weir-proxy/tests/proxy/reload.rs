//! Reloads while records flow, and configurations that cannot be used.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use kafka_protocol::messages::MetadataRequest;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use weir_proxy::ReloadError;

use super::support::*;

/// Reloads of the test under load; `WEIR_RELOADS` sets another number.
const RELOADS: usize = 100;

/// A filter that changes none of the test's values.
const FILTER: &str = "[[cluster.filter]]\ntype = \"lower-case\"\n";

#[test]
fn reloads_under_load_close_no_connection_and_lose_nothing() {
    let wanted = std::env::var("WEIR_RELOADS").ok();
    let reloads = wanted.map_or(RELOADS, |number| number.parse().expect("a number"));
    let proxy = proxy("");
    let original = proxy.config_text();
    let bootstrap = proxy.bootstrap();
    let topic = topic(&bootstrap, "reloaded", 1, 1);
    let reader = subscribed(&bootstrap, &topic);
    let (stop, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut seen = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&bootstrap, &topic, &stop, &sent));
        let mut seen = read(&reader, 100);
        let closed = closed(&proxy);
        for number in 0..reloads {
            // A filter comes and goes while batches are under way.
            let filter = if number % 2 == 0 { FILTER } else { "" };
            let limits = format!("[limits]\nidle_timeout_ms = {}\n", 600_000 + number);
            proxy.write_config(&original.replacen("[[", &format!("{limits}[["), 1), filter);
            let report = proxy.get().reload().expect("reloaded");
            assert_eq!((report.generation, report.closing), (number as u64 + 2, 0));
            seen.extend(read(&reader, 1));
        }
        assert_eq!(self::closed(&proxy), closed, "no connection was closed");
        stop.store(true, Ordering::Relaxed);
        writer.join().expect("writes");
        seen
    });
    let sent = sent.load(Ordering::Relaxed);
    assert_eq!(stored(&reader, &topic), sent as i64, "nothing stored twice");
    let missing = sent - seen.len();
    seen.extend(read(&reader, missing));
    seen.sort_unstable();
    assert_eq!(seen, numbered("v", sent));
    assert_eq!(proxy.metric("weir_proxy_generation"), reloads as u64 + 1);
    let applied = proxy.metric("weir_proxy_reloads_total{outcome=\"applied\"}");
    assert_eq!(applied, reloads as u64);
    assert_eq!(proxy.metric("weir_proxy_reload_closed_total"), 0);
    assert!(proxy.metric("weir_proxy_filter_records_total") > 0);
}

#[test]
fn wrong_configuration_is_not_used() {
    let proxy = proxy("");
    let original = proxy.config_text();
    let mut open = Raw::connect(proxy.address);
    let ask = |open: &mut Raw| open.exchange(1, &MetadataRequest::default()).brokers.len();
    assert_eq!(ask(&mut open), 1);
    let half = &original[..original.len() - 5];
    let taken = proxy.get().admin_address();
    let other = format!("[[cluster]]\nname = \"b\"\nupstream = \"{}\"\n", broker());
    let wrong = [
        (half.to_owned(), "proxy.toml"),
        ("[[cluster]]\n".to_owned(), "upstream is missing"),
        (
            format!("{original}{other}listen = \"{taken}\"\nbroker_ports = \"1-2\"\n"),
            "listen",
        ),
        (
            original.replace("event_loops = 2", "event_loops = 3"),
            "event_loops",
        ),
        (
            format!("{original}tls = {{ certificate = \"no\", key = \"no\" }}\n"),
            "no",
        ),
    ];
    for (text, reason) in &wrong {
        proxy.write_config(text, "");
        let error = proxy.get().reload().expect_err("refused").to_string();
        assert!(error.contains(reason), "{reason} in {error}");
    }
    std::fs::remove_file(proxy.config_path()).expect("removed");
    assert!(matches!(proxy.get().reload(), Err(ReloadError::Config(_))));
    let failed = proxy.metric("weir_proxy_reloads_total{outcome=\"failed\"}");
    assert_eq!(failed, wrong.len() as u64 + 1);
    assert_eq!(proxy.metric("weir_proxy_generation"), 1);
    assert!(proxy.page("/reload").contains("cannot read the file"));
    assert_eq!(ask(&mut open), 1, "the connection continues");
    assert_eq!(ask(&mut Raw::connect(proxy.address)), 1);

    proxy.write_config(&original, "");
    let post = |header: &str| post(proxy.get().admin_address(), header);
    assert!(post("").starts_with("HTTP/1.1 405"), "without the header");
    let page = post("Weir-Command: reload\r\n");
    assert!(
        page.starts_with("HTTP/1.1 200") && page.contains("\"generation\":2"),
        "{page}"
    );
    assert!(proxy.page("/reload").contains("\"error\":null"));
    proxy.write_config("no", "");
    assert!(post("Weir-Command: reload\r\n").starts_with("HTTP/1.1 422"));
}

#[test]
fn only_connections_of_changed_clusters_end() {
    let ports = weir_lab::ports::free_ports([127, 0, 0, 1].into(), 6).expect("ports");
    let [first, second, third, ref brokers @ ..] = ports[..] else {
        panic!("six ports");
    };
    let cluster = |name: &str, port: u16| {
        let upstream = broker();
        let own = [first, second, third].iter().position(|one| *one == port);
        let ports = brokers[own.expect("a port")];
        format!(
            "[[cluster]]\nname = \"{name}\"\nupstream = \"{upstream}\"\n\
             listen = \"127.0.0.1:{port}\"\nbroker_ports = \"{ports}-{ports}\"\n"
        )
    };
    let proxy = proxy("");
    let base = proxy.config_text();
    let reload = |clusters: &[String]| {
        proxy.write_config(&base, &clusters.concat());
        proxy.get().reload().expect("reloaded").closing
    };
    let ask = |open: &mut Raw| open.exchange(1, &MetadataRequest::default()).brokers.len();
    let at = |port: u16| Raw::connect(SocketAddr::from(([127, 0, 0, 1], port)));
    let mut unrelated = Raw::connect(proxy.address);
    assert_eq!(reload(&[cluster("a", first), cluster("b", second)]), 0);
    let (mut a, mut b) = (at(first), at(second));
    assert_eq!((ask(&mut a), ask(&mut b), ask(&mut unrelated)), (1, 1, 1));

    // A new address concerns new connections only.
    assert_eq!(reload(&[cluster("a", third), cluster("b", second)]), 0);
    assert_eq!(ask(&mut a), 1);
    assert_eq!(ask(&mut at(third)), 1);
    let address = SocketAddr::from(([127, 0, 0, 1], first));
    await_that("the old address to be closed", || {
        TcpStream::connect(address).is_err()
    });

    // A removed cluster ends its connections, and fewer API versions end those that know of more.
    let filter = "[[cluster.filter]]\ntype = \"lower-case\"\non = [\"fetch\"]\n";
    assert!(reload(&[cluster("a", third)]) >= 1);
    assert!(b.until_closed().is_empty());
    assert_eq!(ask(&mut a), 1);
    assert!(reload(&[cluster("a", third), filter.to_owned()]) >= 1);
    assert!(a.until_closed().is_empty());
    assert_eq!(ask(&mut unrelated), 1, "of a cluster without changes");
    assert!(proxy.metric("weir_proxy_reload_closed_total") >= 2);
    assert!(TcpStream::connect(("127.0.0.1", second)).is_err());
}

#[test]
fn changed_file_is_reloaded() {
    let proxy = proxy("watch_config = true\n---\n");
    let original = proxy.config_text();
    proxy.write_config(&original, FILTER);
    proxy.await_metric("weir_proxy_generation", 2);
    proxy.write_config("not a configuration", "");
    proxy.await_metric("weir_proxy_reloads_total{outcome=\"failed\"}", 1);
    assert_eq!(proxy.metric("weir_proxy_generation"), 2);
}

/// Returns how many connections have ended.
fn closed(proxy: &TestProxy) -> u64 {
    let accepted = proxy.metric("weir_proxy_connections_accepted_total");
    accepted - proxy.metric("weir_proxy_connections")
}

fn subscribed(bootstrap: &str, topic: &str) -> BaseConsumer {
    let mut client_config = client_config(bootstrap);
    client_config
        .set("group.id", unique("group"))
        .set("auto.offset.reset", "earliest");
    let consumer: BaseConsumer = client_config.create().expect("valid configuration");
    consumer.subscribe(&[topic]).expect("subscribes");
    consumer
}

fn stored(consumer: &BaseConsumer, topic: &str) -> i64 {
    let watermarks = consumer.fetch_watermarks(topic, 0, TEST_TIMEOUT);
    watermarks.expect("a response").1
}

/// Writes numbered values until `stop` is set, and waits until they are stored.
fn write(bootstrap: &str, topic: &str, stop: &AtomicBool, sent: &AtomicUsize) {
    let mut client_config = client_config(bootstrap);
    client_config
        .set("enable.idempotence", "true")
        .set("linger.ms", "1");
    let producer: BaseProducer = client_config.create().expect("valid configuration");
    while !stop.load(Ordering::Relaxed) {
        let number = sent.fetch_add(1, Ordering::Relaxed);
        let value = format!("v-{number:06}");
        let record = BaseRecord::<(), _>::to(topic).payload(&value);
        producer
            .send(record)
            .map_err(|(error, _)| error)
            .expect("queued");
        producer.poll(Duration::from_millis(1));
    }
    producer.flush(TEST_TIMEOUT).expect("stored");
}

fn post(admin: SocketAddr, header: &str) -> String {
    let mut stream = TcpStream::connect(admin).expect("admin port");
    let head = format!("POST /reload HTTP/1.1\r\nHost: localhost\r\n{header}");
    let request = format!("{head}Content-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sends");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("reads");
    text
}
