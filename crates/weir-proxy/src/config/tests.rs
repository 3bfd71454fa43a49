use std::path::PathBuf;

use super::*;
use crate::error::ProxyError;

fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("proxy.toml");
    std::fs::write(&path, text).expect("writes");
    (dir, path)
}

fn load(text: &str) -> Result<ProxyConfig, ProxyError> {
    let (_dir, path) = written(text);
    ProxyConfig::load(Some(&path), &CliOverrides::default())
}

#[test]
fn upstream_option_needs_no_file() {
    let overrides = CliOverrides {
        upstream: Some("kafka:9092, [::1]:9093".into()),
        ..CliOverrides::default()
    };
    let config = ProxyConfig::load(None, &overrides).expect("enough");
    let [cluster] = &config.clusters[..] else {
        panic!("one cluster");
    };
    assert_eq!(
        cluster.upstream,
        [HostPort::new("kafka", 9092), HostPort::new("::1", 9093)]
    );
    assert_eq!(cluster.listen.to_string(), "127.0.0.1:9192");
    assert_eq!(cluster.advertised_host, "127.0.0.1");
    assert_eq!(cluster.broker_ports.to_string(), "9193-9292");
    assert_eq!(config.admin.listen.to_string(), "127.0.0.1:9190");
}

#[test]
fn file_sets_all_values() {
    let config = load(
        r#"
        event_loops = 3
        drain_timeout_ms = 1000
        [admin]
        listen = "0.0.0.0:9190"
        token = "secret"
        [limits]
        connections = 50
        [[cluster]]
        name = "a"
        upstream = ["k1:9092", "k2:9092"]
        listen = "0.0.0.0:9192"
        advertised_host = "proxy.example.com"
        broker_ports = "9200-9209"
        advertised_first_port = 30000
        brokers = { 1 = "k1:9092" }
        [[cluster]]
        name = "b"
        upstream = "k3:9092"
        listen = "0.0.0.0:9392"
        advertised_host = "proxy.example.com"
        upstream_tls = { insecure = true }
        "#,
    )
    .expect("valid");
    let [a, b] = &config.clusters[..] else {
        panic!("two clusters");
    };
    assert_eq!(a.brokers, [(1, HostPort::new("k1", 9092))]);
    assert_eq!(
        (a.broker_ports.of(13), a.broker_ports.of(1001)),
        (9203, 9201)
    );
    assert_eq!(a.broker_ports.advertised(9203), 30_003);
    assert!(b.upstream_tls.is_some() && a.upstream_tls.is_none());
    assert_eq!((config.event_loops, config.limits.connections), (3, 50));
}

#[test]
fn errors_name_key_value_and_remedy() {
    let cluster = "[[cluster]]\nupstream = \"k:9092\"\n";
    let with = |text: &str| format!("{cluster}{text}");
    let cases = [
        (
            String::new(),
            "no cluster: give --upstream HOST:PORT or a [[cluster]] table",
        ),
        ("[[cluster]]\n".into(), "upstream is missing"),
        (
            "[[cluster]]\nupstream = \"k\"\n".into(),
            "\"k\": write HOST:PORT",
        ),
        (with("listen = \"0.0.0.0:9192\"\n"), "set advertised_host"),
        (with("broker_ports = \"9100\"\n"), "write FIRST-LAST"),
        (
            with("broker_ports = \"9150-9200\"\n"),
            "contains the port of listen",
        ),
        (
            with("advertised_first_port = 65500\n"),
            "too high for 100 ports",
        ),
        (with("brokers = { x = \"k:1\" }\n"), "use node ids"),
        (with("upstream_tls = {}\n"), "set insecure = true"),
        (with("name = \"a b\"\n"), "letters, digits"),
        (format!("{cluster}{cluster}"), "share a port"),
        (
            format!("[admin]\nlisten = \"0.0.0.0:9190\"\n{cluster}"),
            "set admin.token",
        ),
        (
            format!("[limits]\nin_flight_requests = 0\n{cluster}"),
            "use 1 to 100000",
        ),
        (
            format!("event_loops = 0\n{cluster}"),
            "event_loops = 0: use 1 to 256",
        ),
        (format!("colour = 1\n{cluster}"), "unknown field `colour`"),
    ];
    for (text, wanted) in cases {
        let error = load(&text).expect_err(wanted);
        assert!(error.is_config_error());
        let error = error.to_string();
        assert!(error.contains(wanted), "{error}");
        assert!(error.contains("proxy.toml"), "{error}");
    }
}

#[test]
fn single_cluster_options_are_rejected_for_several() {
    let text = "[[cluster]]\nupstream = \"k:9092\"\n\
                [[cluster]]\nname = \"b\"\nupstream = \"l:9092\"\n\
                listen = \"127.0.0.1:9392\"\n";
    let (_dir, path) = written(text);
    ProxyConfig::load(Some(&path), &CliOverrides::default()).expect("two clusters");
    let listen = CliOverrides {
        listen: "127.0.0.1:1".parse().ok(),
        ..CliOverrides::default()
    };
    let error = ProxyConfig::load(Some(&path), &listen).expect_err("two clusters");
    assert!(
        error.to_string().contains("need exactly one cluster"),
        "{error}"
    );
    let upstream = CliOverrides {
        upstream: Some("k:1".into()),
        ..CliOverrides::default()
    };
    let error = ProxyConfig::load(Some(&path), &upstream).expect_err("both");
    assert!(
        error.to_string().contains("--upstream is for use without"),
        "{error}"
    );
}

#[test]
fn host_port_parses_and_prints_the_same() {
    for (text, host, port) in [
        ("h:1", "h", 1),
        ("[::1]:2", "::1", 2),
        ("10.0.0.1:3", "10.0.0.1", 3),
    ] {
        let read = HostPort::try_from(text.to_owned()).expect(text);
        assert_eq!((&*read.host, read.port), (host, port));
        assert_eq!(read.to_string(), text);
    }
    for text in [
        "", ":1", "h", "h:0", "h:x", "::1:5", "[x]:1", "a b:1", "h:70000",
    ] {
        HostPort::try_from(text.to_owned()).expect_err(text);
    }
}
