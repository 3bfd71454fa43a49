//! A real broker, a gateway in this process, and an independent WebSocket client.

#![allow(
    unreachable_pub,
    dead_code,
    reason = "a module of several test binaries"
)]

pub mod adapter;
pub mod admin;
pub mod classes;
pub mod http;
pub mod identity;
pub mod json_socket;
pub mod registry;
pub mod signer;
pub mod sse;

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;
use tungstenite::{Message, WebSocket};
use weir_gateway::config::CliOverrides;
use weir_gateway::{Gateway, GatewayConfig};
use weir_kafka::{Admin, Producer, ProducerConfig, ReaderChoice};
use weir_lab::{Lab, LabOptions};
use weir_mapping::ParseOptions;

/// Maximum time for any step of a test.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The published configuration of scenario 2.
const SCENARIO_2: &str =
    include_str!("../../../weir-mapping/tests/fixtures/scenario2-adapters.xml");

static LAB: OnceLock<(String, Option<Mutex<Lab>>)> = OnceLock::new();
static TOPICS: AtomicU32 = AtomicU32::new(0);

/// Returns the broker of `WEIR_E2E_BOOTSTRAP`, or starts one for this test binary.
fn bootstrap() -> &'static str {
    let (bootstrap, _) = LAB.get_or_init(|| match std::env::var("WEIR_E2E_BOOTSTRAP") {
        Ok(bootstrap) => (bootstrap, None),
        Err(_) => {
            let stop = AtomicBool::new(false);
            let lab = Lab::up(&LabOptions::default(), &mut |_| {}, &stop).expect("a broker");
            (lab.bootstrap(), Some(Mutex::new(lab)))
        }
    });
    bootstrap
}

thread_local! {
    /// Client that the gateways of this thread read with. `WEIR_TEST_READER=librdkafka` changes it
    /// for tests that do not select one.
    static READER: Cell<ReaderChoice> = Cell::new(match std::env::var("WEIR_TEST_READER") {
        Ok(name) if name == "librdkafka" => ReaderChoice::Librdkafka,
        Ok(name) => panic!("WEIR_TEST_READER={name}: use librdkafka, or unset it"),
        Err(_) => ReaderChoice::default(),
    });
}

/// Runs a test whose gateways read with `reader`.
pub fn read_with(reader: ReaderChoice, test: fn()) {
    READER.set(reader);
    test();
}

/// Defines two tests per function, one for each client that gateways read with.
#[allow(unused_macros, reason = "not all test files need both clients")]
macro_rules! per_reader {
    ($($name:ident)*) => {
        mod with_librdkafka {
            $(#[test]
            fn $name() {
                crate::support::read_with(weir_kafka::ReaderChoice::Librdkafka, super::$name);
            })*
        }
        mod with_lean_client {
            $(#[test]
            fn $name() {
                crate::support::read_with(weir_kafka::ReaderChoice::Lean, super::$name);
            })*
        }
    };
}
#[allow(unused_imports, reason = "not all test files need both clients")]
pub(crate) use per_reader;

/// The topic of one test and a producer for it.
pub struct TestEnv {
    pub topic: String,
    pub admin: Admin,
    bootstrap: String,
    producer: Producer,
    dir: tempfile::TempDir,
}

impl TestEnv {
    pub fn new() -> Self {
        Self::partitioned(1)
    }

    pub fn partitioned(partitions: i32) -> Self {
        Self::on(bootstrap(), partitions)
    }

    /// Creates the environment on another broker.
    pub fn on(bootstrap: &str, partitions: i32) -> Self {
        let number = TOPICS.fetch_add(1, Ordering::Relaxed);
        let topic = format!("gateway-test-{}-{number}", std::process::id());
        let admin = Admin::connect(
            &weir_kafka::KafkaSettings::plaintext(bootstrap),
            TEST_TIMEOUT,
        )
        .expect("a reachable broker");
        admin
            // The records' timestamps are old enough for retention to delete them.
            .create_topic(&topic, partitions, 1, &[("retention.ms", "-1")])
            .expect("a new topic");
        let config = ProducerConfig {
            kafka: weir_kafka::KafkaSettings::plaintext(bootstrap),
            ..Default::default()
        };
        let producer = Producer::start(&config, Box::new(|_| {})).expect("a producer");
        Self {
            topic,
            admin,
            bootstrap: bootstrap.to_owned(),
            producer,
            dir: tempfile::tempdir().expect("a directory"),
        }
    }

    /// Deletes the topic and creates one of the same name.
    pub fn recreate_topic(&self) {
        let names = std::slice::from_ref(&self.topic);
        self.admin.delete_topics(names).expect("deleted");
        let kept = [("retention.ms", "-1")];
        self.admin
            .create_topic(&self.topic, 1, 1, &kept)
            .expect("created");
    }

    /// Returns the servers of the broker.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// Returns the path of a file next to the configuration.
    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file next to the configuration.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.path().join(name), text).expect("a file");
    }

    /// Starts a gateway with scenario 2's configuration for this topic, changed by the test.
    pub fn start_gateway(&self, change: impl FnOnce(String) -> String) -> Gateway {
        self.ready(self.config(change))
    }

    /// Starts a gateway and waits until it is ready.
    pub fn ready(&self, config: GatewayConfig) -> Gateway {
        let gateway = Gateway::start(config).expect("a gateway");
        let deadline = Instant::now() + TEST_TIMEOUT;
        while !gateway.ready() {
            assert!(
                Instant::now() < deadline,
                "not ready: {:?}",
                gateway.unready_connections()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        gateway
    }

    pub fn config(&self, change: impl FnOnce(String) -> String) -> GatewayConfig {
        self.config_with("", change)
    }

    /// Returns a configuration with a `gateway.toml`, whose paths are relative to the environment.
    pub fn config_with(&self, toml: &str, change: impl FnOnce(String) -> String) -> GatewayConfig {
        let xml = SCENARIO_2
            .replace("localhost:9092", &self.bootstrap)
            .replace("map.LTest.to", &format!("map.{}.to", self.topic));
        let path = self.dir.path().join("adapters.xml");
        std::fs::write(&path, change(xml)).expect("a file");
        let any = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        let overrides = CliOverrides {
            listen: any,
            admin: any,
            event_loops: Some(2),
            reader: Some(READER.get()),
            ..CliOverrides::default()
        };
        let file = self.dir.path().join("gateway.toml");
        std::fs::write(&file, toml).expect("a file");
        let (adapters, options) = (Some(path.as_path()), ParseOptions::default());
        let loaded = GatewayConfig::load(adapters, Some(&file), &overrides, options);
        let mut config = loaded.expect("a valid configuration");
        config.drain_timeout_ms = 500;
        // Sessions are spread from the second one on.
        config.event_loop_sessions = 1;
        config
    }

    pub fn produce(&self, key: &str, value: &str) {
        self.send(key, value);
        self.flush();
    }

    /// Produces a record without a value.
    pub fn delete(&self, key: &str) {
        let key = Some(key.as_bytes());
        let sent = (self.producer).send(&self.topic, None, key, None, &[], None, 0);
        sent.expect("a free queue slot");
        self.flush();
    }

    pub fn flush(&self) {
        let left = self.producer.flush(TEST_TIMEOUT);
        assert_eq!(left, 0, "the broker accepts the records");
    }

    /// Produces to another topic.
    pub fn produce_to(&self, topic: &str, key: &str, value: &str) {
        self.send_to(topic, key, value);
        self.flush();
    }

    /// Produces a record with any bytes to a partition.
    pub fn produce_bytes(&self, partition: i32, key: &str, value: &[u8]) {
        let (key, value) = (Some(key.as_bytes()), Some(value));
        let sent = (self.producer).send(&self.topic, Some(partition), key, value, &[], None, 0);
        sent.expect("a free queue slot");
        self.flush();
    }

    /// Produces a record with a header.
    pub fn produce_with_header(&self, key: &str, value: &str, header: (&str, &[u8])) {
        let (key, value) = (Some(key.as_bytes()), Some(value.as_bytes()));
        let sent = (self.producer).send(&self.topic, None, key, value, &[header], None, 0);
        sent.expect("a free queue slot");
        self.flush();
    }

    /// Queues a record; its key determines the partition.
    pub fn send(&self, key: &str, value: &str) {
        self.send_to(&self.topic, key, value);
    }

    fn send_to(&self, topic: &str, key: &str, value: &str) {
        let headers = [("trace", b"t-1".as_slice())];
        let sent = self.producer.send(
            topic,
            None,
            Some(key.as_bytes()),
            Some(value.as_bytes()),
            &headers,
            Some(1_700_000_000_000),
            0,
        );
        sent.expect("a free queue slot");
    }
}

/// A TLCP client on an independent WebSocket implementation.
pub struct Client {
    socket: WebSocket<TcpStream>,
    lines: VecDeque<String>,
}

impl Client {
    /// Connects and creates a session.
    pub fn create(gateway: &Gateway) -> Self {
        Self::create_with(gateway, "").expect("a session")
    }

    /// Connects and creates a session with more parameters. Fails with the line that refuses it.
    pub fn create_with(gateway: &Gateway, more: &str) -> Result<Self, String> {
        let mut client = Self::connect(gateway);
        client.send("wsok");
        client.send(&format!(
            "create_session\r\nLS_adapter_set=KafkaConnector&LS_cid=test&LS_send_sync=false\
             &LS_keepalive_millis=1000{more}"
        ));
        assert_eq!(client.line(), "WSOK");
        let line = client.line();
        if !line.starts_with("CONOK,S") {
            return Err(line);
        }
        assert_eq!(client.line(), "SERVNAME,Weir");
        assert_eq!(client.line(), "CLIENTIP,127.0.0.1");
        assert!(client.line().starts_with("CONS,"));
        Ok(client)
    }

    pub fn connect(gateway: &Gateway) -> Self {
        let stream = TcpStream::connect(gateway.listen_address());
        Self::connect_over(stream.expect("a connection"))
    }

    /// Opens a WebSocket on a connection.
    pub fn connect_over(stream: TcpStream) -> Self {
        let address = stream.peer_addr().expect("an open connection");
        stream
            .set_read_timeout(Some(TEST_TIMEOUT))
            .expect("a timeout");
        let mut request = format!("ws://{address}/lightstreamer")
            .into_client_request()
            .expect("a request");
        let protocol = HeaderValue::from_static("TLCP-2.5.0.lightstreamer.com");
        request
            .headers_mut()
            .insert("Sec-WebSocket-Protocol", protocol.clone());
        let (socket, response) = tungstenite::client(request, stream).expect("a WebSocket");
        assert_eq!(
            response.headers().get("Sec-WebSocket-Protocol"),
            Some(&protocol)
        );
        Self {
            socket,
            lines: VecDeque::new(),
        }
    }

    pub fn send(&mut self, text: &str) {
        self.socket
            .send(Message::text(text))
            .expect("the gateway reads");
    }

    /// Sends several messages in one write.
    pub fn send_together(&mut self, texts: &[&str]) {
        for text in texts {
            let written = self.socket.write(Message::text(*text));
            written.expect("the gateway reads");
        }
        self.socket.flush().expect("the gateway reads");
    }

    /// Sends a message that the gateway may not read; returns `false` on failure.
    pub fn try_send(&mut self, text: &str) -> bool {
        self.socket.send(Message::text(text)).is_ok()
    }

    /// Waits for the end of the connection; returns `true` if a line came instead.
    pub fn lives(&mut self) -> bool {
        loop {
            match self.socket.read() {
                Ok(Message::Text(text)) if text.as_str() != "PROBE\r\n" => return true,
                Ok(Message::Close(_)) => return false,
                Ok(_) => {}
                Err(tungstenite::Error::Io(error)) => {
                    let waited =
                        matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                    assert!(!waited, "neither a line nor the end of the connection");
                    return false;
                }
                Err(_) => return false,
            }
        }
    }

    /// Returns the underlying connection.
    pub fn into_stream(self) -> TcpStream {
        assert!(self.lines.is_empty(), "lines are left");
        self.socket.into_inner()
    }

    /// Subscribes in mode RAW and waits for the confirmation.
    pub fn subscribe(&mut self, sub_id: u32, group: &str, schema: &str) {
        let group = group.replace('=', "%3D").replace(' ', "%20");
        let schema = schema.replace(' ', "%20");
        self.send(&format!(
            "control\r\nLS_reqId={sub_id}&LS_op=add&LS_subId={sub_id}&LS_mode=RAW&LS_group={group}\
             &LS_schema={schema}&LS_data_adapter=QuickStart&LS_ack=false"
        ));
        let subok = self.line();
        assert!(subok.starts_with(&format!("SUBOK,{sub_id},")), "{subok}");
        assert_eq!(self.line(), format!("CONF,{sub_id},unlimited,unfiltered"));
    }

    /// Returns the next line that is not `PROBE`.
    pub fn line(&mut self) -> String {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let line = self.any_line().expect("one more line");
            assert!(Instant::now() < deadline, "only probes");
            if line != "PROBE" {
                return line;
            }
        }
    }

    /// Returns the next line, or `None` when the gateway has closed the WebSocket.
    pub fn any_line(&mut self) -> Option<String> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(line);
            }
            match self.socket.read() {
                Ok(Message::Text(text)) => {
                    assert!(
                        text.ends_with("\r\n"),
                        "every line ends with CR LF: {text:?}"
                    );
                    let lines = text.trim_end_matches("\r\n").split("\r\n");
                    self.lines.extend(lines.map(str::to_owned));
                }
                Ok(Message::Close(_)) => return None,
                Ok(_) => {}
                Err(tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed) => {
                    return None;
                }
                Err(error) => panic!("while waiting for a line: {error}"),
            }
        }
    }
}

/// Prints that a test lacks a prerequisite.
pub fn skipped(reason: &str) {
    // The harness captures only the macros. A closed terminal is not a failure.
    let _ = writeln!(std::io::stderr(), "\nskipped: {reason}");
}

/// Sends one HTTP request on a new connection; returns header and body of the response.
pub fn http(address: SocketAddr, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream
        .set_read_timeout(Some(TEST_TIMEOUT))
        .expect("a timeout");
    stream.write_all(request.as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("a response");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

/// Returns the value of a metric, summed over its labels.
pub fn metric(gateway: &Gateway, name: &str) -> u64 {
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let (_, body) = http(gateway.admin_address(), request);
    let lines = body.lines().filter(|line| !line.starts_with('#'));
    let values = lines.filter_map(|line| {
        let (metric, value) = line.rsplit_once(' ')?;
        (metric.split('{').next() == Some(name)).then(|| value.parse::<u64>().expect("a number"))
    });
    values.sum()
}

/// Waits until a metric has a value.
pub fn wait_metric(gateway: &Gateway, name: &str, wanted: impl Fn(u64) -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let value = metric(gateway, name);
        if wanted(value) {
            return;
        }
        assert!(Instant::now() < deadline, "{name} is still {value}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
