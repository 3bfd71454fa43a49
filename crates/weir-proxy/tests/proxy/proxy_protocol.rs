//! PROXY headers of load balancers in front of the proxy, and those that the proxy sends.

use std::io::Write;
use std::net::SocketAddr;

use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{MetadataRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use weir_net::proxy_header::{ForwardedTls, ProxyHeader};

use super::support::*;

const REQUIRED: &str = "proxy_protocol = \"required\"\ntrusted = [\"127.0.0.0/8\"]\n";
const LINE: &[u8] = b"PROXY TCP4 192.0.2.1 198.51.100.2 1234 9092\r\n";

fn header(client: &str) -> ProxyHeader {
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
    ProxyHeader {
        addresses: Some((address(client), address("198.51.100.2:9092"))),
        ..ProxyHeader::default()
    }
}

/// Connects with first bytes.
fn connect(proxy: &TestProxy, first: &[u8]) -> Raw {
    let mut raw = Raw::connect(proxy.address);
    raw.send(first);
    raw
}

fn responds(raw: &mut Raw) {
    raw.send(&request(18, 0, 7, &[]));
    assert_eq!(raw.receive()[..4], [0, 0, 0, 7]);
}

#[test]
fn client_address_of_header_is_limited_and_shown() {
    let limits = "[limits]\nconnections_per_address = 1\n---\n";
    let proxy = proxy(&format!("{limits}{REQUIRED}"));
    let forwarded = ProxyHeader {
        authority: Some("orders.example.com".into()),
        tls: Some(ForwardedTls {
            version: Some("TLSv1.3".into()),
            common_name: Some("alice".into()),
            is_verified: true,
        }),
        ..header("192.0.2.7:1234")
    };
    let mut first = connect(&proxy, &forwarded.to_version_2());
    responds(&mut first);
    let page = proxy.page("/connections");
    let local = first.stream.local_addr().expect("an address");
    for part in [
        "\"client\":\"192.0.2.7:1234\"".to_owned(),
        format!("\"via\":\"{local}\""),
        "\"server_name\":\"orders.example.com\"".to_owned(),
        "\"forwarded_common_name\":\"alice\"".to_owned(),
    ] {
        assert!(page.contains(&part), "{part} in {page}");
    }
    // The limit is per client, not per load balancer.
    let mut second = connect(&proxy, &header("192.0.2.7:1235").to_version_2());
    assert!(second.until_closed().is_empty());
    proxy.await_metric("weir_proxy_connections_rejected_total", 1);
    let mut other = connect(&proxy, LINE);
    responds(&mut other);
    drop(first);
    proxy.await_metric("weir_proxy_connections", 1);
    let mut again = connect(&proxy, &header("192.0.2.7:1236").to_version_2());
    responds(&mut again);
    // A health check of the load balancer itself.
    let mut check = connect(&proxy, &ProxyHeader::default().to_version_2());
    responds(&mut check);
    assert_eq!(proxy.metric("weir_proxy_proxy_headers_total"), 5);
    assert_eq!(proxy.metric("weir_proxy_proxy_headers_rejected_total"), 0);
}

#[test]
fn access_rules_see_the_address_of_the_header() {
    let name = topic(&broker(), "forwarded", 1, 1);
    let proxy = proxy(&format!(
        "{REQUIRED}[cluster.access]\n[[cluster.access.rule]]\neffect = \"allow\"\n\
         principals = [\"User:*\"]\naddresses = [\"192.0.2.0/24\"]\noperations = [\"all\"]\n\
         topics = [\"*\"]\n"
    ));
    let name = TopicName(StrBytes::from_string(name));
    let wanted = MetadataRequestTopic::default().with_name(Some(name));
    let wanted = MetadataRequest::default().with_topics(Some(vec![wanted]));
    for (client, error) in [("192.0.2.1:1", 0), ("192.0.3.1:1", 29)] {
        let mut raw = connect(&proxy, &header(client).to_version_2());
        let response = raw.exchange(4, &wanted);
        assert_eq!(response.topics[0].error_code, error, "{client}");
    }
}

#[test]
fn hostile_headers_close_the_connection() {
    let limits = "[limits]\nhandshake_timeout_ms = 300\n---\n";
    let proxy = proxy(&format!("{limits}{REQUIRED}"));
    let good = header("192.0.2.1:1").to_version_2();
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let checksum = changed(good.len() - 1, good[good.len() - 1] ^ 1);
    let rejected = [
        request(18, 0, 1, &[]),
        checksum,
        changed(12, 0x31),
        changed(13, 0x12),
        changed(14, 0x10),
        b"PROXY TCP4 192.0.2.1 198.51.100.2 1 65536\r\n".to_vec(),
        format!("PROXY UNKNOWN {}", "x".repeat(200)).into_bytes(),
    ];
    for bytes in &rejected {
        let mut raw = connect(&proxy, bytes);
        assert!(raw.until_closed().is_empty(), "{bytes:02x?}");
    }
    let count = rejected.len() as u64;
    proxy.await_metric("weir_proxy_proxy_headers_rejected_total", count);
    // A second header is no request.
    for second in [LINE, &good] {
        let mut raw = connect(&proxy, &[LINE, second].concat());
        assert!(raw.until_closed().is_empty());
    }
    proxy.await_metric("weir_proxy_client_errors_total", 2);
    // Slow, silent, and cut off.
    for bytes in [&LINE[..LINE.len() - 1], &good[..20], &[]] {
        let mut raw = connect(&proxy, bytes);
        assert!(raw.until_closed().is_empty());
    }
    proxy.await_metric("weir_proxy_timeouts_total", 3);
    for bytes in [&LINE[..9], &[]] {
        let mut raw = connect(&proxy, bytes);
        let _ = raw.stream.shutdown(std::net::Shutdown::Write);
        assert!(raw.until_closed().is_empty());
    }
    proxy.await_metric("weir_proxy_connections", 0);
    // One byte at a time, and with the first request in the same segment.
    let mut slow = connect(&proxy, &[]);
    for byte in &good {
        slow.stream.write_all(&[*byte]).expect("sends");
    }
    responds(&mut slow);
    let mut fast = connect(&proxy, &[LINE, &request(18, 0, 9, &[])].concat());
    assert_eq!(fast.receive()[..4], [0, 0, 0, 9]);
}

#[test]
fn only_trusted_peers_send_headers() {
    let strict = proxy("proxy_protocol = \"required\"\ntrusted = [\"10.0.0.0/8\"]\n");
    let mut raw = connect(&strict, &[]);
    assert!(raw.until_closed().is_empty());
    strict.await_metric("weir_proxy_connections_rejected_total", 1);
    let lenient = proxy("proxy_protocol = \"trusted\"\ntrusted = [\"10.0.0.0/8\", \"::1\"]\n");
    responds(&mut connect(&lenient, &[]));
    let mut invented = connect(&lenient, LINE);
    assert!(invented.until_closed().is_empty());
    lenient.await_metric("weir_proxy_client_errors_total", 1);
    let both = proxy("proxy_protocol = \"trusted\"\ntrusted = [\"127.0.0.1\"]\n");
    responds(&mut connect(&both, LINE));
    let mut missing = connect(&both, &request(18, 0, 1, &[]));
    assert!(missing.until_closed().is_empty());
}

#[test]
fn chained_proxies_forward_the_client_address() {
    let inner = proxy(&format!("advertised_host = \"127.0.0.1\"\n{REQUIRED}"));
    let chained = "upstream_proxy_protocol = true\n";
    let outer = proxy_to(&inner.bootstrap(), chained);
    await_that("the outer proxy to be ready", || outer.get().is_ready());
    let bootstrap = outer.bootstrap();
    let topic = topic(&bootstrap, "chained", 1, 1);
    let values = numbered("chained", 200);
    produce(&client_config(&bootstrap), &topic, &values);
    assert_eq!(consume(&bootstrap, &topic, 200), values);
    let mut raw = Raw::connect(outer.address);
    responds(&mut raw);
    let client = raw.stream.local_addr().expect("an address");
    let page = inner.page("/connections");
    assert!(page.contains(&format!("\"client\":\"{client}\"")), "{page}");
    assert_eq!(inner.metric("weir_proxy_proxy_headers_rejected_total"), 0);
    // An outer proxy behind a load balancer forwards what it was given.
    let outer = proxy_to(&inner.bootstrap(), &format!("{chained}{REQUIRED}"));
    let mut raw = connect(&outer, LINE);
    responds(&mut raw);
    let page = inner.page("/connections");
    assert!(page.contains("\"client\":\"192.0.2.1:1234\""), "{page}");
}
