//! Broker, proxies, raw requests and waiting, shared by the tests in this directory.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use weir_lab::{Lab, LabOptions, SecondListener};
use weir_proxy::{CliOverrides, Proxy, ProxyConfig};

/// Timeout of every wait. Only a failing test takes this long.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(90);

/// Returns the address of the broker that all tests share. A broker started here ends with this
/// process.
pub(crate) fn broker() -> String {
    let named = std::env::var("WEIR_E2E_BOOTSTRAP").ok();
    named.unwrap_or_else(|| shared().lab.bootstrap())
}

/// A broker started by the tests.
pub(crate) struct SharedBroker {
    pub(crate) lab: Lab,
    /// Address of the listener that requires authentication as [`USER`] with [`PASSWORD`].
    pub(crate) secured: String,
}

/// User of the secured listener with PLAIN.
pub(crate) const USER: &str = "tester";
pub(crate) const PASSWORD: &str = "secret";

pub(crate) fn shared() -> &'static SharedBroker {
    static SHARED: OnceLock<SharedBroker> = OnceLock::new();
    SHARED.get_or_init(|| {
        let port = weir_lab::ports::free_port().expect("a port");
        let modules = "org.apache.kafka.common.security";
        let properties = [
            (
                "listener.security.protocol.map",
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECOND:SASL_PLAINTEXT".to_owned(),
            ),
            (
                "listener.name.second.sasl.enabled.mechanisms",
                "PLAIN,SCRAM-SHA-256".to_owned(),
            ),
            (
                "listener.name.second.plain.sasl.jaas.config",
                format!("{modules}.plain.PlainLoginModule required user_{USER}=\"{PASSWORD}\";"),
            ),
            (
                "listener.name.second.scram-sha-256.sasl.jaas.config",
                format!("{modules}.scram.ScramLoginModule required;"),
            ),
        ];
        let properties = properties.map(|(key, value)| (key.to_owned(), value));
        let lab = lab_with(LabOptions {
            second_listeners: vec![SecondListener {
                port,
                advertised_port: port,
            }],
            properties: properties.to_vec(),
            ..LabOptions::default()
        });
        SharedBroker {
            lab,
            secured: format!("127.0.0.1:{port}"),
        }
    })
}

pub(crate) fn lab(brokers: u8) -> Lab {
    lab_with(LabOptions {
        brokers,
        ..LabOptions::default()
    })
}

pub(crate) fn lab_with(options: LabOptions) -> Lab {
    let options = LabOptions {
        heap_mb: 384,
        ready_timeout: 2 * TEST_TIMEOUT,
        ..options
    };
    Lab::up(&options, &mut |_| (), &AtomicBool::new(false)).expect("broker starts")
}

pub(crate) fn unique(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{name}-{}-{number}", std::process::id())
}

/// Starts a proxy in front of `upstream`. `toml` is added to its configuration file.
pub(crate) fn proxy_to(upstream: &str, toml: &str) -> TestProxy {
    started(2, upstream, toml)
}

/// Starts a proxy with `loops` event loops in front of the shared broker.
pub(crate) fn proxy_with_loops(loops: usize, toml: &str) -> TestProxy {
    let proxy = started(loops, &broker(), toml);
    await_that("the proxy to be ready", || proxy.get().is_ready());
    proxy
}

fn started(loops: usize, upstream: &str, toml: &str) -> TestProxy {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("proxy.toml");
    let (head, cluster) = toml.split_once("---\n").unwrap_or(("", toml));
    let text = format!(
        "event_loops = {loops}\n{head}\n\
         [[cluster]]\nupstream = \"{upstream}\"\nlisten = \"127.0.0.1:0\"\n{cluster}"
    );
    std::fs::write(&path, text).expect("writes");
    let overrides = CliOverrides {
        admin: "127.0.0.1:0".parse().ok(),
        ..CliOverrides::default()
    };
    let config = ProxyConfig::load(Some(&path), &overrides).expect("a configuration");
    let proxy = Proxy::start(config).expect("starts");
    let address = proxy.addresses().next().expect("a cluster").1;
    TestProxy {
        proxy: Some(proxy),
        address,
        dir,
    }
}

/// Starts a proxy in front of the shared broker.
pub(crate) fn proxy(toml: &str) -> TestProxy {
    let proxy = proxy_to(&broker(), toml);
    await_that("the proxy to be ready", || proxy.get().is_ready());
    proxy
}

/// A proxy that ends with its test.
pub(crate) struct TestProxy {
    proxy: Option<Proxy>,
    pub(crate) address: SocketAddr,
    dir: tempfile::TempDir,
}

impl TestProxy {
    pub(crate) fn get(&self) -> &Proxy {
        self.proxy.as_ref().expect("it runs")
    }

    pub(crate) fn bootstrap(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn config_path(&self) -> PathBuf {
        self.dir.path().join("proxy.toml")
    }

    pub(crate) fn config_text(&self) -> String {
        std::fs::read_to_string(self.config_path()).expect("a file")
    }

    /// Replaces the configuration file, which takes effect with a reload.
    pub(crate) fn write_config(&self, text: &str, more: &str) {
        std::fs::write(self.config_path(), format!("{text}\n{more}")).expect("writes");
    }

    pub(crate) fn shut_down(mut self) {
        self.proxy.take().expect("it runs").shut_down();
    }

    /// Returns a page of the admin port.
    pub(crate) fn page(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.get().admin_address()).expect("admin port");
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sends");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("reads");
        text
    }

    /// Returns the value of a metric.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let page = self.page("/metrics");
        let line = page
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = line.unwrap_or_else(|| panic!("{name} in {page}"));
        value.trim().parse().expect("a number")
    }

    pub(crate) fn await_metric(&self, name: &str, wanted: u64) {
        await_that(&format!("{name} {wanted}"), || self.metric(name) == wanted);
    }
}

impl Drop for TestProxy {
    fn drop(&mut self) {
        if let Some(proxy) = self.proxy.take() {
            // Connections of a failed test need no drain.
            if !std::thread::panicking() {
                proxy.shut_down();
            }
        }
    }
}

/// Returns how many responses of the proxy itself had an error.
pub(crate) fn errors(proxy: &TestProxy, api: &str, code: i16) -> u64 {
    let labels = format!("cluster=\"default\",api=\"{api}\",code=\"{code}\"");
    proxy.metric(&format!("weir_proxy_errors_total{{{labels}}}"))
}

/// Returns the bytes buffered for the only connection.
pub(crate) fn buffered_bytes(proxy: &TestProxy) -> usize {
    let page = proxy.page("/connections");
    let (_, rest) = page.split_once("\"buffered_bytes\":").expect("a row");
    let digits = rest.find(|byte: char| !byte.is_ascii_digit());
    rest[..digits.expect("an end")].parse().expect("a number")
}

/// Waits until `condition` returns `true`.
pub(crate) fn await_that(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A connection for hand-made requests.
pub(crate) struct Raw {
    pub(crate) stream: TcpStream,
    /// `client.id` of its requests.
    pub(crate) client_id: &'static str,
}

impl Raw {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("connects");
        stream
            .set_read_timeout(Some(TEST_TIMEOUT))
            .expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Self {
            stream,
            client_id: "",
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("sends");
    }

    /// Receives a frame without its size prefix.
    pub(crate) fn receive(&mut self) -> Vec<u8> {
        let mut size = [0; 4];
        self.stream.read_exact(&mut size).expect("a size");
        let mut frame = vec![0; i32::from_be_bytes(size) as usize];
        self.stream.read_exact(&mut frame).expect("a frame");
        frame
    }

    /// Sends a request and returns its response.
    pub(crate) fn exchange<Q: Request>(&mut self, version: i16, message: &Q) -> Q::Response {
        let header = RequestHeader::default()
            .with_request_api_key(Q::KEY)
            .with_request_api_version(version)
            .with_client_id(Some(StrBytes::from_static_str(self.client_id)))
            .with_correlation_id(9);
        let mut frame = BytesMut::from(&[0; 4][..]);
        let encoded = header.encode(&mut frame, Q::header_version(version));
        encoded.expect("a header");
        message.encode(&mut frame, version).expect("a request");
        let size = frame.len() as i32 - 4;
        frame[..4].copy_from_slice(&size.to_be_bytes());
        self.send(&frame);
        let mut response = Bytes::from(self.receive());
        let header = ResponseHeader::decode(&mut response, Q::Response::header_version(version));
        assert_eq!(header.expect("a header").correlation_id, 9);
        Q::Response::decode(&mut response, version).expect("a response")
    }

    /// Waits until the peer closes. Returns the bytes received before that.
    pub(crate) fn until_closed(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => rest,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => rest,
            Err(error) => panic!("not closed: {error}"),
        }
    }
}

/// Returns a request with a version 1 header without client id.
pub(crate) fn request(key: i16, version: i16, id: i32, body: &[u8]) -> Vec<u8> {
    let mut frame = ((10 + body.len()) as i32).to_be_bytes().to_vec();
    for number in [key, version] {
        frame.extend(number.to_be_bytes());
    }
    frame.extend(id.to_be_bytes());
    frame.extend([0xff, 0xff]);
    frame.extend_from_slice(body);
    frame
}

pub(crate) fn client_config(bootstrap: &str) -> ClientConfig {
    let mut client_config = ClientConfig::new();
    client_config
        .set("bootstrap.servers", bootstrap)
        .set("client.id", "test")
        .set("log_level", "2");
    client_config
}

/// Creates a topic that no other test uses, and waits until a broker reports its leaders: under
/// load, a topic is in the metadata some time after the response.
pub(crate) fn topic(bootstrap: &str, name: &str, partitions: i32, replicas: i32) -> String {
    let name = unique(name);
    let admin: AdminClient<DefaultClientContext> = client_config(bootstrap)
        .create()
        .expect("valid configuration");
    let wanted = NewTopic::new(&name, partitions, TopicReplication::Fixed(replicas));
    let options = AdminOptions::new().operation_timeout(Some(TEST_TIMEOUT));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let created = runtime
        .expect("a runtime")
        .block_on(admin.create_topics([&wanted], &options));
    for outcome in created.expect("a response") {
        outcome.expect("created");
    }
    await_that("leaders of the topic", || {
        let metadata = admin.inner().fetch_metadata(Some(&name), TEST_TIMEOUT);
        let metadata = metadata.expect("a response");
        metadata.topics().first().is_some_and(|topic| {
            let has_leaders = topic.partitions().iter().all(|one| one.leader() >= 0);
            let is_complete = topic.partitions().len() == partitions as usize;
            topic.error().is_none() && is_complete && has_leaders
        })
    });
    name
}

/// Writes values to a topic and waits until they are stored.
pub(crate) fn produce(client_config: &ClientConfig, topic: &str, values: &[String]) {
    let producer: BaseProducer = client_config.create().expect("valid configuration");
    send_all(&producer, topic, values);
    producer.flush(TEST_TIMEOUT).expect("stored");
}

pub(crate) fn send_all(producer: &BaseProducer, topic: &str, values: &[String]) {
    for (number, value) in values.iter().enumerate() {
        let key = number.to_string();
        let record = BaseRecord::to(topic).key(&key).payload(value);
        producer
            .send(record)
            .map_err(|(error, _)| error)
            .expect("queued");
        if number % 100 == 0 {
            producer.poll(Duration::ZERO);
        }
    }
}

/// Reads `count` values from a topic in a new group. Returns them sorted.
pub(crate) fn consume(bootstrap: &str, topic: &str, count: usize) -> Vec<String> {
    consume_with(client_config(bootstrap), topic, count)
}

pub(crate) fn consume_with(
    mut client_config: ClientConfig,
    topic: &str,
    count: usize,
) -> Vec<String> {
    client_config
        .set("group.id", unique("group"))
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false");
    let consumer: BaseConsumer = client_config.create().expect("valid configuration");
    consumer.subscribe(&[topic]).expect("subscribes");
    let mut values = read(&consumer, count);
    values.sort_unstable();
    values
}

/// Returns the next `count` values of a consumer.
pub(crate) fn read(consumer: &BaseConsumer, count: usize) -> Vec<String> {
    let deadline = Instant::now() + TEST_TIMEOUT;
    let mut values = Vec::with_capacity(count);
    while values.len() < count {
        assert!(
            Instant::now() < deadline,
            "only {} of {count} values received",
            values.len()
        );
        match consumer.poll(Duration::from_millis(100)) {
            None => {}
            Some(Ok(message)) => {
                let value = message.payload().unwrap_or_default();
                values.push(String::from_utf8_lossy(value).into_owned());
            }
            // Connections fail while brokers stop.
            Some(Err(_)) => {}
        }
    }
    values
}

/// Returns the values of a topic up to its end, without those of open or aborted transactions, by
/// partition in the order of their offsets. Empty if there is no such topic yet.
pub(crate) fn stored_values(bootstrap: &str, topic: &str) -> Vec<String> {
    let mut client_config = client_config(bootstrap);
    client_config
        .set("group.id", "none")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("isolation.level", "read_committed");
    let consumer: BaseConsumer = client_config.create().expect("valid configuration");
    let metadata = consumer.fetch_metadata(Some(topic), TEST_TIMEOUT);
    let metadata = metadata.expect("a response");
    let partitions = metadata.topics()[0].partitions().len();
    let mut all = TopicPartitionList::new();
    for partition in 0..partitions {
        let added = all.add_partition_offset(topic, partition as i32, Offset::Beginning);
        added.expect("an offset");
    }
    consumer.assign(&all).expect("assigned");
    let mut values = vec![Vec::new(); partitions];
    let mut ends = BTreeSet::new();
    await_that(&format!("the end of {topic}"), || {
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(message)) => {
                let value = String::from_utf8_lossy(message.payload().unwrap_or_default());
                values[message.partition() as usize].push(value.into_owned());
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                ends.insert(partition);
            }
            // Connections fail while brokers stop.
            Some(Err(_)) | None => {}
        }
        ends.len() == partitions
    });
    values.concat()
}

pub(crate) fn numbered(prefix: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{prefix}-{number:06}"))
        .collect()
}

/// Returns the path of a TLS test file.
pub(crate) fn fixture(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    directory.join("../weir-net/tests/tls").join(name)
}
