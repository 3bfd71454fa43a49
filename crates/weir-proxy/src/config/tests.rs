use std::path::PathBuf;

use super::*;
use crate::error::ProxyError;

fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("proxy.toml");
    std::fs::write(&path, text).expect("writes");
    (dir, path)
}

/// Returns the table of server names.
fn sni(bootstrap: &str, broker: &str, more: &str) -> String {
    format!("[cluster.sni]\nbootstrap = [\"{bootstrap}\"]\nbroker = \"{broker}\"\n{more}")
}

/// Returns the keys of a cluster with TLS.
fn cluster_with_tls(name: &str, more: &str) -> String {
    let file = |name: &str| {
        let root = env!("CARGO_MANIFEST_DIR");
        format!("{root}/../weir-net/tests/tls/{name}")
    };
    let (certificate, key) = (file("server.pem"), file("server.key"));
    format!(
        "[[cluster]]\nname = \"{name}\"\nupstream = \"k:9092\"\n\
         tls = {{ certificate = \"{certificate}\", key = \"{key}\" }}\n{more}"
    )
}

#[test]
fn clusters_share_an_address_by_server_name() {
    let of = |name: &str, more: &str| {
        let broker = format!("b$(nodeId)-{name}.example.com");
        cluster_with_tls(name, &sni(&format!("{name}.example.com"), &broker, more))
    };
    let config = load(&format!(
        "{}{}",
        of("a", ""),
        of("b", "advertised_port = 443\n")
    ));
    let config = config.expect("valid");
    assert!(config.clusters.iter().all(|cluster| !cluster.has_ports()));
    let address = config.clusters[1]
        .names
        .as_ref()
        .expect("names")
        .address_of(3);
    assert_eq!(address.to_string(), "b3-b.example.com:443");
    // Ports and names next to each other.
    let second = load(&of("a", "listen = \"127.0.0.1:9443\"\n")).expect("valid");
    let [cluster] = &second.clusters[..] else {
        panic!("one cluster");
    };
    assert_eq!(cluster.listen.port(), 9443, "names only, at their address");
    let both = format!(
        "listen = \"127.0.0.1:9192\"\n{}",
        sni("a.b", "b$(nodeId).a.b", "listen = \"127.0.0.1:9443\"\n")
    );
    let both = load(&cluster_with_tls("a", &both)).expect("valid");
    assert!(both.clusters[0].has_ports());
}

#[test]
fn conflicting_server_names_are_rejected() {
    let of = |name: &str, bootstrap: &str, broker: &str, more: &str| {
        cluster_with_tls(name, &sni(bootstrap, broker, more))
    };
    let two = |second: String| {
        let first = of("a", "a.x.com", "b$(nodeId)-a.x.com", "default = true\n");
        format!("{first}{second}")
    };
    let cases = [
        (
            two(of("b", "A.x.com", "c$(nodeId).x.com", "")),
            "a.x.com: change sni",
        ),
        (
            two(of("b", "b7-a.x.com", "c$(nodeId).x.com", "")),
            "b7-a.x.com: change sni",
        ),
        (
            two(of("b", "b.x.com", "b1$(nodeId)-a.x.com", "")),
            "b$(nodeId)-a.x.com and b1$(nodeId)-a.x.com",
        ),
        (
            two(of("b", "b.x.com", "c$(nodeId).x.com", "default = true\n")),
            "have both sni.default",
        ),
        (
            two(cluster_with_tls(
                "b",
                &format!(
                    "proxy_protocol = \"trusted\"\ntrusted = [\"10.0.0.1\"]\n{}",
                    sni("b.x.com", "c$(nodeId).x.com", "")
                ),
            )),
            "set the same proxy_protocol",
        ),
        (
            of("a", "b1.x.com", "b$(nodeId).x.com", ""),
            "also the name of a broker",
        ),
        (
            of("a", "localhost", "b$(nodeId).x.com", ""),
            "at least one dot",
        ),
        (of("a", "a.x.com", "b.x.com", ""), "$(nodeId) exactly once"),
        (
            of("a", "a.x.com", "b$(nodeId).x.com", "advertised_port = 0\n"),
            "use 1 to 65535",
        ),
        (
            format!(
                "{}[[cluster]]\nname = \"b\"\nupstream = \"k:1\"\n",
                two(String::new())
            ),
            "share a port",
        ),
        (
            cluster_with_tls(
                "a",
                &format!(
                    "broker_ports = \"1-2\"\n{}",
                    sni("a.b", "b$(nodeId).a.b", "")
                ),
            ),
            "have no effect",
        ),
        (
            cluster_with_tls(
                "a",
                &format!(
                    "listen = \"127.0.0.1:9192\"\n{}",
                    sni("a.b", "b$(nodeId).a.b", "listen = \"0.0.0.0:9193\"\n")
                ),
            ),
            "sni.listen has a port",
        ),
    ];
    for (text, wanted) in cases {
        let error = load(&text).expect_err(wanted).to_string();
        assert!(error.contains(wanted), "{wanted} in {error}");
    }
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
            with("proxy_protocol = \"required\"\n"),
            "list the addresses of the load balancers",
        ),
        (
            with("trusted = [\"10.0.0.0/8\"]\n"),
            "but not proxy_protocol",
        ),
        (
            with("proxy_protocol = \"trusted\"\ntrusted = [\"lb\"]\n"),
            "\"lb\" is not an address",
        ),
        (with(&sni("a.b", "b$(nodeId).a.b", "")), "add [cluster.tls]"),
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
