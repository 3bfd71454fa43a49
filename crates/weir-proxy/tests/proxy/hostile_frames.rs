//! Filtered frames that are expensive, next to normal clients; brokers that do not respond.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_wire::records::{BatchCompressor, Codec, SnappyFraming, set_length_and_crc};

use super::support::*;

/// Returns a batch of `count` records without key and value.
fn batch(count: usize, codec: Codec) -> Vec<u8> {
    let mut out = vec![0; 61];
    out[16] = 2;
    out[22] = codec as u8;
    out[23..27].copy_from_slice(&(count as i32 - 1).to_be_bytes());
    out[43..57].fill(0xff);
    out[57..61].copy_from_slice(&(count as i32).to_be_bytes());
    let plain = [12, 0, 0, 0, 1, 1, 0].repeat(count);
    let packed = BatchCompressor::default().compress(codec, SnappyFraming::Bare, &plain, &mut out);
    packed.expect("packs");
    set_length_and_crc(&mut out);
    out
}

/// Returns a Produce v3 request for partition 0 of a topic.
fn produce_request(id: i32, topic: &str, records: &[u8]) -> Vec<u8> {
    let mut body = vec![0xff, 0xff, 0, 1, 0, 0, 0x75, 0x30, 0, 0, 0, 1];
    body.extend((topic.len() as i16).to_be_bytes());
    body.extend(topic.as_bytes());
    body.extend([0, 0, 0, 1, 0, 0, 0, 0]);
    body.extend((records.len() as i32).to_be_bytes());
    body.extend(records);
    request(0, 3, id, &body)
}

/// Returns the error code of the only partition of a Produce v3 response without size prefix.
fn error_code(response: &[u8], topic: &str) -> i16 {
    let at = 4 + 4 + 2 + topic.len() + 4 + 4;
    i16::from_be_bytes(response[at..at + 2].try_into().expect("two"))
}

const LOWER: &str = "[[cluster.filter]]\ntype = \"lower-case\"\ntopics = [\"low\"]\n";

#[test]
fn compression_bombs_are_rejected_and_connection_continues() {
    let proxy = proxy(LOWER);
    let mut raw = Raw::connect(proxy.address);
    let codecs = [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
    for (id, codec) in (0..).zip(codecs) {
        let bomb = batch(1_500_000, codec);
        raw.send(&produce_request(id, "low", &bomb));
        let response = raw.receive();
        assert_eq!(response[..4], id.to_be_bytes());
        assert_eq!(error_code(&response, "low"), 10, "MESSAGE_TOO_LARGE");
    }
    raw.send(&request(18, 0, 9, &[]));
    assert_eq!(raw.receive()[..4], [0, 0, 0, 9]);
    proxy.await_metric("weir_proxy_filter_limited_total", 4);
    assert!(buffered_bytes(&proxy) < 1 << 20);
}

/// Returns the 99th percentile of the response time of sequential requests.
fn p99(address: SocketAddr, count: usize) -> Duration {
    let mut raw = Raw::connect(address);
    let mut times: Vec<_> = (0..count)
        .map(|_| {
            let begun = Instant::now();
            raw.send(&request(18, 0, 1, &[]));
            raw.receive();
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[count * 99 / 100]
}

#[test]
fn other_clients_are_served_during_bombs() {
    let proxy = proxy_with_loops(1, LOWER);
    let before = p99(proxy.address, 200);
    let ended = Arc::new(AtomicBool::new(false));
    // Each is just below the limit on records.
    let bomb: Arc<[u8]> = produce_request(1, "low", &batch(900_000, Codec::Zstd)).into();
    let attackers = (0..10).map(|_| {
        let (ended, bomb, address) = (Arc::clone(&ended), Arc::clone(&bomb), proxy.address);
        std::thread::spawn(move || {
            let mut raw = Raw::connect(address);
            while !ended.load(Ordering::Relaxed) {
                raw.send(&bomb);
                raw.receive();
            }
        })
    });
    let attackers: Vec<_> = attackers.collect();
    await_that("bombs in the filter threads", || {
        proxy.metric("weir_proxy_filter_waiting") > 0
    });
    let during = p99(proxy.address, 200);
    ended.store(true, Ordering::Relaxed);
    for attacker in attackers {
        attacker.join().expect("gets a response");
    }
    let limit = before + Duration::from_millis(100);
    assert!(
        during <= limit,
        "{during:?} during the attack, {before:?} before"
    );
    assert!(proxy.metric("weir_proxy_filter_cpu_milliseconds_total") > 0);
}

#[test]
fn slow_producers_are_served_while_they_make_progress() {
    let proxy = proxy(&format!(
        "[limits]\nhandshake_timeout_ms = 200\nframe_ms = 400\n---\n{LOWER}"
    ));
    let mut raw = Raw::connect(proxy.address);
    let frame = produce_request(3, "low", &batch(100_000, Codec::None));
    let begun = Instant::now();
    let mut pieces = frame.chunks(frame.len() / 100 + 1);
    await_that("the frame to be sent", || {
        pieces.next().map(|piece| raw.send(piece)).is_none()
    });
    assert!(begun.elapsed() > Duration::from_millis(800), "it was slow");
    assert_eq!(raw.receive()[..4], [0, 0, 0, 3]);
    assert_eq!(proxy.metric("weir_proxy_timeouts_total"), 0);

    // A request without progress is closed.
    raw.send(&frame[..frame.len() / 2]);
    assert!(raw.until_closed().is_empty());
    // Counters are published at the end of the iteration that closed the connection.
    await_that("the count", || {
        proxy.metric("weir_proxy_timeouts_total") == 1
    });
}

#[test]
fn frames_without_memory_wait_and_all_pass() {
    let limits = "buffered_frame_bytes = 1000000\nbuffered_bytes = 2000000\nframe_ms = 60000";
    let proxy = proxy(&format!("[limits]\n{limits}\n---\n{LOWER}"));
    let frame = produce_request(5, "low", &batch(130_000, Codec::None));
    let half = frame.len() / 2;
    let mut all: Vec<_> = (0..6).map(|_| Raw::connect(proxy.address)).collect();
    for raw in &mut all {
        raw.send(&frame[..half]);
    }
    await_that("frames that wait", || {
        proxy.metric("weir_proxy_buffer_waiting") == 5
    });
    assert!(proxy.metric("weir_proxy_buffer_claimed_bytes") <= 2_000_000);
    // A small request needs no claim.
    let mut small = Raw::connect(proxy.address);
    small.send(&produce_request(6, "low", &batch(10, Codec::None)));
    assert_eq!(small.receive()[..4], [0, 0, 0, 6]);
    // The order of completion differs from the order of claims.
    for raw in all.iter_mut().rev() {
        raw.send(&frame[half..]);
    }
    for raw in &mut all {
        assert_eq!(raw.receive()[..4], [0, 0, 0, 5]);
    }
    proxy.await_metric("weir_proxy_buffer_claimed_bytes", 0);
    assert_eq!(proxy.metric("weir_proxy_buffer_waits_total"), 5);
}

#[test]
fn stalled_frame_loses_memory_while_others_wait() {
    let limits = "buffered_frame_bytes = 1000000\nbuffered_bytes = 2000000\nframe_ms = 500";
    let proxy = proxy(&format!("[limits]\n{limits}\n---\n{LOWER}"));
    let frame = produce_request(5, "low", &batch(130_000, Codec::None));
    let mut slow = Raw::connect(proxy.address);
    slow.send(&frame[..frame.len() / 2]);
    await_that("its memory", || {
        proxy.metric("weir_proxy_buffer_claimed_bytes") > 0
    });
    let mut other = Raw::connect(proxy.address);
    // The first client makes progress all the time, but slowly.
    let mut rest = frame[frame.len() / 2..].chunks(1_000);
    other.send(&frame[..300_000]);
    await_that("the timeout of the first client", || {
        let is_closed = rest
            .next()
            .is_none_or(|piece| slow.stream.write_all(piece).is_err());
        is_closed || proxy.metric("weir_proxy_timeouts_total") == 1
    });
    other.send(&frame[300_000..]);
    assert_eq!(other.receive()[..4], [0, 0, 0, 5]);
    assert_eq!(proxy.metric("weir_proxy_timeouts_total"), 1);
}

#[test]
fn unresponsive_broker_is_detected() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        let mut open: Vec<_> = Vec::new();
        open.extend(listener.incoming().map_while(Result::ok));
    });
    let proxy = proxy_to(&address.to_string(), "[limits]\nresponse_ms = 500\n---\n");
    let mut raw = Raw::connect(proxy.address);
    raw.send(&request(18, 0, 1, &[]));
    assert!(raw.until_closed().is_empty());
    proxy.await_metric("weir_proxy_silent_broker_total", 1);
    let up = format!("weir_proxy_broker_up{{cluster=\"default\",broker=\"{address}\"}}");
    assert_eq!(proxy.metric(&up), 0);
    let page = proxy.page("/health/ready");
    assert!(page.starts_with("HTTP/1.1 503"), "{page}");
    let reason = format!("cluster default: not ready: {address}: no response within 3 s");
    assert!(page.contains(&reason), "{page}");
}

#[test]
fn slow_request_to_responsive_broker_is_not_closed() {
    let proxy = proxy("[limits]\nresponse_ms = 100\n---\n");
    let mut raw = Raw::connect(proxy.address);
    // A fetch that waits for two seconds.
    let mut body = (-1_i32).to_be_bytes().to_vec();
    body.extend(2_000_i32.to_be_bytes());
    body.extend(1_i32.to_be_bytes());
    body.extend((1_i32 << 20).to_be_bytes());
    body.push(0);
    body.extend(1_i32.to_be_bytes());
    let name = topic(&broker(), "slow", 1, 1);
    body.extend((name.len() as i16).to_be_bytes());
    body.extend(name.as_bytes());
    body.extend([0, 0, 0, 1, 0, 0, 0, 0]);
    body.extend(0_i64.to_be_bytes());
    body.extend((1_i32 << 20).to_be_bytes());
    await_that("a fetch that waits", || {
        let begun = Instant::now();
        raw.send(&request(1, 4, 8, &body));
        assert_eq!(raw.receive()[..4], [0, 0, 0, 8]);
        // The topic may be too new to be fetched from.
        begun.elapsed() > Duration::from_secs(1)
    });
    assert_eq!(proxy.metric("weir_proxy_silent_broker_total"), 0);
    let up = "weir_proxy_broker_up{cluster=\"default\",broker=\"";
    assert!(proxy.page("/metrics").contains(up));
}
