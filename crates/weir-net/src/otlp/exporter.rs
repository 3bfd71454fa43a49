//! The thread that sends metrics and spans to the collector.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded, select};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use weir_security::post_json;

use super::config::OtlpConfig;
use super::counters::{METRICS, OtlpCounters, TRACES, add};
use super::span::{Span, random, unix_ns};
use super::{json as encoding, openmetrics};

/// Spans of one request.
const BATCH_SPANS: usize = 512;
/// Maximum wait of a span for others.
const BATCH_WAIT: Duration = Duration::from_secs(2);
/// Attempts for one batch of spans, and the wait after the first one, which doubles.
const ATTEMPTS: u32 = 5;
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// Time for each of the last two requests, at shutdown.
const LAST_TIMEOUT: Duration = Duration::from_millis(500);

/// The running exporter.
#[derive(Debug)]
pub struct Exporter {
    /// Dropped to stop the thread.
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Exporter {
    /// Starts to export the metrics of `registry`, and the spans of `queue`.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub fn start(
        config: OtlpConfig,
        registry: Registry,
        counters: Arc<OtlpCounters>,
        queue: Receiver<Span>,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = bounded(0);
        let resource = resource(&config);
        let worker = Worker {
            resource,
            registry,
            counters,
            queue,
            stopped,
            batch: Vec::new(),
            started_ns: unix_ns(),
            is_failing: false,
            config,
        };
        let thread = std::thread::Builder::new().name("otlp".to_owned());
        let thread = thread.spawn(move || worker.run())?;
        Ok(Self { stop, thread })
    }

    /// Exports the rest, and waits for it for at most about a second. A collector that does not
    /// respond does not delay the end of the process further.
    pub fn stop(self) {
        drop(self.stop);
        let deadline = Instant::now() + 2 * LAST_TIMEOUT + LAST_TIMEOUT / 2;
        crate::watchdog::join_until(vec![self.thread], deadline);
    }
}

/// Returns the attributes of this process.
fn resource(config: &OtlpConfig) -> Value {
    let mut attributes = config.resource.clone();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    for (key, value) in [
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("service.instance.id", format!("{:016x}", random())),
        ("host.name", host.trim().to_owned()),
        ("process.pid", std::process::id().to_string()),
    ] {
        attributes.entry(key.to_owned()).or_insert(value);
    }
    encoding::resource(&attributes)
}

/// Reason why the collector has not accepted a request.
struct ExportRefusal {
    reason: String,
    /// `true` if a later attempt may succeed.
    may_retry: bool,
}

struct Worker {
    config: OtlpConfig,
    resource: Value,
    registry: Registry,
    counters: Arc<OtlpCounters>,
    queue: Receiver<Span>,
    stopped: Receiver<()>,
    /// Spans of the next request.
    batch: Vec<Span>,
    started_ns: u64,
    /// `true` after a failed export, until the next one that succeeds.
    is_failing: bool,
}

impl Worker {
    fn run(mut self) {
        let interval = self.config.metrics_interval;
        let mut metrics_due = interval.map(|interval| Instant::now() + interval);
        loop {
            let batch_due = Instant::now() + BATCH_WAIT;
            let until = metrics_due.map_or(batch_due, |due| due.min(batch_due));
            if !self.collect(until) {
                break;
            }
            if !self.export_spans() {
                break;
            }
            if metrics_due.is_some_and(|due| Instant::now() >= due) {
                self.export_metrics();
                metrics_due = interval.map(|interval| Instant::now() + interval);
            }
        }
        self.finish();
    }

    /// Takes spans until the batch is full, or until `deadline`. Returns `false` after the stop.
    fn collect(&mut self, deadline: Instant) -> bool {
        // Without traces nothing is left that could send spans.
        let mut queue = Some(&self.queue);
        while self.batch.len() < BATCH_SPANS {
            let wait = deadline.saturating_duration_since(Instant::now());
            let Some(spans) = queue else {
                return self.stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout);
            };
            select! {
                recv(spans) -> span => match span {
                    Ok(span) => self.batch.push(span),
                    Err(_) => queue = None,
                },
                recv(self.stopped) -> _ => return false,
                default(wait) => return true,
            }
        }
        self.stopped.try_recv() == Err(TryRecvError::Empty)
    }

    /// Sends the batch, several times if the collector does not accept it. Returns `false` after
    /// the stop.
    fn export_spans(&mut self) -> bool {
        let mut pause = FIRST_RETRY;
        for attempt in 1..=ATTEMPTS {
            let Some(refusal) = self.send_batch(self.config.timeout) else {
                return true;
            };
            if !refusal.may_retry || attempt == ATTEMPTS {
                break;
            }
            if self.stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                return false;
            }
            pause *= 2;
        }
        add(&self.counters.dropped, self.batch.len() as u64);
        self.batch.clear();
        true
    }

    /// Sends the batch once. It stays if it is refused.
    fn send_batch(&mut self, timeout: Duration) -> Option<ExportRefusal> {
        if self.batch.is_empty() {
            return None;
        }
        let request = encoding::traces(&self.resource, &self.batch);
        match self.send(TRACES, &request, timeout) {
            Ok(rejected) => {
                let count = self.batch.len() as u64;
                add(&self.counters.spans, count.saturating_sub(rejected));
                add(&self.counters.dropped, rejected.min(count));
                self.batch.clear();
                None
            }
            Err(refusal) => Some(refusal),
        }
    }

    /// Sends all metrics. After a failure the next interval's values contain these, too.
    fn export_metrics(&mut self) {
        self.send_metrics(self.config.timeout);
    }

    fn send_metrics(&mut self, timeout: Duration) {
        let mut page = String::new();
        // Collectors do not fail, and neither does writing to a string.
        if text::encode(&mut page, &self.registry).is_err() {
            return;
        }
        let families = openmetrics::parse(&page);
        let times = (self.started_ns, unix_ns());
        let request = encoding::metrics(&self.resource, &families, times);
        // The outcome is counted and logged.
        let _ = self.send(METRICS, &request, timeout);
    }

    /// Sends a request. Returns the number of spans or data points that the collector has rejected.
    fn send(
        &mut self,
        signal: usize,
        request: &Value,
        timeout: Duration,
    ) -> Result<u64, ExportRefusal> {
        let path = ["/v1/metrics", "/v1/traces"][signal];
        let url = format!("{}{path}", self.config.endpoint);
        let headers = self.config.headers.iter();
        let headers: Vec<_> = headers.map(|(name, value)| (&**name, &**value)).collect();
        let body = request.to_string();
        let response = post_json(&url, &headers, body.as_bytes(), timeout, &self.config.roots);
        let outcome = match response {
            Ok(response) if (200..300).contains(&response.status) => Ok(rejected(&response.body)),
            Ok(response) => Err(ExportRefusal {
                reason: format!("{path} has status {}", response.status),
                may_retry: [429, 502, 503, 504].contains(&response.status),
            }),
            Err(error) => Err(ExportRefusal {
                reason: error.to_string(),
                may_retry: true,
            }),
        };
        self.note(signal, outcome.as_ref().err());
        outcome
    }

    /// Counts an export, and logs the first failure and the end of failures.
    fn note(&mut self, signal: usize, refusal: Option<&ExportRefusal>) {
        let counts = match refusal {
            None => &self.counters.sent,
            Some(_) => &self.counters.failed,
        };
        add(&counts[signal], 1);
        let was_failing = std::mem::replace(&mut self.is_failing, refusal.is_some());
        let endpoint = &self.config.endpoint;
        match refusal {
            Some(refusal) if !was_failing => tracing::warn!(
                collector = %endpoint, error = %refusal.reason,
                "OTLP export failed; further failures are only counted"
            ),
            None if was_failing => tracing::info!(collector = %endpoint, "OTLP export works again"),
            _ => {}
        }
    }

    /// Exports what is left at the end.
    fn finish(&mut self) {
        let room = BATCH_SPANS.saturating_sub(self.batch.len());
        self.batch.extend(self.queue.try_iter().take(room));
        let refused = self.send_batch(LAST_TIMEOUT).is_some();
        let left = if refused { self.batch.len() } else { 0 };
        add(&self.counters.dropped, (left + self.queue.len()) as u64);
        if self.config.metrics_interval.is_some() {
            self.send_metrics(LAST_TIMEOUT);
        }
    }
}

/// Returns the number of rejected spans or data points that a response of success names.
fn rejected(body: &[u8]) -> u64 {
    let response: Value = serde_json::from_slice(body).unwrap_or_else(|_| json!({}));
    let partial = &response["partialSuccess"];
    let counts = ["rejectedSpans", "rejectedDataPoints"].map(|key| &partial[key]);
    // A 64-bit integer is a text, which some collectors write as a number.
    let number = |value: &Value| match value {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    };
    counts.into_iter().find_map(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_spans_are_read() {
        assert_eq!(rejected(b""), 0);
        assert_eq!(rejected(b"{}"), 0);
        assert_eq!(
            rejected(b"{\"partialSuccess\":{\"rejectedSpans\":\"3\"}}"),
            3
        );
        assert_eq!(
            rejected(b"{\"partialSuccess\":{\"rejectedDataPoints\":4}}"),
            4
        );
    }
}
