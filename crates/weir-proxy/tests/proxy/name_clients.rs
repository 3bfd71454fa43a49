//! Unmodified clients that select three brokers by server name on one port, also through HAProxy.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use weir_lab::{Lab, host_tools};

use super::foreign::{aiokafka_driver, go_driver, run_driver_at, skipped};
use super::server_names::{TestAuthority, sni};
use super::support::*;
use super::tools::tool_with;

/// Three brokers that these tests share. They end with this process.
fn brokers() -> String {
    static BROKERS: OnceLock<Lab> = OnceLock::new();
    BROKERS.get_or_init(|| lab(3)).bootstrap()
}

/// A proxy in front of three brokers, with the files that its clients trust.
struct NamedBrokers {
    proxy: TestProxy,
    authority: TestAuthority,
}

impl NamedBrokers {
    fn new(keys: &str, names: &str) -> Self {
        let authority = TestAuthority::new();
        let tls = authority.issue("all", &["*.example.com"]);
        let names = sni("orders", names);
        let proxy = proxy_to(&brokers(), &format!("{keys}[cluster.tls]\n{tls}{names}"));
        await_that("three brokers", || {
            proxy.get().brokers("default").len() == 3
        });
        Self { proxy, authority }
    }

    fn settings(&self) -> serde_json::Value {
        let authority = self.authority.path("ca.pem");
        serde_json::json!({ "cafile": authority, "resolve": "127.0.0.1" })
    }

    /// Checks that each broker was used by its name, and that nothing was rejected.
    fn check(&self) {
        let known = self.proxy.get().brokers("default");
        let is_named =
            |id: i32, address: &str| address.starts_with(&format!("b{id}-orders.example.com:"));
        assert!(known.iter().all(|one| is_named(one.id, &one.advertised)));
        for name in [
            "weir_proxy_client_errors_total",
            "weir_proxy_broker_errors_total",
            "weir_proxy_tls_failures_total",
            "weir_proxy_server_names_rejected_total",
            "weir_proxy_connect_failures_total",
        ] {
            assert_eq!(self.proxy.metric(name), 0, "{name}");
        }
    }
}

fn spread_topic() -> String {
    topic(&brokers(), "named", 6, 3)
}

#[test]
fn aiokafka_uses_names() {
    let named = NamedBrokers::new("", "");
    let settings = named.settings();
    let mut settings = settings.clone();
    settings["security_protocol"] = "SSL".into();
    let bootstrap = format!("orders.example.com:{}", named.proxy.address.port());
    let (driver, topic) = (aiokafka_driver(), spread_topic());
    let settings = settings.to_string();
    run_driver_at(&bootstrap, driver, &named.proxy, &topic, &[&settings]);
    named.check();
}

fn go_client_uses_names(name: &str) {
    let Some((driver, _target)) = go_driver(name) else {
        return;
    };
    let named = NamedBrokers::new("", "");
    let bootstrap = format!("orders.example.com:{}", named.proxy.address.port());
    let (settings, topic) = (named.settings().to_string(), spread_topic());
    run_driver_at(&bootstrap, driver, &named.proxy, &topic, &[&settings]);
    named.check();
}

#[test]
fn franz_go_uses_names() {
    go_client_uses_names("kafka-go");
}

#[test]
fn segmentio_kafka_go_uses_names() {
    go_client_uses_names("segmentio-kafka-go");
}

#[test]
fn java_client_uses_names() {
    let named = NamedBrokers::new("", "");
    let path = |name: &str| named.authority.path(name).display().to_string();
    let hosts = (1..=3).map(|id| format!("127.0.0.1 b{id}-orders.example.com\n"));
    let hosts: String = hosts
        .chain(["127.0.0.1 orders.example.com\n".to_owned()])
        .collect();
    std::fs::write(path("hosts"), hosts).expect("writes");
    let properties = format!(
        "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={}\n",
        path("ca.pem")
    );
    std::fs::write(path("client.properties"), properties).expect("writes");
    let jvm_options = format!("-Djdk.net.hosts.file={}", path("hosts"));
    let bootstrap = format!("orders.example.com:{}", named.proxy.address.port());
    let (config, name) = (path("client.properties"), unique("java"));
    let run = |class: &str, args: &[&str]| {
        let at = [
            "--bootstrap-server",
            &bootstrap,
            "--command-config",
            &config,
        ];
        tool_with(&jvm_options, class, &[&at[..], args].concat())
    };
    let create = ["--create", "--partitions", "6", "--replication-factor", "3"];
    run("TopicCommand", &[&create[..], &["--topic", &name]].concat());
    let made = ["--topic", &name, "--max-messages", "1000"];
    let output_text = run("VerifiableProducer", &made);
    assert!(output_text.contains("\"acked\":1000"), "{output_text}");
    let read = [
        "--from-beginning",
        "--max-messages",
        "1000",
        "--timeout-ms",
        "60000",
    ];
    let read = [&read[..], &["--topic", &name]].concat();
    let output_text = run("consumer.ConsoleConsumer", &read);
    let mut values: Vec<i32> = output_text
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect();
    values.sort_unstable();
    assert_eq!(values, (0..1000).collect::<Vec<_>>());
    named.check();
}

/// librdkafka sends a server name for everything that has other characters than an IPv4 address.
/// `127.2.0x1` has, and is an address for the C library: broker 2 is at 127.2.0.1, without DNS.
#[test]
fn librdkafka_uses_names_next_to_ports() {
    let authority = TestAuthority::new();
    let hosts = ["127.0x1", "127.1.0x1", "127.2.0x1", "127.3.0x1"];
    let tls = authority.issue("all", &[&hosts[..], &["127.0.0.1"]].concat());
    let names = "[cluster.sni]\nlisten = \"0.0.0.0:0\"\nbootstrap = [\"127.0x1\"]\n\
                 broker = \"127.$(nodeId).0x1\"\n";
    let proxy = proxy_to(&brokers(), &format!("[cluster.tls]\n{tls}{names}"));
    await_that("three brokers", || {
        proxy.get().brokers("default").len() == 3
    });
    let known = proxy.get().brokers("default");
    let named = known[0].advertised_name.as_ref().expect("a name");
    let (_, port) = named.rsplit_once(':').expect("a port");
    let ca = authority.path("ca.pem");
    let topic = spread_topic();
    let (mut sent, mut count) = (Vec::new(), 0);
    for bootstrap in [format!("127.0x1:{port}"), proxy.bootstrap()] {
        let mut config = client_config(&bootstrap);
        config
            .set("security.protocol", "ssl")
            .set("ssl.ca.location", ca.display().to_string());
        let values = numbered(&format!("value-{count}"), 300);
        produce(&config, &topic, &values);
        sent.extend(values);
        count += 300;
        assert_eq!(consume_with(config, &topic, count), sent);
    }
    for name in [
        "weir_proxy_tls_failures_total",
        "weir_proxy_server_names_rejected_total",
    ] {
        assert_eq!(proxy.metric(name), 0, "{name}");
    }
}

/// A load balancer that ends with its test.
struct HaProxy {
    process: Child,
    _dir: tempfile::TempDir,
}

impl HaProxy {
    /// Starts HAProxy at `port` in front of `server`.
    fn start(program: &std::path::Path, port: u16, server: SocketAddr, options: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let config = dir.path().join("haproxy.cfg");
        let text = format!(
            "defaults\n    mode tcp\n    timeout connect 5s\n    timeout client 60s\n    \
             timeout server 60s\n\
             frontend kafka\n    bind 127.0.0.1:{port}\n    default_backend weir\n\
             backend weir\n    server weir {server} {options}\n"
        );
        std::fs::write(&config, text).expect("writes");
        let mut command = Command::new(program);
        command.arg("-db").arg("-f").arg(&config);
        let process = command.stderr(Stdio::null()).spawn().expect("runs");
        Self { process, _dir: dir }
    }
}

impl Drop for HaProxy {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn haproxy_forwards_client_addresses() {
    let Some(program) = host_tools::find("haproxy") else {
        return skipped("HAProxy: no haproxy in PATH");
    };
    for options in [
        "send-proxy",
        "send-proxy-v2",
        "send-proxy-v2 proxy-v2-options crc32c,authority check check-send-proxy",
    ] {
        let port = weir_lab::ports::free_port().expect("a port");
        let keys = "proxy_protocol = \"required\"\ntrusted = [\"127.0.0.1\"]\n";
        let named = NamedBrokers::new(keys, &format!("advertised_port = {port}\n"));
        let _haproxy = HaProxy::start(&program, port, named.proxy.address, options);
        await_that("HAProxy", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        let to = SocketAddr::from(([127, 0, 0, 1], port));
        let mut client = named.authority.connect(to, "orders.example.com");
        assert_eq!(client.brokers().expect("a response").len(), 3);
        let (page, local) = (named.proxy.page("/connections"), client.local_address());
        assert!(page.contains(&format!("\"client\":\"{local}\"")), "{page}");
        let mut settings = named.settings();
        settings["security_protocol"] = "SSL".into();
        let bootstrap = format!("orders.example.com:{port}");
        let (driver, topic) = (aiokafka_driver(), spread_topic());
        let settings = settings.to_string();
        run_driver_at(&bootstrap, driver, &named.proxy, &topic, &[&settings]);
        assert_eq!(
            named
                .proxy
                .metric("weir_proxy_proxy_headers_rejected_total"),
            0
        );
        named.check();
    }
}
