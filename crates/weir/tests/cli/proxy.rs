//! End-to-end tests of `weir proxy run` and `weir proxy check`.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::broker;
use super::support::{Process, Signal, send_signal, text, weir};

pub(super) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) fn await_that(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A running `weir proxy run`.
pub(super) struct RunningProxy {
    process: Process,
    log: PathBuf,
}

impl RunningProxy {
    pub(super) fn start(dir: &Path, args: &[&str]) -> Self {
        let log = dir.join("proxy.log");
        let mut command = weir(&["proxy", "run"]);
        command.args(args).stdout(Stdio::null());
        command.stderr(File::create(&log).unwrap());
        Self {
            process: Process::spawn(&mut command),
            log,
        }
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    pub(super) fn signal(&self, signal: Signal) {
        send_signal(self.process.id(), signal);
    }

    /// Waits for the exit and returns the exit code.
    pub(super) fn ends(&mut self) -> i32 {
        self.await_end().code().expect("a code")
    }

    pub(super) fn await_end(&mut self) -> ExitStatus {
        let mut ended = None;
        await_that("its end", || {
            ended = self.process.try_wait().unwrap();
            ended.is_some()
        });
        ended.expect("it has ended")
    }
}

/// Returns a page of the admin port; `None` if it is closed.
pub(super) fn page(admin: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(admin).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}

fn metric(admin: &str, line: &str) -> bool {
    page(admin, "/metrics").is_some_and(|page| page.lines().any(|found| found == line))
}

/// Returns a Kafka request without a client id.
pub(super) fn request(key: i16, version: i16, id: i32, body: &[u8]) -> Vec<u8> {
    let size = (10 + body.len()) as i32;
    let head = [
        size.to_be_bytes().as_slice(),
        &key.to_be_bytes(),
        &version.to_be_bytes(),
    ]
    .concat();
    [&head, &id.to_be_bytes()[..], &[0xff, 0xff], body].concat()
}

/// Returns a Fetch v4 request of partition 0 that waits one second for more data.
fn long_poll(topic: &str) -> Vec<u8> {
    let numbers = [-1_i32, 1_000, 1 << 20, 1 << 20]
        .map(i32::to_be_bytes)
        .concat();
    let name = [&(topic.len() as i16).to_be_bytes()[..], topic.as_bytes()].concat();
    let one = 1_i32.to_be_bytes();
    let from = [
        &0_i32.to_be_bytes()[..],
        &0_i64.to_be_bytes(),
        &(1_i32 << 20).to_be_bytes(),
    ];
    let body = [&numbers[..], &[0], &one, &name, &one, &from.concat()].concat();
    request(1, 4, 7, &body)
}

fn read_response(stream: &mut TcpStream) -> Vec<u8> {
    let mut size = [0; 4];
    stream.read_exact(&mut size).unwrap();
    let mut frame = vec![0; i32::from_be_bytes(size) as usize];
    stream.read_exact(&mut frame).unwrap();
    frame
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream
}

#[test]
fn proxy_serves_until_graceful_shutdown() {
    let dir = tempfile::tempdir().unwrap();
    let ready = dir.path().join("ready.json");
    let upstream = broker();
    let anywhere = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    let place = ready.display().to_string();
    let own = ["--upstream", &upstream, "--ready-file", &place];
    let mut proxy = RunningProxy::start(dir.path(), &[&anywhere[..], &own].concat());
    await_that("the ready file", || ready.exists());
    let ready_file: Value = serde_json::from_slice(&fs::read(&ready).unwrap()).unwrap();
    let of = |key: &str| ready_file[key].as_str().expect("an address").to_owned();
    let (listen, admin) = (of("listen"), of("admin"));
    assert_eq!(ready_file["clusters"]["default"], listen);
    assert_eq!(ready_file["pid"], proxy.process.id());
    for (path, expected) in [
        ("/health/live", "alive"),
        ("/health/ready", "cluster default: ready"),
    ] {
        let page = page(&admin, path).expect("a page");
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        assert!(page.contains(expected), "{page}");
    }
    // One client is `weir load produce`, the other one sends raw requests.
    let topic = "through-the-proxy";
    let produced = weir(&["load", "produce", "--bootstrap", &listen, "--topic", topic])
        .args(["--create-topic", "--count", "1", "--max-lag", "10s"])
        .output()
        .unwrap();
    assert!(produced.status.success(), "{}", text(&produced.stderr));
    let mut client = connect(&listen);
    client.write_all(&long_poll(topic)).unwrap();
    await_that("the request to be under way", || {
        let page = page(&admin, "/connections").expect("a page");
        let (_, body) = page.split_once("\r\n\r\n").expect("a body");
        let rows: Value = serde_json::from_str(body).unwrap();
        let brokers = rows["clusters"][0]["brokers"].as_array().expect("a list");
        assert!(
            brokers.iter().any(|row| row["upstream"] == *upstream),
            "{body}"
        );
        let rows = rows["connections"].as_array().expect("a list");
        rows.iter()
            .any(|row| row["in_flight"] == 1 && row["state"] == "open")
    });
    // The connection of the producer may close one event loop iteration later.
    await_that("one connection", || {
        metric(&admin, "weir_proxy_connections 1")
    });
    assert!(metric(&admin, "weir_proxy_clusters_ready 1"));

    proxy.signal(Signal::TERM);
    await_that("the listener to close", || {
        TcpStream::connect(&listen).is_err()
    });
    assert_eq!(
        read_response(&mut client)[..4],
        [0, 0, 0, 7],
        "pending requests must be answered"
    );
    assert_eq!(
        client.read(&mut [0]).unwrap(),
        0,
        "the connection must be closed afterwards"
    );
    assert_eq!(proxy.ends(), 0);
    let log = proxy.log();
    for line in ["listening for clients", "ready", "shutting down"] {
        assert!(log.contains(line), "{log}");
    }
}

#[test]
fn configuration_errors_exit_with_2_and_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let cluster = "[[cluster]]\nupstream = \"a:1\"\n";
    let unknown = file("unknown.toml", &format!("loop = 2\n{cluster}"));
    let open = file(
        "open.toml",
        &format!("{cluster}listen = \"0.0.0.0:9192\"\n"),
    );
    let admin = format!("[admin]\nlisten = \"0.0.0.0:9190\"\n{cluster}");
    let admin = file("admin.toml", &admin);
    let filter = format!("{cluster}[[cluster.filter]]\ntype = \"lowercase\"\n");
    let filter = file("filter.toml", &filter);
    let cases: [(&[&str], &str); 8] = [
        (&[], "--upstream"),
        (&["--upstream", "broker"], "\"broker\": write HOST:PORT"),
        (
            &["--upstream", "a:1", "--listen", &taken],
            "cannot listen on",
        ),
        (&["--config", "/nowhere.toml"], "/nowhere.toml: cannot read"),
        (&["--config", &unknown], "unknown field `loop`"),
        (&["--config", &open], "set advertised_host"),
        (&["--config", &admin], "set admin.token"),
        (&["--config", &filter], "lowercase"),
    ];
    for (args, expected) in cases {
        let mut command = weir(&["proxy", "run"]);
        let output = command.args(args).output().unwrap();
        let printed = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {printed}");
        assert!(printed.contains(expected), "{args:?}: {printed}");
    }
}

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../weir-net/tests/tls")
        .join(name)
}

/// Creates a directory with a certificate, its key and a `proxy.toml` that uses them.
fn with_certificate(ports: [u16; 3]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let [listen, broker, admin] = ports;
    let toml = format!(
        "[admin]\nlisten = \"127.0.0.1:{admin}\"\n\n[[cluster]]\nname = \"orders\"\n\
         upstream = \"127.0.0.1:1\"\nlisten = \"127.0.0.1:{listen}\"\n\
         broker_ports = \"{broker}-{broker}\"\n\n[cluster.tls]\ncertificate = \"cert.pem\"\n\
         key = \"key.pem\"\n\n[[cluster.filter]]\ntype = \"mask\"\nmembers = [\"pin\"]\n"
    );
    fs::write(dir.path().join("proxy.toml"), toml).unwrap();
    install(dir.path(), "server");
    dir
}

fn install(dir: &Path, name: &str) {
    fs::copy(fixture(&format!("{name}.pem")), dir.join("cert.pem")).unwrap();
    fs::copy(fixture(&format!("{name}.key")), dir.join("key.pem")).unwrap();
}

#[test]
fn check_prints_the_effective_configuration() {
    let dir = with_certificate([9192, 9193, 9190]);
    let config = dir.path().join("proxy.toml").display().to_string();
    let output = weir(&["proxy", "check", "--config", &config])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    for line in [
        "cluster orders",
        "  brokers         127.0.0.1:1, without TLS",
        "  bootstrap       127.0.0.1:9192, with TLS",
        "  certificate     until 2120-01-01T00:00:00Z",
        "  ports           9193-9193, one per broker",
    ] {
        assert!(
            printed.lines().any(|found| found == line),
            "{line} in {printed}"
        );
    }
    assert!(printed.contains("mask"), "{printed}");
    let output = weir(&["proxy", "check", "--json", "--config", &config]).output();
    let json: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    assert_eq!(json["clusters"][0]["listen"], "127.0.0.1:9192");
    assert_eq!(
        json["clusters"][0]["certificate_ends_unix_s"],
        4_733_510_400_u64
    );
    fs::remove_file(dir.path().join("key.pem")).unwrap();
    let output = weir(&["proxy", "check", "--config", &config])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("key.pem"));
}

#[test]
fn check_prints_server_names_and_load_balancers() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("proxy.toml");
    let toml = "[[cluster]]\nname = \"orders\"\nupstream = \"127.0.0.1:1\"\n\
                listen = \"0.0.0.0:9192\"\nproxy_protocol = \"required\"\n\
                trusted = [\"10.0.0.0/8\", \"10.1.2.3\"]\n\
                [cluster.tls]\ncertificate = \"cert.pem\"\nkey = \"key.pem\"\n\
                [cluster.sni]\nbootstrap = [\"orders.example.com\"]\n\
                broker = \"b$(nodeId)-orders.example.com\"\n";
    fs::write(&path, toml).unwrap();
    install(dir.path(), "server");
    let config = path.display().to_string();
    let output = weir(&["proxy", "check", "--config", &config]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    let names = "orders.example.com, brokers b$(nodeId)-orders.example.com, at 0.0.0.0:9192";
    for line in [
        format!("  server names    {names}"),
        "  PROXY headers   from 10.0.0.0/8, 10.1.2.3; other peers are rejected".to_owned(),
    ] {
        assert!(printed.lines().any(|found| found == line), "{printed}");
    }
    assert!(!printed.contains("one per broker"), "{printed}");
    let output = weir(&["proxy", "check", "--json", "--config", &config]).output();
    let json: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    assert_eq!(json["clusters"][0]["server_names"], names);
}

#[test]
fn certificates_are_reloaded_on_sighup() {
    let ports = weir_lab::ports::free_ports([127, 0, 0, 1].into(), 3).unwrap();
    let [listen, broker, admin] = ports[..] else {
        panic!("three ports");
    };
    let dir = with_certificate([listen, broker, admin]);
    let config = dir.path().join("proxy.toml").display().to_string();
    let mut proxy = RunningProxy::start(dir.path(), &["--config", &config]);
    let admin = format!("127.0.0.1:{admin}");
    // The proxy runs even without a reachable broker.
    await_that("the admin port", || {
        page(&admin, "/health/ready").is_some_and(|page| page.starts_with("HTTP/1.1 503"))
    });
    let mut open = connect(&format!("127.0.0.1:{listen}"));
    await_that("the connection", || {
        metric(&admin, "weir_proxy_connections 1")
    });
    assert!(metric(
        &admin,
        "weir_proxy_tls_certificate_expiry_timestamp_seconds 4733510400"
    ));
    // An invalid key is reported and not used, whether the signal or the file check comes first.
    fs::write(dir.path().join("key.pem"), "no key").unwrap();
    proxy.signal(Signal::HUP);
    await_that("the log", || {
        proxy
            .log()
            .contains("certificate reload failed, kept current certificate")
    });
    assert!(metric(&admin, "weir_proxy_tls_reloads_total 0"));
    install(dir.path(), "second");
    proxy.signal(Signal::HUP);
    await_that("the new certificate", || {
        proxy.log().contains("certificate files reloaded")
    });
    await_that("its count", || {
        !metric(&admin, "weir_proxy_tls_reloads_total 0")
    });
    assert!(
        metric(&admin, "weir_proxy_connections 1"),
        "open connections must survive the reload"
    );
    proxy.signal(Signal::INT);
    assert_eq!(proxy.ends(), 0);
    assert_eq!(open.read(&mut [0]).unwrap(), 0);
}

#[test]
fn open_connections_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let ports = weir_lab::ports::free_ports([127, 0, 0, 1].into(), 3).unwrap();
    let [listen, admin, silent] = [0, 1, 2].map(|index| format!("127.0.0.1:{}", ports[index]));
    let args = [
        "--upstream",
        &silent,
        "--listen",
        &listen,
        "--admin",
        &admin,
    ];
    let _proxy = RunningProxy::start(dir.path(), &args);
    let list = |args: &[&str]| {
        let mut command = weir(&["proxy", "connections", "--admin", &admin]);
        command.args(args).output().unwrap()
    };
    let mut open = Vec::new();
    await_that("two connections", || {
        open.extend(TcpStream::connect(&listen));
        open.truncate(2);
        open.len() == 2
            && page(&admin, "/connections")
                .is_some_and(|page| page.matches("\"state\":\"waiting\"").count() == 2)
    });
    // One of them has sent a part of a request.
    open[1].write_all(&[0, 0]).unwrap();
    await_that("its bytes", || {
        let output = list(&["--json", "--limit", "1"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (&found["total"], found["connections"][1].is_null()),
            (&2.into(), true)
        );
        let client = open[1].local_addr().unwrap().to_string();
        let first = &found["connections"][0];
        first["client"] == client && first["request_bytes"] == 2
    });
    let output = list(&[]);
    let table = text(&output.stdout);
    let client = open[0].local_addr().unwrap().to_string();
    assert!(
        table.contains(&client) && table.contains("2 of 2 connections"),
        "{table}"
    );
    let output = list(&["--virtual-cluster", "other"]);
    assert!(text(&output.stdout).contains("0 of 0 connections"));

    let reload = |args: &[&str]| {
        let mut command = weir(&["proxy", "reload", "--admin", &admin]);
        command.args(args).output().unwrap()
    };
    let checked = text(&reload(&["--check"]).stdout);
    assert_eq!(checked, "generation 1 stays in use\nnothing would change\n");
    let applied = text(&reload(&[]).stdout);
    assert_eq!(applied, "generation 2 in use, 0 connections end\n");
    let json: Value = serde_json::from_slice(&reload(&["--check", "--json"]).stdout).unwrap();
    assert_eq!(json["generation"], 2);

    let output = weir(&["proxy", "connections", "--admin", &silent])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("no response from http://127.0.0.1:"));
}
