//! Peers that send invalid, slow or excessive data.

use std::io::{Read, Write};
use std::net::TcpListener;

use super::equivalence::{api_versions, broker_address};
use super::support::*;

#[test]
fn invalid_requests_close_the_connection() {
    let proxy = proxy("");
    let mut frames = vec![
        // Invalid sizes.
        vec![0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0],
        vec![0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0],
        vec![0, 0, 0, 3, 0, 0, 0],
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        // A TLS record.
        vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0],
        // Unsupported APIs and versions.
        request(1, 19, 1, &[0; 40]),
        request(55, 3, 1, &[0; 40]),
        request(58, 0, 1, &[0; 40]),
        request(20_000, 0, 1, &[0; 40]),
        request(3, 14, 1, &[0; 40]),
    ];
    // A produce request that ends before its acknowledgements.
    frames.push(request(0, 3, 1, &[0, 1]));
    let count = frames.len() as u64;
    for frame in frames {
        let mut raw = Raw::connect(proxy.address);
        raw.send(&frame);
        assert!(raw.until_closed().is_empty());
    }
    proxy.await_metric("weir_proxy_client_errors_total", count);
    proxy.await_metric("weir_proxy_connections", 0);
    assert_eq!(proxy.metric("weir_proxy_broker_connections"), 0);
}

#[test]
fn future_version_gets_response_and_connection_continues() {
    let proxy = proxy("");
    let mut raw = Raw::connect(proxy.address);
    // One write. The proxy responds to the first request, the broker to the second.
    let both = [request(18, 77, 5, &[1; 30]), request(18, 0, 6, &[])].concat();
    raw.send(&both);
    let first = raw.receive();
    assert_eq!(first, [0, 0, 0, 5, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 5]);
    let second = raw.receive();
    assert_eq!(second[..6], [0, 0, 0, 6, 0, 0]);
    let apis = i32::from_be_bytes(second[6..10].try_into().expect("four"));
    let fetch = second[10..].chunks(6).find(|api| api[..2] == [0, 1]);
    let broker = api_versions(broker_address(), 0).api_keys;
    let broker = broker.iter().find(|api| api.api_key == 1);
    let max_version = broker.expect("fetch").max_version;
    assert_eq!(
        fetch.expect("fetch is supported")[4..],
        max_version.to_be_bytes()
    );
    assert_eq!(errors(&proxy, "ApiVersions", 35), 1);
    assert!(apis > 30 && second[10..].chunks(6).all(|api| api[..2] != [0, 58]));
}

#[test]
fn incomplete_requests_time_out() {
    let proxy = proxy("[limits]\nhandshake_timeout_ms = 200\nframe_ms = 200\n---\n");
    let mut silent = Raw::connect(proxy.address);
    let mut cut = Raw::connect(proxy.address);
    cut.send(&request(18, 0, 1, &[])[..7]);
    let mut later = Raw::connect(proxy.address);
    later.send(&request(18, 0, 1, &[]));
    later.receive();
    later.send(&[0, 0]);
    for raw in [&mut silent, &mut cut, &mut later] {
        assert!(raw.until_closed().is_empty());
    }
    proxy.await_metric("weir_proxy_timeouts_total", 3);
}

#[test]
fn idle_connections_time_out() {
    let proxy = proxy("[limits]\nidle_timeout_ms = 300\n---\n");
    let mut raw = Raw::connect(proxy.address);
    raw.send(&request(18, 0, 1, &[]));
    raw.receive();
    assert!(raw.until_closed().is_empty());
    proxy.await_metric("weir_proxy_timeouts_total", 1);
}

#[test]
fn connections_per_address_are_limited() {
    let proxy = proxy("[limits]\nconnections_per_address = 2\n---\n");
    let mut open: Vec<_> = (0..2).map(|_| Raw::connect(proxy.address)).collect();
    proxy.await_metric("weir_proxy_connections", 2);
    assert!(Raw::connect(proxy.address).until_closed().is_empty());
    proxy.await_metric("weir_proxy_connections_rejected_total", 1);
    open.pop();
    proxy.await_metric("weir_proxy_connections", 1);
    let mut again = Raw::connect(proxy.address);
    again.send(&request(18, 0, 1, &[]));
    assert_eq!(again.receive()[..4], [0, 0, 0, 1]);
}

#[test]
fn requests_beyond_limit_wait_and_get_responses() {
    let proxy = proxy("[limits]\nin_flight_requests = 3\n---\n");
    let mut raw = Raw::connect(proxy.address);
    let all: Vec<_> = (0..200).map(|id| request(18, 0, id, &[])).collect();
    raw.send(&all.concat());
    for id in 0..200_i32 {
        assert_eq!(raw.receive()[..4], id.to_be_bytes());
    }
}

/// Writes until the socket accepts nothing for 500 ms. Returns the bytes written.
fn flood(raw: &mut Raw, bytes: &[u8], max: usize) -> usize {
    let timeout = Some(std::time::Duration::from_millis(500));
    raw.stream.set_write_timeout(timeout).expect("a timeout");
    let mut sent = 0;
    while sent < max {
        match raw.stream.write(&bytes[sent % bytes.len()..]) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    sent
}

#[test]
fn never_reading_client_is_not_read() {
    let proxy = proxy("");
    let mut raw = Raw::connect(proxy.address);
    let ask = request(18, 99, 7, &[]);
    let flooded = 64 << 20;
    let sent = flood(&mut raw, &ask.repeat(4_000), flooded);
    assert!(sent < flooded, "the proxy read everything");
    let buffered = buffered_bytes(&proxy);
    assert!(
        (1..1 << 20).contains(&buffered),
        "{buffered} bytes are buffered"
    );
    // When the client reads, every complete request has a response.
    raw.stream.set_nonblocking(false).expect("blocks");
    for _ in 0..sent / ask.len() {
        assert_eq!(raw.receive()[..4], [0, 0, 0, 7]);
    }
}

/// Starts a proxy in front of a fake broker that sends `response`.
fn proxy_with_fake_broker(response: &'static [u8]) -> TestProxy {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 14];
            if stream.read_exact(&mut request).is_ok() {
                // The proxy may have closed the connection.
                let _ = stream.write_all(response);
                let _ = stream.read(&mut request);
            }
        }
    });
    proxy_to(&address.to_string(), "")
}

#[test]
fn invalid_broker_responses_close_the_connection() {
    let responses: [&[u8]; 4] = [
        // Another correlation id than that of the request.
        &[0, 0, 0, 4, 0, 0, 0, 9],
        &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1],
        // A response to ApiVersions that announces more entries than it contains.
        &[0, 0, 0, 10, 0, 0, 0, 1, 0, 0, 0x7f, 0xff, 0xff, 0xff],
        &[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 0],
    ];
    for response in responses {
        let proxy = proxy_with_fake_broker(response);
        let mut raw = Raw::connect(proxy.address);
        raw.send(&request(18, 0, 1, &[]));
        assert!(raw.until_closed().is_empty(), "{response:?}");
        proxy.await_metric("weir_proxy_broker_errors_total", 1);
    }
}

#[test]
fn unreachable_broker_is_reported_and_clients_rejected() {
    let free = weir_lab::ports::free_port().expect("a port");
    let proxy = proxy_to(&format!("127.0.0.1:{free}"), "");
    let mut raw = Raw::connect(proxy.address);
    raw.send(&request(18, 0, 1, &[]));
    assert!(raw.until_closed().is_empty());
    proxy.await_metric("weir_proxy_connect_failures_total", 1);
    await_that("the reason", || {
        let page = proxy.page("/health/ready");
        page.starts_with("HTTP/1.1 503") && page.contains("cluster default: not ready: 127.0.0.1")
    });
    assert!(proxy.page("/health/live").starts_with("HTTP/1.1 200"));
}
