//! Lean consumers and topic administration at a listener with TLS and logins whose sessions last
//! little more than a second.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use aws_lc_rs::pbkdf2;
use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::alter_user_scram_credentials_request::ScramCredentialUpsertion;
use kafka_protocol::messages::{
    AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse,
};
use kafka_protocol::protocol::{Decodable, StrBytes};
use tokio::sync::watch;
use weir_kafka::lean::{
    self, LeanCommand, LeanConfig, LeanError, LeanRecord, LeanReport, LeanSink,
};
use weir_kafka::{Admin, IngestConfig, KafkaIngest, KafkaSettings, ReaderKind};
use weir_lab::{Lab, LabOptions, SecondListener};
use weir_wire::header::write_request;

use crate::support::{TEST_TIMEOUT, TestBroker, per_reader, poll_until, read, until_ready};

per_reader! {
    ingest_reads_through_a_repeated_login
    ingest_reports_rejections
}

const CONSUMERS: usize = 20;
/// Kafka accepts a repeated login after a second.
const SESSION_MS: u64 = 8_000;
const PASSWORD: &str = "pencil";

struct SecuredBroker {
    /// Its plaintext listener.
    plain: TestBroker,
    secured: String,
}

fn tls_file(name: &str) -> PathBuf {
    let crates = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    crates.join("../weir-net/tests/tls").join(name)
}

/// Returns the broker that all tests of this file share.
fn broker() -> SecuredBroker {
    static LAB: OnceLock<(Lab, u16)> = OnceLock::new();
    let (lab, port) = LAB.get_or_init(start);
    SecuredBroker {
        plain: TestBroker {
            bootstrap: lab.bootstrap(),
            reader: ReaderKind::default(),
        },
        secured: format!("localhost:{port}"),
    }
}

fn start() -> (Lab, u16) {
    let ports = weir_lab::ports::free_ports(Ipv4Addr::LOCALHOST, 1).expect("a port");
    let port = ports[0];
    let read = |name| std::fs::read_to_string(tls_file(name)).expect("test certificate");
    let name = format!("weir-secured-{}.pem", std::process::id());
    let store = std::env::temp_dir().join(name);
    std::fs::write(&store, read("server.key") + &read("server.pem")).expect("written");
    let modules = "org.apache.kafka.common.security";
    let plain = format!("{modules}.plain.PlainLoginModule required user_weir=\"{PASSWORD}\";");
    let scram = format!("{modules}.scram.ScramLoginModule required;");
    let session = SESSION_MS.to_string();
    let second = "listener.name.second";
    let properties = [
        (
            "listener.security.protocol.map".to_owned(),
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECOND:SASL_SSL",
        ),
        (format!("{second}.ssl.keystore.type"), "PEM"),
        (
            format!("{second}.ssl.keystore.location"),
            &store.display().to_string(),
        ),
        (
            format!("{second}.sasl.enabled.mechanisms"),
            "PLAIN,SCRAM-SHA-256",
        ),
        (format!("{second}.plain.sasl.jaas.config"), &plain),
        (format!("{second}.scram-sha-256.sasl.jaas.config"), &scram),
        (format!("{second}.connections.max.reauth.ms"), &session),
    ]
    .map(|(key, value)| (key, value.to_owned()));
    let options = LabOptions {
        heap_mb: 384,
        ready_timeout: 2 * TEST_TIMEOUT,
        properties: properties.to_vec(),
        second_listeners: vec![SecondListener {
            port,
            advertised_port: port,
        }],
        ..LabOptions::default()
    };
    let lab = Lab::up(&options, &mut |_| (), &AtomicBool::new(false)).expect("broker starts");
    create_scram_user(&lab.bootstrap());
    std::fs::remove_file(store).expect("removed");
    (lab, port)
}

/// Creates the user `weir` for SCRAM-SHA-256.
fn create_scram_user(bootstrap: &str) {
    let (salt, iterations) = (b"salt of a test".to_vec(), 4096);
    let mut salted = [0; 32];
    let rounds = NonZeroU32::new(iterations).expect("positive");
    let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
    pbkdf2::derive(algorithm, rounds, &salt, PASSWORD.as_bytes(), &mut salted);
    let user = ScramCredentialUpsertion::default()
        .with_name(StrBytes::from_static_str("weir"))
        .with_mechanism(1)
        .with_iterations(4096)
        .with_salt(Bytes::from(salt))
        .with_salted_password(Bytes::copy_from_slice(&salted));
    let request = AlterUserScramCredentialsRequest::default().with_upsertions(vec![user]);
    let mut out = BytesMut::new();
    write_request(&mut out, 0, 1, "test", &request).expect("encodes");
    let mut stream = TcpStream::connect(bootstrap).expect("broker listens");
    stream.write_all(&out).expect("sent");
    let mut size = [0; 4];
    stream.read_exact(&mut size).expect("a response");
    let mut frame = vec![0; u32::from_be_bytes(size) as usize];
    stream.read_exact(&mut frame).expect("a response");
    // Correlation id and no tagged fields.
    let mut body = Bytes::from(frame).slice(5..);
    let response = AlterUserScramCredentialsResponse::decode(&mut body, 0).expect("decodes");
    assert_eq!(response.results.len(), 1);
    assert_eq!(response.results[0].error_code, 0);
}

impl SecuredBroker {
    fn settings(&self, mechanism: &str, password: &str, authority: &str) -> KafkaSettings {
        let authority = tls_file(authority).display().to_string();
        let properties = [
            ("security.protocol", "SASL_SSL"),
            ("ssl.truststore.type", "PEM"),
            ("ssl.truststore.location", &authority),
            ("sasl.mechanism", mechanism),
            ("sasl.username", "weir"),
            ("sasl.password", password),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
        let settings = KafkaSettings::from_properties(Some(&self.secured), &properties);
        settings.expect("valid settings")
    }

    /// Returns the error with which consumers refuse to start, which must come at once.
    fn refusal(&self, kafka: KafkaSettings) -> LeanError {
        let begun = Instant::now();
        let config = LeanConfig {
            kafka,
            topic: "unused".to_owned(),
            ..LeanConfig::default()
        };
        let (_stop, stopped) = watch::channel(LeanCommand::Read);
        let outcome = block_on(lean::run(config, MarkerCounter::new(0, None), stopped));
        assert!(begun.elapsed() < Duration::from_secs(4), "retried");
        outcome.expect_err("refused")
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().expect("runtime");
    runtime
        .block_on(async { tokio::time::timeout(TEST_TIMEOUT, work).await })
        .expect("in time")
}

/// Stops the run when every consumer has received the record `end`.
struct MarkerCounter {
    missing: usize,
    errors: Vec<String>,
    ready: Option<tokio::sync::oneshot::Sender<()>>,
    not_ready: usize,
    stop: Option<watch::Sender<LeanCommand>>,
}

impl MarkerCounter {
    fn new(
        consumers: usize,
        signals: Option<(tokio::sync::oneshot::Sender<()>, watch::Sender<LeanCommand>)>,
    ) -> Self {
        let (ready, stop) = signals.unzip();
        Self {
            missing: consumers,
            errors: Vec::new(),
            ready,
            not_ready: consumers,
            stop,
        }
    }
}

impl LeanSink for MarkerCounter {
    fn on_ready(&mut self, _: usize) {
        self.not_ready -= 1;
        if self.not_ready == 0 {
            let ready = self.ready.take().expect("only once");
            ready.send(()).expect("test waits");
        }
    }

    fn on_record(&mut self, _: usize, record: &LeanRecord<'_>) {
        if record.value == Some(b"end") {
            self.missing -= 1;
        }
        if let (0, Some(stop)) = (self.missing, &self.stop) {
            stop.send_replace(LeanCommand::Stop);
        }
    }

    fn on_error(&mut self, _: usize, error: &LeanError) {
        self.errors.push(error.to_string());
    }

    fn on_bytes(&mut self, _: usize, _: usize) {}
}

/// Consumes during two lifetimes of a session.
fn consume_long(mechanism: &str) -> LeanReport {
    let broker = broker();
    let topic = broker.plain.topic("secured", 2);
    let producer = broker.plain.producer();
    let name = topic.clone();
    let (ready, wait_ready) = tokio::sync::oneshot::channel();
    let (stop, stopped) = watch::channel(LeanCommand::Read);
    let produce = std::thread::spawn(move || {
        wait_ready.blocking_recv().expect("consumers are ready");
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(2 * SESSION_MS) {
            producer.store(&name, 0, &["more".to_owned()]);
        }
        producer.store(&name, 0, &["end".to_owned()]);
    });
    let config = LeanConfig {
        kafka: broker.settings(mechanism, PASSWORD, "ca.pem"),
        topic,
        consumers: CONSUMERS,
        ..LeanConfig::default()
    };
    let sink = MarkerCounter::new(CONSUMERS, Some((ready, stop)));
    let sink = Rc::new(RefCell::new(sink));
    let report = block_on(lean::run(config, Rc::clone(&sink), stopped)).expect("runs");
    produce.join().expect("produced");
    assert_eq!(sink.borrow().errors, Vec::<String>::new());
    report
}

#[test]
fn logins_are_repeated_without_losing_connections() {
    let runs = ["PLAIN", "SCRAM-SHA-256"].map(|mechanism| {
        let run = std::thread::spawn(move || consume_long(mechanism));
        (mechanism, run)
    });
    for (mechanism, run) in runs {
        let report = run.join().expect(mechanism);
        assert_eq!((report.disconnects, report.errors), (0, 0), "{mechanism}");
        assert_eq!(report.connections, CONSUMERS as u64, "{mechanism}");
    }
}

#[test]
fn rejections_are_final_and_name_their_cause() {
    let broker = broker();
    let cases = [
        (
            broker.settings("PLAIN", "wrong", "ca.pem"),
            "PLAIN login rejected",
        ),
        (
            broker.settings("SCRAM-SHA-256", "wrong", "ca.pem"),
            "SCRAM-SHA-256 login rejected",
        ),
        (
            broker.settings("SCRAM-SHA-512", PASSWORD, "ca.pem"),
            "mechanism SCRAM-SHA-512 is not enabled on this listener, which has ",
        ),
        (
            broker.settings("PLAIN", PASSWORD, "second.pem"),
            "unknown authority",
        ),
    ];
    for (settings, expected) in cases {
        let admin = Admin::connect(&settings, TEST_TIMEOUT);
        let text = admin.map(drop).expect_err("refused").to_string();
        assert!(text.contains(expected), "admin: {text}");
        let error = broker.refusal(settings);
        assert!(error.is_rejection());
        let text = error.to_string();
        assert!(text.contains(expected), "lean: {text}");
        assert!(!text.contains("wrong"), "{text}");
    }
}

#[test]
fn topics_are_administered_at_a_secured_listener() {
    let broker = broker();
    let settings = broker.settings("SCRAM-SHA-256", PASSWORD, "ca.pem");
    let admin = Admin::connect(&settings, TEST_TIMEOUT).expect("accepted");
    let topic = crate::support::unique("secured-admin");
    admin.create_topic(&topic, 2, 1, &[]).expect("created");
    assert_eq!(admin.partitions(&topic), Ok(Some(2)));
    admin.delete_topic(&topic).expect("deleted");
}

fn ingest(kafka: KafkaSettings, topic: &str, reader: ReaderKind) -> KafkaIngest {
    let config = IngestConfig {
        kafka,
        client_id: "test".to_owned(),
        topics: vec![topic.to_owned()],
        reader,
        ..IngestConfig::default()
    };
    KafkaIngest::start(&config).expect("valid configuration")
}

fn ingest_reads_through_a_repeated_login(reader: ReaderKind) {
    let broker = broker();
    let topic = broker.plain.topic("secured-ingest", 2);
    let kafka = broker.settings("SCRAM-SHA-256", PASSWORD, "ca.pem");
    let mut source = ingest(kafka, &topic, reader);
    until_ready(&mut source);
    let producer = broker.plain.producer();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(SESSION_MS * 5 / 4) {
        producer.store(&topic, 0, &["one".to_owned()]);
        assert_eq!(read(&mut source, 1).len(), 1);
        std::thread::sleep(Duration::from_millis(10));
    }
    let status = source.status();
    assert_eq!((status.errors, status.resets), (0, 0), "{status:?}");
}

fn ingest_reports_rejections(reader: ReaderKind) {
    let broker = broker();
    for (password, authority) in [("wrong", "ca.pem"), (PASSWORD, "second.pem")] {
        let kafka = broker.settings("SCRAM-SHA-256", password, authority);
        let mut source = ingest(kafka, "unused", reader);
        poll_until(&mut source, &mut Vec::new(), "rejection", |source, _| {
            source.status().refused.is_some()
        });
        let status = source.status();
        assert!(!status.ready);
        let is_login = password == "wrong";
        assert_eq!(status.login_failures > 0, is_login, "{status:?}");
        assert_eq!(status.tls_failures > 0, !is_login, "{status:?}");
        assert!(!format!("{status:?}").contains("wrong"), "{status:?}");
    }
}
