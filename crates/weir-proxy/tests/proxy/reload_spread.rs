//! Ends of connections after a reload, and what a reload would change.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::{FetchRequest, MetadataRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::{Value as Json, json};

use super::logins::topic_errors;
use super::support::*;

/// A filter that hides APIs of share groups.
const FILTER: &str = "[[cluster.filter]]\ntype = \"lower-case\"\non = [\"fetch\"]\n";

fn brokers(raw: &mut Raw) -> usize {
    raw.exchange(1, &MetadataRequest::default()).brokers.len()
}

fn opened(proxy: &TestProxy, count: usize) -> Vec<Raw> {
    let mut all: Vec<_> = (0..count).map(|_| Raw::connect(proxy.address)).collect();
    for raw in &mut all {
        assert_eq!(brokers(raw), 1);
    }
    all
}

fn reload(proxy: &TestProxy, more: &str) -> (usize, usize) {
    let text = proxy.config_text();
    let original = text.split("\n#more\n").next().unwrap_or_default();
    proxy.write_config(original, &format!("#more\n{more}"));
    let report = proxy.get().reload().expect("reloaded");
    (report.closing, report.spread)
}

#[test]
fn ends_are_spread_and_can_be_withdrawn() {
    let proxy = proxy_with_loops(1, "reload_spread_ms = 3600000\n---\n");
    let mut all = opened(&proxy, 4);
    assert_eq!(reload(&proxy, FILTER), (4, 4));
    let mut first = all.remove(0);
    assert!(first.until_closed().is_empty());
    for raw in &mut all {
        assert_eq!(brokers(raw), 1, "it continues until its turn");
    }
    proxy.await_metric("weir_proxy_reload_closed_total", 1);
    // Connections that will end are not counted again; those that may stay do not end.
    assert_eq!(reload(&proxy, FILTER), (0, 0));
    assert_eq!(reload(&proxy, ""), (0, 0));
    assert_eq!(reload(&proxy, FILTER), (3, 3));
    let mut next = all.remove(0);
    assert!(next.until_closed().is_empty());
    assert!(all.iter_mut().all(|raw| brokers(raw) == 1));
    assert_eq!(proxy.metric("weir_proxy_reload_closed_total"), 2);
    assert_eq!(brokers(&mut Raw::connect(proxy.address)), 1);
}

#[test]
fn spread_ends_take_the_interval() {
    let proxy = proxy_with_loops(1, "reload_spread_ms = 1000\n---\n");
    let mut all = opened(&proxy, 5);
    let since = Instant::now();
    assert_eq!(reload(&proxy, FILTER), (5, 5));
    for (number, raw) in all.iter_mut().enumerate() {
        assert!(raw.until_closed().is_empty());
        let earliest = Duration::from_millis(200 * number as u64);
        assert!(since.elapsed() >= earliest, "connection {number}");
    }
    let open = "weir_proxy_cluster_connections{cluster=\"default\",broker=\"bootstrap\"}";
    proxy.await_metric(open, 0);
    let closed = "weir_proxy_connections_closed_total{cluster=\"default\",cause=\"reload\"}";
    assert_eq!(proxy.metric(closed), 5);
    assert_eq!(proxy.metric("weir_proxy_reload_closed_total"), 5);
}

#[test]
fn request_in_flight_is_answered_before_the_end() {
    let topic = topic(&broker(), "in-flight", 1, 1);
    let proxy = proxy_with_loops(1, "reload_spread_ms = 0\n---\n");
    let mut raw = opened(&proxy, 1).remove(0);
    let name = TopicName(StrBytes::from_string(topic));
    let partition = FetchPartition::default().with_partition_max_bytes(1000);
    let fetch = FetchRequest::default()
        .with_max_wait_ms(2_000)
        .with_min_bytes(1)
        .with_max_bytes(1000)
        .with_session_epoch(-1)
        .with_topics(vec![
            FetchTopic::default()
                .with_topic(name)
                .with_partitions(vec![partition]),
        ]);
    let response = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| raw.exchange(12, &fetch));
        await_that("the request at the broker", || {
            proxy.page("/connections").contains("\"in_flight\":1")
        });
        assert_eq!(reload(&proxy, FILTER), (1, 0));
        assert!(proxy.page("/connections").contains("\"in_flight\":1"));
        waiting.join().expect("a response")
    });
    assert_eq!(response.error_code, 0);
    assert!(raw.until_closed().is_empty());
}

#[test]
fn new_rules_apply_before_the_spread_end() {
    let topic = topic(&broker(), "ruled", 1, 1);
    let proxy = proxy_with_loops(1, "reload_spread_ms = 3600000\n---\n");
    let mut all = opened(&proxy, 2);
    assert_eq!(topic_errors(&mut all[1], &[&topic]), [0]);
    assert_eq!(
        reload(&proxy, "[cluster.access]\nsuper_users = []\n"),
        (2, 2)
    );
    assert!(all[0].until_closed().is_empty());
    assert_eq!(topic_errors(&mut all[1], &[&topic]), [29]);
}

#[test]
fn preview_reports_changes_and_applies_nothing() {
    let ports = weir_lab::ports::free_ports([127, 0, 0, 1].into(), 4).expect("ports");
    let [first, second, third, fourth] = ports[..] else {
        panic!("four ports");
    };
    let cluster = |name: &str, port: u16, ports: u16, upstream: &str| {
        format!(
            "[[cluster]]\nname = \"{name}\"\nupstream = \"{upstream}\"\n\
             listen = \"127.0.0.1:{port}\"\nbroker_ports = \"{ports}-{ports}\"\n"
        )
    };
    let proxy = proxy_with_loops(1, "reload_spread_ms = 1000\n---\n");
    let base = proxy.config_text();
    proxy.write_config(&base, &cluster("a", first, second, &broker()));
    proxy.get().reload().expect("reloaded");
    let mut own = opened(&proxy, 2);
    let mut a = Raw::connect(SocketAddr::from(([127, 0, 0, 1], first)));
    assert_eq!(brokers(&mut a), 1);

    let check = |path: &str| post(proxy.get().admin_address(), path);
    let preview = || -> Json {
        let page = check("/reload?check=1");
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        let (_, body) = page.split_once("\r\n\r\n").expect("a body");
        serde_json::from_str(body).expect("JSON")
    };
    let none = json!({ "generation": 2, "closing": 0, "settings": [], "clusters": [] });
    assert_eq!(preview(), none);

    // The first cluster gets a filter, `a` is replaced by `b`, and a limit changes.
    let base = base.replacen("[[", "[limits]\nframe_ms = 777\n[[", 1);
    let b = cluster("b", third, fourth, &broker());
    proxy.write_config(&base, &format!("{FILTER}{b}"));
    let row = |name: &str, change: &str, keys: &[&str], [closing, spread]: [u64; 2]| {
        json!({ "name": name, "change": change, "keys": keys, "closing": closing,
                "spread": spread })
    };
    assert_eq!(
        preview(),
        json!({
            "generation": 2, "closing": 3, "settings": ["limits.frame_ms"],
            "clusters": [
                row("a", "removed", &[], [1, 0]),
                row("default", "changed", &["filter"], [2, 2]),
                row("b", "added", &[], [0, 0]),
            ],
        })
    );
    // Other brokers behind the same name.
    let moved = cluster("a", first, second, "127.0.0.1:1");
    proxy.write_config(&base, &moved);
    let report = preview();
    assert_eq!(
        report["clusters"][0],
        row("a", "moved", &["upstream"], [1, 0])
    );

    // Nothing has changed.
    assert_eq!(proxy.metric("weir_proxy_generation"), 2);
    assert_eq!(proxy.metric("weir_proxy_reload_closed_total"), 0);
    assert!(own.iter_mut().all(|raw| brokers(raw) == 1));
    assert_eq!(brokers(&mut a), 1);
    assert!(
        TcpStream::connect(("127.0.0.1", third)).is_err(),
        "no listener is left"
    );

    proxy.write_config("no", "");
    assert!(check("/reload?check=1").starts_with("HTTP/1.1 422"));
    for path in ["/reload?check=0", "/reload?other=1"] {
        assert!(check(path).starts_with("HTTP/1.1 400"), "{path}");
    }
    let failed = proxy.metric("weir_proxy_reloads_total{outcome=\"failed\"}");
    assert_eq!(failed, 0, "a check is no reload");
}

#[test]
fn producer_continues_with_a_moved_cluster() {
    let other = lab(1);
    let topics = [broker(), other.bootstrap()].map(|bootstrap| {
        let made = topic(&bootstrap, "moved", 1, 1);
        (bootstrap, made)
    });
    let proxy = proxy("");
    let mut config = client_config(&proxy.bootstrap());
    config.set("allow.auto.create.topics", "true");
    let producer: BaseProducer = config.create().expect("valid configuration");
    let write = |topic: &str| {
        let record = BaseRecord::<(), _>::to(topic).payload("v");
        let sent = producer.send(record).map_err(|(error, _)| error);
        sent.expect("queued");
        producer.flush(TEST_TIMEOUT).expect("stored");
    };
    write(&topics[0].1);
    let text = proxy.config_text().replace(&topics[0].0, &topics[1].0);
    proxy.write_config(&text, "");
    let report = proxy.get().reload().expect("reloaded");
    assert!(report.closing > 0 && report.spread == 0, "{report:?}");
    write(&topics[1].1);
    assert_eq!(consume(&topics[1].0, &topics[1].1, 1), ["v"]);
}

fn post(admin: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(admin).expect("admin port");
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nWeir-Command: reload\r\n");
    let request = format!("{head}Content-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sends");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("reads");
    text
}
