//! Export of metrics and traces to a collector of OpenTelemetry (feature `otlp`).

mod support;

use std::collections::BTreeSet;
use std::time::Instant;

use support::{Client, TEST_TIMEOUT, TestEnv, metric, wait_metric};
use weir_lab::collector::{Collector, Received};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn toml(collector: &Collector, more: &str) -> String {
    let endpoint = collector.endpoint();
    format!(
        "[otlp]\nendpoint = \"{endpoint}\"\nheaders = {{ x-tenant = \"a\" }}\n\
         resource = {{ \"deployment.environment\" = \"test\" }}\n{more}"
    )
}

/// Returns the trace of the record at an offset, once its first span has arrived.
fn trace_of(received: &Received, offset: u64) -> Option<String> {
    let records = received.spans_named("record");
    let is_it = |attributes: &std::collections::BTreeMap<String, String>| {
        attributes["messaging.kafka.offset"] == offset.to_string()
    };
    let found = records.into_iter().find(|span| is_it(&span.attributes));
    found.map(|span| span.trace.clone())
}

#[test]
fn exported_metrics_match_metrics_page() {
    let (env, collector) = (TestEnv::new(), Collector::start().expect("a collector"));
    let more = "metrics_interval_ms = 50\ntraces_per_second = 0\n";
    let gateway = env.ready(env.config_with(&toml(&collector, more), |xml| xml));
    let mut client = Client::create(&gateway);
    client.subscribe(1, "ltest-[key=Apple]", "key value");
    env.produce("Apple", "one");
    assert_eq!(client.line(), "U,1,1,Apple|one");
    let received = collector.wait(TEST_TIMEOUT, |received| {
        received.sum("weir_gateway_updates_sent") == 1.0
            && received.sum("weir_gateway_delivery_latency_seconds") == 1.0
    });
    let records = &received.metrics["weir_gateway_kafka_records"];
    assert_eq!((records.kind, records.points[0].value), ("sum", 1.0));
    assert_eq!(records.points[0].attributes["connection"], "QuickStart");
    let sessions = &received.metrics["weir_gateway_sessions"];
    assert_eq!((sessions.kind, sessions.points[0].value), ("gauge", 1.0));
    let latency = &received.metrics["weir_gateway_delivery_latency_seconds"];
    assert_eq!((latency.kind, &*latency.unit), ("histogram", "s"));
    assert_eq!(latency.points[0].buckets.iter().sum::<u64>(), 1);
    let page = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let (_, page) = support::http(gateway.admin_address(), page);
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let on_page: BTreeSet<&str> = types.filter_map(|text| text.split(' ').next()).collect();
    let exported: BTreeSet<&str> = received.metrics.keys().map(String::as_str).collect();
    assert_eq!(exported, on_page);
    for (key, value) in [
        ("service.name", "weir-gateway"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("deployment.environment", "test"),
    ] {
        assert_eq!(received.resource[key], value);
    }
    assert!(received.heads["/v1/metrics"].contains("x-tenant: a\r\n"));
    assert!(received.spans.is_empty());
    gateway.shut_down();
}

#[test]
fn sampled_record_has_spans_from_read_to_delivery() {
    let (env, collector) = (TestEnv::new(), Collector::start().expect("a collector"));
    let more = "metrics_interval_ms = 0\ntrace_one_in = 1\n";
    let gateway = env.ready(env.config_with(&toml(&collector, more), |xml| xml));
    let mut clients: Vec<_> = (0..4).map(|_| Client::create(&gateway)).collect();
    for client in &mut clients {
        client.subscribe(1, "ltest-[key=Apple]", "key value");
    }
    env.produce("Banana", "unrouted");
    env.produce("Apple", "one");
    for client in &mut clients {
        assert_eq!(client.line(), "U,1,1,Apple|one");
    }
    let received = collector.wait(TEST_TIMEOUT, |received| trace_of(received, 1).is_some());
    assert_eq!(trace_of(&received, 0), None, "no one has subscribed to it");
    let trace = trace_of(&received, 1).expect("a trace");
    let spans: Vec<_> = received
        .spans
        .iter()
        .filter(|span| span.trace == trace)
        .collect();
    let root = spans
        .iter()
        .find(|span| span.name == "record")
        .expect("the first span");
    assert_eq!((root.kind, &*root.parent), (5, ""));
    assert_eq!(root.attributes["messaging.destination.name"], env.topic);
    assert_eq!(root.attributes["messaging.destination.partition.id"], "0");
    assert_eq!(root.attributes["weir.connection"], "QuickStart");
    assert!(root.links.is_empty());
    assert_eq!(
        root.times[0], 1_700_000_000_000_000_000,
        "time of the record"
    );
    let named = |name: &str| {
        spans
            .iter()
            .filter(|span| span.name == name)
            .collect::<Vec<_>>()
    };
    let mut end = root.times[0];
    for (name, count) in [
        ("read", 1),
        ("map", 1),
        ("queue", 2),
        ("fan out", 2),
        ("first delivery", 2),
        ("last delivery", 2),
    ] {
        let spans = named(name);
        assert_eq!(spans.len(), count, "{name}: one for each event loop");
        for span in &spans {
            assert_eq!(span.parent, root.id);
            assert!(span.times[0] >= root.times[0] && span.times[1] <= root.times[1]);
            end = end.max(span.times[1]);
        }
    }
    assert_eq!(root.times[1], end, "it ends with the last delivery");
    let deliveries = named("fan out").into_iter();
    let deliveries = deliveries.map(|span| span.attributes["weir.deliveries"].parse::<u32>());
    assert_eq!(deliveries.map(Result::unwrap).sum::<u32>(), 4);
    for delivery in named("last delivery") {
        let shard = &delivery.attributes["weir.shard"];
        let same = named("first delivery").into_iter();
        let first = same
            .into_iter()
            .find(|span| span.attributes["weir.shard"] == *shard);
        assert!(first.expect("a first delivery").times[1] <= delivery.times[1]);
    }
    gateway.shut_down();
}

#[test]
fn marked_records_are_traced_and_linked() {
    let (env, collector) = (TestEnv::new(), Collector::start().expect("a collector"));
    let more = "metrics_interval_ms = 0\ntrace_one_in = 0\n";
    let gateway = env.ready(env.config_with(&toml(&collector, more), |xml| xml));
    let mut client = Client::create(&gateway);
    client.subscribe(1, "ltest-[key=Apple]", "value");
    let unsampled = PARENT.replace("-01", "-00");
    for (value, header) in [("one", &*unsampled), ("two", "none"), ("three", PARENT)] {
        env.produce_with_header("Apple", value, ("traceparent", header.as_bytes()));
        assert_eq!(client.line(), format!("U,1,1,{value}"));
    }
    // What is left is sent at the end.
    gateway.shut_down();
    let received = collector.wait(TEST_TIMEOUT, |received| !received.spans.is_empty());
    let records = received.spans_named("record");
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!(records[0].attributes["messaging.kafka.offset"], "2");
    let link = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    assert_eq!(records[0].links, [(link.0.to_owned(), link.1.to_owned())]);
    assert_ne!(records[0].trace, link.0, "a trace of its own");
}

#[test]
fn refusing_collector_costs_spans_only() {
    let (env, collector) = (TestEnv::new(), Collector::start().expect("a collector"));
    collector.refuse_with(400);
    let more = "metrics_interval_ms = 50\ntrace_one_in = 1\ntraces_per_second = 100000\n";
    let gateway = env.ready(env.config_with(&toml(&collector, more), |xml| xml));
    let mut client = Client::create(&gateway);
    client.subscribe(1, "ltest-[key=Apple]", "value");
    for number in 0..2_000 {
        env.send("Apple", &number.to_string());
    }
    env.flush();
    for number in 0..2_000 {
        assert_eq!(client.line(), format!("U,1,1,{number}"));
    }
    wait_metric(&gateway, "weir_gateway_otlp_spans_dropped_total", |count| {
        count > 0
    });
    assert_eq!(metric(&gateway, "weir_gateway_otlp_spans_total"), 0);
    assert!(metric(&gateway, "weir_gateway_otlp_exports_total") > 0);
    collector.refuse_with(0);
    // What was dropped is lost; what follows arrives.
    wait_metric(&gateway, "weir_gateway_otlp_spans_total", |count| {
        env.produce("Apple", "more");
        count > 0
    });
    collector.wait(TEST_TIMEOUT, |received| {
        !received.spans_named("record").is_empty()
    });
    gateway.shut_down();
}

#[test]
fn silent_collector_does_not_delay_the_end() {
    let env = TestEnv::new();
    // It accepts connections, but answers nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = silent.local_addr().expect("an address");
    let toml = format!(
        "[otlp]\nendpoint = \"http://{address}\"\nmetrics_interval_ms = 20\ntrace_one_in = 1\n"
    );
    let gateway = env.ready(env.config_with(&toml, |xml| xml));
    let mut client = Client::create(&gateway);
    client.subscribe(1, "ltest-[key=Apple]", "value");
    env.produce("Apple", "one");
    assert_eq!(client.line(), "U,1,1,one");
    silent.accept().expect("a request of the exporter");
    let begin = Instant::now();
    assert_eq!(
        gateway.shut_down(),
        Vec::<String>::new(),
        "no thread is stuck"
    );
    assert!(begin.elapsed().as_secs() < 5, "{:?}", begin.elapsed());
}
