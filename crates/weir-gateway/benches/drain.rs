//! CPU cost of reading a topic for one subscriber of one of its 40 items, compared with a bare
//! librdkafka consumer that only counts. The two alternate in one run. Prints one JSON object.
//!
//! `cargo bench -p weir-gateway --bench drain -- [RECORDS] [REPETITIONS]`

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark program prints its \
    result"
)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;
use tungstenite::{Message, WebSocket};
use weir_gateway::config::CliOverrides;
use weir_gateway::{Gateway, GatewayConfig};
use weir_kafka::{Admin, Producer, ProducerConfig};
use weir_lab::{Lab, LabOptions};
use weir_mapping::ParseOptions;

const PARTITIONS: i32 = 4;
const KEYS: usize = 40;
const KEY_CHARS: usize = 500;
const TEXT_CHARS: usize = 450;
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|it| it.parse().ok()).collect();
    let records = numbers.first().map_or(200_000, |it| it / KEYS * KEYS);
    let rounds = numbers.get(1).copied().unwrap_or(5);
    let named = std::env::var("WEIR_E2E_BOOTSTRAP").ok();
    let lab = named.is_none().then(|| {
        let never = AtomicBool::new(false);
        Lab::up(&LabOptions::default(), &mut |_| {}, &never).expect("a broker")
    });
    let bootstrap = named.unwrap_or_else(|| lab.as_ref().map_or_else(String::new, Lab::bootstrap));
    let topic = format!("drain-{}", std::process::id());
    preload(&bootstrap, &topic, records);
    // The first run fills the broker's page cache and is not counted.
    bare(&bootstrap, &topic, records);
    let mut cells = Vec::new();
    for _ in 0..rounds {
        cells.push((
            "bare librdkafka".to_owned(),
            bare(&bootstrap, &topic, records),
        ));
        for threads in [1, 4] {
            let name = format!("gateway, {threads} threads");
            cells.push((name, gateway(&bootstrap, &topic, records, threads)));
        }
    }
    let rows: Vec<String> = cells.iter().map(|(name, cell)| cell.json(name)).collect();
    println!(
        "{{\"records\":{records},\"keys\":{KEYS},\"key_chars\":{KEY_CHARS},\
         \"partitions\":{PARTITIONS},\
         \"note\":\"gateway and its reading client are one process\",\"cells\":[\n{}\n]}}",
        rows.join(",\n")
    );
    for name in [
        "bare librdkafka",
        "gateway, 1 threads",
        "gateway, 4 threads",
    ] {
        let mut costs: Vec<f64> = cells
            .iter()
            .filter(|(cell, _)| cell == name)
            .map(|(_, cell)| cell.cpu_us_per_record)
            .collect();
        costs.sort_by(f64::total_cmp);
        let (low, high) = (costs[0], costs[costs.len() - 1]);
        let median = costs[costs.len() / 2];
        eprintln!("{name}: {median:.2} us CPU per record ({low:.2} to {high:.2})");
    }
}

struct Cell {
    cpu_us_per_record: f64,
    wall_s: f64,
    updates: usize,
}

impl Cell {
    fn json(&self, name: &str) -> String {
        format!(
            "{{\"cell\":\"{name}\",\"cpu_us_per_record\":{:.3},\"wall_s\":{:.3},\"updates\":{}}}",
            self.cpu_us_per_record, self.wall_s, self.updates
        )
    }
}

/// Runs `work`, which returns the number of updates received.
fn measure(records: usize, work: impl FnOnce() -> usize) -> Cell {
    let (cpu, wall) = (cpu_us(), Instant::now());
    let updates = work();
    Cell {
        cpu_us_per_record: (cpu_us() - cpu) / records as f64,
        wall_s: wall.elapsed().as_secs_f64(),
        updates,
    }
}

fn cpu_us() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

fn key(number: usize) -> String {
    let name = format!("key{number:02}-");
    name.chars()
        .chain("x".repeat(KEY_CHARS - name.len()).chars())
        .collect()
}

fn preload(bootstrap: &str, topic: &str, records: usize) {
    let admin = Admin::connect(bootstrap, TEST_TIMEOUT).expect("a reachable broker");
    admin
        .create_topic(topic, PARTITIONS, 1, &[])
        .expect("a new topic");
    let config = ProducerConfig {
        bootstrap_servers: bootstrap.to_owned(),
        ..Default::default()
    };
    let producer = Producer::start(&config, Box::new(|_| {})).expect("a producer");
    let keys: Vec<String> = (0..KEYS).map(key).collect();
    let text = "a".repeat(TEXT_CHARS);
    for number in 0..records {
        let value = format!(
            "{{\"timestamp\":\"2026-11-21 \
             12:00:00.{:03}\",\"fstValue\":\"{text}\",\"sndValue\":\"{text}\",\
             \"intNum\":{number}}}",
            number % 1000
        );
        let key = keys[number % KEYS].as_bytes();
        while producer
            .send(topic, None, Some(key), Some(value.as_bytes()), &[], None, 0)
            .is_err()
        {
            std::thread::yield_now();
        }
    }
    assert_eq!(
        producer.flush(TEST_TIMEOUT),
        0,
        "the broker accepts the records"
    );
}

/// Consumes and counts every record.
fn bare(bootstrap: &str, topic: &str, records: usize) -> Cell {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "drain")
        .set("enable.auto.commit", "false")
        .set("queued.min.messages", "50000")
        .set("queued.max.messages.kbytes", "32768");
    measure(records, || {
        let consumer: BaseConsumer = config.create().expect("a consumer");
        let mut all = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            all.add_partition_offset(topic, partition, Offset::Offset(0))
                .expect("an offset");
        }
        consumer.assign(&all).expect("assigned");
        let deadline = Instant::now() + TEST_TIMEOUT;
        let mut count = 0;
        while count < records {
            assert!(Instant::now() < deadline, "only {count} records");
            if let Some(Ok(_)) = consumer.poll(Duration::from_millis(100)) {
                count += 1;
            }
        }
        0
    })
}

fn gateway(bootstrap: &str, topic: &str, records: usize, threads: usize) -> Cell {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("gateway.toml");
    let text = format!(
        r##"[connection.QuickStart]
bootstrap.servers = "{bootstrap}"
item-template.ltest = "ltest-#{{key=KEY}}"
map.{topic}.to = "item-template.ltest"
record.value.evaluator.type = "JSON"
record.consume.from = "EARLIEST"
record.consume.with.num.threads = {threads}
field.key = "#{{KEY}}"
field.timestamp = "#{{VALUE.timestamp}}"
field.fstValue = "#{{VALUE.fstValue}}"
field.sndValue = "#{{VALUE.sndValue}}"
field.intNum = "#{{VALUE.intNum}}"
field.ts = "#{{TIMESTAMP}}"
field.partition = "#{{PARTITION}}"
field.offset = "#{{OFFSET}}"
"##
    );
    std::fs::write(&file, text).expect("a file");
    let any = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let overrides = CliOverrides {
        listen: any,
        admin: any,
        ..CliOverrides::default()
    };
    let config = GatewayConfig::load(None, Some(&file), &overrides, ParseOptions::default());
    let gateway = Gateway::start(config.expect("a valid configuration")).expect("a gateway");
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !gateway.ready() {
        assert!(
            Instant::now() < deadline,
            "{:?}",
            gateway.unready_connections()
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut client = connect(gateway.listen_address());
    let cell = measure(records, || {
        let item = format!("ltest-%5Bkey%3D{}%5D", key(7));
        let subscribe = format!(
            "control\r\nLS_reqId=1&LS_op=add&LS_subId=1&LS_mode=RAW&LS_group={item}\
             &LS_schema=timestamp%20fstValue%20sndValue%20intNum&LS_data_adapter=QuickStart"
        );
        client.send(Message::text(subscribe)).expect("sent");
        let mut updates = 0;
        while updates < records / KEYS {
            if let Ok(Message::Text(text)) = client.read() {
                updates += text
                    .split("\r\n")
                    .filter(|line| line.starts_with("U,"))
                    .count();
            }
        }
        while records_read(gateway.admin_address()) < records {
            assert!(Instant::now() < deadline, "not all records were read");
            std::thread::sleep(Duration::from_millis(2));
        }
        updates
    });
    drop(client);
    gateway.shut_down();
    cell
}

fn connect(address: SocketAddr) -> WebSocket<TcpStream> {
    let stream = TcpStream::connect(address).expect("a connection");
    let mut request = format!("ws://{address}/lightstreamer")
        .into_client_request()
        .expect("a request");
    let protocol = HeaderValue::from_static("TLCP-2.5.0.lightstreamer.com");
    request
        .headers_mut()
        .insert("Sec-WebSocket-Protocol", protocol);
    let (mut socket, _) = tungstenite::client(request, stream).expect("a WebSocket");
    let create = "create_session\r\nLS_adapter_set=KafkaConnector&LS_cid=drain&LS_send_sync=false";
    socket.send(Message::text(create)).expect("sent");
    socket
}

fn records_read(admin: SocketAddr) -> usize {
    let mut stream = TcpStream::connect(admin).expect("a connection");
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("a response");
    let lines = answer.lines();
    let values = lines.filter_map(|line| line.strip_prefix("weir_gateway_kafka_records_total{"));
    let numbers = values.filter_map(|line| line.rsplit_once(' ')?.1.parse::<usize>().ok());
    numbers.sum()
}
