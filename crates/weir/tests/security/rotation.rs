//! Certificates that are replaced while a gateway runs: by the same authority, then by a new one,
//! with new stores of the client. The connection must come back without a restart of the gateway.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use weir_kafka::{KafkaSettings, Producer, ProducerConfig};
use weir_lab::security::{Authority, CertificateRequest, CertificateUsage, IssuedCertificate};
use weir_lab::{ClientSettings, Lab};

use crate::connect::{adapters, get};
use crate::modes::{ClientCase, TOPIC, write_properties};
use crate::support::{Process, weir};

/// A gateway and the stores of its connection.
struct Rotation<'a> {
    lab: &'a mut Lab,
    trust: PathBuf,
    key: PathBuf,
    log: PathBuf,
    admin: u16,
    _gateway: Process,
}

/// Replaces the certificates of a lab with client certificates; it is not usable afterwards.
pub(crate) fn check(lab: &mut Lab, case: &ClientCase) {
    let mut rotation = Rotation::start(lab, case);
    rotation.await_ready("at the start");
    // A new certificate of the same authority needs no new store.
    let never = AtomicBool::new(false);
    rotation.lab.rotate_certificate(&never).expect("replaced");
    rotation.restart_broker();
    rotation.await_ready("with a new certificate of the same authority");
    assert_eq!(rotation.reloads(), 0);
    new_authority(&mut rotation);
}

/// Server, clients and the brokers' trust store get certificates of a new authority.
fn new_authority(rotation: &mut Rotation<'_>) {
    let authority = Authority::new("New authority").expect("an authority");
    let issue = |name: &str, hosts: &[&str], usage| {
        authority
            .issue(&CertificateRequest {
                name,
                hosts,
                usage,
                is_expired: false,
            })
            .expect("a certificate")
    };
    let server = issue("broker", &["127.0.0.1"], CertificateUsage::Server);
    let client = issue("weir", &[], CertificateUsage::Client);
    let files = rotation.lab.security_files().expect("certificates");
    let pem = authority.certificate_pem();
    fs::write(files.authority().pem(), pem).expect("a file");
    fs::write(files.server().pem(), both(&server)).expect("a file");
    let failures = rotation.tls_failures();
    rotation.restart_broker();
    rotation.wait("a refused handshake", |it| it.tls_failures() > failures);
    assert!(!rotation.is_ready());
    // A store that is written in part is reported, and read again.
    fs::write(&rotation.trust, &pem[..pem.len() / 2]).expect("a file");
    rotation.wait("a warning", |it| {
        it.logged("cannot read certificates again, kept current ones") == 1
    });
    fs::write(&rotation.trust, pem).expect("a file");
    rotation.wait("the new trust store", |it| it.reloads() == 1);
    // The broker does not accept the old certificate of the client.
    assert!(!rotation.is_ready());
    let failures = rotation.tls_failures();
    rotation.wait("a refused handshake", |it| it.tls_failures() > failures);
    fs::write(&rotation.key, both(&client)).expect("a file");
    rotation.await_ready("with stores of a new authority");
    assert_eq!(rotation.reloads(), 2);
    rotation.receives_a_record();
}

impl<'a> Rotation<'a> {
    fn start(lab: &'a mut Lab, case: &ClientCase) -> Self {
        let dir = case.dir.join("rotation");
        fs::create_dir(&dir).expect("a directory");
        let (trust, key) = (dir.join("trust.pem"), dir.join("key.pem"));
        let settings = ClientSettings::default();
        let mut properties = lab.settings(settings).expect("settings of a client");
        for (name, path) in &mut properties {
            let own = match name.as_str() {
                "ssl.truststore.location" => &trust,
                "ssl.keystore.location" => &key,
                _ => continue,
            };
            fs::copy(&*path, own).expect("a copy");
            *path = own.display().to_string();
        }
        let config = dir.join("client.properties");
        write_properties(&config, &properties);
        let file = dir.join("gateway.xml");
        fs::write(&file, adapters(case)).expect("a file");
        let admin = weir_lab::ports::free_ports(Ipv4Addr::LOCALHOST, 1).expect("a port")[0];
        let log = dir.join("gateway.log");
        let mut command = weir(&["gateway", "run", "--listen", "127.0.0.1:0", "--admin"]);
        command.arg(format!("127.0.0.1:{admin}"));
        command.arg("--adapters").arg(&file);
        command.arg("--kafka-config").arg(&config);
        let written = File::create(&log).expect("a file");
        command.stdout(Stdio::null()).stderr(written);
        Self {
            lab,
            trust,
            key,
            log,
            admin,
            _gateway: Process::spawn(&mut command),
        }
    }

    fn restart_broker(&mut self) {
        self.lab.stop_broker(1).expect("the broker ends");
        let started = self.lab.start_broker(1, &AtomicBool::new(false));
        started.expect("the broker starts");
    }

    fn is_ready(&self) -> bool {
        get(self.admin, "/health/ready").is_some_and(|response| response.contains(" 200 "))
    }

    fn await_ready(&self, when: &str) {
        self.wait(when, Self::is_ready);
    }

    fn metric(&self, name: &str) -> u64 {
        let metrics = get(self.admin, "/metrics").unwrap_or_default();
        let mut lines = metrics.lines().filter(|line| line.starts_with(name));
        let line = lines
            .next()
            .unwrap_or_else(|| panic!("no {name}: {metrics}"));
        let value = line.rsplit_once(' ').map(|(_, value)| value.parse());
        value.expect("a value").expect("a number")
    }

    fn tls_failures(&self) -> u64 {
        self.metric("weir_gateway_kafka_tls_failures_total")
    }

    /// Returns the number of lines of the log with a text.
    fn logged(&self, text: &str) -> usize {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().filter(|line| line.contains(text)).count()
    }

    fn reloads(&self) -> usize {
        self.logged("certificates replaced, connecting with the new ones")
    }

    fn wait(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !condition(self) {
            if Instant::now() > deadline {
                let log = fs::read_to_string(&self.log).unwrap_or_default();
                panic!("not in time: {what}\n{log}");
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Writes a record with the new stores and waits until the gateway has read it.
    fn receives_a_record(&self) {
        let received = "weir_gateway_kafka_records_total";
        let before = self.metric(received);
        let config = self.log.with_file_name("client.properties");
        let kafka = settings(&config);
        let config = ProducerConfig {
            kafka,
            ..ProducerConfig::default()
        };
        let producer = Producer::start(&config, Box::new(|_| ())).expect("a producer");
        let sent = producer.send(TOPIC, Some(0), Some(b"k"), Some(b"new"), &[], None, 1);
        sent.expect("queued");
        assert_eq!(producer.flush(LIMIT), 0, "the record is stored");
        self.wait("the record", |it| it.metric(received) > before);
    }
}

fn settings(config: &Path) -> KafkaSettings {
    let read = KafkaSettings::read_properties(config).expect("a file");
    KafkaSettings::from_properties(None, &read).expect("valid settings")
}

/// Returns certificate and key, as in a key store of PEM.
fn both(issued: &IssuedCertificate) -> String {
    format!("{}{}", issued.certificate_pem, issued.key_pem)
}

const LIMIT: Duration = Duration::from_secs(60);
/// Interval at which a condition is polled.
const LOOK: Duration = Duration::from_millis(50);
