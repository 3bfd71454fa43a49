//! Export of metrics and traces to a collector of OpenTelemetry (feature `otlp`).

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use weir_lab::collector::Collector;
use weir_proxy::{CliOverrides, Proxy, ProxyConfig};

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Responds to each request of a connection with its correlation id and an error code of 0.
fn respond(mut stream: TcpStream) -> std::io::Result<()> {
    loop {
        let mut size = [0; 4];
        stream.read_exact(&mut size)?;
        let mut frame = vec![0; u32::from_be_bytes(size) as usize];
        stream.read_exact(&mut frame)?;
        let response = [&[0, 0, 0, 6], &frame[4..8], &[0, 0]].concat();
        stream.write_all(&response)?;
    }
}

fn start_broker() -> SocketAddr {
    let broker = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = broker.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in broker.incoming().flatten() {
            std::thread::spawn(move || respond(stream));
        }
    });
    address
}

/// Starts a proxy with a cluster `one`; returns its address.
fn start(collector: &Collector, broker: SocketAddr, more: &str) -> (Proxy, SocketAddr) {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("proxy.toml");
    let toml = format!(
        "event_loops = 1\n[otlp]\nendpoint = \"{}\"\n{more}\n\
         [[cluster]]\nname = \"one\"\nupstream = \"{broker}\"\nlisten = \"127.0.0.1:0\"\n",
        collector.endpoint()
    );
    std::fs::write(&file, toml).expect("a file");
    let overrides = CliOverrides {
        admin: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        ..CliOverrides::default()
    };
    let config = ProxyConfig::load(Some(&file), &overrides).expect("a valid configuration");
    let proxy = Proxy::start(config).expect("a proxy");
    let address = proxy.addresses().next().expect("a cluster").1;
    (proxy, address)
}

#[test]
fn one_request_in_n_is_traced() {
    let collector = Collector::start().expect("a collector");
    let address = start_broker();
    let more = "metrics_interval_ms = 0\ntrace_one_in = 5\ntraces_per_second = 1000";
    let (proxy, listen) = start(&collector, address, more);
    let mut client = TcpStream::connect(listen).expect("a connection");
    // Heartbeat 0, whose response the proxy does not decode: group, generation and member.
    let body = b"\0\x0c\0\0\0\0\0\x07\0\x01c\0\x01g\0\0\0\x01\0\x01m";
    let request = [&(body.len() as u32).to_be_bytes(), &body[..]].concat();
    for _ in 0..50 {
        client.write_all(&request).expect("the proxy reads");
        let mut response = [0; 10];
        client.read_exact(&mut response).expect("a response");
        assert_eq!(response, [0, 0, 0, 6, 0, 0, 0, 7, 0, 0]);
    }
    drop(client);
    assert_eq!(proxy.shut_down(), Vec::<String>::new());
    let received = collector.wait(TEST_TIMEOUT, |received| {
        received.spans_named("request").len() >= 10
    });
    let spans = received.spans_named("request");
    assert_eq!(spans.len(), 10, "one in five");
    for span in spans {
        assert_eq!((span.kind, &*span.parent), (2, ""));
        for (key, value) in [
            ("rpc.method", "Heartbeat"),
            ("weir.cluster", "one"),
            ("weir.api_version", "0"),
            ("weir.request_bytes", &*request.len().to_string()),
            ("weir.response_bytes", "10"),
        ] {
            assert_eq!(span.attributes[key], value, "{key}");
        }
        let upstream = received.spans_named("upstream").into_iter();
        let own = upstream.into_iter().find(|one| one.parent == span.id);
        assert_eq!(own.expect("a span below it").times, span.times);
    }
}

#[test]
fn metrics_are_exported() {
    let collector = Collector::start().expect("a collector");
    // Nothing has to respond as broker.
    let broker = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = broker.local_addr().expect("an address");
    let (proxy, _) = start(&collector, address, "metrics_interval_ms = 50");
    let received = collector.wait(TEST_TIMEOUT, |received| {
        received.metrics.contains_key("weir_proxy_connections")
            && received.sum("weir_proxy_otlp_exports") >= 1.0
    });
    assert_eq!(received.resource["service.name"], "weir-proxy");
    assert_eq!(received.metrics["weir_proxy_connections"].kind, "gauge");
    assert_eq!(received.metrics["weir_proxy_requests"].kind, "sum");
    assert_eq!(proxy.shut_down(), Vec::<String>::new());
}

#[test]
fn request_of_a_marked_record_is_traced() {
    let collector = Collector::start().expect("a collector");
    let more = "metrics_interval_ms = 0\ntrace_one_in = 0\ntraces_per_second = 1000";
    let (proxy, listen) = start(&collector, start_broker(), more);
    let mut client = TcpStream::connect(listen).expect("a connection");
    // Produce 3 of client "c" with acks=1. The proxy does not decode what follows.
    let head = b"\0\0\0\x03\0\0\0\x07\0\x01c\xff\xff\0\x01\0\0\x03\xe8";
    let trace = "0af7651916cd43dd8448eb211c80319c";
    for flags in ["00", "01", "00"] {
        let value = format!("00-{trace}-b7ad6b7169203331-{flags}");
        let header = [b"\x16traceparent\x6e", value.as_bytes()].concat();
        let body = [head, b"records".as_slice(), &header].concat();
        let request = [&(body.len() as u32).to_be_bytes(), &body[..]].concat();
        client.write_all(&request).expect("the proxy reads");
        let mut response = [0; 10];
        client.read_exact(&mut response).expect("a response");
    }
    drop(client);
    assert_eq!(proxy.shut_down(), Vec::<String>::new());
    let received = collector.wait(TEST_TIMEOUT, |received| {
        !received.spans_named("upstream").is_empty()
    });
    let spans = received.spans_named("request");
    assert_eq!(spans.len(), 1, "only the marked one");
    assert_eq!(spans[0].attributes["rpc.method"], "Produce");
    let link = (trace.to_owned(), "b7ad6b7169203331".to_owned());
    assert_eq!(spans[0].links, [link], "{:?}", spans[0]);
}
