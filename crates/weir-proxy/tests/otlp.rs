//! Export of metrics to a collector of OpenTelemetry (feature `otlp`).

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use weir_lab::collector::Collector;
use weir_proxy::{CliOverrides, Proxy, ProxyConfig};

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn metrics_are_exported() {
    let collector = Collector::start().expect("a collector");
    // Nothing has to respond as broker.
    let broker = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let (broker, endpoint) = (
        broker.local_addr().expect("an address"),
        collector.endpoint(),
    );
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("proxy.toml");
    let toml = format!(
        "[otlp]\nendpoint = \"{endpoint}\"\nmetrics_interval_ms = 50\n\
         [[cluster]]\nname = \"one\"\nupstream = \"{broker}\"\nlisten = \"127.0.0.1:0\"\n"
    );
    std::fs::write(&file, toml).expect("a file");
    let overrides = CliOverrides {
        admin: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        ..CliOverrides::default()
    };
    let config = ProxyConfig::load(Some(&file), &overrides).expect("a valid configuration");
    let proxy = Proxy::start(config).expect("a proxy");
    let received = collector.wait(TEST_TIMEOUT, |received| {
        received.metrics.contains_key("weir_proxy_connections")
            && received.sum("weir_proxy_otlp_exports") >= 1.0
    });
    assert_eq!(received.resource["service.name"], "weir-proxy");
    assert_eq!(received.metrics["weir_proxy_connections"].kind, "gauge");
    assert_eq!(received.metrics["weir_proxy_requests"].kind, "sum");
    assert!(received.spans.is_empty());
    assert_eq!(proxy.shut_down(), Vec::<String>::new());
}
