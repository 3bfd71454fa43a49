//! Regular clients: `weir load` as a child process. Latency is measured from the due time.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_stats::Histogram;

use crate::support::{Process, text, weir};

/// A running `weir load` whose latencies are collected second by second.
pub(crate) struct RegularClients {
    _process: Process,
    seconds: Arc<Mutex<Vec<ClientSecond>>>,
}

/// Deliveries of one second.
struct ClientSecond {
    received: Instant,
    latencies: Histogram,
}

impl RegularClients {
    /// Starts `weir load` with `args` and waits for its first deliveries.
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut command = weir(args);
        command
            .arg("--json")
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut process = Process::spawn(&mut command);
        let output = BufReader::new(process.stdout.take().expect("a pipe"));
        let seconds = Arc::<Mutex<Vec<ClientSecond>>>::default();
        let collected = Arc::clone(&seconds);
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some(latencies) = response_times(&line) {
                    let received = Instant::now();
                    let mut seconds = collected.lock().unwrap_or_else(PoisonError::into_inner);
                    seconds.push(ClientSecond {
                        received,
                        latencies,
                    });
                }
            }
        });
        let regular = Self {
            _process: process,
            seconds,
        };
        let deadline = Instant::now() + START_TIMEOUT;
        while regular.since(None).is_empty() {
            assert!(Instant::now() < deadline, "no deliveries: {args:?}");
            std::thread::sleep(POLL_INTERVAL);
        }
        regular
    }

    /// Returns the latencies of all seconds that were reported after `start`.
    pub(crate) fn since(&self, start: Option<Instant>) -> Histogram {
        let mut all = Histogram::new();
        let seconds = self.seconds.lock().unwrap_or_else(PoisonError::into_inner);
        let after = |second: &&ClientSecond| start.is_none_or(|start| second.received > start);
        for second in seconds.iter().filter(after) {
            all.merge(&second.latencies);
        }
        all
    }

    /// Waits until one whole second after `start` has deliveries with a p99 of at most `bar`;
    /// returns the time that took, `None` after `timeout`.
    pub(crate) fn recovers(
        &self,
        start: Instant,
        bar: Duration,
        timeout: Duration,
    ) -> Option<Duration> {
        while start.elapsed() < timeout {
            let seconds = self.seconds.lock().unwrap_or_else(PoisonError::into_inner);
            // The second in which the attack ended contains deliveries of both phases.
            let later = seconds
                .iter()
                .filter(|second| second.received > start)
                .skip(1);
            let recovered = later
                .filter(|second| !second.latencies.is_empty())
                .find(|second| p99(&second.latencies) <= bar);
            if let Some(second) = recovered {
                return Some(second.received.duration_since(start));
            }
            drop(seconds);
            std::thread::sleep(POLL_INTERVAL);
        }
        None
    }
}

/// Returns the 99th percentile of the response times.
pub(crate) fn p99(latencies: &Histogram) -> Duration {
    Duration::from_nanos(latencies.percentile_ns(99.0).unwrap_or(0))
}

/// Returns the response times of an interval event.
fn response_times(line: &str) -> Option<Histogram> {
    let event: Value = serde_json::from_str(line).ok()?;
    if event["event"] != "interval" || event["tag"] != "response" {
        return None;
    }
    Histogram::from_base64(event["histogram"].as_str()?).ok()
}

/// A running `weir load produce`.
pub(crate) fn producer(bootstrap: &str, topic: &str, rate: &str) -> Process {
    let mut command = weir(&["load", "produce", "--create-topic", "--topic", topic]);
    command.args(["--bootstrap", bootstrap, "--rate", rate, "--size", "200"]);
    command.args(["--max-lag", "1h"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Process::spawn(&mut command)
}

/// Creates a topic with one record in it.
pub(crate) fn create_topic(bootstrap: &str, topic: &str) {
    let mut command = weir(&["load", "produce", "--create-topic", "--topic", topic]);
    command.args(["--bootstrap", bootstrap, "--count", "1"]);
    let output = command.output().expect("weir");
    assert!(output.status.success(), "{}", text(&output.stderr));
}

const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval at which a condition is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
