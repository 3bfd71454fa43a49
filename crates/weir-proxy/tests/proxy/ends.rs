//! Ends of connections: drain, and close by the client with bytes in flight. Slow readers.

use std::time::{Duration, Instant};

use super::support::*;

/// Returns a Fetch v4 request that waits up to `wait_ms` for `min_bytes`.
fn long_poll(id: i32, topic: &str, wait_ms: i32, min_bytes: i32) -> Vec<u8> {
    let mut body = (-1_i32).to_be_bytes().to_vec();
    body.extend(wait_ms.to_be_bytes());
    body.extend(min_bytes.to_be_bytes());
    body.extend((64_i32 << 20).to_be_bytes());
    body.push(0);
    body.extend(1_i32.to_be_bytes());
    body.extend((topic.len() as i16).to_be_bytes());
    body.extend(topic.as_bytes());
    body.extend(1_i32.to_be_bytes());
    body.extend(0_i32.to_be_bytes());
    body.extend(0_i64.to_be_bytes());
    body.extend((64_i32 << 20).to_be_bytes());
    request(1, 4, id, &body)
}

#[test]
fn drain_completes_in_flight_requests() {
    let proxy = proxy("");
    let topic = topic(&proxy.bootstrap(), "drain", 1, 1);
    // A broker that does not lead the partition yet responds at once.
    produce(
        &client_config(&proxy.bootstrap()),
        &topic,
        &["record".to_owned()],
    );
    let mut busy = Raw::connect(proxy.address);
    busy.send(&long_poll(7, &topic, 3_000, 1 << 20));
    let mut idle = Raw::connect(proxy.address);
    idle.send(&request(18, 0, 1, &[]));
    idle.receive();
    await_that("the request to be in flight", || {
        proxy.page("/connections").contains("\"in_flight\":1")
    });
    let address = proxy.address;
    let started = Instant::now();
    let end = std::thread::spawn(move || proxy.shut_down());
    assert!(idle.until_closed().is_empty(), "no request was in flight");
    assert_eq!(busy.receive()[..4], [0, 0, 0, 7]);
    assert!(busy.until_closed().is_empty());
    end.join().expect("ends");
    assert!(
        started.elapsed() < Duration::from_secs(9),
        "it did not wait for the full drain timeout"
    );
    assert!(
        std::net::TcpStream::connect(address).is_err(),
        "the listener is closed"
    );
}

#[test]
fn bytes_sent_before_close_arrive() {
    let proxy = proxy("");
    let topic = topic(&proxy.bootstrap(), "final-record", 1, 1);
    // A broker that does not lead the partition yet drops records with acks=0.
    let first = "first record".to_owned();
    produce(&client_config(&proxy.bootstrap()), &topic, &[first]);
    // Everything a client without responses sends: produce with acks=0, then close.
    let mut raw = Raw::connect(proxy.address);
    let records = single_record_batch(b"final record");
    let mut body = vec![0xff, 0xff, 0, 0];
    body.extend(5_000_i32.to_be_bytes());
    body.extend(1_i32.to_be_bytes());
    body.extend((topic.len() as i16).to_be_bytes());
    body.extend(topic.as_bytes());
    body.extend(1_i32.to_be_bytes());
    body.extend(0_i32.to_be_bytes());
    body.extend((records.len() as i32).to_be_bytes());
    body.extend(records);
    // With one broker, the bootstrap port leads to the leader.
    raw.send(&request(0, 3, 1, &body));
    drop(raw);
    let values = consume(&proxy.bootstrap(), &topic, 2);
    assert_eq!(values, ["final record", "first record"]);
    proxy.await_metric("weir_proxy_connections", 0);
}

/// Returns a batch with one record.
fn single_record_batch(value: &[u8]) -> Vec<u8> {
    use kafka_protocol::records::{
        Compression, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, Record, RecordBatchEncoder,
        RecordEncodeOptions, TimestampType,
    };
    let record = Record {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: -1,
        producer_id: NO_PRODUCER_ID,
        producer_epoch: NO_PRODUCER_EPOCH,
        timestamp_type: TimestampType::Creation,
        offset: 0,
        sequence: NO_SEQUENCE,
        timestamp: 1_700_000_000_000,
        key: None,
        value: Some(bytes::Bytes::copy_from_slice(value)),
        headers: Default::default(),
    };
    let options = RecordEncodeOptions {
        version: 2,
        compression: Compression::None,
    };
    let mut batch = bytes::BytesMut::new();
    RecordBatchEncoder::encode(&mut batch, [&record], &options).expect("encodes");
    batch.to_vec()
}

#[test]
fn slow_client_uses_little_memory() {
    let topic = topic(&broker(), "slow", 1, 1);
    let value = |number: usize| (number % 10).to_string().repeat(500_000);
    let values: Vec<String> = (0..40).map(value).collect();
    produce(&client_config(&broker()), &topic, &values);
    let mut direct = Raw::connect(broker().parse().expect("an address"));
    direct.send(&long_poll(1, &topic, 1_000, 1));
    let response = direct.receive();
    assert!(response.len() > 15_000_000, "{}", response.len());
    let passed = slow_reader(&proxy(""), &topic, &response);
    assert!(passed > 10_000_000, "only {passed} bytes were spliced");
    let passed = slow_reader(&proxy("splice = false\n---\n"), &topic, &response);
    assert_eq!(passed, 0);
}

/// Fetches without reading, then reads. Returns the number of spliced bytes.
fn slow_reader(proxy: &TestProxy, topic: &str, response: &[u8]) -> u64 {
    let mut raw = Raw::connect(proxy.address);
    raw.send(&long_poll(1, topic, 1_000, 1));
    await_that("the socket to be full", || {
        proxy.metric("weir_proxy_blocked_writes_total") > 0
    });
    let buffered = |page: &str| {
        let at = page.find("\"buffered_bytes\":").expect("rows") + 17;
        let digits = page[at..].split(|c: char| !c.is_ascii_digit()).next();
        digits
            .expect("a number")
            .parse::<usize>()
            .expect("a number")
    };
    let page = proxy.page("/connections");
    assert!(buffered(&page) <= 300_000, "{page}");
    // All bytes arrive when the client reads.
    assert!(raw.receive() == response, "same bytes");
    // Again, to check the response after a large one.
    raw.send(&long_poll(1, topic, 1_000, 1));
    raw.send(&request(18, 77, 2, &[1; 30]));
    assert!(raw.receive() == response, "same bytes");
    assert_eq!(raw.receive()[..6], [0, 0, 0, 2, 0, 35]);
    assert!(buffered(&proxy.page("/connections")) <= 300_000);
    proxy.metric("weir_proxy_spliced_bytes_total")
}
