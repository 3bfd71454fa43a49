//! CPU cost of reading a topic for one subscriber of one of its 40 items, compared with bare
//! consumers that only count: librdkafka and the lean client. They alternate in one run. Prints one
//! JSON object.
//!
//! `cargo bench -p weir-gateway --bench drain -- [RECORDS] [REPETITIONS] [CODEC] [only=CELL]
//! [restarts=COUNT]`

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
use weir_kafka::lean::{self, LeanCommand, LeanConfig, LeanError, LeanRecord, LeanSink};
use weir_kafka::{Admin, KafkaSettings, Producer, ProducerConfig};
use weir_lab::{Lab, LabOptions};
use weir_mapping::ParseOptions;

const PARTITIONS: i32 = 4;
const KEYS: usize = 40;
const KEY_CHARS: usize = 500;
const TEXT_CHARS: usize = 450;
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// Cells of a repetition, in order.
const CELLS: [&str; 6] = [
    "bare librdkafka",
    "bare lean client",
    "gateway, 1 thread",
    "lean gateway, 1 thread",
    "gateway, 4 threads",
    "lean gateway, 4 threads",
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<usize> = arguments.iter().filter_map(|it| it.parse().ok()).collect();
    let records = numbers.first().map_or(200_000, |it| it / KEYS * KEYS);
    let rounds = numbers.get(1).copied().unwrap_or(5);
    let restarts = arguments
        .iter()
        .find_map(|it| it.strip_prefix("restarts=")?.parse::<usize>().ok());
    let is_codec = |it: &&str| ["none", "gzip", "snappy", "lz4", "zstd"].contains(it);
    let codec = arguments.iter().map(String::as_str).find(is_codec);
    let only = arguments.iter().find_map(|it| it.strip_prefix("only="));
    let named = std::env::var("WEIR_E2E_BOOTSTRAP").ok();
    let mut lab = named.is_none().then(|| {
        let never = AtomicBool::new(false);
        Lab::up(&LabOptions::default(), &mut |_| {}, &never).expect("a broker")
    });
    let bootstrap = named.unwrap_or_else(|| lab.as_ref().map_or_else(String::new, Lab::bootstrap));
    let topic = format!("drain-{}", std::process::id());
    let codec = codec.unwrap_or("none");
    preload(&bootstrap, &topic, records, codec);
    let drain = |cell: &str| match cell {
        "bare librdkafka" => bare(&bootstrap, &topic, records),
        "bare lean client" => bare_lean(&bootstrap, &topic, records),
        "gateway, 1 thread" => gateway(&bootstrap, &topic, records, (1, "librdkafka")),
        "lean gateway, 1 thread" => gateway(&bootstrap, &topic, records, (1, "lean")),
        "gateway, 4 threads" => gateway(&bootstrap, &topic, records, (4, "librdkafka")),
        _ => gateway(&bootstrap, &topic, records, (4, "lean")),
    };
    // The first run fills the broker's page cache and is not counted.
    drain(CELLS[0]);
    let mut results = Vec::new();
    for _ in 0..rounds {
        for name in CELLS {
            if only.is_none_or(|only| only == name) {
                results.push((name, drain(name)));
            }
        }
    }
    let mut recovered = Vec::new();
    let readers = ["librdkafka", "lean"].into_iter().cycle();
    if let (Some(lab), Some(count)) = (&mut lab, restarts) {
        for (number, reader) in readers.take(2 * count).enumerate() {
            recovered.push((reader, recovery(lab, number, reader)));
        }
    }
    report(&results, &recovered, records, codec);
}

fn report(results: &[(&str, DrainCost)], recovered: &[(&str, f64)], records: usize, codec: &str) {
    let rows: Vec<String> = results.iter().map(|(name, cost)| cost.json(name)).collect();
    let restarts: Vec<String> = recovered
        .iter()
        .map(|(reader, ms)| format!("{{\"reader\":\"{reader}\",\"recovered_ms\":{ms:.1}}}"))
        .collect();
    println!(
        "{{\"records\":{records},\"keys\":{KEYS},\"key_chars\":{KEY_CHARS},\
         \"partitions\":{PARTITIONS},\"codec\":\"{codec}\",\
         \"note\":\"gateway and its reading client are one process\",\"cells\":[\n{}\n],\
         \"restarts\":[{}]}}",
        rows.join(",\n"),
        restarts.join(",")
    );
    for name in CELLS {
        let of_cell = results.iter().filter(|(cell, _)| *cell == name);
        let mut costs: Vec<f64> = of_cell.map(|(_, cost)| cost.cpu_us_per_record).collect();
        costs.sort_by(f64::total_cmp);
        let (Some(low), Some(high)) = (costs.first(), costs.last()) else {
            continue;
        };
        let median = costs[costs.len() / 2];
        eprintln!("{name}: {median:.2} us CPU per record ({low:.2} to {high:.2})");
    }
}

struct DrainCost {
    cpu_us_per_record: f64,
    wall_s: f64,
    /// Memory in MiB that the process had at most, more than before.
    peak_mib: f64,
    updates: usize,
}

impl DrainCost {
    fn json(&self, name: &str) -> String {
        format!(
            "{{\"cell\":\"{name}\",\"cpu_us_per_record\":{:.3},\"wall_s\":{:.3},\
             \"peak_mib\":{:.1},\"updates\":{}}}",
            self.cpu_us_per_record, self.wall_s, self.peak_mib, self.updates
        )
    }
}

/// Runs `work`, which returns the number of updates received.
fn measure(records: usize, work: impl FnOnce() -> usize) -> DrainCost {
    // Resets the peak.
    std::fs::write("/proc/self/clear_refs", "5").expect("Linux");
    let before = peak_mib();
    let (cpu, wall) = (cpu_us(), Instant::now());
    let updates = work();
    DrainCost {
        cpu_us_per_record: (cpu_us() - cpu) / records as f64,
        wall_s: wall.elapsed().as_secs_f64(),
        peak_mib: peak_mib() - before,
        updates,
    }
}

/// Returns the peak of the resident memory.
fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.expect("a size in KiB") / 1024.0
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

fn preload(bootstrap: &str, topic: &str, records: usize, codec: &str) {
    let admin = Admin::connect(&KafkaSettings::plaintext(bootstrap), TEST_TIMEOUT);
    let admin = admin.expect("a reachable broker");
    admin
        .create_topic(topic, PARTITIONS, 1, &[])
        .expect("a new topic");
    let config = ProducerConfig {
        kafka: KafkaSettings::plaintext(bootstrap),
        compression: codec.to_owned(),
        linger_ms: 20.0,
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
fn bare(bootstrap: &str, topic: &str, records: usize) -> DrainCost {
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

/// Consumes and counts every record with the lean client.
fn bare_lean(bootstrap: &str, topic: &str, records: usize) -> DrainCost {
    let config = LeanConfig {
        kafka: KafkaSettings::plaintext(bootstrap),
        topic: topic.to_owned(),
        from_oldest: true,
        ..LeanConfig::default()
    };
    measure(records, || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().expect("a runtime");
        let (stop, stopped) = tokio::sync::watch::channel(LeanCommand::Read);
        let sink = CountingSink {
            left: records,
            stop,
        };
        runtime
            .block_on(lean::run(config, sink, stopped))
            .expect("a readable topic");
        0
    })
}

struct CountingSink {
    left: usize,
    stop: tokio::sync::watch::Sender<LeanCommand>,
}

impl LeanSink for CountingSink {
    fn on_ready(&mut self, _: usize) {}
    fn on_record(&mut self, _: usize, _: &LeanRecord<'_>) {
        self.left -= 1;
        if self.left == 0 {
            self.stop.send_replace(LeanCommand::Stop);
        }
    }
    fn on_error(&mut self, _: usize, error: &LeanError) {
        panic!("{error}");
    }
    fn on_bytes(&mut self, _: usize, _: usize) {}
}

/// A gateway with its configuration file.
struct StartedGateway {
    gateway: Gateway,
    _dir: tempfile::TempDir,
}

fn start_gateway(bootstrap: &str, topic: &str, (threads, reader): (usize, &str)) -> StartedGateway {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("gateway.toml");
    let text = format!(
        r##"[kafka]
reader = "{reader}"
[connection.QuickStart]
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
    wait_ready(&gateway, true);
    StartedGateway { gateway, _dir: dir }
}

fn wait_ready(gateway: &Gateway, ready: bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while gateway.ready() != ready {
        assert!(
            Instant::now() < deadline,
            "{:?}",
            gateway.unready_connections()
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn subscribe(client: &mut WebSocket<TcpStream>) {
    let item = format!("ltest-%5Bkey%3D{}%5D", key(7));
    let subscribe = format!(
        "control\r\nLS_reqId=1&LS_op=add&LS_subId=1&LS_mode=RAW&LS_group={item}\
         &LS_schema=timestamp%20fstValue%20sndValue%20intNum&LS_data_adapter=QuickStart"
    );
    client.send(Message::text(subscribe)).expect("sent");
}

fn wait_updates(client: &mut WebSocket<TcpStream>, count: usize) -> usize {
    let mut updates = 0;
    while updates < count {
        if let Ok(Message::Text(text)) = client.read() {
            let lines = text.split("\r\n");
            updates += lines.filter(|line| line.starts_with("U,")).count();
        }
    }
    updates
}

fn gateway(bootstrap: &str, topic: &str, records: usize, reader: (usize, &str)) -> DrainCost {
    let started = start_gateway(bootstrap, topic, reader);
    let gateway = &started.gateway;
    let deadline = Instant::now() + TEST_TIMEOUT;
    let mut client = connect(gateway.listen_address());
    let cost = measure(records, || {
        subscribe(&mut client);
        let updates = wait_updates(&mut client, records / KEYS);
        while records_read(gateway.admin_address()) < records {
            assert!(Instant::now() < deadline, "not all records were read");
            std::thread::sleep(Duration::from_millis(2));
        }
        updates
    });
    drop(client);
    started.gateway.shut_down();
    cost
}

/// Restarts the broker. Returns the time from the restarted broker's acknowledgement of a record to
/// the record's update, in milliseconds.
fn recovery(lab: &mut Lab, number: usize, reader: &str) -> f64 {
    let topic = format!("recovery-{number}");
    let kafka = KafkaSettings::plaintext(&lab.bootstrap());
    let admin = Admin::connect(&kafka, TEST_TIMEOUT).expect("a reachable broker");
    admin.create_topic(&topic, 1, 1, &[]).expect("a new topic");
    let store = || {
        let config = ProducerConfig {
            kafka: kafka.clone(),
            ..Default::default()
        };
        let producer = Producer::start(&config, Box::new(|_| {})).expect("a producer");
        let (key, value) = (
            key(7),
            br#"{"timestamp":"","fstValue":"","sndValue":"","intNum":1}"#,
        );
        producer
            .send(
                &topic,
                None,
                Some(key.as_bytes()),
                Some(value),
                &[],
                None,
                0,
            )
            .expect("queued");
        assert_eq!(producer.flush(TEST_TIMEOUT), 0, "the record is stored");
    };
    let started = start_gateway(&lab.bootstrap(), &topic, (1, reader));
    let mut client = connect(started.gateway.listen_address());
    subscribe(&mut client);
    store();
    wait_updates(&mut client, 1);
    lab.stop_broker(1).expect("stops");
    wait_ready(&started.gateway, false);
    lab.start_broker(1, &AtomicBool::new(false))
        .expect("starts");
    store();
    let stored = Instant::now();
    wait_updates(&mut client, 1);
    let recovered_ms = stored.elapsed().as_secs_f64() * 1e3;
    drop(client);
    started.gateway.shut_down();
    recovered_ms
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
