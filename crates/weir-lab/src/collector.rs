//! A collector of OpenTelemetry for tests: receives OTLP over HTTP in its JSON encoding, accepts no
//! other field names than those of OTLP 1, and stores metrics and spans.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

/// A running collector. Its threads end with the process.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    shared: Arc<CollectorState>,
}

#[derive(Debug, Default)]
struct CollectorState {
    received: Mutex<Received>,
    arrived: Condvar,
    /// Status of the next responses; 0: as the request deserves.
    status: AtomicU16,
}

/// All that a collector has received.
#[derive(Debug, Clone, Default)]
pub struct Received {
    /// Latest data points of each metric.
    pub metrics: BTreeMap<String, Metric>,
    /// Spans in the order of their arrival.
    pub spans: Vec<Span>,
    /// Attributes of the last resource.
    pub resource: BTreeMap<String, String>,
    /// Heads of the last request for each path.
    pub heads: BTreeMap<String, String>,
    /// Number of requests, with those that were refused.
    pub requests: u64,
    /// First request that is not OTLP, and why.
    pub invalid: Option<String>,
}

impl Collector {
    /// Starts to listen on a free port of this machine.
    ///
    /// # Errors
    /// The operating system refuses a socket or a thread.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::<CollectorState>::default();
        let of_thread = Arc::clone(&shared);
        std::thread::Builder::new().spawn(move || {
            for stream in listener.incoming().flatten() {
                // A peer that breaks off sends again.
                let _ = serve(stream, &of_thread);
            }
        })?;
        Ok(Self { address, shared })
    }

    /// Returns the URL for `endpoint`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Refuses all requests with a status, or accepts them again with 0.
    pub fn refuse_with(&self, status: u16) {
        self.shared.status.store(status, Ordering::SeqCst);
    }

    /// Waits until `is_enough` of what has arrived. Panics after `timeout`, and if a request was
    /// not OTLP.
    pub fn wait(&self, timeout: Duration, is_enough: impl Fn(&Received) -> bool) -> Received {
        let deadline = Instant::now() + timeout;
        let mut received = self.lock();
        loop {
            assert_eq!(received.invalid, None, "a request is not OTLP");
            if is_enough(&received) {
                return received.clone();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "did not arrive; received: {received:#?}");
            let waited = self.shared.arrived.wait_timeout(received, left);
            received = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Received> {
        lock(&self.shared)
    }
}

fn lock(shared: &CollectorState) -> std::sync::MutexGuard<'_, Received> {
    shared
        .received
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// Answers one request.
fn serve(stream: TcpStream, shared: &CollectorState) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_it = name.eq_ignore_ascii_case("content-length");
        is_it.then(|| value.trim().parse::<usize>().ok()).flatten()
    });
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    let refused = shared.status.load(Ordering::SeqCst);
    let mut received = lock(shared);
    received.requests += 1;
    let status = match refused {
        0 => match received.store(&head, &body) {
            Ok(()) => 200,
            Err(error) => {
                let text = String::from_utf8_lossy(&body);
                received
                    .invalid
                    .get_or_insert_with(|| format!("{error}: {text}"));
                400
            }
        },
        status => status,
    };
    drop(received);
    shared.arrived.notify_all();
    let mut stream = reader.into_inner();
    write!(
        stream,
        "HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\
         Connection: close\r\n\r\n{{}}"
    )
}

impl Received {
    /// Returns the spans with a name.
    pub fn spans_named(&self, name: &str) -> Vec<&Span> {
        self.spans.iter().filter(|span| span.name == name).collect()
    }

    /// Returns the sum of a metric over its attributes; the number of values of a histogram.
    pub fn sum(&self, name: &str) -> f64 {
        let metric = self.metrics.get(name);
        metric.map_or(0.0, |metric| {
            metric.points.iter().map(|point| point.value).sum()
        })
    }

    fn store(&mut self, head: &str, body: &[u8]) -> Result<(), serde_json::Error> {
        let request = head.lines().next().unwrap_or_default().to_owned();
        let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
        let head = head.to_lowercase();
        if !request.starts_with("POST ") || !head.contains("content-type: application/json") {
            return Err(serde_json::Error::custom("neither POST nor JSON"));
        }
        self.heads.insert(path.clone(), head);
        match &*path {
            "/v1/metrics" => self.store_metrics(serde_json::from_slice(body)?),
            "/v1/traces" => self.store_traces(serde_json::from_slice(body)?),
            _ => Err(serde_json::Error::custom("no such path")),
        }
    }

    fn store_metrics(&mut self, request: MetricsRequest) -> Checked<()> {
        for resource in request.resource_metrics {
            self.resource = plain(resource.resource.attributes)?;
            let metrics = resource
                .scope_metrics
                .into_iter()
                .flat_map(|scope| scope.metrics);
            for raw in metrics {
                let name = raw.name.clone();
                self.metrics.insert(name, Metric::of(raw)?);
            }
        }
        Ok(())
    }

    fn store_traces(&mut self, request: TracesRequest) -> Checked<()> {
        for resource in request.resource_spans {
            self.resource = plain(resource.resource.attributes)?;
            let spans = resource
                .scope_spans
                .into_iter()
                .flat_map(|scope| scope.spans);
            for span in spans {
                self.spans.push(Span::of(span)?);
            }
        }
        Ok(())
    }
}

type Checked<T> = Result<T, serde_json::Error>;

fn ensure(is_valid: bool, what: impl std::fmt::Display) -> Checked<()> {
    match is_valid {
        true => Ok(()),
        false => Err(serde_json::Error::custom(what)),
    }
}

/// A metric as received.
#[derive(Debug, Clone)]
pub struct Metric {
    /// Unit, or an empty text.
    pub unit: String,
    /// Kind: `gauge`, `sum` or `histogram`.
    pub kind: &'static str,
    /// Values.
    pub points: Vec<Point>,
}

/// Value of a metric.
#[derive(Debug, Clone)]
pub struct Point {
    /// Attributes.
    pub attributes: BTreeMap<String, String>,
    /// Value; of a histogram the number of values.
    pub value: f64,
    /// Buckets of a histogram.
    pub buckets: Vec<u64>,
}

impl Metric {
    fn of(raw: RawMetric) -> Checked<Self> {
        let name = raw.name;
        let (kind, points): (_, Checked<Vec<Point>>) = match (raw.gauge, raw.sum, raw.histogram) {
            (Some(gauge), None, None) => {
                let points = gauge.data_points.into_iter().map(Point::of_number);
                ("gauge", points.collect())
            }
            (None, Some(sum), None) => {
                ensure(
                    sum.is_monotonic && sum.aggregation_temporality == CUMULATIVE,
                    name,
                )?;
                let points = sum.data_points.into_iter().map(Point::of_number);
                ("sum", points.collect())
            }
            (None, None, Some(histogram)) => {
                ensure(histogram.aggregation_temporality == CUMULATIVE, name)?;
                let points = histogram.data_points.into_iter().map(Point::of_histogram);
                ("histogram", points.collect())
            }
            _ => return Err(serde_json::Error::custom("no kind of metric, or several")),
        };
        Ok(Self {
            unit: raw.unit,
            kind,
            points: points?,
        })
    }
}

const CUMULATIVE: u8 = 2;

impl Point {
    fn of_number(point: NumberPoint) -> Checked<Self> {
        let value = match (point.as_double, point.as_int) {
            (Some(value), None) => value,
            (None, Some(value)) => value.0 as f64,
            _ => return Err(serde_json::Error::custom("no value, or two")),
        };
        Ok(Self {
            attributes: plain(point.attributes)?,
            value,
            buckets: Vec::new(),
        })
    }

    fn of_histogram(point: HistogramPoint) -> Checked<Self> {
        let buckets: Vec<u64> = point.bucket_counts.iter().map(|one| one.0 as u64).collect();
        let bounds = &point.explicit_bounds;
        ensure(buckets.len() == bounds.len() + 1, "buckets and bounds")?;
        ensure(
            buckets.iter().sum::<u64>() == point.count.0 as u64,
            "sum of buckets",
        )?;
        ensure(bounds.is_sorted() && point.sum >= 0.0, "bounds or sum")?;
        Ok(Self {
            attributes: plain(point.attributes)?,
            value: point.count.0 as f64,
            buckets,
        })
    }
}

/// A span as received.
#[derive(Debug, Clone)]
pub struct Span {
    /// Trace, in hexadecimal.
    pub trace: String,
    /// Id, in hexadecimal.
    pub id: String,
    /// Id of the span above it, or an empty text.
    pub parent: String,
    /// Name.
    pub name: String,
    /// Number of the kind.
    pub kind: u8,
    /// Beginning and end in nanoseconds since 1970.
    pub times: [u64; 2],
    /// Attributes as texts.
    pub attributes: BTreeMap<String, String>,
    /// Traces and spans of the links.
    pub links: Vec<(String, String)>,
}

impl Span {
    fn of(raw: RawSpan) -> Checked<Self> {
        ensure(
            is_id(&raw.trace_id, 32) && is_id(&raw.span_id, 16),
            "id of a span",
        )?;
        let parent = raw.parent_span_id;
        ensure(
            parent.is_empty() || is_id(&parent, 16),
            "id of the span above",
        )?;
        let times = [
            raw.start_time_unix_nano.0 as u64,
            raw.end_time_unix_nano.0 as u64,
        ];
        ensure(times[0] <= times[1], "a span ends before its start")?;
        for link in &raw.links {
            let has_ids = is_id(&link.trace_id, 32) && is_id(&link.span_id, 16);
            ensure(has_ids && link.flags <= 1, "link")?;
        }
        let links = raw.links.into_iter();
        Ok(Self {
            trace: raw.trace_id,
            id: raw.span_id,
            parent,
            name: raw.name,
            kind: raw.kind,
            times,
            attributes: plain(raw.attributes)?,
            links: links.map(|link| (link.trace_id, link.span_id)).collect(),
        })
    }
}

/// Returns `true` if an id has so many hexadecimal digits.
fn is_id(id: &str, digits: usize) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    id.len() == digits && id.bytes().all(is_digit)
}

fn plain(attributes: Vec<Attribute>) -> Checked<BTreeMap<String, String>> {
    let plain = |one: Attribute| {
        let value = match (one.value.string_value, one.value.int_value) {
            (Some(text), None) => text,
            (None, Some(number)) => number.0.to_string(),
            _ => {
                return Err(serde_json::Error::custom(
                    "attribute without a value, or with two",
                ));
            }
        };
        Ok((one.key, value))
    };
    attributes.into_iter().map(plain).collect()
}

/// A 64-bit integer, which JSON has as text.
#[derive(Debug, Clone, Copy)]
struct Integer(i64);

impl<'de> Deserialize<'de> for Integer {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let text = String::deserialize(source)?;
        text.parse().map(Self).map_err(D::Error::custom)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct MetricsRequest {
    resource_metrics: Vec<ResourceMetrics>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ResourceMetrics {
    resource: Resource,
    scope_metrics: Vec<ScopeMetrics>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resource {
    attributes: Vec<Attribute>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScopeMetrics {
    #[serde(rename = "scope")]
    _scope: Scope,
    metrics: Vec<RawMetric>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scope {
    #[serde(rename = "name")]
    _name: String,
    #[serde(rename = "version")]
    _version: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Attribute {
    key: String,
    value: AttributeValue,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct AttributeValue {
    string_value: Option<String>,
    int_value: Option<Integer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMetric {
    name: String,
    #[serde(rename = "description")]
    _description: String,
    #[serde(default)]
    unit: String,
    gauge: Option<Gauge>,
    sum: Option<Sum>,
    histogram: Option<Histogram>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Gauge {
    data_points: Vec<NumberPoint>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Sum {
    data_points: Vec<NumberPoint>,
    aggregation_temporality: u8,
    is_monotonic: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Histogram {
    data_points: Vec<HistogramPoint>,
    aggregation_temporality: u8,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct NumberPoint {
    attributes: Vec<Attribute>,
    #[serde(rename = "startTimeUnixNano")]
    _start: Integer,
    #[serde(rename = "timeUnixNano")]
    _time: Integer,
    as_int: Option<Integer>,
    as_double: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct HistogramPoint {
    attributes: Vec<Attribute>,
    #[serde(rename = "startTimeUnixNano")]
    _start: Integer,
    #[serde(rename = "timeUnixNano")]
    _time: Integer,
    count: Integer,
    sum: f64,
    bucket_counts: Vec<Integer>,
    explicit_bounds: Vec<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct TracesRequest {
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ResourceSpans {
    resource: Resource,
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScopeSpans {
    #[serde(rename = "scope")]
    _scope: Scope,
    spans: Vec<RawSpan>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawSpan {
    trace_id: String,
    span_id: String,
    #[serde(default)]
    parent_span_id: String,
    name: String,
    kind: u8,
    start_time_unix_nano: Integer,
    end_time_unix_nano: Integer,
    attributes: Vec<Attribute>,
    #[serde(default)]
    links: Vec<RawLink>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawLink {
    trace_id: String,
    span_id: String,
    flags: u32,
}
